"""Pending pods by equivalence class, and which classes have no vote.

The scheduler gives a new node to any pod that fits, not to the one it was bought for. So purchases are remembered for
classes of pods that are alike (same controller, same requests and rules), and only two observations take a class its
vote:

- **Refused**: a ready node has room for it by our simulation, and the scheduler refuses it all the same for
  `benefit.refused_after`. It has reasons that we do not model: a claim without a StorageClass, an attach limit.
- **In vain**: nodes that were bought for the class are ready, and not even an empty one of them would take it, though
  the pool's template says so: a taint that does not go away, a label that is not there. More of them would not help.

A mute ends when a pod of the class gets a node, when none waits any more, and after a while in any case
(`benefit.retry_first`, doubling up to `benefit.retry_longest`): then one pod of the class asks for all of them.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import blake2s

from nodefleet.decide.case import Case
from nodefleet.decide.packing import unschedulable
from nodefleet.decide.pool_packing import Packing
from nodefleet.decide.scheduling.fits import why_not
from nodefleet.decide.scheduling.places import NodeModel
from nodefleet.decide.scheduling.templates import Template
from nodefleet.domain.fleet import Phase, Worker
from nodefleet.domain.memory import PendingClass
from nodefleet.domain.policy import Benefit
from nodefleet.domain.policy.settings import doubled
from nodefleet.domain.workload import Pod, Rules


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """One observation's pending pods, by class; within a class the longest waiting first."""

    by_class: Mapping[str, Sequence[Pod]] = field(default_factory=dict)
    bound: Mapping[str, str] = field(default_factory=dict)  # by class: a digest of its controller's pods with a node

    @classmethod
    def of(cls, pods: Iterable[Pod]) -> "Pending":
        pods = tuple(pods)
        waiting = sorted(unschedulable(pods), key=lambda pod: (str(pod.unschedulable_since), pod.key))
        named = _Names()
        by_class: dict[str, list[Pod]] = defaultdict(list)
        for pod in waiting:
            by_class[named.of(pod)].append(pod)
        if not waiting:
            return cls()
        running: dict[str, list[str]] = {_controller(pod): [] for pod in waiting}
        for pod in pods:
            if pod.node is not None and not pod.finished and (known := running.get(_controller(pod))) is not None:
                known.append(pod.uid)
        bound = {name: _digest(sorted(running[_controller(alike[0])])) for name, alike in by_class.items()}
        return cls(by_class=by_class, bound=bound)

    def uids(self, names: Iterable[str]) -> frozenset[str]:
        return frozenset(pod.uid for name in names for pod in self.by_class.get(name, ()))

    def classes_of(self, uids: Iterable[str]) -> list[str]:
        wanted = frozenset(uids)
        return [name for name, pods in self.by_class.items() if any(pod.uid in wanted for pod in pods)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Muted:
    """A class that has just lost its vote."""

    name: str
    pods: tuple[Pod, ...]
    in_vain: str = ""  # why no new node takes it; else the scheduler refuses it

    @property
    def workload(self) -> str:
        """The controller of its pods, a name that stays."""
        return self.name.split("#")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingVotes:
    """Who may speak for one pool."""

    classes: tuple[PendingClass, ...] = ()
    silent: frozenset[str] = frozenset()  # uids of pods without a vote
    held: frozenset[str] = frozenset()  # uids of pods whose new nodes are ready, but perhaps not set up yet
    newly: tuple[Muted, ...] = ()

    def bought(self, names: Iterable[str], now: datetime, most: int) -> tuple[PendingClass, ...]:
        """What is remembered after nodes were bought for these classes."""
        known = {each.name: each for each in self.classes}
        for name in names:
            before = known.get(name) or PendingClass(name=name)
            known[name] = replace(before, bought_at=now, purchases=before.purchases + 1)
        return _compact(known.values(), most)

    def room_is_new(self, this: Case) -> bool:
        """A ready node has had room for less than an interval: the scheduler is about to use it."""
        since = [each.room_since for each in self.classes if each.room_since]
        return any(this.seen.at - each < this.policy.interval for each in since)


def before_packing(this: Case, pending: Pending, templates: Sequence[Template]) -> PendingVotes:
    """What the memory and the nodes that have come say about the classes that wait."""
    now, rules = this.seen.at, this.pool.benefit
    kept, newly, held = [], [], set[str]()
    for record in this.before.pending:
        if record.name not in pending.by_class:
            continue
        pods, each = pending.by_class[record.name], _revised(record, pending.bound[record.name], now)
        reason = _in_vain(this, pods[0], each, templates) if _asks(each, now) and each.bought_at else None
        if reason and each.bought_at and 0 < rules.pods <= each.purchases:
            if now - each.bought_at < this.pool.health.join_limit:
                held |= {pod.uid for pod in pods}
            else:
                each = _muted(each, rules, now)
                newly.append(Muted(name=each.name, pods=tuple(pods), in_vain=reason))
        kept.append(each)
    silent = frozenset(uid for each in kept for uid in _without_vote(each, pending.by_class[each.name], now))
    return PendingVotes(classes=tuple(kept), silent=silent, held=frozenset(held) - silent, newly=tuple(newly))


def after_packing(votes: PendingVotes, this: Case, pending: Pending, packing: Packing) -> PendingVotes:
    """The same, with what our simulation of the scheduler says about the ready nodes."""
    now, rules = this.seen.at, this.pool.benefit
    with_room = frozenset(pending.classes_of(packing.on_ready))
    known = {each.name: each for each in votes.classes}
    newly, silent = list(votes.newly), set(votes.silent)
    for name in {*known, *with_room}:
        each = known.get(name) or PendingClass(name=name, bound=pending.bound[name])
        if name not in with_room:
            known[name] = replace(each, room_since=None)
            continue
        pods = pending.by_class[name]
        known[name] = each = replace(each, room_since=each.room_since or now)
        waited = min(now - _earliest(pods, now), now - (each.room_since or now))
        if waited >= rules.refused_after:
            known[name] = _muted(each, rules, now)
            newly.append(Muted(name=name, pods=tuple(pods)))
            silent |= {pod.uid for pod in pods}
    return replace(votes, classes=_compact(known.values(), rules.classes), silent=frozenset(silent), newly=tuple(newly))


def used_otherwise(votes: PendingVotes, this: Case) -> bool:
    """Nodes that were bought for a class that still asks are there: others have taken their places."""
    joined = [since for worker in this.workers if (since := _ready_since(worker))]
    if this.count.booting or not joined:
        return False
    asking = [each for each in votes.classes if _asks(each, this.seen.at)]
    return any(each.bought_at is not None and max(joined) >= each.bought_at for each in asking)


# ── one class ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _asks(each: PendingClass, now: datetime) -> bool:
    return each.muted_until is None or each.muted_until <= now


def _revised(each: PendingClass, bound: str, now: datetime) -> PendingClass:
    """Without what is over: a pod of the class got a node, or its time without a vote has passed."""
    if each.bound != bound:
        return replace(each, bound=bound, room_since=None, muted_until=None, mutes=0)
    if each.muted_until is not None and each.muted_until <= now:
        return replace(each, room_since=None, muted_until=None)
    return each


def _muted(each: PendingClass, rules: Benefit, now: datetime) -> PendingClass:
    pause = doubled(rules.retry_first, each.mutes, rules.retry_longest)
    return replace(each, room_since=None, muted_until=now + pause, mutes=each.mutes + 1)


def _without_vote(each: PendingClass, pods: Sequence[Pod], now: datetime) -> list[str]:
    """All of a class that is muted; of one that tries again all but the first."""
    if not _asks(each, now):
        return [pod.uid for pod in pods]
    return [pod.uid for pod in pods[1:]] if each.mutes else []


def _compact(classes: Iterable[PendingClass], most: int) -> tuple[PendingClass, ...]:
    """What has to be remembered, muted classes first, if there are too many of them."""
    telling = [each for each in classes if each.bought_at or each.room_since or each.muted_until or each.mutes]
    first = sorted(telling, key=lambda each: (each.muted_until is None, each.bought_at is None, each.name))
    return tuple(sorted(first[:most], key=lambda each: each.name))


def _in_vain(this: Case, pod: Pod, each: PendingClass, templates: Sequence[Template]) -> str | None:
    """Why not even an empty one of the nodes that have come since would take it, though the template says so."""
    held = {(template.type, template.zone) for template in templates if template.can_hold(pod)}
    reasons = []
    for worker in this.workers:
        since = _ready_since(worker)
        if since is None or worker.node is None or worker.instance is None or worker.node.cordoned:
            continue
        if (worker.instance.type, worker.zone) in held and each.bought_at is not None and since >= each.bought_at:
            node = worker.node
            # How much it holds is no question: the template is as small as the smallest node that has joined.
            reasons.append((node.name, why_not(pod, NodeModel(name=node.name, labels=node.labels, taints=node.taints))))
    if not reasons or any(reason is None for _, reason in reasons):
        return None
    name, reason = reasons[0]
    return f"{name}: {reason}"


def _ready_since(worker: Worker) -> datetime | None:
    node = worker.node
    return node.ready_changed_at if worker.phase is Phase.READY and node is not None else None


def _earliest(pods: Iterable[Pod], now: datetime) -> datetime:
    return min((pod.unschedulable_since for pod in pods if pod.unschedulable_since), default=now)


# ── names ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Names:
    """Names of classes. Pods of one template share their rules, which are written out once."""

    def __init__(self) -> None:
        self._written: dict[int, tuple[Rules, str]] = {}

    def of(self, pod: Pod) -> str:
        asked = pod.requests
        sizes = (asked.cpu, asked.memory, asked.storage, sorted(asked.extended.items()))
        volumes = [(volume.kind.value, volume.zones, volume.node) for volume in pod.volumes]
        return f"{_controller(pod)}#{_digest([str(sizes), str(volumes), self._rules(pod.rules), str(pod.priority)])}"

    def _rules(self, rules: Rules) -> str:
        if id(rules) not in self._written:
            self._written[id(rules)] = (rules, repr(rules))  # kept, so that the id is not given to other rules
        return self._written[id(rules)][1]


def _controller(pod: Pod) -> str:
    owner = pod.owner
    return f"{pod.namespace}/{owner.kind}/{owner.name}" if owner else f"{pod.namespace}/Pod/{pod.name}"


def _digest(parts: Iterable[str]) -> str:
    return blake2s("\n".join(parts).encode(), digest_size=4).hexdigest()

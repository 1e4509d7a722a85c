"""The pending-pods signal: which unschedulable pods have a vote, and how many nodes they ask for.

With `steps.pending: packing` as many as they would fill, at once: booting nodes count as capacity, so nothing is
bought twice, and a cooldown would save nothing.

With `steps.pending: steps` (seed 001), one node more than the ready ones; two when many pods wait, or when pods wait
while the CPU is busy. The growth cooldown holds.
With pod objects packing has a say too: never more nodes than the pods would fill, and none if they will fit on what
boots. With only a count the step rule stands alone. Pods count at once: every minute they wait is an outage for
someone.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import blake2s

from nodefleet.capacity import FleetSize, lacks_devices
from nodefleet.engine.context import PlacementRequest, PoolContext, UnschedulableCount, workload_of
from nodefleet.engine.signals.vote import ScaleDownOk, ScaleUp, SignalVote, Vote, WithinThresholds
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import BoundSource
from nodefleet.model.fleet import Phase, Worker
from nodefleet.model.names import percent, pluralize, some
from nodefleet.model.operations import SendAlert
from nodefleet.model.snapshot import ClusterView
from nodefleet.model.state import PendingClass
from nodefleet.model.workload import Pod, Rules
from nodefleet.policy.fields import doubled_pause
from nodefleet.policy.pool import Benefit, Pool
from nodefleet.scheduling.packing import PackingResult, list_unschedulable
from nodefleet.scheduling.pool_packing import NewNode, Packing
from nodefleet.scheduling.predicates import NodeModel, unmet_predicate
from nodefleet.scheduling.templates import Template
from nodefleet.scheduling.topology import lacks_domain

# ── the vote ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def evaluate_pending(waiting: UnschedulableCount, fleet_size: FleetSize, pool: Pool, cpu: float | None) -> SignalVote:
    return SignalVote(
        signal=BoundSource.PODS.value, vote=_pending_vote(waiting, fleet_size, pool, cpu), value=float(waiting.count)
    )


def immediate_size(vote: SignalVote, waiting: UnschedulableCount, pool: Pool) -> int | None:
    """The size that pending pods ask for and that does not wait for the growth cooldown; none if it does."""
    sized = pool.steps.pending == "packing" and waiting.nodes is not None
    return vote.vote.nodes if sized and isinstance(vote.vote, ScaleUp) else None


def _pending_vote(waiting: UnschedulableCount, fleet_size: FleetSize, pool: Pool, cpu: float | None) -> Vote:
    if waiting.count == 0:
        ignored = f" ({waiting.without_vote} without a vote)" if waiting.without_vote else ""
        return ScaleDownOk(reason=f"0 pods unschedulable{ignored}")
    step, why = _pending_step(waiting.count, pool, cpu)
    by_step = fleet_size.covered + step
    sentence = f"{pluralize(waiting.count, 'pod', 'pods')} unschedulable{why}"
    added = f"{fleet_size.covered} + {step} {'node' if by_step == 1 else 'nodes'}"
    if waiting.nodes is None:
        return ScaleUp(nodes=by_step, reason=f"{sentence}: {added}")
    if waiting.nodes == 0:
        room = f"room for {'it' if waiting.count == 1 else 'all'} on {pluralize(fleet_size.capacity, 'node', 'nodes')}"
        return WithinThresholds(f"{sentence}, but {room}, booting ones included")
    by_packing = fleet_size.capacity + waiting.nodes
    need = "it needs" if waiting.count == 1 else "they need"
    needed = f"{need} {pluralize(waiting.nodes, 'new node', 'new nodes')}"
    if pool.steps.pending == "packing":
        return ScaleUp(nodes=by_packing, reason=f"{sentence}: {needed} beside {fleet_size.capacity}")
    beside = "" if fleet_size.capacity == fleet_size.covered else f" beside {fleet_size.capacity}"
    reason = f"{sentence}: {added}, {needed}{beside}"
    return ScaleUp(nodes=min(by_step, by_packing), reason=reason)


def _pending_step(count: int, pool: Pool, cpu: float | None) -> tuple[int, str]:
    many, busy = pool.reactive.many_pods, pool.reactive.cpu.up
    if cpu is not None and cpu > busy:
        return pool.steps.urgent, f" while CPU {percent(cpu, busy)} > {busy:g} %"
    if count > many:
        return pool.steps.urgent, f" (more than {many})"
    return pool.steps.up, ""


# ── equivalence classes of pending pods ──────────────────────────────────────────────────────────────────────────────
# Pending pods by equivalence class, and which classes have no vote.
#
# The scheduler gives a new node to any pod that fits, not to the one it was bought for. So purchases are remembered for
# classes of pods that are alike (same controller, same requests and rules), and only two observations take a class its
# vote:
#
# - **Refused**: a ready node has room for it by our simulation, and the scheduler refuses it all the same for
#   `benefit.refused_after`. It has reasons that we do not model: a claim without a StorageClass, an attach limit.
# - **In vain**: nodes that were bought for the class are ready, and not even an empty one of them would take it, though
#   the pool's template says so: a taint that does not go away, a label that is not there. More of them would not help.
#
# A mute ends when a pod of the class gets a node, when none waits any more, and after a while in any case
# (`benefit.retry_first`, doubling up to `benefit.retry_longest`): then one pod of the class asks for all of them.


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingIndex:
    """One observation's pending pods, by class; within a class the longest waiting first."""

    by_class: Mapping[str, Sequence[Pod]] = field(default_factory=dict)
    bound: Mapping[str, str] = field(default_factory=dict)  # by class: a digest of its controller's pods with a node

    @classmethod
    def of(cls, pods: Iterable[Pod]) -> "PendingIndex":
        pods = tuple(pods)
        waiting = sorted(list_unschedulable(pods), key=lambda pod: (str(pod.unschedulable_since), pod.key))
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
class MutedClass:
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
    newly: tuple[MutedClass, ...] = ()

    def record_purchase(self, names: Iterable[str], now: datetime, most: int) -> tuple[PendingClass, ...]:
        """What is remembered after nodes were bought for these classes."""
        known = {each.name: each for each in self.classes}
        for name in names:
            before = known.get(name) or PendingClass(name=name)
            known[name] = replace(before, bought_at=now, purchases=before.purchases + 1)
        return _compact(known.values(), most)

    def room_is_new(self, ctx: PoolContext) -> bool:
        """A ready node has had room for less than an interval: the scheduler is about to use it."""
        since = [each.room_since for each in self.classes if each.room_since]
        return any(ctx.observation.at - each < ctx.policy.interval for each in since)


def before_packing(ctx: PoolContext, pending: PendingIndex, templates: Sequence[Template]) -> PendingVotes:
    """What the memory and the nodes that have come say about the classes that wait."""
    now, rules = ctx.observation.at, ctx.pool.benefit
    kept, newly, held = [], [], set[str]()
    for record in ctx.before.pending:
        if record.name not in pending.by_class:
            continue
        pods, each = pending.by_class[record.name], _revise_class(record, pending.bound[record.name], now)
        reason = _in_vain(ctx, pods[0], each, templates) if _asks(each, now) and each.bought_at else None
        if reason and each.bought_at and 0 < rules.pods <= each.purchases:
            if now - each.bought_at < ctx.pool.health.join_limit:
                held |= {pod.uid for pod in pods}
            else:
                each = _mute_class(each, rules, now)
                newly.append(MutedClass(name=each.name, pods=tuple(pods), in_vain=reason))
        kept.append(each)
    silent = frozenset(uid for each in kept for uid in _without_vote(each, pending.by_class[each.name], now))
    return PendingVotes(classes=tuple(kept), silent=silent, held=frozenset(held) - silent, newly=tuple(newly))


def after_packing(votes: PendingVotes, ctx: PoolContext, pending: PendingIndex, packing: Packing) -> PendingVotes:
    """The same, with what our simulation of the scheduler says about the ready nodes."""
    now, rules = ctx.observation.at, ctx.pool.benefit
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
            known[name] = _mute_class(each, rules, now)
            newly.append(MutedClass(name=name, pods=tuple(pods)))
            silent |= {pod.uid for pod in pods}
    return replace(votes, classes=_compact(known.values(), rules.classes), silent=frozenset(silent), newly=tuple(newly))


def used_otherwise(votes: PendingVotes, ctx: PoolContext) -> bool:
    """Nodes that were bought for a class that still asks are there: others have taken their places."""
    joined = [since for worker in ctx.workers if (since := _ready_since(worker))]
    if ctx.count.booting or not joined:
        return False
    asking = [each for each in votes.classes if _asks(each, ctx.observation.at)]
    return any(each.bought_at is not None and max(joined) >= each.bought_at for each in asking)


# ── one class ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _asks(each: PendingClass, now: datetime) -> bool:
    return each.muted_until is None or each.muted_until <= now


def _revise_class(each: PendingClass, bound: str, now: datetime) -> PendingClass:
    """Without what is over: a pod of the class got a node, or its time without a vote has passed."""
    if each.bound != bound:
        return replace(each, bound=bound, room_since=None, muted_until=None, mutes=0)
    if each.muted_until is not None and each.muted_until <= now:
        return replace(each, room_since=None, muted_until=None)
    return each


def _mute_class(each: PendingClass, rules: Benefit, now: datetime) -> PendingClass:
    pause = doubled_pause(rules.retry_first, each.mutes, rules.retry_longest)
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


def _in_vain(ctx: PoolContext, pod: Pod, each: PendingClass, templates: Sequence[Template]) -> str | None:
    """Why not even an empty one of the nodes that have come since would take it, though the template says so."""
    held = {(each.type, each.zone, each.market) for each in templates if each.can_hold(pod)}
    reasons = []
    for worker in ctx.workers:
        since = _ready_since(worker)
        if since is None or worker.node is None or worker.instance is None or worker.node.cordoned:
            continue
        alike = {(worker.instance.type, worker.zone, market) for market in (None, worker.instance.market)}
        if alike & held and each.bought_at is not None and since >= each.bought_at:
            node = worker.node
            # How much it holds is no question: the template is as small as the smallest node that has joined, but
            # for devices, which the catalogue promises.
            model = NodeModel(name=node.name, labels=node.labels, taints=node.taints)
            lacking = lacks_devices(pod, node, ctx.pool, ctx.observation.at)
            unmet = unmet_predicate(pod, model) or lacks_domain(pod.rules, node.labels)
            reasons.append((node.name, unmet or lacking))
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


# ── pending pods of one pool ─────────────────────────────────────────────────────────────────────────────────────────
# The pods that wait for one pool: which of them have a vote, what they would fill, and whom to tell about the rest.


NO_VOTES = PendingVotes()


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingPods:
    unschedulable: UnschedulableCount
    votes: PendingVotes = NO_VOTES
    pending: PendingIndex = field(default_factory=PendingIndex)
    new: tuple[NewNode, ...] = ()  # nodes that they would fill
    alerts: tuple[SendAlert, ...] = ()

    def asks(self, nodes: int) -> tuple[PlacementRequest, ...]:
        """What the pods need of the first so many new nodes."""
        return tuple(
            PlacementRequest(
                zones=new.zones, types=(types := new.types), preferred=new.prefer(types), market=new.market
            )
            for new in self.new[:nodes]
        )

    def record_purchase(self, nodes: int, now: datetime, most: int) -> tuple[PendingClass, ...]:
        """What is remembered after the first so many new nodes were bought: `most` classes."""
        served = [pod.uid for new in self.new[:nodes] for pod in new.pods]
        return self.votes.record_purchase(self.pending.classes_of(served), now, most)


def collect_pending(
    ctx: PoolContext, packings: PackingResult | None, pending: PendingIndex, votes: PendingVotes = NO_VOTES
) -> PendingPods:
    name, view = ctx.pool.name, ctx.observation.kubernetes
    if packings is None:
        count = view.unschedulable.get(name, 0) if isinstance(view, ClusterView) else 0
        return PendingPods(unschedulable=UnschedulableCount(count=count))
    packing = packings.by_pool[name]
    return PendingPods(
        unschedulable=UnschedulableCount(
            count=len(packing.placed) + len(packing.bought_for) + len(votes.held),
            nodes=None if packing.unknown else packing.nodes,
            without_vote=len(votes.silent) + len(packing.cannot_hold),
        ),
        votes=votes,
        pending=pending,
        # Nodes of pods with the highest priority first, otherwise as they were: under a limit the others wait.
        new=tuple(sorted(packing.new, key=lambda node: -node.priority)),
        alerts=(*_no_vote(ctx, votes.newly), *alert_unplaceable(packing.cannot_hold, name)),
    )


def alert_unplaceable(pods: Iterable[tuple[str, str]], pool: str) -> list[SendAlert]:
    """Pods that no node would help: operators have to."""
    found = list(pods)
    if not found:
        return []
    listed = [f"{key}: {why}" for key, why in found]
    workloads = tuple(sorted({workload_of(key) for key, _ in found}))
    fit = pluralize(len(listed), "pod fits", "pods fit")
    text = f"{fit} on no node that could be launched; {some(listed, '; ')}. Change the pods or the pool."
    return [SendAlert(alert=AlertKind.CANNOT_HOLD, pool=pool, subjects=workloads, text=text)]


def _no_vote(ctx: PoolContext, newly: Sequence[MutedClass]) -> list[SendAlert]:
    """One alert for each class, with the names of its pods: an operator has to look at them."""
    return [
        SendAlert(alert=AlertKind.PODS_REFUSED, pool=ctx.pool.name, subjects=(each.workload,), text=_why_no_vote(each))
        for each in newly
    ]


def _why_no_vote(muted: MutedClass) -> str:
    names = some(pod.key for pod in muted.pods)
    wait = pluralize(len(muted.pods), "pod waits", "pods wait")
    them = "it" if len(muted.pods) == 1 else "them"
    if muted.in_vain:
        return (
            f"{wait} ({names}) and the nodes that were bought for {them} do not take {them}; {muted.in_vain}."
            f" No more nodes are bought for {them} for now."
        )
    said = next((pod.unschedulable_message for pod in muted.pods if pod.unschedulable_message), "nothing")
    neither = "It neither buys nodes nor keeps" if len(muted.pods) == 1 else "They neither buy nodes nor keep"
    return (
        f"{wait} ({names}) though a ready node has room for {them} as far as can be told. The scheduler says: {said}"
        f"{'' if said.endswith('.') else '.'} {neither} any for now."
    )

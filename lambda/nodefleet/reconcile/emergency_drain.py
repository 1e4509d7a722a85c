"""What EC2 takes does not wait for the lease.

The notices are recorded and whoever holds the lease is woken; then all of their nodes are cordoned, and only then pods
are evicted. That is safe to do twice, so it may happen beside the holder of the lease and even while nothing can be
recorded. Launching the replacement does wait for the lease: this run takes it if it can, before or beside the
evictions. Whatever the run raises, draining goes on; it is raised at the end.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TypeVar

from nodefleet.engine.disruption.interruption import force_from, reason_of
from nodefleet.errors import ChangedError, NodeFleetError
from nodefleet.model.inventory import Node, Notice, NoticeKind
from nodefleet.model.operations import Cordon, Evict, ForceDelete, PodRef, Removal, RemovalReason, Step
from nodefleet.model.readings import Missing
from nodefleet.model.snapshot import ClusterView, Observation, emergency, notice_in
from nodefleet.model.state import Level
from nodefleet.model.workload import Pod
from nodefleet.operations.advance import advance
from nodefleet.phases import in_force, is_false_alarm, is_imminent, taken_at
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Pool
from nodefleet.ports import Eviction, EvictionOutcome, Runtime
from nodefleet.reconcile.executor import OutOfTimeError, note, try_each
from nodefleet.reconcile.policy_source import resolve_policy
from nodefleet.reconcile.run import RunResult, run

_NOT_ASKED = Missing("not asked: EC2 takes these anyway")
_UNKNOWN = -1
_ON_ITS_WAY = (Eviction.EVICTED, Eviction.GONE)
_AWAY = 3  # records that fail: then it is the table, and the rest is tried later

A = TypeVar("A")
B = TypeVar("B")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainReport:
    """How far the nodes are that EC2 takes."""

    to_ask: int = 0  # pods that could not be asked to go yet; below zero: not known
    refused: int = 0  # pods that their budgets hold
    left: int = 0  # pods that are still there
    taken_over: bool = False  # all of these nodes carry the removals of whoever has the lease

    @property
    def asked(self) -> bool:
        return self.to_ask == 0

    @property
    def done(self) -> bool:
        return self.asked and self.left == 0


def drain_interrupted(parts: Runtime, notices: Sequence[Notice], *, owner: str) -> RunResult:
    """All that can be done about these notices. Raises at the end if they could not be recorded or the run failed, so
    that they come again."""
    began = parts.time.now()
    known = _read_known(parts)
    unrecorded: tuple[Notice, ...] = tuple(notices)
    woken = False
    while True:
        urgent = _urgent(notices, known, parts.time.now())
        if known.notices is None and len(urgent) < len(notices):  # a warning waits for no table, which may hang
            known = _read_known(parts)
            urgent = _urgent(notices, known, parts.time.now())
        policy = known.policy
        error: Exception | None = None
        leaving: list[_InterruptedNode] | None
        if unrecorded or not woken:  # a table that hangs must not keep the nodes from being cordoned
            (unrecorded, error), leaving = _both(
                parts, partial(_record, parts, unrecorded), partial(_cordon, parts, urgent, known, began)
            )
            woken = error is None
        else:
            leaving = _cordon(parts, urgent, known, began)
        ran: RunResult | None = None
        if error and unrecorded == tuple(notices):  # the table is away: a run could not begin
            drained = _drain(parts, leaving, policy)
        else:
            (ran, failure), drained = _both(parts, partial(_run, parts, owner), partial(_drain, parts, leaving, policy))
            error = failure or error
        if error:
            parts.telemetry.warn(f"Draining goes on in spite of: {error}")
        if ran and not error and _is_enough(ran, drained):
            return ran
        pause = policy.burst.every
        if (error and drained.done) or parts.time.remaining() < pause + policy.burst.reserve:
            break
        parts.time.sleep(pause)
    if error:
        raise error
    return ran or RunResult()


def _both(parts: Runtime, first: Callable[[], A], second: Callable[[], B]) -> tuple[A, B]:
    """One beside the other; a fault of our own in either is raised when both are over."""
    results = parts.together(first, second)
    for result in results:
        if isinstance(result, Exception):
            raise result
    one, other = results
    return one, other


def _run(parts: Runtime, owner: str) -> tuple[RunResult | None, Exception | None]:
    """The run, or why it failed: draining goes on whatever it raises, even a fault of our own."""
    try:
        return run(parts, owner=owner), None
    except Exception as error:  # noqa: BLE001  # raised at the end
        return None, error


def _is_enough(ran: RunResult, drained: DrainReport) -> bool:
    """Whoever holds the lease was woken and goes on with what was begun here: it is enough that every pod is going, or
    that the nodes show that it has taken them over. A run that had the lease and could see drains itself; one that
    misses EC2 or Kubernetes does nothing."""
    if ran.held:
        return drained.asked and (drained.refused == 0 or drained.taken_over)
    return drained.done or (ran.decision is not None and ran.decision.level is not Level.PARTIAL)


def _record(parts: Runtime, notices: Sequence[Notice]) -> tuple[tuple[Notice, ...], NodeFleetError | None]:
    """Record, then wake: whoever looks after the wake sees what was recorded. Gives what could not be recorded."""
    errors: list[NodeFleetError] = []

    def record(notice: Notice) -> None:
        if len(errors) >= _AWAY:
            raise errors[0]
        try:
            parts.store.record(notice)
        except NodeFleetError as error:
            errors.append(error)
            raise

    results = try_each(parts, notices, record)
    failed = {notice: error for notice, error in results if isinstance(error, NodeFleetError)}
    error = next(iter(failed.values()), None)
    if len(failed) < len(notices) or not notices:
        try:
            parts.store.wake()
        except NodeFleetError as problem:
            error = error or problem
    if error:
        parts.telemetry.warn(f"{len(failed)} of {len(notices)} notices could not be recorded, draining anyway: {error}")
    return tuple(failed), error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What the table says. While it does not answer, the default policy says how to drain."""

    policy: Policy = field(default_factory=Policy)
    notices: tuple[Notice, ...] | None = None  # recorded before; none: the table does not answer
    begun: Mapping[str, datetime] = field(default_factory=dict)  # open removals: by instance, when each began


def _read_known(parts: Runtime) -> _Known:
    try:
        state = parts.store.state()
        policy = resolve_policy(state, parts.policies, parts.time.now()).policy
    except NodeFleetError:
        return _Known()
    begun = {each.instance: each.started for each in state.operations if isinstance(each, Removal)}
    return _Known(policy=policy, notices=state.notices, begun=begun)


def _urgent(notices: Sequence[Notice], known: _Known, now: datetime) -> list[Notice]:
    """Notices whose nodes are drained without waiting for the lease. One that comes late, or again, may be withdrawn
    already: while the table does not say so, a scheduled change waits for as long as a drain leaves time."""
    recorded, pools = known.notices, known.policy.pools
    holds = in_force((*(recorded or ()), *notices))
    drained_in = max((pool.removal.drain_timeout for pool in pools), default=Pool().removal.drain_timeout)

    def can_wait(notice: Notice) -> bool:
        return notice.kind is NoticeKind.SCHEDULED_CHANGE and notice.at - now > drained_in

    return [
        notice
        for notice in notices
        if notice in holds and notice.kind is not NoticeKind.REBALANCE and not (recorded is None and can_wait(notice))
    ]


# ── the nodes ────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class _InterruptedNode:
    """A node that EC2 takes, and what is done about it."""

    node: Node
    removal: Removal
    cordoned: bool = False  # just now, by us


def _cordon(parts: Runtime, notices: Sequence[Notice], known: _Known, began: datetime) -> list[_InterruptedNode] | None:
    """Cordon all nodes of these notices, whatever goes wrong with some. None if not even the nodes are known."""
    if not notices:
        return []
    now = parts.time.now()
    try:
        nodes = parts.cluster.nodes()
    except NodeFleetError as error:
        parts.telemetry.warn(f"The interrupted nodes could not be cordoned yet: {error}")
        return None
    removals = _removals(nodes, notices, known, now, began)
    leaving = [_InterruptedNode(node=node, removal=removal) for node, removal in removals]
    steps = [(each, _steps(each, (), known.policy, now)) for each in leaving]
    wanted = [(each, step) for each, of_each in steps for step in of_each if isinstance(step, Cordon)]
    done = set()
    for (each, _), problem in try_each(parts, wanted, lambda it: parts.cluster.cordon(it[1], it[0].removal.instance)):
        if isinstance(problem, NodeFleetError):
            _report(parts, each.node.name, "cordoned", problem)
        else:
            done.add(each.removal.instance)
    return [_mark_cordoned(each) if each.removal.instance in done else each for each in leaving]


def _mark_cordoned(leaving: _InterruptedNode) -> _InterruptedNode:
    node = replace(leaving.node, cordoned=True, removal=leaving.removal.id)
    return replace(leaving, node=node, cordoned=True)


def _drain(parts: Runtime, leaving: Sequence[_InterruptedNode] | None, policy: Policy) -> DrainReport:
    """Ask every pod of these nodes to go that may go, once. Budgets have their say when the API server is asked."""
    if leaving is None:
        return DrainReport(to_ask=_UNKNOWN)
    read = try_each(parts, leaving, lambda each: parts.cluster.pods_on(each.node.name, brief=True))
    evict: list[PodRef] = []
    force: list[PodRef] = []
    unread = staying = left = 0
    for each, pods in read:
        if isinstance(pods, NodeFleetError):
            unread += 1
            _report(parts, each.node.name, "drained", pods)
            continue
        movable = [pod for pod in pods if pod.movable]
        left += len(movable)
        staying += sum(pod.deleted_at is None for pod in movable)
        for step in _steps(each, pods, policy, parts.time.now()):
            if isinstance(step, Evict):
                evict += step.pods
            if isinstance(step, ForceDelete):
                force += step.pods
    evictions = _ask(parts, evict, policy, parts.cluster.evict, "evicted")
    failed = _count_failed([*evictions, *_ask(parts, force, policy, parts.cluster.delete_pod, "deleted by force")])
    refused = sum(isinstance(each, EvictionOutcome) and each.result not in _ON_ITS_WAY for each in evictions)
    for each in leaving:
        if each.cordoned:
            note(parts, each.node.name, "NodeFleetLeaving", f"leaves: {each.removal.reason}", warning=True)
    to_ask = max(0, staying - len(evict) - len(force)) + failed
    return DrainReport(
        to_ask=_UNKNOWN if unread else to_ask,
        refused=refused,
        left=left,
        taken_over=all(each.node.removal and not notice_in(each.node.removal) for each in leaving),
    )


def _removals(
    nodes: Sequence[Node], notices: Sequence[Notice], known: _Known, now: datetime, began: datetime
) -> list[tuple[Node, Removal]]:
    by_instance = {node.instance: node for node in nodes if node.instance}
    found: dict[str, tuple[Node, Removal]] = {}
    for notice in notices:
        node = by_instance.get(notice.instance)
        if node is None or node.pool is None or node.control_plane:
            continue
        rules = known.policy.pool(node.pool) or Pool(name=node.pool)
        # A change that is days away, like a recommendation, is for the run to decide about.
        imminent = is_imminent(notice, rules, now) and not is_false_alarm(notice, rules, now)
        if imminent and not rules.dry_run:
            started = known.begun.get(notice.instance, began)
            found.setdefault(node.name, (node, _removal(node, notice, rules, started)))
    return list(found.values())


def _removal(node: Node, notice: Notice, rules: Pool, started: datetime) -> Removal:
    """Under the id that the node carries already, if the holder of the lease was quicker. It begins when the removal in
    the table did, or this drain: pods that tolerate the taint and come back since then are not evicted again."""
    begun = node.removal if node.removal and not notice_in(node.removal) else ""
    return Removal(
        id=begun or emergency(notice),
        pool=rules.name,
        instance=notice.instance,
        node=node.name,
        why=RemovalReason.INTERRUPTED,
        reason=reason_of(notice),
        started=started,
        deadline=taken_at(notice, rules),
        force_from=force_from(notice, rules),
        forced=True,  # the run that has the lease tells operators
    )


# ── the pods ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _steps(leaving: _InterruptedNode, pods: tuple[Pod, ...], policy: Policy, now: datetime) -> tuple[Step, ...]:
    seen = Observation(
        at=now,
        instances=_NOT_ASKED,
        kubernetes=ClusterView(nodes=(leaving.node,), pods=pods),
        operations=(leaving.removal,),
    )
    return advance(leaving.removal, seen, policy).steps


def _ask(
    parts: Runtime, pods: Sequence[PodRef], policy: Policy, call: Callable[[PodRef], R], what: str
) -> list[R | NodeFleetError]:
    """What came of each. Errors are reported when all were asked."""
    results = try_each(parts, pods, lambda pod: _in_time(parts, policy, call, pod))
    for pod, result in results:
        if isinstance(result, NodeFleetError):
            _report(parts, f"{pod.namespace}/{pod.name}", what, result)
    return [result for _, result in results]


def _count_failed(results: Sequence[object]) -> int:
    return sum(isinstance(each, NodeFleetError) and not isinstance(each, ChangedError) for each in results)


def _in_time(parts: Runtime, policy: Policy, call: Callable[[PodRef], R], pod: PodRef) -> R:
    if parts.time.remaining() < policy.burst.reserve:
        raise OutOfTimeError("there is no time left for it")
    return call(pod)


def _report(parts: Runtime, subject: str, what: str, error: NodeFleetError) -> None:
    if isinstance(error, ChangedError | OutOfTimeError):
        parts.telemetry.line(f"{subject} is not {what}: {error}")
    else:
        parts.telemetry.warn(f"{subject} could not be {what} yet: {error}")

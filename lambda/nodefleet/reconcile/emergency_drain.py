"""Emergency drain: nodes that EC2 interrupts are drained without waiting for the lease.

The notices are recorded and the lease holder is woken, beside that all interrupted nodes are cordoned, and only then
their pods are evicted. These steps are safe to repeat, so they may run beside the lease holder, and even while the
table cannot be written. Launching replacements does need the lease: a run that tries to acquire it works beside the
evictions. If that run fails, draining continues and the error is raised at the end.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TypeVar

from nodefleet.engine.disruption.interruption import force_from
from nodefleet.errors import ChangedError, NodeFleetError
from nodefleet.model.inventory import Node, Notice, NoticeKind
from nodefleet.model.names import pluralize
from nodefleet.model.operations import Cordon, Evict, ForceDelete, PodRef, Removal, RemovalReason, Step
from nodefleet.model.snapshot import ClusterView, Missing, Observation, emergency, notice_in
from nodefleet.model.state import Level
from nodefleet.model.workload import Pod
from nodefleet.operations.advance import advance
from nodefleet.phases import in_force, is_false_alarm, is_imminent, nodes_by_instance, taken_at
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Pool
from nodefleet.ports import Eviction, EvictionOutcome, RunResult, Runtime
from nodefleet.reconcile.executor import OutOfTimeError, record_node_event, try_each
from nodefleet.reconcile.observe import resolve_policy

_NOT_ASKED = Missing("not asked: EC2 takes these anyway")
_UNKNOWN = -1
_ON_ITS_WAY = (Eviction.EVICTED, Eviction.GONE)
_MAX_FAILED_RECORDS = 3  # after so many failures the table itself is taken to be unavailable; the rest is tried later

A = TypeVar("A")
B = TypeVar("B")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainReport:
    """The progress of draining the interrupted nodes."""

    to_ask: int = 0  # pods whose eviction could not be requested yet; below zero: not known
    refused: int = 0  # pods whose eviction their budgets refuse
    left: int = 0  # pods that are still on the nodes
    taken_over: bool = False  # every node carries a removal of the lease holder

    @property
    def asked(self) -> bool:
        return self.to_ask == 0

    @property
    def done(self) -> bool:
        return self.asked and self.left == 0


def drain_interrupted(runtime: Runtime, notices: Sequence[Notice], start_run: Callable[[], RunResult]) -> RunResult:
    """Record the notices and drain their nodes, beside a run that launches replacements. Raises at the end if a notice
    could not be recorded or the run failed, so that Lambda delivers the notices again."""
    began = runtime.time.now()
    stored = _read_stored(runtime)
    unrecorded: tuple[Notice, ...] = tuple(notices)
    woken = False
    while True:
        urgent = _urgent(notices, stored, runtime.time.now())
        if stored.notices is None and len(urgent) < len(
            notices
        ):  # an interruption warning does not wait for the table, which may hang
            stored = _read_stored(runtime)
            urgent = _urgent(notices, stored, runtime.time.now())
        policy = stored.policy
        error: Exception | None = None
        interrupted: list[_InterruptedNode] | None
        if unrecorded or not woken:  # at the same time: a table that hangs must not delay the cordons
            (unrecorded, error), interrupted = _run_both(
                runtime, partial(_record, runtime, unrecorded), partial(_cordon, runtime, urgent, stored, began)
            )
            woken = error is None
        else:
            interrupted = _cordon(runtime, urgent, stored, began)
        run_result: RunResult | None = None
        if error and unrecorded == tuple(notices):  # the table is unavailable: a run could not acquire the lease
            report = _drain(runtime, interrupted, policy)
        else:
            (run_result, failure), report = _run_both(
                runtime, partial(_try_run, start_run), partial(_drain, runtime, interrupted, policy)
            )
            error = failure or error
        if error:
            runtime.telemetry.warn(f"Draining goes on in spite of: {error}")
        if run_result and not error and _is_enough(run_result, report):
            return run_result
        pause = policy.burst.every
        if (error and report.done) or runtime.time.remaining() < pause + policy.burst.reserve:
            break
        runtime.time.sleep(pause)
    if error:
        raise error
    return run_result or RunResult()


def _run_both(runtime: Runtime, first: Callable[[], A], second: Callable[[], B]) -> tuple[A, B]:
    """Run both concurrently. An exception in either is raised after both have ended."""
    results = runtime.together(first, second)
    for result in results:
        if isinstance(result, Exception):
            raise result
    one, other = results
    return one, other


def _try_run(start_run: Callable[[], RunResult]) -> tuple[RunResult | None, Exception | None]:
    """The result of the run, or its error: draining continues whatever the run raises, a bug included."""
    try:
        return start_run(), None
    except Exception as error:  # noqa: BLE001  # raised at the end
        return None, error


def _is_enough(run_result: RunResult, report: DrainReport) -> bool:
    """Whether the rest can be left to the control loop.

    If another run holds the lease, it was woken and continues this drain: it is enough that every pod is being evicted,
    or that the nodes carry the holder's removals. If this run had the lease, it drains the nodes itself, unless EC2 or
    Kubernetes was unavailable.
    """
    if run_result.held:
        return report.asked and (report.refused == 0 or report.taken_over)
    return report.done or (run_result.decision is not None and run_result.decision.level is not Level.PARTIAL)


def _record(runtime: Runtime, notices: Sequence[Notice]) -> tuple[tuple[Notice, ...], NodeFleetError | None]:
    """Record the notices, then wake the lease holder: an iteration after the wake-up observes what was recorded.
    Returns the notices that could not be recorded."""
    errors: list[NodeFleetError] = []

    def record(notice: Notice) -> None:
        if len(errors) >= _MAX_FAILED_RECORDS:
            raise errors[0]
        try:
            runtime.store.record(notice)
        except NodeFleetError as error:
            errors.append(error)
            raise

    results = try_each(runtime, notices, record)
    failed = {notice: error for notice, error in results if isinstance(error, NodeFleetError)}
    error = next(iter(failed.values()), None)
    if len(failed) < len(notices) or not notices:
        try:
            runtime.store.wake()
        except NodeFleetError as problem:
            error = error or problem
    if error:
        of_all = f"{len(failed)} of {pluralize(len(notices), 'notice', 'notices')} could not be recorded"
        what = of_all if failed else "the holder of the lease could not be woken"
        runtime.telemetry.warn(f"{what}, draining anyway: {error}")
    return tuple(failed), error


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoredState:
    """The state in the table. While the table is unavailable, the default policy applies."""

    policy: Policy = field(default_factory=Policy)
    notices: tuple[Notice, ...] | None = None  # recorded before; None: the table is unavailable
    begun: Mapping[str, datetime] = field(default_factory=dict)  # by instance, when its open removal began


def _read_stored(runtime: Runtime) -> _StoredState:
    try:
        state = runtime.store.state()
        policy = resolve_policy(state, runtime.policies, runtime.time.now()).policy
    except NodeFleetError:
        return _StoredState()
    begun = {each.instance: each.started for each in state.operations if isinstance(each, Removal)}
    return _StoredState(policy=policy, notices=state.notices, begun=begun)


def _urgent(notices: Sequence[Notice], stored: _StoredState, now: datetime) -> list[Notice]:
    """Notices whose nodes are drained without waiting for the lease.

    A notice that is delivered late or again may have been withdrawn. While the table is unavailable, that is not known,
    so a scheduled change waits as long as the time left suffices for a drain.
    """
    recorded, pools = stored.notices, stored.policy.pools
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
    """A node that EC2 interrupts, and its removal."""

    node: Node
    removal: Removal
    cordoned: bool = False  # in this pass, by this function


def _cordon(
    runtime: Runtime, notices: Sequence[Notice], stored: _StoredState, began: datetime
) -> list[_InterruptedNode] | None:
    """Cordon all nodes of these notices; a failure on one does not stop the others. None: nodes cannot be listed."""
    if not notices:
        return []
    now = runtime.time.now()
    try:
        nodes = runtime.cluster.nodes()
    except NodeFleetError as error:
        runtime.telemetry.warn(f"The interrupted nodes could not be cordoned yet: {error}")
        return None
    removals = _removals(nodes, notices, stored, now, began)
    interrupted = [_InterruptedNode(node=node, removal=removal) for node, removal in removals]
    steps = [(each, _steps(each, (), stored.policy, now)) for each in interrupted]
    wanted = [(each, step) for each, of_each in steps for step in of_each if isinstance(step, Cordon)]
    done = set()
    for (each, _), problem in try_each(
        runtime, wanted, lambda it: runtime.cluster.cordon(it[1], it[0].removal.instance)
    ):
        if isinstance(problem, NodeFleetError):
            _report(runtime, each.node.name, "cordoned", problem)
        else:
            done.add(each.removal.instance)
    return [_mark_cordoned(each) if each.removal.instance in done else each for each in interrupted]


def _mark_cordoned(interrupted: _InterruptedNode) -> _InterruptedNode:
    node = replace(interrupted.node, cordoned=True, removal=interrupted.removal.id)
    return replace(interrupted, node=node, cordoned=True)


def _drain(runtime: Runtime, interrupted: Sequence[_InterruptedNode] | None, policy: Policy) -> DrainReport:
    """Request the eviction of every evictable pod on these nodes, once. The API server enforces the budgets."""
    if interrupted is None:
        return DrainReport(to_ask=_UNKNOWN)
    read = try_each(runtime, interrupted, lambda each: runtime.cluster.pods_on(each.node.name, brief=True))
    evict: list[PodRef] = []
    force: list[PodRef] = []
    unread = staying = left = 0
    for each, pods in read:
        if isinstance(pods, NodeFleetError):
            unread += 1
            _report(runtime, each.node.name, "drained", pods)
            continue
        movable = [pod for pod in pods if pod.movable]
        left += len(movable)
        staying += sum(pod.deleted_at is None for pod in movable)
        for step in _steps(each, pods, policy, runtime.time.now()):
            if isinstance(step, Evict):
                evict += step.pods
            if isinstance(step, ForceDelete):
                force += step.pods
    evictions = _call_for_pods(runtime, evict, policy, runtime.cluster.evict, "evicted")
    failed = _count_failed(
        [*evictions, *_call_for_pods(runtime, force, policy, runtime.cluster.delete_pod, "deleted by force")]
    )
    refused = sum(isinstance(each, EvictionOutcome) and each.result not in _ON_ITS_WAY for each in evictions)
    for each in interrupted:
        if each.cordoned:
            record_node_event(
                runtime, each.node.name, "NodeFleetLeaving", f"leaves: {each.removal.reason}", warning=True
            )
    to_ask = max(0, staying - len(evict) - len(force)) + failed
    return DrainReport(
        to_ask=_UNKNOWN if unread else to_ask,
        refused=refused,
        left=left,
        taken_over=all(each.node.removal and not notice_in(each.node.removal) for each in interrupted),
    )


def _removals(
    nodes: Sequence[Node], notices: Sequence[Notice], stored: _StoredState, now: datetime, began: datetime
) -> list[tuple[Node, Removal]]:
    by_instance = nodes_by_instance(nodes)
    found: dict[str, tuple[Node, Removal]] = {}
    for notice in notices:
        node = by_instance.get(notice.instance)
        if node is None or node.pool is None or node.control_plane:
            continue
        rules = stored.policy.pool(node.pool) or Pool(name=node.pool)
        # The control loop decides about a change that is days away and about rebalance recommendations.
        imminent = is_imminent(notice, rules, now) and not is_false_alarm(notice, rules, now)
        if imminent and not rules.dry_run:
            started = stored.begun.get(notice.instance, began)
            found.setdefault(node.name, (node, _removal(node, notice, rules, started)))
    return list(found.values())


def _removal(node: Node, notice: Notice, rules: Pool, started: datetime) -> Removal:
    """The removal of an interrupted node, with the id of the lease holder's removal if the node carries one.

    `started` is when the removal in the table, or this drain, began: pods that tolerate the taint and return after that
    time are not evicted again.
    """
    begun = node.removal if node.removal and not notice_in(node.removal) else ""
    return Removal(
        id=begun or emergency(notice),
        pool=rules.name,
        instance=notice.instance,
        node=node.name,
        why=RemovalReason.INTERRUPTED,
        reason=notice.reason,
        started=started,
        deadline=taken_at(notice, rules),
        force_from=force_from(notice, rules),
        forced=True,  # the lease holder sends the alert
    )


# ── the pods ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _steps(interrupted: _InterruptedNode, pods: tuple[Pod, ...], policy: Policy, now: datetime) -> tuple[Step, ...]:
    observation = Observation(
        at=now,
        instances=_NOT_ASKED,
        kubernetes=ClusterView(nodes=(interrupted.node,), pods=pods),
        operations=(interrupted.removal,),
    )
    return advance(interrupted.removal, observation, policy).steps


def _call_for_pods(
    runtime: Runtime, pods: Sequence[PodRef], policy: Policy, call: Callable[[PodRef], R], what: str
) -> list[R | NodeFleetError]:
    """Call once for each pod; returns the results. Errors are logged after all calls."""
    results = try_each(runtime, pods, lambda pod: _in_time(runtime, policy, call, pod))
    for pod, result in results:
        if isinstance(result, NodeFleetError):
            _report(runtime, f"{pod.namespace}/{pod.name}", what, result)
    return [result for _, result in results]


def _count_failed(results: Sequence[object]) -> int:
    return sum(isinstance(each, NodeFleetError) and not isinstance(each, ChangedError) for each in results)


def _in_time(runtime: Runtime, policy: Policy, call: Callable[[PodRef], R], pod: PodRef) -> R:
    if runtime.time.remaining() < policy.burst.reserve:
        raise OutOfTimeError("there is no time left for it")
    return call(pod)


def _report(runtime: Runtime, subject: str, what: str, error: NodeFleetError) -> None:
    if isinstance(error, ChangedError | OutOfTimeError):
        runtime.telemetry.line(f"{subject} is not {what}: {error}")
    else:
        runtime.telemetry.warn(f"{subject} could not be {what} yet: {error}")

"""The executor carries out the steps of operations and checks the preconditions of each step right before it acts."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, assert_never

from nodefleet.engine.context import workload_of
from nodefleet.errors import (
    ChangedError,
    DeniedError,
    LostLeaseError,
    MisconfiguredError,
    NodeFleetError,
    UnavailableError,
)
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import ActionKind, ExecutedAction
from nodefleet.model.operations import (
    Assign,
    CancelRemoval,
    Close,
    Cordon,
    Create,
    DeleteNode,
    DrainFailed,
    Evict,
    ForceDelete,
    KeepWarm,
    Launch,
    MarkFailed,
    Operation,
    PodRef,
    Removal,
    RemovalReason,
    Save,
    SendAlert,
    SendLaunch,
    Step,
    TakeOver,
    Terminate,
    Uncordon,
)
from nodefleet.model.snapshot import Observation
from nodefleet.operations.advance import apply_step
from nodefleet.operations.launch import record_answer
from nodefleet.operations.progress import Progress, rules_of
from nodefleet.operations.removal import cancel_removal
from nodefleet.policy.cluster import Policy, RequestKind
from nodefleet.ports import Eviction, Lease, Runtime
from nodefleet.reconcile import preconditions
from nodefleet.reconcile.preconditions import OverBudgetError, note_throttling, reserve_request
from nodefleet.reconcile.unit_of_work import UnitOfWork

# ── calls for many pods ──────────────────────────────────────────────────────────────────────────────────────────────
# One call for each of many pods or nodes, several at once. A call that fails does not stop the others.
#
# A webhook that answers 500, a 429 without a budget, a 403 or a 504 concerns one pod. Errors are returned as results,
# and the caller reports them after all calls.


K = TypeVar("K")
R = TypeVar("R")


def try_each(runtime: Runtime, subjects: Sequence[K], call: Callable[[K], R]) -> list[tuple[K, R | NodeFleetError]]:
    """Call once for each subject; returns each subject with its result or error. A lost lease and bugs (errors outside
    the NodeFleetError tree) are raised after all calls."""
    results = runtime.together(*[partial(call, subject) for subject in subjects])
    for result in results:
        if isinstance(result, LostLeaseError) or (
            isinstance(result, Exception) and not isinstance(result, NodeFleetError)
        ):
            raise result
    return list(zip(subjects, results, strict=True))


# ── steps ────────────────────────────────────────────────────────────────────────────────────────────────────────────
# A step that fails postpones the rest of its operation to the next iteration; other operations continue. A pod that
# cannot be evicted does not stop the eviction of the other pods of its node. No step starts when the run or the lease
# has too little time left. The unit of work is committed before each step, so a crash loses no intent.


_NAMED = 5  # failures that are logged one by one; the rest are counted


_ASKS_EC2 = (SendLaunch, Terminate, KeepWarm, MarkFailed, Assign)


class OutOfTimeError(NodeFleetError):
    """The run has too little time left to start another step. The next run continues."""


class Executor:
    """Executes steps under a lease. `observation` includes the effects of the steps executed so far."""

    def __init__(
        self, runtime: Runtime, lease: Lease, policy: Policy, observation: Observation, uow: UnitOfWork
    ) -> None:
        self._runtime = runtime
        self._lease = lease
        self._policy = policy
        self._uow = uow
        self.observation = observation
        self.actions: list[ExecutedAction] = []
        self.failures = 0
        self.launched = 0  # instances that EC2 launched
        self.short = False  # EC2 launched fewer instances than requested
        self.unfinished = False  # the time ran out before all steps were executed
        self.evictions: Counter[str] = Counter()

    def execute_early(self, operation: Operation, progress: Progress) -> tuple[Step, ...]:
        """Execute the steps before the first eviction or termination and return the rest: those wait until every node
        that has to be cordoned is cordoned."""
        feedback = progress.lessons
        for index, step in enumerate(progress.steps):
            match step:
                case Save(newer):
                    self._uow.put(newer)
                    self._uow.add_feedback(feedback)
                    feedback = ()
                case Close():
                    self._uow.close(step)
                    self._uow.add_feedback(feedback)
                    feedback = ()
                case SendAlert():
                    self._uow.send_alert(step)
                case Evict() | ForceDelete() | Terminate() | KeepWarm():
                    self._uow.add_feedback(feedback)
                    return progress.steps[index:]
                case _:
                    current = self._uow.operations.get(operation.id, operation)
                    if not self.execute(current, step):
                        return ()
        self._uow.add_feedback(feedback)
        return ()

    def execute_late(self, identity: str, steps: tuple[Step, ...]) -> None:
        """Execute the remaining steps of an operation, if it is still open."""
        for step in steps:
            operation = self._uow.operations.get(identity)
            if operation is None or not self.execute(operation, step):
                return

    def execute(self, operation: Operation | None, step: Step) -> bool:
        """Commit the unit of work, then execute the step. Returns whether the step succeeded completely."""
        try:
            self._check_time_left()
            self._uow.flush()
            self._check_time_left()  # the process may have stood still while it committed
        except OutOfTimeError as error:
            self.unfinished = True
            self._runtime.telemetry.line(str(error), step=type(step).__name__)
            self._undo_termination_request(operation)
            return False
        try:
            if isinstance(step, _ASKS_EC2):
                reserve_request(self._runtime, RequestKind.CHANGE, self._policy.requests)
            failed = self._dispatch(operation, step)
        except OverBudgetError as error:
            self.unfinished = True
            self._runtime.telemetry.warn(f"Not sent, the next iteration tries again: {error}", step=type(step).__name__)
            self._undo_termination_request(operation)
            return False
        except ChangedError as error:
            self._log_skipped(step, error)
            self._undo_termination_request(operation)
            return False
        except (UnavailableError, DeniedError, MisconfiguredError) as error:
            if isinstance(step, _ASKS_EC2):
                note_throttling(self._runtime, RequestKind.CHANGE, error)
            self._note_failure(operation, step, [error])
            return False
        self.observation = apply_step(self.observation, _without_pods(step, failed))
        for changed in failed.values():
            if isinstance(changed, ChangedError):
                self._log_skipped(step, changed)
        errors = [each for each in failed.values() if not isinstance(each, ChangedError | OutOfTimeError)]
        if errors:
            self._note_failure(operation, step, errors)
        return not failed

    def _log_skipped(self, step: Step, error: ChangedError) -> None:
        self._runtime.telemetry.line(f"Not done, the next iteration decides again: {error}", step=type(step).__name__)

    def _undo_termination_request(self, operation: Operation | None) -> None:
        """The first termination request was not sent: clear its mark, so that the node can still be uncordoned."""
        removal = self._uow.operations.get(operation.id, operation) if operation else None
        if isinstance(removal, Removal) and removal.terminating and removal.asked_at == self.observation.at:
            self._uow.put(replace(removal, terminating=False, asked_at=None))

    def _note_failure(self, operation: Operation | None, step: Step, errors: Sequence[NodeFleetError]) -> None:
        """Count one failed step, however many of its pods failed, and log the errors."""
        self.failures += 1
        for error in errors[:_NAMED]:
            self._runtime.telemetry.warn(f"Failed: {error}", step=type(step).__name__)
        if len(errors) > _NAMED:
            self._runtime.telemetry.warn(f"{len(errors) - _NAMED} more failed", step=type(step).__name__)
        for error in errors:
            if isinstance(error, DeniedError):
                pool = operation.pool if operation else ""
                self._uow.news(AlertKind.PERMISSION, pool, str(error), (type(step).__name__,))

    def _check_time_left(self) -> None:
        reserve = self._policy.burst.reserve
        if self._runtime.time.now() >= self._lease.expires:
            raise LostLeaseError("the lease has expired: another run may act by now")
        if self._runtime.time.remaining() < reserve:
            raise OutOfTimeError(f"Less than {reserve.total_seconds():.0f} s left: the next run goes on")

    def _dispatch(self, operation: Operation | None, step: Step) -> dict[PodRef, NodeFleetError]:
        """Execute the step. Returns the pods for which it failed, with the error of each."""
        match step:
            case SendLaunch(launch):
                self._launch(launch)
            case Cordon():
                self._cordon(operation, step)
            case Uncordon(node, removal):
                self._runtime.cluster.uncordon(node, removal)
                self._record_node_event(node, "NodeFleetUncordoned", "takes pods again")
                self._add_action(ActionKind.UNCORDON, node=node)
            case Evict():
                return self._evict(operation, step)
            case ForceDelete():
                return self._force_delete(step)
            case Terminate(identity, reason):
                self._terminate(operation, identity, reason)
            case KeepWarm(identity, reason):
                self._keep_warm(operation, identity, reason)
            case DeleteNode(node):
                self._delete_node(operation, node)
            case MarkFailed(identity):
                self._runtime.cloud.mark_failed(identity)
                self._add_action(ActionKind.MARK_FAILED, instance=identity)
            case Assign():
                self._assign(step)
            case Create() | Save() | Close() | CancelRemoval() | TakeOver() | SendAlert():
                raise AssertionError(f"{type(step).__name__} is written, not carried out")
            case _:
                assert_never(step)
        return {}

    # ── one method for each kind of step ─────────────────────────────────────────────────────────────────────────

    def _launch(self, launch: Launch) -> None:
        now = self._runtime.time.now()
        if now >= launch.deadline:
            raise ChangedError(f"{launch.id} is too old to be sent")
        answer = self._runtime.cloud.start_warm(launch) if launch.starts else self._runtime.cloud.launch(launch)
        self._uow.put(record_answer(launch, answer.instances, answer.refusals, self._runtime.time.now()))
        self.launched += len(answer.instances)
        if len(answer.instances) < launch.count:
            self.short = True
            self.failures += 1
        self._add_action(
            ActionKind.START if launch.starts else ActionKind.LAUNCH,
            instances=tuple(answer.instances),
            asked=launch.count,
            market=launch.market.value,
            zone=launch.zone,
            pool=launch.pool,
        )

    def _cordon(self, operation: Operation | None, step: Cordon) -> None:
        instance = operation.instance if isinstance(operation, Removal) else ""
        self._runtime.cluster.cordon(step, instance)
        self._record_node_event(
            step.node, "NodeFleetLeaving", f"leaves: {step.reason}. Drained until {step.deadline:%H:%M:%S} UTC"
        )
        self._add_action(ActionKind.CORDON, node=step.node, instance=instance, reason=step.reason)

    def _assign(self, step: Assign) -> None:
        """Label the Node before tagging the instance: after a crash in between, the tag still names the old pool and
        the next iteration repeats both."""
        preconditions.check_unowned(self._runtime.cloud, step.instance, self._policy)
        if step.node:
            self._runtime.cluster.assign(step.node, step.instance, step.pool)
            self._record_node_event(step.node, "NodeFleetAdopted", f"belongs to pool {step.pool} now: {step.reason}")
        self._runtime.cloud.assign(step.instance, step.pool)
        self._add_action(ActionKind.ASSIGN, node=step.node, instance=step.instance, pool=step.pool)

    def _evict(self, operation: Operation | None, step: Evict) -> dict[PodRef, NodeFleetError]:
        if not isinstance(operation, Removal):
            raise ChangedError(f"the removal of {step.node} is over")
        preconditions.check_draining(self._runtime.cluster.node(step.node), operation, step.node)
        results: Counter[str] = Counter()
        failed: dict[PodRef, NodeFleetError] = {}
        for pod, evicted in self._try_each_pod(step.pods, self._runtime.cluster.evict):
            if isinstance(evicted, NodeFleetError):
                failed[pod] = evicted
                results["failed"] += not isinstance(evicted, OutOfTimeError)
                continue
            results[evicted.result.value] += 1
            if evicted.result is Eviction.REFUSED:
                self._note_refusal(step.node, pod, evicted.detail)
            if evicted.result is Eviction.SEVERAL_BUDGETS:
                self._report_several_budgets(operation, step.node, pod, evicted.detail)
        for pod, error in failed.items():
            if not isinstance(error, ChangedError | OutOfTimeError):
                self._note_refusal(step.node, pod, str(error))
        self.evictions.update(results)
        if any(results.values()):
            self._add_action(ActionKind.EVICT, node=step.node, results=dict(+results))
        return failed

    def _force_delete(self, step: ForceDelete) -> dict[PodRef, NodeFleetError]:
        results = self._try_each_pod(step.pods, self._runtime.cluster.delete_pod)
        failed = {pod: error for pod, error in results if isinstance(error, NodeFleetError)}
        deleted = len(results) - len(failed)
        if deleted:
            self.evictions["forced"] += deleted
            self._add_action(ActionKind.FORCE_DELETE, node=step.node, results={"forced": deleted})
        return failed

    def _try_each_pod(
        self, pods: Sequence[PodRef], call: Callable[[PodRef], R]
    ) -> list[tuple[PodRef, R | NodeFleetError]]:
        """Call once for each pod, as long as the run has time."""

        def begin(pod: PodRef) -> R:
            self._check_time_left()
            return call(pod)

        results = try_each(self._runtime, pods, begin)
        if any(isinstance(result, OutOfTimeError) for _, result in results):
            self.unfinished = True
        return results

    def _note_refusal(self, node: str, pod: PodRef, detail: str) -> None:
        message = f"waits for {pod.namespace}/{pod.name}: {detail or 'its budget says no'}"
        if self._uow.alerts.is_news(f"note|{node}|{pod.uid}"):
            self._record_node_event(node, "NodeFleetDrainWaits", message, warning=True)

    def _report_several_budgets(self, removal: Removal, node: str, pod: PodRef, detail: str) -> None:
        """The Eviction API refuses a pod that several budgets cover: alert operators, cancel a voluntary removal."""
        blocker = f"several budgets cover {pod.namespace}/{pod.name}"
        if removal.why is RemovalReason.VOLUNTARY:
            self._uow.put(cancel_removal(removal, blocker))
            self._uow.add_feedback([DrainFailed(pool=removal.pool, node=node, blocker=blocker, at=self.observation.at)])
        text = f"{node} cannot be drained: {blocker} ({detail}). Leave one budget for each pod."
        self._uow.news(AlertKind.DRAIN_BLOCKED, removal.pool, text, (workload_of(f"{pod.namespace}/{pod.name}"),))
        self._record_node_event(node, "NodeFleetDrainBlocked", text, warning=True)

    def _terminate(self, operation: Operation | None, identity: str, reason: str) -> None:
        if not preconditions.needs_termination(self._runtime.cloud, identity):
            return
        rules = rules_of(self._policy, operation.pool if operation else "").removal
        preconditions.check_termination(self._runtime.cluster, operation, rules, self._runtime.time.now())
        self._runtime.cloud.terminate(identity)
        self._add_action(ActionKind.TERMINATE, instance=identity, reason=reason)

    def _keep_warm(self, operation: Operation | None, identity: str, reason: str) -> None:
        """By the same checks as a termination. What EC2 cannot stop is terminated in the next iteration."""
        if not preconditions.needs_termination(self._runtime.cloud, identity):
            return
        rules = rules_of(self._policy, operation.pool if operation else "").removal
        preconditions.check_termination(self._runtime.cluster, operation, rules, self._runtime.time.now())
        if self._runtime.cloud.keep_warm(identity):
            self._add_action(ActionKind.KEEP_WARM, instance=identity, reason=reason)
        elif isinstance(operation, Removal):
            self._uow.put(replace(operation, keeps=False, terminating=False, asked_at=None))
            raise ChangedError(f"EC2 cannot stop {identity}: it is terminated instead")

    def _delete_node(self, operation: Operation | None, name: str) -> None:
        node = self._runtime.cluster.node(name)
        if node is None:
            return
        instance = operation.instance if isinstance(operation, Removal) else node.instance
        preconditions.check_instance_gone(self._runtime.cloud, name, instance)
        self._runtime.cluster.delete_node(name, instance)
        self._add_action(ActionKind.DELETE_NODE, node=name, instance=instance)

    def _add_action(self, kind: ActionKind, **fields: Any) -> None:
        self.actions.append(ExecutedAction(kind=kind, **fields))

    @property
    def did(self) -> list[str]:
        """One sentence for each executed action."""
        return [str(action) for action in self.actions]

    def _record_node_event(self, node: str, reason: str, message: str, *, warning: bool = False) -> None:
        record_node_event(self._runtime, node, reason, message, warning=warning)


def _without_pods(step: Step, pods: dict[PodRef, NodeFleetError]) -> Step:
    """The step without the pods for which it failed."""
    if isinstance(step, Evict | ForceDelete) and pods:
        return replace(step, pods=tuple(pod for pod in step.pods if pod not in pods))
    return step


def record_node_event(runtime: Runtime, node: str, reason: str, message: str, *, warning: bool = False) -> None:
    """Record an event on the node. A failure to record it is logged and does not fail the step."""
    try:
        runtime.cluster.note(node, reason, message, warning=warning)
    except NodeFleetError as error:
        runtime.telemetry.warn(f"No event on {node}: {error}")

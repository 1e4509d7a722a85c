"""Preconditions, checked right before a step acts: the state of EC2 and Kubernetes, and the budget of requests to EC2.

A check raises ChangedError if its precondition no longer holds; the next iteration then decides again.
"""

from datetime import datetime, timedelta

from nodefleet.errors import ChangedError, NodeFleetError, ThrottledError
from nodefleet.eviction.drain import plan_drain
from nodefleet.model.inventory import InstanceState, Node
from nodefleet.model.operations import Cleanup, Operation, Removal, RemovalReason
from nodefleet.policy.cluster import BucketRules, Policy, RequestKind, Requests
from nodefleet.policy.pool import RemovalRules
from nodefleet.ports import Cloud, Cluster, Runtime

_ENDING = (InstanceState.SHUTTING_DOWN, InstanceState.TERMINATED)


def check_draining(node: Node | None, removal: Removal, name: str) -> None:
    """The node is still that of the removal, and it is cordoned. A voluntary removal needs its own cordon."""
    if node is None or (removal.instance and node.instance not in ("", removal.instance)):
        raise ChangedError(f"{name} is not the node it was")
    if not node.cordoned or (removal.why is RemovalReason.VOLUNTARY and node.removal != removal.id):
        raise ChangedError(f"{name} is not cordoned by {removal.id} any more")


def needs_termination(cloud: Cloud, identity: str) -> bool:
    """Whether the instance still has to be terminated. Raises if it is not a worker."""
    instance = cloud.instance(identity)
    if instance is None or instance.state in _ENDING:
        return False
    if not instance.worker:
        raise ChangedError(f"{identity} is not a worker")
    return True


def check_termination(cluster: Cluster, operation: Operation | None, rules: RemovalRules, now: datetime) -> None:
    """An open operation requires the termination, and no pod on the node has to be evicted first.

    The pods of an unhealthy node are not checked: its kubelet cannot end them.
    """
    match operation:
        case Removal(why=RemovalReason.UNHEALTHY):
            node = cluster.node(operation.node) if operation.node else None
            if node is not None and node.ready and node.instance == operation.instance:
                raise ChangedError(f"{operation.node} is ready again")
        case Removal(node=name) if name:
            node = cluster.node(name)
            if node is None:
                return
            check_draining(node, operation, name)
            if not plan_drain(cluster.pods_on(name), operation.why, rules, now, since=operation.started).done:
                raise ChangedError(f"{name} holds pods that have to move")
        case Removal() | Cleanup():
            pass  # the instance never joined, or two observations, the second in this iteration, show it as orphaned
        case _:
            raise ChangedError("no open operation requires the termination")


def check_unowned(cloud: Cloud, identity: str, policy: Policy) -> None:
    """The instance exists, is a worker, and belongs to no pool of the policy."""
    instance = cloud.instance(identity)
    if instance is None or not instance.worker or instance.state in _ENDING:
        raise ChangedError(f"{identity} is not a worker, or ends")
    if policy.pool(instance.pool):
        raise ChangedError(f"pool {instance.pool} owns {identity} by now")


def check_instance_gone(cloud: Cloud, node: str, instance_id: str) -> None:
    """EC2 lists no instance of the node, or lists it as terminated, or as stopped by us."""
    instance = cloud.instance(instance_id) if instance_id else None
    if instance is None or (instance.warm and instance.state is InstanceState.STOPPED):
        return
    if instance.state is not InstanceState.TERMINATED:
        raise ChangedError(f"the instance of {node} is {instance.state.value}")


# ── the request budget ───────────────────────────────────────────────────────────────────────────────────────────────
# Requests to EC2 within the deployment's budget: counted before they are sent, and waited for when it is used up.
#
# observed                                        action
# the budget has a request left                   taken, and the request is sent
# used up, and one comes back within `longest`    waits so long inside the run
# used up for longer                              not sent: says so, and the next iteration tries again
# EC2 answers RequestLimitExceeded                the budget counts as used up: every cluster waits for it to refill
# the budget's own record cannot be read          sent: a broken budget must not stop a fleet from healing


class OverBudgetError(ThrottledError):
    """The deployment's own budget is used up. Nothing was sent to EC2."""


def rules_for(kind: RequestKind, requests: Requests) -> BucketRules:
    if kind is RequestKind.DESCRIBE:
        return BucketRules(size=requests.describe_size, per_second=requests.describe_per_second)
    return BucketRules(size=requests.change_size, per_second=requests.change_per_second)


def reserve_request(runtime: Runtime, kind: RequestKind, requests: Requests) -> None:
    """Count one request. Waits for the budget if that is short; raises OverBudgetError otherwise."""
    if runtime.requests is None:
        return
    left = requests.longest
    while True:
        try:
            wait = runtime.requests.take(kind, rules_for(kind, requests), runtime.time.now())
        except NodeFleetError as error:
            runtime.telemetry.warn(f"The request budget cannot be read, the request is sent: {error}")
            return
        if not wait:
            return
        if wait > left:
            more = f"{wait.total_seconds():.1f} s more"
            raise OverBudgetError("EC2", f"the deployment's own budget of {kind.value} requests is used up for {more}")
        runtime.time.sleep(wait)
        left -= max(wait, timedelta(milliseconds=1))


def note_throttling(runtime: Runtime, kind: RequestKind, error: Exception | None) -> None:
    """EC2 itself refused: no cluster of this deployment asks again before the budget has refilled."""
    refused = isinstance(error, ThrottledError) and error.part == "EC2" and not isinstance(error, OverBudgetError)
    if runtime.requests is None or not refused:
        return
    try:
        runtime.requests.drain(kind, runtime.time.now())
    except NodeFleetError as problem:
        runtime.telemetry.warn(f"The request budget cannot be written: {problem}")

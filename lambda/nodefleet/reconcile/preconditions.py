"""Preconditions of steps, read from EC2 and Kubernetes right before the step acts.

A check raises ChangedError if its precondition no longer holds; the next iteration then decides again.
"""

from datetime import datetime

from nodefleet.errors import ChangedError
from nodefleet.eviction.drain import plan_drain
from nodefleet.model.inventory import InstanceState, Node
from nodefleet.model.operations import Cleanup, Operation, Removal, RemovalReason
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import RemovalRules
from nodefleet.ports import Cloud, Cluster

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
            raise ChangedError("nothing that is open wants this machine terminated")


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

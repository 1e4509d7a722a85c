"""Cleanup of an orphan: a Node whose instance is gone, or an instance that belongs to no node.

Deletion cannot be undone, so the orphan is checked again before each step, and only the id that the cleanup names is
ever touched.

    the Node                              the instance                            action
    is gone                               is terminated or gone                   closed as done
    -                                     is shutting down                        waits
    has its instance back, or is no       has a ready node, is no worker, is a    closed as cancelled
    worker                                member or may still join
    is past the deadline                  is past the deadline                    alert, closed as failed
    is orphaned for too short a time      is orphaned for too short a time        waits
    is ready, but EC2 lists no instance   -                                       waits: EC2's list may be wrong
    is still orphaned                     is still orphaned                       deleted or terminated until gone

Without EC2's list the cleanup does not advance. Without Kubernetes nothing is deleted and no deadline passes.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from nodefleet.model.alerts import AlertKind
from nodefleet.model.fleet import Phase, Worker
from nodefleet.model.inventory import Instance, InstanceState
from nodefleet.model.operations import Cleanup, Close, DeleteNode, OrphanKind, Outcome, Save, SendAlert, Terminate
from nodefleet.model.readings import Missing
from nodefleet.model.snapshot import Observation
from nodefleet.operations.progress import NOTHING_YET, Progress, rules_of, seconds
from nodefleet.policy.cluster import Policy

_UNOWNED_PHASES = frozenset({Phase.JOIN_FAILED, Phase.STOPPED, Phase.WARM})


def advance_cleanup(cleanup: Cleanup, observation: Observation, policy: Policy, fleet: Sequence[Worker]) -> Progress:
    if isinstance(observation.instances, Missing):
        return NOTHING_YET
    match cleanup.debris:
        case OrphanKind.NODE:
            return _node(cleanup, observation, policy, fleet)
        case OrphanKind.INSTANCE:
            return _instance(cleanup, observation, observation.instances, policy, fleet)
        case _:
            assert_never(cleanup.debris)


def _node(cleanup: Cleanup, observation: Observation, policy: Policy, fleet: Sequence[Worker]) -> Progress:
    if isinstance(observation.kubernetes, Missing):
        return NOTHING_YET
    node = next((node for node in observation.kubernetes.nodes if node.name == cleanup.target), None)
    if node is None:
        return _close_cleanup(cleanup, Outcome.DONE, f"node {cleanup.target} is gone")
    worker = next((worker for worker in fleet if worker.node and worker.node.name == cleanup.target), None)
    if worker is None:
        return _close_cleanup(cleanup, Outcome.CANCELLED, f"node {node.name} is not ours to delete")
    if worker.phase is not Phase.ORPHANED:
        return _close_cleanup(cleanup, Outcome.CANCELLED, f"node {node.name} is not orphaned: {worker.phase.value}")
    return _destroy(cleanup, observation, policy, DeleteNode(node.name), wait=node.ready)


def _instance(
    cleanup: Cleanup, observation: Observation, instances: Sequence[Instance], policy: Policy, fleet: Sequence[Worker]
) -> Progress:
    instance = next((instance for instance in instances if instance.id == cleanup.target), None)
    if instance is None or instance.state is InstanceState.TERMINATED:
        return _close_cleanup(cleanup, Outcome.DONE, f"instance {cleanup.target} is gone")
    if instance.state is InstanceState.SHUTTING_DOWN or isinstance(observation.kubernetes, Missing):
        return NOTHING_YET
    worker = next((worker for worker in fleet if worker.instance and worker.id == cleanup.target), None)
    if worker is None:
        return _close_cleanup(cleanup, Outcome.CANCELLED, f"instance {instance.id} is not ours to terminate")
    if worker.node and worker.node.ready:
        return _close_cleanup(
            cleanup, Outcome.CANCELLED, f"instance {instance.id} is the ready node {worker.node.name}"
        )
    if policy.pool(instance.pool) and worker.phase not in _UNOWNED_PHASES:
        return _close_cleanup(
            cleanup, Outcome.CANCELLED, f"instance {instance.id} is not orphaned: {worker.phase.value}"
        )
    return _destroy(cleanup, observation, policy, Terminate(instance.id, cleanup.reason), wait=False)


def _destroy(
    cleanup: Cleanup, observation: Observation, policy: Policy, step: DeleteNode | Terminate, *, wait: bool
) -> Progress:
    if observation.at >= cleanup.deadline:
        text = (
            f"{cleanup.debris.value} {cleanup.target} could not be cleaned up within"
            f" {seconds(cleanup.deadline - cleanup.started)} ({cleanup.reason}). Look at it and remove it by hand"
        )
        alert = SendAlert(
            alert=AlertKind.CLEANUP_NEEDS_PERSON, pool=cleanup.pool, subjects=(cleanup.target,), text=text
        )
        detail = f"{cleanup.debris.value} {cleanup.target} is still there"
        return Progress(steps=(alert, Close(operation=cleanup.id, outcome=Outcome.FAILED, detail=detail)))
    if wait or observation.at - cleanup.first_seen < rules_of(policy, cleanup.pool).budgets.cleanup_after:
        return NOTHING_YET
    return Progress(steps=(Save(replace(cleanup, attempts=cleanup.attempts + 1)), step))


def _close_cleanup(cleanup: Cleanup, outcome: Outcome, detail: str) -> Progress:
    return Progress(steps=(Close(operation=cleanup.id, outcome=outcome, detail=detail),))

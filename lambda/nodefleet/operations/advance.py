"""The entry point of this package: the next steps of an operation, derived from the current observation."""

from collections.abc import Sequence
from typing import assert_never

from nodefleet.model.fleet import Worker
from nodefleet.model.operations import Cleanup, Launch, Operation, Removal
from nodefleet.model.snapshot import Observation
from nodefleet.model.state import NOTHING_REMEMBERED, Memory
from nodefleet.operations.cleanup import advance_cleanup
from nodefleet.operations.launch import advance_launch
from nodefleet.operations.progress import Progress
from nodefleet.operations.removal import advance_removal
from nodefleet.phases import derive_workers
from nodefleet.policy.cluster import Policy


def advance(
    operation: Operation,
    observation: Observation,
    policy: Policy,
    fleet: Sequence[Worker] | None = None,
    memory: Memory = NOTHING_REMEMBERED,
) -> Progress:
    """The next steps of the operation and its feedback. `fleet` is the result of derive_workers, for callers that
    already have it. A launch needs the memory to count instances that EC2 does not list but that may still exist."""
    fleet = derive_workers(observation, policy) if fleet is None else fleet
    match operation:
        case Launch():
            return advance_launch(operation, observation, policy, fleet, memory)
        case Removal():
            return advance_removal(operation, observation, policy, fleet)
        case Cleanup():
            return advance_cleanup(operation, observation, policy, fleet)
        case _:
            assert_never(operation)

"""The table as a dry run has it: read from, and written to in memory only."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NoReturn

from nodefleet.errors import ChangedError
from nodefleet.model.decision import DecisionRecord, Event, PolicyVersion
from nodefleet.model.inventory import Notice
from nodefleet.model.operations import Operation
from nodefleet.model.snapshot import Command
from nodefleet.model.state import LoopState, Usage
from nodefleet.ports import Changes, Lease, State


@dataclass(slots=True)
class _Written:
    """What dry runs have written so far and an iteration reads again."""

    journal: LoopState | None = None
    operations: dict[str, Operation] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)
    retired: list[Notice] = field(default_factory=list)
    expired: list[Command] = field(default_factory=list)
    ordered: list[Command] = field(default_factory=list)
    policy: PolicyVersion | None = None


class DryStore:
    """`ports.Store` over what `read` gives: the table's state, or an empty one where there is no table."""

    def __init__(self, read: Callable[[], State]) -> None:
        self._read = read
        self._written = _Written()
        self._fence = 0

    def wake(self) -> None:
        """No run is woken."""

    def wakes(self) -> int:
        return self._read().wake

    def free_fence(self) -> int:
        return max(self._fence, self._read().fence)

    def acquire(self, owner: str, now: datetime, until: datetime, skew: timedelta) -> Lease:  # noqa: ARG002  # the port's
        """Always granted: it keeps no run from acting."""
        self._fence = max(self._fence, self._read().fence) + 1
        return Lease(owner=owner, fence=self._fence, expires=until)

    def release(self, lease: Lease, wake: int | None) -> bool:  # noqa: ARG002  # the port's
        return True

    def state(self) -> State:
        """What is there, and over it what was written here."""
        real, own = self._read(), self._written
        operations = {operation.id: operation for operation in real.operations} | own.operations
        return replace(
            real,
            fence=self._fence or real.fence,
            journal=own.journal or real.journal,
            operations=tuple(each for each in operations.values() if each.id not in own.dropped),
            notices=tuple(notice for notice in real.notices if notice not in own.retired),
            commands=(*(command for command in real.commands if command not in own.expired), *own.ordered),
            policy=max(own.policy, real.policy, key=_number),
        )

    def commit(self, lease: Lease, changes: Changes) -> None:  # noqa: ARG002  # the port's
        own = self._written
        own.journal = changes.journal or own.journal
        own.operations |= {operation.id: operation for operation in changes.put}
        own.dropped |= set(changes.drop)
        own.retired += changes.retire
        own.expired += changes.expired
        own.ordered += changes.ordered
        own.policy = changes.policy or own.policy

    def record(self, notice: Notice) -> None:
        """Not kept: the table has it from the function that received it."""

    def order(self, command: Command, event: Event) -> None:
        """Not kept: no run orders anything."""

    def withdraw(self, command: Command, event: Event) -> None:
        """Not kept, likewise."""

    def tell(self, event: Event) -> None:
        """No alert is sent."""


def _number(version: PolicyVersion | None) -> int:
    return version.number if version else 0


class NoTable:
    """What is recorded where there is no table: nothing."""

    def state(self) -> State:
        return State()

    def decisions(self, limit: int, before: datetime | None = None) -> tuple[DecisionRecord, ...]:  # noqa: ARG002
        return ()

    def events(self, since: datetime, until: datetime) -> tuple[Event, ...]:  # noqa: ARG002
        return ()

    def usage(self, since: datetime, until: datetime) -> tuple[Usage, ...]:  # noqa: ARG002
        return ()

    def policies(self) -> tuple[PolicyVersion, ...]:
        return ()

    def apply(self, version: PolicyVersion, event: Event) -> NoReturn:  # noqa: ARG002
        raise ChangedError(f"there is no table for policy version {version.number}")

"""The table with a file's policy or deployment laid over it, and an ear for what an iteration writes down."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from nodefleet.model.decision import DecisionRecord, Event, PolicyVersion
from nodefleet.model.inventory import Notice
from nodefleet.model.snapshot import Command, Deployment
from nodefleet.ports import Changes, Lease, LeaseHeld, State, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlay:
    """`ports.Store`. A policy given here rules this process alone: it is not written, and nothing declared is taken up
    meanwhile."""

    store: Store
    policy: PolicyVersion | None = None
    deployment: Deployment | None = None
    heard: Callable[[DecisionRecord], None]

    def state(self) -> State:
        state = self.store.state()
        if self.policy:
            state = replace(state, policy=self.policy, declared=None)
        return replace(state, deployment=self.deployment or state.deployment)

    def commit(self, lease: Lease, changes: Changes) -> None:
        self.store.commit(lease, changes)
        if changes.decision:
            self.heard(changes.decision)

    def wake(self) -> None:
        self.store.wake()

    def wakes(self) -> int:
        return self.store.wakes()

    def free_fence(self) -> int | None:
        return self.store.free_fence()

    def acquire(self, owner: str, now: datetime, until: datetime, skew: timedelta) -> Lease | LeaseHeld:
        return self.store.acquire(owner, now, until, skew)

    def release(self, lease: Lease, wake: int | None) -> bool:
        return self.store.release(lease, wake)

    def record(self, notice: Notice) -> None:
        self.store.record(notice)

    def order(self, command: Command, event: Event) -> None:
        self.store.order(command, event)

    def withdraw(self, command: Command, event: Event) -> None:
        self.store.withdraw(command, event)

    def tell(self, event: Event) -> None:
        self.store.tell(event)

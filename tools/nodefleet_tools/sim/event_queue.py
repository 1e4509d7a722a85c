"""What EC2 says on its way to the function: EventBridge → SQS → Lambda, as the stack deploys it.

The event source mapping polls with several pollers; each gathers messages for a short window and then starts a function
with its batch. No more functions run at once than the limit allows: what comes meanwhile waits in the queue. A batch
that failed comes again after the visibility timeout, a few times.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Generic, TypeVar

from nodefleet_tools.sim.clock import Clock
from nodefleet_tools.sim.cooperative_scheduler import CooperativeScheduler

T = TypeVar("T")

WINDOW = 2.0  # seconds; infra: schedules.EVENTS_WINDOW_SECONDS
POLLERS = 5  # what Lambda starts with
LIMIT = 10  # functions at once
RECEIVES = 4  # then it is a dead letter
VISIBLE_AFTER = 180.0  # seconds


@dataclass(slots=True)
class _Batch(Generic[T]):
    messages: list[tuple[T, int]] = field(default_factory=list)  # with how often each was received


class EventQueue(Generic[T]):
    def __init__(
        self,
        clock: Clock,
        turns: CooperativeScheduler,
        invoke: Callable[[Sequence[T]], bool],
        random: Random,
        *,
        limit: int = LIMIT,
        window: float = WINDOW,
    ) -> None:
        """`invoke` handles a batch, within a turn of its own, and says whether it went well."""
        self.limit = limit
        self.busy = 0  # functions that run
        self.most_busy = 0
        self.dead: list[T] = []
        self._clock, self._turns, self._invoke, self._random = clock, turns, invoke, random
        self._window = window
        self._waiting: list[tuple[T, int]] = []
        self._open: list[_Batch[T]] = []

    def send(self, message: T) -> None:
        self._receive(message, 1)

    def _receive(self, message: T, times: int) -> None:
        if times > RECEIVES:
            self.dead.append(message)
            return
        self._waiting.append((message, times))
        self._poll()

    def _poll(self) -> None:
        while self._waiting:
            if len(self._open) < min(POLLERS, self.limit - self.busy):
                batch: _Batch[T] = _Batch()
                self._open.append(batch)
                self._clock.after(self._window, partial(self._begin, batch))
            elif self._open:
                batch = self._random.choice(self._open)
            else:
                return  # until a function ends
            batch.messages.append(self._waiting.pop(0))

    def _begin(self, batch: _Batch[T]) -> None:
        self._open.remove(batch)
        self.busy += 1
        self.most_busy = max(self.most_busy, self.busy)
        self._turns.begin(lambda: self._handle(batch))

    def _handle(self, batch: _Batch[T]) -> None:
        try:
            well = self._invoke([message for message, _ in batch.messages])
        finally:
            self.busy -= 1
        if not well:
            for message, times in batch.messages:
                self._clock.after(VISIBLE_AFTER, partial(self._receive, message, times + 1))
        self._poll()

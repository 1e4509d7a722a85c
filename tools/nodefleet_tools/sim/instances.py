"""One instance of EC2: its properties, its states over time, and how a caller with a stale view sees it."""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeAlias

from nodefleet.model.inventory import Instance, InstanceState, Market

OPERATOR = "an operator"
SETUP = "set-up"
LIVE = (InstanceState.PENDING, InstanceState.RUNNING)
_STOPPED = (InstanceState.STOPPING, InstanceState.STOPPED)

Range: TypeAlias = tuple[float, float]  # seconds, from … to


@dataclass(slots=True, kw_only=True)
class SimulatedInstance:
    id: str
    pool: str
    zone: str
    type: str
    market: Market
    launched_at: datetime
    shows_from: datetime
    operation: str = ""
    worker: bool = True
    ours: bool = True  # carries the cluster's tag
    untagged_at: datetime | None = None  # an operator took the cluster's tag away
    tagged_again_at: datetime | None = None  # … and gave it back
    failed: bool = False
    warm: bool = False  # its status tag says that we stopped it, to start it again
    template: str = ""
    template_version: str = ""
    by: str = SETUP  # who launched it: a run's name, or OPERATOR
    dooms: dict[str, datetime] = field(default_factory=dict)  # what takes it, by event, and since when it counts
    hourly_usd: float = 0.0
    states: list[tuple[datetime, InstanceState]] = field(default_factory=list)

    @property
    def state(self) -> InstanceState:
        return self.states[-1][1]

    @property
    def interrupted_at(self) -> datetime | None:
        """Since when EC2 takes it."""
        return min(self.dooms.values(), default=None)

    @property
    def live(self) -> bool:
        return self.states[-1][1] in LIVE

    @property
    def is_kept(self) -> bool:
        """Stopped, to be started again."""
        return self.warm and self.state in _STOPPED

    @property
    def ended_at(self) -> datetime | None:
        """When it stopped costing money; none while it runs, for the first time or again."""
        if self.live:
            return None
        lived = max((number for number, (_, state) in enumerate(self.states) if state in LIVE), default=-1)
        return self.states[lived + 1][0]

    def paid_between(self, since: datetime, until: datetime) -> timedelta:
        """How long it ran or booted within a time."""
        return self._between(since, until, LIVE)

    def kept_between(self, since: datetime, until: datetime) -> timedelta:
        """How long it was stopped within a time."""
        return self._between(since, until, _STOPPED)

    def _between(self, since: datetime, until: datetime, states: Collection[InstanceState]) -> timedelta:
        ends = [*(at for at, _ in self.states[1:]), until]
        spans = (
            min(end, until) - max(begin, since)
            for (begin, state), end in zip(self.states, ends, strict=True)
            if state in states
        )
        return sum((max(span, timedelta(0)) for span in spans), timedelta(0))

    def as_seen(self, at: datetime) -> Instance:
        """What EC2 says of it to a caller whose view is of this moment."""
        past = [state for since, state in self.states if since <= at]
        return Instance(
            id=self.id,
            pool=self.pool,
            state=past[-1] if past else self.states[0][1],
            zone=self.zone,
            type=self.type,
            market=self.market,
            launched_at=self.launched_at,
            operation=self.operation,
            worker=self.worker,
            failed=self.failed,
            template=self.template,
            template_version=self.template_version,
            warm=self.warm,
            created_at=self.states[0][0] if self.launched_at != self.states[0][0] else None,
        )


@dataclass(slots=True, kw_only=True)
class CloudSettings:
    boots_in: Range = (10.0, 25.0)  # pending → running
    ends_in: Range = (20.0, 45.0)  # shutting-down → terminated
    stops_in: Range = (20.0, 45.0)  # stopping → stopped
    starts_in: Range = (5.0, 12.0)  # stopped → running: its disk is there, and nothing is installed
    shows_in: Range = (0.0, 0.0)  # until a new instance is listed
    read_lag: float = 0.0  # how late a change of state shows
    listed_for: float = 3600.0  # after it was terminated

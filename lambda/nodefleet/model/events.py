"""What operators are told: one event for each thing that happened, with its figures and what to do about it.

Events are stored with what they tell of, in one transaction; a message is made of each of them later and elsewhere,
so that nothing here waits for a messenger.
"""

from dataclasses import dataclass
from datetime import datetime

from nodefleet.model.alerts import AlertKind
from nodefleet.model.state import Level

EventKind = AlertKind  # its name before the catalogue


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    id: str  # the same when the same thing is recorded twice
    at: datetime
    cluster: str
    kind: AlertKind
    pool: str = ""  # empty: the whole cluster
    subjects: tuple[str, ...] = ()  # what it is about: nodes, budgets, workloads, versions
    text: str  # what and why, with figures, and what to do
    nodes: int | None = None  # how many workers the pool has now
    change: int = 0  # nodes more or fewer
    usd_per_day: float | None = None  # what the change costs (+) or saves (-); none: not known
    details: tuple[str, ...] = ()  # what else was seen, a sentence each
    level: Level = Level.NORMAL
    dry: bool = False  # nothing was done: it would have been

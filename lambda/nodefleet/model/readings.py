"""What was measured, and when. A value that could not be had is Missing, never zero."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce
from operator import add
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Reading:
    value: float
    at: datetime  # when it was sampled, not when we asked


@dataclass(frozen=True, slots=True)
class Missing:
    cause: str
    # The source answered, and had nothing to show at this time: often the idle state. None: it could not be asked.
    empty_at: datetime | None = None


Sample: TypeAlias = Reading | Missing

NOT_ASKED = Missing("not asked for")


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolReadings:
    """What was measured of one pool's workers."""

    cpu: Sample = NOT_ASKED  # percent, mean over the pool's workers
    memory: Sample = NOT_ASKED  # percent, mean over the pool's workers
    nodes: Sample = NOT_ASKED  # how many workers the measuring side sees
    custom: Mapping[str, Sample] = field(default_factory=dict)  # by the name the policy gives the reading
    load: tuple[Reading, ...] = ()  # busy workers minute by minute, oldest first: asked for by `strategy: adaptive`
    idle: Mapping[str, float] = field(default_factory=dict)  # CPU idle percent by node name; orders who leaves first


NOTHING_READ = PoolReadings()


# ── sums ─────────────────────────────────────────────────────────────────────────────────────────────────────────────
# Sums of floats that are the same on every version of Python, so that a decision replays to the same result.
#
# From 3.12 on `sum` compensates rounding errors and 3.11 does not: the last digit differs, and with it, now and then, a
# choice between nodes that are equally good.


def add_up(values: Iterable[float]) -> float:
    """From left to right, each sum rounded."""
    return reduce(add, values, 0.0)

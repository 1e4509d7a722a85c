"""When something happens in a seed."""

from dataclasses import dataclass
from datetime import timedelta

TROUBLE = timedelta(minutes=60)
BACKLOG = "backlog"  # a reading that has no data while its queue is idle
REGION = "eu"  # another cluster, and the reading of its health


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    number: int  # its own stream of random numbers, whatever else happens
    after: float  # seconds from the start
    kind: str

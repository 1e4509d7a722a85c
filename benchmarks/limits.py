"""What a run may take where it is deployed, and whether it does."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tables import Row

from nodefleet.policy.cluster import Burst
from nodefleet_infra.config import Memory
from nodefleet_infra.functions import RECONCILE

WELL_UNDER = 0.25  # of the function's timeout


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    what: str
    unit: str
    taken: float
    allowed: float
    because: str

    @property
    def kept(self) -> bool:
        return self.taken <= self.allowed

    def __str__(self) -> str:
        return f"{self.what}: {self.taken:,.1f} {self.unit}, allowed are {self.allowed:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """How the function is deployed unless the stack says otherwise."""

    memory: int = Memory().of(RECONCILE.name)  # MB
    timeout: float = RECONCILE.timeout  # seconds


def limits(case: str, *, first: float, warm: Sequence[float], peak: float, deployed: Deployed) -> Iterator[Limit]:
    """Of one case: seconds of a cold start with its run, seconds of each warm run, and MiB at most."""
    yield Limit(
        what=f"{case}, peak memory",
        unit="MiB",
        taken=peak,
        allowed=deployed.memory,
        because="more, and Lambda kills it",
    )
    yield Limit(
        what=f"{case}, first run",
        unit="s",
        taken=first,
        allowed=WELL_UNDER * deployed.timeout,
        because=f"{WELL_UNDER:.0%} of the timeout of {deployed.timeout:g} s",
    )
    yield Limit(
        what=f"{case}, slowest warm run",
        unit="s",
        taken=max(warm),
        allowed=Burst().reserve.total_seconds(),
        because="the last iteration of a burst begins at least so long before the end (burst.reserve)",
    )


def rows(found: Iterable[Limit]) -> Iterator[Row]:
    for each in found:
        share = 100 * each.taken / each.allowed
        yield (each.what, each.unit, each.taken, each.allowed, share, "yes" if each.kept else "NO", each.because)


def verdict(found: Iterable[Limit]) -> tuple[bool, str]:
    """Whether all are kept, and that in a sentence."""
    broken = [each for each in found if not each.kept]
    if broken:
        return False, "EXCEEDED: " + "; ".join(map(str, broken))
    return True, "WITHIN ALL LIMITS"

"""Small builders for tests of the signals: times, looks, and a rule that is fed one reading after the other."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from builders import after
from nodefleet.decide.inputs import custom_name
from nodefleet.decide.signals.custom import opinions
from nodefleet.decide.signals.votes import Floor, Look, Opinion
from nodefleet.decide.sustain import Pace
from nodefleet.domain.memory import Breaches
from nodefleet.domain.policy import Pool, Readings, Sustain, Trust
from nodefleet.domain.policy.demand import DemandRule, readings_of
from nodefleet.domain.readings import PoolReadings, Reading, Sample

TRUST = Trust()
PACE = Pace(interval=timedelta(seconds=120), spacing=0.75, gap=2.0)
AT_ONCE = Sustain(up=Readings(count=1), down=Readings(count=1))


def look(seconds: float = 0, *, covered: int = 3, capacity: int | None = None) -> Look:
    return Look(now=after(seconds), covered=covered, capacity=covered if capacity is None else capacity)


def ask(
    rule: DemandRule,
    values: Mapping[str, float | Sample],
    seen: Look | None = None,
    *,
    breaches: Mapping[str, Breaches] | None = None,
    cached: Mapping[str, Reading] | None = None,
    pool: Pool | None = None,
    pace: Pace = PACE,
) -> Opinion:
    """What the rule says; `values` are by the rule's own fields, plain numbers are sampled right now."""
    seen = seen or look()
    names = dict(readings_of(rule))
    samples: dict[str, Sample] = {
        names[field]: Reading(value, seen.now) if isinstance(value, int | float) else value
        for field, value in values.items()
    }
    (opinion,) = opinions(
        replace(pool or Pool(), custom=(rule,)),
        PoolReadings(custom=samples),
        {custom_name(name): reading for name, reading in (cached or {}).items()},
        breaches or {},
        seen,
        trust=TRUST,
        pace=pace,
    )
    return opinion


def ask_along(
    rule: DemandRule,
    rows: Sequence[tuple[float, Mapping[str, float | Sample], int]],
    *,
    pool: Pool | None = None,
    pace: Pace = PACE,
) -> list[Opinion]:
    """The opinions on (seconds, values, ready nodes), each remembering the one before."""
    said: list[Opinion] = []
    for seconds, values, nodes in rows:
        before = said[-1].breaches if said else {}
        said.append(ask(rule, values, look(seconds, covered=nodes), breaches=before, pool=pool, pace=pace))
    return said


def floor_of(opinion: Opinion) -> float:
    """The floor it votes for; less than any if it votes for none."""
    return opinion.vote.nodes if isinstance(opinion.vote, Floor) else float("-inf")


def words(said: Sequence[Opinion]) -> list[str]:
    """The kinds of votes, for tables."""
    return [type(opinion.vote).__name__ for opinion in said]

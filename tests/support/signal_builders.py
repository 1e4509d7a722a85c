"""Small builders for tests of the signals: times, looks, and a rule that is fed one reading after the other."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from nodefleet.capacity import FleetSize
from nodefleet.engine.context import custom_name
from nodefleet.engine.signals.demand_rules import evaluate_custom
from nodefleet.engine.signals.vote import Pace, ScaleUp, SignalVote
from nodefleet.model.snapshot import PoolReadings, Reading, Sample
from nodefleet.model.state import Breaches
from nodefleet.policy.cluster import Trust
from nodefleet.policy.demand import DemandRule, Readings, Sustain, readings_of
from nodefleet.policy.pool import Pool
from support.builders import after

TRUST = Trust()
PACE = Pace(interval=timedelta(seconds=120), spacing=0.75, gap=2.0)
AT_ONCE = Sustain(up=Readings(count=1), down=Readings(count=1))


def look(seconds: float = 0, *, covered: int = 3, capacity: int | None = None) -> FleetSize:
    return FleetSize(now=after(seconds), covered=covered, capacity=covered if capacity is None else capacity)


def ask(
    rule: DemandRule,
    values: Mapping[str, float | Sample],
    seen: FleetSize | None = None,
    *,
    breaches: Mapping[str, Breaches] | None = None,
    cached: Mapping[str, Reading] | None = None,
    pool: Pool | None = None,
    pace: Pace = PACE,
) -> SignalVote:
    """What the rule says; `values` are by the rule's own fields, plain numbers are sampled right now."""
    seen = seen or look()
    names = dict(readings_of(rule))
    samples: dict[str, Sample] = {
        names[field]: Reading(value, seen.now) if isinstance(value, int | float) else value
        for field, value in values.items()
    }
    (opinion,) = evaluate_custom(
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
) -> list[SignalVote]:
    """The opinions on (seconds, values, ready nodes), each remembering the one before."""
    said: list[SignalVote] = []
    for seconds, values, nodes in rows:
        before = said[-1].breaches if said else {}
        said.append(ask(rule, values, look(seconds, covered=nodes), breaches=before, pool=pool, pace=pace))
    return said


def floor_of(opinion: SignalVote) -> float:
    """The floor it votes for; less than any if it votes for none."""
    return opinion.vote.nodes if isinstance(opinion.vote, ScaleUp) else float("-inf")


def words(said: Sequence[SignalVote]) -> list[str]:
    """The kinds of votes, for tables."""
    return [type(opinion.vote).__name__ for opinion in said]

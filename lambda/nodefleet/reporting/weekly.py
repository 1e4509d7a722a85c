"""The week as data: what each pool used and cost, what failed, and what could be better."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Event
from nodefleet.model.inventory import InstanceType
from nodefleet.model.snapshot import Missing, TuningResult
from nodefleet.model.state import MONTH_HOURS, AdaptiveMemory, Memory, Usage
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Pool
from nodefleet.reporting.recommendations import (
    lower_max,
    lower_min,
    lower_requests,
    other_type,
    raise_max,
    spot,
    wanted_spot_percent,
)
from nodefleet.reporting.review import USUAL, Recommendation, ReviewContext, Subject, Thresholds
from nodefleet.reporting.usage import Period, PoolWeek, Record, cents, collect_hours, percent

# ── comparison with a fixed fleet ────────────────────────────────────────────────────────────────────────────────────
# What a fixed fleet would have cost instead.
#
# Without an autoscaler a team would run as many nodes as the busiest moment needed, all the time, and On-Demand. Both
# sides cover the watched time only: time without an iteration is neither a cost nor a saving.


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    nodes: int  # of the fixed fleet
    type: str
    hourly_usd: float
    hours: float
    fixed_usd: float  # this and `usd` to the cent, so that they add up as they are told
    usd: float
    fixed_spot_usd: float | None = None  # as many on Spot at its present price; none if that is not known
    lower_bound: bool = False  # some node-hours have no price: the true cost is higher

    @property
    def saved_usd(self) -> float:
        """Negative if the fixed fleet would have been cheaper."""
        return cents(self.fixed_usd - self.usd)

    @property
    def saved_percent(self) -> float:
        return 100 * self.saved_usd / self.fixed_usd


def compare_fixed(week: PoolWeek, catalog: Mapping[str, InstanceType], thresholds: Thresholds) -> Comparison | Missing:
    main = week.main_type
    offer = catalog.get(main)
    if not main or not week.peak:
        return Missing("no node ran")
    if offer is None or offer.hourly_usd is None:
        return Missing(f"the On-Demand price of {main}, which ran most, is not known")
    if week.unpriced_percent > thresholds.unpriced_percent:
        return Missing(f"{percent(week.unpriced_percent)} of the node-hours have no known price")
    fixed = cents(week.peak * week.watched * offer.hourly_usd)
    if fixed <= 0:
        return Missing("it ran for too short a time")
    return Comparison(
        nodes=week.peak,
        type=main,
        hourly_usd=offer.hourly_usd,
        hours=week.watched,
        fixed_usd=fixed,
        usd=cents(week.usd),
        fixed_spot_usd=None if offer.spot_usd is None else cents(week.peak * week.watched * offer.spot_usd),
        lower_bound=week.unpriced_percent > 0,
    )


# ── recommendations ──────────────────────────────────────────────────────────────────────────────────────────────────
# All advice together: every rule is asked, no two answers contradict each other, the most valuable come first.


Rule = Callable[[ReviewContext], Recommendation | None]

RULES: tuple[Rule, ...] = (lower_requests, raise_max, lower_min, other_type, lower_max, spot)
RULES_OF_A_DRY_RUN: tuple[Rule, ...] = (lower_requests, other_type)  # its size and its purchases are not our doing

# What the key's advice makes moot: each figure of a pair holds only without the other's change.
_FIRST: dict[Subject, frozenset[Subject]] = {
    Subject.REQUESTS: frozenset({Subject.RAISE_MAX, Subject.TYPE, Subject.LOWER_MAX}),
    Subject.RAISE_MAX: frozenset({Subject.LOWER_MAX, Subject.TYPE}),
    Subject.LOWER_MIN: frozenset({Subject.TYPE}),
    Subject.TYPE: frozenset({Subject.LOWER_MAX}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    recommendations: tuple[Recommendation, ...] = ()
    left_out: int = 0  # of less value


def advise(cases: Iterable[ReviewContext], most: int) -> Advice:
    """At most so many for the whole cluster. What serves the work is never left out for what saves money."""
    found = [each for case in cases for each in _agreeing(_of_pool(case))]
    chosen = sorted(found, key=lambda each: (not each.for_service, -_worth(each)))[:most]
    shown = sorted(chosen, key=lambda each: (-_worth(each), not each.for_service, each.pool, each.subject.value))
    return Advice(recommendations=tuple(shown), left_out=len(found) - len(chosen))


def _of_pool(case: ReviewContext) -> list[Recommendation]:
    rules = RULES_OF_A_DRY_RUN if case.pool.dry_run else RULES
    return [each for rule in rules if (each := rule(case)) is not None]


def _agreeing(found: Sequence[Recommendation]) -> list[Recommendation]:
    """Without those that another one makes moot; who gives way is the same whatever the sums."""
    kept: list[Recommendation] = []
    for each in sorted(found, key=lambda each: list(Subject).index(each.subject)):
        if not any(each.subject in _FIRST.get(other.subject, ()) for other in kept):
            kept.append(each)
    return kept


def _worth(each: Recommendation) -> float:
    return each.usd_per_month or 0.0


# ── weekly ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolReport:
    week: PoolWeek
    in_policy: bool
    dry_run: bool
    compared: Comparison | Missing
    wanted_spot_percent: float | None  # none: no longer in the policy, or no node ran
    spot_is_short: bool
    judged_hours: float  # watched since the policy is what it is
    forecast: AdaptiveMemory | None = None  # of `strategy: adaptive`: how good its forecast is by its own grades
    tuned: TuningResult | None = None  # what tuning found on the pool's own load, when an operator asked last

    @property
    def name(self) -> str:
        return self.week.name

    @property
    def usd(self) -> float:
        return cents(self.week.usd)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeeklyReport:
    cluster: str
    period: Period
    record: Record
    pools: tuple[PoolReport, ...]  # the policy's, then those that are no longer in it
    happened: Counter[AlertKind] = field(default_factory=Counter)  # what operators were told, dry runs left out
    policy_changed_at: datetime | None = None
    advice: Advice = Advice()
    own_usd: Mapping[str, float] = field(default_factory=dict)  # the autoscaler itself, in this period, by part
    thresholds: Thresholds = USUAL

    @property
    def watched_percent(self) -> float:
        return min(100.0, 100 * self.record.watched / self.period.hours) if self.period.hours else 0.0

    @property
    def is_judged(self) -> bool:
        return any(pool.judged_hours >= self.thresholds.enough_hours for pool in self.pools)

    @property
    def node_hours(self) -> float:
        return sum(pool.week.node_hours for pool in self.pools)

    @property
    def usd(self) -> float:
        """To the cent, as the pools' own figures are."""
        return cents(sum(pool.usd for pool in self.pools))

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        return tuple(pool.compared for pool in self.pools if isinstance(pool.compared, Comparison))

    @property
    def fixed_usd(self) -> float:
        return cents(sum(each.fixed_usd for each in self.comparisons))

    @property
    def fixed_spot_usd(self) -> float | None:
        """None if the Spot price of one of them is not known."""
        known = [each.fixed_spot_usd for each in self.comparisons if each.fixed_spot_usd is not None]
        return cents(sum(known)) if known and len(known) == len(self.comparisons) else None

    @property
    def saved_usd(self) -> float:
        """Of the pools that can be compared."""
        return cents(sum(each.saved_usd for each in self.comparisons))


def weekly_report(
    cluster: str,
    period: Period,
    usage: Iterable[Usage],
    events: Iterable[Event],
    policy: Policy,
    catalog: Sequence[InstanceType],
    thresholds: Thresholds = USUAL,
    *,
    own_monthly_usd: Mapping[str, float] | None = None,
    memory: Memory | None = None,
    tuned: Iterable[TuningResult] = (),
) -> WeeklyReport:
    """`own_monthly_usd` is what the deployment says that the autoscaler itself costs. `memory`: of the last iteration;
    it has the grades of the forecasts."""
    record = collect_hours(usage, period)
    tunings = {found.pool: found for found in tuned}
    told = _events_in(events, period)
    offers = {offer.name: offer for offer in catalog}
    changed = max((event.at for event in told if event.kind is AlertKind.POLICY_CHANGED), default=None)
    judged_from = changed or period.start
    names = [pool.name for pool in policy.pools]
    names += [name for name in record.pools() if name not in names]
    weeks = {name: record.pool(name) for name in names}
    cases = [
        ReviewContext(
            pool=pool,
            week=weeks[pool.name].since(judged_from),
            period_hours=period.hours,
            catalog=offers,
            told=Counter(each.kind for each in told if each.pool in {"", pool.name} and each.at >= judged_from),
            only_pool=len(names) == 1,
            thresholds=thresholds,
        )
        for pool in policy.pools
    ]
    judged = [case for case in cases if case.week.watched and case.week.watched >= thresholds.enough_hours]
    return WeeklyReport(
        cluster=cluster,
        period=period,
        record=record,
        pools=tuple(
            replace(
                _pool_report(week, policy.pool(name), week.since(judged_from), offers, thresholds),
                forecast=_forecast_of(memory, policy.pool(name)),
                tuned=tunings.get(name),
            )
            for name, week in weeks.items()
        ),
        happened=Counter(event.kind for event in told),
        policy_changed_at=changed,
        advice=advise(judged, thresholds.most_advice),
        own_usd={part: usd * period.hours / MONTH_HOURS for part, usd in (own_monthly_usd or {}).items()},
        thresholds=thresholds,
    )


def _events_in(events: Iterable[Event], period: Period) -> list[Event]:
    """What really happened in the period, each event once."""
    once = {event.id: event for event in events if event.at in period and not event.dry}
    return list(once.values())


def _forecast_of(memory: Memory | None, pool: Pool | None) -> AdaptiveMemory | None:
    return memory.pool(pool.name).adaptive if memory and pool and pool.strategy == "adaptive" else None


def _pool_report(
    week: PoolWeek, pool: Pool | None, judged: PoolWeek, offers: Mapping[str, InstanceType], thresholds: Thresholds
) -> PoolReport:
    wanted = wanted_spot_percent(week, pool.market) if pool else None
    return PoolReport(
        week=week,
        in_policy=pool is not None,
        dry_run=pool is not None and pool.dry_run,
        compared=compare_fixed(week, offers, thresholds),
        wanted_spot_percent=wanted,
        spot_is_short=wanted is not None and wanted - (week.spot_percent or 0.0) >= thresholds.spot_gap,
        judged_hours=judged.watched if pool else 0.0,
    )

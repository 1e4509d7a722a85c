"""The week as data: what each pool used and cost, what failed, and what could be better."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from nodefleet.domain.alerts import AlertKind
from nodefleet.domain.events import Event
from nodefleet.domain.journal import MONTH_HOURS, Usage
from nodefleet.domain.machines import InstanceType
from nodefleet.domain.policy import Policy, Pool
from nodefleet.domain.readings import Missing
from nodefleet.reporting.advice import Advice, advise
from nodefleet.reporting.advise_spot import wanted_spot_percent
from nodefleet.reporting.amounts import cents
from nodefleet.reporting.case import Case
from nodefleet.reporting.cost import Comparison, compared
from nodefleet.reporting.figures import PoolWeek, Record, recorded
from nodefleet.reporting.period import Period
from nodefleet.reporting.thresholds import USUAL, Thresholds


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolReport:
    week: PoolWeek
    in_policy: bool
    dry_run: bool
    compared: Comparison | Missing
    wanted_spot_percent: float | None  # none: no longer in the policy, or no node ran
    spot_is_short: bool
    judged_hours: float  # watched since the policy is what it is

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
    happened: Counter[AlertKind] = field(default_factory=Counter)  # what people were told, dry runs left out
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
) -> WeeklyReport:
    """`own_monthly_usd` is what the deployment says that the autoscaler itself costs."""
    record = recorded(usage, period)
    told = _told(events, period)
    offers = {offer.name: offer for offer in catalog}
    changed = max((event.at for event in told if event.kind is AlertKind.POLICY_CHANGED), default=None)
    judged_from = changed or period.start
    names = [pool.name for pool in policy.pools]
    names += [name for name in record.pools() if name not in names]
    weeks = {name: record.pool(name) for name in names}
    cases = [
        Case(
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
            _pool_report(week, policy.pool(name), week.since(judged_from), offers, thresholds)
            for name, week in weeks.items()
        ),
        happened=Counter(event.kind for event in told),
        policy_changed_at=changed,
        advice=advise(judged, thresholds.most_advice),
        own_usd={part: usd * period.hours / MONTH_HOURS for part, usd in (own_monthly_usd or {}).items()},
        thresholds=thresholds,
    )


def _told(events: Iterable[Event], period: Period) -> list[Event]:
    """What really happened in the period, each event once."""
    once = {event.id: event for event in events if event.at in period and not event.dry}
    return list(once.values())


def _pool_report(
    week: PoolWeek, pool: Pool | None, judged: PoolWeek, offers: Mapping[str, InstanceType], thresholds: Thresholds
) -> PoolReport:
    wanted = wanted_spot_percent(week, pool.market) if pool else None
    return PoolReport(
        week=week,
        in_policy=pool is not None,
        dry_run=pool is not None and pool.dry_run,
        compared=compared(week, offers, thresholds),
        wanted_spot_percent=wanted,
        spot_is_short=wanted is not None and wanted - (week.spot_percent or 0.0) >= thresholds.spot_gap,
        judged_hours=judged.watched if pool else 0.0,
    )

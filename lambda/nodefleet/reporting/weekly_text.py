"""The report in sentences: a headline, a line for each subject, and an event that carries both to operators."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from textwrap import fill

from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Event
from nodefleet.model.names import pluralize
from nodefleet.model.snapshot import Missing, TuningResult
from nodefleet.model.state import AdaptiveMemory
from nodefleet.reporting.review import Recommendation
from nodefleet.reporting.usage import PoolWeek, coverage, hourly, hours, number, percent, some, times, usd
from nodefleet.reporting.weekly import Comparison, PoolReport, WeeklyReport

# ── one pool ─────────────────────────────────────────────────────────────────────────────────────────────────────────
# A pool's week in sentences, one for each subject.


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportLine:
    about: str
    says: str
    pool: str = ""  # empty: the whole cluster, or its only pool

    @property
    def label(self) -> str:
        return f"{self.about} ({self.pool})" if self.pool else self.about

    def __str__(self) -> str:
        return f"{self.label}: {self.says}."


def pool_lines(pool: PoolReport, watched: float, name: str) -> Iterator[ReportLine]:
    """`watched` is the whole cluster's; `name` stands in the lines if there are several pools."""
    week = pool.week
    if not pool.in_policy:
        yield ReportLine(about="Pool", says="no longer in the policy", pool=pool.name)
    if pool.dry_run:
        yield ReportLine(about="Pool", says="a dry run: it was watched, and nothing in it was changed", pool=pool.name)
    if not week.watched:
        yield ReportLine(about="Nodes", says="nothing was recorded", pool=name)
        return
    seen = f", seen for {hours(week.watched)}" if week.watched < watched - 1 else ""
    yield ReportLine(about="Nodes", says=f"{_nodes(week)}{seen}", pool=name)
    if not week.node_hours:
        return
    yield ReportLine(about="Cost", says=_pool_cost(pool), pool=name)
    yield ReportLine(about="Fixed fleet", says=_describe_fixed(pool.compared), pool=name)
    yield ReportLine(about="Spot", says=_spot(pool), pool=name)
    yield ReportLine(about="Scaling", says=_scaling(week), pool=name)
    yield ReportLine(about="Use", says=_use(week), pool=name)
    if pool.forecast is not None and pool.forecast.skill is not None:
        yield ReportLine(about="Forecast", says=_describe_grade(pool.forecast, pool.forecast.skill), pool=name)
    if pool.tuned is not None:
        yield ReportLine(about="Tuning", says=_describe_tuning(pool.tuned), pool=name)


def compared_with(saved: float, fixed: float, *, at_most: bool) -> str:
    """USD 15.47 (75 %) less than; `at_most` when part of the cost is not known."""
    if not saved:
        return "no less than" if at_most else "as much as"
    share = percent(100 * abs(saved) / fixed)
    if saved < 0:
        return f"{'at least ' if at_most else ''}{usd(-saved)} ({share}) more than"
    return f"{'at most ' if at_most else ''}{usd(saved)} ({share}) less than"


def _nodes(week: PoolWeek) -> str:
    if not week.node_hours:
        return "no node ran"
    several = f"{week.fewest} to {week.peak}" if week.fewest < week.peak else f"{week.peak}"
    return (
        f"{number(week.node_hours)} node-hours ({number(week.spot_hours)} Spot, {number(week.on_demand_hours)} "
        f"On-Demand), {several} at a time, {number(week.nodes)} on the mean"
    )


def _pool_cost(pool: PoolReport) -> str:
    unpriced = pool.week.unpriced_percent
    if not unpriced:
        return f"{usd(pool.usd)} by the catalogue's prices"
    if not pool.usd:
        return "not known: no node-hour has a known price"
    return f"at least {usd(pool.usd)}: {percent(unpriced)} of the node-hours have no known price and are not in it"


def _describe_fixed(compared: Comparison | Missing) -> str:
    if isinstance(compared, Missing):
        return f"not compared: {compared.cause}"
    difference = compared_with(compared.saved_usd, compared.fixed_usd, at_most=compared.lower_bound)
    spot = ""
    if compared.fixed_spot_usd is not None:
        spot = f"; as many on Spot at its present price, never interrupted: {usd(compared.fixed_spot_usd)}"
    return (
        f"{compared.nodes} × {compared.type} On-Demand at {hourly(compared.hourly_usd)} (as many as the week's peak, "
        f"of the type that ran most) for the same {hours(compared.hours)} cost {usd(compared.fixed_usd)}; "
        f"the autoscaled fleet cost {difference} that{spot}"
    )


def _spot(pool: PoolReport) -> str:
    week, count = pool.week, pool.week.count("interruptions")
    said = f"{percent(week.spot_percent or 0.0)} of the node-hours"
    if pool.wanted_spot_percent is not None and not pool.dry_run:
        said += f", where the policy aims at {percent(pool.wanted_spot_percent)} for fleets of these sizes"
    if pool.spot_is_short:
        said += f" ({_why_less(week)})"
    often = f", one in {number(week.spot_hours / count)} Spot node-hours" if count and week.spot_hours else ""
    swaps = week.count("market_swaps")
    healed = f"; {some(swaps, 'On-Demand node')} above the share replaced by Spot" if swaps else ""
    return f"{said}; {some(count, 'interruption') if count else 'no interruption'}{often}{healed}"


def _why_less(week: PoolWeek) -> str:
    short = week.count("no_capacity")
    if short:
        return f"EC2 had no capacity {times(short)}, and what Spot lacks is bought On-Demand"
    if week.count("interruptions"):
        return "what replaces lost nodes to hold min is bought On-Demand"
    return "nothing recorded says why"


def _scaling(week: PoolWeek) -> str:
    at_max = percent(week.at_max_percent)
    added, removed = week.count("scale_ups"), week.count("scale_downs")
    rotated = week.count("rotations")
    under_used = week.count("consolidations")
    counted = ((rotated, "rotation"), (under_used, "consolidation"))
    ways = ", ".join(f"{number:,} of them by {way}" for number, way in counted if number)
    of_them = f" ({ways})" if ways else ""
    return f"{some(added, 'node')} added, {removed:,} removed{of_them}; as large as max for {at_max} of the time"


def _use(week: PoolWeek) -> str:
    return "; ".join(
        (
            _readable("CPU", week.mean(lambda hour: hour.cpu), week.known_percent("cpu_known")),
            _readable("memory", week.mean(lambda hour: hour.memory), week.known_percent("memory_known")),
            _describe_requests(week),
        )
    )


def _describe_grade(forecast: AdaptiveMemory, skill: float) -> str:
    """How good the forecast is by its own grades, and whether its chances can be believed."""
    worth = f"errs {percent(skill)} less than the last value does" if skill > 0 else "no better than the last value"
    return (
        f"{worth}; of the decisions of about two days it expected {number(forecast.promised)} to end above the limit, "
        f"and {number(forecast.violated)} did"
    )


def _describe_tuning(found: TuningResult) -> str:
    """What tuned settings would have saved, and how sure that is."""
    than = "more" if found.saving_pct < 0 else "less"
    return (
        f"adaptive with {found.settings} would have taken {percent(abs(found.saving_pct))} {than} node-hours than "
        f"classic on {pluralize(found.days, 'day', 'days')} until {found.at:%Y-%m-%d} (nine of ten draws of days: "
        f"{found.saving_low_pct:.0f} to {found.saving_high_pct:.0f} % less), with {found.violation_pct:.2f} % "
        f"violations; within {found.budget_pct:g} % in {percent(found.within_budget_pct)} of the draws"
    )


def _describe_requests(week: PoolWeek) -> str:
    cpu, memory = week.mean(lambda hour: hour.requested_cpu), week.mean(lambda hour: hour.requested_memory)
    known = week.known_percent("requested_known")
    if cpu is None or memory is None:
        return "what pods ask for is not known"
    return f"pods ask for {percent(cpu)} of the CPU and {percent(memory)} of the memory{_partly(known)}"


def _readable(name: str, mean: float | None, known: float) -> str:
    return f"{name} not readable" if mean is None else f"{name} {percent(mean)}{_partly(known)}"


def _partly(known: float) -> str:
    return "" if round(known) >= 100 else f" (readable for {percent(known)} of the watched time)"  # noqa: PLR2004


# ── the report ───────────────────────────────────────────────────────────────────────────────────────────────────────


_HALF_A_CENT = 0.005
_WIDTH = 110
_NO_BREAK = "\N{NO-BREAK SPACE}"

# What goes wrong, in the words of the report. The first three are counted hour by hour.
_COUNTED = {
    "join_failures": "nodes that did not join",
    "drain_failures": "drains that were blocked",
    "no_capacity": "launches that EC2 had no capacity for",
}
_TOLD = {
    AlertKind.QUOTA: "quota reached",
    AlertKind.PERMISSION: "permission missing",
    AlertKind.LAUNCH_INVALID: "launches refused as invalid",
    AlertKind.UNHEALTHY: "unhealthy nodes replaced",
    AlertKind.MANY_UNHEALTHY: "many nodes unhealthy at once",
    AlertKind.FORCED: "pods deleted by force",
    AlertKind.CANNOT_HOLD: "pods that no node can hold",
    AlertKind.PODS_REFUSED: "pods that the scheduler refused",
    AlertKind.NO_BENEFIT: "growth that changed nothing",
    AlertKind.SCALE_DOWN_BLOCKED: "shrinking held back for long",
    AlertKind.ROTATION_BLOCKED: "old workers that could not be replaced for long",
    AlertKind.NODE_IN_DOUBT: "nodes in doubt",
    AlertKind.CLEANUP_NEEDS_OPERATOR: "cleanup left to an operator",
    AlertKind.DEGRADED: "parts not readable",
    AlertKind.POLICY_REFUSED: "policies refused",
    AlertKind.POLICY_UNUSABLE: "holds for want of a usable policy",
    AlertKind.ALARM: "alarms",
}


def report_event(report: WeeklyReport, now: datetime) -> Event:
    """The same id for the same cluster and week, so that it is told once."""
    return Event(
        id=f"report/{report.cluster}/{report.period.name}",
        at=now,
        cluster=report.cluster,
        kind=AlertKind.REPORT,
        text=headline(report),
        details=tuple(str(line) for line in lines(report)),
    )


def daily_event(report: WeeklyReport, now: datetime) -> Event:
    """Yesterday in one line."""
    day = report.period.local(report.period.start)[:10]
    return Event(
        id=f"daily/{report.cluster}/{day}",
        at=now,
        cluster=report.cluster,
        kind=AlertKind.DAILY,
        text=f"{day}: {_day(report)}.",
    )


def _day(report: WeeklyReport) -> str:
    if not report.record.watched:
        return "no iteration was recorded"
    pools = [pool for pool in report.pools if pool.week.watched]
    sizes = "; ".join(_nodes(pool.week) if len(pools) == 1 else f"{pool.name}: {_nodes(pool.week)}" for pool in pools)
    counts = {name: sum(pool.week.count(name) for pool in pools) for name in ("scale_ups", "scale_downs")}
    taken = sum(pool.week.count("interruptions") for pool in pools)
    interrupted = f"; {some(taken, 'interruption')}" if taken else ""
    failures = _failures(report)
    return (
        f"{sizes}; {_cost(report)}; {counts['scale_ups']} added, {counts['scale_downs']} removed{interrupted};"
        f" failures: {failures}"
    )


def plain(report: WeeklyReport, width: int = _WIDTH) -> str:
    """For a terminal."""
    shown = list(lines(report))
    column = max(len(line.label) for line in shown) + 2
    body = (_wrap(f"{line.says}.", width, line.label.ljust(column)) for line in shown)
    return "\n".join((_wrap(f"{report.cluster}: {headline(report)}", width), "", *body))


def _wrap(text: str, width: int, label: str = "") -> str:
    """No percent sign begins a line."""
    kept = text.replace(" %", f"{_NO_BREAK}%")
    return fill(kept, width, initial_indent=label, subsequent_indent=" " * len(label)).replace(_NO_BREAK, " ")


def headline(report: WeeklyReport) -> str:
    period, watched = report.period.words, report.record.watched
    if not report.record.hours:
        return (
            f"{period}: the autoscaler did not run. Not one hour was recorded. See that its schedule is on; "
            "`nodefleet doctor` names what else is wrong."
        )
    if not watched:
        return (
            f"{period}: the autoscaler ran and could look at nothing for longer than a moment. "
            "`nodefleet doctor` names what is wrong."
        )
    so_much = f"{number(report.node_hours)} node-hours for {_cost(report)}{_against_fixed(report)}"
    if watched < report.thresholds.enough_hours:
        return (
            f"{period}: only {number(watched)} of {report.period.hours} h were watched, too little to judge: {so_much}."
        )
    partly = report.watched_percent < report.thresholds.whole_percent
    seen = f" {percent(report.watched_percent)} of it was watched." if partly else ""
    return f"{period}: {so_much}.{seen} {_summary(report)}"


def lines(report: WeeklyReport) -> Iterator[ReportLine]:
    watched = report.record.watched
    yield ReportLine(about="Watched", says=coverage(report.record, report.period))
    if watched:
        yield from _fleet(report, watched)
        waited = report.record.waiting_pod_hours
        yield ReportLine(
            about="Waiting",
            says=f"pods waited {number(waited)} pod-hours for a node" if waited else "no pod waited for a node",
        )
    yield from _own(report)
    yield from _people(report)
    yield ReportLine(about="Failures", says=_failures(report))
    if watched:
        yield from _recommendations(report)


# ── the fleet ────────────────────────────────────────────────────────────────────────────────────────────────────


def _cost(report: WeeklyReport) -> str:
    unpriced = [pool for pool in report.pools if pool.week.unpriced_percent]
    if not unpriced:
        return usd(report.usd)
    return f"at least {usd(report.usd)}" if report.usd else "an unknown price"


def _own(report: WeeklyReport) -> Iterator[ReportLine]:
    """Beside the instances, and not in their cost: it is the same whether the fleet is small or large."""
    if not report.own_usd:
        return
    parts = sorted(report.own_usd.items(), key=lambda part: -part[1])
    each = ", ".join(f"{name} {amount:.2f}" for name, amount in parts if amount >= _HALF_A_CENT)
    said = f"about {usd(sum(report.own_usd.values()))} at list prices" + (f" ({each})" if each else "")
    yield ReportLine(about="Autoscaler", says=said)


def _against_fixed(report: WeeklyReport) -> str:
    found = report.comparisons
    if not found:
        return ""
    at_most = any(each.lower_bound for each in found)
    difference = compared_with(report.saved_usd, report.fixed_usd, at_most=at_most)
    ran = sum(1 for pool in report.pools if pool.week.node_hours)
    only = f" ({len(found)} of {ran} pools compared)" if len(found) < ran else ""
    return f", {difference} a fixed fleet as large as the peak{only}"


def _summary(report: WeeklyReport) -> str:
    found = report.advice.recommendations
    if not report.is_judged:
        return "No recommendations yet."
    if not found:
        return "Nothing needs doing."
    worth = found[0].usd_per_month or 0.0
    which = ", the first" if len(found) > 1 else ","
    saving = f"{which} worth up to {usd(worth)} a month" if worth >= _HALF_A_CENT else ""
    return f"{some(len(found), 'recommendation')}{saving}."


def _fleet(report: WeeklyReport, watched: float) -> Iterator[ReportLine]:
    if len(report.pools) == 1:
        yield from pool_lines(report.pools[0], watched, "")
        return
    together = f"{number(report.node_hours)} node-hours for {_cost(report)}{_against_fixed(report)}"
    yield ReportLine(about="Together", says=together)
    costliest = sorted(report.pools, key=lambda pool: -pool.usd)
    shown = costliest[: report.thresholds.most_pools]
    for pool in report.pools:
        if pool in shown:
            yield from pool_lines(pool, watched, pool.name)
    rest = costliest[len(shown) :]
    if rest:
        used = number(sum(pool.week.node_hours for pool in rest))
        cost = usd(sum(pool.usd for pool in rest))
        yield ReportLine(about="Others", says=f"{some(len(rest), 'more pool')} with {used} node-hours for {cost}")


# ── what happened ────────────────────────────────────────────────────────────────────────────────────────────────


def _people(report: WeeklyReport) -> Iterator[ReportLine]:
    happened = report.happened
    said = []
    if report.policy_changed_at is not None:
        count = times(happened[AlertKind.POLICY_CHANGED])
        said.append(f"the policy changed {count}, last {report.period.local(report.policy_changed_at)}")
    if happened[AlertKind.PAUSED]:
        said.append(f"scaling was paused {times(happened[AlertKind.PAUSED])}")
    if happened[AlertKind.SCALED_BY_OPERATOR]:
        said.append(f"the size was set by hand {times(happened[AlertKind.SCALED_BY_OPERATOR])}")
    if said:
        yield ReportLine(about="People", says="; ".join(said))


def _failures(report: WeeklyReport) -> str:
    counted = {words: sum(pool.week.count(field) for pool in report.pools) for field, words in _COUNTED.items()}
    counted |= {words: report.happened[kind] for kind, words in _TOLD.items()}
    found = [f"{words}: {count:,}" for words, count in counted.items() if count]
    return ", ".join(found) or "none was recorded"


# ── what to do ───────────────────────────────────────────────────────────────────────────────────────────────────


def _recommendations(report: WeeklyReport) -> Iterator[ReportLine]:
    several = len(report.pools) > 1
    for number_, each in enumerate(report.advice.recommendations, start=1):
        yield ReportLine(
            about=f"Recommendation {number_}", says=_describe_advice(each), pool=each.pool if several else ""
        )
    about = "Recommendations"
    if report.advice.left_out:
        yield ReportLine(about=about, says=f"{report.advice.left_out} more of less value are left out")
    young = [pool for pool in report.pools if pool.in_policy and pool.judged_hours < report.thresholds.enough_hours]
    since = "since the policy changed" if report.policy_changed_at else "so far"
    for pool in young:
        enough = f"{report.thresholds.enough_hours:g} h are needed"
        says = f"none yet: {hours(pool.judged_hours)} were watched {since}, {enough}"
        yield ReportLine(about=about, says=says, pool=pool.name if several else "")
    if report.is_judged and not report.advice.recommendations:
        yield ReportLine(about=about, says="nothing needs doing" if not young else "nothing else needs doing")


def _describe_advice(each: Recommendation) -> str:
    worth = each.usd_per_month or 0.0
    money = ""
    if worth >= _HALF_A_CENT:
        money = f"alone it saves up to {usd(worth)} a month"
    elif worth <= -_HALF_A_CENT:
        money = f"it costs up to {usd(-worth)} a month"
    outcome = "; ".join(filter(None, (each.effect, money)))
    return f"{each.do}: {each.because}" + (f". {outcome[0].upper()}{outcome[1:]}" if outcome else "")

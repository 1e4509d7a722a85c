"""What came of a scenario, in words with figures: the same for the terminal and for the page."""

from dataclasses import dataclass
from datetime import timedelta
from math import inf

from nodefleet.model.decision import BoundSource
from nodefleet.model.names import pluralize
from nodefleet_tools.sim.scenario_result import Fixed, ScenarioResult

_HOUR = timedelta(hours=1)
_FEW_CENTS = 0.1
_SOON = 120  # seconds: below it they are counted one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    label: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """What a fixed fleet would have cost more, and what saved it."""

    percent: float
    usd: float
    by_fewer_nodes: float  # USD: node-hours that were not needed, at the fixed fleet's price
    by_prices: float  # USD: what ran was cheaper by the hour, mostly Spot


def saving(played: ScenarioResult, fixed: Fixed) -> Saving:
    hours = fixed.nodes * ((played.ends - played.starts) / _HOUR)
    same_price = played.figures.node_hours * fixed.usd / hours
    return Saving(
        percent=fixed.saved_percent(played.figures.usd),
        usd=fixed.usd - played.figures.usd,
        by_fewer_nodes=fixed.usd - same_price,
        by_prices=same_price - played.figures.usd,
    )


def compared(played: ScenarioResult, other: ScenarioResult) -> list[tuple[str, str, str]]:
    """The figures of two policies on the same day, those that both have: name, this one's, the other's."""
    theirs = {fact.label: fact.value for fact in facts(other)}
    rows = [("", "this policy", "the other")]
    return rows + [(fact.label, fact.value, theirs[fact.label]) for fact in facts(played) if fact.label in theirs]


def sentences(played: ScenarioResult) -> tuple[str, ...]:
    """What came of it, in three plain sentences: size and service, waiting, cost."""
    return tuple(filter(None, (_size(played), _waits(played), _cost(played))))


def _size(played: ScenarioResult) -> str:
    figures = played.figures
    nodes = f"The fleet had between {figures.fewest_nodes} and {pluralize(figures.most_nodes, 'node', 'nodes')}"
    ups, downs = (
        pluralize(figures.grows, "scale-up", "scale-ups"),
        pluralize(figures.shrinks, "scale-down", "scale-downs"),
    )
    steps = f"by {ups} and {downs}"
    if played.slo_ms is None:
        return f"{nodes}, {steps}."
    fixed = "".join(
        f" ({each.violation_minutes:.1f} min on {pluralize(each.nodes, 'fixed node', 'fixed nodes')})"
        for each in played.fixed[:1]
    )
    return f"{nodes}, {steps}, and the SLO was violated for {figures.violation_minutes:.1f} min{fixed}."


def _waits(played: ScenarioResult) -> str:
    figures = played.figures
    said = [f"A pod waited for a node for {seconds(figures.longest_pod_wait_seconds)} at most"]
    if figures.decision_to_ready_seconds is not None:
        said.append(
            f"new capacity was ready {seconds(figures.decision_to_ready_seconds)} after its decision at the latest"
        )
    if figures.healed_seconds is not None:
        said.append(f"interrupted nodes were replaced within {seconds(figures.healed_seconds)}")
    return f"{'; '.join(said)}."


def _cost(played: ScenarioResult) -> str:
    said = f"The workers cost {money(played.figures.usd)}"
    for fixed in played.fixed[:1]:
        percent = fixed.saved_percent(played.figures.usd)
        less = "less" if percent >= 0 else "more"
        steady = pluralize(fixed.nodes, "fixed On-Demand node", "fixed On-Demand nodes")
        said += f", {abs(percent):.0f} % {less} than {steady} ({money(fixed.usd)})"
        if fixed.spot_usd is not None:
            said += f"; as many on Spot, never interrupted, would have cost {money(fixed.spot_usd)}"
    return f"{said}."


def facts(played: ScenarioResult) -> list[Fact]:
    """The figures that an operator asks for first."""
    figures = played.figures
    found = [_violations(played)] if played.slo_ms is not None else []
    found += [_bill(played), _node_hours(played)]
    if figures.decision_to_ready_seconds is not None:
        typical = f"typically {seconds(figures.typical_to_ready_seconds or 0)}"
        found.append(
            Fact(label="Decision to ready capacity", value=seconds(figures.decision_to_ready_seconds), note=typical)
        )
    found.append(
        Fact(
            label="Longest wait of a pod",
            value=seconds(figures.longest_pod_wait_seconds),
            note="for a node that could hold it",
        )
    )
    if figures.healed_seconds is not None:
        note = "until as many workers as before were ready"
        found.append(Fact(label="Interruption healed in", value=seconds(figures.healed_seconds), note=note))
    if figures.p99_wait_seconds and figures.success_percent is not None:
        note = f"at the 99th percentile; {figures.success_percent:.2f} % served in time"
        found.append(Fact(label="Wait for service", value=seconds(figures.p99_wait_seconds), note=note))
    found.append(_actions(played))
    return found


def _violations(played: ScenarioResult) -> Fact:
    minutes = f"{played.figures.violation_minutes:.1f} min"
    others = ", ".join(f"{fixed.violation_minutes:.1f} min on a fixed fleet of {fixed.nodes}" for fixed in played.fixed)
    return Fact(label="SLO violated", value=minutes, note=others)


def _bill(played: ScenarioResult) -> Fact:
    others = ", ".join(f"{money(fixed.usd)} fixed at {fixed.nodes} ({_less(fixed, played)})" for fixed in played.fixed)
    return Fact(label="Bill for the workers", value=money(played.figures.usd), note=others)


def _less(fixed: Fixed, played: ScenarioResult) -> str:
    percent = fixed.saved_percent(played.figures.usd)
    return f"{percent:.1f} % saved" if percent >= 0 else f"{-percent:.1f} % more"


def _node_hours(played: ScenarioResult) -> Fact:
    hours = (played.ends - played.starts) / _HOUR
    others = ", ".join(f"{fixed.nodes * hours:.0f} fixed at {fixed.nodes}" for fixed in played.fixed)
    spot = f"{played.figures.spot_percent:.0f} % of them Spot"
    return Fact(
        label="Node-hours", value=f"{played.figures.node_hours:.1f}", note="; ".join(filter(None, (others, spot)))
    )


def _actions(played: ScenarioResult) -> Fact:
    figures = played.figures
    restored = [each for each in played.decided if each.restoring]
    ahead = sum(each.by == BoundSource.RETIRE for each in restored)
    lost = len(restored) - ahead
    notes = [f"{lost} for workers that were lost"] if lost else []
    notes += [f"{ahead} ahead of workers that were replaced"] if ahead else []
    notes.append(f"{pluralize(figures.launched, 'machine', 'machines')} launched, {figures.removed} removed")
    return Fact(label="Actions", value=f"{figures.grows} up, {figures.shrinks} down", note="; ".join(notes))


def seconds(value: float) -> str:
    """81 s, 7 min 20 s, never."""
    if value == inf:
        return "never"
    if value < _SOON:
        return f"{value:.0f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"


def money(usd: float) -> str:
    """Cents, and parts of them where there are only few."""
    return f"{usd:.2f} USD" if abs(usd) >= _FEW_CENTS or not usd else f"{usd:.4f} USD"


def breakdown(played: ScenarioResult) -> str:
    """Where the saving against the first fixed fleet comes from; empty without one."""
    if not played.fixed:
        return ""
    fixed = played.fixed[0]
    saved = saving(played, fixed)
    fleet = pluralize(fixed.nodes, "On-Demand worker", "On-Demand workers")
    return (
        f"Against the fixed fleet of {fleet} {_difference(saved)}:"
        f" {money(saved.by_fewer_nodes)} by fewer node-hours, {money(saved.by_prices)} by Spot and cheaper types"
    )


def _difference(saved: Saving) -> str:
    word = "less" if saved.usd >= 0 else "more"
    return f"{money(abs(saved.usd))} {word} ({abs(saved.percent):.1f} %)"

"""Whether what should come of a scenario came of it. Every expectation gets an answer with its figures."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from datetime import datetime

from nodefleet.model.names import some
from nodefleet_tools.sim.scenario_result import Check, Decided, Frame, ScenarioResult
from nodefleet_tools.sim.scenarios.expectations import Against, Bounds, Expect, Moment
from nodefleet_tools.sim.scenarios.model import Scenario
from nodefleet_tools.sim.times_of_day import moment

_UNITS = {"_seconds": " s", "_minutes": " min", "_percent": " %", "_days": " d", "usd": " USD"}
_LITTLE = 1e-9  # sums of floats are not exact


def checked(played: ScenarioResult, scenario: Scenario) -> tuple[Check, ...]:
    expect = scenario.expect
    return (
        *_figures(played, expect),
        *(check for each in expect.against for check in _against(played, each)),
        *(_happened(played, each, scenario.starts) for each in expect.moments),
        *(_did_not_happen(played, each, scenario.starts) for each in expect.never),
        *(_nodes_at(played, clock, nodes, scenario.starts) for clock, nodes in expect.nodes_at.items()),
        *(
            _pods_at(played, clock, workload, pods, scenario.starts)
            for clock, by_workload in expect.pods_at.items()
            for workload, pods in by_workload.items()
        ),
        *(_told(played, kind, bounds) for kind, bounds in expect.told.items()),
    )


def _unit(name: str) -> str:
    return next((unit for ending, unit in _UNITS.items() if name.endswith(ending)), "")


def _figures(played: ScenarioResult, expect: Expect) -> Iterator[Check]:
    for field in fields(Expect):
        bounds = getattr(expect, field.name)
        if isinstance(bounds, Bounds):
            value = getattr(played.figures, field.name)
            yield _bounded(_words(field.name), value, bounds, _unit(field.name))


def _words(name: str) -> str:
    """longest_pod_wait_seconds → longest pod wait: its unit comes behind the figure."""
    for ending in _UNITS:
        if ending.startswith("_"):
            name = name.removesuffix(ending)
    return name.replace("_", " ")


def _bounded(what: str, value: float | None, bounds: Bounds, unit: str) -> Check:
    found = "nothing to measure" if value is None else f"{_figure(value)}{unit}"
    return Check(holds=value is not None and _hold(bounds, value), what=what, wanted=f"{bounds}{unit}", found=found)


def _hold(bounds: Bounds, value: float) -> bool:
    return bounds.hold(value) or bounds.hold(value + _LITTLE) or bounds.hold(value - _LITTLE)


def _figure(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _against(played: ScenarioResult, against: Against) -> Iterator[Check]:
    fixed = played.against(against.nodes)
    name = f"a fixed fleet of {against.nodes}"
    if fixed is None:
        found = "it was not played: add it to compare"
        yield Check(holds=False, what=f"against {name}", wanted="a comparison", found=found)
        return
    ours = played.figures
    if against.saved_percent:
        saved = fixed.saved_percent(ours.usd)
        yield _bounded(f"saved against {name}", saved, against.saved_percent, " %")
    if against.no_more_violations:
        yield Check(
            holds=ours.violation_minutes <= fixed.violation_minutes,
            what=f"violation against {name}",
            wanted=f"at most its {_figure(fixed.violation_minutes)} min",
            found=f"{_figure(ours.violation_minutes)} min",
        )


def _matching(played: ScenarioResult, wanted: Moment, starts: datetime) -> tuple[list[Decided], list[Decided]]:
    """The decisions that are meant, and all of that time."""
    after, before = moment(wanted.after, starts), moment(wanted.before, starts)
    then = [each for each in played.decided if after <= each.at <= before]
    meant = [
        each
        for each in then
        if each.action is wanted.action and wanted.by in (None, each.by) and wanted.to in (None, each.to)
    ]
    return meant, then


def _happened(played: ScenarioResult, wanted: Moment, starts: datetime) -> Check:
    meant, then = _matching(played, wanted, starts)
    found = some(map(_told_of, meant or then), "; ", most=1) or "nothing was scaled"
    return Check(holds=bool(meant), what=_span(wanted), wanted=_spelled(wanted), found=found)


def _did_not_happen(played: ScenarioResult, wanted: Moment, starts: datetime) -> Check:
    meant, _ = _matching(played, wanted, starts)
    found = some(map(_told_of, meant), "; ", most=1) or "none"
    return Check(holds=not meant, what=_span(wanted), wanted=f"no {_spelled(wanted)}", found=found)


def _span(wanted: Moment) -> str:
    return f"between {wanted.after} and {wanted.before}"


def _spelled(wanted: Moment) -> str:
    words = [wanted.action.value]
    words += [f"to {wanted.to}"] if wanted.to is not None else []
    words += [f"by {wanted.by}"] if wanted.by else []
    return " ".join(words)


def _told_of(each: Decided) -> str:
    return f"{each.at:%H:%M:%S} {each.before} → {each.to} by {each.by}"


def _nodes_at(played: ScenarioResult, clock: str, nodes: int, starts: datetime) -> Check:
    frame = _frame_at(played, moment(clock, starts))
    seen = frame.ready if frame else 0
    return Check(holds=seen == nodes, what=f"ready workers at {clock}", wanted=f"exactly {nodes}", found=f"{seen}")


def _pods_at(played: ScenarioResult, clock: str, workload: str, pods: int, starts: datetime) -> Check:
    frame = _frame_at(played, moment(clock, starts))
    seen = frame.by_workload.get(workload, 0) if frame else 0
    what = f"running pods of {workload} at {clock}"
    return Check(holds=seen == pods, what=what, wanted=f"exactly {pods}", found=f"{seen}")


def _frame_at(played: ScenarioResult, at: datetime) -> Frame | None:
    return max((frame for frame in played.frames if frame.at <= at), key=lambda frame: frame.at, default=None)


def _told(played: ScenarioResult, kind: str, bounds: Bounds) -> Check:
    number = Counter(each.value for each in played.told)[kind]
    return Check(holds=bounds.hold(number), what=f"operators told of {kind}", wanted=f"{bounds}", found=f"{number}")

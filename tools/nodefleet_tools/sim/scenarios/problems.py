"""What is wrong with a scenario whose fields are all of the right kind: unknown names, times outside of it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import timedelta
from typing import Any

from nodefleet.model.serialization import ValidationIssue, nearest
from nodefleet_tools.sim.scenarios.expectations import EVENT_KINDS, Bounds
from nodefleet_tools.sim.scenarios.happenings import BudgetTightened, WorkloadScaled
from nodefleet_tools.sim.scenarios.model import Scenario, Scripted
from nodefleet_tools.sim.shapes import Curve, Daily, Shape, Stairs
from nodefleet_tools.sim.shop import TYPES
from nodefleet_tools.sim.times_of_day import RIGHT, midnight, since_midnight

_CLOCKS = frozenset({"at", "after", "before", "start"})  # fields that hold a time of day
_CLOCK_KEYS = frozenset({"points", "nodes_at", "pods_at"})  # and tables whose keys are
_LONGEST = timedelta(days=31)
_DAY = timedelta(days=1)


def problems_of(scenario: Scenario) -> list[ValidationIssue]:
    return [
        *_clocks(scenario, ""),
        *_names(scenario),
        *_sizes(scenario),
        *_shapes(scenario),
        *_expected(scenario),
    ]


# ── times ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _clocks(value: Any, path: str) -> Iterator[ValidationIssue]:
    """Every time of day in it that is none."""
    if is_dataclass(value):
        for each in fields(value):
            held, inner = getattr(value, each.name), f"{path}.{each.name}".lstrip(".")
            if each.name in _CLOCKS and isinstance(held, str):
                yield from _clock(held, inner)
            elif each.name in _CLOCK_KEYS and isinstance(held, Mapping):
                for key in held:
                    yield from _clock(key, f"{inner}.{key}")
            elif each.name != "policy":
                yield from _clocks(held, inner)
    elif isinstance(value, tuple):
        for index, each in enumerate(value):
            yield from _clocks(each, f"{path}[{index}]")


def _clock(text: str, path: str) -> Iterator[ValidationIssue]:
    if since_midnight(text) is None:
        yield ValidationIssue(path=path, value=text, wrong="is not a time of day", right=f"{RIGHT}; in quotes")


def _within(scenario: Scenario, text: str, path: str) -> Iterator[ValidationIssue]:
    since = since_midnight(text)
    if since is None:
        return
    at = midnight(scenario.starts) + since
    if not scenario.starts <= at <= scenario.ends:
        yield ValidationIssue(
            path=path,
            value=text,
            wrong=f"is outside of the scenario, {scenario.starts:%H:%M} for {scenario.lasts}",
            right="let it happen within that, or let the scenario last longer",
        )


# ── names ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _names(scenario: Scenario) -> Iterator[ValidationIssue]:
    workloads = [each.name for each in scenario.workloads]
    services = [each.workload for each in scenario.services]
    for index, name in enumerate(workloads):
        if name in workloads[:index]:
            yield ValidationIssue(
                path=f"workloads[{index}].name", value=name, wrong="is there twice", right="rename one"
            )
    for index, name in enumerate(services):
        yield from _known(f"services[{index}].workload", name, workloads)
        if name in services[:index]:
            wrong = "has two services"
            yield ValidationIssue(
                path=f"services[{index}].workload", value=name, wrong=wrong, right="one serves a workload"
            )
    for index, reading in enumerate(scenario.readings):
        if not isinstance(reading.shows, Scripted):
            yield from _known(f"readings[{index}].shows.service", reading.shows.service, services)
    budgets = [each.name for each in scenario.workloads if each.budget]
    for index, event in enumerate(scenario.events):
        path = f"events[{index}]"
        yield from _within(scenario, event.at, f"{path}.at")
        if isinstance(event, BudgetTightened):
            yield from _known(f"{path}.workload", event.workload, budgets, "a workload with a budget")
        if isinstance(event, WorkloadScaled):
            yield from _known(f"{path}.workload", event.workload, workloads)
    known_types = [kind.name for kind in TYPES]
    yield from _known("cluster.type", scenario.cluster.type, known_types, "an instance type of the simulated EC2")


def _known(path: str, name: str, known: Iterable[str], what: str = "") -> Iterator[ValidationIssue]:
    names = list(known)
    if name not in names:
        right = nearest(name, names) if names else "there is none"
        yield ValidationIssue(path=path, value=name, wrong=f"is not {what or 'there'}", right=right)


# ── sizes ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _sizes(scenario: Scenario) -> Iterator[ValidationIssue]:
    if not timedelta(0) < scenario.lasts <= _LONGEST:
        yield _wrong("lasts", str(scenario.lasts), "is not between a moment and 31 days", "write for example 24h")
    if not scenario.cluster.zones:
        yield _wrong("cluster.zones", [], "names no zone", "name one at least")
    for name in ("boots", "joins", "ready", "devices"):
        span = getattr(scenario.cluster, name)
        if not 0 <= span.least <= span.most:
            yield _wrong(f"cluster.{name}", f"{span.least} to {span.most}", "is no span", "0 ≤ least ≤ most")
    for index, workload in enumerate(scenario.workloads):
        path = f"workloads[{index}]"
        if workload.zone is not None:
            yield from _known(f"{path}.zone", workload.zone, scenario.cluster.zones, "a zone of the cluster")
        for field in ("replicas", "cpu", "memory"):
            if getattr(workload, field) < 0:
                yield _wrong(f"{path}.{field}", getattr(workload, field), "is less than 0", "write 0 or more")
        budget = workload.budget
        if budget and (budget.min_available is None) == (budget.max_unavailable is None):
            right = "write one of min_available and max_unavailable"
            yield _wrong(f"{path}.budget", None, "has neither limit or both", right)
    for index, service in enumerate(scenario.services):
        path = f"services[{index}]"
        if service.per_pod <= 0:
            yield _wrong(f"{path}.per_pod", service.per_pod, "is not more than 0", "requests per second of one pod")
        replicas = service.replicas
        if replicas and not (0 < replicas.min <= replicas.max and 0 < replicas.target <= 1):
            yield _wrong(f"{path}.replicas", None, "cannot be", "0 < min ≤ max, and a target above 0 and up to 1")
    if scenario.history and not (1 <= scenario.history.days <= _LONGEST.days and scenario.history.workers >= 1):
        yield _wrong("history", None, "cannot be", "1 to 31 days on one worker at least")
    for index, nodes in enumerate(scenario.compare):
        if nodes < 1:
            yield _wrong(f"compare[{index}]", nodes, "is no fleet", "write 1 or more")


def _shapes(scenario: Scenario) -> Iterator[ValidationIssue]:
    loads: list[tuple[str, tuple[Shape, ...]]] = [
        (f"services[{index}].load", service.load) for index, service in enumerate(scenario.services)
    ]
    loads += [
        (f"readings[{index}].shows.load", reading.shows.load)
        for index, reading in enumerate(scenario.readings)
        if isinstance(reading.shows, Scripted)
    ]
    for path, shapes in loads:
        if not any(isinstance(shape, Curve) for shape in shapes):
            yield _wrong(
                path, None, "has no curve", "begin with steady, daily, stairs or trace; the others multiply it"
            )
        for index, shape in enumerate(shapes):
            here = f"{path}[{index}].points"
            if isinstance(shape, Daily | Stairs) and not shape.points:
                yield _wrong(here, None, "has no points", 'write for example {"00:00": 20, "12:00": 100}')
            if isinstance(shape, Daily):
                late = [key for key in shape.points if (since_midnight(key) or timedelta(0)) >= _DAY]
                yield from (_wrong(f"{here}.{key}", key, "is not within a day", "00:00 to 23:59:59") for key in late)


def _expected(scenario: Scenario) -> Iterator[ValidationIssue]:
    expect = scenario.expect
    for each in fields(expect):
        bounds = getattr(expect, each.name)
        if isinstance(bounds, Bounds):
            yield from _some_bound(bounds, f"expect.{each.name}")
    for kind, bounds in expect.told.items():
        yield from _known(f"expect.told.{kind}", kind, EVENT_KINDS, "a kind of event")
        yield from _some_bound(bounds, f"expect.told.{kind}")
    for index, against in enumerate(expect.against):
        if against.nodes not in scenario.compare:
            right = f"add it to compare, which has {list(scenario.compare)}"
            yield _wrong(f"expect.against[{index}].nodes", against.nodes, "is not compared with", right)
    for name in ("moments", "never"):
        for index, moment in enumerate(getattr(expect, name)):
            yield from _within(scenario, moment.after, f"expect.{name}[{index}].after")
    for clock in expect.nodes_at:
        yield from _within(scenario, clock, f"expect.nodes_at.{clock}")
    workloads = [each.name for each in scenario.workloads]
    for clock, by_workload in expect.pods_at.items():
        yield from _within(scenario, clock, f"expect.pods_at.{clock}")
        for name in by_workload:
            yield from _known(f"expect.pods_at.{clock}.{name}", name, workloads)


def _some_bound(bounds: Bounds, path: str) -> Iterator[ValidationIssue]:
    if bounds.at_least is None and bounds.at_most is None:
        yield _wrong(path, None, "bounds nothing", "write at_least, at_most or both")


def _wrong(path: str, value: object, wrong: str, right: str) -> ValidationIssue:
    return ValidationIssue(path=path, value=value, wrong=wrong, right=right)

"""A scenario with a user's own load in place of its first service's."""

from dataclasses import replace
from datetime import timedelta
from pathlib import PurePath

from nodefleet_tools.sim.scenarios.expectations import Expect
from nodefleet_tools.sim.scenarios.model import Scenario
from nodefleet_tools.sim.scenarios.reading import Read
from nodefleet_tools.sim.shapes import Ground, Trace, demand
from nodefleet_tools.sim.times_of_day import moment
from nodefleet_tools.sim.traces import Points

_MINUTE = timedelta(minutes=1)
_NOTHING = timedelta(0)


def with_trace(found: Read, name: str, points: Points) -> Read:
    """The trace scaled to the highest load that it takes the place of: what it measures is not known.

    If it is long enough its first days are the history; otherwise there is none, and it begins with the scenario. What
    the scenario expects is about its own load and is dropped.
    """
    scenario = found.scenario
    days = timedelta(days=scenario.history.days) if scenario.history else _NOTHING
    before = days if points.lasts >= days + _MINUTE else _NOTHING
    lasts = min(scenario.lasts, points.lasts - before)
    shape = Trace(file=name, peak=_highest(found), start=f"{scenario.starts:%H:%M:%S}", before=before)
    services = (replace(scenario.services[0], load=(shape,)), *scenario.services[1:])
    own = f"{scenario.services[0].workload}'s own"
    changed = replace(
        scenario,
        about=f"{scenario.name}, with the load of {PurePath(name).name} in place of {own}.",
        lasts=lasts,
        services=services,
        history=scenario.history if before else None,
        events=tuple(event for event in scenario.events if _falls_within(scenario, event.at, lasts)),
        expect=Expect(),
    )
    return Read(scenario=changed, traces={**found.traces, name: points})


def _falls_within(scenario: Scenario, at: str, lasts: timedelta) -> bool:
    return moment(at, scenario.starts) <= scenario.starts + lasts


def _highest(found: Read) -> float:
    """Of the load that the trace takes the place of."""
    scenario = found.scenario
    service = scenario.services[0]
    ground = Ground(starts=scenario.starts, seed=str(scenario.seed), traces=found.traces)
    load = demand(service.load, ground)
    return max(load(scenario.starts + number * _MINUTE) for number in range(scenario.lasts // _MINUTE + 1))

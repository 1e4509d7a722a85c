"""Every expectation gets its answer, with the figures that it rests on."""

from dataclasses import replace

import pytest

from nodefleet.model.serialization import from_plain
from nodefleet_tools.sim.playing import play
from nodefleet_tools.sim.scenario_result import Check, ScenarioResult
from nodefleet_tools.sim.scenarios.checking import checked
from nodefleet_tools.sim.scenarios.expectations import Bounds, Expect
from nodefleet_tools.sim.scenarios.reading import Read
from support.played_days import scenario
from support.wording import assert_wording

LOAD = [{"kind": "stairs", "points": {"12:00": 100, "12:05": 300}}]
SERVICES = [{"workload": "web", "per_pod": 25, "replicas": {"min": 6, "max": 24}, "load": LOAD}]


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> Read:
    return scenario(tmp_path_factory.mktemp("day"), services=SERVICES, compare=[3])


@pytest.fixture(scope="module")
def day(found) -> ScenarioResult:
    return play(found.scenario)


@pytest.fixture
def checks(found, day):
    """What comes of expectations, as a file would say them, on that day."""
    return lambda **expect: checked(day, replace(found.scenario, expect=from_plain(Expect, expect)))


def test_a_figure_within_its_bounds_holds_and_one_outside_fails(checks, day):
    expect = {
        "grows": {"at_least": 1, "at_most": 1},
        "decision_to_ready_seconds": {"at_most": 20},
        "healed_seconds": {"at_most": 300},
        "usd": {"at_least": 0.01},
    }
    found = {check.what: check for check in checks(**expect)}
    assert found["grows"] == Check(holds=True, what="grows", wanted="exactly 1", found="1")
    late = found["decision to ready"]
    assert late.holds is False
    assert_wording(late.wanted)
    assert float(late.found.removesuffix(" s")) == pytest.approx(day.figures.decision_to_ready_seconds, abs=0.01)
    assert found["healed"] == Check(holds=False, what="healed", wanted="at most 300 s", found="nothing to measure")
    assert found["usd"].holds


def test_a_fixed_fleet_is_compared_by_its_bill_and_its_violations(checks, day):
    found = checks(against=[{"nodes": 3, "saved_percent": {"at_least": 99}, "no_more_violations": True}])
    saved = day.fixed[0].saved_percent(day.figures.usd)
    assert found[0].holds is False
    assert_wording(found[0].what)
    assert float(found[0].found.removesuffix(" %")) == pytest.approx(saved, abs=0.01)
    assert found[1].holds
    assert_wording(found[1].wanted)


@pytest.mark.parametrize(
    ("moment", "holds"),
    [
        ({"after": "12:05", "before": "12:08", "action": "grow"}, True),
        ({"after": "12:05", "before": "12:08", "action": "grow", "by": "pods", "to": 5}, True),
        ({"after": "12:05", "before": "12:08", "action": "grow", "by": "cpu"}, False),
        ({"after": "12:05", "before": "12:08", "action": "grow", "to": 4}, False),
        ({"after": "12:05", "before": "12:08", "action": "grow", "by": "moonlight"}, False),
        ({"after": "12:05", "before": "12:08", "action": "shrink"}, False),
        ({"after": "12:10", "before": "12:28", "action": "grow"}, False),
    ],
)
def test_a_moment_is_found_by_its_time_and_what_was_decided(checks, moment, holds):
    (there,) = checks(moments=[moment])
    (not_there,) = checks(never=[moment])
    assert (there.holds, not_there.holds) == (holds, not holds)
    assert not_there.wanted.startswith("no ")


def test_a_moment_that_did_not_come_says_what_came_instead(checks):
    (missing,) = checks(moments=[{"after": "12:05", "before": "12:08", "action": "shrink"}])
    assert_wording(missing.found)
    (nothing,) = checks(moments=[{"after": "12:20", "before": "12:22", "action": "shrink"}])
    assert_wording(nothing.found)


def test_workers_are_counted_at_a_time_and_events_by_kind(checks):
    once = {"at_least": 1}
    found = checks(nodes_at={"12:04": 3, "12:12": 4}, told={"scale-up": once, "quota": once})
    assert {check.what: (check.holds, check.found) for check in found} == {
        "ready workers at 12:04": (True, "3"),
        "ready workers at 12:12": (False, "5"),
        "operators told of scale-up": (True, "1"),
        "operators told of quota": (False, "0"),
    }


def test_running_pods_of_a_workload_are_counted_at_a_time(checks):
    found = checks(pods_at={"12:04": {"web": 6}, "12:12": {"web": 0}})
    assert [(check.what, check.holds) for check in found] == [
        ("running pods of web at 12:04", True),
        ("running pods of web at 12:12", False),
    ]


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        (Bounds(at_least=2.0), "at least 2"),
        (Bounds(at_most=0.5), "at most 0.5"),
        (Bounds(at_least=1.0, at_most=3.0), "at least 1 and at most 3"),
        (Bounds(at_least=3.0, at_most=3.0), "exactly 3"),
    ],
)
def test_bounds_in_words(bounds, words):
    assert str(bounds) == words


def test_a_broken_invariant_fails_a_scenario_that_expects_nothing(day):
    assert day.checks == ()
    assert day.holds
    assert not replace(day, broken=("more workers than max",)).holds


def test_a_fixed_fleet_that_was_not_played_cannot_be_compared_with(checks):
    (missing,) = checks(against=[{"nodes": 9, "no_more_violations": True}])
    assert missing.holds is False
    assert_wording(missing.found)

"""A seed that went wrong becomes a page that can be read."""

from datetime import timedelta

import pytest

from nodefleet_tools.sim.chaos import operator_actions
from nodefleet_tools.sim.chaos.fault_injection import Rates
from nodefleet_tools.sim.chaos.incidents import INCIDENTS
from nodefleet_tools.sim.chaos.plan import Delivery, Plan
from nodefleet_tools.sim.chaos.planted import PLANTED
from nodefleet_tools.sim.chaos.play import play
from nodefleet_tools.sim.chaos.shortening import Shortening, story
from nodefleet_tools.sim.rules import Happened, Rule, Violation
from nodefleet_tools.sim.world import NOON
from support.played_days import shortened_cordon
from support.wording import assert_wording


@pytest.fixture
def short():
    return shortened_cordon()


def test_what_does_not_matter_is_left_out(short):
    plan = short.plan
    assert [INCIDENTS[incident.kind] for incident in plan.incidents] == [operator_actions.cordons]
    assert (plan.rates, plan.delivery, plan.skew) == (Rates(), Delivery(), 0.0)


def test_what_is_left_goes_wrong_in_the_same_way(short):
    with PLANTED["operator cordon undone"]():
        assert play(short.plan).first.rule is Rule.OPERATOR
    assert play(short.plan).violations == ()


def test_it_ends_after_so_many_plays():
    with PLANTED["max ignored"]():
        verdict = play(Plan.of(0))
        shortening = Shortening(verdict)
        shortening.shorten(most_plays=0)
    assert (shortening.plan, shortening.verdict) == (Plan.of(0), verdict)


# ── the trace ────────────────────────────────────────────────────────────────────────────────────────────────────


def line(minute, who, what):
    return Happened(NOON + timedelta(minutes=minute), who, what)


def dull(minute, who):
    return [
        line(minute, who, "begins"),
        line(minute, who, "lease 7 until 12:02:05"),
        line(minute, who, "lease 7 released"),
        line(minute, who, "ends: 1 iterations, did nothing"),
    ]


VIOLATION = Violation(at=NOON + timedelta(minutes=30), run="tick-9", rule=Rule.ABANDONED, detail="i-00000003 was …")


def test_runs_that_did_nothing_are_counted():
    trace = [*dull(1, "tick-1"), *dull(3, "tick-2"), line(30, "tick-9", "terminate i-00000003")]
    assert_wording(story(trace, VIOLATION))


def test_what_was_harmed_is_followed_from_the_beginning_and_the_rest_only_shortly_before():
    trace = [
        line(1, "tick-1", "launch x: i-00000003 (spot, a)"),
        line(2, "tick-1", "launch y: i-00000004 (spot, a)"),
        line(3, "incident", "Kubernetes is away: for 20 s"),
        line(25, "tick-8", "cordon worker-00000004 for r"),
        line(30, "tick-9", "VIOLATION"),
        line(31, "tick-9", "what came later"),
    ]
    assert_wording(story(trace, VIOLATION))


def test_a_long_story_keeps_its_end():
    trace = [line(29, "tick-9", f"evict {number}") for number in range(10)]
    assert story(trace, VIOLATION, most=2) == [
        "         … 8 lines",
        "12:29:00 tick-9: evict 8",
        "12:29:00 tick-9: evict 9",
    ]

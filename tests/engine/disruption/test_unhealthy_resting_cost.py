"""Instances that are paid for and are no capacity: who rests, since when, and when an operator is alerted."""

from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.engine.decide import decide
from nodefleet.engine.disruption.unhealthy import resting_alerts, resting_since
from nodefleet.model.alerts import AlertKind
from nodefleet.model.inventory import InstanceState
from nodefleet.model.snapshot import Missing
from nodefleet.model.state import Memory
from nodefleet.phases import derive_workers
from nodefleet.policy.cluster import Policy, Resting
from support.builders import NOON, after, instance, look, node
from support.decisions import doom
from support.wording import assert_wording

POLICY = Policy()
HOUR = timedelta(hours=1)


def resting(seen, before=None, policy=POLICY):
    return resting_since(derive_workers(seen, policy), policy, seen, before or {})


@pytest.mark.parametrize(
    ("seen", "rests"),
    [
        (look(2), []),
        (look(2, notices=(doom(1),)), ["i-001"]),
        (look(1, instances=[instance(5, failed=True)]), ["i-005"]),
        (look(1, instances=[instance(5, state=InstanceState.STOPPED)]), ["i-005"]),
        (look(1, instances=[instance(5, pool="gone")], nodes=[node(5, pool="gone")]), ["i-005"]),
        (look(1, instances=[instance(5, pool="gone", state=InstanceState.TERMINATED)]), []),
        (look(1, instances=[instance(5, pool="gone", state=InstanceState.SHUTTING_DOWN)]), []),
        (look(1, instances=[instance(5)], nodes=[node(5, ready=False, ready_changed_at=after(-900))]), ["i-005"]),
        (look(1, instances=[instance(5, launched_at=after(-60))]), []),  # it boots
        (look(1, nodes=[node(5, ready=False)]), []),  # a Node alone costs nothing
    ],
)
def test_who_rests(seen, rests):
    assert resting(seen) == dict.fromkeys(rests, NOON)


def test_the_time_goes_on_and_ends_with_the_rest():
    stopped = look(1, instances=[instance(5, state=InstanceState.STOPPED)])
    assert resting(stopped, {"i-005": after(-500), "i-009": after(-500)}) == {"i-005": after(-500)}


@pytest.mark.parametrize("away", ["instances", "kubernetes"])
def test_what_cannot_be_seen_rests_on(away):
    known = {"i-005": after(-500)}
    assert resting(replace(look(1), **{away: Missing("away")}), known) == known


@pytest.mark.parametrize(
    ("number", "lasting", "alerted"),
    [(0, HOUR, 0), (1, HOUR - timedelta(seconds=1), 0), (1, HOUR, 1), (3, timedelta(0), 0), (4, timedelta(0), 1)],
)
def test_many_or_long_ones_are_alerted_once_for_all(number, lasting, alerted):
    seen = look(1, instances=[instance(n, state=InstanceState.STOPPED) for n in range(5, 5 + number)])
    since = dict.fromkeys((f"i-{n:03}" for n in range(5, 5 + number)), NOON - lasting)
    told = resting_alerts(derive_workers(seen, POLICY), POLICY, since, NOON)
    assert [(tell.alert, tell.pool) for tell in told] == [(AlertKind.RESTING_COST, "")] * alerted
    assert [tell.subjects for tell in told] == [tuple(since)] * alerted


def test_the_bounds_are_the_policys_and_the_decision_carries_both():
    policy = Policy(resting=Resting(most=0))
    seen = look(2, instances=[instance(5, state=InstanceState.STOPPED)])
    decision = decide(seen, Memory(), policy)
    assert decision.memory.resting == {"i-005": NOON}
    (told,) = [tell for tell in decision.tells if tell.alert is AlertKind.RESTING_COST]
    assert_wording(told.text)

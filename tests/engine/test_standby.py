"""Standby: the demand of a cluster that fails becomes this pool's floor, once, and only an operator ends it."""

from datetime import timedelta

import pytest

from nodefleet.engine.decide import decide
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import BoundSource
from nodefleet.model.operations import TakeOver
from nodefleet.model.snapshot import AUTOSCALER, Missing, Pause, Scale
from nodefleet.model.state import Memory
from nodefleet.policy.constraints import check
from nodefleet.policy.demand import Standby
from nodefleet.policy.pool import Limits
from nodefleet.policy.sources import HttpJson, Prometheus
from support.builders import NOON, after, look, only
from support.decisions import alerts, bought, pool_memory, with_pool
from support.wording import assert_wording

GONE = Missing("the HTTP source gave no answer within 10 s")
HEALTHY, FAILED = 6.0, 0.0
BY_HTTP = HttpJson(url="https://eu.example.com/health", value="/nodes")


def policy(*, source=BY_HTTP, limits=None, dry_run=False, **standby):
    rules = Standby(origin="eu", reading="eu", nodes=6, **standby)
    return with_pool(standby=rules, readings={"eu": source}, limits=limits or Limits(min=2, max=20), dry_run=dry_run)


class Clusters:
    """Iterations ten seconds apart, of a pool of three, and what the table has of commands."""

    def __init__(self, rules=None):
        self.rules = rules or policy()
        self.memory = Memory()
        self.commands = ()
        self.seconds = 0
        self.ordered = []

    def see(self, health, times=1, every=10, **changes):
        for _ in range(times):
            self.seconds += every
            seen = look(3, at=after(self.seconds), custom={"eu": health}, commands=self.commands, pods=(), **changes)
            decision = decide(seen, self.memory, self.rules)
            self.memory = decision.memory
            self.ordered += [step for step in only(decision).plan if isinstance(step, TakeOver)]
        return decision

    def order(self):
        """What the loop writes."""
        (step,) = self.ordered
        self.commands = (
            Scale(nodes=step.nodes, at_least=True, origin=step.origin, by=AUTOSCALER, reason="", until=step.until),
        )


def armed(rules=None):
    clusters = Clusters(rules)
    clusters.see(HEALTHY, times=8)
    assert pool_memory_of(clusters).armed
    return clusters


def pool_memory_of(clusters):
    return clusters.memory.pool("default").standby


def test_a_pool_without_an_origin_remembers_nothing():
    assert pool_memory(decide(look(3), Memory(), with_pool())).standby is None


@pytest.mark.parametrize("failure", [FAILED, GONE, Missing("no series", empty_at=NOON)], ids=["value", "away", "empty"])
def test_its_nodes_come_on_top_of_ours_after_a_minute(failure):
    clusters = armed()
    early = clusters.see(failure, times=6)
    assert (clusters.ordered, bought(early)) == ([], 0)
    late = clusters.see(failure)
    (step,) = clusters.ordered
    assert (step.origin, step.nodes, step.until) == ("eu", 9, after(clusters.seconds) + timedelta(days=7))
    assert bought(late) == 6
    assert [bound.nodes for bound in only(late).bounds if bound.kind is BoundSource.OPERATOR] == [9]
    assert AlertKind.FAILOVER in alerts(late)


def test_it_is_looked_at_again_soon_while_it_seems_to_fail():
    clusters = armed()
    assert clusters.see(HEALTHY).look_again == ""
    assert_wording(clusters.see(FAILED).look_again)


def test_readings_a_tick_apart_need_as_many():
    clusters = Clusters()
    clusters.see(HEALTHY, times=3, every=120)
    clusters.see(FAILED, times=2, every=120)
    assert clusters.ordered == []
    clusters.see(FAILED, every=120)
    assert len(clusters.ordered) == 1


def test_the_same_sample_counts_once():
    clusters = armed(policy(source=Prometheus(query="up")))
    stuck = look(3, custom={"eu": FAILED}, at=after(100)).readings["default"].custom["eu"]
    for _ in range(12):
        clusters.see(stuck)
    assert clusters.ordered == []


def test_a_short_failure_moves_nothing_and_the_next_one_begins_anew():
    clusters = armed()
    for _ in range(4):
        clusters.see(FAILED, times=5)
        clusters.see(HEALTHY)
    assert clusters.ordered == []


def test_one_that_was_never_seen_healthy_moves_nothing_and_is_an_alert_after_an_hour():
    clusters = Clusters()
    decision = clusters.see(GONE, times=30)
    assert (clusters.ordered, alerts(decision)) == ([], [])
    decision = clusters.see(GONE, times=30, every=120)
    assert (clusters.ordered, alerts(decision)) == ([], [AlertKind.STANDBY_BLIND])
    assert decision.look_again == ""


def test_the_floor_stays_when_the_other_cluster_is_healthy_again_and_is_ordered_once():
    clusters = armed()
    clusters.see(FAILED, times=7)
    clusters.order()
    for health in (FAILED, HEALTHY, FAILED, HEALTHY):
        decision = clusters.see(health, times=8)
        assert [bound.nodes for bound in only(decision).bounds if bound.kind is BoundSource.OPERATOR] == [9]
        assert AlertKind.FAILOVER in alerts(decision)
    assert len(clusters.ordered) == 1


def test_after_an_operator_moved_back_it_must_be_healthy_before_its_failure_counts_again():
    clusters = armed()
    clusters.see(FAILED, times=7)
    clusters.order()
    clusters.see(FAILED)
    clusters.commands = ()
    clusters.see(FAILED, times=20)
    assert len(clusters.ordered) == 1
    clusters.see(HEALTHY, times=8)
    clusters.see(FAILED, times=7)
    assert len(clusters.ordered) == 2


def test_an_order_that_was_lost_is_given_again():
    clusters = armed()
    clusters.see(FAILED, times=8)
    assert len(clusters.ordered) == 2


def test_the_size_before_the_failure_counts_not_what_pods_bought_since():
    clusters = armed()
    clusters.see(FAILED, times=6)
    seen = look(7, at=after(clusters.seconds + 10), custom={"eu": FAILED}, pods=())
    (step,) = [each for each in only(decide(seen, clusters.memory, clusters.rules)).plan if isinstance(each, TakeOver)]
    assert step.nodes == 9


def test_max_limits_the_floor_and_the_alert_says_so():
    clusters = armed(policy(limits=Limits(min=2, max=7)))
    decision = clusters.see(FAILED, times=7)
    (step,) = clusters.ordered
    assert (step.nodes, bought(decision)) == (7, 4)
    assert_wording([each.text for each in only(decision).plan if getattr(each, "alert", None) is AlertKind.FAILOVER])


@pytest.mark.parametrize("at_least", [True, False])
def test_a_size_that_an_operator_set_is_not_overwritten(at_least):
    clusters = armed()
    clusters.commands = (Scale(nodes=3, by="ann", until=after(500), at_least=at_least),)
    decision = clusters.see(FAILED, times=10)
    assert (clusters.ordered, alerts(decision)) == ([], [AlertKind.FAILOVER])
    clusters.commands = ()
    clusters.see(FAILED)
    assert len(clusters.ordered) == 1


def test_a_failover_by_command_is_enough_and_no_alert():
    clusters = armed()
    clusters.commands = (Scale(nodes=9, by="ann", until=after(9000), at_least=True, origin="eu"),)
    decision = clusters.see(FAILED, times=10)
    assert (clusters.ordered, alerts(decision)) == ([], [])
    assert not pool_memory_of(clusters).armed


def test_a_prometheus_that_is_away_says_nothing_of_another_cluster():
    clusters = armed(policy(source=Prometheus(query="up")))
    clusters.see(GONE, times=20, cpu=GONE, memory=GONE)
    assert clusters.ordered == []
    clusters.see(GONE, times=7)
    assert len(clusters.ordered) == 1


def test_a_pause_outranks_the_floor():
    clusters = armed()
    clusters.commands = (Pause(by="ann", until=after(9000)),)
    assert bought(clusters.see(FAILED, times=7)) == 0
    assert len(clusters.ordered) == 1


def test_without_ec2_or_kubernetes_nothing_is_counted():
    clusters = armed()
    before = pool_memory_of(clusters)
    clusters.see(FAILED, times=10, kubernetes=Missing("away"))
    assert pool_memory_of(clusters) == before


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"standby": Standby(origin="eu", nodes=3)}, "pools[0].standby.reading"),
        ({"standby": Standby(origin="eu", reading="us", nodes=3)}, "pools[0].standby.reading"),
        ({"standby": Standby(origin="eu", reading="eu")}, "pools[0].standby.nodes"),
        ({"standby": Standby(origin="eu", reading="eu", nodes=11)}, "pools[0].standby.nodes"),
    ],
)
def test_rules_that_could_never_work_are_refused(changes, path):
    assert [each.path for each in check(with_pool(readings={"eu": BY_HTTP}, **changes))] == [path]

"""Instances that are paid for and are no capacity: a world in which nobody is told of them breaks the rule."""

from unittest.mock import patch

from nodefleet.engine import decide
from nodefleet.model.alerts import AlertKind
from nodefleet_tools.sim.rules import Rule
from support.worlds import Cluster, shop


def with_an_unowned_worker() -> Cluster:
    cluster = shop()
    cluster.world.add_workers(1, pool="batch")
    cluster.world.liveness.begin()
    return cluster


def broken(cluster: Cluster) -> list[Rule]:
    return [violation.rule for violation in cluster.world.violations]


def test_an_unowned_worker_is_alerted_in_time():
    cluster = with_an_unowned_worker()
    cluster.calm(60)
    alerts = [event for event in cluster.world.table.events if event.kind is AlertKind.RESTING_COST]
    assert len(alerts) == 1
    assert broken(cluster) == []


def test_one_that_nobody_hears_of_is_found_and_not_before_its_time():
    cluster = with_an_unowned_worker()
    with patch.object(decide, "resting_alerts", lambda *_: ()):
        cluster.calm(33)
        assert broken(cluster) == []
        cluster.calm(25)
    assert broken(cluster) == [Rule.RESTING_COST]

"""Join times, learned from the nodes themselves."""

from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.engine.forecast.sizing import FEWEST, KEPT, expected_join, learn_joins
from nodefleet.model.fleet import Phase, Worker
from nodefleet.model.inventory import Instance, Node
from nodefleet.model.state import AdaptiveMemory
from nodefleet.policy.pool import MarketMix, Pool
from support.builders import after

POOL = Pool(market=MarketMix(types=("t3.small", "t3.large")))
ZONES = {"a", "b"}


def worker(name="i-1", *, phase=Phase.READY, ready=90, kind="t3.small", zone="a", node=True):
    instance = Instance(id=name, zone=zone, type=kind, launched_at=after(0))
    joined = Node(name=name, ready_changed_at=None if ready is None else after(ready)) if node else None
    return Worker(id=name, pool="default", phase=phase, instance=instance, node=joined)


def learned(*workers, booting=("i-1",), at=200, memory=AdaptiveMemory()):
    return learn_joins(replace(memory, booting=booting), workers, after(at))


def seconds(joins, pool=POOL, zones=ZONES):
    return expected_join(joins, pool, zones).total_seconds()


def test_a_node_that_was_booting_and_is_ready_teaches_its_join_time():
    assert learned(worker()).joins == {"t3.small a": (90,)}


def test_a_node_without_a_time_of_readiness_became_ready_now_at_the_latest():
    assert learned(worker(ready=None)).joins == {"t3.small a": (200,)}


@pytest.mark.parametrize(
    "one",
    [
        worker("i-2"),  # was ready before
        worker(phase=Phase.UNREADY),
        worker(ready=-5),  # clocks that disagree
        worker(node=False),
        replace(worker(), instance=None),
    ],
)
def test_nothing_else_teaches_a_join_time(one):
    assert learned(one).joins == {}


def test_only_the_last_joins_count():
    memory = AdaptiveMemory(joins={"t3.small a": tuple(range(1, KEPT + 1))})
    assert learned(worker(), memory=memory).joins["t3.small a"] == (*range(2, KEPT + 1), 90)


def test_the_nodes_that_boot_now_are_remembered():
    boots = [worker("i-9", phase=Phase.BOOTING), worker("i-3", phase=Phase.BOOTING)]
    assert learned(worker(), *boots).booting == ("i-3", "i-9")


def test_before_nodes_have_joined_the_policy_says_how_long_it_takes():
    assert seconds({}) == seconds({"t3.small a": (60,) * (FEWEST - 1)}) == 180


def test_afterwards_it_is_the_slowest_median_that_could_be_launched():
    joins = {"t3.small a": (60, 70, 500), "t3.large b": (100, 110, 120), "t3.small b": (290,)}
    assert seconds(joins) == 110


def test_joins_of_other_types_and_zones_do_not_count():
    assert seconds({"m5.large a": (400, 400, 400), "t3.small c": (250, 250, 250)}) == 180
    assert seconds({"t3.small c": (250, 250, 250)}, zones=set()) == 250


def test_few_joins_of_each_kind_count_together():
    assert seconds({"t3.small a": (60, 70), "t3.small b": (80,)}) == 70


def test_nothing_is_forecast_beyond_the_limit_of_a_join():
    assert seconds({"t3.small a": (900, 900, 900)}) == POOL.health.join_limit / timedelta(seconds=1)

"""What must happen in time is demanded from the moment that the clocks start, and reported once."""

from collections.abc import Mapping
from datetime import timedelta

import pytest

from nodefleet_tools.sim.hooks import KilledError, Moment, raising, when
from nodefleet_tools.sim.liveness.check import Check
from nodefleet_tools.sim.liveness.registry import CHECKS
from nodefleet_tools.sim.rules import Rule
from nodefleet_tools.sim.world import World
from support.operation_builders import launch
from support.worlds import empty

MINUTE = timedelta(minutes=1)


class Lit(Check):
    """Lamps that must not burn for more than five minutes."""

    rule = Rule.UNFINISHED

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.lamps: set[str] = set()

    def cases(self) -> Mapping[str, timedelta]:
        return dict.fromkeys(sorted(self.lamps), 5 * MINUTE)


@pytest.fixture
def world():
    world = World()
    world.settle()
    return world


@pytest.fixture
def lit(world):
    check = Lit(world)
    world.liveness.checks = [check]
    return check


def test_nothing_is_judged_before_the_clocks_start(world, lit):
    lit.lamps.add("hall")
    world.advance(3600)
    assert world.violations == []
    world.liveness.begin()
    world.advance(300)
    assert world.violations == []


def test_a_case_is_reported_once_when_it_is_overdue(world, lit):
    lit.lamps.add("hall")
    world.liveness.begin()
    world.advance(3600)
    (violation,) = world.violations
    assert violation.rule is Rule.UNFINISHED
    assert timedelta(minutes=5) < violation.at - world.start <= timedelta(minutes=6)


def test_a_case_that_closes_and_comes_back_starts_from_nothing(world, lit):
    world.liveness.begin()
    for _ in range(10):
        lit.lamps = {"hall"}
        world.advance(240)
        lit.lamps = set()
        world.advance(60)
    assert world.violations == []


def test_what_is_open_and_not_overdue_is_awaited(world, lit):
    world.liveness.begin()
    lit.lamps = {"hall"}
    world.advance(60)
    assert world.liveness.awaited == ["hall"]
    world.advance(600)
    assert world.liveness.awaited == []


def test_beginning_twice_polls_once(world, lit):
    world.liveness.begin()
    polls = []
    lit.cases = lambda: polls.append(world.now) or {}
    world.liveness.begin()
    world.advance(300)
    assert len(polls) == 10


def test_every_check_has_a_rule_of_its_own():
    assert len({check.rule for check in CHECKS}) == len(CHECKS)


def test_an_operation_that_nobody_closes_is_found():
    cluster = empty()
    cluster.world.table.put("operation", "old", launch(id="old", answered=True, instances=("i-1",)), type_="launch")
    cluster.world.liveness.begin()
    cluster.world.advance(3600)
    assert [each.rule for each in cluster.world.violations] == [Rule.UNFINISHED]


def test_operations_that_end_in_time_are_none_even_if_runs_die():
    cluster = empty().must_live()
    for _ in range(30):
        cluster.tick(when("cloud.launch", Moment.AFTER, raising(KilledError("killed"))))
    assert cluster.world.violations == []


def test_no_operation_is_demanded_to_end_while_kubernetes_is_away():
    cluster = empty()
    cluster.world.table.put("operation", "old", launch(id="old", answered=True, instances=("i-1",)), type_="launch")
    cluster.world.liveness.begin()
    cluster.world.away("cluster")
    cluster.world.advance(3600)
    assert cluster.world.violations == []


def test_conditions_tell_what_can_be_demanded():
    world = World(policy={"limits": {"min": 1, "max": 2}})
    world.add_workers(1)
    told = world.conditions
    assert told.launches_work
    assert told.all_answer
    assert told.readings_are_true
    assert told.lists_are_true
    assert told.room("default") == 1
    assert not told.paused
    world.add_workers(1)
    assert not told.below_max("default")
    assert told.room("gone") == 0
    world.shop.refuse()
    assert not told.capacity_available
    world.shop.allow()
    world.away("cloud")
    assert not told.launches_work
    world.back("cloud")
    world.kube.settings.never_joins = 0.5
    assert not told.nodes_join

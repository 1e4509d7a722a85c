"""EC2 as it is: late, forgetful, partial, and true to its tokens."""

from dataclasses import replace

import pytest

from nodefleet.errors import UnavailableError
from nodefleet.model.inventory import InstanceState, Market
from nodefleet.model.operations import RefusalKind
from nodefleet_tools.sim.instances import CloudSettings
from nodefleet_tools.sim.invariants import Rule
from nodefleet_tools.sim.world import ZONES, World
from support.operation_builders import launch

TYPES = ("t3.small", "t3a.small", "t2.small")


def wanted(**changes):
    base = launch(zone=ZONES[0], subnet=f"subnet-{ZONES[0]}", template="lt-default", market=Market.SPOT, types=TYPES)
    return replace(base, **changes)


def cloud_of(world, owner="r"):
    parts = world.parts(owner, limit=world.now.replace(year=2030) - world.now)
    parts.store.acquire(owner, world.now, world.now.replace(year=2030), world.policy.trust.clock_skew)
    return parts.cloud


def states(world, cloud, identity, until=200):
    """The states that a reader sees, second by second, without repeats."""
    seen = []
    for _ in range(until):
        found = cloud.instance(identity)
        state = found.state.value if found else None
        if not seen or seen[-1] != state:
            seen.append(state)
        world.advance(1)
    return seen


def test_a_machine_goes_through_all_its_states():
    world = World(cloud=CloudSettings(shows_in=(3, 3), read_lag=2))
    cloud = cloud_of(world)
    (identity,) = cloud.launch(wanted(count=1)).instances
    assert states(world, cloud, identity, 60) == [None, "pending", "running"]
    cloud.terminate(identity)
    assert states(world, cloud, identity, 60) == ["running", "shutting-down", "terminated"]
    world.advance(3600)
    assert cloud.instance(identity) is None


def test_the_cheapest_type_is_taken_and_what_is_too_dear_is_refused():
    world = World()
    world.shop.spot_prices["t3a.small", ZONES[0]] = 0.03
    answer = cloud_of(world).launch(wanted(count=1, max_price_usd=0.02))
    assert world.ec2.machines[answer.instances[0]].type == "t3.small"
    assert [(each.type, each.code) for each in answer.refusals] == []
    world.shop.spot_prices |= {(name, ZONES[0]): 0.03 for name in TYPES}
    answer = cloud_of(world, "s").launch(wanted(id="another", count=1, max_price_usd=0.02))
    assert {each.code for each in answer.refusals} == {"SpotMaxPriceTooLow"}


def test_fewer_than_asked_for_come_with_the_reasons():
    world = World()
    world.shop.stock |= {("t3.small", ZONES[0], Market.SPOT): 1, ("t3a.small", ZONES[0], Market.SPOT): 2}
    world.shop.refuse(type_="t2.small")
    answer = cloud_of(world).launch(wanted(count=5))
    assert len(answer.instances) == 3
    assert {each.type for each in answer.refusals} == set(TYPES)
    assert {each.kind for each in answer.refusals} == {RefusalKind.CAPACITY}
    world.shop.allow()
    assert len(cloud_of(world, "s").launch(wanted(id="another", count=5)).instances) == 5


def test_the_quota_stops_a_launch_half_way():
    world = World()
    world.add_workers(2)
    world.shop.quota = 3
    answer = cloud_of(world).launch(wanted(count=4))
    assert len(answer.instances) == 1
    assert {each.kind for each in answer.refusals} == {RefusalKind.QUOTA}


def test_the_same_token_gives_the_same_answer_even_when_capacity_is_back():
    world = World()
    world.shop.stock |= {(name, ZONES[0], Market.SPOT): 0 for name in TYPES[1:]} | {
        (TYPES[0], ZONES[0], Market.SPOT): 1
    }
    cloud = cloud_of(world)
    first = cloud.launch(wanted(count=2))
    world.shop.allow()
    assert cloud.launch(wanted(count=2, attempts=4, answered=True)) == first
    assert len(world.workers()) == 1


def test_a_token_with_other_parameters_is_an_error_and_a_violation():
    world = World()
    cloud = cloud_of(world)
    cloud.launch(wanted(count=1))
    with pytest.raises(UnavailableError, match="IdempotentParameterMismatch"):
        cloud.launch(wanted(count=2))
    assert [each.rule for each in world.violations] == [Rule.TOKEN]
    assert len(world.workers()) == 1


def test_a_subnet_of_another_zone_is_refused_for_good():
    answer = cloud_of(World()).launch(wanted(subnet=f"subnet-{ZONES[1]}"))
    assert {each.kind for each in answer.refusals} == {RefusalKind.INVALID}


def test_what_is_not_shown_yet_cannot_be_terminated():
    world = World(cloud=CloudSettings(shows_in=(5, 5)))
    cloud = cloud_of(world)
    (identity,) = cloud.launch(wanted(count=1)).instances
    cloud.terminate(identity)
    world.advance(30)
    assert world.ec2.machines[identity].state is InstanceState.RUNNING


def test_an_interrupted_machine_is_taken_two_minutes_later():
    world = World()
    spot = world.add_workers(2)[1]
    world.settle()
    notice = world.interrupt(spot.id)
    assert (notice.instance, notice.at) == (spot.id, world.now)
    world.advance(119)
    assert spot.live
    world.advance(2)
    assert spot.state is InstanceState.SHUTTING_DOWN
    world.advance(60)
    assert spot.state is InstanceState.TERMINATED


def test_costs_run_from_launch_to_end():
    world = World()
    (machine,) = world.add_workers(1)
    world.settle()
    world.advance(3600)
    hours = (world.now - machine.launched_at).total_seconds() / 3600
    world.operator.terminate(machine.id)
    world.advance(7200)
    assert world.ec2.cost() == pytest.approx(0.0208 * hours)


def test_the_control_plane_is_listed_and_the_foreign_machine_is_not():
    world = World()
    found = {each.id: each.worker for each in world.parts().cloud.instances()}
    assert found == {world.server.id: False}

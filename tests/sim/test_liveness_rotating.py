"""A worker that is due for rotation is replaced in time, or it is reported."""

from dataclasses import replace

import pytest

from nodefleet.model.alerts import AlertKind
from nodefleet_tools.sim.chaos.planted import PLANTED
from nodefleet_tools.sim.rules import Rule
from nodefleet_tools.sim.world import World
from support.worlds import Cluster

BUG = "old workers kept"
OLD = {"max_age": "20h", "spread_percent": 0}  # workers of the set-up have been there for a day


def shop(rotation: dict[str, object], *, most: int = 6, replicas: int = 6, **pod: object) -> Cluster:
    world = World(seed=1, policy={"limits": {"min": 3, "max": most}, "cooldown": {"down": "5m"}, "rotation": rotation})
    world.add_workers(3)
    world.deploy("shop", replicas=replicas, cpu=600, **pod)
    world.settle()
    return Cluster(world).must_live()


def deploy_template(world: World, version: str) -> None:
    deployment = world.table.state().deployment
    targets = tuple(replace(target, template_version=version) for target in deployment.targets)
    world.table.put("deployment", "", replace(deployment, targets=targets))


@pytest.mark.parametrize("most", [3, 4, 6])
def test_all_old_workers_are_replaced_one_at_a_time_within_max(most):
    cluster = shop(OLD, most=most, replicas=3)
    old = {machine.id for machine in cluster.world.workers()}
    sizes = set()

    def replaced() -> bool:
        live = {machine.id for machine in cluster.world.ec2.live_workers()}
        sizes.add(len(live))
        return not live & old and len(cluster.world.ready_nodes()) == 3

    cluster.until(replaced, ticks=90)
    cluster.calm(10)
    assert replaced()
    assert max(sizes) <= min(most, 4)
    assert cluster.world.violations == []
    assert cluster.world.liveness.awaited == []
    assert not [event for event in cluster.world.table.events if event.kind is AlertKind.AT_MAX]


def test_a_new_template_reaches_all_workers_and_a_worker_of_it_stays():
    cluster = shop({"drift": True})
    cluster.calm(3)
    deploy_template(cluster.world, "2")
    cluster.until(lambda: all(each.template_version == "2" for each in cluster.world.ec2.live_workers()), ticks=90)
    new = {machine.id for machine in cluster.world.ec2.live_workers()}
    cluster.calm(20)
    assert {machine.id for machine in cluster.world.ec2.live_workers()} == new
    assert cluster.world.violations == []


def test_a_new_template_that_does_not_work_stops_it_by_itself():
    cluster = shop({"drift": True})
    cluster.world.kube.settings.never_joins = 1.0
    deploy_template(cluster.world, "2")
    cluster.calm(60)
    old = [each for each in cluster.world.ec2.live_workers() if each.template_version == "1"]
    assert len(old) == 3, "nobody leaves before a new one is ready"
    assert len(cluster.world.ready_nodes()) == 3


def test_one_that_is_kept_is_reported_when_it_is_overdue_and_not_before():
    cluster = shop(OLD)
    with PLANTED[BUG]():
        cluster.calm(20)
        assert cluster.world.violations == []
        cluster.calm(30)
    assert {each.rule for each in cluster.world.violations} == {Rule.ROTATION}


def test_nothing_is_demanded_of_workers_that_something_protects():
    cluster = shop(OLD, annotations={"node-fleet.io/do-not-disrupt": "true"})
    with PLANTED[BUG]():
        cluster.calm(50)
    assert cluster.world.violations == []

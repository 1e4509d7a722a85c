"""Unschedulable pods start an urgent run within seconds, once, and never more often than the watcher publishes."""

from datetime import timedelta
from itertools import pairwise

from nodefleet_tools.sim.pending_watch import APART_SECONDS, DELIVERY_SECONDS, GATHER_SECONDS, PendingWatch
from nodefleet_tools.sim.world import World
from support.played_days import played

BIG = 1500  # millicores: one on a t3.small, beside nothing else
SOON = timedelta(seconds=1 + GATHER_SECONDS + DELIVERY_SECONDS)  # the scheduler takes a second


def watched() -> tuple[World, list[timedelta]]:
    """A cluster of one worker, and the times after its start at which urgent runs start."""
    world = World(policy={"limits": {"min": 1, "max": 6}})
    world.add_workers(1)
    world.settle()
    started: list[timedelta] = []
    PendingWatch(world.kube, lambda: started.append(world.now - world.start))
    return world, started


def test_a_pod_without_a_node_starts_one_run_within_seconds():
    world, started = watched()
    world.deploy("web", replicas=3, cpu=BIG)
    world.advance(60)
    assert len(world.waiting_pods()) == 2
    assert started == [SOON]


def test_placed_pods_start_nothing():
    world, started = watched()
    world.deploy("web", replicas=1, cpu=BIG)
    world.advance(60)
    assert started == []


def test_a_later_pod_starts_a_run_while_others_still_wait():
    world, started = watched()
    web = world.deploy("web", replicas=2, cpu=BIG)
    world.advance(30)
    world.controllers.scale(web, 3)
    world.advance(30)
    assert started == [SOON, timedelta(seconds=30) + SOON]


def test_a_stream_of_pods_starts_runs_no_more_often_than_the_watcher_publishes():
    world, started = watched()
    web = world.deploy("web", replicas=2, cpu=BIG)
    for replicas in range(3, 20):
        world.advance(1)
        world.controllers.scale(web, replicas)
    world.advance(60)
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(started)]
    assert len(started) > 2
    assert min(gaps) >= APART_SECONDS


def test_a_pod_that_is_gone_before_the_message_starts_nothing():
    world, started = watched()
    web = world.deploy("web", replicas=2, cpu=BIG)
    world.advance(1)
    world.controllers.scale(web, 1)
    world.kube.settle()
    world.advance(60)
    assert started == []


def grown_at(tmp_path, **parts: object) -> str:
    spike = [{"kind": "stairs", "points": {"12:00": 100, "12:05": 300}}]
    service = {"workload": "web", "per_pod": 25, "replicas": {"min": 6, "max": 24}, "load": spike}
    return f"{played(tmp_path, services=[service], **parts).decided[0].at:%H:%M:%S}"


def test_a_scenario_meets_pending_pods_between_ticks_unless_it_goes_by_the_schedule_alone(tmp_path):
    assert grown_at(tmp_path) < "12:05:40"
    assert grown_at(tmp_path, urgent_runs=False) == "12:06:00"

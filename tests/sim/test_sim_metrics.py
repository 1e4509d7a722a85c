"""Readings lag as Prometheus lags, and what cannot be read is missing with its cause."""

from datetime import timedelta

import pytest

from nodefleet.model.snapshot import Missing, Reading
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Pool
from nodefleet_tools.sim.kube import Traits
from nodefleet_tools.sim.load import Service
from nodefleet_tools.sim.world import NOON, ZONES, World


def read(world, **options):
    gauges = world.parts("g", limit=timedelta(days=9)).gauges
    return gauges.read(world.policy, world.now, timedelta(seconds=5), **options)["default"]


def busy(use=0.5, replicas=2, **options):
    world = World(**options)
    world.add_workers(2)
    world.deploy("shop", replicas=replicas, cpu=1000, memory=900, traits=Traits(cpu_use=use, memory_use=0.5))
    world.settle()
    return world


def test_cpu_and_memory_are_what_the_pods_use():
    seen = read(busy())
    assert seen.cpu == Reading(pytest.approx(3 + 25), NOON)
    assert seen.memory.value == pytest.approx(20 + 80 * 0.5 * 900 / (2048 * 0.9), abs=0.1)
    assert seen.nodes == Reading(2, NOON)
    assert list(seen.idle.values()) == [pytest.approx(72)] * 2


def test_a_jump_shows_only_over_the_window():
    world = busy(use=0.1)
    world.controllers.named("shop").traits.cpu_use = 0.9
    shown = []
    for _ in range(6):
        world.advance(60)
        shown.append(round(read(world).cpu.value))
    assert shown == [16, 24, 32, 40, 48, 48]


def test_the_samples_time_is_that_of_the_last_scrape():
    world = busy()
    world.advance(29)
    assert read(world).cpu.at == NOON
    world.prometheus.frozen = True
    world.advance(600)
    assert read(world).cpu.at == NOON


def test_a_node_that_is_gone_is_in_no_figure_from_the_next_scrape_on():
    world = busy(replicas=2)
    gone = world.workers()[0]
    world.operator.terminate(gone.id)
    world.advance(120)
    assert (read(world).nodes.value, len(read(world).idle)) == (1, 1)


def test_a_node_whose_exporter_is_silent_is_in_no_figure():
    world = busy(replicas=2)
    silent = world.node_of(world.workers()[0]).name
    world.prometheus.silent.add(silent)
    world.advance(60)
    seen = read(world)
    assert (seen.nodes.value, silent in seen.idle, seen.cpu.value) == (1, False, pytest.approx(28))


def test_a_new_node_counts_from_its_second_sample_on():
    world = busy()
    machine = world.operator.launch(zone=ZONES[0])
    counts = set()
    for _ in range(200):
        world.advance(1)
        counts.add((int(read(world).nodes.value), len(read(world).idle)))
    assert counts == {(2, 2), (3, 2), (3, 3)}
    assert world.node_of(machine).name in read(world).idle


def test_what_is_away_is_missing_with_its_cause():
    world = busy(policy={"readings": {"queue": {"kind": "prometheus", "query": "q"}}})
    assert isinstance(read(world).custom["queue"], Missing)
    world.away("gauges", "connection refused", for_seconds=60)
    seen = read(world)
    assert {seen.cpu, seen.memory, seen.nodes, seen.custom["queue"]} == {Missing("connection refused")}
    world.advance(61)
    world.prometheus.missing["default", "memory"] = "several series"
    seen = read(world)
    assert isinstance(seen.cpu, Reading)
    assert seen.memory == Missing("several series")


def test_without_workers_there_is_no_series():
    world = World()
    world.settle()
    assert {type(each) for each in (read(world).cpu, read(world).memory, read(world).nodes)} == {Missing}


def test_readings_can_be_set_and_custom_ones_come_from_the_world():
    world = busy(policy={"readings": {"queue": {"kind": "prometheus", "query": "q"}}})
    world.prometheus.fixed["default", "cpu"] = lambda: 82.0
    world.prometheus.custom["default", "queue"] = lambda: float(len(world.kube.pods))
    world.advance(30)
    seen = read(world)
    assert (seen.cpu.value, seen.custom["queue"].value) == (82.0, 2.0)


def test_a_pool_that_prometheus_does_not_know_has_no_readings():
    world = busy()
    gauges = world.parts("x").gauges
    other = Policy(pools=(Pool(), Pool(name="batch")))
    assert isinstance(gauges.read(other, world.now, timedelta(seconds=5))["batch"].cpu, Missing)


# ── load ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def serving(demand, replicas=2, **service):
    world = World()
    world.add_workers(2)
    shop = world.deploy("shop", replicas=replicas, cpu=500)
    found = world.load.add(Service(workload=shop, demand=demand, per_pod=10, **service))
    world.settle()
    return world, found


def test_pods_are_as_busy_as_the_demand_asks_and_it_shows_in_their_cpu():
    world, service = serving(lambda _: 10.0)
    assert service.busy == pytest.approx(0.5)
    assert (service.backlog, service.latency_ms) == (0, pytest.approx(100))
    assert read(world).cpu.value == pytest.approx(3 + 25 * (0.05 + 0.95 * 0.5))


def test_what_is_not_served_is_carried_and_worked_off():
    world, service = serving(lambda at: 40.0 if NOON <= at < NOON + timedelta(minutes=1) else 10.0)
    start = service.served
    world.advance(60)
    assert service.backlog == pytest.approx(1200, rel=0.2)
    assert service.latency_ms > 50_000
    world.advance(600)
    assert (service.backlog, service.busy) == (0, pytest.approx(0.5))
    assert service.violated > timedelta(minutes=1)
    assert service.served - start == pytest.approx(40 * 60 + 10 * 600, rel=0.05)


def test_the_autoscaler_of_pods_follows_the_demand_up_at_once_and_down_slowly():
    world, service = serving(lambda at: 70.0 if NOON <= at < NOON + timedelta(minutes=2) else 7.0, replicas=1)
    service.replicas = (1, 20)
    world.advance(60)
    assert service.workload.replicas >= 10
    world.advance(120)
    assert service.workload.replicas >= 10
    world.advance(600)
    assert service.workload.replicas == 1


# ── the load by minute ───────────────────────────────────────────────────────────────────────────────────────────


ADAPTIVE = {"strategy": "adaptive"}


def test_the_adaptive_strategy_reads_busy_nodes_minute_by_minute():
    world = busy(policy=ADAPTIVE)
    world.advance(600)
    got = read(world).load
    minutes = [int(each.at.timestamp()) // 60 for each in got]
    assert minutes == list(range(minutes[-1] + 1 - len(got), minutes[-1] + 1))
    assert got[-1].at == world.now
    assert got[-1].value == pytest.approx(2 * 0.28)
    assert [each.at for each in read(world, known={"default": world.now - timedelta(minutes=2)}).load] == [
        each.at for each in got[-3:]
    ]


def test_the_running_minute_has_its_newest_value():
    world = busy(policy=ADAPTIVE)
    world.advance(90)
    newest = read(world, known={"default": world.now}).load
    assert [each.at for each in newest] == [world.now]


def test_a_jump_shows_in_the_load_within_two_minutes():
    world = busy(use=0.1, policy=ADAPTIVE)
    world.advance(300)
    world.controllers.named("shop").traits.cpu_use = 0.9
    world.advance(120)
    assert read(world).load[-1].value == pytest.approx(2 * 0.48)


def test_a_cpu_that_is_missing_has_no_load_and_the_classic_strategy_asks_for_none():
    world = busy(policy=ADAPTIVE)
    world.prometheus.missing["default", "cpu"] = "timeout"
    assert read(world).load == read(busy()).load == ()


def test_a_cpu_that_the_test_fixes_is_the_load_too():
    world = busy(policy=ADAPTIVE)
    world.prometheus.fixed["default", "cpu"] = lambda: 80.0
    world.advance(300)
    assert read(world).load[-1].value == pytest.approx(1.6)

"""The page's picture of the cluster now, on simulated worlds."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.model.inventory import Market
from nodefleet.model.operations import Removal
from nodefleet.model.snapshot import Recycle
from nodefleet.model.workload import SCALE_DOWN_DISABLED
from nodefleet_tools.dashboard.timeline import Point, follow, point_now, point_of
from nodefleet_tools.sim.world import World
from support.dashboards import WorldSource
from support.worlds import Cluster, empty, shop


@pytest.fixture
def cluster():
    return shop()


def seen(cluster: Cluster) -> dict:
    return WorldSource(cluster.world).published()["snapshot"]


def test_every_worker_is_there_with_what_it_is_and_costs(cluster):
    cluster.calm(2)
    found = seen(cluster)
    workers = cluster.world.workers()
    assert {node["id"] for node in found["nodes"]} == {worker.id for worker in workers}
    for node in found["nodes"]:
        assert (node["phase"], node["pool"]) == ("ready", "default")
        assert node["usd"] > 0
        assert node["pods"] > 0
        assert node["requested_cpu"] > 0
        assert node["why"]
    assert {node["market"] for node in found["nodes"]} == {Market.SPOT.value, Market.ON_DEMAND.value}
    assert found["cost"]["hourly_usd"] == pytest.approx(sum(node["usd"] for node in found["nodes"]))


def test_the_control_plane_and_foreign_machines_are_not_nodes_of_the_fleet(cluster):
    ids = {node["id"] for node in seen(cluster)["nodes"]}
    assert not ids & {cluster.world.server.id, cluster.world.foreign.id}


def test_pods_that_no_node_holds_are_pending_with_their_time(cluster):
    cluster.world.deploy("big", replicas=3, cpu=1500)
    cluster.world.advance(30)
    found = seen(cluster)
    assert found["pending"]["count"] == len(cluster.world.waiting_pods()) > 0
    assert found["pending"]["pods"][0]["since"] < found["at"]


def test_a_drain_names_the_pod_and_the_budget_that_it_waits_for(cluster):
    world = cluster.world
    world.protect("shop", max_unavailable="0")
    victim = world.workers()[-1]
    world.parts("events").store.record(world.interrupt(victim.id))
    cluster.run("urgent", urgent=True, limit=timedelta(seconds=24))
    found = seen(cluster)
    (operation,) = [each for each in found["operations"] if each["kind"] == "removal"]
    assert operation["subject"] == world.node_of(victim).name
    assert operation["left"]
    assert {pod["budget"] for pod in operation["left"] if pod["pod"].startswith("default/shop-")} == {
        "default/shop-pdb"
    }
    (node,) = [each for each in found["nodes"] if each["id"] == victim.id]
    assert node["phase"] == "interrupted"
    assert node["why"].startswith("leaves: ")
    assert any(isinstance(each, Removal) for each in cluster.operations)


def test_a_node_whose_replacement_waits_names_the_command_instead_of_the_last_decision(cluster):
    cluster.calm(2)
    world = cluster.world
    first, *_, last = world.workers()
    order = Recycle(instance=first.id, at=world.now, by="ann", reason="kernel", until=world.now + timedelta(hours=1))
    world.table.put("command", order.instance, order, type_="recycle")
    why = {node["id"]: node["why"] for node in seen(cluster)["nodes"]}
    assert "ann" in why[first.id]
    assert "kernel" in why[first.id]
    assert "ann" not in why[last.id]
    world.advance(3601)
    assert "ann" not in {node["id"]: node["why"] for node in seen(cluster)["nodes"]}[first.id]


def test_a_protected_node_is_found_by_that_word(cluster):
    cluster.calm(2)
    world = cluster.world
    node = world.node_of(world.workers()[0])
    world.kube.put_node(replace(node, annotations={**node.annotations, SCALE_DOWN_DISABLED[0]: "true"}))
    assert [each["name"] for each in seen(cluster)["nodes"] if "protected" in each["why"]] == [node.name]


def test_what_does_not_answer_is_named_and_the_rest_is_shown(cluster):
    cluster.calm(1)
    cluster.world.away("cluster")
    found = seen(cluster)
    assert [each["part"] for each in found["problems"]] == ["Kubernetes"]
    assert found["pools"]
    cluster.world.back("cluster")
    cluster.world.away("gauges")
    assert {each["part"] for each in seen(cluster)["problems"]} == {"Prometheus"}


@pytest.mark.parametrize(("part", "unknown"), [("cluster", {"pending", "phases"}), ("cloud", {"cost"})])
def test_what_cannot_be_read_is_null_and_not_zero(cluster, part, unknown):
    cluster.calm(2)
    cluster.world.away(part)
    found = seen(cluster)
    (pool,) = found["pools"]
    assert (pool["ready"], pool["capacity"], pool["target"]) == (None, None, 3)
    assert (found["pending"]["count"] is None) == ("pending" in unknown)
    assert (found["cost"]["hourly_usd"] is None) == ("cost" in unknown)
    if "phases" in unknown:
        assert {(node["phase"], node["pods"]) for node in found["nodes"]} == {("unknown", None)}
    now = point_now(found)
    assert (now.ready, now.booting, now.load) == (None, None, None)


def test_the_charts_have_a_gap_where_a_run_could_not_read_the_cluster(cluster):
    cluster.calm(2)
    cluster.world.away("cluster")
    cluster.tick()
    cluster.world.back("cluster")
    cluster.calm(1)
    points = [point_of(record) for record in cluster.world.parts("reader").history.decisions(40)]
    ready = [point.ready for point in list(follow(sorted(points, key=lambda point: point.at), None))]
    assert set(ready) == {3, None}
    assert ready[-1] == 3


def test_a_cause_does_not_name_its_part_twice(cluster):
    cluster.calm(1)
    cluster.world.away("cluster")
    cluster.world.away("gauges")
    assert {(each["part"], each["cause"]) for each in seen(cluster)["problems"]} == {
        ("Kubernetes", "timed out"),
        ("Prometheus", "timed out"),
    }


def test_a_table_that_does_not_answer_leaves_what_was_shown(cluster):
    source = WorldSource(cluster.world)
    cluster.world.away("store")
    source.fail("DynamoDB: timed out")
    assert source.updates(0, 0)[1] == b'{"error":"DynamoDB: timed out","demo":null}'
    cluster.world.back("store")
    shown = source.published()
    source.fail("DynamoDB: timed out")
    assert json.loads(source.updates(0, 0)[1]) == {**shown, "error": "DynamoDB: timed out"}


def test_an_empty_cluster_is_no_error():
    found = seen(empty())
    assert found["nodes"] == []
    assert found["last"] is None
    assert found["pending"] == {"count": 0, "pods": []}
    assert found["cost"]["spot_percent"] is None


def test_alarms_that_still_hold_come_first(cluster):
    world = cluster.world
    cluster.calm(1)
    world.deploy("giant", replicas=1, cpu=64000)
    cluster.calm(3)
    alarms = seen(cluster)["alarms"]
    assert (alarms[0]["kind"], alarms[0]["active"]) == ("cannot-hold", True)
    assert alarms[0]["todo"]
    world.advance(timedelta(hours=2).total_seconds())
    assert not seen(cluster)["alarms"][0]["active"]


def test_capacity_that_ec2_does_not_have_is_remembered_for_all_to_see(cluster):
    world = cluster.world
    world.shop.refuse(market=Market.SPOT, zone=None, type_=None)
    world.deploy("big", replicas=3, cpu=1500)
    cluster.calm(2)
    errors = seen(cluster)["capacity_errors"]
    assert errors
    assert {each["market"] for each in errors} == {"spot"}


# ── over time ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_first_snapshot_brings_the_recorded_day_and_later_ones_a_point_each(cluster):
    cluster.calm(5)
    cluster.world.advance(5)
    source = WorldSource(cluster.world)
    source.published()
    recorded = len(cluster.world.table.decisions)
    assert len(source.timeline()["t"]) == recorded + 1
    cluster.world.advance(10)
    source.published()
    assert len(source.timeline()["t"]) == recorded + 2
    assert source.timeline()["t"] == sorted(set(source.timeline()["t"]))


def test_time_that_nobody_watched_is_filled_from_the_records(cluster):
    source = WorldSource(cluster.world)
    source.published()
    cluster.calm(10)
    source.published()
    assert len(source.timeline()["t"]) >= 10


def test_load_is_in_busy_nodes(cluster):
    cluster.calm(2)
    newest = cluster.world.table.decisions[-1]
    point = point_of(newest)
    assert point.load == pytest.approx(newest.figures["default.cpu"] / 100 * newest.figures["default.ready"], rel=0.01)
    assert point.pending == 0


def loads(*rows: tuple[float, int, float]) -> list[float | None]:
    """The loads on the chart, of times with ready nodes and CPU percent."""
    points = [
        Point(at=at, load=None, ready=ready, booting=0, target=ready, cpu=cpu, memory=None, pending=0, usd=None)
        for at, ready, cpu in rows
    ]
    return [point.load for point in follow(points, None)]


def test_a_node_that_joins_is_no_peak_of_load_and_one_that_leaves_no_dip():
    assert loads((0, 2, 42.0), (60, 3, 42.5), (120, 3, 29.0), (180, 3, 30.0)) == pytest.approx([0.84, 0.85, 0.87, 0.9])
    assert loads((0, 4, 52.0), (60, 3, 52.0), (120, 3, 69.0)) == pytest.approx([2.08, 2.08, 2.07])


def test_a_load_that_really_doubled_is_shown_when_the_reading_has_every_node():
    rows = [(0, 2, 40.0), (60, 4, 41.0), (120, 4, 40.0), (300, 4, 40.0)]
    assert loads(*rows) == pytest.approx([0.8, 0.82, 0.8, 1.6])


def test_a_forecast_is_made_of_the_same_hours_of_other_days():
    from nodefleet.model.state import HourLoad, LoopState, Memory, PoolMemory  # noqa: PLC0415

    world = World(seed=1)
    world.add_workers(2)
    world.settle()
    profile = tuple(
        HourLoad(day=f"2026-11-{day}", hour=13, load=load, samples=30, last=world.now - timedelta(days=2))
        for day, load in (("13", 1.0), ("14", 3.0), ("16", 9.0))  # the last one is today's own
    )
    world.table.put("journal", "", LoopState(memory=Memory(pools={"default": PoolMemory(profile=profile)})))
    ((at, low, expected, high),) = WorldSource(world).published()["forecast"]
    assert (low, expected, high) == (1.0, 2.0, 3.0)
    assert at == (world.now.replace(hour=13, minute=30)).timestamp()


def test_a_pool_shows_what_its_forecast_is_worth_by_its_own_grades():
    learning = shop(strategy="adaptive")
    assert seen(learning)["pools"][0]["forecast"] is None  # nothing was graded yet
    learning.calm(40)
    forecast = seen(learning)["pools"][0]["forecast"]
    assert set(forecast) == {"skill", "promised", "seen"}
    assert forecast["promised"] >= 0
    assert forecast["seen"] == 0


def test_a_pool_without_a_forecast_has_no_grade(cluster):
    cluster.calm(2)
    assert seen(cluster)["pools"][0]["forecast"] is None

"""What happens during a scenario happens in its world, at its time, and is over when it says so."""

from datetime import timedelta

from nodefleet.model.alerts import AlertKind
from nodefleet.model.inventory import Market
from nodefleet_tools.sim.scenario_result import MarkKind, ScenarioResult, Standing
from support.played_days import played
from support.wording import assert_wording

SPIKE = [{"workload": "web", "per_pod": 25, "replicas": {"min": 6, "max": 24}}]


def happened(day: ScenarioResult) -> list[str]:
    return [f"{mark.at:%H:%M} {mark.text}" for mark in day.marks if mark.kind is MarkKind.HAPPENED]


def spiking(rate: float, at: str = "12:05") -> list[dict[str, object]]:
    load = [{"kind": "stairs", "points": {"12:00": 100, at: rate}}]
    return [{**SPIKE[0], "load": load}]


def calm(rate: float = 40) -> list[dict[str, object]]:
    return [{**SPIKE[0], "replicas": {"min": 3, "max": 24}, "load": [{"kind": "steady", "rate": rate}]}]


def test_missing_spot_capacity_is_bought_on_demand_until_it_is_back(tmp_path):
    event = {"kind": "capacity-missing", "at": "12:01", "lasting": "20m", "market": "spot"}
    day = played(tmp_path, events=[event], services=spiking(300))
    assert_wording(happened(day))
    new = [worker for worker in day.frames[-1].workers if worker.name not in {w.name for w in day.frames[0].workers}]
    assert new
    assert {worker.market for worker in new} == {Market.ON_DEMAND}
    assert AlertKind.NO_CAPACITY in day.told


def test_what_is_missing_may_be_one_type_in_one_zone(tmp_path):
    event = {"kind": "capacity-missing", "at": "12:01", "lasting": "5m", "type": "t3a.small", "zone": "us-east-1a"}
    day = played(tmp_path, events=[event])
    assert_wording(happened(day)[0])


def test_without_prometheus_nothing_leaves(tmp_path):
    event = {"kind": "part-away", "at": "12:02", "part": "prometheus", "lasting": "28m"}
    assert played(tmp_path, services=calm()).figures.shrinks == 1
    day = played(tmp_path, events=[event], services=calm())
    assert day.figures.shrinks == 0
    assert AlertKind.DEGRADED in day.told
    assert_wording(happened(day)[0])


def test_runs_go_on_after_the_table_was_away(tmp_path):
    event = {"kind": "part-away", "at": "12:01", "part": "dynamodb", "lasting": "9m"}
    day = played(tmp_path, events=[event], services=spiking(300))
    assert [f"{each.at:%H:%M}" for each in day.decided] == ["12:10"]
    assert day.figures.final_nodes == 5
    assert not day.broken


def test_a_budget_that_is_tightened_when_a_drain_begins_holds_it_up(tmp_path):
    event = {"kind": "budget-tightened", "at": "12:01", "when": "a-drain-begins", "workload": "web", "lasting": "3m"}
    free, held = played(tmp_path, services=calm()), played(tmp_path, events=[event], services=calm())
    assert free.figures.longest_drain_seconds < 120
    assert 180 <= held.figures.longest_drain_seconds < 300
    assert_wording(happened(held)[0], SHRUNK=f"{held.decided[0].at:%H:%M}")
    assert AlertKind.DRAIN_BLOCKED not in held.told
    assert not held.broken


def test_a_budget_that_stays_tight_lets_the_node_back_in(tmp_path):
    event = {"kind": "budget-tightened", "at": "12:01", "when": "a-drain-begins", "workload": "web", "lasting": "29m"}
    held = played(tmp_path, events=[event], services=calm())
    assert AlertKind.DRAIN_BLOCKED in held.told
    assert held.figures.final_nodes == 3


def test_a_budget_may_be_tight_from_a_time_on_with_its_reason(tmp_path):
    event = {
        "kind": "budget-tightened",
        "at": "12:03",
        "workload": "web",
        "lasting": "25m",
        "max_unavailable": "1",
        "because": "a release is going out",
    }
    day = played(tmp_path, events=[event])
    assert_wording(happened(day))


def test_a_workload_is_scaled_by_hand(tmp_path):
    day = played(
        tmp_path,
        services=[],
        events=[{"kind": "workload-scaled", "at": "12:05", "workload": "web", "replicas": 15}],
    )
    assert day.frames[-1].pods - day.frames[0].pods == 9 + 1  # the new node has its daemonset's pod too
    assert day.figures.launched == 1


def test_a_silent_worker_is_replaced(tmp_path):
    day = played(tmp_path, lasts="40m", events=[{"kind": "worker-fails", "at": "12:05"}], services=spiking(180))
    assert AlertKind.UNHEALTHY in day.told
    assert day.figures.final_nodes >= 3
    assert Standing.UNREADY in {worker.standing for frame in day.frames for worker in frame.workers}


def test_a_worker_that_was_silent_for_a_moment_stays(tmp_path):
    day = played(tmp_path, events=[{"kind": "worker-fails", "at": "12:05", "lasting": "90s"}])
    assert day.figures.launched == 0
    assert len(day.frames[-1].workers) == 3


def test_machines_that_do_not_join_are_told_of_and_kept_for_a_person(tmp_path):
    event = {"kind": "joins-fail", "at": "12:02", "lasting": "8m"}
    day = played(tmp_path, events=[event], services=spiking(300))
    assert AlertKind.JOIN_FAILED in day.told
    assert Standing.FAILED in {worker.standing for worker in day.frames[-1].workers}


def test_a_persons_command_is_carried_out_at_once(tmp_path):
    event = {"kind": "person-scales", "at": "12:07", "nodes": 5, "lasting": "10m", "because": "a launch"}
    day = played(tmp_path, events=[event])
    assert_wording(happened(day))
    (grown, *_) = day.decided
    assert (grown.by, grown.to, grown.at - day.starts) == ("person", 5, timedelta(minutes=7))
    assert AlertKind.SCALED_BY_OPERATOR in day.told


def test_a_pause_keeps_the_fleet_as_it_is(tmp_path):
    event = {"kind": "person-pauses", "at": "12:01", "lasting": "25m", "because": "a migration"}
    day = played(tmp_path, events=[event], services=spiking(300))
    assert day.decided == () or min(each.at for each in day.decided) >= day.starts + timedelta(minutes=26)
    assert_wording(happened(day))


def test_without_spot_workers_there_is_nothing_to_interrupt(tmp_path):
    day = played(tmp_path, cluster={"workers": 1}, policy={"limits": {"min": 1, "max": 1}}, services=[], workloads=[],
                 events=[{"kind": "spot-interruption", "at": "12:05"}])  # fmt: skip
    assert_wording(happened(day))
    assert day.figures.healed_seconds is None

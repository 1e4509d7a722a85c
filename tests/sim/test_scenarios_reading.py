"""A scenario file is taken as it is meant, or refused with everything that is wrong with it."""

from datetime import timedelta

import pytest
import yaml

from nodefleet.model.serialization import ValidationError
from nodefleet_tools.cli.policy_file import UnreadableError
from nodefleet_tools.sim.scenarios.expectations import Expect
from nodefleet_tools.sim.scenarios.happenings import SpotInterruption
from nodefleet_tools.sim.scenarios.reading import find, read, shipped
from nodefleet_tools.sim.shapes import Noise, Steady
from support.played_days import scenario, small
from support.wording import assert_wording

SHIPPED = [
    "bad-afternoon",
    "burst",
    "consolidation",
    "failover-automatic",
    "failover-origin",
    "failover-planned",
    "flash-sale",
    "fleet-caps",
    "gpu-jobs",
    "headroom",
    "jobs-complete",
    "load-spike",
    "morning-spike",
    "pod-priorities",
    "pool-choice",
    "region-failover",
    "release-storm",
    "rotation-week",
    "shop-day",
    "spot-interruption",
    "steady-state",
    "tenant-pools",
    "tenant-shares",
    "warm-pool",
]


def problems(tmp_path, **parts: object) -> dict[str, str]:
    """What is wrong, by path."""
    with pytest.raises(ValidationError) as error:
        scenario(tmp_path, **parts)
    return {problem.path: f"{problem.wrong}; {problem.right}" for problem in error.value.problems}


def service(**parts: object) -> list[dict[str, object]]:
    return [{"workload": "web", "per_pod": 25, "load": [{"kind": "steady", "rate": 1}], **parts}]


def test_the_shipped_ones_are_found_by_their_name_and_carry_it():
    assert list(shipped()) == SHIPPED
    assert [read(find(name)).scenario.name for name in SHIPPED] == SHIPPED


def test_each_shipped_one_says_what_it_shows_and_expects_something():
    for name in SHIPPED:
        found = read(find(name)).scenario
        assert found.about.endswith(".")
        assert found.expect != Expect()


def test_any_other_one_is_found_by_its_path(tmp_path):
    assert find("some/where.yaml").name == "where.yaml"
    with pytest.raises(UnreadableError) as refused:
        find("shop-dya")
    assert_wording(str(refused.value).partition(", ")[0])


def test_a_file_becomes_what_it_says(tmp_path):
    found = scenario(
        tmp_path,
        services=service(load=[{"kind": "steady", "rate": 80}, {"kind": "noise", "percent": 2, "every": "5m"}]),
        events=[{"kind": "spot-interruption", "at": "12:10"}],
    ).scenario
    assert found.services[0].load == (Steady(rate=80.0), Noise(percent=2.0, every=timedelta(minutes=5)))
    assert found.events == (SpotInterruption(at="12:10"),)
    assert found.ends - found.starts == timedelta(minutes=30)


def test_json_will_do_as_well(tmp_path):
    path = tmp_path / "scenario.json"
    path.write_text('{"name": "j", "about": "JSON.", "lasts": "10m", "compare": []}')
    assert read(path).scenario.name == "j"


def test_everything_that_is_wrong_is_said_at_once(tmp_path):
    found = problems(
        tmp_path,
        lasts="soon",
        clustre={},
        policy={"limits": {"min": 9, "max": 3}},
        workloads=[{"name": "web", "kind": "replicaset"}],
        services=service(load=[{"kind": "tsunami"}]),
    )
    assert set(found) == {"lasts", "clustre", "policy.limits.min", "workloads[0].kind", "services[0].load[0].kind"}
    assert_wording(found["clustre"])
    assert_wording(found["policy.limits.min"])


def test_a_key_that_is_written_twice_is_refused(tmp_path):
    path = tmp_path / "twice.yaml"
    path.write_text("name: a\nname: b\nabout: x.\nlasts: 1h\n")
    with pytest.raises(ValidationError) as caught:
        read(path)
    assert_wording(str(caught.value))


def test_a_time_without_quotes_is_a_number_and_the_hint_says_so(tmp_path):
    path = tmp_path / "time.yaml"
    path.write_text(yaml.safe_dump(small()) + "events:\n  - {kind: spot-interruption, at: 12:10}\n")
    with pytest.raises(ValidationError) as caught:
        read(path)
    assert_wording(str(caught.value))


@pytest.mark.parametrize(
    ("parts", "path", "words"),
    [
        ({"events": [{"kind": "spot-interruption", "at": "noon"}]}, "events[0].at", "is not a time of day"),
        ({"events": [{"kind": "spot-interruption", "at": "12:31"}]}, "events[0].at", "outside of the scenario"),
        ({"services": service(workload="wbe")}, "services[0].workload", "did you mean web?"),
        ({"services": service() + service()}, "services[1].workload", "two services"),
        ({"services": service(load=[{"kind": "noise", "percent": 3}])}, "services[0].load", "has no curve"),
        ({"services": service(per_pod=0)}, "services[0].per_pod", "not more than 0"),
        ({"services": service(replicas={"min": 5, "max": 2})}, "services[0].replicas", "0 < min ≤ max"),
        (
            {"services": service(load=[{"kind": "daily", "points": {"25:00": 3}}])},
            "services[0].load[0].points.25:00",
            "not within a day",
        ),
        (
            {"services": service(load=[{"kind": "stairs", "points": {"600": 3}}])},
            "services[0].load[0].points.600",
            "in quotes",
        ),
        (
            {"services": service(load=[{"kind": "daily", "points": {}}])},
            "services[0].load[0].points",
            "has no points",
        ),
        (
            {"services": service(load=[{"kind": "trace", "file": "gone.csv"}])},
            "services[0].load[0].file",
            "no such file",
        ),
        (
            {"readings": [{"name": "q", "shows": {"kind": "backlog", "service": "api"}}]},
            "readings[0].shows.service",
            "known are web",
        ),
        (
            {"events": [{"kind": "budget-tightened", "at": "12:01", "lasting": "1m", "workload": "exporter"}]},
            "events[0].workload",
            "a workload with a budget",
        ),
        (
            {"events": [{"kind": "workload-scaled", "at": "12:01", "replicas": 2, "workload": "webb"}]},
            "events[0].workload",
            "did you mean web?",
        ),
        (
            {"workloads": [{"name": "web"}, {"name": "web"}]},
            "workloads[1].name",
            "is there twice",
        ),
        (
            {"workloads": [{"name": "web", "budget": {}}]},
            "workloads[0].budget",
            "neither limit or both",
        ),
        ({"workloads": [{"name": "web", "cpu": -1}]}, "workloads[0].cpu", "less than 0"),
        ({"cluster": {"type": "t3.smal"}}, "cluster.type", "did you mean t3.small?"),
        ({"cluster": {"zones": []}}, "cluster.zones", "names no zone"),
        ({"cluster": {"joins": {"least": 9, "most": 3}}}, "cluster.joins", "is no span"),
        ({"lasts": "60d"}, "lasts", "31 days"),
        ({"history": {"days": 0}}, "history", "1 to 31 days"),
        ({"compare": [0]}, "compare[0]", "is no fleet"),
        ({"expect": {"violation_minutes": {}}}, "expect.violation_minutes", "bounds nothing"),
        ({"expect": {"told": {"interupted": {"at_most": 1}}}}, "expect.told.interupted", "did you mean interrupted?"),
        ({"expect": {"against": [{"nodes": 5}]}}, "expect.against[0].nodes", "add it to compare"),
        ({"expect": {"nodes_at": {"23:00": 2}}}, "expect.nodes_at.23:00", "outside of the scenario"),
        ({"expect": {"pods_at": {"23:00": {"web": 2}}}}, "expect.pods_at.23:00", "outside of the scenario"),
        ({"expect": {"pods_at": {"12:01": {"wep": 2}}}}, "expect.pods_at.12:01.wep", "did you mean web?"),
        ({"workloads": [{"name": "web", "zone": "us-east-1z"}]}, "workloads[0].zone", "is not a zone of the cluster"),
        ({"cluster": {"devices": {"least": 9, "most": 3}}}, "cluster.devices", "is no span"),
        (
            {"expect": {"moments": [{"after": "11:00", "before": "12:10", "action": "grow"}]}},
            "expect.moments[0].after",
            "outside of the scenario",
        ),
        ({"expect": {"violations": {"at_most": 1}}}, "expect.violations", "is an unknown key"),
    ],
)
def test_what_cannot_be_is_said_where_it_stands(tmp_path, parts, path, words):
    assert words in problems(tmp_path, **parts)[path]


def test_a_trace_is_read_from_beside_its_scenario(tmp_path):
    (tmp_path / "mine.csv").write_text("0,1\n60,2\n")
    found = scenario(tmp_path, services=service(load=[{"kind": "trace", "file": "mine.csv", "peak": 90}]))
    assert found.traces["mine.csv"].values == (1.0, 2.0)

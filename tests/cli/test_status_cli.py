"""`nodefleet status`, `nodes`, `cost`, `events`, `decisions`, `health`, `protect` and `explain POD`."""

import json
import os

import pytest

from nodefleet.adapters.kubernetes.cluster import KubernetesCluster
from nodefleet.model.state import LoopState
from nodefleet_tools.cli import show_record
from nodefleet_tools.cli.environment import KUBECONFIG, _kubeconfig_problems
from nodefleet_tools.cli.outcome import Status
from support import k8s_objects
from support.fake_api_certificates import authority
from support.fake_api_server import TOKEN, serving
from support.sim_connections import SimConnection, Terminal
from support.wording import assert_wording
from support.worlds import empty, shop


@pytest.fixture
def cluster():
    made = shop()
    made.tick()
    return made


@pytest.fixture
def terminal(cluster, monkeypatch):
    return Terminal(monkeypatch, SimConnection(cluster.world))


def answer(done):
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


# ── now ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_status_is_an_overview_and_the_whole_for_programs(cluster, terminal):
    done = terminal("status")
    assert done.exit_code == 0
    assert_wording(done.stdout)
    found = answer(terminal("status", "--json"))
    assert [pool["name"] for pool in found["pools"]] == ["default"]
    assert len(found["nodes"]) == 3


def test_status_names_pods_that_wait_operations_and_commands(cluster, terminal):
    cluster.world.deploy("big", replicas=6, cpu=1500)
    cluster.world.advance(30)
    assert_wording(terminal("status").stdout)
    cluster.look()
    terminal("pause", "--reason", "drill", "--by", "ann")
    shown = terminal("status").stdout
    assert_wording(shown)


def test_in_a_narrow_terminal_names_stay_whole(cluster, terminal, monkeypatch):
    monkeypatch.setattr(show_record, "_WIDE", 80)
    (node, *_) = answer(terminal("nodes", "--json"))
    for command in ("nodes", "decisions"):
        shown = terminal(command).stdout
        assert max(map(len, shown.splitlines())) <= 80
        assert_wording(shown)
    assert any(line.startswith(f"{node['name']}  ready") for line in terminal("nodes").stdout.splitlines())


def test_nodes_are_listed_and_filtered(cluster, terminal):
    listed = answer(terminal("nodes", "--json"))
    assert {each["phase"] for each in listed} == {"ready"}
    shown = terminal("nodes").stdout
    assert all(each["name"] in shown for each in listed)
    assert answer(terminal("nodes", "--phase", "draining", "--json")) == []
    assert_wording(terminal("nodes", "--phase", "draining").stdout)


@pytest.mark.parametrize("option", [("nodes", "--pool"), ("nodes", "--phase"), ("events", "--kind")])
def test_a_filter_that_can_match_nothing_is_refused(cluster, terminal, option):
    """An empty list with status 0 would read as: there are none."""
    done = terminal(*option, "other", "--json")
    assert (done.exit_code, json.loads(done.stdout)["error"]["status"]) == (Status.REFUSED, Status.REFUSED)


def test_nodes_says_that_phases_are_not_known_while_kubernetes_is_away(cluster, terminal):
    cluster.world.away("cluster")
    done = terminal("nodes")
    assert done.exit_code == 0
    assert "warning: Kubernetes: " in done.stderr


@pytest.mark.parametrize("part", ["cluster", "cloud"])
def test_status_does_not_show_what_it_could_not_read_as_none(cluster, terminal, part):
    cluster.calm(2)
    cluster.world.away(part)
    assert_wording(terminal("status").stdout)
    assert terminal("nodes", "--phase", "unknown", "--json").exit_code == (0 if part == "cluster" else 1)


def test_without_ec2_it_is_not_said_that_no_worker_is_there(cluster, terminal):
    cluster.world.away("cloud")
    done = terminal("nodes", "--json")
    assert done.exit_code == 1
    assert_wording(json.loads(done.stdout)["error"]["message"])


def test_a_pod_is_not_denied_because_nobody_can_be_asked(cluster, terminal):
    cluster.world.away("cluster")
    done = terminal("explain", "default/app-1")
    assert done.exit_code == 1
    assert_wording(done.stderr)


@pytest.mark.parametrize("content", [b"users: [", b"- 1\n", b"\xff\xfe"])
def test_a_kubeconfig_that_is_none_is_named_before_anything_is_asked(tmp_path, content):
    path = tmp_path / "config"
    path.write_bytes(content)
    assert [f"{path} is no kubeconfig" in each for each in _kubeconfig_problems({KUBECONFIG: str(path)})] == [True]


def test_nothing_is_written_by_looking(cluster, terminal):
    before = cluster.world.table.size
    for command in ("status", "nodes", "events", "decisions", "cost", "health"):
        terminal(command)
    assert cluster.world.table.size == before
    assert not {call for call in terminal.connection.log if call in ("store.order", "store.commit", "cloud.launch")}


# ── history ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_events_are_told_oldest_first_and_filtered_by_kind(cluster, terminal):
    terminal("pause", "--by", "ann")
    cluster.world.advance(60)
    terminal("resume", "--by", "ann")
    kinds = [each["kind"] for each in answer(terminal("events", "--json"))]
    assert kinds[-2:] == ["paused", "resumed"]
    assert_wording(terminal("events", "--kind", "paused").stdout)


def test_followed_events_come_once_each_until_they_are_stopped(cluster, terminal):
    terminal("pause", "--by", "ann")
    connection, naps = terminal.connection, []

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 1:
            terminal("resume", "--by", "ann")
        if len(naps) == 3:
            raise KeyboardInterrupt

    connection.sleep = sleep
    done = terminal("events", "-f", "--json", "--since", "1h")
    assert done.exit_code == 0
    kinds = [json.loads(line)["kind"] for line in done.stdout.splitlines()]
    assert (kinds.count("paused"), kinds.count("resumed")) == (1, 1)


def test_decisions_are_listed_by_number_time_and_action(cluster, terminal):
    cluster.world.deploy("big", replicas=6, cpu=1500)
    cluster.tick()
    grown = answer(terminal("decisions", "--action", "grow", "--json"))
    assert grown
    assert all(any(pool["action"] == "grow" for pool in each["decision"]["pools"]) for each in grown)
    assert len(answer(terminal("decisions", "--last", "1", "--json"))) == 1
    assert "GROW".lower() in terminal("decisions", "--since", "1h").stdout


@pytest.mark.parametrize("command", ["decisions", "events", "cost", "health"])
def test_nothing_recorded_is_the_same_status_everywhere(monkeypatch, command):
    world = empty().world
    world.table.put("journal", "", LoopState())
    ask = Terminal(monkeypatch, SimConnection(world))
    done = ask(command, "--json")
    assert (done.exit_code, json.loads(done.stdout)["error"]["status"]) == (3, 3)


def test_the_cost_of_three_periods_is_shown(cluster, terminal):
    cluster.calm(40)
    found = answer(terminal("cost", "--json"))
    assert set(found["periods"]) == {"today", "week", "month"}
    assert found["periods"]["today"]["usd"] > 0
    assert_wording(terminal("cost").stdout)


# ── health ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_health_fails_when_runs_do_not_happen(cluster, terminal):
    assert terminal("health").exit_code == 0
    cluster.world.advance(3600)
    done = terminal("health", "--json")
    assert (done.exit_code, json.loads(done.stdout)["error"]["status"]) == (1, 1)


def test_health_by_a_file_needs_nothing_else(terminal, tmp_path):
    beat = tmp_path / "beat"
    assert terminal("health", "--file", str(beat)).exit_code == 3
    beat.touch()
    assert terminal("health", "--file", str(beat)).exit_code == 0
    os.utime(beat, (0, 0))
    assert terminal("health", "--file", str(beat)).exit_code == 1


# ── one pod ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_pod_that_waits_is_told_what_the_next_run_will_do(cluster, terminal):
    cluster.world.deploy("big", replicas=1, cpu=1900)
    cluster.world.advance(30)
    found = answer(terminal("status", "--json"))["pending"]["pods"]
    assert found
    name = found[0]["name"]
    story = answer(terminal("explain", name, "--json"))
    assert (story["pod"], story["state"]) == (name, "pending")
    assert_wording(story["will"])
    cluster.look()
    shown = terminal("explain", name).stdout
    assert "booting" in shown


def test_a_pod_that_no_new_node_can_hold_gets_none(cluster, terminal):
    cluster.world.deploy("huge", replicas=1, cpu=64_000)
    cluster.world.advance(30)
    name = answer(terminal("status", "--json"))["pending"]["pods"][0]["name"]
    story = answer(terminal("explain", name, "--json"))
    assert_wording(story["will"])


def test_a_pod_that_runs_says_where(cluster, terminal):
    pod = next(pod for pod in cluster.world.kube.pods.values() if pod.node)
    story = answer(terminal("explain", f"{pod.namespace}/{pod.name}", "--json"))
    assert (story["state"], story["node"]) == ("running", pod.node)


def test_a_name_that_is_neither_node_nor_pod_is_nothing_recorded(terminal):
    assert terminal("explain", "frob").exit_code == 3


# ── protection ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_protected_node_bears_the_annotation_until_it_is_taken_off(terminal, monkeypatch, tmp_path):
    with serving(tmp_path) as server:
        server.objects.put("nodes", k8s_objects.node("w1", instance="i-1"))
        made = KubernetesCluster.at(server.url, TOKEN, authority().ca)
        monkeypatch.setattr(SimConnection, "kubernetes", lambda _: made, raising=False)

        def annotations() -> dict:
            return server.objects.find("nodes", "w1")["metadata"]["annotations"]

        assert answer(terminal("protect", "w1", "--json"))["protected"] is True
        assert annotations() == {"node-fleet.io/scale-down-disabled": "true"}
        assert terminal("protect", "w1", "--off", "--by", "ann", "--reason", "debugged").exit_code == 0
        told = [each["text"] for each in answer(terminal("events", "--json")) if each["kind"] == "protected"]
        assert_wording(told[-1])
        assert annotations().get("node-fleet.io/scale-down-disabled") is None
        assert terminal("protect", "w2").exit_code == Status.NOTHING

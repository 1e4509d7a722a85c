"""`nodefleet explain` on a simulated cluster: why it did what it did, and why a node stays."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.model.decision import DecisionRecord
from nodefleet.model.operations import Removal
from nodefleet.model.serialization import from_plain
from support.sim_connections import SimConnection, Terminal
from support.wording import assert_wording
from support.worlds import Cluster, empty, shop, spot_worker


def busy() -> Cluster:
    """Pods wait, and the first iteration grows the fleet."""
    return shop(workers=3, replicas=12, cpu=900)


def terminal(monkeypatch, cluster: Cluster) -> Terminal:
    return Terminal(monkeypatch, SimConnection(cluster.world))


def lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


# ── the last decision ────────────────────────────────────────────────────────────────────────────────────────────


def test_the_last_decision_is_told_with_everything_that_had_a_say(monkeypatch):
    cluster = busy()
    cluster.look()
    done = terminal(monkeypatch, cluster)("explain")
    page = lines(done.stdout)
    assert done.exit_code == 0
    assert_wording(page[0])
    assert "default: GROW 3 → 5" in page
    assert_wording(page)
    assert_wording(page)
    assert any("default.ready 3" in line for line in page)
    assert_wording(page[-1])


def test_who_overruled_whom_is_told(monkeypatch):
    cluster = busy()
    cluster.tick()
    cluster.tick()
    page = terminal(monkeypatch, cluster)("explain").stdout
    assert_wording(page)


def test_json_is_the_whole_record(monkeypatch):
    cluster = busy()
    cluster.look()
    done = terminal(monkeypatch, cluster)("explain", "--json")
    assert from_plain(DecisionRecord, json.loads(done.stdout)) == cluster.world.table.decisions[-1]


def test_before_the_first_run_there_is_nothing_to_explain(monkeypatch):
    ask = terminal(monkeypatch, empty())
    done = ask("explain")
    assert done.exit_code == 3
    assert_wording(done.stderr)
    assert json.loads(ask("explain", "--json").stdout)["error"]["status"] == 3
    assert json.loads(ask("explain", "--last", "5", "--json").stdout)["error"]["status"] == 3
    assert_wording(ask("explain", "--last", "5").stderr)


def test_a_decision_under_a_policy_that_is_broken_by_now_is_told_all_the_same(monkeypatch):
    cluster = busy()
    cluster.look()
    stored = cluster.world.table.items["policy"]
    for key, item in stored.items():
        stored[key] = replace(item, text=item.text.replace('"max": 6', '"max": -1'), read=[])
    done = terminal(monkeypatch, cluster)("explain")
    assert done.exit_code == 0
    assert "default: GROW 3 → 5" in done.stdout
    assert_wording(done.stderr)


# ── several ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_last_ones_stand_in_a_table_and_quiet_looks_share_a_line(monkeypatch):
    cluster = busy()
    cluster.look()
    for _ in range(2):  # while the cooldown lasts
        cluster.look()
    page = lines(terminal(monkeypatch, cluster)("explain", "--last", "3").stdout)
    assert_wording(page[1])
    rows = [line for line in page if "default" in line]
    assert len(rows) == 2
    assert_wording(rows[0])
    assert "to 12:06:00, 2 iterations" in " ".join(page)
    assert_wording(rows[1])
    assert "asked EC2 for 1 spot" in rows[1]


def test_json_folds_nothing(monkeypatch):
    cluster = busy()
    for _ in range(3):
        cluster.look()
    found = json.loads(terminal(monkeypatch, cluster)("explain", "--last", "3", "--json").stdout)
    assert [record["at"] for record in found] == [f"2026-11-16T12:0{minute}:00Z" for minute in (6, 4, 2)]


@pytest.mark.parametrize(("since", "number"), [("3m", 2), ("5m", 3), ("1h", 4)])
def test_since_says_how_far_to_look_back(monkeypatch, since, number):
    cluster = busy()
    for _ in range(4):
        cluster.look()
    found = json.loads(terminal(monkeypatch, cluster)("explain", "--since", since, "--json").stdout)
    assert len(found) == number


def test_more_than_a_page_of_decisions_is_read(monkeypatch):
    cluster = shop()
    for _ in range(103):
        cluster.look()
    ask = terminal(monkeypatch, cluster)
    assert len(json.loads(ask("explain", "--since", "7d", "--json").stdout)) == 103
    assert len(json.loads(ask("explain", "--last", "101", "--json").stdout)) == 101


def test_a_time_without_decisions_says_so(monkeypatch):
    cluster = busy()
    cluster.look()
    cluster.world.advance(3600)
    done = terminal(monkeypatch, cluster)("explain", "--since", "30m")
    assert done.exit_code == 3
    assert_wording(done.stderr)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--since", "soon"], "--since: 'soon' is not a duration; write for example 90s, 5m, 2h or 7d"),
        (["--since", "0s"], "--since: 0s is not between a moment and 366 days"),
        (["w1", "--last", "3"], "either a node or --last: one answer at a time"),
    ],
)
def test_what_makes_no_sense_is_refused(monkeypatch, arguments, words):
    done = terminal(monkeypatch, empty())("explain", *arguments)
    assert (done.exit_code, done.stdout, done.stderr.strip()) == (2, "", words)


def test_a_table_that_is_away_is_one_line(monkeypatch):
    cluster = busy()
    cluster.world.away("store")
    done = terminal(monkeypatch, cluster)("explain")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1


# ── a node ───────────────────────────────────────────────────────────────────────────────────────────────────────


def shrinking() -> tuple[Cluster, str]:
    """A drain has begun: on this node."""
    cluster = shop(workers=5, replicas=2, cpu=100)
    for _ in range(20):
        cluster.look()
        for operation in cluster.operations:
            if isinstance(operation, Removal):
                return cluster, operation.node
    raise AssertionError("nobody leaves")


def test_a_node_that_nobody_asks_to_leave_stays(monkeypatch):
    cluster = shop()
    cluster.tick()
    name = cluster.world.ready_nodes()[0].name
    page = lines(terminal(monkeypatch, cluster)("explain", name).stdout)
    assert page[0] == f"{name}: stays (ready)"
    assert_wording(page[1])
    assert_wording(page[2])


def test_what_keeps_a_node_is_told_with_its_reason(monkeypatch):
    cluster, leaving = shrinking()
    names = [node.name for node in cluster.world.ready_nodes() if node.name != leaving]
    ask = terminal(monkeypatch, cluster)
    stories = [json.loads(ask("explain", name, "--json").stdout) for name in names]
    reasons = {story["telling"]["stay"]["reason"] for story in stories}
    assert "outranked" in reasons
    for story in stories:
        page = ask("explain", story["node"]).stdout
        assert f"{story['node']}: stays (ready)" in page
        assert f"[{story['telling']['stay']['reason']}]" in page


def test_a_node_that_leaves_is_told_with_what_is_under_way(monkeypatch):
    cluster, leaving = shrinking()
    page = terminal(monkeypatch, cluster)("explain", leaving).stdout
    assert page.startswith(f"{leaving}: leaves")
    assert_wording(page)
    assert f"cordoned {leaving}" in page


def test_a_machine_s_name_does_as_well_while_something_is_under_way(monkeypatch):
    cluster, leaving = shrinking()
    (removal,) = [each for each in cluster.operations if isinstance(each, Removal)]
    page = terminal(monkeypatch, cluster)("explain", removal.instance).stdout
    assert page.startswith(f"{removal.instance}: leaves")
    assert f"cordoned {leaving}" in page


def test_a_node_that_has_left_is_still_known_for_a_while(monkeypatch):
    cluster, leaving = shrinking()
    cluster.until(lambda: leaving not in cluster.world.kube.nodes)
    cluster.calm(2)
    ask = terminal(monkeypatch, cluster)
    page = ask("explain", leaving).stdout
    assert_wording(page)
    cluster.world.advance(timedelta(hours=3).total_seconds())
    cluster.tick()
    assert ask("explain", leaving).exit_code == 3
    assert ask("explain", leaving, "--since", "6h").exit_code == 0


@pytest.mark.parametrize("part", ["cluster", "cloud"])
def test_a_node_has_not_left_because_nobody_can_be_asked(monkeypatch, part):
    cluster = shop()
    cluster.tick()
    name = cluster.world.ready_nodes()[0].name
    cluster.world.away(part)
    cluster.tick()
    page = terminal(monkeypatch, cluster)("explain", name).stdout
    assert page.startswith(f"{name}: stays (ready)")
    assert_wording(page)


def test_events_that_name_a_node_are_its_story_too(monkeypatch):
    cluster = shop(workers=4)
    cluster.tick()
    doomed = spot_worker(cluster.world)
    name = cluster.world.kube.node_of(doomed).name
    cluster.warned([cluster.world.interrupt(doomed)])
    ask = terminal(monkeypatch, cluster)
    story = json.loads(ask("explain", name, "--json").stdout)
    assert any(event["kind"] == "interrupted" for event in story["events"])
    assert any(done["what"] == f"cordoned {name}" for done in story["done"])
    assert "interrupted: " in ask("explain", name).stdout


def test_an_unknown_node_is_refused_with_those_that_are_known(monkeypatch):
    cluster = shop()
    cluster.tick()
    names = sorted(node.name for node in cluster.world.ready_nodes())
    done = terminal(monkeypatch, cluster)("explain", names[0][:-1])  # a beginning of a name is none
    assert (done.exit_code, done.stdout) == (3, "")
    assert_wording(done.stderr)


def test_without_any_decision_no_node_is_known(monkeypatch):
    done = terminal(monkeypatch, empty())("explain", "w1")
    assert done.exit_code == 3
    assert_wording(done.stderr)


def test_nothing_is_changed_by_asking(monkeypatch):
    cluster, leaving = shrinking()
    ask = terminal(monkeypatch, cluster)
    before = cluster.world.table.size
    for arguments in ([], ["--last", "3"], [leaving]):
        ask("explain", *arguments)
    assert cluster.world.table.size == before
    assert {call.partition(".")[0] for call in ask.connection.log} <= {"store", "history"}
    assert {call for call in ask.connection.log if call.startswith("store")} <= {"store.state"}

"""`nodefleet replay` on a simulated cluster: decided again, by the same code, by changed code and by other policies."""

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from nodefleet.engine.decide import decide
from nodefleet.errors import ChangedError
from nodefleet.model.decision import DecisionRecord
from nodefleet.model.serialization import to_plain
from nodefleet.reconcile.audit import DecisionInput, pack_input, unpack_input
from nodefleet_tools.cli.show_replay import differences
from nodefleet_tools.replaying import by_another
from nodefleet_tools.sim.world import World
from support.sim_connections import SimConnection, Terminal
from support.wording import assert_wording
from support.worlds import Cluster, empty, shop, spot_worker

SMALLER = "limits: {min: 2, max: 4}\n"
LUNCH = "windows: [{name: lunch, cron: '0 12 * * *', lasting: 2h, min: 6}]\nlimits: {min: 2, max: 8}\n"
QUEUE = """\
limits: {min: 2, max: 6}
readings: {orders: {kind: prometheus, query: sum(orders)}}
custom: [{kind: threshold, name: orders, reading: orders}]
"""


@pytest.fixture
def grown() -> Cluster:
    """One iteration that grew the fleet, and some of which nothing came."""
    cluster = shop(workers=3, replicas=12, cpu=900)
    for _ in range(3):
        cluster.look()
    return cluster


@pytest.fixture
def ask(monkeypatch, grown) -> Terminal:
    return Terminal(monkeypatch, SimConnection(grown.world))


def record_of(world: World) -> DecisionRecord:
    return next(record for record in world.table.decisions if record.archived)


def question_of(world: World) -> DecisionInput:
    return unpack_input(world.archive.kept[record_of(world).archived])


def rewrite(world: World, record: DecisionRecord) -> None:
    """Another record in its place."""
    (key,) = [key for key in world.table.items["decision"] if key.endswith(record.id)]
    world.table.put("decision", key, record)


def written(folder: Path, text: str) -> str:
    path = folder / "other.yaml"
    path.write_text(text)
    return str(path)


def refused(done, status: int = 2) -> str:
    assert (done.exit_code, done.stdout) == (status, "")
    assert done.stderr.count("\n") == 1
    return done.stderr


# ── the same ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_newest_decision_that_was_kept_comes_out_the_same(ask):
    done = ask("replay")
    assert done.exit_code == 0
    assert_wording(done.stdout.splitlines()[:3])


@pytest.mark.parametrize("name", ["id", "2026-11-16", "2026-11-16T12", "2026-11-16T12:02", "2026-11-16 12:02:00"])
def test_a_decision_goes_by_its_id_or_its_time(ask, grown, name):
    done = ask("replay", record_of(grown.world).id if name == "id" else name)
    assert done.exit_code == 0
    assert_wording(done.stdout)


def test_everything_that_came_of_a_lively_time_replays(monkeypatch):
    cluster = shop(workers=4, replicas=12, cpu=900)
    cluster.calm(2)
    cluster.warned([cluster.world.interrupt(spot_worker(cluster.world))])
    cluster.calm(8)
    done = Terminal(monkeypatch, SimConnection(cluster.world))("replay", "--last", "200")
    kept = [record for record in cluster.world.table.decisions if record.archived]
    assert len(kept) > 3
    assert done.exit_code == 0
    assert done.stdout.count("the same") == len(kept)


def test_the_last_ones_are_told_a_line_each(ask, grown):
    done = ask("replay", "--last", "5")
    assert record_of(grown.world).id in done.stdout
    assert_wording(done.stdout)


# ── otherwise ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_comes_out_otherwise_is_told_side_by_side(ask, grown):
    """As after a change of the code: here of the policy that was archived with the iteration."""
    world = grown.world
    question = question_of(world)
    (pool,) = question.policy.pools
    smaller = replace(pool, limits=replace(pool.limits, max=4))
    key = record_of(world).archived
    world.archive.kept[key] = pack_input(replace(question, policy=replace(question.policy, pools=(smaller,))))
    done = ask("replay")
    page = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert done.exit_code == 1
    assert_wording(page[1])
    assert "decision GROW 3 → 5 GROW 3 → 4" in page
    assert_wording(page)
    assert_wording(" ".join(page))
    assert ask("replay", "--last", "3").exit_code == 1


def test_a_difference_in_memory_only_is_told_as_such(ask, grown):
    record = record_of(grown.world)
    rewrite(grown.world, replace(record, outcome="0" * 64))
    done = ask("replay")
    assert done.exit_code == 1
    assert_wording(" ".join(done.stdout.split()))


def test_a_record_that_was_cut_is_compared_as_far_as_it_goes(ask, grown):
    """Its outcome covers all of it."""
    record = record_of(grown.world)
    pools = tuple(replace(pool, stays=()) for pool in record.decision.pools)
    rewrite(grown.world, replace(record, cut=True, decision=replace(record.decision, pools=pools)))
    assert ask("replay").exit_code == 0


# ── not at all ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_look_that_nothing_came_of_has_only_figures(ask):
    said = refused(ask("replay", "2026-11-16T12:06"))
    assert_wording(said)


def test_a_quiet_cluster_has_nothing_to_replay(monkeypatch):
    cluster = shop()
    cluster.look()
    quiet = Terminal(monkeypatch, SimConnection(cluster.world))
    assert_wording(refused(quiet("replay"), 3))
    assert_wording(refused(quiet("replay", "--last", "3"), 3))


def test_none_of_the_last_decisions_is_no_question(ask):
    assert ask("replay", "--last", "0").exit_code == 2


def test_a_new_cluster_has_no_decision(monkeypatch):
    done = Terminal(monkeypatch, SimConnection(empty().world))("replay")
    assert_wording(refused(done, 3))


def test_what_the_archive_has_forgotten_is_said(ask):
    def forgotten(key):
        raise ChangedError(f"{key} is not in bucket any more: it is kept for some weeks")

    ask.connection.archive = SimpleNamespace(fetch=forgotten)
    # The name is a digest of compressed bytes, which differ between versions of zlib.
    assert_wording(re.sub("[0-9a-f]{64}", "DIGEST", refused(ask("replay"))))
    assert ask("replay", "--last", "3").exit_code == 2


def test_an_archive_that_is_away_is_no_difference(ask, grown):
    grown.world.away("archive")
    assert_wording(refused(ask("replay")))
    grown.world.away("store")
    assert_wording(refused(ask("replay")))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x1f\x8bnonsense", "what was archived is broken"),
        (b"{", "what was archived is broken"),
        (b'{"observation": {}, "from": "the future"}', "this version does not understand what was archived"),
    ],
)
def test_what_cannot_be_read_is_said(ask, grown, content, words):
    grown.world.archive.kept[record_of(grown.world).archived] = content
    assert words in refused(ask("replay"))


@pytest.mark.parametrize("name", ["yesterday", "2026-11-16T1", "2026-13-40", "2025-01-01", "2026-11-16T12:02:00.5"])
def test_an_unknown_decision_is_refused(ask, name):
    assert_wording(refused(ask("replay", name), 3))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["2026-11-16", "--last", "3"], "name one: a decision's id, --last or --file"),
        (["--last", "3", "--save", "look.json"], "--save takes one decision"),
    ],
)
def test_what_makes_no_sense_is_refused(ask, arguments, words):
    assert words in refused(ask("replay", *arguments))


# ── another policy ───────────────────────────────────────────────────────────────────────────────────────────────


def test_another_policy_s_decision_stands_beside_the_one_of_then(ask, tmp_path):
    done = ask("replay", "--policy", written(tmp_path, SMALLER))
    page = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert done.exit_code == 1
    assert_wording(page[1])
    assert page[page.index("By the policy of then:") + 1] == "default: GROW 3 → 5"
    assert page[page.index("By this policy:") + 1] == "default: GROW 3 → 4"


def test_the_last_ones_by_another_policy_are_told_a_line_each(ask, grown, tmp_path):
    done = ask("replay", "--last", "5", "--policy", written(tmp_path, SMALLER))
    assert done.exit_code == 1
    assert_wording(done.stdout)
    told = json.loads(ask("replay", "--last", "5", "--policy", written(tmp_path, SMALLER), "--json").stdout)
    assert (told[-1]["id"], told[-1]["same"], told[-1]["said"]) == (
        record_of(grown.world).id,
        False,
        "default: GROW 3 → 4",
    )


def test_other_figures_that_come_to_the_same_are_the_same(ask, tmp_path):
    other = written(tmp_path, "limits: {min: 2, max: 6}\nreactive: {cpu: {up: 71}}\n")
    assert ask("replay", "--policy", other).exit_code == 1
    done = ask("replay", "--last", "5", "--policy", other, "--json")
    assert (done.exit_code, {each["same"] for each in json.loads(done.stdout)}) == (0, {True})


def test_a_policy_that_says_the_same_decides_the_same(ask, tmp_path):
    done = ask("replay", "--policy", written(tmp_path, "limits: {min: 2, max: 6}\n"))
    assert done.exit_code == 0
    assert_wording(done.stdout)


def test_another_policy_brings_its_own_windows(ask, grown, tmp_path):
    done = ask("replay", "--policy", written(tmp_path, LUNCH))
    assert "default: GROW 3 → 6" in done.stdout
    question = question_of(grown.world)
    assert by_another(question, question.policy) == question


def test_readings_that_nobody_took_are_named(ask, tmp_path):
    done = ask("replay", "--policy", written(tmp_path, QUEUE))
    assert_wording(done.stdout)


def test_a_bad_policy_is_told_like_anywhere(ask, tmp_path):
    done = ask("replay", "--policy", written(tmp_path, "limits: {max: 0}\n"))
    assert (done.exit_code, done.stdout) == (2, "")
    assert "\n  limits.max: 0\n" in done.stderr


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_saved_question_is_one_that_decide_takes(ask, grown, tmp_path):
    file = tmp_path / "look.json"
    done = ask("replay", "--save", str(file))
    policy = tmp_path / "look.policy.json"
    assert done.exit_code == 0
    assert_wording(done.stderr)
    answer = ask("decide", str(file), "--policy", str(policy), "--json")
    question = question_of(grown.world)
    decision = decide(question.observation, question.memory, question.policy)
    assert json.loads(answer.stdout) == to_plain(decision)


def test_a_file_that_cannot_be_written_is_refused(ask, tmp_path):
    assert_wording(ask("replay", "--save", str(tmp_path)).stderr)


def test_an_archived_file_is_decided_without_a_connection(ask, grown, tmp_path):
    file = tmp_path / "look.json.gz"
    file.write_bytes(grown.world.archive.kept[record_of(grown.world).archived])
    done = ask("replay", "--file", str(file))
    assert (done.exit_code, ask.asked) == (0, [])
    assert "default: GROW 3 → 5" in done.stdout
    assert ask("replay", "--file", str(file), "--policy", written(tmp_path, SMALLER)).exit_code == 1
    plain = tmp_path / "look.json"
    plain.write_text(json.dumps(to_plain(question_of(grown.world))))
    assert ask("replay", "--file", str(plain)).stdout == done.stdout


def test_a_file_of_another_kind_is_refused(ask, tmp_path):
    file = tmp_path / "look.json"
    assert_wording(refused(ask("replay", "--file", str(file))))
    ask("replay", "--save", str(file))
    assert_wording(refused(ask("replay", "--file", str(file))))


# ── differences ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_pool_that_only_one_decision_has_is_all_difference(grown):
    question = question_of(grown.world)
    decision = decide(question.observation, question.memory, question.policy)
    found = differences(decision, replace(decision, pools=()))
    assert {each.pool for each in found} == {"default"}
    assert [each.second for each in found if each.what == "decision"] == [()]


def test_the_same_in_another_order_is_a_difference(grown):
    question = question_of(grown.world)
    decision = decide(question.observation, question.memory, question.policy)
    (pool,) = decision.pools
    turned = replace(decision, pools=(replace(pool, votes=pool.votes[::-1]),))
    (only,) = differences(decision, turned)
    assert_wording((only.what, only.first, only.second))
    assert differences(decision, decision) == ()

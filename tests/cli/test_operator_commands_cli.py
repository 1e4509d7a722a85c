"""`nodefleet pause`, `resume`, `scale` and `commands`, as an operator meets them."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from botocore.exceptions import ClientError

from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Event
from nodefleet.model.snapshot import Adopt, Drain, Pause, Recycle, Scale
from nodefleet_tools.cli import operators
from nodefleet_tools.cli.outcome import Status
from nodefleet_tools.cli.urgent_run import FUNCTION
from nodefleet_tools.sim.world import World
from support.sim_connections import SimConnection, Terminal
from support.wording import assert_wording
from support.worlds import shop

ME = ["--by", "ann"]
SALE = ["--for", "2h", "--reason", "sale at noon", *ME]


@pytest.fixture
def world():
    return shop().world


@pytest.fixture
def terminal(world, monkeypatch):
    return Terminal(monkeypatch, SimConnection(world))


def orders(world: World):
    return world.table.state().commands


def words(done) -> list[str]:
    return [" ".join(line.split()) for line in done.stdout.splitlines()]


# ── pause and resume ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_pause_is_stored_told_and_shown_and_a_run_is_woken(world, terminal):
    done = terminal("pause", "--for", "2h", "--reason", "database migration.", *ME)
    assert done.exit_code == 0
    until = world.now + timedelta(hours=2)
    assert orders(world) == (Pause(by="ann", reason="database migration.", until=until),)
    (event,) = world.table.events
    assert (event.kind.value, event.pool, event.cluster) == ("paused", "", "shop")
    assert_wording(event.text)
    assert world.table.wake == 1
    assert_wording(words(done))


def test_what_was_ordered_is_written_before_anybody_is_woken(terminal):
    terminal("pause", *ME)
    log = terminal.connection.log
    assert log.index("store.order") < log.index("store.wake")


def test_a_pause_without_an_end_lasts_until_it_is_resumed(world, terminal):
    done = terminal("pause", "default", *ME)
    assert orders(world) == (Pause(pool="default", by="ann"),)
    assert_wording(done.stdout)
    assert_wording(world.table.events[0].text)


def test_a_paused_cluster_does_not_scale(world, terminal):
    terminal("pause", *ME)
    world.deploy("sale", replicas=6, cpu=1500)
    world.advance(30)
    done = terminal("run", "--once")
    assert_wording(done.stdout)
    assert len(world.workers()) == 3


DOWN_ONLY = ["--scale-down-only", "--for", "2h", "--reason", "long jobs", *ME]


def test_a_pause_of_the_scale_down_is_stored_told_and_shown(world, terminal):
    done = terminal("pause", *DOWN_ONLY)
    until = world.now + timedelta(hours=2)
    assert orders(world) == (Pause(by="ann", reason="long jobs", until=until, scale_down_only=True),)
    assert_wording(world.table.events[0].text)
    assert_wording(words(done))


def test_a_pause_of_the_scale_down_needs_an_end(world, terminal):
    done = terminal("pause", "--scale-down-only", *ME)
    assert done.exit_code == 2
    assert orders(world) == ()


def test_a_fleet_whose_scale_down_is_paused_grows(world, terminal):
    terminal("pause", *DOWN_ONLY)
    world.deploy("sale", replicas=6, cpu=1500)
    world.advance(30)
    terminal("run", "--once")
    assert len(world.workers()) > 3


def test_a_fleet_whose_scale_down_is_paused_shrinks_only_after_its_end(monkeypatch):
    cluster = shop(workers=5)
    terminal = Terminal(monkeypatch, SimConnection(cluster.world))
    terminal("pause", *DOWN_ONLY)
    cluster.calm(50)  # ticks of two minutes: 100 minutes
    assert len(cluster.world.workers()) == 5
    cluster.calm(40)
    assert len(cluster.world.workers()) < 5
    assert orders(cluster.world) == ()


def test_a_pause_replaces_the_one_before(world, terminal):
    terminal("pause", *DOWN_ONLY)
    terminal("pause", *ME)
    assert orders(world) == (Pause(by="ann"),)


def test_resuming_ends_the_pause_and_tells_who_did(world, terminal):
    terminal("pause", "--reason", "migration", *ME)
    done = terminal("resume", "--by", "bob")
    assert orders(world) == ()
    told = {event.kind.value: event.text for event in world.table.events}
    assert_wording(told["resumed"])
    assert_wording(words(done)[-1])
    assert world.table.wake == 2


def test_resuming_what_is_not_paused_changes_nothing(world, terminal):
    terminal("pause", *ME)
    done = terminal("resume", "default")
    assert done.exit_code == 0
    assert_wording(words(done)[0])
    assert_wording(words(done)[-1])
    assert len(orders(world)) == 1
    assert len(world.table.events) == 1


def test_the_pause_of_one_pool_stays_when_that_of_all_ends(world, terminal):
    terminal("pause", *ME)
    terminal("pause", "default", *ME)
    done = terminal("resume", *ME)
    assert [order.pool for order in orders(world)] == ["default"]
    assert_wording(words(done)[-1])


# ── scale ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_size_is_stored_told_and_kept(world, terminal):
    done = terminal("scale", "default", "5", *SALE)
    assert done.exit_code == 0
    until = world.now + timedelta(hours=2)
    assert orders(world) == (Scale(nodes=5, by="ann", reason="sale at noon", until=until),)
    (event,) = world.table.events
    assert (event.kind.value, event.pool) == ("scaled-by-person", "default")
    assert_wording(event.text)
    assert_wording(words(done)[0])
    assert_wording(words(done)[-1])
    terminal("run", "--once")
    assert len(world.workers()) == 5


def test_a_later_size_takes_the_place_of_the_earlier(world, terminal):
    terminal("scale", "default", "5", *SALE)
    terminal("scale", "default", "4", *SALE)
    assert [order.nodes for order in orders(world)] == [4]


def test_everything_that_a_size_lacks_is_named_at_once(world, terminal):
    done = terminal("scale", "default")
    assert (done.exit_code, done.stdout) == (2, "")
    assert_wording(done.stderr)
    assert orders(world) == ()


@pytest.mark.parametrize(
    ("nodes", "limit"), [("1", "limits.min"), ("7", "limits.max"), ("0", "limits.min"), ("1000", "limits.max")]
)
def test_a_size_outside_of_the_limits_is_refused_with_them(world, terminal, nodes, limit):
    done = terminal("scale", "default", nodes, *SALE)
    assert done.exit_code == 2
    assert_wording(done.stderr)
    assert limit in done.stderr
    assert world.table.events == ()


@pytest.mark.parametrize("nodes", ["2", "6"])
def test_the_limits_themselves_are_fine(terminal, nodes):
    assert terminal("scale", "default", nodes, *SALE).exit_code == 0


def test_cancelling_ends_it(world, terminal):
    terminal("scale", "default", "5", *SALE)
    done = terminal("scale", "default", "--cancel", "--by", "bob")
    assert orders(world) == ()
    assert_wording(words(done)[0])
    texts = [event.text for event in world.table.events]
    assert_wording(texts)


def test_cancelling_what_is_not_there_changes_nothing(world, terminal):
    assert_wording(words(terminal("scale", "default", "--cancel"))[0])
    assert world.table.events == ()


def test_a_size_that_a_pause_or_a_dry_pool_outranks_is_said(world, terminal):
    world.enforce({"limits": {"min": 2, "max": 6}, "dry_run": True})
    terminal("pause", *ME)
    done = terminal("scale", "default", "5", *SALE)
    assert done.exit_code == 0
    assert_wording(done.stderr)


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("command", [["resume", "defalt"], ["scale", "defalt", "--cancel"]])
def test_nothing_ends_for_an_unknown_pool(terminal, command):
    assert terminal(*command).exit_code == Status.REFUSED


@pytest.mark.parametrize("command", [["pause", "defalt"], ["scale", "defalt", "5", *SALE]])
def test_an_unknown_pool_is_refused_with_a_guess(world, terminal, command):
    done = terminal(*command)
    assert done.exit_code == 2
    assert_wording(done.stderr)
    assert orders(world) == ()


@pytest.mark.parametrize(
    ("lasting", "words"),
    [
        ("2", "'2' is not a duration; write for example 90s, 5m, 2h or 7d"),
        ("two hours", "'two hours' is not a duration"),
        ("0s", "0s is not between a moment and 366 days"),
        ("99999999d", "99999999d is not between a moment and 366 days"),
        ("9" * 400 + "d", "is not a duration"),
    ],
)
def test_durations_are_those_of_the_policy(world, terminal, lasting, words):
    done = terminal("pause", "--for", lasting)
    assert done.exit_code == 2
    assert words in done.stderr
    assert orders(world) == ()


def test_a_cluster_that_the_table_does_not_know_is_refused(monkeypatch):
    world = shop().world
    for kind in ("deployment", "policy", "journal"):
        world.table.items[kind].clear()
    terminal = Terminal(monkeypatch, SimConnection(world))
    done = terminal("pause", *ME)
    assert done.exit_code == Status.NOTHING
    assert_wording(done.stderr)
    assert orders(world) == ()
    asked = (("status",), ("nodes",), ("resume",), ("commands",), ("scale", "default", "--cancel"), ("report",))
    for each in asked:
        found = json.loads(terminal(*each, "--json").stdout)["error"]
        assert found["status"] == Status.NOTHING, each
        assert_wording(found["message"])


def test_everything_can_be_paused_even_if_no_policy_is_good(world, terminal):
    world.table.items["policy"].clear()
    good = world.enforce({})
    world.table.items["policy"].clear()
    world.table.put_policy(type(good)(number=9, source="x", at=good.at, data={"limits": {"mx": 1}}, digest="d"))
    assert terminal("pause", "default", *ME).exit_code == 0
    assert terminal("pause", *ME).exit_code == 0
    assert len(orders(world)) == 2


def test_a_table_that_is_away_is_one_message(world, terminal):
    world.away("store", "timed out")
    done = terminal("pause", *ME)
    assert_wording((done.exit_code, done.stdout, done.stderr))


# ── starting a run ───────────────────────────────────────────────────────────────────────────────────────────────


def known_function(world, monkeypatch) -> Terminal:
    return Terminal(monkeypatch, SimConnection(world, environment={FUNCTION: "fleet-reconcile"}))


def test_an_urgent_run_is_started_where_its_function_is_known(world, monkeypatch):
    terminal = known_function(world, monkeypatch)
    done = terminal("pause", *ME)
    (call,) = terminal.connection.session.functions.calls
    assert (call["FunctionName"], call["InvocationType"]) == ("fleet-reconcile", "Event")
    assert json.loads(call["Payload"]) == {"cluster": "shop", "urgent": True}
    assert_wording(done.stdout)


def test_a_run_that_cannot_be_started_does_not_undo_the_order(world, monkeypatch):
    terminal = known_function(world, monkeypatch)
    denied = {"Error": {"Code": "AccessDeniedException", "Message": "no"}}
    terminal.connection.session.functions.error = ClientError(denied, "Invoke")
    done = terminal("pause", *ME)
    assert done.exit_code == 0
    assert_wording(done.stdout)
    assert_wording(done.stderr)
    assert len(orders(world)) == 1


# ── what is in force ─────────────────────────────────────────────────────────────────────────────────────────────


def test_commands_that_have_ended_are_not_in_force(world, terminal):
    terminal("pause", "--for", "90s", *ME)
    terminal("scale", "default", "5", *SALE)
    world.advance(91)
    (order,) = json.loads(terminal("commands", "--json").stdout)
    assert order == {
        "kind": "scale",
        "pool": "default",
        "nodes": 5,
        "at_least": False,
        "origin": "",
        "moved": 0,
        "by": "ann",
        "reason": "sale at noon",
        "until": "2026-11-16T14:00:00Z",
    }
    assert_wording(words(terminal("commands"))[1])


# ── operators ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_who_gives_an_order_is_user_and_host(monkeypatch):
    monkeypatch.setattr("getpass.getuser", lambda: "ann")
    monkeypatch.setattr("socket.gethostname", lambda: "laptop")
    assert operators.someone() == "ann@laptop"
    assert operators.someone(" bob ") == "bob"


def test_a_container_without_users_has_a_number(monkeypatch):
    def unknown() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr("getpass.getuser", unknown)
    monkeypatch.setattr("socket.gethostname", lambda: "")
    assert_wording(operators.someone())


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0 s"), (-5, "0 s"), (45, "45 s"), (120, "2 min"), (9000, "2 h 30 min"), (90061, "1 d 1 h"), (59.6, "1 min")],
)
def test_spans_are_said_in_two_units(seconds, said):
    assert operators.worded_span(timedelta(seconds=seconds)) == said


# ── workers that no pool owns ────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def batch(world):
    return [machine.id for machine in world.add_workers(2, pool="batch")]


def test_workers_are_handed_to_a_pool_by_name(world, terminal, batch):
    done = terminal("adopt", "--pool", "default", *batch, "--reason", "renamed", *ME)
    assert done.exit_code == 0
    until = world.now + timedelta(days=1)
    assert orders(world) == tuple(
        Adopt(instance=each, pool="default", at=world.now, by="ann", reason="renamed", until=until) for each in batch
    )
    assert {(event.kind.value, event.pool) for event in world.table.events} == {("handed-over", "default")}
    assert_wording(words(done)[-1])


def test_all_that_no_pool_owns_are_drained(world, terminal, batch):
    done = terminal("drain", "--all", "--for", "2h", "--yes", *ME)
    assert done.exit_code == 0
    until = world.now + timedelta(hours=2)
    assert orders(world) == tuple(Drain(instance=each, at=world.now, by="ann", until=until) for each in batch)
    assert words(done)[-1] == f"drain {batch[1]} 2026-11-16 14:00 UTC 2 h ann"


def test_without_any_there_is_nothing_to_do(world, terminal):
    assert_wording(terminal("drain", "--all").stdout)
    assert orders(world) == ()


@pytest.mark.parametrize("named", [[], ["i-1", "--all"], ["i-unknown"], ["OWNED"]])
def test_nothing_else_is_handed_over(world, terminal, batch, named):
    owned = world.workers()[0].id
    done = terminal("adopt", "--pool", "default", *[owned if each == "OWNED" else each for each in named])
    assert done.exit_code != 0
    assert orders(world) == ()


@pytest.mark.parametrize("named", [[], ["i-1", "--all"], ["i-unknown"], ["no-such-node"]])
def test_nothing_else_is_drained(world, terminal, named):
    status = Status.NOTHING if named in (["i-unknown"], ["no-such-node"]) else Status.REFUSED
    done = terminal("drain", *named, "--yes")
    assert (done.exit_code, orders(world)) == (status, ())
    assert_wording(done.stderr)


def test_a_worker_of_a_pool_is_drained_as_one_of_that_pool(world, terminal, batch):
    owned = world.workers()[0].id
    done = terminal("drain", owned, batch[0], owned, "--reason", "noisy disk.", "--yes", *ME)
    assert done.exit_code == 0
    asked = {"at": world.now, "by": "ann", "reason": "noisy disk.", "until": world.now + timedelta(days=1)}
    assert set(orders(world)) == {
        Drain(instance=owned, pool="default", **asked),
        Drain(instance=batch[0], pool="", **asked),
    }
    told = {event.kind.value: event for event in world.table.events}
    assert {kind: event.pool for kind, event in told.items()} == {"drained": "default", "handed-over": ""}
    assert_wording([told["drained"].text, words(done)[0], done.stderr])


def test_all_drains_no_worker_of_a_pool(world, terminal, batch):
    terminal("drain", "--all", "--yes", *ME)
    assert {(each.instance, each.pool) for each in orders(world)} == {(each, "") for each in batch}


@pytest.mark.parametrize("command", ["drain", "recycle"])
def test_a_command_for_a_worker_is_withdrawn(world, terminal, command):
    first, second = (machine.id for machine in world.workers()[:2])
    terminal(command, first, second, "--yes", *ME)
    done = terminal(command, first, "--cancel", *ME)
    assert [order.instance for order in orders(world)] == [second]
    assert_wording([words(done)[0], max(world.table.events, key=lambda event: "withdrew" in event.text).text])
    assert_wording(words(terminal(command, first, "--cancel", *ME))[0])
    assert terminal(command, "--cancel", *ME).exit_code == 2


def test_a_worker_that_the_pool_can_spare_leaves_and_none_takes_its_place():
    cluster = shop(workers=4, replicas=6, cpu=300, limits={"min": 2, "max": 6})
    gone = cluster.world.workers()[-1].id
    with pytest.MonkeyPatch.context() as patched:
        Terminal(patched, SimConnection(cluster.world))("drain", gone, "--yes", *ME)
    sizes = []
    for _ in range(4):
        cluster.tick()
        sizes.append(len(cluster.world.ec2.live_workers()))
    assert gone not in [machine.id for machine in cluster.world.ec2.live_workers()]
    assert set(sizes) <= {4, 3}
    assert sizes[-1] == 3
    cluster.calm(32)  # EC2 shows for an hour that it ended
    assert orders(cluster.world) == ()
    assert cluster.world.guard.violations == []


def test_at_min_a_new_worker_comes_before_the_drained_one_leaves():
    cluster = shop(workers=3, replicas=6, cpu=600, limits={"min": 3, "max": 6})
    gone = cluster.world.workers()[0].id
    with pytest.MonkeyPatch.context() as patched:
        Terminal(patched, SimConnection(cluster.world))("drain", gone, "--yes", *ME)
    sizes = set()
    for _ in range(10):
        cluster.tick()
        sizes.add(len(cluster.world.ec2.live_workers()))
    ids = [machine.id for machine in cluster.world.ec2.live_workers()]
    assert gone not in ids
    assert (len(ids), sizes) == (3, {3, 4})
    assert cluster.world.guard.violations == []


def test_a_drain_of_an_unowned_worker_is_void_once_a_pool_has_it():
    """An approval in Slack, or a command, that comes after the worker was adopted."""
    cluster = shop(workers=3, replicas=6, cpu=300, limits={"min": 2, "max": 6})
    late = cluster.world.workers()[-1].id
    now = cluster.world.now
    order = Drain(instance=late, at=now, by="Slack user U1", until=now + timedelta(hours=4))
    told = Event(id="approval", at=now, cluster=cluster.world.name, kind=AlertKind.HANDED_OVER, text="approved")
    cluster.world.parts("notify").store.order(order, told)
    for _ in range(4):
        cluster.tick()
    assert late in [machine.id for machine in cluster.world.ec2.live_workers()]
    assert orders(cluster.world) == ()


def test_a_pool_that_is_not_there_gets_nobody(world, terminal, batch):
    assert terminal("adopt", "--pool", "nowhere", "--all").exit_code != 0
    assert orders(world) == ()


def test_a_dry_pool_is_warned_of(world, terminal, batch):
    world.enforce({"pools": [{"name": "default", "dry_run": True, "limits": {"min": 2, "max": 6}}]})
    assert_wording(terminal("adopt", "--pool", "default", "--all").stderr)


def test_without_a_policy_that_can_be_followed_nothing_is_drained(world, terminal, batch):
    newest = world.table.policies[-1]
    world.table.put_policy(replace(newest, number=newest.number + 1, data={"from_the_future": 1}))
    assert terminal("drain", "--all").exit_code != 0
    assert orders(world) == ()


# ── new workers in the place of old ones ─────────────────────────────────────────────────────────────────────────


def test_workers_are_recycled_and_it_is_told_of_their_pool(world, terminal):
    first, second = (machine.id for machine in world.workers()[:2])
    done = terminal("recycle", first, second, first, "--reason", "new kernel.", "--yes", *ME)
    assert done.exit_code == 0
    until = world.now + timedelta(days=1)
    assert orders(world) == tuple(
        Recycle(instance=each, at=world.now, by="ann", reason="new kernel.", until=until) for each in (first, second)
    )
    told = sorted(world.table.events, key=lambda event: event.text)
    assert [(event.kind.value, event.pool) for event in told] == [("recycled", "default")] * 2
    assert_wording(told[0].text)
    assert_wording(words(done)[0])
    assert_wording(words(done)[-1])


def test_a_worker_may_be_named_by_its_node(world, terminal):
    """`nodefleet nodes` lists names of nodes."""
    node = next(each for each in terminal.connection.cluster.nodes() if not each.control_plane)
    assert terminal("recycle", node.name, "--yes", *ME).exit_code == 0
    assert [order.instance for order in orders(world)] == [node.instance]


def test_an_id_that_no_worker_has_is_refused_without_asking_kubernetes(world, terminal):
    world.away("cluster")
    done = terminal("recycle", "i-gone", "--yes", *ME)
    assert done.exit_code == Status.NOTHING
    assert_wording(done.stderr)


def test_a_pool_without_workers_has_nothing_to_recycle(terminal, world):
    for worker in world.workers():
        world.operator.terminate(worker.id)
    done = terminal("recycle", "--pool", "default", "--yes", *ME)
    assert done.exit_code == 0
    assert_wording(words(done)[0])
    assert orders(world) == ()


def test_all_workers_of_a_pool_are_recycled(world, terminal, batch):
    assert terminal("recycle", "--pool", "default", "--yes", *ME).exit_code == 0
    assert {each.instance for each in orders(world)} == {each.id for each in world.workers()} - set(batch)


@pytest.mark.parametrize(
    "named", [[], ["i-unknown"], ["UNOWNED"], ["--pool", "nowhere"], ["OWNED", "--pool", "default"]]
)
def test_nothing_else_is_recycled(world, terminal, batch, named):
    ids = {"UNOWNED": batch[0], "OWNED": world.workers()[0].id}
    done = terminal("recycle", *[ids.get(each, each) for each in named])
    assert done.exit_code != 0
    assert orders(world) == ()


def test_a_worker_that_was_recycled_is_gone_and_a_new_one_is_there():
    cluster = shop(workers=3, replicas=6, cpu=600, limits={"min": 3, "max": 6})
    old = cluster.world.workers()[0].id
    with pytest.MonkeyPatch.context() as patched:
        Terminal(patched, SimConnection(cluster.world))("recycle", old, "--yes", *ME)
    sizes = set()
    for _ in range(10):
        cluster.tick()
        sizes.add(len(cluster.world.ec2.live_workers()))
    ids = [machine.id for machine in cluster.world.ec2.live_workers()]
    assert old not in ids
    assert (len(ids), sizes) == (3, {3, 4})
    cluster.calm(32)  # EC2 shows for an hour that it ended
    assert orders(cluster.world) == ()
    assert cluster.world.guard.violations == []


# ── for programs, and for those who change their mind ────────────────────────────────────────────────────────────


def test_a_command_answers_json_with_the_commands_in_force(world, terminal):
    answer = json.loads(terminal("pause", "--for", "2h", "--json", *ME).stdout)
    assert_wording(answer["message"])
    assert [each["kind"] for each in answer["commands"]] == ["pause"]


@pytest.mark.parametrize("command", ["drain", "recycle"])
def test_a_destructive_command_without_a_terminal_needs_yes(world, terminal, batch, command):
    named = batch[0] if command == "drain" else world.workers()[0].id
    done = terminal(command, named, *ME)
    assert (done.exit_code, orders(world)) == (2, ())
    assert "--yes" in done.stderr
    assert terminal(command, named, "--yes", *ME).exit_code == 0

"""`nodefleet run`, as an operator and a program meet it."""

import json
import os
import signal
from datetime import timedelta

import pytest

from nodefleet.errors import UnavailableError
from nodefleet.model.snapshot import Deployment, LaunchTarget
from nodefleet_tools.cli.operators import someone
from nodefleet_tools.cli.outcome import Status
from nodefleet_tools.sim.hooks import Hook, Moment, raising, when
from support.sim_connections import SimConnection, Terminal
from support.wording import assert_wording
from support.worlds import Cluster, empty, shop

METRICS = {"PROMETHEUS_URL": "http://prometheus:9090"}


@pytest.fixture
def terminal(monkeypatch):
    def at(cluster: Cluster, *hooks: Hook, **options) -> Terminal:
        options = {"environment": METRICS} | options
        return Terminal(monkeypatch, SimConnection(cluster.world, hooks=hooks, **options))

    return at


def crowded() -> Cluster:
    cluster = shop()
    cluster.world.deploy("sale", replicas=6, cpu=1500)
    cluster.world.advance(30)
    return cluster


def objects(done) -> list[dict]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def interrupt(number: signal.Signals = signal.SIGINT) -> None:
    os.kill(os.getpid(), number)


def test_a_cluster_that_the_table_does_not_know_gets_no_records(terminal):
    """A mistyped name would otherwise become a cluster of its own."""
    cluster = empty()
    for kind in ("deployment", "policy", "journal"):
        cluster.world.table.items[kind].clear()
    done = terminal(cluster)("run", "--once", "--json")
    assert (done.exit_code, cluster.world.table.lease) == (Status.NOTHING, None)


@pytest.mark.parametrize("heartbeat", ["away/heartbeat", "."])
def test_a_heartbeat_that_cannot_be_written_is_refused_before_the_first_run(terminal, tmp_path, heartbeat):
    cluster = shop()
    done = terminal(cluster)("run", "--loop", "--heartbeat", str(tmp_path / heartbeat))
    assert (done.exit_code, cluster.world.table.lease) == (Status.REFUSED, None)


# ── one run ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_quiet_run_is_one_block_with_what_was_decided_and_why(terminal):
    done = terminal(shop())("run", "--once")
    assert done.exit_code == 0
    assert_wording(done.stdout.splitlines())
    assert_wording(done.stderr)


def test_a_run_acts_says_what_it_did_and_lets_go_of_the_lease(terminal):
    cluster = crowded()
    done = terminal(cluster)("run", "--once")
    assert done.exit_code == 0
    assert "default: GROW 3 → 4\n" in done.stdout
    assert_wording(done.stdout)
    assert len(cluster.world.workers()) == 4
    assert cluster.world.table.lease is None
    assert cluster.world.violations == []


def test_the_lease_says_who_has_it(terminal):
    cluster = shop()
    owners = []
    note = when("store.commit", Moment.BEFORE, lambda: owners.append(cluster.world.table.lease.owner))
    terminal(cluster, note)("run", "--once")
    assert owners[0].startswith(f"{someone()}#")


def test_each_look_is_one_json_object(terminal):
    cluster = crowded()
    done = terminal(cluster)("run", "--once", "--json")
    looks = objects(done)
    assert [look["look"] for look in looks] == list(range(1, len(looks) + 1))
    first = looks[0]
    assert (first["kind"], first["cluster"], first["level"], first["dry"]) == ("look", "shop", "normal", False)
    assert first["decision"]["pools"][0]["action"] == "grow"
    assert_wording(first["did"])
    assert first["archived"] in cluster.world.archive.kept
    assert first["figures"]["unschedulable_pods"] == 4
    assert first["look_again"]


def test_a_run_that_finds_another_one_at_work_says_so_and_is_no_failure(terminal):
    cluster = shop()
    now = cluster.world.now
    parts = cluster.world.parts("other", limit=timedelta(hours=1))
    parts.store.acquire("other", now, now + timedelta(minutes=5), timedelta(seconds=5))
    at = terminal(cluster)
    done = at("run", "--once")
    assert (done.exit_code, done.stdout) == (0, "")
    assert_wording(done.stderr)
    (held,) = objects(at("run", "--once", "--json"))
    assert (held["kind"], held["by"], held["until"]) == ("held", "other", "2026-11-16T12:05:00Z")


def test_what_the_world_refuses_is_one_message_and_status_1(terminal):
    cluster = shop()
    cluster.world.away("store", "timed out")
    done = terminal(cluster)("run", "--once")
    assert (done.exit_code, done.stdout) == (1, "")
    assert_wording(done.stderr)


def test_a_failure_is_an_object_for_machines(terminal):
    fails = when("store.commit", Moment.BEFORE, raising(UnavailableError("DynamoDB", "timed out")))
    done = terminal(shop(), fails)("run", "--once", "--json")
    assert done.exit_code == 1
    (error,) = objects(done)
    assert_wording((error["kind"], error["error"], error["type"]))


def test_a_failure_in_the_middle_lets_go_of_the_lease(terminal):
    cluster = shop()
    fails = when("store.commit", Moment.BEFORE, raising(UnavailableError("DynamoDB", "timed out")))
    done = terminal(cluster, fails)("run", "--once")
    assert done.exit_code == 1
    assert_wording(done.stderr)
    assert cluster.world.table.lease is None


def test_steps_that_fail_are_counted(terminal):
    cluster = empty()
    denied = when("cloud.launch", Moment.BEFORE, raising(UnavailableError("EC2", "timed out")), times=9)
    done = terminal(cluster, denied)("run", "--once")
    assert_wording([line for line in done.stdout.splitlines() if "failed" in line])
    assert_wording(done.stderr)


# ── how it is asked ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give --once for one run, or --loop for one every two minutes\n"),
        (["--once", "--loop"], "give --once for one run, or --loop for one every two minutes\n"),
        (["--once", "--interval", "60s"], "--interval goes with --loop\n"),
    ],
)
def test_one_of_once_and_loop_must_be_given(terminal, arguments, message):
    done = terminal(shop())("run", *arguments)
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", message)


@pytest.mark.parametrize(
    ("interval", "words"),
    [
        ("soon", "--interval: 'soon' is not a duration; write for example 90s, 5m, 2h or 7d"),
        ("0s", "--interval: 0s is not between a moment and 366 days"),
        ("9s", "9 s is not between 10 s (burst.every) and 4 min (trust.gap × interval)"),
        ("241s", "4 min 1 s is not between"),
    ],
)
def test_an_interval_that_cannot_work_is_refused(terminal, interval, words):
    done = terminal(shop())("run", "--loop", "--interval", interval)
    assert done.exit_code == 2
    assert words in done.stderr


@pytest.mark.parametrize(("ahead", "words"), [(6, "6 s behind AWS's"), (-7, "7 s ahead of AWS's")])
def test_a_wrong_clock_is_refused(terminal, ahead, words):
    at = terminal(shop())
    at.connection.session.ahead = timedelta(seconds=ahead)
    done = at("run", "--once")
    assert (done.exit_code, done.stdout) == (1, "")
    assert_wording(done.stderr)
    assert "store.acquire" not in at.connection.log


def test_a_clock_within_what_is_allowed_is_not(terminal):
    at = terminal(shop())
    at.connection.session.ahead = timedelta(seconds=5)
    assert at("run", "--once").exit_code == 0


def test_the_options_reach_the_connection(terminal, monkeypatch):
    monkeypatch.setenv("NODEFLEET_BUCKET", "kept")
    at = terminal(shop())
    at("run", "--once", "--cluster", "shop", "--table", "state")
    at("run", "--once", "--dry-run")
    first, second = at.asked
    assert (first["cluster"], first["table"], first["bucket"], first["needs_table"]) == ("shop", "state", "kept", True)
    assert second["needs_table"] is False


def test_what_is_missing_for_acting_is_said_before(terminal, tmp_path):
    cluster = shop()
    cluster.world.table.put("deployment", "", Deployment(cluster="shop"))
    done = terminal(cluster, environment={"KUBECONFIG": "/somewhere"})("run", "--once")
    assert_wording(done.stderr)


def test_secrets_are_not_shown(terminal):
    cluster = shop()
    hint = UnavailableError("Kubernetes", "Authorization: Bearer abcdefghijklmnopqrstuvwxyz")
    at = terminal(cluster, when("cluster.view", Moment.BEFORE, raising(hint)))
    done = at("run", "--once")
    shown = at("run", "--once", "--json").stdout + done.stdout + done.stderr
    assert "Bearer ***" in shown
    assert "abcdefghijklmnop" not in shown


# ── policy and deployment from files ─────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def file(tmp_path):
    def write(content: str, name: str) -> str:
        path = tmp_path / name
        path.write_text(content)
        return str(path)

    return write


def test_a_policy_file_rules_this_process_and_is_not_stored(terminal, file):
    cluster = shop()
    cluster.world.declare({"limits": {"min": 6, "max": 8}})
    path = file("limits: {min: 4, max: 9}", "p.yaml")
    done = terminal(cluster)("run", "--once", "--policy", path, "--json")
    assert objects(done)[0]["decision"]["pools"][0]["target"] == 4
    assert_wording(done.stderr)
    assert len(cluster.world.workers()) == 4
    assert [version.number for version in cluster.world.table.policies] == [1]
    assert cluster.world.table.state().journal.adopted_policy == ""


def test_a_policy_file_is_checked_before_anything_is_reached(terminal, file):
    at = terminal(shop())
    done = at("run", "--once", "--policy", file("limits: {mx: 4}\nsteps: {up: 0}", "p.yaml"))
    assert done.exit_code == 2
    assert "2 problems" in done.stderr
    assert at.connection.log == []


def test_a_deployment_file_says_where_to_launch(terminal, file):
    cluster = empty()
    subnets = {zone: f"subnet-{zone}" for zone in cluster.world.zones}
    cluster.world.table.drop("deployment", "")
    path = file(
        json.dumps({"targets": [{"template": "lt-default", "template_version": "1", "subnets": subnets}]}), "d.json"
    )
    target = LaunchTarget(template="lt-default", template_version="1", subnets=subnets)
    deployment = Deployment(cluster="shop", targets=(target,))
    at = terminal(cluster, deployment=deployment)
    done = at("run", "--once", "--deployment", path, "--cluster", "shop")
    assert done.exit_code == 0
    assert at.asked[0]["deployment"] == deployment
    assert len(cluster.world.workers()) == 2
    assert cluster.world.table.state().deployment is None


def test_a_wrong_deployment_file_is_told_problem_by_problem(terminal, file):
    at = terminal(shop())
    done = at("run", "--once", "--deployment", file("targets: [{template: lt-1}]", "d.yaml"), "--cluster", "shop")
    assert done.exit_code == 2
    assert "targets[0].subnets" in done.stderr
    assert at.connection.log == []


# ── dry ──────────────────────────────────────────────────────────────────────────────────────────────────────────

READS = {"store.state", "cloud.instances", "cloud.catalog", "cluster.view", "gauges.read"}


def test_a_dry_run_says_what_it_would_do_and_does_nothing(terminal):
    cluster = crowded()
    at = terminal(cluster)
    done = at("run", "--once", "--dry-run")
    assert_wording(done.stdout)
    assert_wording(done.stderr)
    assert set(at.connection.log) == READS
    assert cluster.world.table.decisions == ()


def test_a_dry_loop_has_its_cooldowns_and_changes_nothing(terminal):
    cluster = crowded()
    at = terminal(cluster, count_runs(6))
    done = at("run", "--loop", "--dry-run", "--json")
    actions = [look["decision"]["pools"][0]["action"] for look in objects(done)]
    assert actions[0] == "grow"
    assert actions.count("grow") == 2  # and again when the cooldown is over
    assert all(look["dry"] and "archived" not in look for look in objects(done))
    assert set(at.connection.log) == READS


def test_a_dry_run_needs_no_table(terminal, file):
    cluster = empty()
    at = terminal(cluster, table="")
    done = at("run", "--once", "--dry-run", "--policy", file("limits: {min: 3}", "p.yaml"))
    assert done.exit_code == 0
    assert_wording(done.stderr)
    assert_wording(done.stdout)
    assert set(at.connection.log) == READS - {"store.state"}


# ── again and again ──────────────────────────────────────────────────────────────────────────────────────────────


def count_runs(number: int, number_of: str = "gauges.read") -> Hook:
    """Somebody presses Ctrl-C in the middle of this iteration."""
    left = [number]

    def hook(call) -> None:
        if call.name == number_of and call.moment is Moment.BEFORE:
            left[0] -= 1
            if left[0] == 0:
                interrupt()

    return hook


def test_a_loop_runs_by_the_wall_clock_until_it_is_stopped(terminal):
    cluster = shop()
    done = terminal(cluster, count_runs(3))("run", "--loop", "--json")
    assert done.exit_code == 0
    assert [look["at"] for look in objects(done)] == [f"2026-11-16T12:0{minute}:00Z" for minute in (0, 2, 4)]
    assert_wording(done.stderr)
    assert cluster.world.table.lease is None


def test_the_interval_can_be_another(terminal):
    done = terminal(shop(), count_runs(3))("run", "--loop", "--interval", "45s", "--json")
    assert [look["at"][14:19] for look in objects(done)] == ["00:00", "00:45", "01:30"]


def test_a_run_that_takes_long_lets_the_next_tick_out(terminal):
    cluster = shop()
    slow = when("gauges.read", Moment.AFTER, lambda: cluster.world.advance(50))
    done = terminal(cluster, slow, count_runs(2))("run", "--loop", "--interval", "45s", "--json")
    assert [look["at"][14:19] for look in objects(done)] == ["00:00", "01:30"]


def test_a_failed_run_is_said_and_the_next_one_comes(terminal):
    cluster = shop()
    fails = when("store.commit", Moment.BEFORE, raising(UnavailableError("DynamoDB", "timed out")), times=2)
    done = terminal(cluster, fails, count_runs(4))("run", "--loop", "--json")
    assert [each["kind"] for each in objects(done)] == ["error", "error", "look", "look"]
    assert_wording(objects(done)[0]["error"])
    assert_wording(done.stderr)
    assert "Traceback" not in done.stderr
    assert done.exit_code == 0


def test_a_fault_of_ours_is_survived_with_its_traceback(terminal):
    fails = when("cluster.view", Moment.BEFORE, raising(ZeroDivisionError("password=sesame")))
    done = terminal(shop(), fails, count_runs(2))("run", "--loop")
    assert "Traceback" in done.stderr
    assert "sesame" not in done.stderr
    assert "2 runs, 1 failed" in done.stderr


def test_a_loop_whose_last_run_failed_ends_with_status_1(terminal):
    cluster = shop()

    def stopped() -> None:
        interrupt()
        raise UnavailableError("DynamoDB", "timed out")

    done = terminal(cluster, when("store.commit", Moment.BEFORE, stopped))("run", "--loop")
    assert done.exit_code == 1
    assert "1 run, 1 failed" in done.stderr


def test_runs_that_found_another_one_at_work_are_counted(terminal):
    cluster = shop()
    now = cluster.world.now
    parts = cluster.world.parts("other", limit=timedelta(hours=1))
    parts.store.acquire("other", now, now + timedelta(seconds=60), timedelta(seconds=5))
    done = terminal(cluster, count_runs(1))("run", "--loop")
    assert_wording(done.stderr)


def test_a_clock_that_goes_wrong_fails_the_run_and_not_the_loop(terminal):
    cluster = shop()
    at = terminal(cluster, count_runs(2))
    session = at.connection.session
    cluster.world.clock.after(60, lambda: setattr(session, "ahead", timedelta(minutes=1)))
    cluster.world.clock.after(200, lambda: setattr(session, "ahead", None))
    done = at("run", "--loop")
    assert_wording(done.stderr)
    assert "3 runs, 1 failed" in done.stderr


def test_a_clock_that_was_set_right_is_noticed(terminal):
    """How far it is off is known from AWS's answers, so AWS must be asked again."""
    cluster = shop()
    session = []
    mended = when("cloud.instances", Moment.AFTER, lambda: setattr(session[0], "ahead", timedelta(0)))
    at = terminal(cluster, mended)
    session.append(at.connection.session)
    at.connection.session.ahead = timedelta(minutes=1)
    assert at("run", "--once").exit_code == 0


def test_a_loop_looks_at_the_deployment_anew_each_hour(terminal):
    at = terminal(shop(workers=2, replicas=1), count_runs(62))
    at("run", "--loop")
    assert at.connection.forgotten == 2


def test_a_clock_that_is_set_back_does_not_stop_the_loop(terminal, monkeypatch):
    cluster = shop()
    at = terminal(cluster, count_runs(3))
    connection = at.connection
    back = [timedelta(0)]
    connection.clock = lambda: cluster.world.now - back[0]
    cluster.world.clock.after(60, lambda: back.__setitem__(0, timedelta(hours=5)))
    assert at("run", "--loop").exit_code == 0
    assert cluster.world.now - cluster.began < timedelta(minutes=10)


# ── stopping ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_a_burst_ends_it_after_the_look_with_the_lease_let_go(terminal, number):
    cluster = crowded()
    at = terminal(cluster, when("cloud.launch", Moment.AFTER, lambda: interrupt(number)))
    done = at("run", "--loop", "--json")
    (look,) = objects(done)
    assert look["did"]
    assert look["look_again"]
    assert cluster.world.table.lease is None
    assert_wording(done.stderr)
    assert done.exit_code == 0


def test_a_single_run_ends_after_its_look_too(terminal):
    cluster = crowded()
    done = terminal(cluster, when("cloud.launch", Moment.AFTER, interrupt))("run", "--once", "--json")
    assert len(objects(done)) == 1
    assert done.exit_code == 0
    assert_wording(done.stderr)
    assert cluster.world.table.lease is None


def test_a_signal_between_two_runs_ends_it_at_once(terminal):
    cluster = shop()
    cluster.world.clock.after(30, interrupt)
    done = terminal(cluster)("run", "--loop", "--json")
    assert len(objects(done)) == 1
    assert cluster.world.now - cluster.began < timedelta(seconds=32)
    assert "1 run, 0 failed" in done.stderr


def test_a_second_signal_ends_it_in_the_middle_of_a_look_and_lets_go_all_the_same(terminal):
    cluster = shop()

    def twice() -> None:
        interrupt()
        interrupt()

    done = terminal(cluster, when("cluster.view", Moment.BEFORE, twice))("run", "--loop")
    assert done.exit_code not in (0, 2)
    assert done.stdout == ""
    assert cluster.world.table.lease is None


def test_signals_mean_what_they_did_before_once_it_is_over(terminal):
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    terminal(shop(), count_runs(1))("run", "--loop")
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_a_wake_while_it_is_stopped_is_looked_at(terminal):
    """Whoever woke it found the lease held and left: it looks once more before it lets go."""
    cluster = shop()

    def woken_and_stopped() -> None:
        cluster.world.parts("urgent").store.wake()
        interrupt()

    at = terminal(cluster, when("store.commit", Moment.AFTER, woken_and_stopped))
    done = at("run", "--loop", "--json")
    assert [look["look"] for look in objects(done)] == [1, 2]

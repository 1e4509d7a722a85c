"""One iteration: what is written, what is told, and what a dry pool and a policy change."""

from datetime import timedelta

import pytest

from nodefleet import phases
from nodefleet.engine import decide as decide_module
from nodefleet.engine.decide import decide
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import ActionKind, Event
from nodefleet.model.names import Metric
from nodefleet.model.operations import RefusalKind
from nodefleet.model.snapshot import Pause, Scale
from nodefleet.reconcile import run
from nodefleet.reconcile.audit import outcome, unpack_input
from nodefleet_tools.sim.hooks import Call, Moment
from support.wording import assert_wording
from support.worlds import Cluster, empty, shop


def kinds(cluster: Cluster) -> list[AlertKind]:
    return [event.kind for event in sorted(cluster.world.table.events, key=lambda event: event.at)]


def journal(cluster: Cluster):
    return cluster.world.parts("reader").store.state().journal


# ── the record ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_archived_decision_is_decided_the_same_again():
    cluster = empty()
    cluster.calm(2)
    cluster.world.deploy("sale", replicas=6, cpu=900)
    cluster.calm(8)
    archived = [record for record in cluster.world.table.decisions if record.archived]
    assert len(archived) >= 2
    for record in archived:
        question = unpack_input(cluster.world.archive.kept[record.archived])
        again = decide(question.observation, question.memory, question.policy)
        assert outcome(again) == record.outcome, record.did


def test_figures_bill_and_fleet_are_computed_once_an_iteration_though_operations_change_within(monkeypatch):
    calls: list[str] = []

    def count(module, name):
        original = getattr(module, name)

        def counted(*arguments):
            calls.append(name)
            return original(*arguments)

        monkeypatch.setattr(module, name, counted)

    for name in ("figures", "bill", "derive_workers", "rederive_workers"):
        count(run, name)
    for module in (decide_module, phases):
        count(module, "derive_workers")
    cluster = empty()
    cluster.world.deploy("sale", replicas=6, cpu=900)
    iterations = sum(ran.iterations for _ in range(3) if (ran := cluster.tick()))
    assert iterations > 3
    assert {calls.count(name) for name in ("figures", "bill", "derive_workers")} == {iterations}
    assert calls.count("rederive_workers") > 3


def test_the_plan_is_written_before_its_first_step():
    cluster = empty()
    seen: list[tuple[int, int]] = []

    def before_launch(call: Call) -> None:
        if call.name == "cloud.launch" and call.moment is Moment.BEFORE:
            seen.append((len(cluster.world.table.decisions), len(cluster.operations)))

    cluster.tick(before_launch)
    assert seen[0] == (1, 2)


def test_what_was_done_stands_in_the_record():
    cluster = empty()
    cluster.look()
    (record,) = cluster.world.table.decisions
    assert [(action.kind, action.asked) for action in record.actions] == 2 * [(ActionKind.LAUNCH, 1)]


def test_the_seeds_attributes_are_kept():
    cluster = shop(workers=3, replicas=4, cpu=200)
    cluster.calm(6)
    seed = cluster.world.table.seed
    assert seed["last_scale_action"] == "scale_down"
    assert seed["last_scale_time"].startswith("2026-11-16T12:1")
    assert seed["node_count"] == 2


def test_a_scale_up_is_told_with_its_figures():
    cluster = shop(workers=2, replicas=2)
    cluster.calm(1)
    cluster.world.deploy("sale", replicas=6, cpu=900)
    cluster.look()
    (event,) = [event for event in cluster.world.table.events if event.kind is AlertKind.SCALE_UP]
    assert (event.change, event.nodes) == (1, 3)
    assert event.usd_per_day > 0
    assert_wording(event.text)
    assert any(vote.startswith("pods:") for vote in event.details)


def test_a_decision_to_do_nothing_tells_nothing():
    cluster = shop(workers=3, replicas=6, cpu=600)
    cluster.calm(10)
    assert kinds(cluster) == []


def test_what_is_so_on_every_look_is_told_once():
    cluster = shop(workers=2, replicas=2, limits={"min": 2, "max": 2})
    cluster.world.deploy("sale", replicas=6, cpu=1500)
    cluster.calm(8)
    assert kinds(cluster).count(AlertKind.AT_MAX) == 1


def test_usage_of_an_hour_is_kept_when_it_is_over():
    cluster = shop(workers=3, replicas=6, cpu=600)
    cluster.calm(32)
    (hour,) = cluster.world.parts("reader").history.usage(
        cluster.began - timedelta(hours=1), cluster.began + timedelta(hours=2)
    )
    used = hour.pools["default"]
    assert used.watched_seconds == pytest.approx(3600 - 120)
    assert used.spot_seconds == pytest.approx(2 * used.watched_seconds)
    assert journal(cluster).usage.hour == hour.hour + timedelta(hours=1)


def test_the_memory_does_not_grow_with_time():
    cluster = shop(workers=3, replicas=6, cpu=600)
    cluster.calm(40)
    early = len(str(journal(cluster)))
    cluster.calm(400)
    assert len(str(journal(cluster))) < early + 4000  # the profile of a few more hours
    assert cluster.operations == ()


# ── dry run ──────────────────────────────────────────────────────────────────────────────────────────────────────


def mutations(cluster: Cluster) -> set[str]:
    reads = {"cloud.instances", "cloud.catalog", "cluster.view", "cluster.node", "cluster.pods_on", "cloud.instance"}
    calls = {call for run in cluster.world.runs.values() for call in run.log if call.startswith(("cloud.", "cluster."))}
    return calls - reads


def test_a_dry_pool_decides_and_tells_but_changes_nothing():
    cluster = empty(dry_run=True)
    cluster.calm(5)
    assert cluster.world.workers() == []
    assert mutations(cluster) == set()
    assert cluster.operations == ()
    (event,) = [event for event in cluster.world.table.events if event.kind is AlertKind.SCALE_UP]
    assert event.dry
    assert event.change == 2
    assert all(record.dry for record in cluster.world.table.decisions)


def test_a_dry_shrink_is_told_too():
    cluster = shop(workers=3, replicas=4, cpu=200, dry_run=True)
    cluster.calm(8)
    (event,) = [event for event in cluster.world.table.events if event.kind is AlertKind.SCALE_DOWN]
    assert (event.dry, event.change) == (True, -1)
    assert mutations(cluster) <= {"cluster.note"}
    assert len(cluster.world.workers()) == 3


def test_what_is_under_way_waits_while_its_pool_is_dry():
    cluster = empty()
    cluster.look()
    assert len(cluster.operations) == 2
    before = cluster.operations
    cluster.world.enforce({"limits": {"min": 2, "max": 6}, "dry_run": True})
    cluster.calm(2)
    assert cluster.operations == before
    cluster.world.enforce({"limits": {"min": 2, "max": 6}})
    cluster.calm(3)
    assert cluster.operations == ()
    assert len(cluster.world.ready_nodes()) == 2


# ── operators ────────────────────────────────────────────────────────────────────────────────────────────────────


def order(cluster: Cluster, command: Pause | Scale) -> None:
    event = Event(id="by-hand", at=cluster.world.now, cluster="shop", kind=AlertKind.PAUSED, text="by hand")
    cluster.world.parts("person").store.order(command, event)


def test_a_pause_holds_and_ends_by_itself():
    cluster = shop(workers=2, replicas=2)
    cluster.calm(1)
    order(cluster, Pause(by="ann", until=cluster.world.now + timedelta(minutes=10)))
    cluster.world.deploy("sale", replicas=6, cpu=900)
    cluster.calm(4)
    assert len(cluster.world.workers()) == 2
    cluster.calm(4)
    assert len(cluster.world.workers()) > 2
    assert cluster.world.parts("reader").store.state().commands == ()


def test_a_person_gets_the_size_that_was_asked_for():
    cluster = shop(workers=3, replicas=6, cpu=600)
    cluster.calm(1)
    order(cluster, Scale(nodes=5, by="ann", until=cluster.world.now + timedelta(hours=1)))
    cluster.calm(4)
    assert len(cluster.world.ready_nodes()) == 5


# ── the policy ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_declared_policy_is_taken_up_and_told():
    cluster = shop(workers=3, replicas=6, cpu=600)
    cluster.calm(1)
    cluster.world.declare({"limits": {"min": 4, "max": 6}})
    cluster.calm(3)
    assert len(cluster.world.ready_nodes()) == 4
    assert kinds(cluster).count(AlertKind.POLICY_CHANGED) == 1
    assert cluster.world.parts("reader").store.state().policy.number == 2


def test_a_declared_policy_that_is_not_good_is_told_once_and_changes_nothing():
    cluster = shop(workers=3, replicas=6, cpu=600)
    cluster.world.declare({"limits": {"min": 9, "max": 6}})
    cluster.calm(5)
    assert kinds(cluster) == [AlertKind.POLICY_REFUSED]
    assert cluster.world.parts("reader").store.state().policy.number == 1
    assert len(cluster.world.workers()) == 3


# ── refusals ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (RefusalKind.CAPACITY, AlertKind.NO_CAPACITY),
        (RefusalKind.QUOTA, AlertKind.QUOTA),
        (RefusalKind.PERMISSION, AlertKind.PERMISSION),
        (RefusalKind.INVALID, AlertKind.LAUNCH_INVALID),
    ],
)
def test_what_ec2_refuses_is_told_by_who_can_mend_it(kind, told):
    cluster = empty()
    cluster.world.shop.refuse(kind=kind, code="SomeCode")
    cluster.calm(2)
    assert told in kinds(cluster)
    assert cluster.world.workers() == []
    failures = [value for metric, value in cluster.world.metrics if metric is Metric.FAILURES]
    assert sum(failures) > 0
    cluster.world.shop.allow()
    cluster.calm(8)
    assert len(cluster.world.ready_nodes()) == 2


def test_refused_launches_are_not_repeated_every_ten_seconds():
    cluster = empty()
    cluster.world.deploy("shop", replicas=2, cpu=500)
    cluster.world.shop.refuse(kind=RefusalKind.PERMISSION, code="UnauthorizedOperation")
    cluster.calm(3)
    launches = [call for run in cluster.world.runs.values() for call in run.log if call == "cloud.launch"]
    assert len(launches) <= 8

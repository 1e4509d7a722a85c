"""A dry run reads, decides and remembers; it changes nothing anywhere."""

from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.errors import ChangedError
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Event, PolicyVersion
from nodefleet.model.inventory import Market, Notice, NoticeKind
from nodefleet.model.operations import Cordon, PodRef
from nodefleet.model.snapshot import Pause
from nodefleet.model.state import LoopState
from nodefleet.policy.loading import PolicyReader
from nodefleet.ports import Changes, State
from nodefleet.reconcile.run import run
from nodefleet_tools.cli.overlay import Overlay
from nodefleet_tools.dry import DryCloud, DryCluster, DryHistory, DryPolicies, Would, dry
from nodefleet_tools.dry_store import DryStore, NoTable
from nodefleet_tools.sim.hooks import KilledError, Moment, raising, when
from nodefleet_tools.sim.world import NOON
from support.operation_builders import launch
from support.wording import assert_wording
from support.worlds import Cluster, empty, shop, spot_worker

READS = {
    "store.state",
    "history.policies",
    "cloud.instances",
    "cloud.instance",
    "cloud.catalog",
    "cluster.view",
    "cluster.node",
    "cluster.pods_on",
    "gauges.read",
    "time.sleep",
}
SKEW = timedelta(seconds=5)
EVENT = Event(id="e", at=NOON, cluster="shop", kind=AlertKind.PAUSED, text="x")
NOTICE = Notice(instance="i-1", kind=NoticeKind.SPOT_INTERRUPTION, at=NOON)
POD = PodRef(namespace="shop", name="web-1", uid="u")


class Unreachable:
    """A part that nobody may call."""

    def __getattr__(self, name: str):
        raise AssertionError(f"{name} was called")


# ── whole runs ───────────────────────────────────────────────────────────────────────────────────────────────────


def growing() -> Cluster:
    return empty()


def crowded() -> Cluster:
    cluster = shop()
    cluster.world.deploy("sale", replicas=6, cpu=1500)
    cluster.world.advance(30)
    return cluster


def shrinking() -> Cluster:
    cluster = shop(workers=5, replicas=2, cpu=100)
    cluster.calm(4)
    cluster.world.advance(120)
    return cluster


def interrupted() -> Cluster:
    cluster = shop()
    notice = cluster.world.interrupt(spot_worker(cluster.world))
    cluster.world.parts("warner").store.record(notice)
    return cluster


def under_way() -> Cluster:
    """Operations of a pool that the policy does not name any more: no pool says that they are dry."""
    cluster = shop()
    notice = cluster.world.interrupt(spot_worker(cluster.world))
    cluster.world.parts("warner").store.record(notice)
    cluster.run("killed", when("cluster.evict", Moment.BEFORE, raising(KilledError("now"))))
    cluster.world.table.lease = None
    assert cluster.operations
    cluster.world.enforce({"pools": [{"name": "other"}]})
    return cluster


def declared() -> Cluster:
    """A run would take up what the stack declares."""
    cluster = shop()
    cluster.world.declare({"limits": {"min": 4, "max": 8}})
    return cluster


def of(cluster: Cluster, owner: str = "dry"):
    parts = cluster.world.parts(owner)
    would = Would()
    return dry(parts, DryStore(parts.store.state), would), would


@pytest.mark.parametrize(
    "scene", [growing, crowded, shrinking, interrupted, under_way, declared], ids=lambda it: it.__name__
)
def test_no_call_that_changes_something_is_ever_made(scene):
    cluster = scene()
    world = cluster.world
    before = (dict(world.table.items["operation"]), list(world.table.events), world.table.fence, world.table.seed)
    machines = {machine.id for machine in world.workers()}
    parts, _ = of(cluster)
    for number in range(3):
        run(parts, owner=f"dry-{number}")
    assert set(world.runs["dry"].log) <= READS
    assert (
        dict(world.table.items["operation"]),
        list(world.table.events),
        world.table.fence,
        world.table.seed,
    ) == before
    assert {machine.id for machine in world.workers()} == machines
    assert world.violations == []


def first_decision(parts):
    heard = []
    run(replace(parts, store=Overlay(store=parts.store, heard=heard.append)), owner=parts.cluster_id)
    (pool,) = heard[0].decision.pools
    return pool


@pytest.mark.parametrize(("scene", "action"), [(growing, "grow"), (crowded, "grow"), (shrinking, "shrink")])
def test_it_decides_as_a_real_run_would_and_marks_it(scene, action):
    parts, _ = of(scene())
    real, pool = first_decision(scene().world.parts("real")), first_decision(parts)
    assert (pool.action.value, pool.target, pool.reason) == (action, real.target, real.reason)
    assert (pool.dry_run, real.dry_run) == (True, False)


def test_what_it_would_do_for_a_pool_that_is_no_more_is_noted_and_said():
    cluster = under_way()
    parts, would = of(cluster)
    run(parts, owner="dry")
    assert would.said
    assert_wording(sorted({line.message for line in cluster.world.lines if would.said[0] in line.message}))


def test_its_cooldown_holds_from_run_to_run():
    cluster = crowded()
    parts, _ = of(cluster)
    first = run(parts, owner="one")
    cluster.world.advance(60)
    (later,) = run(parts, owner="two").decision.pools
    assert first.iterations > 1
    assert later.action.value == "hold"
    assert "cooldown" in later.reason


def test_a_policy_that_the_stack_declares_holds_in_it_and_is_not_adopted():
    cluster = declared()
    parts, _ = of(cluster)
    (pool,) = run(parts, owner="dry").decision.pools
    assert pool.target == 4
    assert parts.store.state().policy.number == 2
    assert cluster.world.table.policies[-1].number == 1


def test_another_run_that_holds_the_lease_does_not_keep_it_from_looking():
    cluster = shop()
    parts = cluster.world.parts("other", limit=timedelta(hours=1))
    parts.store.acquire("other", cluster.world.now, cluster.world.now + timedelta(minutes=5), SKEW)
    looked, _ = of(cluster)
    assert run(looked, owner="dry").iterations
    assert cluster.world.table.lease.owner == "other"


# ── the store ────────────────────────────────────────────────────────────────────────────────────────────────────


def store(**state) -> DryStore:
    return DryStore(lambda: State(**state))


def leased(dry_store: DryStore):
    return dry_store.acquire("me", NOON, NOON + timedelta(minutes=2), SKEW)


def test_each_lease_has_the_next_fence():
    dry_store = store(fence=7)
    assert dry_store.state().fence == 7
    assert [leased(dry_store).fence for _ in range(2)] == [8, 9]
    assert dry_store.state().fence == 9


def test_a_real_run_meanwhile_does_not_take_its_lease():
    real = [State(fence=7)]
    dry_store = DryStore(lambda: real[0])
    lease = leased(dry_store)
    real[0] = State(fence=12)
    assert dry_store.state().fence == lease.fence
    assert leased(dry_store).fence == 13


def test_it_reads_what_it_wrote_over_what_is_there():
    one, two, three = launch(id="one"), launch(id="two"), launch(id="three")
    pause = Pause(by="ann")
    dry_store = store(operations=(one, two), notices=(NOTICE,), commands=(pause,))
    newer = replace(one, reason="changed")
    journal = LoopState(adopted_policy="d")
    dry_store.commit(
        leased(dry_store),
        Changes(journal=journal, put=(newer, three), drop=("two",), retire=(NOTICE,), expired=(pause,)),
    )
    state = dry_store.state()
    assert state.operations == (newer, three)
    assert (state.notices, state.commands, state.journal) == ((), (), journal)


def test_a_commit_without_a_journal_keeps_the_one_before():
    dry_store = store()
    lease = leased(dry_store)
    dry_store.commit(lease, Changes(journal=LoopState(adopted_policy="d")))
    dry_store.commit(lease, Changes(drop=("x",)))
    assert dry_store.state().journal.adopted_policy == "d"


def test_a_policy_that_is_applied_for_real_meanwhile_counts():
    version = PolicyVersion(number=2, source="stack", at=NOON, data={}, digest="d")
    real = [State()]
    dry_store = DryStore(lambda: real[0])
    dry_store.commit(leased(dry_store), Changes(policy=version))
    assert dry_store.state().policy == version
    real[0] = State(policy=replace(version, number=3))
    assert dry_store.state().policy.number == 3


def test_waking_and_letting_go_have_no_effect():
    dry_store = DryStore(State)
    lease = leased(dry_store)
    before = dry_store.state()
    dry_store.wake()
    dry_store.record(NOTICE)
    dry_store.order(Pause(), EVENT)
    dry_store.withdraw(Pause(), EVENT)
    dry_store.tell(EVENT)
    assert dry_store.release(lease, 0)
    assert dry_store.release(lease, None)
    assert dry_store.state() == before


# ── the others ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda it: it.launch(launch(count=2, zone="a", market=Market.SPOT)), "ask EC2 for 2 spot in a"),
        (lambda it: it.terminate("i-1"), "terminate i-1"),
        (lambda it: it.mark_failed("i-1"), "mark i-1 as failed to join"),
        (lambda it: it.keep_warm("i-1"), "stop i-1 and keep it warm"),
        (lambda it: it.start_warm(launch(starts=("i-1", "i-2"))), "start i-1, i-2"),
        (lambda it: it.assign("i-1", "web"), "tag i-1 as a worker of pool web"),
    ],
)
def test_ec2_is_not_asked_to_change_anything(call, words):
    would = Would()
    with pytest.raises(ChangedError) as caught:
        call(DryCloud(Unreachable(), would))
    assert_wording(str(caught.value))
    assert would.said == [words]


CORDON = Cordon(node="w1", removal="r", reason="x", deadline=NOON)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda it: it.cordon(CORDON, "i-1"), "cordon w1"),
        (lambda it: it.uncordon("w1", "r"), "let w1 back in"),
        (lambda it: it.assign("w1", "i-1", "web"), "label w1 as a node of pool web"),
        (lambda it: it.evict(POD), "evict shop/web-1"),
        (lambda it: it.delete_pod(POD), "delete shop/web-1 by force"),
        (lambda it: it.delete_node("w1", "i-1"), "delete the Node w1"),
    ],
)
def test_kubernetes_is_not_asked_to_change_anything(call, words):
    would = Would()
    with pytest.raises(ChangedError) as caught:
        call(DryCluster(Unreachable(), would))
    assert_wording(str(caught.value))
    assert would.said == [words]


def test_nothing_is_noted_on_a_node_and_that_is_no_news():
    would = Would()
    DryCluster(Unreachable(), would).note("w1", "NodeFleetStays", "cannot leave", warning=True)
    assert would.said == []


def test_no_policy_is_put_in_force():
    version = PolicyVersion(number=2, source="me", at=NOON, data={}, digest="d")
    with pytest.raises(ChangedError) as caught:
        DryHistory(Unreachable(), Would()).apply(version, EVENT)
    assert_wording(str(caught.value))
    with pytest.raises(ChangedError) as caught:
        NoTable().apply(version, EVENT)
    assert_wording(str(caught.value))


def test_history_is_read_through():
    cluster = shop()
    cluster.calm(1)
    real = cluster.world.parts("reader").history
    seen = DryHistory(real, Would())
    span = (NOON, NOON + timedelta(days=1))
    assert seen.decisions(1) == real.decisions(1) != ()
    assert (seen.events(*span), seen.usage(*span)) == (real.events(*span), real.usage(*span))
    assert seen.policies() == real.policies() != ()


def test_without_a_table_there_is_nothing():
    nothing = NoTable()
    span = (NOON, NOON)
    assert nothing.state() == State()
    assert (nothing.decisions(3), nothing.events(*span), nothing.usage(*span), nothing.policies()) == ((), (), (), ())


def test_the_archive_keeps_nothing():
    parts, _ = of(shop())
    parts.archive.keep("a", b"x")
    with pytest.raises(ChangedError) as caught:
        parts.archive.fetch("a")
    assert_wording(str(caught.value))


def test_every_pool_is_dry():
    data = {"pools": [{"name": "a"}, {"name": "b", "dry_run": True}]}
    assert [pool.dry_run for pool in DryPolicies(PolicyReader()).read(data).pools] == [True, True]

"""What EC2 takes does not wait for the lease."""

from datetime import datetime, timedelta

import pytest

from nodefleet.errors import (
    ChangedError,
    DeniedError,
    LostLeaseError,
    MalformedError,
    MisconfiguredError,
    NodeFleetError,
    ThrottledError,
    UnavailableError,
)
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import ActionKind
from nodefleet.model.inventory import InstanceState, Market, NoticeKind
from nodefleet.model.operations import Removal, RemovalReason
from nodefleet.model.snapshot import emergency, notice_in
from nodefleet_tools.sim.hooks import Call, Hook, Moment, raising, when
from nodefleet_tools.sim.kube import Traits
from nodefleet_tools.sim.workloads import Kind
from support.worlds import Cluster, shop, spot_worker


def busy(workers: int = 3, replicas: int = 6, **policy: object) -> Cluster:
    """At half its CPU: what is lost has to be replaced."""
    cluster = shop(workers=workers, replicas=replicas, cpu=600, **policy)
    cluster.calm(1)
    return cluster


def held_by_another(cluster: Cluster) -> None:
    parts = cluster.world.parts("other", limit=timedelta(hours=1))
    now = cluster.world.now
    parts.store.acquire("other", now, now + timedelta(seconds=300), timedelta(seconds=5))


def pods_on(cluster: Cluster, instance: str) -> list[str]:
    node = cluster.world.kube.node_of(instance)
    return [pod.name for pod in cluster.world.kube.pods_on(node.name) if pod.movable and not pod.deleted_at]


def test_a_warned_node_is_drained_and_replaced_in_the_same_run():
    cluster = busy()
    victim = spot_worker(cluster.world)
    cluster.warned([cluster.world.interrupt(victim)])
    launches = [
        action
        for record in cluster.world.table.decisions
        for action in record.actions
        if action.kind is ActionKind.LAUNCH
    ]
    assert [action.asked for action in launches] == [1]
    cluster.calm(3)
    assert len(cluster.world.ready_nodes()) == 3
    assert cluster.world.ec2.machines[victim].state is InstanceState.TERMINATED
    assert (cluster.operations, cluster.world.violations) == ((), [])
    assert cluster.world.parts("reader").store.state().notices == ()


def test_all_doomed_nodes_are_cordoned_before_the_first_pod_is_evicted():
    cluster = busy(workers=4, replicas=8)
    doomed = [machine.id for machine in cluster.world.workers() if machine.market.value == "spot"][:2]
    cluster.warned([cluster.world.interrupt(victim) for victim in doomed])
    log = cluster.world.runs["warned"].log
    cordons = [place for place, call in enumerate(log) if call == "cluster.cordon"]
    assert len(cordons) >= 2
    assert cordons[1] < log.index("cluster.evict")


def test_while_another_run_holds_the_lease_the_node_is_drained_and_the_holder_is_woken():
    cluster = busy()
    held_by_another(cluster)
    wake = cluster.world.parts("reader").store.state().wake
    victim = spot_worker(cluster.world)
    before = len(cluster.world.workers())
    ran = cluster.warned([cluster.world.interrupt(victim)])
    assert ran.held
    assert pods_on(cluster, victim) == []
    assert len(cluster.world.workers()) <= before  # nothing is launched without the lease
    state = cluster.world.parts("reader").store.state()
    assert state.wake > wake
    assert [notice.instance for notice in state.notices] == [victim]
    cluster.world.violations.clear()


def test_without_the_table_the_node_is_drained_and_the_event_comes_again():
    cluster = busy()
    cluster.world.away("store")
    victim = spot_worker(cluster.world)
    with pytest.raises(UnavailableError, match="DynamoDB"):
        cluster.warned([cluster.world.interrupt(victim)])
    assert pods_on(cluster, victim) == []
    assert cluster.world.violations == []


def test_a_node_that_was_drained_without_the_table_is_not_let_back_in_by_the_next_run():
    """The notice could not be recorded, but the node carries it."""
    cluster = busy()
    victim = spot_worker(cluster.world)
    notice = cluster.world.interrupt(victim)
    cluster.world.away("store")
    with pytest.raises(UnavailableError):
        cluster.warned([notice], when("time.sleep", Moment.BEFORE, raising(UnavailableError("DynamoDB", "gone"))))
    node = cluster.world.kube.node_of(victim)
    assert notice_in(node.removal) == notice
    cluster.world.back("store")
    cluster.run("next")
    (removal,) = [each for each in cluster.operations if isinstance(each, Removal)] or [None]
    assert removal is None or removal.why is RemovalReason.INTERRUPTED
    assert cluster.world.kube.node_of(victim) is None or cluster.world.kube.node_of(victim).cordoned
    kinds = [event.kind for event in cluster.world.table.events]
    assert AlertKind.INTERRUPTED in kinds
    assert AlertKind.READMITTED not in kinds


def test_an_event_that_comes_much_too_late_empties_nothing():
    """Nothing came of a scheduled change, and half an hour later its event is given once more."""
    cluster = busy()
    victim = spot_worker(cluster.world)
    notice = cluster.world.interrupt(victim, NoticeKind.SCHEDULED_CHANGE)
    pods = pods_on(cluster, victim)
    cluster.world.advance(1800)
    cluster.warned([notice])
    assert pods_on(cluster, victim) == pods
    assert not cluster.world.kube.node_of(victim).cordoned
    assert len(cluster.world.workers()) == 3


def test_an_event_that_comes_twice_changes_nothing():
    cluster = busy()
    notice = cluster.world.interrupt(spot_worker(cluster.world))
    cluster.warned([notice], owner="first")
    cluster.warned([notice], owner="again")
    cluster.calm(3)
    assert len(cluster.world.workers()) == 3
    assert [event.kind for event in cluster.world.table.events].count(AlertKind.INTERRUPTED) == 1
    assert cluster.world.violations == []


def test_a_recommendation_is_recorded_but_drains_nothing_unless_asked_for():
    cluster = busy()
    victim = spot_worker(cluster.world)
    cluster.warned([cluster.world.interrupt(victim, NoticeKind.REBALANCE)])
    assert pods_on(cluster, victim)
    assert not cluster.world.kube.node_of(victim).cordoned


def test_a_recommendation_is_followed_where_the_policy_says_so():
    cluster = busy(removal={"drain_on_rebalance": True})
    victim = spot_worker(cluster.world)
    cluster.warned([cluster.world.interrupt(victim, NoticeKind.REBALANCE)])
    assert not cluster.world.kube.node_of(victim).cordoned  # the replacement comes first
    cluster.until(lambda: not cluster.world.ec2.machines[victim].live, ticks=8)
    assert len(cluster.world.ready_nodes()) == 3


def test_a_dry_pool_is_not_drained():
    cluster = busy(dry_run=True)
    victim = spot_worker(cluster.world)
    before = set(pods_on(cluster, victim))
    cluster.warned([cluster.world.interrupt(victim)])
    assert set(pods_on(cluster, victim)) == before


def test_while_kubernetes_is_away_the_notice_is_kept_and_acted_upon_later():
    cluster = busy()
    victim = spot_worker(cluster.world)
    cluster.world.away("cluster", for_seconds=240)
    cluster.warned([cluster.world.interrupt(victim)])
    assert [notice.instance for notice in cluster.world.parts("reader").store.state().notices] == [victim]
    cluster.calm(4)
    assert len(cluster.world.ready_nodes()) == 3


def test_the_holder_of_the_lease_and_the_warned_run_do_not_fight_over_the_cordon():
    cluster = busy()
    victim = spot_worker(cluster.world)
    notice = cluster.world.interrupt(victim)
    cluster.world.parts("x").store.record(notice)
    cluster.run("holder", limit=timedelta(seconds=24))  # it cordons the node under its own removal
    (removal,) = [each for each in cluster.operations if isinstance(each, Removal)]
    assert cluster.world.kube.node_of(victim).removal == removal.id
    held_by_another(cluster)
    cluster.warned([notice])
    node = cluster.world.kube.node_of(victim)
    assert node is None or node.removal == removal.id


def test_the_id_of_an_emergency_carries_its_notice_and_no_other_id_does():
    notice = busy().world.interrupt("i-00000004")
    assert notice_in(emergency(notice)) == notice
    for other in (
        "",
        "shop-f17-20261116T200400-voluntary-i-1",
        "emergency/i-1/nonsense/2026-11-16T12:00:00Z",
        "emergency",
    ):
        assert notice_in(other) is None


# ── errors of one pod, one node, or of the run itself ────────────────────────────────────────────────────────────


def poisoned(cluster: Cluster, pods: set[str], error: NodeFleetError, seen: list[str] | None = None) -> Hook:
    """Every eviction of these pods fails, always: a webhook, a missing permission, a server that is too slow."""

    def hook(call: Call) -> None:
        if call.name == "cluster.evict" and call.moment is Moment.BEFORE and call.arguments[0].name in pods:
            if seen is not None:
                seen.append(call.arguments[0].name)
            raise error

    return hook


@pytest.mark.parametrize(
    "error",
    [
        UnavailableError("Kubernetes", "500 Internal error: failed calling webhook"),
        UnavailableError("Kubernetes", "504 the request timed out"),
        ThrottledError("Kubernetes", "Too many requests"),
        DeniedError("Kubernetes", "pods/eviction is forbidden", "Allow create on pods/eviction"),
        ChangedError("the pod has changed"),
    ],
    ids=lambda error: type(error).__name__ + " " + str(error)[:20],
)
@pytest.mark.parametrize("holder", ["this run", "another run"])
def test_a_pod_that_cannot_be_evicted_keeps_no_other_pod_or_node(error, holder):
    cluster = busy(workers=4, replicas=8)
    doomed = [machine.id for machine in cluster.world.workers() if machine.market.value == "spot"][:2]
    bad = {pods_on(cluster, doomed[0])[0]}
    others = {name for victim in doomed for name in pods_on(cluster, victim)} - bad
    assert len(others) >= 3
    if holder == "another run":
        held_by_another(cluster)
    notices = [cluster.world.interrupt(victim) for victim in doomed]
    begun = cluster.world.now
    gone_at: dict[str, datetime] = {}

    def watch(call: Call) -> None:
        if call.name == "cluster.evict" and call.moment is Moment.AFTER:
            gone_at.setdefault(call.arguments[0].name, cluster.world.now)

    cluster.warned(notices, poisoned(cluster, bad, error), watch)
    assert set(gone_at) >= others
    assert max(gone_at[name] - begun for name in others) < timedelta(seconds=15)
    cluster.world.violations.clear()  # a lease that never ends is held in this test


@pytest.mark.parametrize(
    "error",
    [
        LostLeaseError("another run holds the cluster"),
        MalformedError("a record cannot be read"),
        DeniedError("EC2", "ec2:DescribeInstances is denied", "Allow it"),
        MisconfiguredError("no template"),
        UnavailableError("DynamoDB", "timed out"),
        ValueError("a bug of ours"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_draining_goes_on_whatever_the_run_raises_and_it_is_raised_at_the_end(error):
    """A pod that takes its time is still waited for, and one that its budget holds is asked for again."""
    cluster = busy()
    victim = spot_worker(cluster.world)
    refused = set(pods_on(cluster, victim))
    until = cluster.world.now + timedelta(seconds=25)

    def holds(call: Call) -> None:
        early = cluster.world.now < until
        if (
            call.name == "cluster.evict"
            and call.moment is Moment.BEFORE
            and early
            and call.arguments[0].name in refused
        ):
            raise UnavailableError("Kubernetes", "504 the request timed out")

    broken = when("store.acquire", Moment.BEFORE, raising(error), times=99)
    with pytest.raises(type(error)):
        cluster.warned([cluster.world.interrupt(victim)], broken, holds)
    assert pods_on(cluster, victim) == []


def test_the_replacement_is_requested_before_the_first_slow_eviction_is_over():
    cluster = busy()
    victim = spot_worker(cluster.world)
    asked: dict[str, datetime] = {}

    def slow(call: Call) -> None:
        if call.name == "cluster.evict" and call.moment is Moment.BEFORE:
            cluster.world.clock.wait(10)
        if call.name in {"cloud.launch", "cluster.evict"} and call.moment is Moment.AFTER:
            asked.setdefault(call.name, cluster.world.now)

    cluster.warned([cluster.world.interrupt(victim)], slow)
    assert asked["cloud.launch"] < asked["cluster.evict"]


def test_a_warning_reads_the_pods_of_its_own_nodes_only():
    cluster = busy()
    held_by_another(cluster)
    cluster.warned([cluster.world.interrupt(spot_worker(cluster.world))])
    log = cluster.world.runs["warned"].log
    assert "cluster.view" not in log
    assert "cluster.pods_on" in log
    cluster.world.violations.clear()


def test_one_notice_that_cannot_be_recorded_keeps_no_other_from_it():
    cluster = busy(workers=4, replicas=8)
    first, second = [machine.id for machine in cluster.world.workers() if machine.market.value == "spot"][:2]

    recorded: list[str] = []

    def hook(call: Call) -> None:
        if call.name == "store.record" and call.moment is Moment.BEFORE and call.arguments[0].instance == first:
            raise UnavailableError("DynamoDB", "timed out")
        if call.name == "store.record" and call.moment is Moment.AFTER:
            recorded.append(call.arguments[0].instance)

    with pytest.raises(UnavailableError, match="DynamoDB"):
        cluster.warned([cluster.world.interrupt(first), cluster.world.interrupt(second)], hook)
    assert recorded == [second]
    assert pods_on_or_gone(cluster, first) == pods_on_or_gone(cluster, second) == []


def pods_on_or_gone(cluster: Cluster, instance: str) -> list[str]:
    return pods_on(cluster, instance) if cluster.world.kube.node_of(instance) else []


def apps_on(cluster: Cluster, instance: str) -> set[str]:
    node = cluster.world.kube.node_of(instance)
    return {pod.labels["app"] for pod in cluster.world.kube.pods_on(node.name)}


def test_terminating_pods_of_a_stateful_set_are_not_deleted_by_force_while_their_node_lives():
    """Two of the same name would run: the API server forgets the pod, its kubelet has not ended it yet."""
    cluster = busy()
    world = cluster.world
    traits = Traits(stops_in=600)
    for name, kind in (("db", Kind.STATEFUL_SET), ("web", Kind.DEPLOYMENT)):
        world.deploy(name, kind=kind, replicas=6, cpu=30, traits=traits, grace=timedelta(seconds=600))
        world.advance(30)
    victim = next(machine.id for machine in world.workers() if apps_on(cluster, machine.id) >= {"db", "web"})
    world.ec2.machines[victim].market = Market.SPOT
    forced: list[str] = []

    def watch(call: Call) -> None:
        if call.name == "cluster.delete_pod" and call.moment is Moment.BEFORE:
            forced.append(call.arguments[0].name)

    notice = world.interrupt(victim)
    cluster.warned([notice], watch)
    cluster.run("next", watch)
    assert any(name.startswith("web") for name in forced)
    assert not any(name.startswith("db") for name in forced)


def test_a_word_that_comes_late_and_was_called_off_before_touches_nothing():
    cluster = busy()
    world = cluster.world
    victim = spot_worker(world)
    notice = world.interrupt(victim, NoticeKind.SCHEDULED_CHANGE, ahead=timedelta(minutes=30))
    world.advance(60)
    cluster.warned([world.withdraw(notice)])
    cluster.warned([notice])
    node = next(node for node in world.kube.nodes.values() if node.instance == victim)
    assert not node.cordoned
    assert pods_on(cluster, victim)
    assert world.violations == []

"""What EC2 takes does not wait for the lease."""

from datetime import timedelta

import pytest

from nodefleet.domain.events import EventKind
from nodefleet.domain.machines import InstanceState, NoticeKind
from nodefleet.domain.names import emergency, notice_in
from nodefleet.domain.operations import Removal, Why
from nodefleet.errors import UnavailableError
from nodefleet_tools.sim.hooks import Moment, raising, when
from worlds import Cluster, shop, spot_worker


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
    ran = cluster.warned([cluster.world.interrupt(victim)])
    assert any(done.startswith("asked EC2 for 1") for done in ran.did)
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
    assert removal is None or removal.why is Why.INTERRUPTED
    assert cluster.world.kube.node_of(victim) is None or cluster.world.kube.node_of(victim).cordoned
    kinds = [event.kind for event in cluster.world.table.events]
    assert EventKind.INTERRUPTED in kinds
    assert EventKind.READMITTED not in kinds


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
    assert [event.kind for event in cluster.world.table.events].count(EventKind.INTERRUPTED) == 1
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
    node = cluster.world.kube.node_of(victim)
    assert node is None or node.cordoned
    cluster.calm(4)
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

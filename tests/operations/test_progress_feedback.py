"""What operations teach: what lacked capacity, what does not join, what cannot be drained, and for how long."""

from datetime import timedelta

import pytest

from nodefleet.model.alerts import AlertKind
from nodefleet.model.inventory import Market
from nodefleet.model.operations import DrainFailed, Joined, JoinFailed, Readmitted, SendAlert, Shortage, Shortfall
from nodefleet.model.state import Backoff, JoinTrouble, Loss, Memory, PoolMemory
from nodefleet.operations.progress import apply_feedback, join_backoffs
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Health, Pool, RemovalRules
from support.builders import NOON, after
from support.operation_builders import POLICY

NOTHING = Memory()


def pool_after(lessons, known=None, at=NOON, policy=POLICY):
    memory = Memory(pools={"default": known} if known else {})
    return apply_feedback(memory, lessons, policy, at).pool("default")


def shortage(until=600.0, **changes):
    return Shortage(
        **{"pool": "default", "type": "t3.small", "zone": "a", "market": Market.SPOT, "until": after(until)} | changes
    )


def join_failed(seconds=0.0):
    return JoinFailed(pool="default", instance="i-1", at=after(seconds))


def drain_failed(seconds=0.0, blocker="budget default/web", node="w1"):
    return DrainFailed(pool="default", node=node, blocker=blocker, at=after(seconds))


# ── shortages ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_newest_shortage_of_a_type_zone_and_market_counts():
    known = PoolMemory(shortages=(shortage(100), shortage(100, zone="b")))
    assert pool_after([shortage(600)], known).shortages == (shortage(100, zone="b"), shortage(600))


@pytest.mark.parametrize(
    "other", [{"type": "t3a.small"}, {"zone": "b"}, {"market": Market.ON_DEMAND}], ids=["type", "zone", "market"]
)
def test_shortages_differ_by_type_zone_and_market(other):
    assert len(pool_after([shortage(), shortage(**other)]).shortages) == 2


@pytest.mark.parametrize(("seconds", "known"), [(599, True), (600, False)])
def test_a_shortage_is_forgotten_when_it_is_over(seconds, known):
    assert bool(pool_after([], PoolMemory(shortages=(shortage(600),)), after(seconds)).shortages) is known


# ── joins ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("failures", "delay"), [(1, 0), (2, 60), (3, 120), (4, 240), (5, 480), (6, 600), (7, 600), (200, 600)]
)
def test_probes_come_ever_more_rarely(failures, delay):
    trouble = pool_after([join_failed(10)] * failures).join_trouble
    assert trouble == JoinTrouble(failures=failures, delay=timedelta(seconds=delay), next_probe=after(10 + delay))


def test_the_pauses_between_probes_are_the_pools():
    health = Health(failed_joins=1, probe_first=timedelta(seconds=7), probe_longest=timedelta(seconds=9))
    policy = Policy(pools=(Pool(health=health),))
    assert pool_after([join_failed()], policy=policy).join_trouble.delay == timedelta(seconds=7)
    assert pool_after([join_failed()] * 2, policy=policy).join_trouble.delay == timedelta(seconds=9)


def test_one_join_ends_the_trouble():
    joined = Joined(pool="default", instance="i-2", took=timedelta(seconds=80), at=after(20))
    assert pool_after([join_failed(), join_failed(), joined]).join_trouble is None
    assert pool_after([join_failed(), joined, join_failed()]).join_trouble.failures == 1


def test_an_instance_that_ec2_never_listed_may_still_run():
    """So it counts against max for a while, like a member that EC2 no longer lists."""
    known = PoolMemory(vanished={"i-0": after(-60)})
    unlisted = JoinFailed(pool="default", instance="i-1", at=NOON, unlisted=True)
    assert pool_after([unlisted], known).vanished == {"i-0": after(-60), "i-1": NOON}
    assert pool_after([join_failed()], known).vanished == {"i-0": after(-60)}


def test_people_are_told_from_the_second_failed_join_on():
    once = apply_feedback(NOTHING, [join_failed()], POLICY, NOON)
    twice = apply_feedback(once, [join_failed(60)], POLICY, after(60))
    assert join_backoffs(NOTHING, once, POLICY) == ()
    assert join_backoffs(once, twice, POLICY) == (
        SendAlert(
            alert=AlertKind.JOIN_BACKOFF,
            pool="default",
            text="Failed joins without a success: 2. From now on one probe at a time, 60 s apart."
            " Look at the console output of a failed one, the join token, and the way to the master",
        ),
    )


def test_people_are_told_of_a_pools_trouble_only_when_it_grows():
    twice = apply_feedback(NOTHING, [join_failed()] * 2, POLICY, NOON)
    assert join_backoffs(twice, twice, POLICY) == ()
    thrice = apply_feedback(twice, [join_failed(100)], POLICY, after(100))
    assert len(join_backoffs(twice, thrice, POLICY)) == 1
    assert join_backoffs(thrice, Memory(pools={"default": PoolMemory()}), POLICY) == ()


def test_from_which_failed_join_on_people_are_told_is_the_pools():
    policy = Policy(pools=(Pool(health=Health(failed_joins=1)),))
    once = apply_feedback(NOTHING, [join_failed()], policy, NOON)
    assert len(join_backoffs(NOTHING, once, policy)) == 1


def test_a_pool_without_trouble_does_not_hide_another_ones():
    batch = JoinFailed(pool="batch", instance="i-1", at=NOON)
    memory = apply_feedback(Memory(pools={"a": PoolMemory()}), [batch, batch], POLICY, NOON)
    assert [tell.pool for tell in join_backoffs(NOTHING, memory, POLICY)] == ["batch"]


# ── drains ───────────────────────────────────────────────────────────────────────────────────────────────────────


def backoff(failures, until, blocker="budget default/web", node="w1"):
    return Backoff(node=node, blocker=blocker, failures=failures, until=after(until))


@pytest.mark.parametrize(
    ("failures", "wait"), [(1, 600), (2, 1200), (3, 2400), (4, 4800), (5, 7200), (6, 7200), (100, 7200)]
)
def test_a_node_that_cannot_be_drained_is_tried_ever_more_rarely(failures, wait):
    assert pool_after([drain_failed(5)] * failures).backoffs == (backoff(failures, 5 + wait),)


def test_another_blocker_starts_anew():
    known = PoolMemory(backoffs=(backoff(4, 100),))
    assert pool_after([drain_failed(blocker="pod default/db-0")], known).backoffs == (
        backoff(1, 600, "pod default/db-0"),
    )


def test_another_node_has_its_own_backoff():
    known = PoolMemory(backoffs=(backoff(4, 100),))
    assert pool_after([drain_failed(node="w2")], known).backoffs == (backoff(4, 100), backoff(1, 600, node="w2"))


def test_the_pauses_between_drains_are_the_pools():
    rules = RemovalRules(retry_first=timedelta(seconds=10), retry_longest=timedelta(seconds=15))
    policy = Policy(pools=(Pool(removal=rules),))
    assert pool_after([drain_failed()], policy=policy).backoffs == (backoff(1, 10),)
    assert pool_after([drain_failed()] * 2, policy=policy).backoffs == (backoff(2, 15),)


def test_how_long_a_backoff_outlives_its_end_is_the_pools():
    policy = Policy(pools=(Pool(removal=RemovalRules(retry_longest=timedelta(seconds=15))),))
    known = PoolMemory(backoffs=(backoff(1, 10),))
    assert pool_after([], known, after(24), policy).backoffs == (backoff(1, 10),)
    assert pool_after([], known, after(25), policy).backoffs == ()


@pytest.mark.parametrize(("seconds", "known"), [(600, True), (7799, True), (7800, False)])
def test_a_backoff_outlives_its_end_so_that_the_next_failure_doubles_it(seconds, known):
    assert bool(pool_after([], PoolMemory(backoffs=(backoff(1, 600),)), after(seconds)).backoffs) is known


# ── the rest ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("before", "expected"), [(None, 50), (0, 50), (70, 70)])
def test_a_readmitted_node_counts_as_growth(before, expected):
    known = PoolMemory(last_grow=None if before is None else after(before))
    learned = pool_after([Readmitted(pool="default", node="w1", at=after(50))], known)
    assert learned == PoolMemory(last_grow=after(expected))


def shortfall(missing=2, seconds=0.0):
    return Shortfall(pool="default", launch="l1", missing=missing, at=after(seconds))


def test_what_ec2_did_not_give_is_owed_until_the_cooldown_is_over():
    assert pool_after([shortfall()]).losses == tuple(
        Loss(worker=f"l1/{number}", at=NOON, cause="not given by EC2", expires=after(300)) for number in (1, 2)
    )


def test_what_is_owed_is_owed_once_however_often_it_is_learned():
    known = PoolMemory(losses=(Loss(worker="i-9", at=NOON, cause="gone"),))
    again = pool_after([shortfall(1), shortfall(1)], known)
    assert [loss.worker for loss in again.losses] == ["i-9", "l1/1"]


def test_each_pool_learns_its_own():
    memory = apply_feedback(NOTHING, [join_failed(), JoinFailed(pool="batch", instance="i-2", at=NOON)], POLICY, NOON)
    assert {name: known.join_trouble.failures for name, known in memory.pools.items()} == {"default": 1, "batch": 1}


def test_what_has_nothing_to_do_with_it_stays():
    memory = Memory(pools={"default": PoolMemory(members=("i-1",)), "batch": PoolMemory()})
    assert apply_feedback(memory, [], POLICY, NOON) == memory
    assert apply_feedback(memory, [join_failed()], POLICY, NOON).pool("default").members == ("i-1",)

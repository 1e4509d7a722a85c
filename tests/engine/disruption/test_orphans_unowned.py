"""Workers that no pool of the policy owns: what they count for, and what operators' commands do with them."""

from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.engine.decide import decide
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Action
from nodefleet.model.inventory import InstanceState
from nodefleet.model.operations import Assign, Cleanup, Create, Launch, Removal, RemovalReason, SendAlert
from nodefleet.model.snapshot import Adopt, Drain, Pause
from nodefleet.model.state import Backoff, Memory, PoolMemory
from nodefleet.policy.cluster import FleetLimits, Policy
from nodefleet.policy.pool import Limits, Pool
from support.builders import NOON, after, instance, look, node, only, pod
from support.decisions import KNOWN, POLICY, opened, with_pool
from support.wording import assert_wording

LATER = NOON + timedelta(hours=1)


def old(*numbers: int, **changes: object) -> dict:
    """Ready workers of a pool that the policy does not have."""
    return {
        "instances": [instance(number, pool="old") for number in numbers],
        "nodes": [node(number, pool="old", **changes) for number in numbers],
        "pods": (),
    }


def adopt(number: int, pool: str = "default") -> Adopt:
    return Adopt(instance=f"i-{number:03}", pool=pool, at=NOON, by="ann", reason="renamed", until=LATER)


def drain(number: int) -> Drain:
    return Drain(instance=f"i-{number:03}", at=NOON, by="ann", until=LATER)


def removals(decision) -> list[tuple[str, RemovalReason]]:
    opened = [step.operation for step in decision.plan if isinstance(step, Create)]
    return [(each.instance, each.why) for each in opened if isinstance(each, Removal)]


# ── fleet.max ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("unowned", "launched"), [(0, 3), (5, 3), (6, 2), (8, 0), (9, 0)])
def test_unowned_workers_leave_the_pools_less_room(unowned, launched):
    seen = look(2, **old(*range(10, 10 + unowned)))
    policy = replace(with_pool(limits=Limits(min=5, max=10)), fleet=FleetLimits(max=10))
    decision = only(decide(replace(seen, readings={}), KNOWN, policy))
    opened = [step.operation for step in decision.plan if isinstance(step, Create)]
    assert sum(each.count for each in opened if isinstance(each, Launch)) == launched
    at_max = [step for step in decision.plan if isinstance(step, SendAlert) and step.alert is AlertKind.AT_MAX]
    assert bool(at_max) is (launched < 3)
    assert_wording([step.text for step in at_max])


@pytest.mark.parametrize(("least", "target"), [(2, 2), (5, 5)])
def test_a_limit_that_nobody_wrote_keeps_no_pool_below_its_min(least, target):
    seen = replace(look(2, **old(*range(10, 20))), readings={})
    decision = only(decide(seen, KNOWN, with_pool(limits=Limits(min=least, max=10))))
    assert decision.target == target


def test_they_push_nobody_out():
    seen = look(3, **old(*range(10, 20)))
    decision = only(decide(seen, KNOWN, with_pool(limits=Limits(min=2, max=4))))
    assert (decision.action, decision.target) == (Action.HOLD, 3)


def two_pools(most: int | None, least: int = 1) -> Policy:
    first, second = Pool(name="default", limits=Limits(min=least, max=9)), Pool(name="b", limits=Limits(min=2, max=9))
    return Policy(fleet=FleetLimits(max=most), pools=(first, second))


def test_a_pool_that_comes_first_leaves_the_others_their_min():
    seen = look(0, targets=())
    seen = replace(seen, targets=tuple(replace(look(1).targets[0], pool=name) for name in ("default", "b")))
    first, second = decide(seen, KNOWN, two_pools(4, least=4)).pools
    assert (first.target, second.target) == (2, 2)


def test_a_pool_that_only_shows_what_it_would_do_takes_no_room():
    policy = two_pools(4, least=2)
    policy = replace(policy, pools=(replace(policy.pools[0], dry_run=True), policy.pools[1]))
    seen = replace(look(0), targets=tuple(replace(look(1).targets[0], pool=name) for name in ("default", "b")))
    first, second = decide(seen, KNOWN, policy).pools
    assert (first.target, second.target) == (2, 2)


@pytest.mark.parametrize(("most", "first", "second"), [(None, 5, 3), (8, 5, 3), (6, 3, 3), (4, 1, 3), (2, 1, 2)])
def test_more_than_fleet_max_leave_where_the_most_are_above_min(most, first, second):
    others = range(20, 23)
    seen = look(5, instances=[instance(n, pool="b") for n in others], nodes=[node(n, pool="b") for n in others])
    bounds = [
        min(bound.nodes for bound in pool.bounds if bound.source in ("max", "fleet-max"))
        for pool in decide(replace(seen, readings={}), KNOWN, two_pools(most)).pools
    ]
    assert [min(5, bounds[0]), min(3, bounds[1])] == [first, second]


@pytest.mark.parametrize(("most", "first"), [(7, 5), (6, 4), (5, 3), (3, 1)])
def test_a_pool_gives_up_what_another_one_lacks_to_its_min(most, first):
    """The second pool has none of its two, and would find no room for them for ever."""
    seen = replace(look(5), targets=tuple(replace(look(1).targets[0], pool=name) for name in ("default", "b")))
    default, second = decide(seen, KNOWN, two_pools(most)).pools
    ceilings = [bound.nodes for bound in default.bounds if bound.source in ("max", "fleet-max")]
    assert min(5, *ceilings) == first
    assert second.target == min(2, max(0, most - 5))


def test_a_failed_instance_is_not_kept_in_the_last_room_below_fleet_max():
    failed = instance(7, failed=True, launched_at=after(-900))
    seen, before = look(2, instances=[failed]), PoolMemory(suspects={"instance i-007": after(-200)})
    policy = replace(with_pool(limits=Limits(min=3, max=9)), fleet=FleetLimits(max=3))
    decision = decide(seen, Memory(pools={"default": before}), policy)
    assert [each.target for each in opened(decision, Cleanup)] == ["i-007"]


# ── adopt ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_operator_hands_a_worker_to_a_pool():
    decision = decide(look(3, **old(9), commands=(adopt(9),)), KNOWN, POLICY)
    reason = "ann asked for i-009 to be handed to pool default: renamed"
    assert decision.plan == (Assign(instance="i-009", node="w009", pool="default", reason=reason),)
    assert_wording(decision.look_again)


@pytest.mark.parametrize(
    "changes",
    [
        {"commands": (adopt(9, pool="nowhere"),)},
        {"commands": (replace(adopt(9), until=NOON),)},
        {"commands": (adopt(1),)},  # a pool owns it
        {"commands": (adopt(9),), "hold": "no policy can be read"},
        {"commands": (adopt(9),), "nodes": (), "instances": [instance(9, pool="old", launched_at=after(-9))]},
    ],
)
def test_nobody_is_handed_over_that_cannot_be(changes):
    assert decide(look(3, **{**old(9), **changes}), KNOWN, POLICY).plan == ()


def test_a_dry_pool_gets_nobody():
    assert decide(look(3, **old(9), commands=(adopt(9),)), KNOWN, with_pool(dry_run=True)).plan == ()


# ── drain ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_operator_drains_them_one_at_a_time():
    decision = decide(look(3, **old(8, 9), commands=(drain(8), drain(9))), KNOWN, POLICY)
    assert removals(decision) == [("i-008", RemovalReason.VOLUNTARY)]
    assert decision.memory.pool("old").last_left == NOON
    assert_wording(decision.look_again)


def test_what_leaves_is_looked_at_again():
    (opened,) = [step.operation for step in decide(look(3, **old(9), commands=(drain(9),)), KNOWN, POLICY).plan]
    again = decide(look(3, **old(9), commands=(drain(9),), operations=(opened,)), KNOWN, POLICY)
    assert again.plan == ()
    assert_wording(again.look_again)


def test_one_that_is_handed_over_is_not_drained_too():
    decision = decide(look(3, **old(9), commands=(adopt(9), drain(9))), KNOWN, POLICY)
    assert [type(step) for step in decision.plan] == [Assign]


@pytest.mark.parametrize("pause", [Pause(), Pause(until=LATER), Pause(until=LATER, scale_down_only=True)])
def test_a_pause_of_all_pools_holds_drains_too(pause):
    assert decide(look(3, **old(9), commands=(drain(9), pause)), KNOWN, POLICY).plan == ()


@pytest.mark.parametrize("pause", [Pause(pool="default"), Pause(until=NOON)])
def test_another_pause_does_not(pause):
    assert removals(decide(look(3, **old(9), commands=(drain(9), pause)), KNOWN, POLICY)) == [
        ("i-009", RemovalReason.VOLUNTARY)
    ]


def test_one_whose_pods_may_not_move_stays_and_the_operator_hears_why():
    kept = pod("precious", "w009", annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"})
    seen = look(3, **{**old(9), "pods": (kept,)}, commands=(drain(9),))
    (told,) = decide(seen, KNOWN, POLICY).plan
    assert isinstance(told, SendAlert)
    assert (told.alert, told.subjects) == (AlertKind.DRAIN_BLOCKED, ("w009",))
    assert "precious" in told.text


def test_a_failed_drain_is_not_tried_again_at_once():
    failed = Backoff(node="w009", blocker="a budget", failures=1, until=after(600))
    memory = Memory(pools={"old": PoolMemory(backoffs=(failed,)), "gone": PoolMemory(backoffs=(failed,))})
    decision = decide(look(3, **old(9), commands=(drain(9),)), memory, POLICY)
    assert removals(decision) == []
    assert decision.memory.pool("old").backoffs == (failed,)
    assert "gone" not in decision.memory.pools


def test_an_unhealthy_one_is_removed_as_such():
    ill = old(8, 9, ready=False, ready_changed_at=after(-3600))
    assert removals(decide(look(3, **ill, commands=(drain(8), drain(9))), KNOWN, POLICY)) == [
        ("i-008", RemovalReason.UNHEALTHY)
    ]


def test_what_is_left_of_one_is_cleaned_up_after_a_second_look():
    stopped = {"instances": [instance(9, pool="old", state=InstanceState.STOPPED)], "pods": ()}
    first = decide(look(3, **stopped, commands=(drain(9),)), KNOWN, POLICY)
    assert first.plan == ()
    later = NOON + timedelta(hours=2)
    again = look(3, at=later, **stopped, commands=(replace(drain(9), until=later + timedelta(hours=1)),))
    opened = [step.operation for step in decide(again, first.memory, POLICY).plan if isinstance(step, Create)]
    assert [(each.target, each.first_seen) for each in opened if isinstance(each, Cleanup)] == [("i-009", NOON)]

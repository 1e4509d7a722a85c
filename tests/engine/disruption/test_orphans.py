"""Failed and orphaned workers: what is cleaned up, when, and when an operator has to look."""

import pytest

from nodefleet.engine.disruption.orphans import find_orphans, plan_cleanups
from nodefleet.model.alerts import AlertKind
from nodefleet.model.inventory import InstanceState
from nodefleet.model.operations import Cleanup, Create, OrphanKind, SendAlert
from nodefleet.model.state import PoolMemory
from nodefleet.phases import derive_workers
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Health, Limits, Pool
from support.builders import NOON, after, instance, look, node
from support.operation_builders import cleanup, launch
from support.wording import assert_wording

POOL = Pool(limits=Limits(min=2, max=10))


def fleet(seen, pool=POOL):
    return derive_workers(seen, Policy(pools=(pool,)))


def dead(number):
    return node(number, ready=False, ready_changed_at=after(-60))


def tells(steps):
    return [step.alert for step in steps if isinstance(step, SendAlert)]


def plan(seen, suspects=None, pool=POOL, cleanups=None, most=None):
    before = PoolMemory(suspects=suspects or {}, cleanups=cleanups or {})
    return plan_cleanups(fleet(seen, pool), pool, before, seen, most)


def cleaned(seen, suspects, pool=POOL, cleanups=None):
    return list(plan(seen, suspects, pool, cleanups).steps)


def last_cleanups(seen, before, pool=POOL):
    return plan(seen, pool=pool, cleanups=before).cleanups


def test_an_orphaned_node_is_cleaned_up_after_a_second_look():
    seen = look(5, nodes=[dead(8)], cluster="shop", run="7")
    assert cleaned(seen, {"node i-008": after(-119)}) == []
    (opened,) = cleaned(seen, {"node i-008": after(-120)})
    assert opened == Create(
        Cleanup(
            id="shop-f7-20261116T120000-cleanup-i-008",
            pool="default",
            debris=OrphanKind.NODE,
            target="w008",
            reason="its instance is gone",
            first_seen=after(-120),
            started=NOON,
            deadline=after(300),
        )
    )


def test_a_node_is_meant_by_its_name_even_while_ec2_still_lists_its_machine():
    seen = look(5, instances=[instance(8, state=InstanceState.TERMINATED)], nodes=[node(8)])
    (opened,) = cleaned(seen, {"node i-008": after(-120)})
    assert (opened.operation.debris, opened.operation.target) == (OrphanKind.NODE, "w008")


def test_failed_joins_are_kept_up_to_the_limit_and_the_oldest_go():
    failed = [instance(n, launched_at=after(-1000 - n), failed=True) for n in (7, 8)]
    seen = look(5, instances=failed)
    assert [(each.worker.id, each.kind) for each in find_orphans(fleet(seen), POOL)] == [("i-008", OrphanKind.INSTANCE)]
    (opened,) = cleaned(seen, {"instance i-008": after(-200)})
    assert (opened.operation.target, opened.operation.debris) == ("i-008", OrphanKind.INSTANCE)
    assert_wording(opened.operation.reason)


@pytest.mark.parametrize(("keep", "left"), [(0, 2), (1, 1), (2, 0), (5, 0)])
def test_how_many_failures_are_kept(keep, left):
    seen = look(5, instances=[instance(n, failed=True) for n in (7, 8)])
    assert len(find_orphans(fleet(seen), Pool(health=Health(keep_failed=keep)))) == left


@pytest.mark.parametrize(("least", "left"), [(2, 0), (9, 0), (10, 1)])
def test_no_failure_is_kept_in_the_room_that_min_needs(least, left):
    seen = look(5, instances=[instance(7, failed=True)])
    assert len(find_orphans(fleet(seen), Pool(limits=Limits(min=least, max=10)))) == left


@pytest.mark.parametrize(("most", "left"), [(None, 0), (7, 0), (6, 0), (5, 1), (3, 1)])
def test_nor_in_the_room_that_fleet_max_leaves_for_min(most, left):
    seen = look(4, instances=[instance(7, failed=True)])
    pool = Pool(limits=Limits(min=5, max=10))
    assert len(find_orphans(fleet(seen), pool, most)) == left
    assert len(plan(seen, {"instance i-007": after(-900)}, pool, most=most).steps) == left


def test_an_open_cleanup_is_not_opened_again():
    seen = look(5, nodes=[dead(8)], operations=(cleanup(target="w008", debris=OrphanKind.NODE),))
    assert cleaned(seen, {"node i-008": after(-900)}) == []


def test_a_ready_node_is_not_left_behind_though_ec2_does_not_list_it():
    assert find_orphans(fleet(look(5, nodes=[node(8)])), POOL) == []


@pytest.mark.parametrize(
    ("total", "orphans", "person"),
    [(5, 1, False), (5, 2, True), (10, 2, False), (10, 3, True), (0, 1, False), (0, 2, True)],
)
def test_much_cleanup_is_for_a_person(total, orphans, person):
    numbers = range(20, 20 + orphans)
    seen = look(total, nodes=[dead(n) for n in numbers])
    steps = cleaned(seen, {f"node i-{n:03}": after(-900) for n in numbers})
    assert (tells(steps) == [AlertKind.CLEANUP_NEEDS_OPERATOR]) is person
    assert len([step for step in steps if isinstance(step, Create)]) == (0 if person else orphans)


def test_what_is_left_behind_does_not_count_for_the_fleet_that_it_is_a_share_of():
    """A fifth of eight workers is one: with its two orphans the fleet would seem to be ten."""
    seen = look(8, nodes=[dead(20), dead(21)])
    steps = cleaned(seen, {f"node i-{n:03}": after(-900) for n in (20, 21)})
    assert tells(steps) == [AlertKind.CLEANUP_NEEDS_OPERATOR]


def test_what_needs_a_person_is_named():
    seen = look(5, nodes=[dead(20), dead(21)])
    (told,) = cleaned(seen, {"i-020": NOON, "i-021": NOON})
    assert told.pool == "default"
    assert_wording(told.text)


# ── since when ───────────────────────────────────────────────────────────────────────────────────────────────────


def suspected(seen, before):
    return plan(seen, before).suspects


def test_a_suspicion_is_as_old_as_the_first_look_that_had_it():
    seen = look(5, nodes=[dead(20)])
    assert suspected(seen, {}) == {"node i-020": NOON}
    assert suspected(seen, {"node i-020": after(-60), "node i-021": after(-60)}) == {"node i-020": after(-60)}


def test_while_there_is_much_no_suspicion_grows_old():
    """A list with a gap says nothing about any of them; and what waits behind one cleanup does not follow at once."""
    seen = look(5, nodes=[dead(20), dead(21)])
    assert suspected(seen, {"node i-020": after(-119)}) == {"node i-020": NOON, "node i-021": NOON}


def test_what_is_certain_is_not_kept_waiting_by_what_is_not():
    ended = [instance(22, state=InstanceState.TERMINATED)]
    seen = look(5, instances=ended, nodes=[dead(20), dead(21), node(22)])
    assert suspected(seen, {"node i-022": after(-60)})["node i-022"] == after(-60)


# ── stopped, or without a Node ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("machine", "limit", "reason"),
    [
        (instance(8, launched_at=after(-9000)), 600, "its Node was deleted"),
        (instance(8, state=InstanceState.STOPPED), 3600, "it has been stopped for too long"),
    ],
)
def test_an_instance_that_is_nobodys_node_is_told_of_and_terminated_after_its_time(machine, limit, reason):
    seen = look(5, instances=[machine])
    assert cleaned(seen, {"instance i-008": after(-119)}) == []
    (told,) = cleaned(seen, {"instance i-008": after(-limit + 1)})
    assert (told.alert, told.subjects[0]) == (AlertKind.UNHEALTHY, "i-008")
    assert_wording(told.text)
    told, opened = cleaned(seen, {"instance i-008": after(-limit)})
    assert (opened.operation.debris, opened.operation.reason) == (OrphanKind.INSTANCE, reason)


def test_one_whose_launch_is_still_open_has_not_lost_its_node():
    made = launch(instances=("i-008",), answered=True)
    seen = look(5, instances=[instance(8, launched_at=after(-9000))], operations=(made,))
    assert find_orphans(fleet(seen), POOL) == []


# ── many that failed to join ─────────────────────────────────────────────────────────────────────────────────────

FULL = Pool(limits=Limits(min=4, max=4))


def failures(*numbers, **more):
    return look(0, instances=[instance(n, launched_at=after(-1000 + n), failed=True) for n in numbers], **more)


def test_instances_that_were_marked_as_failed_to_join_go_one_at_a_time_however_many_they_are():
    """They hold no pods, and would keep a fleet at max from healing until an operator comes."""
    seen = failures(20, 21, 22, 23)
    before = {f"instance i-{n:03}": after(-900) for n in range(20, 24)}
    planned = plan(seen, before, FULL)
    assert [step.operation.target for step in planned.steps] == ["i-020"]
    assert (planned.suspects, planned.cleanups) == (before, {"i-020": NOON})


OLD = {f"instance i-{n:03}": after(-900) for n in (20, 21, 22)}


def test_the_next_waits_from_when_the_cleanup_of_the_first_was_last_under_way():
    """It may take a while, and the next must not follow at once."""
    seen = failures(20, 21, 22, operations=(cleanup(target="i-020", debris=OrphanKind.INSTANCE),))
    assert last_cleanups(seen, {"i-020": after(-300)}, FULL) == {"i-020": NOON}
    assert cleaned(seen, OLD, FULL, {"i-020": NOON}) == []
    assert cleaned(failures(21, 22), OLD, FULL, {"i-020": after(-119)}) == []
    (opened,) = cleaned(failures(21, 22), OLD, FULL, {"i-020": after(-120)})
    assert opened.operation.target == "i-021"


def test_one_that_could_not_be_cleaned_up_goes_last():
    (opened,) = cleaned(failures(20, 21, 22), OLD, FULL, {"i-020": after(-200)})
    assert opened.operation.target == "i-021"
    (opened,) = cleaned(failures(20, 21), OLD, FULL, {"i-020": after(-900), "i-021": after(-200)})
    assert opened.operation.target == "i-020"


@pytest.mark.parametrize("last", [-60, -900])
def test_a_cleanup_counts_until_it_is_closed_though_its_instance_is_shutting_down(last):
    ending = instance(20, state=InstanceState.SHUTTING_DOWN, failed=True)
    seen = look(3, instances=[ending], operations=(cleanup(target="i-020", debris=OrphanKind.INSTANCE),))
    assert last_cleanups(seen, {"i-020": after(last)}) == {"i-020": NOON}


def test_cleanups_are_forgotten_when_they_no_longer_matter():
    assert last_cleanups(failures(20), {"i-020": after(-900), "i-021": after(-119), "i-022": after(-120)}, FULL) == {
        "i-020": after(-900),
        "i-021": after(-119),
    }


def test_the_cleanup_of_a_node_whose_instance_is_terminated_keeps_none_waiting():
    ended = [instance(22, state=InstanceState.TERMINATED)]
    seen = look(3, instances=ended, nodes=[node(22)], operations=(cleanup(target="w022", debris=OrphanKind.NODE),))
    assert last_cleanups(seen, {}) == {}


def test_a_stopped_instance_whose_time_has_not_come_keeps_no_failed_join_waiting():
    """Its time is an hour, and the failed joins would fill the pool for so long."""
    stopped = instance(30, state=InstanceState.STOPPED)
    joins = [instance(20, launched_at=after(-980), failed=True), instance(21, launched_at=after(-979), failed=True)]
    seen = look(0, instances=[stopped, *joins])
    since = {"instance i-030": after(-300), "instance i-020": after(-900), "instance i-021": after(-900)}
    assert plan(seen, since, FULL).suspects == since
    told, opened = cleaned(seen, since, FULL)
    assert (told.alert, opened.operation.target) == (AlertKind.UNHEALTHY, "i-020")


def test_what_is_doubtful_beside_them_still_needs_an_operator_if_it_is_much():
    seen = failures(20, 21, nodes=[dead(30), dead(31)])
    since = dict.fromkeys(("instance i-020", "instance i-021", "node i-030", "node i-031"), after(-900))
    told, opened = cleaned(seen, since, FULL)
    assert told.alert is AlertKind.CLEANUP_NEEDS_OPERATOR
    assert "i-020" not in told.text
    assert opened.operation.target == "i-020"


def test_one_that_is_doubtful_goes_before_them_and_takes_their_turn():
    seen = failures(20, 21, nodes=[dead(30)])
    since = dict.fromkeys(("instance i-020", "instance i-021", "node i-030"), after(-900))
    (opened,) = cleaned(seen, since, FULL)
    assert opened.operation.target == "w030"

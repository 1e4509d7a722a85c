"""What workers are worth, which of them a reading covers, and who was lost."""

from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.capacity import count_covered, count_workers, find_vanished, track_members
from nodefleet.model.fleet import Count
from nodefleet.model.inventory import InstanceState, Notice, NoticeKind
from nodefleet.model.operations import RemovalReason
from nodefleet.model.snapshot import Missing, Reading
from nodefleet.model.state import Loss
from nodefleet.phases import derive_workers
from nodefleet.policy.cluster import Policy
from support.builders import NOON, after, instance, look, node
from support.operation_builders import launch, removal

POLICY = Policy()


def fleet(seen):
    return derive_workers(seen, POLICY)


def count(seen) -> Count:
    return count_workers(fleet(seen), seen, "default")


def doom(number: int) -> Notice:
    return Notice(instance=f"i-{number:03}", kind=NoticeKind.SPOT_INTERRUPTION, at=after(-5))


def leaving(number: int, why=RemovalReason.VOLUNTARY):
    return removal(instance=f"i-{number:03}", node=f"w{number:03}", why=why)


def test_ready_and_booting_are_capacity():
    seen = look(2, instances=[instance(7, launched_at=after(-10))])
    assert count(seen) == Count(ready=2, booting=1, occupied=3)
    assert count(seen).capacity == 3


def test_a_worker_that_is_not_ready_for_a_short_time_still_counts():
    seen = look(1, instances=[instance(1)], nodes=[node(1, ready=False, ready_changed_at=after(-60))])
    assert count(seen) == Count(ready=2, occupied=2)


def test_what_is_not_capacity_may_still_occupy():
    seen = look(
        4,
        operations=(leaving(0),),
        notices=(doom(1),),
        instances=[instance(5), instance(6)],
        nodes=[node(6, ready=False, ready_changed_at=after(-600))],
    )
    # 0 leaves, 1 is interrupted, 2 and 3 are ready, 5 never joined, 6 is unhealthy
    assert count(seen) == Count(ready=2, leaving=1, interrupted=1, failed=2, occupied=5)


def test_a_launch_that_is_not_seen_yet_is_booting_capacity():
    seen = look(2, operations=(launch(count=2),))
    assert count(seen) == Count(ready=2, booting=2, occupied=4)


def test_what_a_launch_has_made_is_not_counted_twice():
    made = instance(7, launched_at=after(-10), operation="l1")
    seen = look(2, instances=[made], operations=(launch(count=2),))
    assert count(seen) == Count(ready=2, booting=2, occupied=4)


def test_only_launches_of_the_own_pool_count():
    seen = look(2, operations=(launch(pool="gpu", count=2),))
    assert count(seen) == Count(ready=2, occupied=2)


def test_without_ec2_only_open_launches_are_counted():
    seen = look(2, operations=(launch(count=1),))
    assert count(replace(seen, instances=Missing("x"))) == Count(booting=1, occupied=1)


@pytest.mark.parametrize(("ready_since", "number"), [(-60, 4), (0, 4), (1, 3)])
def test_a_reading_covers_the_workers_that_were_ready_when_it_was_taken(ready_since, number):
    seen = look(3, instances=[instance(3)], nodes=[node(3, ready_changed_at=after(ready_since))])
    assert count_covered(fleet(seen), Reading(50, NOON)) == number


def test_without_a_reading_every_ready_worker_is_covered():
    seen = look(3, instances=[instance(3)], nodes=[node(3, ready_changed_at=after(60))])
    assert count_covered(fleet(seen), Missing("x")) == 4


def test_a_worker_that_does_not_say_since_when_it_is_ready_is_covered():
    seen = look(0, instances=[instance(3)], nodes=[node(3, ready_changed_at=None)])
    assert count_covered(fleet(seen), Reading(50, NOON)) == 1


def test_a_worker_that_has_just_become_unready_was_covered():
    seen = look(0, instances=[instance(3)], nodes=[node(3, ready=False, ready_changed_at=after(1))])
    assert count_covered(fleet(seen), Reading(50, NOON)) == 1


def test_booting_and_leaving_workers_are_not_covered():
    seen = look(2, instances=[instance(3, launched_at=after(-5))], operations=(leaving(0),))
    assert count_covered(fleet(seen), Reading(50, NOON)) == 1


def gone(seen, members, before=None):
    return find_vanished(fleet(seen), members, before or {}, NOON, timedelta(seconds=120))


def test_a_member_that_nobody_shows_any_more_has_vanished():
    assert gone(look(2), ("i-000", "i-009")) == {"i-009": NOON}
    assert gone(look(2), (), {"i-009": after(-60)}) == {"i-009": after(-60)}


def test_it_has_not_while_a_node_or_ec2_still_tells_of_it():
    ended = look(2, instances=[instance(9, state=InstanceState.TERMINATED)])
    assert gone(ended, ("i-009",)) == {}
    assert gone(look(2, nodes=[node(9)]), ("i-009",)) == {}


def test_a_node_that_is_not_ready_proves_nothing_about_an_instance_that_ec2_does_not_list():
    """An empty list and a node that flaps: taken as gone, it was launched again beside itself, beyond max."""
    flaps = node(9, ready=False, ready_changed_at=after(-20))
    assert gone(look(2, nodes=[flaps]), ("i-009",)) == {"i-009": NOON}


def test_one_that_is_back_or_away_for_long_is_forgotten():
    assert gone(look(2), (), {"i-001": after(-60)}) == {}
    assert gone(look(2), (), {"i-009": after(-120), "i-008": after(-119)}) == {"i-008": after(-119)}


def test_one_that_still_stands_among_the_members_is_away_since_it_was_first_missed():
    assert gone(look(2), ("i-009",), {"i-009": after(-60)}) == {"i-009": after(-60)}


def lost(seen, before, losses=(), looked_at=None):
    return track_members(fleet(seen), before, losses, NOON, looked_at)


def test_members_are_those_who_are_capacity():
    seen = look(3, notices=(doom(2),))
    assert lost(seen, ()).members == ("i-000", "i-001")


def test_an_interrupted_member_is_lost():
    assert lost(look(3, notices=(doom(2),)), ("i-002",)).losses == (Loss(worker="i-002", at=NOON, cause="interrupted"),)


@pytest.mark.parametrize(("looked", "lost_ones"), [(-31, ["i-007"]), (-30, []), (-1, []), (None, [])])
def test_a_worker_that_is_taken_before_any_look_saw_it_is_lost_too_and_once(looked, lost_ones):
    seen = look(2, instances=[instance(7, launched_at=after(-30))], notices=(doom(7),))
    looked_at = None if looked is None else after(looked)
    assert [loss.worker for loss in lost(seen, (), looked_at=looked_at).losses] == lost_ones


def test_a_worker_that_is_new_and_stays_is_no_loss():
    seen = look(2, instances=[instance(7, launched_at=after(-30))])
    assert lost(seen, (), looked_at=after(-60)).losses == ()


def test_a_vanished_member_is_lost():
    assert lost(look(2), ("i-000", "i-009")).losses == (Loss(worker="i-009", at=NOON, cause="gone"),)


def test_a_terminated_member_is_lost():
    seen = look(2, instances=[instance(3, state=InstanceState.SHUTTING_DOWN)])
    assert [loss.cause for loss in lost(seen, ("i-003",)).losses] == ["terminating"]


def test_a_member_that_we_let_go_is_no_loss():
    assert lost(look(3, operations=(leaving(2),)), ("i-002",)).losses == ()


def test_a_member_that_ec2_takes_while_it_leaves_is_a_loss_after_all():
    seen = look(3, operations=(leaving(2),), notices=(doom(2),))
    assert [loss.worker for loss in lost(seen, ("i-002",)).losses] == ["i-002"]


def test_a_sick_member_is_a_loss_even_while_it_is_removed():
    seen = look(3, operations=(leaving(2, RemovalReason.UNHEALTHY),))
    assert [loss.worker for loss in lost(seen, ("i-002",)).losses] == ["i-002"]


def test_a_member_that_a_person_cordoned_is_no_loss():
    seen = look(2, instances=[instance(3)], nodes=[node(3, cordoned=True)])
    assert lost(seen, ("i-003",)).losses == ()


def test_a_loss_is_counted_once_and_kept_until_it_is_made_up_for():
    seen = look(3, notices=(doom(2),))
    known = (Loss(worker="i-002", at=after(-60), cause="interrupted"),)
    assert lost(seen, ("i-002",), known).losses == known
    assert lost(seen, (), known).losses == known


def test_a_lost_worker_that_is_back_is_no_loss_any_more():
    known = (Loss(worker="i-001", at=after(-60), cause="unhealthy"),)
    assert lost(look(2), (), known).losses == ()


@pytest.mark.parametrize(("expires", "kept"), [(1, True), (0, False)])
def test_what_is_owed_is_owed_until_it_expires(expires, kept):
    owed = (Loss(worker="launch/1", at=after(-60), cause="not given by EC2", expires=after(expires)),)
    assert bool(lost(look(2), (), owed).losses) is kept

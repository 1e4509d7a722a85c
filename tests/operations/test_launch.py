"""A launch is sent until it is answered, adopts what is its own, and closes with what became of each instance."""

from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.model.alerts import AlertKind
from nodefleet.model.inventory import InstanceState, Market, Notice, NoticeKind
from nodefleet.model.operations import (
    Close,
    Joined,
    JoinFailed,
    MarkFailed,
    Outcome,
    Purpose,
    Refusal,
    RefusalKind,
    Save,
    SendAlert,
    SendLaunch,
    Shortage,
    Shortfall,
)
from nodefleet.model.state import Memory, PoolMemory
from nodefleet.operations.advance import advance
from nodefleet.operations.launch import advance_launch, record_answer
from nodefleet.operations.progress import Progress, apply_feedback
from nodefleet.phases import derive_workers
from nodefleet.policy.cluster import FleetLimits, Policy
from nodefleet.policy.pool import Health, MarketMix, Pool, Steps
from support.builders import CATALOG, NOON, after
from support.operation_builders import (
    AWAY,
    POLICY,
    closed,
    effects,
    instance,
    interrupted,
    kept,
    lacking,
    launch,
    look,
    node,
    removal,
    told,
)
from support.wording import assert_wording

REQUEST = ("id", "pool", "zone", "market", "types", "count", "template", "template_version", "subnet", "max_price_usd")


def fresh(identity="i-1", **changes):
    return instance(identity, **{"launched_at": NOON, "operation": "l1"} | changes)


def one(**changes):
    """A launch of one instance that EC2 has answered and that was learned from."""
    return launch(
        **{"count": 1, "answered": True, "answered_at": NOON, "learned": True, "instances": ("i-1",)} | changes
    )


def ready(name="w1", seconds=80.0, **changes):
    return node(name, **{"ready_changed_at": after(seconds)} | changes)


# ── the request ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_new_launch_is_counted_stored_and_sent():
    progress = advance(launch(), look(), POLICY)
    counted = launch(attempts=1)
    assert progress == Progress(steps=(Save(counted), SendLaunch(counted)))


def test_what_is_sent_again_is_the_same_request():
    first, second = launch(), kept(advance(launch(), look(), POLICY))
    again = effects(advance(second, look(100), POLICY))[0].launch
    assert again.attempts == 2
    assert all(getattr(again, name) == getattr(first, name) for name in REQUEST)


@pytest.mark.parametrize(
    ("seconds", "changes", "sent"),
    [
        (299, {}, True),
        (300, {}, False),  # its caller's time is over
        (0, {"kubernetes": AWAY}, False),
        (0, {"instances": AWAY}, False),
        (299, {"instances": (fresh(),)}, True),  # one of two: the answer is still wanted
        (0, {"instances": (fresh(), fresh("i-2"))}, False),  # no more can come
    ],
)
def test_a_launch_is_sent_only_while_its_answer_is_missing(seconds, changes, sent):
    steps = effects(advance(launch(), look(seconds, **changes), POLICY))
    assert [isinstance(step, SendLaunch) for step in steps] == [True] * sent


@pytest.mark.parametrize(("there", "sent"), [(8, True), (9, False)])
def test_nothing_is_sent_beyond_max(there, sent):
    """EC2 had not shown them when it was decided, or max was lowered since."""
    others = [instance(f"i-{number}") for number in range(there)]
    progress = advance(launch(count=2), look(30, others, operations=(launch(count=2),)), POLICY)
    assert any(isinstance(step, SendLaunch) for step in progress.steps) is sent
    other_pool = [instance(f"i-{number}", pool="other") for number in range(there)]
    two_pools = replace(POLICY, pools=(*POLICY.pools, Pool(name="other")))
    progress = advance(launch(count=2), look(30, other_pool, operations=(launch(count=2),)), two_pools)
    assert any(isinstance(step, SendLaunch) for step in progress.steps)
    # Workers that no pool owns count against what all pools together may have.
    limited = replace(POLICY, fleet=FleetLimits(max=POLICY.fleet_max))
    progress = advance(launch(count=2), look(30, other_pool, operations=(launch(count=2),)), limited)
    assert any(isinstance(step, SendLaunch) for step in progress.steps) is sent
    # A limit that nobody wrote does not keep the pool below its min.
    progress = advance(launch(count=2), look(30, other_pool, operations=(launch(count=2),)), POLICY)
    assert any(isinstance(step, SendLaunch) for step in progress.steps)


@pytest.mark.parametrize(
    ("there", "cores", "sent"),
    [(3, 10, True), (4, 10, False), (0, 2, True)],  # the last: it restores min
)
def test_nothing_is_sent_beyond_a_cap_of_the_fleet_but_to_restore_min(there, cores, sent):
    """A worker that EC2 was to take stays after all, or the cap was lowered since it was decided."""
    others = [instance(f"i-{number}", type="t3.small", launched_at=after(0)) for number in range(there)]
    given = look(30, others, operations=(launch(count=2),), catalog=CATALOG)
    progress = advance(launch(count=2), given, replace(POLICY, fleet=FleetLimits(cpu=cores)))
    assert any(isinstance(step, SendLaunch) for step in progress.steps) is sent


@pytest.mark.parametrize(
    ("unlisted_for", "sent"),
    [(None, False), (119, False), (120, True)],  # None: since this iteration
)
def test_members_that_ec2_does_not_list_count_against_max_for_a_while(unlisted_for, sent):
    """A list may lack a page, and eight listed workers and two new ones would be ten of ten."""
    listed = [instance(f"i-{number}") for number in range(8)]
    members = tuple(f"i-{number}" for number in range(9))
    if unlisted_for is None:
        before = PoolMemory(members=members)
    else:
        before = PoolMemory(members=members[:8], vanished={"i-8": after(30 - unlisted_for)})
    memory = Memory(pools={"default": before})
    seen = look(30, listed, operations=(launch(count=2),))
    progress = advance(launch(count=2), seen, POLICY, memory=memory)
    assert any(isinstance(step, SendLaunch) for step in progress.steps) is sent
    assert any(isinstance(step, SendLaunch) for step in advance(launch(count=2), seen, POLICY).steps)


@pytest.mark.parametrize(("late", "sent"), [(1199, True), (1200, False)])
def test_a_worker_that_ec2_did_not_take_leaves_no_room_for_its_replacement(late, sent):
    others = [instance(f"i-{number}") for number in range(9)]
    doomed = interrupted(instance="i-0", node="", deadline=after(-late))
    progress = advance(launch(count=2), look(0, others, operations=(launch(count=2), doomed)), POLICY)
    assert any(isinstance(step, SendLaunch) for step in progress.steps) is sent


def test_an_answered_launch_is_not_sent_again():
    assert effects(advance(record_answer(launch(), ["i-1"], [], NOON), look(5), POLICY)) == []


def test_the_answer_holds_what_ec2_gave_and_lacked():
    after_answer = record_answer(launch(instances=("i-1",)), ["i-1", "i-2"], lacking("t3.small", "t3.small"), after(3))
    assert after_answer == launch(
        answered=True, answered_at=after(3), instances=("i-1", "i-2"), refusals=(Refusal(type="t3.small"),)
    )


def test_instances_with_its_tag_are_adopted_though_the_answer_was_lost():
    seen = look(20, [fresh("i-9"), fresh("i-3"), fresh("i-4", operation="l2"), fresh("i-5", worker=False)])
    progress = advance(launch(count=3), seen, POLICY)
    assert kept(progress).instances == ("i-3", "i-9")
    assert not kept(progress).answered


def test_once_all_that_was_asked_for_shows_it_counts_as_answered():
    progress = advance(launch(), look(20, [fresh("i-1"), fresh("i-2")]), POLICY)
    assert kept(progress).answered
    assert kept(progress).attempts == 0
    assert told(progress) == []


@pytest.mark.parametrize(("seconds", "is_closed"), [(300, False), (419, False), (420, True)])
def test_an_unanswered_launch_without_instances_fails_an_interval_after_its_deadline(seconds, is_closed):
    progress = advance(launch(attempts=2), look(seconds), POLICY)
    close = Close(operation="l1", outcome=Outcome.FAILED, detail="0 of 2 joined, EC2 never answered for 2")
    assert progress == Progress(steps=(close,) if is_closed else ())


def test_an_unanswered_launch_fails_in_time_though_kubernetes_is_away():
    assert closed(advance(launch(), look(420, kubernetes=AWAY), POLICY)).outcome is Outcome.FAILED


def test_an_unanswered_launch_never_closes_without_ec2s_word():
    assert advance(launch(), look(9999, instances=AWAY), POLICY) == Progress()


def test_what_shows_an_interval_after_the_deadline_is_all_there_is():
    progress = advance(launch(), look(420, [fresh(launched_at=after(200))]), POLICY)
    assert kept(progress) == launch(answered=True, instances=("i-1",))
    progress = advance(kept(progress), look(430, [fresh(launched_at=after(200))], [ready()]), POLICY)
    assert_wording(closed(progress).detail)


# ── what EC2 lacked ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_shortage_is_learned_and_told_once():
    short = record_answer(launch(), ["i-1"], lacking("t3.small", "t3a.small"), NOON)
    progress = advance(short, look(10, [fresh()]), POLICY)
    assert progress.lessons == (
        Shortage(pool="default", type="t3.small", zone="a", market=Market.SPOT, until=after(600)),
        Shortage(pool="default", type="t3a.small", zone="a", market=Market.SPOT, until=after(600)),
        Shortfall(pool="default", launch="l1", missing=1, at=NOON),
    )
    assert progress.steps == (
        SendAlert(
            alert=AlertKind.NO_CAPACITY,
            pool="default",
            subjects=("a spot",),
            text="EC2 gave 1 of 2 Spot nodes in a: no capacity for t3.small, t3a.small."
            " If it stays so, give the pool more types or zones",
        ),
        Save(replace(short, learned=True)),
    )
    assert advance(kept(progress), look(20, [fresh()]), POLICY) == Progress()


def test_what_on_demand_lacks_is_learned_of_on_demand():
    short = record_answer(launch(market=Market.ON_DEMAND), [], lacking("t3.small"), NOON)
    lessons = advance(short, look(10, []), POLICY).lessons
    assert [each.market for each in lessons if isinstance(each, Shortage)] == [Market.ON_DEMAND]


def test_how_long_a_shortage_is_remembered_is_the_pools():
    policy = Policy(pools=(Pool(market=MarketMix(remember_shortage=timedelta(seconds=60))),))
    progress = advance(record_answer(launch(), [], lacking("t3.small"), after(5)), look(10), policy)
    assert progress.lessons[0].until == after(65)


def test_a_shortage_that_another_type_made_up_for_is_learned_but_not_told():
    progress = advance(record_answer(launch(count=1), ["i-1"], lacking("t3.small"), NOON), look(10, [fresh()]), POLICY)
    assert [lesson.type for lesson in progress.lessons] == ["t3.small"]
    assert told(progress) == []


def test_fewer_nodes_without_a_reason_are_told_too():
    progress = advance(record_answer(launch(), ["i-1"], [], NOON), look(10, [fresh()]), POLICY)
    assert progress.lessons == (Shortfall(pool="default", launch="l1", missing=1, at=NOON),)
    assert_wording(told(progress)[0].text)


@pytest.mark.parametrize(
    ("pending", "types", "purpose", "again"),
    [
        ("packing", ("t3.small",), Purpose.GROW, True),
        ("packing", ("t3.small", "t3.medium"), Purpose.GROW, False),  # any node of the pool
        ("packing", ("t3.small",), Purpose.RESTORE, False),
        ("steps", ("t3.small",), Purpose.GROW, False),  # its pods would wait for the cooldown
    ],
)
def test_what_was_bought_for_certain_pods_is_not_owed_as_they_are_packed_again(pending, types, purpose, again):
    pool = Pool(market=MarketMix(types=("t3.small", "t3.medium")), steps=Steps(pending=pending))
    short = record_answer(launch(types=types, purpose=purpose), [], lacking(*types), NOON)
    progress = advance(short, look(10, []), Policy(pools=(pool,)))
    (shortfall,) = (each for each in progress.lessons if isinstance(each, Shortfall))
    assert shortfall.packed_again is again
    memory = apply_feedback(Memory(), [shortfall], Policy(pools=(pool,)), after(10))
    assert len(memory.pool("default").losses) == (0 if again else 2)


@pytest.mark.parametrize(
    ("refusal", "alert", "said"),
    [
        (
            Refusal(type="t3.small", kind=RefusalKind.QUOTA, code="VcpuLimitExceeded"),
            AlertKind.QUOTA,
            "the account's quota is reached for t3.small (VcpuLimitExceeded). Ask AWS for a higher quota",
        ),
        (
            Refusal(type="t3.small", kind=RefusalKind.PERMISSION, remedy="Make the Spot service-linked role"),
            AlertKind.PERMISSION,
            "the autoscaler may not launch t3.small. Make the Spot service-linked role",
        ),
        (
            Refusal(type="t3.small", kind=RefusalKind.INVALID),
            AlertKind.LAUNCH_INVALID,
            "the request is invalid for t3.small. Look at the launch template",
        ),
    ],
)
def test_people_are_told_who_can_do_something_about_a_refusal(refusal, alert, said):
    progress = advance(record_answer(launch(), [], [refusal], NOON), look(1), POLICY)
    assert [tell.alert for tell in told(progress)] == [alert]
    assert said in told(progress)[0].text


def test_refusals_of_several_kinds_are_told_apart():
    refusals = [Refusal(type="t3.small"), Refusal(type="t3a.small", kind=RefusalKind.QUOTA)]
    progress = advance(record_answer(launch(), [], refusals, NOON), look(1), POLICY)
    assert [tell.alert for tell in told(progress)] == [AlertKind.NO_CAPACITY, AlertKind.QUOTA]


def test_a_launch_that_got_nothing_closes_at_once():
    progress = advance(record_answer(launch(), [], lacking("t3.small"), NOON), look(1), POLICY)
    assert closed(progress) == Close(operation="l1", outcome=Outcome.FAILED, detail="0 of 2 joined, 2 not given by EC2")
    assert (len(told(progress)), len(progress.lessons)) == (1, 2)


def test_a_swap_of_markets_that_got_nothing_owes_nothing():
    """The pool is as large as it has to be without it. What is short is remembered and told all the same."""
    refused = record_answer(launch(purpose=Purpose.MARKET), [], lacking("t3.small"), NOON)
    progress = advance(refused, look(1), POLICY)
    assert [type(lesson) for lesson in progress.lessons] == [Shortage]
    assert len(told(progress)) == 1


# ── its instances ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_ready_node_has_joined():
    progress = advance(one(), look(95, [fresh()], [ready()]), POLICY)
    assert progress.lessons == (Joined(pool="default", instance="i-1", took=timedelta(seconds=80), at=after(95)),)
    assert progress.steps == (Close(operation="l1", outcome=Outcome.DONE, detail="1 of 1 joined"),)


def test_what_is_learned_while_the_answer_is_missing_is_not_lost():
    progress = advance(launch(), look(95, [fresh()], [ready()]), POLICY)
    assert [type(step) for step in progress.steps] == [Save, SendLaunch]
    assert [type(lesson) for lesson in progress.lessons] == [Joined]


def test_an_instance_that_joined_before_does_not_hide_the_next():
    seen = look(95, [fresh("i-1"), fresh("i-2")], [ready(), ready("w2", instance="i-2")])
    progress = advance(one(count=2, instances=("i-1", "i-2"), joined=("i-1",)), seen, POLICY)
    assert [lesson.instance for lesson in progress.lessons] == ["i-2"]
    assert closed(progress).detail == "2 of 2 joined"


def test_without_its_own_time_the_look_tells_how_long_joining_took():
    progress = advance(one(), look(95, [fresh()], [ready(ready_changed_at=None)]), POLICY)
    assert progress.lessons[0].took == timedelta(seconds=95)


def test_a_node_that_joined_is_learned_once_while_others_boot():
    seen = look(95, [fresh("i-1"), fresh("i-2")], [ready()])
    progress = advance(one(count=2, instances=("i-1", "i-2")), seen, POLICY)
    assert kept(progress).joined == ("i-1",)
    assert [lesson.instance for lesson in progress.lessons] == ["i-1"]
    assert advance(kept(progress), seen, POLICY) == Progress()


@pytest.mark.parametrize(
    ("seconds", "changes", "fails"),
    [
        (299, {}, False),
        (300, {}, True),
        (300, {"kubernetes": AWAY}, False),
        (300, {"instances": AWAY}, False),
    ],
)
def test_an_instance_must_join_within_the_limit(seconds, changes, fails):
    progress = advance(one(), look(seconds, **{"instances": (fresh(),)} | changes), POLICY)
    assert [type(lesson) for lesson in progress.lessons] == [JoinFailed] * fails


def test_a_failed_join_is_marked_told_and_learned_before_the_launch_closes():
    progress = advance(one(), look(300, [fresh()]), POLICY)
    assert progress == Progress(
        steps=(
            Save(one(marking_since=after(300))),
            MarkFailed("i-1"),
            SendAlert(
                alert=AlertKind.JOIN_FAILED,
                pool="default",
                subjects=("i-1",),
                text="i-1 in a did not join within 300 s."
                " It is marked: look at its console output and the K3s agent's log",
            ),
            Close(operation="l1", outcome=Outcome.FAILED, detail="0 of 1 joined, 1 did not join"),
        ),
        lessons=(JoinFailed(pool="default", instance="i-1", at=after(300)),),
    )


@pytest.mark.parametrize(("seconds", "marked"), [(3599, True), (3600, False)])
def test_a_mark_that_cannot_be_set_does_not_keep_the_launch_open(seconds, marked):
    """It is tried for as long as a join may take, however old the instance is by then."""
    progress = advance(one(marking_since=after(3300)), look(seconds, [fresh()]), POLICY)
    assert (MarkFailed("i-1") in progress.steps) is marked
    assert_wording(told(progress)[0].text)
    assert closed(progress).outcome is Outcome.FAILED
    assert [type(lesson) for lesson in progress.lessons] == [JoinFailed]


def test_an_instance_is_marked_after_a_long_outage_of_the_functions():
    assert MarkFailed("i-1") in advance(one(), look(7200, [fresh()]), POLICY).steps


def test_since_when_a_mark_is_tried_is_stored_before_it_and_forgotten_after_it():
    two = one(count=2, instances=("i-1", "i-2"))
    both = [fresh(), replace(fresh(), id="i-2", launched_at=after(299))]
    first, mark, _, last = advance(two, look(300, both), POLICY).steps
    assert (first, mark) == (Save(replace(two, marking_since=after(300))), MarkFailed("i-1"))
    assert last == Save(replace(two, lost=("i-1",)))
    again = advance(first.operation, look(400, both), POLICY).steps
    assert again[0] == MarkFailed("i-1")
    assert again[-1] == last


def test_the_end_of_a_silence_is_stored_before_a_mark_that_may_fail_for_ever():
    first, mark, *_ = advance(one(silent_since=after(400)), look(450, [fresh()]), POLICY).steps
    assert first == Save(one(silent=timedelta(seconds=50), marking_since=after(450)))
    assert mark == MarkFailed("i-1")


def test_the_limit_is_the_pools():
    policy = Policy(pools=(Pool(health=Health(join_limit=timedelta(seconds=30))),))
    assert told(advance(one(), look(29, [fresh()]), policy)) == []
    assert_wording(told(advance(one(), look(30, [fresh()]), policy))[0].text)


def test_the_mark_stands_before_the_state_that_would_hide_it():
    seen = look(300, [fresh("i-1"), fresh("i-2", launched_at=after(100))])
    progress = advance(one(count=2, instances=("i-1", "i-2")), seen, POLICY)
    assert [type(step) for step in progress.steps] == [Save, MarkFailed, SendAlert, Save]
    assert progress.steps[0].operation.lost == ()
    assert advance(kept(progress), seen, POLICY) == Progress()


def test_ready_wins_over_join_failed():
    seen = look(400, [fresh("i-1", failed=True), fresh("i-2", launched_at=after(200))], [ready(seconds=390)])
    progress = advance(one(count=2, instances=("i-1", "i-2"), lost=("i-1",)), seen, POLICY)
    assert kept(progress).joined == ("i-1",)
    assert kept(progress).lost == ()
    assert [type(lesson) for lesson in progress.lessons] == [Joined]


def test_ready_wins_at_the_limit_and_long_after():
    progress = advance(one(), look(900, [fresh(failed=True)], [ready(seconds=890)]), POLICY)
    assert closed(progress).outcome is Outcome.DONE


def test_a_marked_instance_is_not_given_up_while_kubernetes_is_away():
    progress = advance(one(), look(400, [fresh(failed=True)], kubernetes=AWAY), POLICY)
    assert closed(progress) is None
    assert progress.lessons == ()


SICK_SINCE = after(10)


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (
            look(310, [fresh()], [node(ready=False, ready_changed_at=SICK_SINCE)]),
            "joined, but its node never became ready. Look at what `kubectl describe node` says of it",
        ),
        (
            look(50, [fresh(state=InstanceState.TERMINATED)]),
            "ended before it joined. Look at its state transition reason in EC2",
        ),
        (
            look(50, [fresh(state=InstanceState.SHUTTING_DOWN)]),
            "ended before it joined. Look at its state transition reason in EC2",
        ),
        (
            look(50, [fresh(state=InstanceState.STOPPED)]),
            "ended before it joined. Look at its state transition reason in EC2",
        ),
        (
            look(350, [fresh(state=InstanceState.TERMINATED)], [node(ready=False)]),
            "ended before it joined. Look at its state transition reason in EC2",
        ),
        (
            look(50, [fresh(state=InstanceState.TERMINATED)], kubernetes=AWAY),
            "ended before it joined. Look at its state transition reason in EC2",
        ),
        (
            look(120, nodes=[node(ready=False, ready_changed_at=after(100))]),
            "was launched, but EC2 does not show it. Look for who terminated it or took its tags away",
        ),
        (
            look(120),
            "was launched, but EC2 does not show it. Look for who terminated it or took its tags away",
        ),
    ],
)
def test_an_instance_that_is_lost_before_it_joined_is_learned_and_told(seen, words):
    progress = advance(one(), seen, POLICY)
    assert told(progress) == [
        SendAlert(alert=AlertKind.JOIN_FAILED, pool="default", subjects=("i-1",), text=f"i-1 in a {words}")
    ]
    unlisted = not seen.instances
    assert progress.lessons == (JoinFailed(pool="default", instance="i-1", at=seen.at, unlisted=unlisted),)
    assert effects(progress) == []
    assert closed(progress).outcome is Outcome.FAILED


@pytest.mark.parametrize(
    "seen",
    [
        look(119),  # EC2 shows a new instance late
        look(119, nodes=[node(ready=False, ready_changed_at=after(100))]),  # … later than its node registers
        look(299, [fresh()]),
        look(299, [fresh()], [node(ready=False, ready_changed_at=SICK_SINCE)]),
        look(305, [fresh()], [node(ready=False, ready_changed_at=SICK_SINCE)]),  # not unhealthy yet
    ],
)
def test_a_booting_instance_is_waited_for(seen):
    assert advance(one(), seen, POLICY) == Progress()


def test_an_adopted_instance_that_vanishes_counts_from_the_start_of_its_launch():
    adopted = one(answered_at=None, count=2, instances=("i-1", "i-2"))
    assert advance(adopted, look(119), POLICY) == Progress()
    assert len(advance(adopted, look(120), POLICY).lessons) == 2


@pytest.mark.parametrize("state", [InstanceState.RUNNING, InstanceState.TERMINATED])
def test_an_instance_that_ec2_takes_is_no_join_trouble(state):
    notice = Notice(instance="i-1", kind=NoticeKind.SPOT_INTERRUPTION, at=NOON)
    progress = advance(one(), look(60, [fresh(state=state)], notices=(notice,)), POLICY)
    assert progress == Progress(
        steps=(Close(operation="l1", outcome=Outcome.FAILED, detail="0 of 1 joined, 1 did not join"),)
    )


def test_a_node_that_is_ready_has_joined_even_if_ec2_takes_it():
    notice = Notice(instance="i-1", kind=NoticeKind.SPOT_INTERRUPTION, at=NOON)
    progress = advance(one(), look(95, [fresh()], [ready()], notices=(notice,)), POLICY)
    assert closed(progress).outcome is Outcome.DONE


@pytest.mark.parametrize("first", [True, False])
def test_an_instance_that_a_removal_has_is_settled_in_silence(first):
    taken = removal(node="")
    operations = (taken, one()) if first else (one(), taken)
    progress = advance(one(), look(60, [fresh()], operations=operations), POLICY)
    assert progress.lessons == ()
    assert told(progress) == []
    assert closed(progress) is not None


# ── the join clock ───────────────────────────────────────────────────────────────────────────────────────────────


def follow(operation, *looks):
    """The launch after one iteration after the other, and the last iteration's progress."""
    progress = Progress()
    for seen in looks:
        progress = advance(operation, replace(seen, operations=(operation,)), POLICY)
        operation = next((step.operation for step in progress.steps if isinstance(step, Save)), operation)
    return operation, progress


def away(seconds):
    return look(seconds, [fresh()], kubernetes=AWAY)


def booting(seconds):
    return look(seconds, [fresh()])


@pytest.mark.parametrize(("seconds", "fails"), [(460, False), (499, False), (500, True)])
def test_the_join_clock_stands_still_while_the_api_server_is_silent(seconds, fails):
    _, progress = follow(one(), booting(60), away(100), away(200), booting(300), booting(seconds))
    assert (closed(progress) is not None) is fails


def test_the_first_answer_after_a_silence_fails_nobody():
    _, progress = follow(one(), away(100), booting(1000))
    assert closed(progress) is None


def test_silences_add_up():
    operation, progress = follow(one(), away(100), booting(150), away(200), booting(250))
    assert operation.silent == timedelta(seconds=100)
    assert operation.silent_since is None
    assert closed(progress) is None


def test_the_beginning_of_a_silence_is_noted_once():
    operation, progress = follow(one(), away(100), away(110))
    assert operation.silent_since == after(100)
    assert progress == Progress()


def test_silence_before_there_is_an_instance_does_not_count():
    operation, _ = follow(launch(), look(10, kubernetes=AWAY))
    assert operation == launch()


def test_a_launch_of_a_pool_that_the_policy_no_longer_has_still_ends():
    progress = advance(one(pool="gone"), look(300, [fresh(pool="gone")]), POLICY)
    assert closed(progress).outcome is Outcome.FAILED
    assert progress.lessons[0].pool == "gone"


def test_the_token_fits_ec2_and_differs_with_the_id():
    long = launch(id="a-cluster-with-a-long-name-f12345-20261116T120000-launch-default-ap-southeast-1a-on-demand-0")
    assert len(long.token) == 64
    assert long.token == replace(long, attempts=3).token != launch().token


# ── a pool that is gone ──────────────────────────────────────────────────────────────────────────────────────────

WITHOUT_IT = Policy(pools=(Pool(name="other"),))


def test_a_launch_of_a_pool_that_is_gone_is_not_sent_and_closed():
    came = advance(launch(), look(), WITHOUT_IT)
    (close,) = came.steps
    assert (close.operation, close.outcome) == ("l1", Outcome.CANCELLED)
    assert came.lessons == ()


def test_a_launch_of_a_pool_that_is_gone_is_not_sent_again_and_what_it_made_is_followed():
    sent = launch(attempts=1)
    assert not any(isinstance(step, SendLaunch | Close) for step in advance(sent, look(), WITHOUT_IT).steps)
    came = advance(sent, look(instances=(fresh(),)), WITHOUT_IT)
    (newer,) = [step.operation for step in came.steps if isinstance(step, Save)]
    assert newer.instances == ("i-1",)
    assert not any(isinstance(step, SendLaunch) for step in came.steps)


# ── warm instances ───────────────────────────────────────────────────────────────────────────────────────────────

START = launch(count=1, types=("t3.small",), market=Market.ON_DEMAND, starts=("i-1",))


def warm(**changes):
    return instance(**{"state": InstanceState.STOPPED, "warm": True} | changes)


def advanced(operation, seen):
    seen = replace(seen, operations=(operation,))
    return advance_launch(operation, seen, POLICY, derive_workers(seen, POLICY), Memory())


def test_a_start_is_sent_until_it_is_answered():
    progress = advanced(START, look(0, [warm()]))
    assert effects(progress) == [SendLaunch(kept(progress))]


def test_a_start_whose_answer_was_lost_shows_by_the_instance_that_runs():
    seen = look(20, [warm(state=InstanceState.PENDING, launched_at=after(10))])
    progress = advanced(START, seen)
    assert effects(progress) == []
    assert (kept(progress).answered, kept(progress).instances) == (True, ("i-1",))


def test_it_takes_the_time_since_the_start_to_join():
    started = warm(state=InstanceState.RUNNING, warm=False, launched_at=after(10), created_at=after(-9000))
    seen = look(60, [started], [node(ready_changed_at=after(45))])
    progress = advanced(replace(START, answered=True, answered_at=after(10), instances=("i-1",)), seen)
    assert closed(progress).outcome is Outcome.DONE
    assert [lesson.took for lesson in progress.lessons] == [timedelta(seconds=35)]


@pytest.mark.parametrize(("at", "lost"), [(100, False), (140, True)])
def test_one_that_stays_stopped_is_lost_once_ec2_should_show_it(at, lost):
    progress = advanced(replace(START, answered=True, answered_at=after(10), instances=("i-1",)), look(at, [warm()]))
    assert bool(closed(progress)) is lost


def test_a_start_that_nobody_answered_in_time_ends_and_the_instance_is_warm_again():
    progress = advanced(START, look(500, [warm()]))
    assert closed(progress).outcome is Outcome.FAILED

"""A leaving node: what comes next in every situation, for each of the three reasons to leave."""

from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.model.alerts import AlertKind
from nodefleet.model.inventory import InstanceState, Notice, NoticeKind
from nodefleet.model.operations import (
    Close,
    Cordon,
    DeleteNode,
    DrainFailed,
    Evict,
    ForceDelete,
    KeepWarm,
    Outcome,
    PodRef,
    Readmitted,
    RemovalReason,
    Save,
    SendAlert,
    Terminate,
    Uncordon,
)
from nodefleet.model.snapshot import emergency
from nodefleet.model.workload import Owner, PodPhase, Rules, Toleration
from nodefleet.operations.advance import advance
from nodefleet.operations.progress import Progress
from nodefleet.operations.removal import advance_removal, cancel_removal
from nodefleet.phases import derive_workers
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Budgets, Pool, RemovalRules
from support.builders import NOON, after
from support.operation_builders import (
    AWAY,
    POLICY,
    budget,
    closed,
    cordoned,
    effects,
    instance,
    interrupted,
    kept,
    look,
    node,
    pod,
    removal,
    told,
)
from support.wording import assert_wording

VOLUNTARY, INTERRUPTED, SICK = RemovalReason.VOLUNTARY, RemovalReason.INTERRUPTED, RemovalReason.UNHEALTHY
RUNNING = [instance()]
SEEN = {"cordoned": True}  # our cordon was seen before
ENDED = [instance(state=InstanceState.TERMINATED)]


def leaving(why, **changes):
    return interrupted(**changes) if why is INTERRUPTED else removal(why, **changes)


def ref(name="web-1"):
    return PodRef(namespace="default", name=name, uid=f"uid-{name}")


def sick_if(why, **changes):
    """The node as a removal for that reason finds it, with our cordon on it."""
    return cordoned(ready=why is not SICK, **changes)


def on_its_way(why, seconds=10.0, pods=(), **changes):
    return look(seconds, RUNNING, [sick_if(why)], pods, **changes)


def returned(name="web-9", **changes):
    """A pod that tolerates every taint, made after the node was cordoned."""
    everything = Rules(tolerations=(Toleration(operator="Exists"),))
    return pod(name, rules=everything, created_at=NOON + timedelta(seconds=5), **changes)


@pytest.mark.parametrize("why", RemovalReason)
def test_a_pod_that_tolerates_every_taint_and_came_back_ends_with_its_node(why):
    progress = advance(leaving(why), on_its_way(why, pods=[returned()]), POLICY)
    assert effects(progress) == [Terminate("i-1", "one node less")]


def test_but_not_more_of_them_than_their_budget_lets_go_at_once():
    pods = [returned("web-8"), returned("web-9"), pod("web-1", node="w2"), pod("web-2", node="w3")]
    held = on_its_way(VOLUNTARY, pods=pods, budgets=[budget(needed="3")])
    assert effects(advance(leaving(VOLUNTARY, cordoned=True, evicting=True), held, POLICY)) == []
    free = on_its_way(VOLUNTARY, pods=pods, budgets=[budget(needed="2")])
    assert effects(advance(leaving(VOLUNTARY), free, POLICY)) == [Terminate("i-1", "one node less")]


# ── the way out, for every reason ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("why", RemovalReason)
def test_first_it_is_cordoned_with_the_reason_on_the_node(why):
    operation = leaving(why)
    seen = look(0, RUNNING, [node(ready=why is not SICK)], [pod()])
    assert advance(operation, seen, POLICY) == Progress(
        steps=(Cordon(node="w1", removal="r1", reason="one node less", deadline=operation.deadline),)
    )


@pytest.mark.parametrize("why", RemovalReason)
def test_an_older_cordon_of_ours_becomes_this_removals_own(why):
    seen = look(0, RUNNING, [cordoned(removal="r0", ready=why is not SICK)], [pod()])
    assert [type(step) for step in effects(advance(leaving(why), seen, POLICY))] == [Cordon]


@pytest.mark.parametrize("why", RemovalReason)
def test_then_its_pods_are_evicted(why):
    pods = [pod("web-1"), pod("web-2"), pod("far-1", node="w2")]
    progress = advance(leaving(why), on_its_way(why, pods=pods), POLICY)
    assert progress == Progress(
        steps=(
            Save(leaving(why, cordoned=True, evicting=True)),
            Evict(node="w1", pods=(ref("web-1"), ref("web-2"))),
        )
    )


@pytest.mark.parametrize("why", RemovalReason)
def test_daemons_and_static_pods_stay(why):
    stays = [pod("agent-1", owner=Owner(kind="DaemonSet", name="agent")), pod("static-1", mirror=True)]
    progress = advance(leaving(why), on_its_way(why, pods=stays), POLICY)
    assert effects(progress) == [Terminate("i-1", "one node less")]


@pytest.mark.parametrize("why", RemovalReason)
def test_only_what_budgets_allow_now_is_evicted(why):
    pods = [pod("web-1"), pod("web-2"), pod("web-3", node="w2"), pod("db-1", owner=Owner(kind="Job", name="j"))]
    progress = advance(leaving(why), on_its_way(why, pods=pods, budgets=[budget(needed="2")]), POLICY)
    assert effects(progress) == [Evict(node="w1", pods=(ref("web-1"), ref("db-1")))]


@pytest.mark.parametrize("why", RemovalReason)
def test_when_no_pod_may_go_now_it_waits(why):
    operation = leaving(why, cordoned=True)
    seen = on_its_way(why, pods=[pod("web-1")], budgets=[budget()])
    assert advance(operation, seen, POLICY) == Progress()


@pytest.mark.parametrize("why", RemovalReason)
@pytest.mark.parametrize(("gone_for", "waits"), [(39, True), (40, True), (41, False)])
def test_a_terminating_pod_is_waited_for_until_ten_seconds_past_its_grace(why, gone_for, waits):
    seen = on_its_way(why, 60, pods=[pod(deleted_at=after(60 - gone_for))])
    assert effects(advance(leaving(why), seen, POLICY)) == ([] if waits else [Terminate("i-1", "one node less")])


@pytest.mark.parametrize("why", RemovalReason)
def test_when_nothing_is_left_it_is_terminated_and_that_is_noted_first(why):
    operation = leaving(why, **SEEN)
    progress = advance(operation, on_its_way(why, 10), POLICY)
    noted = replace(operation, terminating=True, asked_at=after(10), attempts=1)
    assert progress == Progress(steps=(Save(noted), Terminate("i-1", "one node less")))


@pytest.mark.parametrize("why", RemovalReason)
def test_ec2_is_asked_again_while_the_machine_still_runs(why):
    asked = leaving(why, **SEEN, terminating=True, asked_at=after(10), attempts=1)
    progress = advance(asked, on_its_way(why, 20), POLICY)
    assert kept(progress) == replace(asked, attempts=2)
    assert effects(progress) == [Terminate("i-1", "one node less")]


@pytest.mark.parametrize("why", RemovalReason)
def test_a_machine_that_shuts_down_is_waited_for(why):
    seen = look(9999, [instance(state=InstanceState.SHUTTING_DOWN)], [sick_if(why)], [pod()])
    assert advance(leaving(why, terminating=True, cancelled="wanted again"), seen, POLICY) == Progress()


@pytest.mark.parametrize("why", RemovalReason)
def test_when_the_machine_is_gone_its_node_is_deleted(why):
    seen = look(9999, ENDED, [sick_if(why), node("w2", instance="i-2")], [pod()])
    assert effects(advance(leaving(why), seen, POLICY)) == [DeleteNode("w1")]


@pytest.mark.parametrize("why", RemovalReason)
def test_a_node_that_cannot_be_deleted_does_not_keep_its_removal_open_for_ever(why):
    nodes, pods = [sick_if(why)], [pod()]
    tried = kept(advance(leaving(why), look(9999, ENDED, nodes, pods), POLICY))
    assert effects(advance(tried, look(9999 + 299, ENDED, nodes, pods), POLICY)) == [DeleteNode("w1")]
    (closed,) = advance(tried, look(9999 + 300, ENDED, nodes, pods), POLICY).steps
    assert (closed.operation, closed.outcome) == (tried.id, Outcome.DONE)


@pytest.mark.parametrize("why", RemovalReason)
@pytest.mark.parametrize("machines", [[], [instance("i-2")]])
def test_a_machine_that_ec2_does_not_list_is_gone_when_a_second_look_agrees(why, machines):
    """A list may lack a page: nothing is deleted on the word of one."""
    dead = [node(ready=False, ready_changed_at=NOON), node("w2", instance="i-2")]
    first = advance(leaving(why), look(10, machines, dead, [pod()]), POLICY)
    assert first == Progress(steps=(Save(leaving(why, unlisted_since=after(10))),))
    assert advance(kept(first), look(129, machines, dead, [pod()]), POLICY) == Progress()
    assert advance(kept(first), look(130, machines, dead, [pod()]), POLICY).steps[-1:] == (DeleteNode("w1"),)


@pytest.mark.parametrize("why", RemovalReason)
def test_a_ready_node_is_not_deleted_though_ec2_does_not_list_its_machine(why):
    assert advance(leaving(why, unlisted_since=NOON), look(9999, [], [node()], [pod()]), POLICY) == Progress()


@pytest.mark.parametrize("why", RemovalReason)
def test_a_machine_that_is_listed_again_was_never_gone(why):
    before = leaving(why, unlisted_since=NOON)
    seen = look(60, [instance(state=InstanceState.SHUTTING_DOWN)], [sick_if(why)], [pod()])
    assert kept(advance(before, seen, POLICY)).unlisted_since is None


@pytest.mark.parametrize("why", RemovalReason)
def test_without_kubernetes_an_unlisted_machine_is_only_noted(why):
    before = leaving(why)
    first = kept(advance(before, look(10, [], kubernetes=AWAY), POLICY))
    assert (first.unlisted_since, first.silent_since) == (after(10), after(10))
    again = advance(first, look(9999, [], kubernetes=AWAY), POLICY)
    assert (effects(again), closed(again)) == ([], None)


def test_how_long_a_machine_may_be_unlisted_is_the_pools():
    policy = Policy(pools=(Pool(budgets=Budgets(cleanup_after=timedelta(seconds=60))),))
    seen = look(60, [], [node(ready=False)], [])
    assert effects(advance(leaving(RemovalReason.VOLUNTARY, unlisted_since=NOON), seen, policy)) == [DeleteNode("w1")]


@pytest.mark.parametrize("why", RemovalReason)
@pytest.mark.parametrize(("machines", "since"), [([], after(-120)), (ENDED, None)])
def test_when_both_are_gone_it_is_done(why, machines, since):
    close = Close(operation="r1", outcome=Outcome.DONE, detail="w1 is gone")
    assert advance(leaving(why, unlisted_since=since), look(10, machines), POLICY) == Progress(steps=(close,))


@pytest.mark.parametrize("why", RemovalReason)
def test_without_pods_or_a_node_object_a_running_machine_is_terminated(why):
    assert effects(advance(leaving(why, **SEEN), look(10, RUNNING), POLICY)) == [Terminate("i-1", "one node less")]


@pytest.mark.parametrize("why", RemovalReason)
@pytest.mark.parametrize("seconds", [10, 295])
def test_pods_that_outlive_a_deleted_node_object_are_waited_for(why, seconds):
    assert advance(leaving(why, **SEEN), look(seconds, RUNNING, pods=[pod()]), POLICY) == Progress()


@pytest.mark.parametrize("why", RemovalReason)
def test_pods_under_a_name_that_another_machine_took_over_are_not_its_own(why):
    seen = look(10, [*RUNNING, instance("i-2")], [node("w1", instance="i-2")], [pod()])
    assert effects(advance(leaving(why, **SEEN), seen, POLICY)) == [Terminate("i-1", "one node less")]


@pytest.mark.parametrize("why", RemovalReason)
def test_a_worker_that_never_joined_is_terminated_at_once(why):
    unscheduled = pod(node=None, phase=PodPhase.PENDING)
    progress = advance(leaving(why, node=""), look(0, RUNNING, pods=[unscheduled]), POLICY)
    assert effects(progress) == [Terminate("i-1", "one node less")]


def test_a_worker_that_joined_meanwhile_is_drained_under_its_new_name():
    seen = look(0, RUNNING, [cordoned("late")], [pod(node="late")])
    assert effects(advance(interrupted(node=""), seen, POLICY)) == [Evict(node="late", pods=(ref(),))]


@pytest.mark.parametrize("why", RemovalReason)
def test_a_worker_that_never_joined_is_done_without_kubernetes(why):
    close = Close(operation="r1", outcome=Outcome.DONE, detail="i-1 is gone")
    assert advance(leaving(why, node=""), look(0, ENDED, kubernetes=AWAY), POLICY) == Progress(steps=(close,))


@pytest.mark.parametrize("why", RemovalReason)
def test_a_name_that_another_machine_took_over_is_not_touched(why):
    seen = look(10, [*ENDED, instance("i-2")], [node("w1", instance="i-2")], [pod()])
    assert closed(advance(leaving(why), seen, POLICY)).outcome is Outcome.DONE


@pytest.mark.parametrize("why", RemovalReason)
def test_a_node_without_a_provider_id_is_known_by_its_name(why):
    assert effects(advance(leaving(why), look(10, ENDED, [node(instance="")]), POLICY)) == [DeleteNode("w1")]


@pytest.mark.parametrize("why", RemovalReason)
@pytest.mark.parametrize(
    "seen",
    [
        look(9999, [instance(worker=False)], [node()], [pod()]),
        look(9999, RUNNING, [node(control_plane=True)], [pod()]),
        look(9999, RUNNING, [node(pool=None)], [pod()]),
        look(9999, ENDED, [node(control_plane=True)]),
        look(9999, instances=AWAY, nodes=[node(control_plane=True)], pods=[pod()]),
        look(9999, [instance(worker=False)], kubernetes=AWAY),
    ],
)
def test_what_is_not_a_worker_of_ours_is_never_touched(why, seen):
    close = Close(operation="r1", outcome=Outcome.CANCELLED, detail="i-1 is not a worker of ours")
    assert advance(leaving(why), seen, POLICY) == Progress(steps=(close,))


def test_a_caller_that_knows_the_workers_need_not_have_them_derived_again():
    opted_out = cordoned(annotations={"node-fleet.io/scale-down-disabled": "true"})
    seen = look(1, RUNNING, [opted_out], [pod()])
    assert closed(advance(removal(), seen, POLICY, derive_workers(seen, POLICY))) is not None
    assert closed(advance(removal(), seen, POLICY, ())) is None


# ── silence ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("why", RemovalReason)
@pytest.mark.parametrize("missing", [{"kubernetes": AWAY}, {"pods": None}])
@pytest.mark.parametrize("machines", [RUNNING, [instance(state=InstanceState.STOPPED)]])
def test_without_kubernetes_nothing_happens_but_the_clock_stops(why, missing, machines):
    seen = look(9999, **{"instances": machines, "nodes": [sick_if(why)]} | missing)
    progress = advance(leaving(why, cancelled="wanted again"), seen, POLICY)
    assert progress == Progress(steps=(Save(leaving(why, cancelled="wanted again", silent_since=after(9999))),))
    assert advance(kept(progress), replace(seen, at=after(10010)), POLICY) == Progress()


@pytest.mark.parametrize("why", RemovalReason)
def test_without_kubernetes_the_node_of_an_ended_machine_waits(why):
    progress = advance(leaving(why), look(10, ENDED, kubernetes=AWAY), POLICY)
    assert progress == Progress(steps=(Save(leaving(why, silent_since=after(10))),))


@pytest.mark.parametrize("why", RemovalReason)
def test_an_ended_machines_node_goes_though_its_pods_are_not_known(why):
    assert effects(advance(leaving(why), look(10, ENDED, [node()], None), POLICY)) == [DeleteNode("w1")]


@pytest.mark.parametrize("why", [VOLUNTARY, SICK])
def test_without_ec2_draining_pauses(why):
    progress = advance(leaving(why), look(9999, AWAY, [sick_if(why)], [pod()]), POLICY)
    assert progress == Progress(steps=(Save(leaving(why, silent_since=after(9999))),))


def test_without_ec2_a_doomed_node_is_still_drained_but_not_terminated():
    assert effects(advance(interrupted(), look(0, AWAY, [node()], [pod()]), POLICY))[0].node == "w1"
    assert effects(advance(interrupted(), look(5, AWAY, [cordoned()], [pod()]), POLICY)) == [
        Evict(node="w1", pods=(ref(),))
    ]
    assert effects(advance(interrupted(), look(95, AWAY, [cordoned()], [pod()]), POLICY)) == [
        ForceDelete(node="w1", pods=(ref(),))
    ]
    drained = advance(interrupted(**SEEN, silent_since=after(1)), look(9999, AWAY, [cordoned()]), POLICY)
    assert drained == Progress()


@pytest.mark.parametrize(("seconds", "gives_up"), [(400, False), (699, False), (700, True)])
def test_a_deadline_does_not_pass_while_nobody_answers(seconds, gives_up):
    slept = removal(**SEEN, silent=timedelta(seconds=100), silent_since=after(100))
    woken = kept(advance(slept, on_its_way(VOLUNTARY, 400, [pod()]), POLICY))
    assert woken.silent == timedelta(seconds=400)
    progress = advance(woken, on_its_way(VOLUNTARY, seconds, [pod()]), POLICY)
    assert (closed(progress) is not None) is gives_up


def test_a_dead_node_is_not_terminated_because_of_a_silence():
    slept = removal(SICK, **SEEN, silent_since=after(100))
    seen = on_its_way(SICK, 400, [pod()], budgets=[budget()])
    assert effects(advance(slept, seen, POLICY)) == []


# ── voluntary ────────────────────────────────────────────────────────────────────────────────────────────────────


def gave_up(seen, operation=None, policy=POLICY):
    """The blocker's name and what operators are told, of a removal that must be given up at this iteration."""
    progress = advance(operation or removal(**SEEN), seen, policy)
    (lesson,) = progress.lessons
    keep, uncordon, tell, close = progress.steps
    assert keep.operation.readmitting_since == seen.at
    assert uncordon == Uncordon("w1", "r1")
    assert tell.alert is AlertKind.DRAIN_BLOCKED
    assert close.outcome is Outcome.FAILED
    assert close.detail in tell.text
    assert_wording(tell.text)
    assert lesson == DrainFailed(pool="default", node="w1", blocker=lesson.blocker, at=seen.at)
    return lesson.blocker, tell.text.removeprefix("w1 could not be drained: ")


@pytest.mark.parametrize(("seconds", "gives_up"), [(299, False), (300, True)])
def test_at_the_deadline_a_voluntary_drain_is_given_up(seconds, gives_up):
    progress = advance(removal(**SEEN), on_its_way(VOLUNTARY, seconds, [pod()]), POLICY)
    assert (closed(progress) is not None) is gives_up


def test_a_budget_that_said_no_to_the_end_is_named():
    pods = [pod("job-1", deleted_at=after(290)), pod("web-1")]
    seen = on_its_way(VOLUNTARY, 300, pods, budgets=[budget()])
    assert_wording(gave_up(seen))


def test_a_pod_that_does_not_end_is_named():
    seen = on_its_way(VOLUNTARY, 300, [pod("web-2"), pod("web-1", deleted_at=after(290))])
    assert_wording(gave_up(seen))


def test_a_pod_whose_eviction_never_worked_is_named():
    blocker, text = gave_up(on_its_way(VOLUNTARY, 300, [pod()]))
    assert_wording(blocker)
    assert_wording(text)


def test_a_node_that_never_shows_our_cordon_is_given_up():
    progress = advance(removal(), look(300, RUNNING, [node()]), POLICY)
    assert [lesson.blocker for lesson in progress.lessons] == ["cordon"]
    assert effects(progress) == []
    assert_wording(told(progress)[0].text)


def test_a_drained_node_goes_even_at_the_deadline():
    assert effects(advance(removal(**SEEN), on_its_way(VOLUNTARY, 300), POLICY)) == [Terminate("i-1", "one node less")]


def test_a_pod_that_nobody_would_make_again_blocks_at_once():
    assert_wording(gave_up(on_its_way(VOLUNTARY, 1, [pod(), pod("alone", owner=None)])))


def test_several_budgets_on_a_pod_block_at_once():
    budgets = [budget(needed="1"), budget("web-too", needed="1")]
    pods = [pod("web-1"), pod("web-2", node="w2")]
    assert_wording(gave_up(on_its_way(VOLUNTARY, 1, pods, budgets=budgets)))


def test_a_node_that_became_protected_is_given_up():
    opted_out = cordoned(annotations={"node-fleet.io/scale-down-disabled": "true"})
    assert_wording(gave_up(look(1, RUNNING, [opted_out], [pod()])))


def test_a_pod_that_became_protected_stops_the_drain_unless_it_goes_already():
    marked = pod(annotations={"node-fleet.io/safe-to-evict": "false"})
    assert_wording(gave_up(on_its_way(VOLUNTARY, 1, [marked]))[0])
    going = replace(marked, deleted_at=after(0))
    assert advance(removal(**SEEN), on_its_way(VOLUNTARY, 1, [going]), POLICY) == Progress()


@pytest.mark.parametrize("why", [INTERRUPTED, SICK])
def test_nothing_protects_a_node_that_is_lost_anyway(why):
    seen = on_its_way(why, 1, [pod(owner=None, annotations={"node-fleet.io/safe-to-evict": "false"})])
    assert effects(advance(leaving(why), seen, POLICY)) == [Evict(node="w1", pods=(ref(),))]


def test_after_a_crash_between_uncordoning_and_closing_the_failure_is_still_learned():
    progress = advance(removal(**SEEN), look(310, RUNNING, [node()], [pod()]), POLICY)
    assert [type(lesson) for lesson in progress.lessons] == [DrainFailed]
    assert effects(progress) == []


def called_back(why=VOLUNTARY, **changes):
    return cancel_removal(removal(why, **SEEN, **changes), "pods wait")


def test_the_first_reason_to_call_it_back_stays():
    assert cancel_removal(removal(), "pods wait") == removal(cancelled="pods wait")
    assert_wording(cancel_removal(called_back(), "again").cancelled)


def test_a_removal_called_back_lets_the_node_in_and_counts_as_growth():
    progress = advance(called_back(), on_its_way(VOLUNTARY, 400, [pod()]), POLICY)
    assert progress == Progress(
        steps=(
            Save(called_back(readmitting_since=after(400))),
            Uncordon("w1", "r1"),
            Close(operation="r1", outcome=Outcome.CANCELLED, detail="pods wait"),
        ),
        lessons=(Readmitted(pool="default", node="w1", at=after(400)),),
    )


def test_called_back_before_its_cordon_there_is_nothing_to_take_off():
    progress = advance(cancel_removal(removal(), "pods wait"), look(0, RUNNING, [node()]), POLICY)
    assert [type(step) for step in progress.steps] == [Close]


def test_called_back_a_persons_cordon_stays():
    progress = advance(called_back(), look(0, RUNNING, [cordoned(removal="")]), POLICY)
    assert [type(step) for step in progress.steps] == [Close]


def test_called_back_too_late_it_goes_on():
    asked = called_back(terminating=True, asked_at=after(5))
    assert effects(advance(asked, on_its_way(VOLUNTARY, 10), POLICY)) == [Terminate("i-1", "one node less")]


def test_a_machine_without_a_node_object_cannot_be_let_in():
    assert effects(advance(called_back(), look(10, RUNNING), POLICY)) == [Terminate("i-1", "one node less")]


def test_a_worker_that_never_joined_may_be_called_back():
    assert_wording(closed(advance(called_back(node=""), look(10, RUNNING), POLICY)).detail)


@pytest.mark.parametrize("seen_before", [True, False])
def test_a_node_that_a_person_cordoned_is_theirs(seen_before):
    progress = advance(removal(cordoned=seen_before), look(0, RUNNING, [cordoned(removal="")], [pod()]), POLICY)
    close = Close(operation="r1", outcome=Outcome.CANCELLED, detail="an operator cordoned w1: it is theirs")
    assert progress == Progress(steps=(close,))


@pytest.mark.parametrize("why", [INTERRUPTED, SICK])
def test_a_persons_cordon_is_as_good_as_ours_on_a_lost_node(why):
    seen = look(0, RUNNING, [cordoned(removal="", ready=why is not SICK)], [pod()])
    progress = advance(leaving(why), seen, POLICY)
    assert effects(progress) == [Evict(node="w1", pods=(ref(),))]
    assert not kept(progress).cordoned


@pytest.mark.parametrize(("taint", "steps"), [("", []), ("r1", [Uncordon("w1", "r1")])])
def test_a_person_who_uncordons_has_the_last_word(taint, steps):
    """`kubectl uncordon` leaves our taint; with the taint gone, too, a second observation has to agree."""
    since = None if taint else after(50 - 120)
    seen = look(50, RUNNING, [node(removal=taint)], [pod()])
    progress = advance(removal(**SEEN, uncordoned_since=since), seen, POLICY)
    assert effects(progress) == steps
    assert told(progress) == [
        SendAlert(
            alert=AlertKind.READMITTED,
            pool="default",
            subjects=("w1",),
            text="An operator uncordoned w1 while it was drained (one node less): it stays",
        )
    ]
    assert closed(progress) == Close(operation="r1", outcome=Outcome.CANCELLED, detail="an operator uncordoned w1")
    assert progress.lessons == (Readmitted(pool="default", node="w1", at=after(50)),)


@pytest.mark.parametrize("since", [None, -69])
def test_a_view_without_our_cordon_may_be_stale_and_nothing_is_done_by_it(since):
    seen = look(50, RUNNING, [node()], [pod()])
    progress = advance(removal(**SEEN, uncordoned_since=since and after(since)), seen, POLICY)
    assert (effects(progress), told(progress), closed(progress)) == ([], [], None)
    if since is None:
        assert kept(progress).uncordoned_since == after(50)


def test_our_cordon_that_is_seen_again_was_never_taken_off():
    seen = look(50, RUNNING, [cordoned()], [pod()])
    assert kept(advance(removal(**SEEN, uncordoned_since=after(10)), seen, POLICY)).uncordoned_since is None


@pytest.mark.parametrize("why", [INTERRUPTED, SICK])
def test_a_lost_node_is_cordoned_again(why):
    seen = look(50, RUNNING, [node(ready=why is not SICK)], [pod()])
    assert [type(step) for step in effects(advance(leaving(why, **SEEN), seen, POLICY))] == [Cordon]


@pytest.mark.parametrize(
    ("asked", "now", "gives_up"), [(10, 299, False), (10, 300, True), (290, 409, False), (290, 410, True)]
)
def test_a_machine_that_ec2_does_not_terminate_is_let_back_in(asked, now, gives_up):
    operation = removal(**SEEN, terminating=True, asked_at=after(asked))
    if not gives_up:
        assert effects(advance(operation, on_its_way(VOLUNTARY, now), POLICY)) == [Terminate("i-1", "one node less")]
        return
    assert_wording(gave_up(on_its_way(VOLUNTARY, now), operation))


@pytest.mark.parametrize("why", [VOLUNTARY, SICK])
def test_the_time_to_end_stands_still_in_a_silence_too(why):
    asked = leaving(why, **SEEN, terminating=True, asked_at=after(290), silent_since=after(300))
    woken = kept(advance(asked, on_its_way(why, 1000), POLICY))
    assert closed(advance(woken, on_its_way(why, 1109), POLICY)) is None
    assert closed(advance(woken, on_its_way(why, 1110), POLICY)) is not None


def test_without_the_time_of_asking_the_removals_start_counts():
    operation = removal(**SEEN, terminating=True, deadline=after(0))
    assert closed(advance(operation, on_its_way(VOLUNTARY, 119), POLICY)) is None
    assert closed(advance(operation, on_its_way(VOLUNTARY, 120), POLICY)) is not None


@pytest.mark.parametrize("why", [VOLUNTARY, SICK])
def test_a_removal_yields_to_ec2_taking_the_same_machine(why):
    doomed = interrupted(id="r2")
    seen = on_its_way(why, 10, [pod()], operations=(removal(SICK, id="r0"), removal(why), doomed))
    close = Close(operation="r1", outcome=Outcome.CANCELLED, detail="EC2 takes i-1: r2 goes on with it")
    assert advance(removal(why), seen, POLICY) == Progress(steps=(close,))


def test_a_removal_does_not_yield_for_another_machine():
    seen = on_its_way(VOLUNTARY, 10, [pod()], operations=(interrupted(id="r2", instance="i-2"), removal()))
    assert closed(advance(removal(), seen, POLICY)) is None


def test_two_interrupted_removals_of_one_machine_do_not_yield_to_each_other():
    seen = on_its_way(INTERRUPTED, 10, [pod()], operations=(interrupted(id="r2"), interrupted()))
    assert closed(advance(interrupted(), seen, POLICY)) is None


# ── interrupted ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("seconds", "changes", "forced"),
    [(89, {}, False), (90, {}, True), (119, {"force_from": None}, False), (120, {"force_from": None}, True)],
)
def test_pods_on_a_doomed_node_are_deleted_by_force_in_the_end(seconds, changes, forced):
    seen = on_its_way(INTERRUPTED, seconds, [pod()])
    kind = ForceDelete if forced else Evict
    assert effects(advance(interrupted(**changes), seen, POLICY)) == [kind(node="w1", pods=(ref(),))]


def test_force_is_told_once_and_spares_nobody_who_has_to_go():
    pods = [
        pod("web-1"),
        pod("web-2", deleted_at=after(80)),
        pod("alone", owner=None),
        pod("agent-1", owner=Owner(kind="DaemonSet", name="agent")),
    ]
    seen = on_its_way(INTERRUPTED, 90, pods, budgets=[budget()])
    operation = interrupted(**SEEN)
    progress = advance(operation, seen, POLICY)
    after_it = replace(operation, evicting=True, forced=True)
    delete = ForceDelete(node="w1", pods=(ref("web-1"), ref("alone"), ref("web-2")))
    assert progress.steps == (
        SendAlert(
            alert=AlertKind.FORCED,
            pool="default",
            subjects=("w1",),
            text="EC2 takes w1 at 12:02:00: 3 pods are deleted by force, first default/web-1",
        ),
        Save(after_it),
        delete,
    )
    assert advance(after_it, seen, POLICY).steps == (delete,)


STATEFUL = Owner(kind="StatefulSet", name="db")


@pytest.mark.parametrize(("ready", "forced"), [(True, ("db-1", "web-1")), (False, ("db-1", "db-0", "web-1"))])
def test_an_ending_pod_of_a_stateful_set_is_deleted_by_force_only_if_its_node_is_dead(ready, forced):
    """Otherwise its successor would start beside it, under the same name."""
    pods = [
        pod("db-0", owner=STATEFUL, deleted_at=after(80)),
        pod("db-1", owner=STATEFUL),
        pod("web-1", deleted_at=after(80)),
    ]
    seen = look(95, RUNNING, [cordoned(ready=ready)], pods)
    (step,) = effects(advance(interrupted(**SEEN), seen, POLICY))
    assert step == ForceDelete(node="w1", pods=tuple(sorted((ref(name) for name in forced), key=step.pods.index)))
    assert {each.name for each in step.pods} == set(forced)


def test_when_only_ending_pods_of_a_stateful_set_are_left_nothing_is_forced():
    seen = look(95, RUNNING, [cordoned()], [pod("db-0", owner=STATEFUL, deleted_at=after(80))])
    assert effects(advance(interrupted(**SEEN), seen, POLICY)) == []


def test_late_on_cordon_and_force_go_together():
    seen = look(95, RUNNING, [node()], [pod()])
    assert [type(step) for step in effects(advance(interrupted(), seen, POLICY))] == [Cordon, ForceDelete]


def test_a_drained_doomed_node_is_terminated_even_when_it_is_late():
    progress = advance(interrupted(**SEEN), on_its_way(INTERRUPTED, 100), POLICY)
    assert effects(progress) == [Terminate("i-1", "one node less")]


@pytest.mark.parametrize("state", [InstanceState.RUNNING, InstanceState.PENDING])
def test_a_node_that_ec2_did_not_take_is_let_back_in(state):
    def at(seconds):
        seen = look(seconds, [instance(state=state)], [cordoned()], [pod()])
        return advance(interrupted(**SEEN, forced=True), seen, POLICY)

    assert closed(at(1319)) is None
    progress = at(1320)
    assert progress == Progress(
        steps=(
            Save(interrupted(**SEEN, forced=True, readmitting_since=after(1320))),
            Uncordon("w1", "r1"),
            SendAlert(
                alert=AlertKind.READMITTED,
                pool="default",
                subjects=("w1",),
                text="EC2 did not take i-1: 1200 s after its time it still runs. w1 takes pods again",
            ),
            Close(
                operation="r1",
                outcome=Outcome.CANCELLED,
                detail="EC2 did not take it: it runs 1200 s after its time",
            ),
        )
    )


def test_a_node_that_was_cordoned_without_the_table_is_let_back_in_too():
    """Its cordon carries the notice instead of this removal's id."""
    alone = emergency(Notice(instance="i-1", kind=NoticeKind.SCHEDULED_CHANGE, at=NOON))
    seen = look(1320, RUNNING, [cordoned(removal=alone)], [pod()])
    assert effects(advance(interrupted(forced=True), seen, POLICY)) == [Uncordon("w1", alone)]
    other = emergency(Notice(instance="i-9", kind=NoticeKind.SCHEDULED_CHANGE, at=NOON))
    seen = look(1320, RUNNING, [cordoned(removal=other)], [pod()])
    assert effects(advance(interrupted(forced=True), seen, POLICY)) == []


def test_how_late_is_a_false_alarm_is_the_pools():
    policy = Policy(pools=(Pool(removal=RemovalRules(false_alarm_after=timedelta(seconds=5))),))
    assert closed(advance(interrupted(), on_its_way(INTERRUPTED, 125, [pod()]), policy)) is not None


def test_a_stopped_machine_was_taken():
    stopped = look(5000, [instance(state=InstanceState.STOPPED)], [cordoned()], [pod()])
    assert effects(advance(interrupted(forced=True), stopped, POLICY)) == [ForceDelete(node="w1", pods=(ref(),))]


def test_a_machine_that_was_just_asked_to_end_is_no_false_alarm():
    asked = interrupted(**SEEN, terminating=True, asked_at=after(1310))
    assert effects(advance(asked, on_its_way(INTERRUPTED, 1320), POLICY)) == [Terminate("i-1", "one node less")]
    assert closed(advance(asked, on_its_way(INTERRUPTED, 1430), POLICY)).outcome is Outcome.CANCELLED


def test_an_interrupted_removal_is_not_called_back():
    doomed = cancel_removal(interrupted(**SEEN), "pods wait")
    assert effects(advance(doomed, on_its_way(INTERRUPTED, 10, [pod()]), POLICY)) == [Evict(node="w1", pods=(ref(),))]


# ── unhealthy ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_sick_node_that_is_ready_again_is_let_back_in():
    progress = advance(removal(SICK, **SEEN), look(400, RUNNING, [cordoned()], [pod()]), POLICY)
    assert progress == Progress(
        steps=(
            Save(removal(SICK, **SEEN, readmitting_since=after(400))),
            Uncordon("w1", "r1"),
            Close(operation="r1", outcome=Outcome.CANCELLED, detail="ready again"),
        )
    )


def test_a_worker_that_joins_after_all_is_let_in():
    progress = advance(removal(SICK, node=""), look(10, RUNNING, [node("late")]), POLICY)
    assert progress.steps == (Close(operation="r1", outcome=Outcome.CANCELLED, detail="ready again"),)


def test_ready_again_too_late_it_goes_on():
    asked = removal(SICK, **SEEN, terminating=True, asked_at=after(5))
    assert effects(advance(asked, look(10, RUNNING, [cordoned()]), POLICY)) == [Terminate("i-1", "one node less")]


def test_a_sick_removal_may_be_called_back():
    progress = advance(called_back(SICK), on_its_way(SICK, 10, [pod()]), POLICY)
    assert progress.steps == (
        Save(called_back(SICK, readmitting_since=after(10))),
        Uncordon("w1", "r1"),
        Close(operation="r1", outcome=Outcome.CANCELLED, detail="pods wait"),
    )
    assert progress.lessons == ()


@pytest.mark.parametrize(("seconds", "ends"), [(299, False), (300, True)])
@pytest.mark.parametrize("name", ["w1", "w9"])
def test_the_pods_of_a_dead_node_are_not_waited_for_past_the_deadline(seconds, ends, name):
    seen = on_its_way(SICK, seconds, [pod(deleted_at=after(290))], budgets=[budget()])
    progress = advance(removal(SICK, **SEEN, node=name), seen, POLICY)
    assert effects(progress) == ([Terminate("i-1", "one node less")] if ends else [])


def test_a_dead_node_that_cannot_be_cordoned_ends_at_the_deadline():
    progress = advance(removal(SICK), look(300, RUNNING, [node(ready=False)], [pod()]), POLICY)
    assert effects(progress) == [Terminate("i-1", "one node less")]


def test_a_sick_machine_that_ec2_does_not_terminate_is_told():
    asked = removal(SICK, **SEEN, terminating=True, asked_at=after(290))
    assert closed(advance(asked, on_its_way(SICK, 409), POLICY)) is None
    assert advance(asked, on_its_way(SICK, 410), POLICY) == Progress(
        steps=(
            Save(replace(asked, readmitting_since=after(410))),
            Uncordon("w1", "r1"),
            SendAlert(
                alert=AlertKind.UNHEALTHY,
                pool="default",
                subjects=("w1 instance i-1",),
                text="Unhealthy node w1 is still there: EC2 was asked to terminate i-1 and has not done so."
                " Look for termination protection, and for the role's right to terminate it",
            ),
            Close(
                operation="r1",
                outcome=Outcome.FAILED,
                detail="EC2 was asked to terminate i-1 and has not done so",
            ),
        )
    )


# ── a cordon that cannot be taken off ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("operation", "ready"),
    [(called_back(), True), (removal(SICK, **SEEN), True), (interrupted(**SEEN, forced=True), True)],
    ids=["voluntary", "sick", "interrupted"],
)
def test_a_cordon_that_nobody_can_take_off_does_not_keep_the_removal_open(operation, ready):
    def at(seconds):
        tried = replace(operation, readmitting_since=after(1400))
        return advance(tried, look(seconds, RUNNING, [cordoned(ready=ready)], [pod()]), POLICY)

    again = at(1699)
    assert effects(again) == [Uncordon("w1", "r1")]
    assert again.lessons == ()  # learned with the first attempt
    progress = at(1700)
    assert effects(progress) == []
    assert [(each.alert, each.subjects) for each in told(progress)] == [(AlertKind.CLEANUP_NEEDS_OPERATOR, ("w1",))]
    assert closed(progress).outcome is Outcome.FAILED


def test_the_end_of_a_silence_is_stored_before_an_uncordon_that_may_fail_for_ever():
    """Otherwise the silence would go on in the table, and the clock of the attempts would stand still."""
    tried = removal(SICK, **SEEN, readmitting_since=after(1400), silent_since=after(1410))
    progress = advance(tried, look(1500, RUNNING, [cordoned(ready=True)], [pod()]), POLICY)
    first, uncordon, *_ = progress.steps
    assert uncordon == Uncordon("w1", "r1")
    silent = timedelta(seconds=90)
    assert first == Save(replace(tried, readmitting_since=after(1490), silent_since=None, silent=silent))


def test_when_it_leaves_after_all_an_earlier_attempt_to_let_it_in_is_forgotten():
    tried = removal(SICK, **SEEN, readmitting_since=after(10))
    progress = advance(tried, on_its_way(SICK, 20, [pod()]), POLICY)
    assert kept(progress).readmitting_since is None


# ── withdrawn ────────────────────────────────────────────────────────────────────────────────────────────────────


def withdrawn():
    return Notice(
        instance="i-1",
        kind=NoticeKind.SCHEDULED_CHANGE,
        at=after(3600),
        told_at=after(-5),
        event="arn:1",
        withdrawn=True,
    )


@pytest.mark.parametrize("why", [RemovalReason.VOLUNTARY, RemovalReason.INTERRUPTED])
def test_a_scheduled_change_that_is_withdrawn_lets_the_node_back_in(why):
    operation = replace(leaving(why, cordoned=True), notice=NoticeKind.SCHEDULED_CHANGE)
    progress = advance(operation, on_its_way(why, pods=[pod()], notices=(withdrawn(),)), POLICY)
    assert closed(progress).outcome is Outcome.CANCELLED
    assert effects(progress) == [Uncordon("w1", "r1")]
    assert [each.alert for each in told(progress)] == [AlertKind.READMITTED]


@pytest.mark.parametrize(("kind", "days"), [(NoticeKind.SCHEDULED_CHANGE, 14), (NoticeKind.REBALANCE, 0)])
def test_what_is_far_away_or_only_recommended_does_not_keep_a_withdrawn_interruption_going(kind, days):
    other = Notice(instance="i-1", kind=kind, at=NOON + timedelta(days=days), told_at=NOON, event="arn:2")
    seen = on_its_way(INTERRUPTED, pods=[pod()], notices=(withdrawn(), other))
    assert effects(advance(interrupted(**SEEN), seen, POLICY)) == [Uncordon("w1", "r1")]


def test_but_another_change_that_is_near_does():
    other = replace(withdrawn(), event="arn:2", withdrawn=False)
    seen = on_its_way(INTERRUPTED, pods=[pod()], notices=(withdrawn(), other))
    assert effects(advance(interrupted(**SEEN), seen, POLICY)) == [Evict(node="w1", pods=(ref(),))]


@pytest.mark.parametrize(
    ("seconds", "notices"), [(95, ()), (95, (withdrawn(),)), (1320, ())], ids=["taken", "withdrawn", "overdue"]
)
def test_while_ec2_does_not_answer_nothing_is_forced_off_a_node_that_is_not_taken_after_all(seconds, notices):
    seen = look(seconds, AWAY, [cordoned()], [pod()], notices=notices)
    progress = advance(interrupted(**SEEN, forced=True), seen, POLICY)
    taken = seconds == 95 and not notices
    assert effects(progress) == ([ForceDelete(node="w1", pods=(ref(),))] if taken else [])
    assert closed(progress) is None


# ── kept warm ────────────────────────────────────────────────────────────────────────────────────────────────────

KEPT = removal(keeps=True)
ASKED = removal(keeps=True, terminating=True, asked_at=NOON, cordoned=True)


def stopped(state=InstanceState.STOPPED, **changes):
    return [instance(state=state, **{"warm": True} | changes)]


def test_an_empty_node_whose_instance_is_kept_is_stopped():
    progress = advance_removal(KEPT, look(10, RUNNING, [cordoned()]), POLICY, ())
    assert effects(progress) == [KeepWarm("i-1", KEPT.reason)]


@pytest.mark.parametrize("kept", [KEPT, ASKED], ids=["not asked yet", "asked"])
def test_of_a_pool_that_is_gone_nothing_is_kept(kept):
    """No pool would start it again."""
    other = replace(POLICY, pools=(Pool(name="web"),))
    progress = advance_removal(kept, look(10, RUNNING, [cordoned()]), other, ())
    assert effects(progress) == [Terminate("i-1", kept.reason)]


def test_its_node_is_deleted_once_it_is_stopped():
    waits = advance_removal(ASKED, look(30, stopped(InstanceState.STOPPING), [cordoned()]), POLICY, ())
    assert effects(waits) == []
    assert closed(waits) is None
    deletes = advance_removal(ASKED, look(60, stopped(), [cordoned()]), POLICY, ())
    assert effects(deletes) == [DeleteNode("w1")]
    assert closed(advance_removal(ASKED, look(70, stopped()), POLICY, ())).outcome is Outcome.DONE


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_nodes_of_the_instance_the_one_that_works_is_drained(order):
    """Its agent registered again under another name: the pods of the Node that was left behind say nothing."""
    nodes = [node(name="w1-old", ready=False), cordoned()][::order]
    progress = advance(leaving(VOLUNTARY), look(10, RUNNING, nodes, [pod()]), POLICY)
    assert effects(progress) == [Evict(node="w1", pods=(ref(),))]


@pytest.mark.parametrize("order", [1, -1])
def test_when_it_is_gone_each_of_its_nodes_is_deleted(order):
    nodes = [node(name="w1-old", ready=False), cordoned(ready=False)][::order]
    first = effects(advance(leaving(VOLUNTARY), look(10, ENDED, nodes), POLICY))
    assert len(first) == 1
    (other,) = [each for each in nodes if DeleteNode(each.name) not in first]
    assert effects(advance(leaving(VOLUNTARY), look(20, ENDED, [other]), POLICY)) == [DeleteNode(other.name)]


def test_one_that_an_operator_stopped_meanwhile_is_not_taken_for_kept():
    progress = advance_removal(KEPT, look(30, stopped(warm=False), [cordoned()]), POLICY, ())
    assert DeleteNode("w1") not in effects(progress)

"""The table of phases is complete and readable, and workers are put together rightly."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import permutations, product

import pytest

from nodefleet.capacity import unseen_launches
from nodefleet.model import fleet
from nodefleet.model.fleet import PHASES, InstancePhase, Membership, OpenOperation, Phase
from nodefleet.model.inventory import Instance, InstanceState, Market, Node, Notice, NoticeKind, Taint
from nodefleet.model.operations import Cleanup, Launch, OrphanKind, Removal, RemovalReason
from nodefleet.model.snapshot import ClusterView, Missing, Observation
from nodefleet.model.workload import ZONE_LABEL, Owner, Pod, PodPhase
from nodefleet.phases import ailments, derive_workers, is_starting, silent_for, taken_at
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Pool, RemovalRules

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
POLICY = Policy()


def ago(seconds: float) -> datetime:
    return NOON - timedelta(seconds=seconds)


def instance(**changes) -> Instance:
    return replace(Instance(id="i-1", zone="a", launched_at=ago(3600)), **changes)


def node(**changes) -> Node:
    return replace(Node(name="w1", instance="i-1", ready_changed_at=ago(3000)), **changes)


def removal(why=RemovalReason.VOLUNTARY, **changes) -> Removal:
    base = Removal(
        id="r", pool="default", instance="i-1", node="w1", why=why, reason="", started=ago(60), deadline=ago(-240)
    )
    return replace(base, **changes)


def launch(**changes) -> Launch:
    base = Launch(
        id="l1",
        pool="default",
        zone="a",
        market=Market.SPOT,
        types=("t3.small",),
        count=2,
        template="lt",
        template_version="1",
        subnet="s",
        reason="",
        started=ago(10),
        deadline=ago(-290),
    )
    return replace(base, **changes)


def only(instances=(), nodes=(), pods=None, **changes):
    seen = Observation(
        at=NOON, instances=tuple(instances), kubernetes=ClusterView(nodes=tuple(nodes), pods=pods), **changes
    )
    found = derive_workers(seen, POLICY)
    assert len(found) == 1
    return found[0]


def test_a_warm_instance_whose_start_came_to_nothing_is_not_starting():
    asked = launch(starts=("i-1", "i-2", "i-3"), lost=("i-1",))
    assert [is_starting(asked, each) for each in ("i-1", "i-2", "i-4")] == [False, True, False]
    answered = replace(asked, answered=True, instances=("i-1", "i-2"))
    assert [is_starting(answered, each) for each in ("i-1", "i-2", "i-3")] == [False, True, False]


@pytest.mark.parametrize(("silent", "phase"), [(0, Phase.JOIN_FAILED), (99, Phase.JOIN_FAILED), (101, Phase.BOOTING)])
def test_the_time_to_join_stands_still_while_the_api_server_does(silent, phase):
    operation = launch(instances=("i-1",), silent=timedelta(seconds=silent))
    assert only([instance(launched_at=ago(400))], operations=(operation,)).phase is phase


def test_every_combination_has_one_named_phase():
    assert set(PHASES) == set(product(InstancePhase, Membership, OpenOperation))


def test_every_row_of_the_table_is_needed():
    used = set()
    for seen in product(InstancePhase, Membership, OpenOperation):
        words = tuple(each.value for each in seen)
        used.add(
            next(
                i
                for i, row in enumerate(fleet._TABLE)
                if all(c in ("*", w) for c, w in zip(row[:3], words, strict=True))
            )
        )
    assert used == set(range(len(fleet._TABLE)))


@pytest.mark.parametrize(
    ("machine", "member", "under", "phase"),
    [
        ("absent", "none", "launch", Phase.REQUESTED),
        ("absent", "none", "nothing", Phase.GONE),
        ("absent", "late", "launch", Phase.GONE),
        ("absent", "unready", "nothing", Phase.ORPHANED),
        ("absent", "ready", "nothing", Phase.UNLISTED),
        ("absent", "ready", "cleanup", Phase.UNLISTED),
        ("absent", "ready", "leaving", Phase.CORDONED),
        ("absent", "ready", "unhealthy", Phase.CORDONED),
        ("absent", "ready", "interrupted", Phase.INTERRUPTED),
        ("absent", "unhealthy", "cleanup", Phase.ORPHANED),
        ("absent", "unhealthy", "leaving", Phase.TERMINATING),
        ("absent", "unready", "interrupted", Phase.TERMINATING),
        ("absent", "unready", "unhealthy", Phase.TERMINATING),
        ("ended", "none", "leaving", Phase.GONE),
        ("ended", "late", "nothing", Phase.GONE),
        ("ended", "unready", "nothing", Phase.ORPHANED),
        ("ended", "unready", "interrupted", Phase.TERMINATING),
        ("ended", "ready", "leaving", Phase.TERMINATING),
        ("ended", "unhealthy", "unhealthy", Phase.TERMINATING),
        ("ending", "ready", "nothing", Phase.TERMINATING),
        ("stopped", "ready", "leaving", Phase.STOPPED),
        ("stopped", "late", "start", Phase.BOOTING),
        ("warm", "late", "start", Phase.BOOTING),
        ("warm", "late", "launch", Phase.WARM),
        ("warm", "none", "nothing", Phase.WARM),
        ("warm", "ready", "leaving", Phase.WARM),
        ("pending", "none", "launch", Phase.BOOTING),
        ("pending", "none", "interrupted", Phase.INTERRUPTED),
        ("pending", "none", "leaving", Phase.CORDONED),
        ("pending", "late", "unhealthy", Phase.CORDONED),
        ("pending", "ready", "launch", Phase.READY),
        ("pending", "late", "nothing", Phase.JOIN_FAILED),
        ("pending", "unready", "nothing", Phase.UNREADY),
        ("pending", "unhealthy", "nothing", Phase.UNHEALTHY),
        ("running", "none", "nothing", Phase.BOOTING),
        ("running", "late", "launch", Phase.JOIN_FAILED),
        ("running", "ready", "nothing", Phase.READY),
        ("running", "ready", "cleanup", Phase.READY),
        ("running", "ready", "leaving", Phase.CORDONED),
        ("running", "unhealthy", "unhealthy", Phase.CORDONED),
        ("running", "ready", "interrupted", Phase.INTERRUPTED),
        ("running", "unready", "nothing", Phase.UNREADY),
        ("running", "unhealthy", "nothing", Phase.UNHEALTHY),
    ],
)
def test_what_the_sightings_amount_to(machine, member, under, phase):
    assert PHASES[InstancePhase(machine), Membership(member), OpenOperation(under)] is phase


@pytest.mark.parametrize(
    ("state", "phase"),
    [
        (InstanceState.PENDING, Phase.READY),
        (InstanceState.RUNNING, Phase.READY),
        (InstanceState.STOPPING, Phase.STOPPED),
        (InstanceState.STOPPED, Phase.STOPPED),
        (InstanceState.SHUTTING_DOWN, Phase.TERMINATING),
        (InstanceState.TERMINATED, Phase.ORPHANED),
    ],
)
def test_each_instance_state_with_a_ready_node(state, phase):
    assert only([instance(state=state)], [node()]).phase is phase


@pytest.mark.parametrize(("age", "phase"), [(299, Phase.BOOTING), (300, Phase.JOIN_FAILED)])
def test_a_node_has_until_the_join_limit(age, phase):
    assert only([instance(launched_at=ago(age))]).phase is phase


@pytest.mark.parametrize("key", ["node.kubernetes.io/not-ready", "startup-taint.cluster-autoscaler.kubernetes.io/gpu"])
@pytest.mark.parametrize(("age", "phase"), [(299, Phase.BOOTING), (300, Phase.READY)])
def test_a_ready_node_boots_until_its_startup_taints_are_gone_or_the_join_limit(key, age, phase):
    assert only([instance(launched_at=ago(age))], [node(taints=(Taint(key=key),))]).phase is phase


def test_any_other_taint_is_no_startup_taint():
    assert only([instance(launched_at=ago(1))], [node(taints=(Taint(key="gpu"),))]).phase is Phase.READY


def test_the_join_clock_does_not_run_while_the_api_server_is_away():
    seen = Observation(at=NOON, instances=(instance(),), kubernetes=Missing("timeout"))
    assert derive_workers(seen, POLICY)[0].phase is Phase.BOOTING


def test_an_instance_marked_as_failed_stays_failed_even_while_the_api_server_is_away():
    seen = Observation(at=NOON, instances=(instance(failed=True),), kubernetes=Missing("timeout"))
    assert derive_workers(seen, POLICY)[0].phase is Phase.JOIN_FAILED


def test_ready_wins_over_join_failed():
    assert only([instance(failed=True)], [node()]).phase is Phase.READY


@pytest.mark.parametrize(
    ("age", "since", "phase"),
    [
        (299, 200, Phase.BOOTING),
        (3600, 299, Phase.UNREADY),
        (3600, 300, Phase.UNHEALTHY),
    ],
)
def test_a_node_that_is_not_ready(age, since, phase):
    found = only([instance(launched_at=ago(age))], [node(ready=False, ready_changed_at=ago(since))])
    assert found.phase is phase


def test_a_node_that_does_not_say_since_when_it_is_not_ready_gets_its_time():
    assert only([instance()], [node(ready=False, ready_changed_at=None)]).phase is Phase.UNREADY


def test_an_orphaned_node_has_no_machine():
    found = only([], [node(ready=False)])
    assert (found.phase, found.id, found.zone, found.occupies) == (Phase.ORPHANED, "i-1", "", False)
    assert only([], [node(ready=False, instance="")]).id == "w1"


@pytest.mark.parametrize(("warm", "phase"), [(False, Phase.STOPPED), (True, Phase.WARM)])
@pytest.mark.parametrize(("seconds", "is_started"), [(119, True), (120, False), (None, False)])
def test_a_stopped_instance_whose_node_has_just_become_ready_was_started(warm, phase, seconds, is_started):
    since = None if seconds is None else ago(seconds)
    found = only([instance(state=InstanceState.STOPPED, warm=warm)], [node(ready_changed_at=since)])
    assert (found.phase, found.occupies) == ((Phase.READY, True) if is_started else (phase, False))


def test_one_whose_node_is_not_ready_stands_still():
    found = only([instance(state=InstanceState.STOPPED)], [node(ready=False, ready_changed_at=ago(10))])
    assert (found.phase, found.occupies) == (Phase.STOPPED, False)


def test_a_ready_node_lives_whether_ec2_lists_it_or_not():
    found = only([], [node(labels={ZONE_LABEL: "b"})])
    assert (found.phase, found.id, found.zone) == (Phase.UNLISTED, "i-1", "b")
    assert (found.is_capacity, found.occupies) == (True, True)


@pytest.mark.parametrize(
    ("pods", "evicting", "phase"),
    [
        ((Pod(name="a", node="w1"),), False, Phase.CORDONED),
        ((Pod(name="a", node="w1"),), True, Phase.DRAINING),
        ((), True, Phase.DRAINED),
        ((Pod(name="a", node="w2"), Pod(name="b", node=None)), True, Phase.DRAINED),
        ((Pod(name="d", node="w1", owner=Owner(kind="DaemonSet", name="d")),), True, Phase.DRAINED),
        ((Pod(name="m", node="w1", mirror=True),), True, Phase.DRAINED),
        ((Pod(name="f", node="w1", phase=PodPhase.FAILED),), True, Phase.DRAINED),
        (None, True, Phase.DRAINING),
        (None, False, Phase.CORDONED),
    ],
)
def test_how_far_a_leaving_node_is(pods, evicting, phase):
    assert only([instance()], [node()], pods, operations=(removal(evicting=evicting),)).phase is phase


def test_a_leaving_worker_without_a_node_is_drained():
    assert only([instance()], operations=(removal(node=""),)).phase is Phase.DRAINED


def test_a_cordon_without_our_mark_is_a_persons():
    found = only([instance()], [node(cordoned=True)])
    assert (found.phase, found.held_by_person, found.is_capacity, found.occupies) == (Phase.CORDONED, True, False, True)


def test_our_own_cordon_without_an_operation_is_not_a_persons():
    found = only([instance()], [node(cordoned=True, removal="r")])
    assert (found.phase, found.held_by_person, found.is_capacity) == (Phase.CORDONED, False, False)


def test_a_notice_dooms_a_worker_before_any_operation_is_open():
    notice = Notice(instance="i-1", kind=NoticeKind.SPOT_INTERRUPTION, at=ago(5))
    found = only([instance()], [node()], notices=(notice,))
    assert (found.phase, found.notice, found.is_capacity, found.occupies) == (Phase.INTERRUPTED, notice, False, False)


@pytest.mark.parametrize(("age", "phase"), [(1319, Phase.INTERRUPTED), (1320, Phase.READY)])
def test_a_notice_that_nothing_came_of_dooms_nobody(age, phase):
    notice = Notice(instance="i-1", kind=NoticeKind.SCHEDULED_CHANGE, at=ago(age))
    assert only([instance()], [node()], notices=(notice,)).phase is phase


def test_of_several_notices_a_warning_counts_before_a_recommendation_and_the_earlier_before_the_later():
    advice = Notice(instance="i-1", kind=NoticeKind.REBALANCE, at=ago(90))
    first = Notice(instance="i-1", kind=NoticeKind.SPOT_INTERRUPTION, at=ago(60))
    second = Notice(instance="i-1", kind=NoticeKind.SCHEDULED_CHANGE, at=ago(30))
    for notices in permutations((advice, first, second)):
        assert only([instance()], [node()], notices=notices).notice == first


def test_a_warning_counts_though_nothing_came_of_an_earlier_one():
    false_alarm = Notice(instance="i-1", kind=NoticeKind.SCHEDULED_CHANGE, at=ago(1320))
    warning = Notice(instance="i-1", kind=NoticeKind.SPOT_INTERRUPTION, at=ago(5))
    assert only([instance()], [node()], notices=(false_alarm, warning)).notice == warning


@pytest.mark.parametrize(("late", "phase"), [(1199, Phase.INTERRUPTED), (1200, Phase.DRAINED)])
def test_what_ec2_did_not_take_counts_against_max_again_while_its_removal_is_still_open(late, phase):
    left = removal(RemovalReason.INTERRUPTED, deadline=ago(late))
    found = only([instance()], [node(cordoned=True, removal="r")], pods=(), operations=(left,))
    assert (found.phase, found.is_capacity, found.occupies) == (phase, False, phase is Phase.DRAINED)


def test_what_ec2_takes_in_the_end_or_warns_of_anew_does_not():
    left = removal(RemovalReason.INTERRUPTED, deadline=ago(1200))
    warning = Notice(instance="i-1", kind=NoticeKind.SPOT_INTERRUPTION, at=ago(5))
    assert only([instance()], [node()], operations=(left,), notices=(warning,)).phase is Phase.INTERRUPTED
    ending = instance(state=InstanceState.SHUTTING_DOWN)
    assert only([ending], [node()], operations=(left,)).phase is Phase.TERMINATING


@pytest.mark.parametrize("drain", [False, True])
def test_a_rebalance_recommendation_is_planned_only_when_asked_for_and_forces_nothing(drain):
    policy = Policy(pools=(Pool(removal=RemovalRules(drain_on_rebalance=drain)),))
    notice = Notice(instance="i-1", kind=NoticeKind.REBALANCE, at=ago(5))
    seen = Observation(at=NOON, instances=(instance(),), kubernetes=ClusterView(nodes=(node(),)), notices=(notice,))
    (worker,) = derive_workers(seen, policy)
    assert (worker.phase, worker.notice, worker.planned) == (Phase.READY, None, notice if drain else None)


def change(ahead: int, told: int = -60, event: str = "arn:1", *, withdrawn: bool = False) -> Notice:
    return Notice(
        instance="i-1",
        kind=NoticeKind.SCHEDULED_CHANGE,
        at=NOON + timedelta(seconds=ahead),
        told_at=NOON + timedelta(seconds=told),
        event=event,
        withdrawn=withdrawn,
    )


@pytest.mark.parametrize(
    ("ahead", "phase"), [(3601, Phase.READY), (3600, Phase.INTERRUPTED), (14 * 86400, Phase.READY)]
)
def test_a_scheduled_change_is_planned_until_an_hour_before_its_time(ahead, phase):
    worker = only([instance()], [node()], notices=(change(ahead),))
    assert worker.phase is phase
    assert (worker.planned is None) == (phase is Phase.INTERRUPTED)


def test_the_last_word_on_an_event_counts_and_a_withdrawal_ends_it():
    moved = only([instance()], [node()], notices=(change(60), change(9000, told=-30)))
    assert moved.planned == change(9000, told=-30)
    withdrawn = only([instance()], [node()], notices=(change(60), change(60, told=-30, withdrawn=True)))
    assert (withdrawn.phase, withdrawn.notice, withdrawn.planned) == (Phase.READY, None, None)
    late = only([instance()], [node()], notices=(change(60, told=-10), change(60, told=-30, withdrawn=True)))
    assert late.phase is Phase.INTERRUPTED  # said again after it was withdrawn


def test_a_withdrawal_speaks_of_its_own_event_only():
    other = change(60, event="arn:2")
    worker = only([instance()], [node()], notices=(change(60), other, change(60, told=-30, withdrawn=True)))
    assert worker.notice == other


def test_what_is_imminent_counts_before_what_is_planned():
    warning = Notice(instance="i-1", kind=NoticeKind.SPOT_INTERRUPTION, at=ago(5))
    worker = only([instance()], [node()], notices=(change(9000), warning))
    assert (worker.notice, worker.planned) == (warning, None)


def test_a_change_that_is_told_of_late_still_leaves_a_warnings_time():
    rules = Pool()
    assert taken_at(change(-600, told=-10), rules) == NOON + timedelta(seconds=110)
    assert taken_at(change(600, told=-10), rules) == NOON + timedelta(seconds=600)


@pytest.mark.parametrize(
    ("why", "phase"),
    [
        (RemovalReason.VOLUNTARY, Phase.CORDONED),
        (RemovalReason.UNHEALTHY, Phase.CORDONED),
        (RemovalReason.INTERRUPTED, Phase.INTERRUPTED),
    ],
)
def test_each_kind_of_removal(why, phase):
    assert only([instance()], [node()], operations=(removal(why),)).phase is phase


def test_a_cleanup_is_found_by_the_nodes_name():
    cleanup = Cleanup(
        id="c",
        pool="default",
        debris=OrphanKind.NODE,
        target="w1",
        reason="",
        first_seen=NOON,
        started=NOON,
        deadline=NOON,
    )
    assert only([], [node()], operations=(cleanup,)).operation == cleanup


def test_a_removal_of_a_node_without_machine_is_found_by_name():
    assert only([], [node(ready=False)], operations=(removal(instance=""),)).phase is Phase.TERMINATING


def test_a_launch_is_open_on_the_instances_it_made():
    found = only([instance(launched_at=ago(5))], operations=(launch(instances=("i-1",)),))
    assert (found.phase, found.operation.id) == (Phase.BOOTING, "l1")


def test_the_control_plane_and_foreign_nodes_are_not_workers():
    seen = Observation(
        at=NOON,
        instances=(instance(id="i-m", worker=False),),
        kubernetes=ClusterView(
            nodes=(node(name="master", instance="i-m", control_plane=True), node(name="else", instance="x", pool=None))
        ),
    )
    assert derive_workers(seen, POLICY) == ()


def test_a_node_of_ours_on_the_control_planes_machine_is_not_an_orphan():
    seen = Observation(
        at=NOON,
        instances=(instance(id="i-m", worker=False),),
        kubernetes=ClusterView(nodes=(node(instance="i-m"),)),
    )
    assert derive_workers(seen, POLICY) == ()


def test_without_ec2_there_are_no_workers_to_speak_of():
    assert derive_workers(Observation(at=NOON, instances=Missing("throttled")), POLICY) == ()


def test_workers_come_in_the_order_of_their_ids():
    seen = Observation(at=NOON, instances=(instance(id="i-2"), instance(id="i-1")))
    assert [worker.id for worker in derive_workers(seen, POLICY)] == ["i-1", "i-2"]


def test_a_worker_has_its_nodes_name_or_its_own_id():
    assert only([instance()], [node()]).name == "w1"
    assert only([instance(launched_at=ago(1))]).name == "i-1"


def unseen(operations, instances, pool):
    return sum(missing for launched, missing in unseen_launches(operations, instances) if launched.pool == pool)


def test_a_launch_counts_what_it_asked_for_until_it_is_seen():
    made = (instance(id="i-1", operation="l1"),)
    assert unseen((launch(),), (), "default") == 2
    assert unseen((launch(),), made, "default") == 1
    assert unseen((launch(),), made, "other") == 0
    assert unseen((launch(count=1),), (*made, instance(id="i-2", operation="l1")), "default") == 0
    assert unseen((removal(),), (), "default") == 0


def test_an_answered_launch_counts_what_it_got():
    assert launch().expected == 2
    assert launch(answered=True, instances=("i-1",)).expected == 1
    assert launch(answered=True).expected == 0


# ── unhealthy ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("heartbeat", "changed", "phase"),
    [
        (100, 60, Phase.UNHEALTHY),
        (89, 60, Phase.UNREADY),
        (3600, 49, Phase.UNREADY),  # its clock is behind: the control plane noticed its absence only now
        (3600, 50, Phase.UNHEALTHY),
        (-3600, 200, Phase.UNREADY),  # its clock is ahead: then the other limit counts
        (-3600, 300, Phase.UNHEALTHY),
        (None, 299, Phase.UNREADY),
        (None, 300, Phase.UNHEALTHY),
    ],
)
def test_a_node_is_unhealthy_when_it_is_silent_or_not_ready_for_too_long(heartbeat, changed, phase):
    seen = node(
        ready=False,
        ready_changed_at=ago(changed),
        heartbeat_at=None if heartbeat is None else NOON - timedelta(seconds=heartbeat),
    )
    assert only([instance()], [seen]).phase is phase


def test_silence_means_nothing_of_a_node_that_is_ready_or_never_was_seen_otherwise():
    rules = Pool().health
    assert silent_for(node(heartbeat_at=ago(900), ready_changed_at=ago(900)), rules, NOON) == timedelta(0)
    never = node(ready=False, heartbeat_at=ago(900), ready_changed_at=None)
    assert silent_for(never, rules, NOON) == timedelta(0)


def ailing(node_seen, pods=()):
    view = ClusterView(nodes=(node_seen,), pods=tuple(pods))
    return ailments(Observation(at=NOON, instances=(), kubernetes=view), Policy())


@pytest.mark.parametrize(("seconds", "ill"), [(599, False), (600, True)])
def test_pressure_that_does_not_end_is_an_ailment(seconds, ill):
    pressed = node(pressures=("DiskPressure", "PIDPressure"), pressed_since=ago(seconds))
    assert bool(ailing(pressed)) is ill
    assert ailing(replace(pressed, ready=False)) == {}
    assert ailing(replace(pressed, pool=None)) == {}
    assert ailing(replace(pressed, pool="unknown")) == {}


def crashing(number, *, crashes=5, on="w1", ready=False, owner="shop", **changes):
    of = Owner(kind="ReplicaSet", name=owner) if owner else None
    return Pod(name=f"p{number}", uid=f"{number}-{on}", node=on, crashes=crashes, ready=ready, owner=of, **changes)


def well(number, owner="shop", on="w2"):
    return crashing(number, crashes=0, on=on, ready=True, owner=owner)


@pytest.mark.parametrize(
    ("pods", "ill"),
    [
        ([*map(crashing, range(3)), well(9)], True),
        ([*map(crashing, range(4)), well(5, on="w1"), well(9)], True),  # four of five
        ([*map(crashing, range(3)), well(5, on="w1"), well(9)], False),  # three of four
        ([*map(crashing, range(2)), well(9)], False),  # too few to tell
        ([*map(crashing, range(3))], False),  # nowhere else it runs: it is the release
        ([*map(crashing, range(3)), well(9, on="w1")], False),
        ([*map(crashing, range(4)), well(9, on="w1")], False),  # four of five, and nowhere else it runs
        ([*[crashing(n, owner="") for n in range(3)], well(9)], False),
        ([*[crashing(n, crashes=4) for n in range(3)], well(9)], False),
        ([*[crashing(n, deleted_at=ago(5)) for n in range(3)], well(9)], False),
        ([well(9)], False),
    ],
)
def test_pods_that_crash_on_one_node_alone_are_an_ailment(pods, ill):
    assert bool(ailing(node(name="w1"), pods)) is ill


def test_nothing_is_known_to_ail_without_kubernetes():
    assert ailments(Observation(at=NOON, instances=(), kubernetes=Missing("away")), Policy()) == {}


# ── an agent that registered again under another name ────────────────────────────────────────────────────────────────

NEW = node(name="w1-new", created_at=ago(600))
OLD = node(name="w1-old", created_at=ago(7200))
SILENT = {"ready": False, "ready_changed_at": ago(1000)}


@pytest.mark.parametrize(
    ("of", "counts", "phase"),
    [
        ((NEW, replace(OLD, **SILENT)), "w1-new", Phase.READY),
        ((replace(NEW, **SILENT), OLD), "w1-old", Phase.READY),
        ((NEW, OLD), "w1-new", Phase.READY),
        ((replace(NEW, **SILENT), replace(OLD, **SILENT)), "w1-new", Phase.UNHEALTHY),
        ((NEW, replace(OLD, created_at=None)), "w1-new", Phase.READY),
    ],
)
def test_of_two_nodes_of_an_instance_the_ready_one_counts_and_then_the_younger_in_any_order(of, counts, phase):
    for nodes in permutations(of):
        worker = only(instances=[instance()], nodes=nodes)
        assert (worker.name, worker.phase) == (counts, phase)

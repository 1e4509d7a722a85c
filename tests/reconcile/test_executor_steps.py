"""Each step by itself: what is asked of EC2 and Kubernetes, what is checked right before, and what is said of it."""

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest

from nodefleet.errors import (
    ChangedError,
    DeniedError,
    LostLeaseError,
    MisconfiguredError,
    NodeFleetError,
    UnavailableError,
)
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import ActionKind, ExecutedAction
from nodefleet.model.inventory import InstanceState
from nodefleet.model.operations import (
    Assign,
    CancelRemoval,
    Close,
    Cordon,
    Create,
    DeleteNode,
    Evict,
    ForceDelete,
    Joined,
    KeepWarm,
    MarkFailed,
    Outcome,
    PodRef,
    Refusal,
    RemovalReason,
    Save,
    SendAlert,
    SendLaunch,
    Terminate,
    Uncordon,
)
from nodefleet.operations.progress import Progress
from nodefleet.policy.cluster import Burst, Policy
from nodefleet.ports import Eviction, EvictionOutcome, LaunchResult
from nodefleet.reconcile.executor import Executor
from support.book_builders import LEASE, OpenBook
from support.builders import NOON, after, instance, look, node, pod
from support.operation_builders import cleanup, launch, removal
from support.sentences import is_phrase
from support.wording import assert_wording

POLICY = Policy(burst=Burst(reserve=timedelta(seconds=20)))
WEB = PodRef(namespace="default", name="web-1", uid="web-1")
API = PodRef(namespace="default", name="api-1", uid="api-1")
AWAY = UnavailableError("Kubernetes", "no answer")
DENIED = DeniedError("EC2", "not allowed", "Add the permission")
CORDON = Cordon(node="w001", removal="r1", reason="calm", deadline=after(300))
LEAVING = removal(instance="i-001", node="w001")


class Asked:
    """Kubernetes and EC2: they note what they are asked, and answer as they are told."""

    def __init__(self):
        self.calls = []
        self.answers = {}
        self.nodes = {"w001": node(1, cordoned=True, removal="r1")}
        self.machines = {"i-001": instance(1)}
        self.pods = {}
        self.left = timedelta(minutes=5)
        self.now = NOON
        self.lines = []
        self.warnings = []
        self.before_calls = lambda: None

    def parts(self):
        reads = {"node": self._node, "pods_on": self._pods_on, "instance": self._instance}
        acts = ("cordon", "uncordon", "evict", "delete_pod", "delete_node", "launch", "terminate", "mark_failed")
        acts += ("start_warm", "keep_warm")
        world = SimpleNamespace(**reads, **{name: self._call(name) for name in acts}, note=self._note)
        return SimpleNamespace(
            cluster=SimpleNamespace(**vars(world), assign=self._call("label")),
            cloud=SimpleNamespace(**vars(world), assign=self._call("tag")),
            time=SimpleNamespace(now=lambda: self.now, remaining=lambda: self.left),
            telemetry=SimpleNamespace(
                line=lambda text, **fields: self.lines.append((text, fields)),
                warn=lambda text, **fields: self.warnings.append((text, fields)),
            ),
            together=self._together,
            requests=None,
        )

    def _node(self, name):
        return self.nodes.get(name)

    def _pods_on(self, name):
        return self.pods.get(name, ())

    def _instance(self, identity):
        return self.machines.get(identity)

    def _together(self, *calls):
        self.before_calls()
        return [_caught(call) for call in calls]

    def _call(self, name):
        def call(*arguments):
            self.calls.append((name, *arguments))
            answer = self.answers.get((name, arguments[0]), self.answers.get(name))
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call

    def _note(self, on, reason, message, *, warning):
        self.calls.append(("note", on, reason, message, warning))
        if "note" in self.answers:
            raise self.answers["note"]

    @property
    def notes(self):
        return [call[1:] for call in self.calls if call[0] == "note"]

    @property
    def acts(self):
        return [call for call in self.calls if call[0] != "note"]


def _caught(call):
    try:
        return call()
    except NodeFleetError as error:
        return error


class World:
    def __init__(self, *operations, policy=POLICY, **seen):
        self.asked = Asked()
        observation = look(3, operations=operations, **{"pods": [pod("web-1", "w001"), pod("api-1", "w001")]} | seen)
        self.uow = OpenBook(observation)
        self.executor = Executor(self.asked.parts(), LEASE, policy, observation, self.uow)

    def take(self, operation, step):
        return self.executor.execute(operation, step)

    def deleting(self):
        return {each.name for each in self.executor.observation.kubernetes.pods if each.deleted_at}


# ── before any step ──────────────────────────────────────────────────────────────────────────────────────────────


def test_nothing_has_happened_at_first():
    executor = World().executor
    assert (executor.actions, executor.failures, executor.launched, executor.evictions) == ([], 0, 0, {})
    assert executor.short is False
    assert executor.unfinished is False


def test_what_a_step_rests_on_is_written_before_it():
    world = World()
    world.uow.put(LEAVING)
    world.asked.answers["cordon"] = AWAY
    world.take(LEAVING, CORDON)
    assert [changes.put for changes in world.uow.commits.all] == [(LEAVING,)]


@pytest.mark.parametrize(("seconds", "begins"), [(20, True), (19.9, False)])
def test_nothing_is_begun_in_the_last_seconds(seconds, begins):
    world = World()
    world.asked.left = timedelta(seconds=seconds)
    assert world.take(LEAVING, CORDON) is begins
    assert bool(world.asked.calls) is begins
    assert world.executor.unfinished is not begins
    assert world.executor.failures == 0
    assert [fields for _, fields in world.asked.lines] == ([] if begins else [{"step": "Cordon"}])


@pytest.mark.parametrize(("seconds", "held"), [(59, True), (60, False)])
def test_nothing_is_begun_without_the_lease(seconds, held):
    world = World()
    world.asked.now = after(seconds)
    if held:
        assert world.take(LEAVING, CORDON)
        return
    with pytest.raises(LostLeaseError) as raised:
        world.take(LEAVING, CORDON)
    assert is_phrase(str(raised.value))
    assert world.asked.calls == []


def test_nothing_is_begun_after_the_process_stood_still_while_it_wrote():
    """The commit still finds its own fence, but the plan is as old as the standstill: the next run goes on with it."""
    world = World()
    world.uow.put(LEAVING)
    world.uow.flush = lambda: setattr(world.asked, "now", after(600))
    with pytest.raises(LostLeaseError):
        world.take(LEAVING, CORDON)
    assert world.asked.calls == []


def test_nothing_is_begun_when_the_time_runs_out_while_it_wrote():
    world = World()
    world.uow.flush = lambda: setattr(world.asked, "left", timedelta(seconds=19))
    assert not world.take(LEAVING, CORDON)
    assert world.executor.unfinished
    assert world.asked.calls == []


@pytest.mark.parametrize(
    "step",
    [
        Create(LEAVING),
        Save(LEAVING),
        Close(operation="r1", outcome=Outcome.DONE, detail=""),
        CancelRemoval(operation="r1", reason="it is needed"),
        SendAlert(alert=AlertKind.AT_MAX, pool="default", text=""),
    ],
    ids=lambda step: type(step).__name__,
)
def test_a_step_that_is_only_written_is_never_carried_out(step):
    with pytest.raises(AssertionError, match=type(step).__name__):
        World().take(LEAVING, step)


# ── when it fails ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "error", [AWAY, DENIED, MisconfiguredError("no such template")], ids=lambda e: type(e).__name__
)
def test_a_step_that_fails_counts_and_changes_nothing_that_is_seen(error):
    world = World()
    before = world.executor.observation
    world.asked.answers["cordon"] = error
    assert world.take(LEAVING, CORDON) is False
    assert (world.executor.failures, world.executor.actions) == (1, [])
    assert world.executor.observation == before
    ((text, fields),) = world.asked.warnings
    assert str(error) in text
    assert fields == {"step": "Cordon"}


def test_only_a_missing_permission_is_told_to_people_once_for_each_kind_of_step():
    world = World()
    world.asked.answers |= {"cordon": DENIED, "uncordon": DENIED, "mark_failed": AWAY}
    for step in (CORDON, CORDON, Uncordon("w001", "r1"), MarkFailed("i-001")):
        world.take(replace(LEAVING, pool="web"), step)
    assert world.executor.failures == 4
    assert [(event.kind, event.pool, event.text) for event in world.uow.events] == [
        (AlertKind.PERMISSION, "web", str(DENIED))
    ] * 2


def test_a_permission_that_lacks_without_an_operation_belongs_to_no_pool():
    world = World()
    world.asked.answers["mark_failed"] = DENIED
    world.take(None, MarkFailed("i-001"))
    assert [event.pool for event in world.uow.events] == [""]


def test_a_step_that_has_become_wrong_is_no_failure():
    world = World()
    before = world.executor.observation
    world.asked.answers["cordon"] = ChangedError("an operator did it")
    assert world.take(LEAVING, CORDON) is False
    assert (world.executor.failures, world.asked.warnings, world.uow.events) == (0, [], [])
    assert world.executor.observation == before
    ((text, fields),) = world.asked.lines
    assert_wording(text)
    assert fields == {"step": "Cordon"}


@pytest.mark.parametrize(
    ("asked_at", "terminating", "put"),
    [(NOON, True, True), (after(-60), True, False), (NOON, False, False), (None, True, False)],
)
def test_a_removal_that_ec2_was_not_asked_for_after_all_may_be_called_back(asked_at, terminating, put):
    operation = replace(LEAVING, terminating=terminating, asked_at=asked_at)
    world = World(operation)
    world.asked.machines["i-001"] = instance(1, worker=False)
    world.take(operation, Terminate("i-001", "it is idle"))
    written = world.uow.written().put
    assert written == ((replace(operation, terminating=False, asked_at=None),) if put else ())


@pytest.mark.parametrize(
    ("step", "act"),
    [(CORDON, "cordon"), (Uncordon("w001", "r1"), "uncordon")],
    ids=lambda value: type(value).__name__,
)
def test_a_step_whose_event_cannot_be_written_is_done(step, act):
    world = World()
    world.asked.answers["note"] = DENIED
    assert world.take(LEAVING, step) is True
    assert [call[0] for call in world.asked.acts] == [act]
    assert (world.executor.failures, len(world.executor.actions), world.uow.events) == (0, 1, [])
    ((text, _),) = world.asked.warnings
    assert "w001" in text
    assert str(DENIED) in text


def test_an_event_that_fails_through_a_fault_of_ours_is_no_trouble_of_kubernetes():
    world = World()
    world.asked.answers["note"] = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        world.take(LEAVING, CORDON)


# ── launch, cordon, uncordon, mark ───────────────────────────────────────────────────────────────────────────────


def test_a_launch_is_sent_and_its_answer_kept():
    world = World()
    world.asked.answers["launch"] = LaunchResult(instances=("i-7", "i-8"))
    assert world.take(launch(), SendLaunch(launch()))
    assert world.asked.acts == [("launch", launch())]
    kept = world.uow.operations["l1"]
    assert (kept.answered, kept.answered_at, kept.instances) == (True, NOON, ("i-7", "i-8"))
    assert (world.executor.launched, world.executor.short, world.executor.failures) == (2, False, 0)
    assert world.executor.actions == [
        ExecutedAction(
            kind=ActionKind.LAUNCH, instances=("i-7", "i-8"), asked=2, market="spot", zone="a", pool="default"
        )
    ]


@pytest.mark.parametrize("got", [("i-7",), ()])
def test_fewer_than_asked_for_is_short_and_counts(got):
    world = World()
    refusals = (Refusal(type="t3.small"),)
    world.asked.answers["launch"] = LaunchResult(instances=got, refusals=refusals)
    world.take(launch(), SendLaunch(launch()))
    assert (world.executor.launched, world.executor.short, world.executor.failures) == (len(got), True, 1)
    assert world.uow.operations["l1"].refusals == refusals
    assert (world.executor.actions[0].asked, world.executor.actions[0].instances) == (2, got)


def test_warm_instances_are_started_and_the_answer_is_kept():
    world, start = World(), launch(count=1, starts=("i-7",))
    world.asked.answers["start_warm"] = LaunchResult(instances=("i-7",))
    assert world.take(start, SendLaunch(start))
    assert world.asked.acts == [("start_warm", start)]
    assert world.uow.operations["l1"].instances == ("i-7",)
    assert [each.kind for each in world.executor.actions] == [ActionKind.START]


def test_what_ec2_gave_is_added_up():
    world = World()
    world.asked.answers["launch"] = LaunchResult(instances=("i-7",))
    world.take(launch(), SendLaunch(launch()))
    world.take(launch(), SendLaunch(launch(id="l2")))
    assert (world.executor.launched, world.executor.failures) == (2, 2)


@pytest.mark.parametrize(("deadline", "sent"), [(after(1), True), (NOON, False), (after(-1), False)])
def test_a_launch_that_is_too_old_is_not_sent(deadline, sent):
    world = World()
    world.asked.answers["launch"] = LaunchResult(instances=("i-7", "i-8"))
    assert world.take(launch(), SendLaunch(launch(deadline=deadline))) is sent
    assert bool(world.asked.acts) is sent


@pytest.mark.parametrize(("operation", "machine"), [(LEAVING, "i-001"), (cleanup(), ""), (None, "")])
def test_a_node_is_cordoned_as_that_of_its_machine(operation, machine):
    world = World()
    assert world.take(operation, CORDON)
    assert world.asked.acts == [("cordon", CORDON, machine)]
    assert world.asked.notes == [
        ("w001", "NodeFleetLeaving", "leaves: calm. Drained until 12:05:00 UTC", False),
    ]
    assert world.executor.actions == [
        ExecutedAction(kind=ActionKind.CORDON, node="w001", instance=machine, reason="calm")
    ]
    assert {each.name: each.removal for each in world.executor.observation.kubernetes.nodes if each.cordoned} == {
        "w001": "r1"
    }


def test_a_node_is_let_back_in():
    world = World()
    assert world.take(LEAVING, Uncordon("w001", "r1"))
    assert world.asked.acts == [("uncordon", "w001", "r1")]
    assert world.asked.notes == [("w001", "NodeFleetUncordoned", "takes pods again", False)]
    assert world.executor.actions == [ExecutedAction(kind=ActionKind.UNCORDON, node="w001")]


def test_an_instance_that_failed_to_join_is_marked():
    world = World()
    assert world.take(launch(), MarkFailed("i-001"))
    assert world.asked.acts == [("mark_failed", "i-001")]
    assert world.executor.actions == [ExecutedAction(kind=ActionKind.MARK_FAILED, instance="i-001")]
    assert [each.id for each in world.executor.observation.instances if each.failed] == ["i-001"]


# ── hand over ────────────────────────────────────────────────────────────────────────────────────────────────────

HAND_OVER = Assign(instance="i-001", node="w001", pool="default", reason="its pool is gone")


def unowned(**changes):
    world = World()
    world.asked.machines = {"i-001": instance(1, **{"pool": "old"} | changes)}
    return world


def test_a_worker_that_no_pool_owns_is_handed_over_on_its_node_first():
    world = unowned()
    assert world.take(None, HAND_OVER)
    assert world.asked.acts == [("label", "w001", "i-001", "default"), ("tag", "i-001", "default")]
    assert [(on, reason, warning) for on, reason, _, warning in world.asked.notes] == [
        ("w001", "NodeFleetAdopted", False)
    ]
    (message,) = [message for _, _, message, _ in world.asked.notes]
    assert "default" in message
    assert_wording(message)
    assert world.executor.actions == [
        ExecutedAction(kind=ActionKind.ASSIGN, node="w001", instance="i-001", pool="default")
    ]


def test_a_worker_without_a_node_is_handed_over_in_ec2_alone():
    world = unowned()
    assert world.take(None, replace(HAND_OVER, node=""))
    assert world.asked.calls == [("tag", "i-001", "default")]
    assert world.executor.actions == [ExecutedAction(kind=ActionKind.ASSIGN, instance="i-001", pool="default")]


def test_a_node_that_cannot_be_labelled_keeps_its_instance_where_it_is():
    world = unowned()
    world.asked.answers["label"] = ChangedError("another instance's")
    assert not world.take(None, HAND_OVER)
    assert [call[0] for call in world.asked.acts] == ["label"]
    assert world.executor.actions == []


@pytest.mark.parametrize(
    "changes",
    [
        {"pool": "default"},
        {"worker": False},
        {"state": InstanceState.SHUTTING_DOWN},
        {"state": InstanceState.TERMINATED},
    ],
    ids=["owned by now", "no worker", "ends", "ended"],
)
def test_what_is_owned_or_ends_is_not_handed_over(changes):
    world = unowned(**changes)
    assert not world.take(None, HAND_OVER)
    assert (world.asked.calls, world.executor.failures) == ([], 0)


def test_a_machine_that_ec2_does_not_know_is_not_handed_over():
    world = unowned()
    world.asked.machines = {}
    assert not world.take(None, HAND_OVER)
    assert (world.asked.calls, world.executor.failures) == ([], 0)


# ── evict ────────────────────────────────────────────────────────────────────────────────────────────────────────

EVICT = Evict(node="w001", pods=(WEB, API))


def answer(result, detail=""):
    return EvictionOutcome(result=result, detail=detail)


def test_pods_are_evicted_and_seen_as_going():
    world = World()
    world.asked.answers["evict"] = answer(Eviction.EVICTED)
    assert world.take(LEAVING, EVICT) is True
    assert world.asked.calls == [("evict", WEB), ("evict", API)]
    assert world.executor.evictions == {"evicted": 2}
    assert world.executor.actions == [ExecutedAction(kind=ActionKind.EVICT, node="w001", results={"evicted": 2})]
    assert world.deleting() == {"web-1", "api-1"}


def test_a_refusal_is_waited_for_and_noted_once():
    world = World()
    world.asked.answers |= {
        ("evict", WEB): answer(Eviction.REFUSED, "budget web"),
        ("evict", API): answer(Eviction.REFUSED),
    }
    assert world.take(LEAVING, EVICT) is True
    world.take(LEAVING, EVICT)
    assert world.asked.notes == [
        ("w001", "NodeFleetDrainWaits", "waits for default/web-1: budget web", True),
        ("w001", "NodeFleetDrainWaits", "waits for default/api-1: its budget says no", True),
    ]
    assert (world.executor.failures, world.uow.events) == (0, [])
    assert world.executor.evictions == {"refused": 4}


def test_a_pod_that_cannot_be_evicted_does_not_hold_up_the_other():
    world = World()
    world.asked.answers |= {("evict", WEB): AWAY, ("evict", API): answer(Eviction.EVICTED)}
    assert world.take(LEAVING, EVICT) is False
    assert world.executor.evictions == {"evicted": 1, "failed": 1}
    assert world.executor.actions == [
        ExecutedAction(kind=ActionKind.EVICT, node="w001", results={"evicted": 1, "failed": 1})
    ]
    assert world.executor.failures == 1
    assert world.deleting() == {"api-1"}
    assert world.asked.notes == [("w001", "NodeFleetDrainWaits", f"waits for default/web-1: {AWAY}", True)]
    assert [fields for _, fields in world.asked.warnings] == [{"step": "Evict"}]


def test_a_pod_that_changed_is_left_alone_and_is_no_failure():
    world = World()
    world.asked.answers |= {("evict", WEB): ChangedError("another pod"), ("evict", API): answer(Eviction.EVICTED)}
    assert world.take(LEAVING, EVICT) is False
    assert (world.executor.failures, world.asked.notes, world.asked.warnings) == (0, [], [])
    ((text, fields),) = world.asked.lines
    assert_wording(text)
    assert fields == {"step": "Evict"}
    assert world.deleting() == {"api-1"}


def test_many_failures_are_one_failed_step_and_five_are_named():
    pods = tuple(PodRef(namespace="default", name=f"p{number}", uid=f"p{number}") for number in range(7))
    for failing, named in ((7, ["Failed"] * 5 + ["2 more"]), (6, ["Failed"] * 5 + ["1 more"]), (5, ["Failed"] * 5)):
        world = World()
        world.asked.answers["evict"] = AWAY
        world.take(LEAVING, Evict(node="w001", pods=pods[:failing]))
        assert world.executor.failures == 1
        assert [text.startswith(words) for (text, _), words in zip(world.asked.warnings, named, strict=True)] == [
            True
        ] * len(named)
        assert {fields["step"] for _, fields in world.asked.warnings} == {"Evict"}


def test_pods_for_which_no_time_is_left_wait_for_the_next_run():
    world = World()

    def late():
        world.asked.left = timedelta(seconds=1)

    world.asked.before_calls = late
    assert world.take(LEAVING, EVICT) is False
    assert world.asked.calls == []
    assert world.executor.unfinished is True
    assert (world.executor.failures, world.executor.actions, world.executor.evictions) == (0, [], {"failed": 0})
    assert world.deleting() == set()


@pytest.mark.parametrize(
    ("operation", "shown"),
    [
        (None, node(1, cordoned=True, removal="r1")),
        (cleanup(), node(1, cordoned=True, removal="r1")),
        (LEAVING, None),
        (LEAVING, node(1)),
        (LEAVING, node(1, cordoned=True, removal="r2")),
        (LEAVING, node(1, cordoned=True, removal="r1", instance="i-009")),
        (replace(LEAVING, why=RemovalReason.INTERRUPTED), node(1)),
    ],
    ids=["no operation", "no removal", "no node", "uncordoned", "another's cordon", "another instance", "interrupted"],
)
def test_nothing_is_evicted_from_a_node_that_does_not_leave(operation, shown):
    world = World()
    world.asked.nodes = {"w001": shown}
    assert world.take(operation, EVICT) is False
    assert (world.asked.calls, world.executor.failures) == ([], 0)


@pytest.mark.parametrize(
    ("operation", "shown"),
    [
        (replace(LEAVING, why=RemovalReason.INTERRUPTED), node(1, cordoned=True, removal="")),
        (LEAVING, node(1, cordoned=True, removal="r1", instance="")),
        (replace(LEAVING, instance=""), node(1, cordoned=True, removal="r1")),
    ],
    ids=["any cordon will do", "it names no instance", "the removal names none"],
)
def test_a_node_that_leaves_is_drained(operation, shown):
    world = World()
    world.asked.nodes = {"w001": shown}
    world.asked.answers["evict"] = answer(Eviction.EVICTED)
    assert world.take(operation, EVICT)


@pytest.mark.parametrize("why", list(RemovalReason))
def test_a_pod_under_several_budgets_is_told_and_ends_only_a_voluntary_removal(why):
    operation = replace(LEAVING, why=why)
    world = World(operation)
    world.asked.answers["evict"] = answer(Eviction.SEVERAL_BUDGETS, "two of them")
    world.take(operation, Evict(node="w001", pods=(WEB,)))
    (event,) = world.uow.events
    assert (event.kind, event.pool) == (AlertKind.DRAIN_BLOCKED, "default")
    blocker = "several budgets cover default/web-1"
    assert_wording(event.text)
    assert world.asked.notes == [("w001", "NodeFleetDrainBlocked", event.text, True)]
    voluntary = why is RemovalReason.VOLUNTARY
    assert world.uow.operations["r1"].cancelled == (blocker if voluntary else "")
    assert [each.node for each in world.uow.memory.pool("default").backoffs] == (["w001"] if voluntary else [])


# ── force ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("pods", [(WEB,), (WEB, API)])
def test_pods_are_deleted_by_force(pods):
    world = World()
    assert world.take(LEAVING, ForceDelete(node="w001", pods=pods)) is True
    assert world.asked.calls == [("delete_pod", each) for each in pods]
    assert world.executor.evictions == {"forced": len(pods)}
    assert world.executor.actions == [
        ExecutedAction(kind=ActionKind.FORCE_DELETE, node="w001", results={"forced": len(pods)})
    ]
    assert world.deleting() == {each.name for each in pods}


def test_a_pod_that_cannot_be_deleted_does_not_hold_up_the_other():
    world = World()
    world.asked.answers[("delete_pod", WEB)] = AWAY
    assert world.take(LEAVING, ForceDelete(node="w001", pods=(WEB, API))) is False
    assert (world.executor.evictions, world.executor.failures, world.deleting()) == ({"forced": 1}, 1, {"api-1"})


def test_pods_deleted_by_several_steps_are_added_up():
    world = World()
    for each in (WEB, API):
        world.take(LEAVING, ForceDelete(node="w001", pods=(each,)))
    assert world.executor.evictions == {"forced": 2}


def test_where_none_could_be_deleted_nothing_was_done():
    world = World()
    world.asked.answers["delete_pod"] = AWAY
    world.take(LEAVING, ForceDelete(node="w001", pods=(WEB, API)))
    assert (world.executor.evictions, world.executor.actions, world.executor.failures) == ({}, [], 1)


# ── terminate ────────────────────────────────────────────────────────────────────────────────────────────────────

END = Terminate("i-001", "it is idle")


def ends(world, operation=LEAVING):
    done = world.take(operation, END)
    assert world.asked.acts == ([("terminate", "i-001")] if done else [])
    assert world.executor.actions == (
        [ExecutedAction(kind=ActionKind.TERMINATE, instance="i-001", reason="it is idle")] if done else []
    )
    return done


def test_an_empty_node_that_leaves_is_terminated():
    world = World()
    assert ends(world)
    assert {each.id: each.state for each in world.executor.observation.instances}[
        "i-001"
    ] is InstanceState.SHUTTING_DOWN


@pytest.mark.parametrize(
    "gone", [None, instance(1, state=InstanceState.SHUTTING_DOWN), instance(1, state=InstanceState.TERMINATED)]
)
def test_one_that_ends_already_is_not_asked_to(gone):
    world = World()
    world.asked.machines = {"i-001": gone}
    assert world.take(LEAVING, END)
    assert (world.asked.acts, world.executor.actions) == ([], [])


@pytest.mark.parametrize("state", [InstanceState.PENDING, InstanceState.STOPPED, InstanceState.STOPPING])
def test_one_that_is_not_over_is(state):
    world = World()
    world.asked.machines = {"i-001": instance(1, state=state)}
    assert ends(world)


def test_one_that_is_no_worker_is_left_alone():
    world = World()
    world.asked.machines = {"i-001": instance(1, worker=False)}
    assert not ends(world)


def test_a_node_with_a_pod_that_has_to_move_is_left_alone():
    world = World()
    world.asked.pods = {"w001": (pod("web-1", "w001"),)}
    assert not ends(world)
    assert_wording(world.asked.lines[0][0])


def test_a_node_that_was_let_back_in_is_left_alone():
    world = World()
    world.asked.nodes = {"w001": node(1)}
    assert not ends(world)
    assert "w001" in world.asked.lines[0][0]
    assert "r1" in world.asked.lines[0][0]


def test_a_removal_without_a_node_or_whose_node_is_gone_goes_on():
    world = World()
    world.asked.nodes = {}
    assert ends(world)
    assert ends(World(), replace(LEAVING, node=""))


@pytest.mark.parametrize(
    ("shown", "goes"),
    [
        (node(1), False),
        (node(1, ready=False), True),
        (node(1, instance="i-009"), True),
        (None, True),
    ],
    ids=["ready again", "not ready", "another instance's", "no node"],
)
def test_a_sick_node_goes_unless_it_is_ready_again(shown, goes):
    world = World()
    world.asked.nodes = {"w001": shown}
    world.asked.pods = {"w001": (pod("web-1", "w001"),)}
    assert ends(world, replace(LEAVING, why=RemovalReason.UNHEALTHY)) is goes


def test_a_sick_machine_without_a_node_goes():
    assert ends(World(), replace(LEAVING, why=RemovalReason.UNHEALTHY, node=""))


def test_only_something_that_is_open_may_terminate():
    assert ends(World(), cleanup())
    world = World()
    assert not ends(world, launch())
    assert is_phrase(world.asked.lines[0][0].split(": ", 1)[1])
    assert not ends(World(), None)


# ── keeping warm ─────────────────────────────────────────────────────────────────────────────────────────────────

KEPT = replace(LEAVING, keeps=True, terminating=True, asked_at=NOON)
KEEP = KeepWarm("i-001", "it is idle")


def test_an_empty_node_that_is_kept_is_stopped():
    world = World(KEPT)
    world.asked.answers["keep_warm"] = True
    assert world.take(KEPT, KEEP)
    assert world.asked.acts == [("keep_warm", "i-001")]
    (seen,) = [each for each in world.executor.observation.instances if each.id == "i-001"]
    assert (seen.state, seen.warm) == (InstanceState.STOPPING, True)
    assert [each.kind for each in world.executor.actions] == [ActionKind.KEEP_WARM]


def test_a_node_with_pods_is_not_stopped():
    world = World(KEPT)
    world.asked.pods["w001"] = (pod("web-1", on="w001"),)
    assert not world.take(KEPT, KEEP)
    assert world.asked.acts == []


def test_what_ec2_cannot_stop_is_terminated_in_the_next_iteration():
    world = World(KEPT)
    world.asked.answers["keep_warm"] = False
    assert not world.take(KEPT, KEEP)
    assert world.uow.operations["r1"] == replace(KEPT, keeps=False, terminating=False, asked_at=None)
    assert world.executor.failures == 0


@pytest.mark.parametrize(("warm", "goes"), [(True, True), (False, False)])
def test_the_node_of_a_stopped_instance_is_deleted_only_if_we_stopped_it(warm, goes):
    world = World(KEPT)
    world.asked.machines["i-001"] = instance(1, state=InstanceState.STOPPED, warm=warm)
    assert world.take(KEPT, DeleteNode("w001")) is goes


def test_while_it_still_stops_its_node_stays():
    world = World(KEPT)
    world.asked.machines["i-001"] = instance(1, state=InstanceState.STOPPING, warm=True)
    assert not world.take(KEPT, DeleteNode("w001"))


# ── node ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("machine", "goes"),
    [(None, True), (instance(1, state=InstanceState.TERMINATED), True), (instance(1), False)],
    ids=["unknown", "terminated", "running"],
)
@pytest.mark.parametrize("operation", [LEAVING, cleanup(), None], ids=["removal", "cleanup", "none"])
def test_a_node_is_deleted_when_its_machine_is_gone(operation, machine, goes):
    world = World()
    world.asked.machines = {"i-001": machine}
    assert world.take(operation, DeleteNode("w001")) is goes
    assert world.asked.acts == ([("delete_node", "w001", "i-001")] if goes else [])
    assert [action.kind for action in world.executor.actions] == ([ActionKind.DELETE_NODE] if goes else [])
    assert ("w001" in {each.name for each in world.executor.observation.kubernetes.nodes}) is not goes


def test_a_node_of_a_removal_is_judged_by_the_removals_machine():
    world = World()
    world.asked.nodes = {"w001": node(1, instance="")}
    assert not world.take(LEAVING, DeleteNode("w001"))
    assert world.take(cleanup(), DeleteNode("w001"))
    assert world.asked.acts == [("delete_node", "w001", "")]


def test_a_node_that_is_gone_is_not_deleted_again():
    world = World()
    world.asked.nodes = {}
    assert world.take(LEAVING, DeleteNode("w001"))
    assert (world.asked.acts, world.executor.actions) == ([], [])


# ── several steps ────────────────────────────────────────────────────────────────────────────────────────────────

JOINED = Joined(pool="default", instance="i-7", took=timedelta(seconds=80), at=NOON)
DONE = Close(operation="r1", outcome=Outcome.DONE, detail="")


@pytest.mark.parametrize(
    "late", [EVICT, ForceDelete(node="w001", pods=(WEB,)), END], ids=lambda step: type(step).__name__
)
def test_steps_wait_from_the_first_that_needs_every_cordon(late):
    world = World(LEAVING)
    rest = world.executor.execute_early(LEAVING, Progress(steps=(CORDON, late, DONE), lessons=(JOINED,)))
    assert rest == (late, DONE)
    assert world.asked.acts == [("cordon", CORDON, "i-001")]
    assert world.uow.joins == [80.0]
    assert "r1" in world.uow.operations


@pytest.mark.parametrize("steps", [(), (Save(LEAVING),), (DONE,), (Save(LEAVING), DONE), (CORDON,)])
def test_lessons_are_learned_once(steps):
    world = World(LEAVING)
    assert world.executor.execute_early(LEAVING, Progress(steps=steps, lessons=(JOINED,))) == ()
    assert world.uow.joins == [80.0]


def test_what_is_only_written_is_written():
    world = World(LEAVING)
    newer = replace(LEAVING, reason="newer")
    alert = SendAlert(alert=AlertKind.AT_MAX, pool="default", text="full")
    assert world.executor.execute_early(LEAVING, Progress(steps=(Save(newer), alert))) == ()
    assert world.uow.operations == {"r1": newer}
    assert [event.kind for event in world.uow.events] == [AlertKind.AT_MAX]
    world.executor.execute_early(LEAVING, Progress(steps=(DONE,)))
    assert world.uow.operations == {}


def test_a_step_works_on_the_newest_version_of_its_operation():
    world = World(LEAVING)
    newer = replace(LEAVING, instance="i-002")
    world.executor.execute_early(LEAVING, Progress(steps=(Save(newer), CORDON)))
    assert world.asked.acts == [("cordon", CORDON, "i-002")]


def test_a_step_of_an_operation_that_is_not_recorded_yet_works_on_what_is_given():
    world = World()
    world.executor.execute_early(LEAVING, Progress(steps=(CORDON,)))
    assert world.asked.acts == [("cordon", CORDON, "i-001")]


def test_after_a_step_that_fails_none_follows():
    world = World(LEAVING)
    world.asked.answers["cordon"] = AWAY
    assert world.executor.execute_early(LEAVING, Progress(steps=(CORDON, Uncordon("w001", "r1"), EVICT))) == ()
    assert world.asked.acts == [("cordon", CORDON, "i-001")]
    world.executor.execute_late("r1", (CORDON, Uncordon("w001", "r1")))
    assert len(world.asked.acts) == 2


def test_the_rest_is_taken_while_the_operation_is_open():
    world = World(LEAVING)
    world.executor.execute_late("r1", (CORDON, Uncordon("w001", "r1")))
    assert [call[0] for call in world.asked.acts] == ["cordon", "uncordon"]
    world.uow.close(DONE)
    world.executor.execute_late("r1", (CORDON,))
    assert len(world.asked.acts) == 2

"""What an iteration makes of a plan and leaves behind, function by function."""

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest

from nodefleet.errors import LostLeaseError, UnavailableError
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Action, ActionKind, Decision, ExecutedAction, PolicyVersion, PoolDecision
from nodefleet.model.fleet import Count
from nodefleet.model.inventory import Notice, NoticeKind
from nodefleet.model.operations import (
    Assign,
    CancelRemoval,
    Close,
    Cordon,
    Create,
    Evict,
    Joined,
    Outcome,
    PodRef,
    Save,
    SendAlert,
    SendLaunch,
    Terminate,
    Uncordon,
)
from nodefleet.model.serialization import ValidationError, ValidationIssue
from nodefleet.model.snapshot import Pause
from nodefleet.model.state import Level, LoopState, Memory, PoolMemory
from nodefleet.operations.progress import Progress
from nodefleet.phases import derive_workers
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Pool
from nodefleet.ports import Eviction, EvictionOutcome, LaunchResult, Lease, State
from nodefleet.reconcile import run as loop
from nodefleet.reconcile.audit import CycleResult, DecisionInput, bill, figures, make_record, seed_attributes
from nodefleet.reconcile.observe import resolve_policy
from support.book_builders import Commits, OpenBook
from support.builders import NOON, after, look, pod
from support.operation_builders import launch, removal

FULL = SendAlert(alert=AlertKind.AT_MAX, pool="default", text="full")
ASSIGN = Assign(instance="i-1", pool="default", reason="its pool is gone")


def pool(*plan, **changes):
    base = PoolDecision(
        pool="default", action=Action.HOLD, count=Count(ready=3, booting=1), target=4, reason="", plan=plan
    )
    return replace(base, **changes)


def decision(*pools, **changes):
    base = Decision(at=NOON, cluster="shop", level=Level.NORMAL, pools=pools, memory=Memory())
    return replace(base, **changes)


def write(book, decided):
    return loop._record_plan(book, decided, look(3))


# ── the plan ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_operations_that_a_plan_opens_or_changes_are_written_and_begun_once_each():
    book = OpenBook()
    begun = write(book, decision(pool(Create(removal()), Save(launch()), Save(removal(reason="newer")))))
    assert begun.operations == ("r1", "l1")
    assert begun.at_once == ()
    assert book.operations == {"r1": removal(reason="newer"), "l1": launch()}


def test_a_removal_that_is_called_off_is_written_with_its_reason_and_goes_on():
    book = OpenBook(look(3, operations=(removal(),)))
    cancel = CancelRemoval(operation="r1", reason="it is needed")
    begun = write(book, decision(pool(cancel)))
    assert begun.operations == ("r1",)
    assert book.operations["r1"].cancelled == cancel.reason
    assert [each.cancelled for each in book.written().put] == [cancel.reason]


@pytest.mark.parametrize("operations", [(), (launch(id="r1"),)], ids=["gone", "no removal"])
def test_what_is_no_removal_any_more_is_not_called_off(operations):
    book = OpenBook(look(3, operations=operations))
    assert write(book, decision(pool(CancelRemoval(operation="r1", reason="")))).operations == ()
    assert book.written().put == ()


def test_steps_that_need_no_operation_are_taken_at_once():
    begun = write(OpenBook(), decision(pool(Uncordon("w1", "r1")), plan=(ASSIGN,)))
    assert begun.at_once == (Uncordon("w1", "r1"), ASSIGN)
    assert begun.operations == ()


def test_alerts_of_pools_and_of_the_cluster_are_sent():
    book = OpenBook()
    tells = (SendAlert(alert=AlertKind.DEGRADED, pool="", text="Prometheus is away"),)
    write(book, decision(pool(FULL), tells=tells))
    assert [(event.kind, event.pool, event.dry) for event in book.events] == [
        (AlertKind.AT_MAX, "default", False),
        (AlertKind.DEGRADED, "", False),
    ]


def test_of_a_dry_plan_only_the_alerts_are_left_and_the_other_pools_go_on():
    book = OpenBook(look(3, operations=(removal(),)))
    dry = pool(
        Create(launch()),
        FULL,
        CancelRemoval(operation="r1", reason=""),
        Uncordon("w1", "r1"),
        dry_run=True,
    )
    begun = write(book, decision(dry, pool(Uncordon("w2", "r2"), pool="web")))
    assert (begun.operations, begun.at_once) == ((), (Uncordon("w2", "r2"),))
    assert book.operations == {"r1": removal()}
    assert [(event.kind, event.dry) for event in book.events] == [(AlertKind.AT_MAX, True)]


def test_scaling_is_told():
    book = OpenBook()
    write(book, decision(pool(action=Action.GROW, target=6)))
    assert [(event.kind, event.change) for event in book.events] == [(AlertKind.SCALE_UP, 2)]


def test_a_plan_that_holds_something_else_is_a_fault():
    with pytest.raises(AssertionError, match="Evict"):
        write(OpenBook(), decision(pool(Evict(node="w1", pods=()))))


# ── after it ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Archive:
    def __init__(self, error=None):
        self.kept, self.error = {}, error

    def keep(self, key, content):
        if self.error:
            raise self.error
        self.kept[key] = content


CORDONED = ExecutedAction(kind=ActionKind.CORDON, node="w001")


def finish(*actions, eventful=False, archive=None, took=3.2, journal=None):
    """Gives what is written at the end, the archive and the warnings."""
    seen = look(3, pods=[pod("web-1", "w001")])
    question = DecisionInput(observation=seen, memory=Memory(), policy=Policy())
    decided = decision(pool())
    record, content = make_record(
        question, decided, fence=7, version=5, actions=(), values={"level": 0}, eventful=eventful
    )
    book = OpenBook(seen, journal)
    archive, warnings = archive or Archive(), []
    parts = SimpleNamespace(
        archive=archive,
        time=SimpleNamespace(now=lambda: seen.at + timedelta(seconds=took)),
        telemetry=SimpleNamespace(warn=warnings.append),
    )
    loop._finish(
        parts,
        book,
        SimpleNamespace(actions=list(actions), did=[str(each) for each in actions]),
        decided,
        question,
        record,
        content,
        5,
    )
    return book.written(), archive, warnings, record


def test_a_look_without_news_keeps_its_usage_and_its_duration_and_archives_nothing():
    changes, archive, warnings, _ = finish(journal=LoopState(iterations=(2,)))
    assert (changes.decision, archive.kept, warnings) == (None, {}, [])
    assert changes.journal.iterations == (2, 4)
    assert changes.journal.usage.pools["default"].most_nodes == 4
    assert changes.seed == {"node_count": 4}
    assert changes.usage == ()


def test_the_hour_that_is_over_is_written():
    before = LoopState(usage=finish()[0].journal.usage)
    before = replace(before, usage=replace(before.usage, hour=after(-3600), last=after(-60)))
    changes, *_ = finish(journal=before)
    assert [usage.hour for usage in changes.usage] == [after(-3600)]


def test_what_was_done_is_recorded_and_makes_a_look_worth_archiving():
    changes, archive, _, _ = finish(CORDONED)
    assert (changes.decision.did, changes.decision.actions) == ((str(CORDONED),), (CORDONED,))
    assert (changes.decision.fence, changes.decision.policy) == (7, 5)
    assert list(archive.kept) == [changes.decision.archived]
    assert changes.decision.archived


def test_an_eventful_look_is_archived_under_the_name_in_its_record():
    changes, archive, _, record = finish(eventful=True)
    assert list(archive.kept) == [record.archived]
    assert changes.decision is None


def test_what_could_not_be_archived_is_warned_of_and_not_promised():
    changes, _, warnings, record = finish(eventful=True, archive=Archive(UnavailableError("S3", "away")))
    assert changes.decision == replace(record, archived="")
    assert len(warnings) == 1
    assert "S3" in warnings[0]


@pytest.mark.parametrize(
    ("memories", "last"),
    [
        ({}, {}),
        ({"a": PoolMemory(last_grow=NOON)}, {"last_scale_time": NOON.isoformat(), "last_scale_action": "scale_up"}),
        (
            {"a": PoolMemory(last_grow=NOON, last_shrink=after(5)), "b": PoolMemory(last_grow=after(2))},
            {"last_scale_time": after(5).isoformat(), "last_scale_action": "scale_down"},
        ),
    ],
    ids=["never", "once", "the latest of all"],
)
def test_the_attributes_of_the_first_description(memories, last):
    decided = decision(pool(), pool(count=Count(ready=2)))
    assert seed_attributes(decided, Memory(pools=memories)) == {"node_count": 6} | last


# ── the whole iteration ──────────────────────────────────────────────────────────────────────────────────────────

LEASE = Lease(owner="run", fence=7, expires=after(60))
VERSION = PolicyVersion(number=5, source="ann", at=NOON, data={}, digest="d5")
REFUSED = ValidationError((ValidationIssue(path="limits.min", value=9, wrong="is above max", right="Lower it."),))
WEB = PodRef(namespace="default", name="web-1", uid="web-1")
LEAVING = removal(instance="i-001", node="w001")
CORDON = Cordon(node="w001", removal="r1", reason="calm", deadline=after(300))
EVICT = Evict(node="w001", pods=(WEB,))
DONE = Close(operation="r1", outcome=Outcome.DONE, detail="")
JOINED = Joined(pool="default", instance="i-7", took=timedelta(seconds=80), at=NOON)


class Iteration:
    """One iteration at three workers. What is seen and decided, and how operations go on, is given."""

    def __init__(self, monkeypatch, decided=None, steps=None, policy=None, **seen):
        self.decided = decided or decision(pool(), look_again="a node boots")
        self.steps = steps or {}
        self.policy = policy or Policy()
        self.observed = look(3, **{"pods": [pod("web-1", "w001")]} | seen)
        self.calls, self.asked, self.advanced, self.warnings = [], [], [], []
        self.answers = {}
        self.commits, self.archive = Commits(), Archive()
        monkeypatch.setattr(loop, "observe", self._observe)
        monkeypatch.setattr(loop, "decide", self._decide)
        monkeypatch.setattr(loop, "advance", self._advance)

    def look(self, number=3, **state):
        world = SimpleNamespace(
            node=lambda name: replace(
                next(each for each in self.observed.kubernetes.nodes if each.name == name), cordoned=True, removal="r1"
            ),
            instance=lambda name: next(each for each in self.observed.instances if each.id == name),
            pods_on=lambda _: (),
            note=lambda *_, **__: None,
            **{name: self._call(name) for name in ("cordon", "uncordon", "evict", "terminate", "launch", "assign")},
        )
        parts = SimpleNamespace(
            cluster_id="shop",
            cluster=world,
            cloud=world,
            store=SimpleNamespace(commit=self._commit),
            archive=self.archive,
            policies=SimpleNamespace(read=self._read, salvage=lambda _: self.policy),
            time=SimpleNamespace(now=lambda: after(4), remaining=lambda: timedelta(seconds=90)),
            telemetry=SimpleNamespace(line=lambda *_, **__: None, warn=lambda text, **_: self.warnings.append(text)),
            together=lambda *calls: [call() for call in calls],
            requests=None,
        )
        state = State(**{"fence": 7, "policy": VERSION} | state)
        rules = resolve_policy(state, parts.policies, after(4))
        return loop.reconcile_once(parts, LEASE, state, rules, number)

    def _read(self, data):
        if isinstance(data, Exception):
            raise data
        return self.policy

    def _observe(self, parts, state, policy, run, within):
        assert parts.cluster_id == "shop"
        assert policy == self.policy
        self.calls.append(("observe", run, within))
        return replace(self.observed, operations=state.operations, commands=state.commands)

    def _decide(self, seen, memory, policy, fleet):
        self.calls.append(("decide",))
        assert fleet == derive_workers(seen, policy)
        self.asked.append((seen, memory, policy))
        if isinstance(self.decided, Exception):
            raise self.decided
        return self.decided

    def _advance(self, operation, seen, policy, fleet, memory):
        assert policy is self.policy
        self.advanced.append((operation, seen, [worker.instance.id for worker in fleet], memory))
        return self.steps.get(operation.id, Progress(steps=()))

    def _call(self, name):
        def call(*arguments):
            self.calls.append((name, *arguments))
            answer = self.answers.get(name)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call

    def _commit(self, lease, changes):
        self.calls.append(("commit",))
        self.commits.commit(lease, changes)

    @property
    def order(self):
        return [call[0] for call in self.calls if call[0] != "commit"]

    @property
    def written(self):
        return self.commits.all


@pytest.fixture
def play(monkeypatch):
    return lambda *given, **seen: Iteration(monkeypatch, *given, **seen)


def test_a_quiet_look_is_observed_decided_and_written_once(play):
    played = play()
    came = played.look()
    policy = played.policy
    assert played.calls == [("observe", "7.3", policy.burst.every), ("decide",), ("commit",)]
    assert came == CycleResult(
        policy=policy,
        observation=played.observed,
        decision=played.decided,
        requeue_reason="a node boots",
        evictions={},
        costs=bill(played.observed),
        figures=figures(played.observed, played.decided, bill(played.observed)),
    )
    (changes,) = played.written
    assert (changes.decision.fence, changes.decision.policy, changes.decision.did) == (7, 5, ())
    assert (changes.decision.archived, played.archive.kept) == ("", {})
    assert changes.journal.iterations == (4,)


def test_it_decides_on_what_it_saw_and_remembers_what_was_decided(play):
    before, after_it = Memory(pools={"default": PoolMemory(last_grow=NOON)}), Memory(level=Level.DEGRADED)
    played = play(decision(pool(), memory=after_it))
    played.look(journal=LoopState(memory=before))
    assert played.asked == [(played.observed, before, played.policy)]
    assert played.written[-1].journal.memory == after_it


def test_what_was_done_failed_and_counted_is_handed_over(play):
    fresh = launch(count=2)
    played = play(
        decision(pool(Create(fresh))),
        {
            "l1": Progress(steps=(SendLaunch(fresh),)),
            "r1": Progress(steps=(CORDON, EVICT, Terminate("i-001", "calm")), lessons=(JOINED,)),
            "r2": Progress(steps=(replace(DONE, operation="r2"),)),
            "r3": Progress(steps=(Close(operation="r3", outcome=Outcome.FAILED, detail=""),)),
        },
    )
    played.answers = {"launch": LaunchResult(instances=("i-7",)), "evict": EvictionOutcome(result=Eviction.EVICTED)}
    came = played.look(operations=(LEAVING, removal(id="r2", instance="i-002", started=after(-30)), removal(id="r3")))
    assert played.order == ["observe", "cordon", "decide", "launch", "evict", "terminate"]
    assert (came.launched, came.removed, came.joins, came.drains) == (1, 1, (80.0,), (30.0,))
    assert came.failures == 2  # the launch that fell short, and the removal that failed
    assert (came.requeue_reason != "", came.at_once) == (True, True)
    assert came.evictions == {"evicted": 1}
    kinds = [ActionKind.CORDON, ActionKind.LAUNCH, ActionKind.EVICT, ActionKind.TERMINATE]
    assert [action.kind for action in came.actions] == kinds
    assert played.written[-1].decision.actions == came.actions
    assert list(played.archive.kept) == [played.written[-1].decision.archived]


def test_a_launch_that_is_served_in_full_asks_for_no_look_at_once(play):
    fresh = launch(count=1)
    decided = decision(pool(Create(fresh)), look_again="it boots")
    played = play(decided, {"l1": Progress(steps=(SendLaunch(fresh),))})
    played.answers["launch"] = LaunchResult(instances=("i-7",))
    came = played.look()
    assert came.requeue_reason == decided.look_again
    assert (came.at_once, came.failures, came.launched) == (False, 0, 1)


def test_operations_go_on_by_what_is_seen_with_those_that_are_open(play):
    memory = Memory(pools={"default": PoolMemory(last_grow=NOON)})
    played = play(decision(pool(Create(launch()))))
    played.look(operations=(LEAVING,), journal=LoopState(memory=memory))
    (first, second) = played.advanced
    assert (first[0], first[1].operations, first[2], first[3]) == (
        LEAVING,
        (LEAVING,),
        ["i-000", "i-001", "i-002"],
        memory,
    )
    assert (second[0], second[1].operations) == (launch(), (LEAVING, launch()))
    assert played.asked[0][0].operations == (LEAVING,)


@pytest.mark.parametrize(("dry", "goes_on"), [(True, []), (False, ["r1"])])
def test_operations_of_a_dry_pool_wait(play, dry, goes_on):
    other = removal(id="r2", pool="web")
    policy = Policy(pools=(Pool(dry_run=dry), Pool(name="web")))
    played = play(None, None, policy)
    played.look(operations=(LEAVING, other))
    assert [operation.id for operation, *_ in played.advanced] == [*goes_on, "r2"]


def test_steps_that_need_no_operation_are_taken_before_those_that_do(play):
    played = play(decision(pool(Uncordon("w002", "r9"), Create(LEAVING))), {"r1": Progress(steps=(CORDON,))})
    came = played.look()
    assert played.order == ["observe", "decide", "uncordon", "cordon"]
    assert len(came.did) == 2


def test_every_cordon_comes_before_the_first_eviction(play):
    other = removal(id="r2", instance="i-002", node="w002")
    played = play(
        decision(pool(Create(other))),
        {"r1": Progress(steps=(CORDON, EVICT)), "r2": Progress(steps=(replace(CORDON, node="w002", removal="r2"),))},
    )
    played.answers["evict"] = EvictionOutcome(result=Eviction.EVICTED)
    played.look(operations=(LEAVING,))
    assert played.order == ["observe", "cordon", "decide", "cordon", "evict"]


def test_an_operation_that_the_plan_names_and_that_is_over_is_not_begun(play):
    played = play(decision(pool(CancelRemoval(operation="r9", reason=""))))
    played.look()
    assert played.advanced == []


def test_commands_that_have_ended_are_let_go_of(play):
    played = play()
    ended = Pause(by="ann", until=after(-60))
    played.look(commands=(ended,))
    assert played.written[-1].expired == (ended,)


def test_a_notice_that_is_over_is_let_go_of_and_not_decided_on(play):
    """The instance ran on for long, so its node takes pods again and is capacity."""
    fresh = Notice(instance="i-002", kind=NoticeKind.SPOT_INTERRUPTION, at=NOON)
    over = replace(fresh, instance="i-001", at=after(-30_000))
    played = play(notices=(over, fresh))
    played.look()
    assert played.written[-1].retire == (over,)
    ((decided_on, _, _),) = played.asked
    assert decided_on.notices == (fresh,)


def test_a_policy_that_is_refused_holds_the_fleet_and_is_told(play):
    played = play()
    played.look(policy=replace(VERSION, data=REFUSED))
    assert played.asked[0][0].hold != ""
    assert [event.kind for event in played.written[-1].events] == [AlertKind.POLICY_UNUSABLE]


def test_without_a_recorded_policy_only_an_empty_cluster_gets_the_defaults(play):
    held = play(None, None, Policy())
    held.look(policy=None)
    assert held.asked[0][0].hold != ""
    assert held.asked[0][2].pools == ()
    assert held.written[-1].policy is None
    begun = play(None, None, Policy())
    begun.observed = look(0)
    begun.look(policy=None)
    assert (begun.asked[0][0].hold, begun.asked[0][2]) == ("", Policy())
    (changes,) = begun.written
    assert (changes.policy.number, changes.policy.at, changes.decision.policy) == (1, after(4), 1)


def test_a_decision_of_which_nothing_could_be_done_is_archived_all_the_same(play):
    fresh = launch()
    played = play(decision(pool(Create(fresh), action=Action.GROW)), {"l1": Progress(steps=(SendLaunch(fresh),))})
    played.answers["launch"] = UnavailableError("EC2", "away")
    came = played.look()
    assert (came.did, came.failures) == ((), 1)
    records = [changes.decision for changes in played.written if changes.decision]
    assert list(played.archive.kept) == [record.archived for record in records]


def test_a_declared_policy_is_taken_up_or_refused_and_told_once(play):
    declared = PolicyVersion(number=0, source="stack", at=NOON, data={}, digest="new")
    played = play()
    played.look(declared=declared)
    (changes,) = played.written
    assert (changes.policy.number, changes.policy.digest) == (6, "new")
    assert [(event.kind, event.pool) for event in changes.events] == [(AlertKind.POLICY_CHANGED, "")]
    assert changes.decision.policy == 6
    refused = play()
    refused.look(declared=replace(declared, data=REFUSED))
    (changes,) = refused.written
    assert (changes.policy, changes.journal.refused_policy) == (None, "new")
    assert [event.kind for event in changes.events] == [AlertKind.POLICY_REFUSED]


@pytest.mark.parametrize(
    ("error", "written"),
    [(ZeroDivisionError(), 1), (UnavailableError("DynamoDB", "away"), 0), (LostLeaseError("lost"), 0)],
    ids=lambda value: type(value).__name__,
)
def test_what_was_done_before_a_fault_is_written_unless_nothing_can_be(play, error, written):
    played = play(error, {"r1": Progress(steps=(Save(LEAVING),))})
    with pytest.raises(type(error)):
        played.look(operations=(replace(LEAVING, reason="older"),))
    assert [changes.put for changes in played.written] == [(LEAVING,)] * written

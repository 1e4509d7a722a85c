"""What is asked for a node that EC2 takes, call by call, and when it is enough. The run itself is played."""

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest

from nodefleet.errors import ChangedError, NodeFleetError, UnavailableError
from nodefleet.model.decision import Decision, PolicyVersion
from nodefleet.model.inventory import Notice, NoticeKind
from nodefleet.model.operations import Cordon, PodRef, RemovalReason
from nodefleet.model.snapshot import emergency
from nodefleet.model.state import Level, Memory
from nodefleet.model.workload import Owner, Rules, Toleration
from nodefleet.policy.cluster import Burst, Policy
from nodefleet.policy.pool import Pool
from nodefleet.ports import Eviction, EvictionOutcome, LeaseHeld, RunResult, State
from nodefleet.reconcile import emergency_drain
from support.builders import NOON, after, node, pod
from support.operation_builders import launch, removal
from support.wording import assert_wording

WARNING = Notice(instance="i-001", kind=NoticeKind.SPOT_INTERRUPTION, at=NOON)
OTHER = replace(WARNING, instance="i-002")
AWAY = UnavailableError("DynamoDB", "no answer")
HELD = RunResult(held=LeaseHeld(owner="other", expires=after(60)))
BURST, RESERVE = 10, 15  # seconds, the policy's defaults


def saw(level):
    return RunResult(iterations=1, decision=Decision(at=NOON, cluster="shop", level=level, pools=(), memory=Memory()))


def ref(name):
    return PodRef(namespace="default", name=name, uid=name)


class Played:
    def __init__(self, *, runs=(HELD,), left=100.0, policy=None, recorded=(), operations=()):
        self.policy, self.recorded, self.operations = policy, recorded, operations  # no policy: the table is away
        self.calls, self.lines, self.warnings = [], [], []
        self.nodes = [node(0), node(1), node(2)]
        self.pods = {"w001": [pod("web-1", "w001")], "w002": [pod("api-1", "w002")]}
        self.answers = {}
        self.reads = 0  # of the table
        self.unreadable = 0  # times that the table does not say what it holds
        self.now, self.left = NOON, left
        self.runs = list(runs)

    def interrupted(self, *notices):
        return emergency_drain.drain_interrupted(self.parts(), notices or (WARNING,), self._run)

    def parts(self):
        telemetry = SimpleNamespace(line=self.lines.append, warn=self.warnings.append)
        return SimpleNamespace(
            store=SimpleNamespace(state=self._state, record=self._call("record"), wake=self._call("wake")),
            policies=SimpleNamespace(read=lambda _: self.policy),
            cluster=SimpleNamespace(
                nodes=self._nodes,
                pods_on=self._pods_on,
                cordon=self._cordon,
                evict=self._evict,
                delete_pod=self._call("delete"),
                note=self._note,
            ),
            time=SimpleNamespace(
                now=lambda: self.now, remaining=lambda: timedelta(seconds=self.left), sleep=self._sleep
            ),
            telemetry=telemetry,
            together=lambda *calls: [_caught(call) for call in calls],
        )

    def _run(self):
        self.calls.append(("run",))
        ran = self.runs.pop(0) if len(self.runs) > 1 else self.runs[0]
        if isinstance(ran, Exception):
            raise ran
        return ran

    def _state(self):
        self.reads += 1
        self.unreadable -= 1
        if self.policy is None or self.unreadable >= 0:
            raise AWAY
        version = PolicyVersion(number=1, source="ann", at=NOON, data={}, digest="")
        return State(policy=version, notices=self.recorded, operations=self.operations)

    def _call(self, name):
        def call(*arguments):
            self.calls.append((name, *arguments))
            self._raise(name, *arguments)

        return call

    def _raise(self, *key):
        answer = self.answers.get(key, self.answers.get(key[0]))
        if isinstance(answer, list):
            answer = answer.pop(0) if answer else None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _nodes(self):
        self._raise("nodes")
        return tuple(self.nodes)

    def _pods_on(self, name, *, brief):
        assert brief
        self._raise("pods_on", name)
        return tuple(self.pods.get(name, ()))

    def _cordon(self, step, instance):
        self.calls.append(("cordon", step, instance))
        self._raise("cordon", step.node)
        self.nodes = [
            replace(each, cordoned=True, removal=step.removal) if each.name == step.node else each
            for each in self.nodes
        ]

    def _evict(self, pod_ref):
        self.calls.append(("evict", pod_ref))
        answer = self._raise("evict", pod_ref.name) or EvictionOutcome(result=Eviction.EVICTED)
        if answer.result is Eviction.EVICTED:
            self.pods = {
                name: [replace(each, deleted_at=self.now) if each.uid == pod_ref.uid else each for each in pods]
                for name, pods in self.pods.items()
            }
        return answer

    def _note(self, name, reason, message, *, warning):
        self.calls.append(("note", name, reason, message, warning))

    def _sleep(self, pause):
        self.calls.append(("sleep", pause))
        self.left -= pause.total_seconds()
        self.now += pause

    def named(self, name):
        return [call for call in self.calls if call[0] == name]


def _caught(call):
    try:
        return call()
    except NodeFleetError as error:
        return error


@pytest.fixture
def play():
    return Played


# ── what is asked ────────────────────────────────────────────────────────────────────────────────────────────────


def test_everything_is_recorded_woken_cordoned_and_evicted_once(play):
    played = play()
    assert played.interrupted(WARNING, OTHER) is HELD
    assert played.named("record") == [("record", WARNING), ("record", OTHER)]
    assert len(played.named("wake")) == len(played.named("run")) == 1
    assert [(call[1].node, call[2]) for call in played.named("cordon")] == [("w001", "i-001"), ("w002", "i-002")]
    assert played.named("evict") == [("evict", ref("web-1")), ("evict", ref("api-1"))]
    assert (played.named("delete"), played.named("sleep")) == ([], [])
    order = [call[0] for call in played.calls]
    assert order.index("wake") > order.index("record")
    assert order.index("evict") > max(index for index, name in enumerate(order) if name == "cordon")
    assert (played.warnings, played.lines) == ([], [])


def test_the_cordon_carries_the_notice_its_reason_and_its_time(play):
    played = play()
    played.interrupted()
    ((_, cordon, _),) = played.named("cordon")
    reason = "EC2 takes it: spot-interruption at 12:00:00"
    assert cordon == Cordon(node="w001", removal=emergency(WARNING), reason=reason, deadline=after(120))
    assert played.named("note") == [("note", "w001", "NodeFleetLeaving", f"leaves: {reason}", True)]


def test_a_node_that_is_cordoned_already_is_neither_cordoned_nor_noted_again(play):
    played = play()
    played.nodes[1] = node(1, cordoned=True, removal="r7")
    played.interrupted()
    assert (played.named("cordon"), played.named("note")) == ([], [])
    assert played.named("evict") == [("evict", ref("web-1"))]


EVERY_TAINT = Rules(tolerations=(Toleration(operator="Exists"),))


@pytest.mark.parametrize(("created", "evicted"), [(-100, 0), (-200, 1), (-201, 1)])
def test_a_pod_that_came_back_to_a_leaving_node_is_not_evicted_in_circles(play, created, evicted):
    """It tolerates every taint. The removal was open before EC2 took the node, and evicted its predecessor."""
    played = play(policy=Policy(), operations=(removal(instance="i-001", node="w001", started=after(-200)), launch()))
    played.nodes[1] = node(1, cordoned=True, removal="r1")
    played.pods = {"w001": [pod("agent-1", "w001", created_at=after(created), rules=EVERY_TAINT)]}
    played.interrupted()
    assert len(played.named("evict")) == evicted


def test_nor_one_that_comes_back_while_this_drain_goes_on(play):
    played = play(policy=Policy(), runs=(AWAY,), left=40)
    played.pods = {"w001": [pod("agent-1", "w001", created_at=after(-9), rules=EVERY_TAINT)]}
    sleep = played._sleep

    def comes_back(pause):
        sleep(pause)
        played.pods = {"w001": [pod("agent-2", "w001", created_at=played.now, rules=EVERY_TAINT)]}

    played._sleep = comes_back
    with pytest.raises(UnavailableError):
        played.interrupted()
    assert played.named("evict") == [("evict", ref("agent-1"))]
    assert len(played.named("sleep")) > 1


@pytest.mark.parametrize("ready", [0, 1])
def test_of_two_nodes_of_the_instance_the_one_that_works_is_drained(play, ready):
    """Its agent registered again under another name, and the first Node was left behind."""
    two = [node(1, ready=ready == 0), node(2, instance="i-001", ready=ready == 1)]
    played = play()
    played.nodes = two
    played.interrupted()
    assert [call[1].node for call in played.named("cordon")] == [two[ready].name]


@pytest.mark.parametrize(
    "shown",
    [node(1, pool=None), node(1, control_plane=True), node(1, instance=""), node(1, instance="i-009")],
    ids=["no pool", "control plane", "no instance", "another instance"],
)
def test_no_other_node_is_touched(play, shown):
    played = play()
    played.nodes[1] = shown
    assert played.interrupted() is HELD
    assert (played.named("cordon"), played.named("evict"), len(played.named("record"))) == ([], [], 1)


@pytest.mark.parametrize(
    ("notice", "drained"),
    [
        (replace(WARNING, kind=NoticeKind.REBALANCE), False),
        (replace(WARNING, kind=NoticeKind.STATE_CHANGE), True),
        (replace(WARNING, kind=NoticeKind.SCHEDULED_CHANGE, at=after(30 * 60), told_at=NOON), True),
        (replace(WARNING, kind=NoticeKind.SCHEDULED_CHANGE, at=after(86400), told_at=NOON), False),
        (replace(WARNING, at=after(-86400)), False),
        (replace(WARNING, withdrawn=True), False),
    ],
    ids=["recommended", "stopping", "in half an hour", "tomorrow", "yesterday", "withdrawn"],
)
def test_only_what_ec2_takes_now_is_drained_and_all_of_it_is_recorded(play, notice, drained):
    played = play(policy=Policy())
    played.interrupted(notice)
    assert played.named("record") == [("record", notice)]
    assert bool(played.named("cordon")) is bool(played.named("evict")) is drained


@pytest.mark.parametrize(("seconds", "drained"), [(301, False), (300, True)])
def test_while_the_table_is_away_a_scheduled_change_waits_for_as_long_as_a_drain_leaves_time(play, seconds, drained):
    """It may be called off already, and the table would say so."""
    played = play()
    played.interrupted(replace(WARNING, kind=NoticeKind.SCHEDULED_CHANGE, at=after(seconds), told_at=NOON))
    assert bool(played.named("cordon")) is drained


TOMORROW = replace(OTHER, kind=NoticeKind.SCHEDULED_CHANGE, at=after(86400), told_at=NOON)


@pytest.mark.parametrize(
    ("policy", "notice", "reads"),
    [(None, OTHER, 1), (Policy(), OTHER, 1), (Policy(), TOMORROW, 1), (None, TOMORROW, 2)],
    ids=["away", "there", "there, and one can wait", "away, and one can wait"],
)
def test_only_a_change_that_can_wait_asks_a_table_again_that_was_away(play, policy, notice, reads):
    """It may hang, and a warning has two minutes."""
    played = play(policy=policy)
    played.interrupted(WARNING, notice)
    assert played.reads == reads


def test_what_the_table_could_not_say_at_first_is_asked_again(play):
    change = replace(WARNING, kind=NoticeKind.SCHEDULED_CHANGE, at=after(1800), told_at=NOON)
    for unreadable, drained in ((1, True), (2, False)):
        played = play(policy=Policy(), runs=(HELD,))
        played.unreadable = unreadable
        played.interrupted(change)
        assert bool(played.named("cordon")) is drained


@pytest.mark.parametrize(
    ("carried", "removal"),
    [
        ("r7", "r7"),
        (emergency(replace(WARNING, kind=NoticeKind.REBALANCE)), emergency(WARNING)),
        ("", emergency(WARNING)),
    ],
    ids=["of the holder", "of another notice", "none"],
)
def test_only_a_removal_of_the_holder_is_gone_on_with(play, carried, removal):
    """Somebody lifted the cordon and left the removal's name."""
    played = play()
    played.nodes[1] = node(1, removal=carried)
    played.interrupted()
    assert [call[1].removal for call in played.named("cordon")] == [removal]


def test_a_node_leaves_as_the_holder_of_the_lease_would_let_it_leave():
    rules = Pool(name="web")
    removal = emergency_drain._removal(node(1), WARNING, rules, after(1))
    assert (removal.id, removal.pool, removal.instance, removal.node) == (emergency(WARNING), "web", "i-001", "w001")
    assert (removal.why, removal.started, removal.deadline) == (RemovalReason.INTERRUPTED, after(1), after(120))
    assert removal.force_from is not None
    assert removal.forced  # the run that has the lease tells operators
    assert after(1) < removal.force_from < removal.deadline


@pytest.mark.parametrize(("dry", "drained"), [(True, False), (False, True)])
def test_the_policy_in_force_says_whether_a_pool_is_dry(play, dry, drained):
    played = play(policy=Policy(pools=(Pool(dry_run=dry),)))
    played.interrupted()
    assert bool(played.named("cordon")) is drained


def test_a_pool_that_the_policy_does_not_name_is_drained_by_the_defaults(play):
    played = play(policy=Policy(pools=(Pool(name="web", dry_run=True),)))
    played.interrupted()
    assert len(played.named("evict")) == 1


def test_the_policy_in_force_says_how_long_a_round_waits(play):
    every = timedelta(seconds=25)
    played = play(policy=Policy(burst=Burst(every=every, reserve=timedelta(seconds=30))), left=80.0)
    played.answers["evict"] = EvictionOutcome(result=Eviction.REFUSED)
    played.interrupted()
    assert played.named("sleep") == [("sleep", every)] * 2


def test_a_warning_that_was_called_off_already_drains_nothing(play):
    soon = replace(WARNING, kind=NoticeKind.SCHEDULED_CHANGE, at=after(30 * 60), told_at=NOON, event="e-1")
    off = replace(soon, withdrawn=True, told_at=after(60))
    played = play(policy=Policy(), recorded=(off,))
    played.interrupted(soon)
    assert played.named("record") == [("record", soon)]
    assert played.named("cordon") == []


def test_without_an_urgent_notice_kubernetes_is_not_asked(play):
    played = play()
    played.answers["nodes"] = AWAY
    assert played.interrupted(replace(WARNING, kind=NoticeKind.REBALANCE)) is HELD
    assert played.warnings == []


def test_near_the_end_pods_that_budgets_hold_are_deleted(play):
    played = play(runs=[saw(Level.NORMAL)])
    played.now = after(100)
    played.interrupted()
    assert played.named("delete") == [("delete", ref("web-1"))]


def test_a_pod_that_cannot_be_deleted_is_named_with_what_was_tried(play):
    played = play(runs=[saw(Level.NORMAL)])
    played.now, played.answers = after(100), {"delete": UnavailableError("Kubernetes", "no answer")}
    played.interrupted()
    assert_wording(played.warnings)


def test_pods_that_go_already_or_stay_with_the_node_are_not_asked(play):
    played = play()
    daemon = pod("agent-1", "w001", owner=Owner(kind="DaemonSet", name="agent", uid="ds"))
    played.pods["w001"] = [pod("web-1", "w001", deleted_at=NOON), daemon]
    assert played.interrupted() is HELD
    assert played.named("evict") == []


# ── when it is enough ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("level", "sleeps"), [(Level.NORMAL, False), (Level.DEGRADED, False), (Level.PARTIAL, True)])
def test_a_run_that_could_see_goes_on_itself(play, level, sleeps):
    played = play(runs=[saw(level)])
    assert played.interrupted() is played.runs[0]
    assert bool(played.named("sleep")) is sleeps


def test_a_blind_run_is_enough_when_nothing_is_left(play):
    played = play(runs=[saw(Level.PARTIAL)])
    played.pods = {}
    played.interrupted()
    assert played.named("sleep") == []


def test_a_run_without_a_decision_is_not_enough_while_pods_are_left(play):
    played = play(runs=[RunResult(iterations=1)])
    played.interrupted()
    assert played.named("sleep")


@pytest.mark.parametrize(("removal", "sleeps"), [("", True), ("r7", False)])
def test_a_budget_that_says_no_is_asked_again_unless_the_holder_has_taken_over(play, removal, sleeps):
    played = play()
    played.nodes[1] = node(1, cordoned=bool(removal), removal=removal)
    played.answers["evict"] = EvictionOutcome(result=Eviction.REFUSED)
    assert played.interrupted() is HELD
    assert bool(played.named("sleep")) is sleeps


def test_every_round_asks_again_and_records_once(play):
    played = play(left=BURST + BURST + RESERVE)
    played.answers["evict"] = EvictionOutcome(result=Eviction.REFUSED)
    assert played.interrupted() is HELD
    assert played.named("sleep") == [("sleep", timedelta(seconds=BURST))] * 2
    assert len(played.named("evict")) == len(played.named("run")) == 3
    assert len(played.named("record")) == len(played.named("wake")) == len(played.named("cordon")) == 1
    assert len(played.named("note")) == 1


@pytest.mark.parametrize(("left", "sleeps"), [(BURST + RESERVE, 1), (BURST + RESERVE - 0.1, 0)])
def test_no_round_begins_that_could_outlive_the_run(play, left, sleeps):
    played = play(left=left)
    played.answers["evict"] = EvictionOutcome(result=Eviction.REFUSED)
    played.interrupted()
    assert len(played.named("sleep")) == sleeps


def test_no_pod_is_asked_in_the_last_seconds(play):
    played = play(left=RESERVE - 1)
    played.interrupted()
    assert played.named("evict") == []
    assert len(played.lines) == 1
    assert_wording(played.lines[0])


@pytest.mark.parametrize("result", [Eviction.EVICTED, Eviction.GONE])
def test_pods_on_their_way_are_enough_for_the_holder(play, result):
    played = play()
    played.answers["evict"] = EvictionOutcome(result=result)
    played.interrupted()
    assert played.named("sleep") == []


def drained(played, *notices):
    policy = Policy()
    known = emergency_drain._StoredState(policy=policy)
    leaving = emergency_drain._cordon(played.parts(), notices or (WARNING,), known, NOON)
    return emergency_drain._drain(played.parts(), leaving, policy)


def test_how_far_the_nodes_are_is_counted(play):
    """Of three pods one is refused, one fails and one goes; a fourth went before."""
    played = play()
    played.pods["w001"] = [pod(name, "w001") for name in ("web-1", "web-2", "web-3")]
    played.pods["w001"].append(pod("web-4", "w001", deleted_at=NOON))
    played.answers |= {("evict", "web-1"): EvictionOutcome(result=Eviction.REFUSED), ("evict", "web-2"): AWAY}
    assert drained(played) == emergency_drain.DrainReport(to_ask=1, refused=1, left=4)


def test_pods_of_all_nodes_are_counted_together(play):
    played = play()
    played.answers["evict"] = EvictionOutcome(result=Eviction.REFUSED)
    assert drained(played, WARNING, OTHER) == emergency_drain.DrainReport(refused=2, left=2)


def test_an_empty_node_is_done(play):
    played = play()
    played.pods = {}
    found = drained(played)
    assert found == emergency_drain.DrainReport()
    assert found.done
    assert found.asked


@pytest.mark.parametrize(("to_ask", "left", "asked", "done"), [(1, 1, False, False), (0, 1, True, False)])
def test_nodes_are_done_when_every_pod_was_asked_and_is_gone(to_ask, left, asked, done):
    found = emergency_drain.DrainReport(to_ask=to_ask, left=left)
    assert (found.asked, found.done) == (asked, done)


def test_one_node_that_cannot_be_read_leaves_unknown_how_many_are_to_be_asked(play):
    played = play()
    played.answers[("pods_on", "w001")] = AWAY
    found = drained(played, WARNING, OTHER)
    assert (found.asked, found.done, found.left) == (False, False, 1)
    assert [call[1].name for call in played.named("evict")] == ["api-1"]


@pytest.mark.parametrize(("removals", "taken_over"), [(("r7", "r8"), True), (("r7", emergency(OTHER)), False)])
def test_the_holder_has_taken_over_when_every_node_carries_its_removal(play, removals, taken_over):
    played = play()
    played.nodes[1:] = [
        node(number, cordoned=True, removal=removal) for number, removal in enumerate(removals, start=1)
    ]
    assert drained(played, WARNING, OTHER).taken_over is taken_over


def test_pods_that_are_deleted_by_force_are_asked(play):
    played = play()
    played.now = after(100)
    assert drained(played) == emergency_drain.DrainReport(left=1)
    played.answers["delete"] = AWAY
    assert drained(played).to_ask == 1


# ── when something fails ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_pod_that_cannot_be_evicted_is_asked_again_and_warned_of(play):
    played = play()
    played.answers[("evict", "web-1")] = [UnavailableError("Kubernetes", "busy")]
    assert played.interrupted(WARNING, OTHER) is HELD
    assert len(played.named("sleep")) == 1
    assert [call[1].name for call in played.named("evict")] == ["web-1", "api-1", "web-1"]
    assert len(played.warnings) == 1
    assert_wording(played.warnings[0])


def test_a_pod_that_changed_is_not_waited_for(play):
    played = play()
    played.answers[("evict", "web-1")] = ChangedError("another pod")
    played.interrupted()
    assert (played.named("sleep"), played.warnings) == ([], [])
    assert_wording(played.lines)


def test_a_node_that_cannot_be_cordoned_is_tried_again_and_the_others_go_on(play):
    played = play(runs=[saw(Level.PARTIAL), HELD])
    played.answers[("cordon", "w001")] = [UnavailableError("Kubernetes", "busy")]
    played.interrupted(WARNING, OTHER)
    assert [call[1].node for call in played.named("cordon")] == ["w001", "w002", "w001"]
    assert_wording(played.warnings)
    assert [call[1] for call in played.named("note")] == ["w002", "w001"]


def test_while_the_nodes_are_not_known_it_is_tried_again(play):
    played = play()
    played.answers["nodes"] = [UnavailableError("Kubernetes", "away")]
    assert played.interrupted() is HELD
    assert len(played.named("sleep")) == 1
    assert len(played.named("cordon")) == len(played.named("evict")) == 1
    assert any("away" in text for text in played.warnings)


def test_pods_that_cannot_be_read_are_read_again(play):
    played = play()
    played.answers[("pods_on", "w001")] = [UnavailableError("Kubernetes", "away")]
    assert played.interrupted() is HELD
    assert len(played.named("sleep")) == 1
    assert len(played.named("evict")) == 1
    assert_wording(played.warnings)


def test_what_could_not_be_recorded_is_recorded_in_the_next_round_and_only_that(play):
    played = play()
    played.answers[("record", OTHER)] = [AWAY]
    assert played.interrupted(WARNING, OTHER) is HELD
    assert [call[1] for call in played.named("record")] == [WARNING, OTHER, OTHER]
    assert len(played.named("wake")) == 2
    assert any("1 of 2 notices" in text for text in played.warnings)


def test_a_holder_that_could_not_be_woken_is_woken_in_the_next_round(play):
    played = play()
    played.answers["wake"] = [AWAY]
    assert played.interrupted() is HELD
    assert (len(played.named("record")), len(played.named("wake"))) == (1, 2)
    assert_wording(played.warnings)


def test_without_the_table_no_run_begins_and_the_notices_come_again(play):
    played = play()
    played.answers["record"] = AWAY
    played.pods = {}
    with pytest.raises(UnavailableError) as raised:
        played.interrupted()
    assert raised.value is AWAY
    assert (played.named("run"), played.named("wake"), played.named("sleep")) == ([], [], [])
    assert len(played.named("cordon")) == 1
    assert_wording(played.warnings)


def test_after_three_failures_the_table_is_not_asked_for_the_rest(play):
    notices = [replace(WARNING, instance=f"i-{number:03}") for number in range(6)]
    played = play()
    played.answers["record"] = AWAY
    with pytest.raises(UnavailableError):
        played.interrupted(*notices)
    first_round = played.calls[: next(index for index, call in enumerate(played.calls) if call[0] == "sleep")]
    assert len([call for call in first_round if call[0] == "record"]) == 3
    assert any("6 of 6 notices" in text for text in played.warnings)


@pytest.mark.parametrize("error", [AWAY, ZeroDivisionError("a fault of ours")], ids=["away", "fault"])
def test_whatever_a_run_raises_draining_goes_on_and_it_is_raised_at_the_end(play, error):
    played = play(runs=[error])
    played.answers["evict"] = EvictionOutcome(result=Eviction.REFUSED)
    with pytest.raises(type(error)) as raised:
        played.interrupted()
    assert raised.value is error
    assert len(played.named("evict")) > 1
    assert any(str(error) in text for text in played.warnings)


def test_a_run_that_failed_once_is_forgotten_when_the_next_is_enough(play):
    played = play(runs=[AWAY, HELD])
    played.answers["evict"] = [EvictionOutcome(result=Eviction.REFUSED), EvictionOutcome(result=Eviction.EVICTED)]
    assert played.interrupted() is HELD
    assert len(played.named("run")) == 2


def test_a_failed_run_ends_at_once_when_nothing_is_left(play):
    played = play(runs=[AWAY])
    played.pods = {}
    with pytest.raises(UnavailableError):
        played.interrupted()
    assert played.named("sleep") == []


def test_a_word_without_notices_still_wakes_the_holder(play):
    played = play()
    assert emergency_drain.drain_interrupted(played.parts(), (), played._run) is HELD
    assert [call[0] for call in played.calls] == ["wake", "run"]

"""One run, call by call: the lease, how often it looks, when it lets go, and what it reports. The looks are played."""

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest

from nodefleet.errors import LostLeaseError, UnavailableError
from nodefleet.model.decision import (
    Action,
    ActionKind,
    Bound,
    Decision,
    ExecutedAction,
    Overruled,
    PoolDecision,
    Rank,
    Side,
)
from nodefleet.model.fleet import Count
from nodefleet.model.names import Metric
from nodefleet.model.snapshot import Missing
from nodefleet.model.state import Level, LoopState, Memory
from nodefleet.policy.cluster import Policy
from nodefleet.ports import Lease, LeaseHeld, RunResult, State
from nodefleet.reconcile import run as module
from nodefleet.reconcile.audit import LEVELS, MAJOR, CycleResult, bill, figures, sentence
from nodefleet.reconcile.run import run
from support.builders import CATALOG, NOON, after, look
from support.wording import assert_wording

LEASE = Lease(owner="me", fence=7, expires=after(120))
STATE = State(fence=7, wake=3)
POOL = PoolDecision(
    pool="default", action=Action.HOLD, count=Count(ready=3, booting=1), target=4, reason="calm", votes=("cpu: stay",)
)
CORDONED = ExecutedAction(kind=ActionKind.CORDON, node="w001")
UNCORDONED = ExecutedAction(kind=ActionKind.UNCORDON, node="w001")
DECISION = Decision(at=NOON, cluster="shop", level=Level.NORMAL, pools=(POOL,), memory=Memory())
PRICED = tuple(replace(kind, hourly_usd=0.02, spot_usd=0.005) for kind in CATALOG)
MARGIN = Policy().burst.margin
AWAY = UnavailableError("DynamoDB", "no answer")


def came(**changes):
    seen = changes.get("observation", look(3, catalog=PRICED))
    costs = bill(seen)
    base = CycleResult(
        policy=Policy(),
        observation=seen,
        decision=DECISION,
        evictions={},
        costs=costs,
        figures=figures(seen, changes.get("decision", DECISION), costs),
    )
    return replace(base, **changes)


AGAIN = came(requeue_reason="a node boots")


class Played:
    """Each iteration takes `takes` seconds; `left` is what the function has."""

    def __init__(self, monkeypatch, *looks, left=890.0, takes=2.0, states=(STATE,), lease=LEASE, releases=(True,)):
        self.looks = list(looks or [came()])
        self.now, self.left, self.takes = NOON, left, takes
        self.states, self.releases = list(states), list(releases)
        self.lease = lease
        self.free = LEASE.fence - 1  # the fence before this run
        self.urgent_at = None  # when an urgent run comes
        self.calls, self.metrics, self.lines, self.warnings = [], [], [], []
        self.raises = {}
        monkeypatch.setattr(module, "reconcile_once", self._look)

    def run(self, **options):
        telemetry = SimpleNamespace(
            metric=lambda metric, value: self.metrics.append((metric, value)),
            line=lambda text, **fields: self.lines.append((text, fields)),
            warn=self.warnings.append,
            calls=lambda: 17,
        )
        store = SimpleNamespace(
            wake=self._wake,
            wakes=self._wakes,
            free_fence=self._free_fence,
            state=self._state,
            acquire=self._acquire,
            release=self._release,
        )
        time = SimpleNamespace(now=lambda: self.now, remaining=lambda: timedelta(seconds=self.left), sleep=self._sleep)
        return run(SimpleNamespace(telemetry=telemetry, store=store, time=time, policies=None), owner="me", **options)

    def passes(self, seconds):
        self.now += timedelta(seconds=seconds)
        self.left -= seconds

    def _note(self, name, *arguments):
        self.calls.append((name, *arguments))
        if name in self.raises:
            raise self.raises[name]

    def _look(self, _parts, lease, state, _rules, number):
        self._note("look", number)
        assert lease is LEASE
        assert state.fence == 7
        self.passes(self.takes)
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    def _wake(self):
        self._note("wake")

    def _wakes(self):
        self._note("wakes")
        came = self.urgent_at is not None and self.now >= self.urgent_at
        return STATE.wake + came

    def _free_fence(self):
        self._note("free_fence")
        return self.free

    def _state(self):
        self._note("state")
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    def _acquire(self, owner, now, until, skew):
        self._note("acquire", owner, now, until, skew)
        return self.lease

    def _release(self, lease, wake):
        self._note("release", wake)
        assert lease is LEASE
        return self.releases.pop(0) if len(self.releases) > 1 else self.releases[0]

    def _sleep(self, pause):
        self._note("sleep", pause.total_seconds())
        self.passes(pause.total_seconds())

    def named(self, name):
        return [call for call in self.calls if call[0] == name]

    def metric(self, metric):
        return [value for name, value in self.metrics if name is metric]


@pytest.fixture
def play(monkeypatch):
    return lambda *looks, **changes: Played(monkeypatch, *looks, **changes)


# ── the lease ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_quiet_run_looks_once_and_lets_go_unless_it_was_woken(play):
    played = play(came(actions=(CORDONED,)))
    assert played.run() == RunResult(iterations=1, decision=DECISION, did=(str(CORDONED),))
    assert [call[0] for call in played.calls] == ["free_fence", "state", "acquire", "look", "release"]
    assert played.named("release") == [("release", STATE.wake)]
    assert played.metric(Metric.INVOCATIONS) == [1]
    assert played.metric(Metric.DURATION) == [2.0]
    assert played.metric(Metric.CALLS) == [17]
    assert played.metric(Metric.LEASE_HELD) == []


@pytest.mark.parametrize("free", [None, LEASE.fence - 2], ids=["it was held", "another run held it since"])
def test_the_state_is_read_again_under_a_lease_that_another_run_held_meanwhile(play, free):
    later = replace(STATE, wake=4)
    played = play(states=[STATE, later])
    played.free = free
    played.run()
    assert [call[0] for call in played.calls] == ["free_fence", "state", "acquire", "state", "look", "release"]
    assert played.named("release") == [("release", later.wake)]


@pytest.mark.parametrize(("left", "seconds"), [(890.0, 120), (60.0, 65)])
def test_the_lease_is_no_longer_than_the_run_can_last(play, left, seconds):
    policy = Policy()
    played = play(left=left)
    played.run()
    until = NOON + min(policy.lease, timedelta(seconds=left) + policy.trust.clock_skew)
    assert played.named("acquire") == [("acquire", "me", NOON, until, policy.trust.clock_skew)]


def test_a_lease_that_another_run_holds_ends_it(play):
    held = LeaseHeld(owner="other", expires=after(60))
    played = play(lease=held)
    assert played.run() == RunResult(held=held)
    assert played.metrics == [(Metric.INVOCATIONS, 1), (Metric.LEASE_HELD, 1)]
    assert played.lines == [("Another run is at work", {"owner": "other", "until": after(60).isoformat()})]
    assert (played.named("look"), played.named("release")) == ([], [])


@pytest.mark.parametrize(
    ("options", "woken", "scheduled"),
    [({}, 0, []), ({"urgent": True}, 1, []), ({"scheduled": True}, 0, [1])],
    ids=["plain", "urgent", "scheduled"],
)
def test_only_an_urgent_run_wakes_and_only_a_scheduled_one_counts_as_such(play, options, woken, scheduled):
    played = play()
    played.run(**options)
    assert len(played.named("wake")) == woken
    assert played.metric(Metric.SCHEDULED_RUNS) == scheduled
    if woken:
        assert played.calls[0] == ("wake",)


@pytest.mark.parametrize("call", ["wake", "free_fence", "state", "acquire"])
def test_a_table_that_is_away_before_the_lease_is_the_worst_level(play, call):
    played = play()
    played.raises[call] = AWAY
    with pytest.raises(UnavailableError):
        played.run(urgent=True)
    assert played.metric(Metric.LEVEL) == [MAJOR]
    assert (played.named("look"), played.named("release")) == ([], [])


@pytest.mark.parametrize(
    "error", [AWAY, ZeroDivisionError("a fault"), KeyboardInterrupt()], ids=lambda e: type(e).__name__
)
def test_whatever_ends_a_look_the_lease_is_let_go_of(play, error):
    played = play()
    played.raises["look"] = error
    with pytest.raises(type(error)):
        played.run()
    assert played.named("release") == [("release", None)]
    assert played.metric(Metric.DURATION) == []


def test_a_lease_that_is_lost_is_not_let_go_of(play):
    played = play(AGAIN, states=[STATE, replace(STATE, fence=8)])
    with pytest.raises(LostLeaseError) as caught:
        played.run()
    assert_wording(str(caught.value))
    assert (played.named("look"), played.named("release")) == ([("look", 1)], [])


def test_a_lease_that_cannot_be_let_go_of_is_warned_of_and_hides_no_error(play):
    played = play()
    played.raises |= {"look": ZeroDivisionError("a fault"), "release": AWAY}
    with pytest.raises(ZeroDivisionError):
        played.run()
    assert len(played.warnings) == 1
    assert "12:02:00 UTC" in played.warnings[0]
    assert str(AWAY) in played.warnings[0]


# ── how often it looks ───────────────────────────────────────────────────────────────────────────────────────────


def test_it_looks_again_after_the_pause_and_gathers_what_was_done(play):
    played = play(replace(AGAIN, actions=(CORDONED,)), came(actions=(UNCORDONED,)))
    assert played.run() == RunResult(iterations=2, decision=DECISION, did=(str(CORDONED), str(UNCORDONED)))
    assert played.named("look") == [("look", 1), ("look", 2)]
    assert played.named("sleep") == [("sleep", 2)] * 5
    assert played.named("release") == [("release", 3)]
    assert played.metric(Metric.DURATION) == [14.0]


def test_it_looks_again_at_once_where_there_is_no_need_to_wait(play):
    played = play(replace(AGAIN, at_once=True), came())
    played.run()
    assert played.named("look") == [("look", 1), ("look", 2)]
    assert played.named("sleep") == []


def test_an_urgent_run_ends_the_pause_within_seconds(play):
    played = play(AGAIN, came())
    played.urgent_at = after(5)  # the first iteration ends at 2 s
    played.run()
    assert played.named("sleep") == [("sleep", 2)] * 2
    assert played.now == after(8)


def test_a_pause_lasts_where_urgent_runs_cannot_be_read(play):
    played = play(AGAIN, came())
    played.raises["wakes"] = AWAY
    played.run()
    assert played.named("sleep") == [("sleep", 2)] * 5
    assert str(AWAY) in played.warnings[0]


def test_it_stays_within_its_share_of_the_tick(play):
    played = play(AGAIN)
    assert played.run().iterations == 10  # one each 12 s
    assert played.now == after(110)


@pytest.mark.parametrize(
    ("left", "looks"),
    [(2 + 10 + 2 * MARGIN + 15 + 0.1, 2), (2 + 10 + 2 * MARGIN + 15, 1)],
    ids=["enough", "too little"],
)
def test_no_look_begins_that_may_not_finish(play, left, looks):
    """A pause of 10 s, a look as long as the longest (2 s, with its margin), and the reserve of 15 s."""
    played = play(AGAIN, left=left)
    assert played.run().iterations == looks


def test_the_looks_of_earlier_runs_count(play):
    slow = replace(STATE, journal=LoopState(iterations=(20,)))
    needed = 10 + 20 * MARGIN + 15
    assert play(AGAIN, left=2 + needed + 0.1, states=[slow]).run().iterations == 2
    assert play(AGAIN, left=2 + needed, states=[slow]).run().iterations == 1


@pytest.mark.parametrize(
    ("left", "looks"), [(20 * MARGIN + 15, 1), (20 * MARGIN + 14.9, 0)], ids=["enough", "too little"]
)
def test_a_run_with_too_little_time_for_one_look_leaves_it_to_the_next(play, left, looks):
    """The longest took 20 s: with its margin, and the reserve of 15 s."""
    played = play(left=left, states=[replace(STATE, journal=LoopState(iterations=(20,)))])
    ran = played.run()
    assert (ran.iterations, ran.awake) == (looks, not looks)
    assert played.named("release") == [("release", 3 if looks else None)]
    if not looks:
        assert ran == RunResult(awake=True)


def test_a_run_that_has_its_whole_time_always_looks_once(play):
    played = play(left=110.0, states=[replace(STATE, journal=LoopState(iterations=(500,)))])
    assert played.run().iterations == 1


def test_a_run_that_is_woken_looks_again_without_a_pause(play):
    woken = replace(STATE, wake=4)
    played = play(came(), states=[STATE, woken], releases=[False, True])
    assert played.run() == RunResult(iterations=2, decision=DECISION)
    assert played.named("sleep") == []
    assert played.named("release") == [("release", 3), ("release", 4)]


def test_a_run_that_is_woken_when_its_time_is_up_says_so(play):
    played = play(came(actions=(CORDONED,)), left=18.0, releases=[False, True])
    assert played.run() == RunResult(iterations=1, decision=DECISION, did=(str(CORDONED),), awake=True)
    assert played.named("release") == [("release", 3), ("release", None)]
    assert_wording(played.lines[-1])


# ── what it reports ──────────────────────────────────────────────────────────────────────────────────────────────


def test_everything_is_reported_once(play):
    seen = look(3, catalog=PRICED, cpu=40.0, memory=55.0, pending=2)
    played = play(
        came(
            observation=seen,
            launched=2,
            removed=1,
            failures=4,
            evictions={"evicted": 3, "refused": 2},
            joins=(80.0, 90.0),
            drains=(30.0,),
            actions=(CORDONED,),
            requeue_reason="",
        )
    )
    played.run(scheduled=True)
    assert played.metrics == [
        (Metric.INVOCATIONS, 1),
        (Metric.SCHEDULED_RUNS, 1),
        (Metric.CURRENT_NODE_COUNT, 4),
        (Metric.PENDING_PODS, 2),
        (Metric.CPU, 40.0),
        (Metric.MEMORY, 55.0),
        (Metric.SCALE_UPS, 2),
        (Metric.SCALE_DOWNS, 1),
        (Metric.FAILURES, 4),
        (Metric.LEVEL, LEVELS[Level.NORMAL]),
        (Metric.API_SERVER_AWAY, 0),
        (Metric.EC2_AWAY, 0),
        (Metric.EVICTIONS, 5),
        (Metric.JOIN_LATENCY, 80.0),
        (Metric.JOIN_LATENCY, 90.0),
        (Metric.DRAIN_TIME, 30.0),
        (Metric.HOURLY_COST, pytest.approx(0.02 + 2 * 0.005)),
        (Metric.SPOT_SHARE, pytest.approx(200 / 3)),
        (Metric.AT_MAX, 0.0),
        (Metric.DURATION, 2.0),
        (Metric.CALLS, 17),
    ]
    assert played.lines == [
        (
            sentence(DECISION),
            {
                "look": 1,
                "trust": Level.NORMAL.value,
                "votes": {"default": ("cpu: stay",)},
                "did": (str(CORDONED),),
                "actions": ["cordon"],
                "evictions": {"evicted": 3, "refused": 2},
                "joins": (80.0, 90.0),
                "drains": (30.0,),
                "failures": 4,
                "look_again": "",
                "figures": figures(seen, DECISION, bill(seen)),
                "calls": 17,
                "seconds": 2.0,
            },
        )
    ]


def test_the_line_of_a_later_look_says_its_number_and_the_time_of_the_whole_run(play):
    played = play(AGAIN, came(), takes=2.3456)
    played.run()
    assert [(fields["look"], fields["look_again"], fields["seconds"]) for _, fields in played.lines] == [
        (1, "a node boots", 2.35),
        (2, "", 14.69),
    ]


@pytest.mark.parametrize(
    ("changes", "ec2", "kubernetes"),
    [({"instances": Missing("away")}, 1, 0), ({"kubernetes": Missing("away")}, 0, 1)],
    ids=["EC2", "Kubernetes"],
)
def test_without_ec2_or_kubernetes_nothing_is_said_of_the_fleet(play, changes, ec2, kubernetes):
    played = play(came(observation=replace(look(3), **changes), decision=replace(DECISION, level=Level.PARTIAL)))
    played.run()
    assert (played.metric(Metric.EC2_AWAY), played.metric(Metric.API_SERVER_AWAY)) == ([ec2], [kubernetes])
    assert played.metric(Metric.LEVEL) == [LEVELS[Level.PARTIAL]]
    assert (played.metric(Metric.CURRENT_NODE_COUNT), played.metric(Metric.PENDING_PODS)) == ([], [])
    assert bool(played.metric(Metric.HOURLY_COST)) is bool(played.metric(Metric.SPOT_SHARE)) is not ec2


def test_a_reading_that_is_missing_is_not_reported_as_zero(play):
    played = play(came(observation=look(3, cpu=Missing("timeout"))))
    played.run()
    assert (played.metric(Metric.CPU), len(played.metric(Metric.MEMORY))) == ([], 1)


@pytest.mark.parametrize(("by", "at_max"), [("max", 1.0), ("cooldown", 0.0)])
def test_a_fleet_that_max_holds_says_so(play, by, at_max):
    wanted = Bound(side=Side.FLOOR, nodes=9, rank=Rank.SIGNAL, source="cpu", sentence="")
    pools = (POOL, replace(POOL, overruled=(Overruled(bound=wanted, by=by),)))
    played = play(came(decision=replace(DECISION, pools=pools)))
    played.run()
    assert played.metric(Metric.AT_MAX) == [at_max]

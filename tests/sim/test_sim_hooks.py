"""Every port call can be counted, failed before or after its effect, killed, changed, or interrupted by another run."""

from datetime import timedelta

import pytest

from nodefleet.errors import ThrottledError, UnavailableError
from nodefleet.model.inventory import Notice, NoticeKind
from nodefleet.ports import LeaseHeld
from nodefleet_tools.sim.hooks import KilledError, Moment, at_call, killed, raising, when
from nodefleet_tools.sim.world import NOON, World
from support.wording import assert_wording

NOTICE = Notice(instance="i-1", kind=NoticeKind.SPOT_INTERRUPTION, at=NOON)


def settled(**options) -> World:
    world = World(**options)
    world.add_workers(2)
    world.settle()
    return world


def test_external_calls_are_counted_by_run_and_reading_the_watch_is_none():
    world = settled()
    parts = world.parts("r")
    parts.time.now()
    parts.time.remaining()
    parts.telemetry.line("hello")
    parts.store.state()
    parts.cluster.view()
    run = world.runs["r"]
    assert (run.calls, run.log) == (2, ["store.state", "cluster.view"])
    assert parts.telemetry.calls() == 2


@pytest.mark.parametrize(("moment", "recorded"), [(Moment.BEFORE, 0), (Moment.AFTER, 1)])
def test_a_call_fails_before_or_after_its_effect(moment, recorded):
    world = settled()
    lost = raising(UnavailableError("DynamoDB", "the answer was lost"))
    parts = world.parts("r", hooks=[when("store.record", moment, lost)])
    with pytest.raises(UnavailableError):
        parts.store.record(NOTICE)
    assert len(world.table.state().notices) == recorded
    parts.store.record(NOTICE)
    assert len(world.table.state().notices) == 1


def test_a_killed_run_reaches_the_outside_no_more_not_even_to_tidy_up():
    world = settled()
    parts = world.parts("r", hooks=[killed(2, Moment.AFTER)])
    lease = parts.store.acquire("r", NOON, NOON + timedelta(minutes=1), timedelta(seconds=5))
    with pytest.raises(KilledError):
        parts.store.wake()
    with pytest.raises(KilledError):
        parts.store.release(lease, None)
    assert world.table.lease == lease
    assert world.table.wake == 1
    assert world.parts("next").store.state().wake == 1


def test_another_run_can_go_in_between():
    world = settled()
    seen = []

    def other() -> None:
        seen.append(world.parts("b").store.acquire("b", NOON, NOON + timedelta(minutes=1), timedelta(seconds=5)))

    parts = world.parts("a", hooks=[at_call(1, Moment.BEFORE, other)])
    mine = parts.store.acquire("a", NOON, NOON + timedelta(minutes=1), timedelta(seconds=5))
    assert isinstance(mine, LeaseHeld)
    assert mine.owner == seen[0].owner == "b"


def test_an_answer_can_be_changed_on_its_way_back():
    world = settled()

    def lose_a_page(call) -> None:
        if call.name == "cloud.instances" and call.moment is Moment.AFTER:
            call.result = call.result[:1]

    assert len(world.parts("r", hooks=[lose_a_page]).cloud.instances()) == 1
    assert len(world.parts("s").cloud.instances()) == 3


def test_a_part_that_is_away_comes_back():
    world = settled()
    world.away("cluster", "connection refused", for_seconds=30)
    world.away("store")
    parts = world.parts()
    with pytest.raises(UnavailableError) as caught:
        parts.cluster.view()
    assert_wording(str(caught.value))
    with pytest.raises(UnavailableError):
        parts.history.policies()
    assert len(parts.cloud.instances()) == 3
    world.advance(31)
    assert parts.cluster.view().nodes
    world.back("store")
    assert parts.history.policies()


def test_throttling_turns_away_so_many_calls():
    world = settled()
    world.faults.throttled["cloud"] = 1
    parts = world.parts()
    with pytest.raises(ThrottledError):
        parts.cloud.instances()
    assert parts.cloud.instances()


def test_slow_calls_use_up_the_runs_time_and_one_that_outlives_it_took_effect_all_the_same():
    world = settled()
    world.faults.latency["store"] = 50.0
    parts = world.parts("r", limit=timedelta(seconds=120))
    parts.store.wake()
    parts.store.wake()
    with pytest.raises(KilledError):
        parts.store.wake()
    assert world.table.wake == 3
    with pytest.raises(KilledError):
        parts.cloud.instances()


def test_together_gives_errors_as_values_and_in_order():
    world = settled()
    world.away("cluster")
    parts = world.parts()
    machines, view = parts.together(parts.cloud.instances, parts.cluster.view)
    assert len(machines) == 3
    assert isinstance(view, UnavailableError)


def test_a_hook_on_the_world_sees_every_run():
    world, calls = settled(), []
    world.faults.hooks.append(lambda call: calls.append(str(call)))
    world.parts("a").store.wake()
    world.parts("b").store.wake()
    assert calls == [
        "a #1 store.wake (before)",
        "a #1 store.wake (after)",
        "b #1 store.wake (before)",
        "b #1 store.wake (after)",
    ]

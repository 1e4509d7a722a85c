"""The table: one holder at a time, all or nothing under the fence, each event once."""

from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.errors import ChangedError, LostLeaseError
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Decision, DecisionRecord, Event, PolicyVersion
from nodefleet.model.inventory import Notice, NoticeKind
from nodefleet.model.snapshot import Pause, Scale
from nodefleet.model.state import Level, LoopState, Memory, Usage
from nodefleet.ports import Changes, Lease, LeaseHeld
from nodefleet_tools.sim.invariants import Rule
from nodefleet_tools.sim.world import NOON, World
from support.operation_builders import launch, removal

SKEW = timedelta(seconds=5)
MINUTE = timedelta(minutes=1)


def event(identity="e1", at=NOON):
    return Event(id=identity, at=at, cluster="shop", kind=AlertKind.PAUSED, text="")


def decision(number, at=NOON):
    made = Decision(at=at, cluster="shop", level=Level.NORMAL, pools=(), memory=Memory())
    return DecisionRecord(id=f"{at:%FT%T}-{number}", at=at, cluster="shop", fence=1, policy=1, decision=made)


@pytest.fixture
def world():
    world = World()
    world.settle()
    return world


def held(world, owner="a", until=MINUTE) -> Lease:
    lease = world.parts(owner, limit=timedelta(days=100)).store.acquire(owner, world.now, world.now + until, SKEW)
    assert isinstance(lease, Lease)
    return lease


def store(world, owner="a"):
    return world.parts(owner, limit=timedelta(days=100)).store


def test_of_two_only_one_gets_the_lease_until_it_expires_and_a_margin(world):
    mine = held(world)
    assert store(world, "b").acquire("b", world.now, world.now + MINUTE, SKEW) == LeaseHeld(
        owner="a", expires=mine.expires
    )
    world.advance(65)
    assert isinstance(store(world, "b").acquire("b", world.now, world.now + MINUTE, SKEW), LeaseHeld)
    world.advance(1)
    theirs = store(world, "b").acquire("b", world.now, world.now + MINUTE, SKEW)
    assert (theirs.owner, theirs.fence) == ("b", mine.fence + 1)
    with pytest.raises(LostLeaseError):
        store(world).commit(mine, Changes(journal=LoopState()))
    assert store(world).release(mine, None)
    assert world.table.lease == theirs


def test_asking_again_for_ones_own_lease_is_safe(world):
    first = held(world)
    again = held(world)
    assert again.fence > first.fence
    with pytest.raises(LostLeaseError):
        store(world).commit(first, Changes(put=(launch(),)))


def test_the_fence_grows_over_releases(world):
    first = held(world)
    assert store(world).release(first, 0)
    assert held(world, "b").fence == first.fence + 1


def test_a_wake_keeps_the_holder_from_letting_go(world):
    lease = held(world)
    wake = store(world).state().wake
    store(world, "b").wake()
    assert not store(world).release(lease, wake)
    assert world.table.lease == lease
    assert store(world).release(lease, wake + 1)
    assert world.table.lease is None


def test_a_commit_without_the_lease_changes_nothing(world):
    lease = held(world)
    store(world).release(lease, None)
    before = world.table.state()
    with pytest.raises(LostLeaseError):
        store(world).commit(lease, Changes(put=(launch(),), events=(event(),)))
    assert (world.table.state(), world.table.events) == (before, ())


def test_everything_of_a_commit_is_there_and_reads_back_the_same(world):
    lease = held(world)
    changes = Changes(
        journal=LoopState(memory=Memory(level=Level.RECOVERY)),
        seed={"node_count": 3},
        put=(launch(), removal()),
        events=(event(),),
        decision=decision(1),
        usage=(Usage(hour=NOON, last=NOON),),
        policy=PolicyVersion(number=2, source="me", at=NOON, data={"limits": {"min": 3}}, digest="d"),
    )
    store(world).commit(lease, changes)
    state = store(world).state()
    assert state.journal == changes.journal
    assert set(state.operations) == set(changes.put)
    assert state.policy == changes.policy
    assert world.table.seed == {"node_count": 3}
    history = world.parts("h").history
    assert history.decisions(10) == (changes.decision,)
    assert history.usage(NOON, NOON + MINUTE) == changes.usage
    assert [version.number for version in history.policies()] == [2, 1]
    store(world).commit(lease, Changes(drop=(launch().id,)))
    assert store(world).state().operations == (removal(),)


def test_a_policy_number_is_made_once(world):
    lease = held(world)
    taken = PolicyVersion(number=1, source="me", at=NOON, data={}, digest="")
    with pytest.raises(ChangedError):
        store(world).commit(lease, Changes(policy=taken, put=(launch(),)))
    assert store(world).state().operations == ()
    with pytest.raises(ChangedError):
        world.parts("h").history.apply(taken, event())
    assert world.table.events == ()
    world.parts("h").history.apply(replace(taken, number=2), event())
    assert (store(world).state().policy.number, len(world.table.events)) == (2, 1)


def test_an_event_is_told_once_by_its_id(world):
    store(world).tell(event())
    store(world).tell(replace(event(), text="again"))
    store(world).tell(event("e2"))
    assert [(each.id, each.text) for each in world.table.events] == [("e1", ""), ("e2", "")]


def test_a_notice_is_recorded_once_and_retiring_it_leaves_a_later_one(world):
    early = Notice(instance="i-1", kind=NoticeKind.REBALANCE, at=NOON)
    late = replace(early, at=NOON + MINUTE)
    for notice in (early, early, late):
        store(world).record(notice)
    assert store(world).state().notices == (early, late)
    store(world).commit(held(world), Changes(retire=(early,)))
    assert store(world).state().notices == (late,)


def test_a_command_takes_the_place_of_its_like_and_only_that(world):
    first, second = Pause(pool="web", by="a"), Pause(pool="web", by="b")
    size = Scale(pool="web", nodes=3, until=NOON + MINUTE)
    for number, command in enumerate((first, Pause(), size, second)):
        store(world).order(command, event(str(number)))
    assert set(store(world).state().commands) == {Pause(), second, size}
    store(world).commit(held(world), Changes(expired=(first, size)))
    assert set(store(world).state().commands) == {Pause(), second}
    store(world).withdraw(second, event("over"))
    assert store(world).state().commands == (Pause(),)


def test_history_is_newest_first_and_bounded(world):
    lease = held(world, until=timedelta(days=90))
    for number in range(5):
        at = world.now + timedelta(hours=number)
        store(world).commit(lease, Changes(decision=decision(number, at), events=(event(str(number), at),)))
    history = world.parts("h", limit=timedelta(days=90)).history
    assert [each.id[-1] for each in history.decisions(2)] == ["4", "3"]
    assert [each.id[-1] for each in history.decisions(9, before=NOON + 2 * timedelta(hours=1))] == ["1", "0"]
    assert [each.id for each in history.events(NOON, NOON + timedelta(hours=2))] == ["1", "0"]
    world.advance(31 * 86400)
    assert (history.decisions(9), world.table.events) == ((), ())


def test_an_item_that_the_real_table_would_refuse_is_noticed(world):
    lease = held(world)
    store(world).commit(lease, Changes(put=(launch(reason="x" * 900_000),)))  # it compresses well
    assert world.violations == []
    noise = "".join(map(str, range(300_000)))
    store(world).commit(lease, Changes(put=(launch(reason=noise),)))
    assert [each.rule for each in world.violations] == [Rule.TABLE]


def test_the_stack_declares_beside_what_is_in_force(world):
    world.declare({"limits": {"min": 4}})
    state = store(world).state()
    assert (state.declared.number, state.declared.data, state.policy.number) == (0, {"limits": {"min": 4}}, 1)
    assert [target.pool for target in state.deployment.targets] == ["default"]

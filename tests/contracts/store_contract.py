"""How every store behaves behind ports.Store and ports.History: DynamoDB through the adapter, and the simulated one.

A subclass named Test… gives the `world` fixture; its tests then are these. Everything here is said through the ports
alone, so it holds for each store in the same words. Threads are used where two runs meet: a store that has none may run
them one after the other, in any order.
"""

import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from threading import Barrier
from typing import Protocol, TypeVar

import pytest

from nodefleet.errors import ChangedError, LostLeaseError
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Action, Decision, DecisionRecord, Event, PolicyVersion, PoolDecision
from nodefleet.model.fleet import Count
from nodefleet.model.inventory import Notice, NoticeKind
from nodefleet.model.snapshot import Deployment, LaunchTarget, Pause, Scale
from nodefleet.model.state import AlertRecord, Level, LoopState, Memory, PoolMemory, PoolUsage, Usage
from nodefleet.ports import Changes, History, Lease, LeaseHeld, State, Store
from support.builders import NOON, after
from support.operation_builders import cleanup, launch, removal

T = TypeVar("T")
SHOP, BANK = "shop", "bank"
SKEW = timedelta(seconds=5)
TERM = timedelta(seconds=300)
MANY = 50


class StoreWorld(Protocol):
    """A table, and a hand in it."""

    def store(self, cluster: str = SHOP) -> Store:
        """As one more run sees it."""
        ...

    def history(self, cluster: str = SHOP) -> History: ...

    def declare(self, declared: PolicyVersion, deployment: Deployment, cluster: str = SHOP) -> None:
        """What the stack writes when it is deployed."""
        ...


# ── builders ─────────────────────────────────────────────────────────────────────────────────────────────────────


def take(store: Store, owner: str = "run-1", now: datetime = NOON, until: datetime | None = None) -> Lease:
    lease = store.acquire(owner, now, until or now + TERM, SKEW)
    assert isinstance(lease, Lease), f"held by {lease.owner}"
    return lease


def event(identity: str = "e1", at: datetime = NOON, **changes: object) -> Event:
    base = Event(id=identity, at=at, cluster=SHOP, kind=AlertKind.SCALE_UP, pool="default", text="2 → 3: two pods wait")
    return replace(base, **changes)


def notice(instance: str = "i-1", at: datetime = NOON, kind: NoticeKind = NoticeKind.SPOT_INTERRUPTION) -> Notice:
    return Notice(instance=instance, kind=kind, at=at)


def version(number: int = 1, source: str = "ann", **changes: object) -> PolicyVersion:
    data = {"pools": [{"name": "default", "limits": {"min": 2, "max": number + 9}}], "note": None, "ratio": 0.5}
    base = PolicyVersion(number=number, source=source, at=NOON, data=data, digest=f"digest-{number}-{source}")
    return replace(base, **changes)


def record(number: int = 1, at: datetime = NOON, **changes: object) -> DecisionRecord:
    pool = PoolDecision(pool="default", action=Action.HOLD, count=Count(ready=3), target=3, reason="CPU 50.0 % is fine")
    decided = Decision(at=at, cluster=SHOP, level=Level.NORMAL, pools=(pool,), memory=Memory())
    base = DecisionRecord(
        id=f"d{number:03}", at=at, cluster=SHOP, fence=1, policy=1, decision=decided, figures={"default.cpu": 50.0}
    )
    return replace(base, **changes)


def journal(reason: str = "known") -> LoopState:
    pools = {"default": PoolMemory(last_grow=after(-60), members=("i-1", "i-2"))}
    said = {reason: AlertRecord(told_at=NOON, seen_at=after(1))}
    running = Usage(hour=NOON, last=after(60), pools={"default": PoolUsage(usd=0.25, types={"t3.small": 60.0})})
    return LoopState(memory=Memory(level=Level.RECOVERY, pools=pools), said=said, usage=running)


def at_once(calls: Sequence[Callable[[], T]]) -> list[T]:
    """All of them at the same moment, as far as that can be had."""
    start = Barrier(len(calls))

    def one(call: Callable[[], T]) -> T:
        start.wait(timeout=30)
        return call()

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(one, calls))


class StoreContract:
    @pytest.fixture
    def world(self) -> StoreWorld:
        raise NotImplementedError

    @pytest.fixture
    def store(self, world: StoreWorld) -> Store:
        return world.store()

    # ── the lease ──

    def test_a_lease_that_nobody_ever_had_is_free(self, store: Store):
        assert store.acquire("run-1", NOON, after(300), SKEW) == Lease(owner="run-1", fence=1, expires=after(300))

    def test_a_held_lease_says_who_has_it_and_until_when(self, store: Store):
        take(store, "run-1", until=after(120.25))
        assert store.acquire("run-2", after(1), after(301), SKEW) == LeaseHeld(owner="run-1", expires=after(120.25))

    def test_whoever_is_refused_changes_nothing(self, store: Store):
        lease = take(store)
        before = store.state()
        store.acquire("run-2", after(1), after(900), SKEW)
        assert store.state() == before
        store.commit(lease, Changes(put=(launch(),)))

    def test_an_expired_lease_is_not_taken_within_the_allowance_for_clocks(self, store: Store):
        take(store, until=after(100))
        for late in (100, 103, 105):
            assert isinstance(store.acquire("run-2", after(late), after(400), SKEW), LeaseHeld)

    def test_an_expired_lease_is_taken_after_it_with_a_higher_fence(self, store: Store):
        first = take(store, until=after(100))
        second = take(store, "run-2", now=after(105.01))
        assert second.fence > first.fence

    def test_a_released_lease_is_free_at_once_with_a_higher_fence(self, store: Store):
        first = take(store)
        assert store.release(first, store.state().wake)
        assert take(store, "run-2", now=after(1)).fence > first.fence

    def test_the_state_shows_the_fence_whoever_has_it(self, store: Store):
        lease = take(store)
        assert store.state().fence == lease.fence
        store.release(lease, None)
        assert store.state().fence == lease.fence

    def test_the_fence_of_a_free_lease_is_known_and_none_while_it_is_held(self, store: Store):
        assert store.free_fence() == 0
        store.wake()
        assert store.free_fence() == 0
        lease = take(store, until=after(100))
        assert store.free_fence() is None  # expired or not: its owner may still write
        store.release(lease, None)
        assert store.free_fence() == lease.fence

    def test_the_next_fence_proves_that_nobody_held_the_lease_in_between(self, store: Store):
        free = store.free_fence()
        assert free is not None
        first = take(store)
        assert first.fence == free + 1
        store.release(first, None)
        assert take(store, "run-2", now=after(1)).fence == free + 2

    def test_the_same_owner_is_not_locked_out_by_itself(self, store: Store):
        """A run that is started again under its old name, or that heard no answer."""
        first = take(store)
        second = take(store, now=after(10), until=after(200))
        assert second.fence > first.fence
        assert second.expires == after(200)

    def test_what_is_left_of_an_owner_that_asked_again_is_shut_out(self, store: Store):
        first = take(store)
        second = take(store, now=after(10))
        with pytest.raises(LostLeaseError):
            store.commit(first, Changes(put=(launch(id="old"),)))
        assert store.release(first, None)
        store.commit(second, Changes(put=(launch(id="new"),)))
        assert [each.id for each in store.state().operations] == ["new"]

    def test_of_many_runs_at_once_exactly_one_gets_the_lease(self, world: StoreWorld):
        stores = [world.store() for _ in range(MANY)]
        asked = [
            lambda store=store, owner=f"run-{number}": store.acquire(owner, NOON, after(300), SKEW)
            for number, store in enumerate(stores)
        ]
        answers = at_once(asked)
        (lease,) = [answer for answer in answers if isinstance(answer, Lease)]
        assert {answer.owner for answer in answers} == {lease.owner}
        assert world.store().state().fence == 1

    def test_of_many_runs_that_take_over_exactly_one_gets_it(self, world: StoreWorld):
        first = take(world.store(), "dead", until=after(100))
        now = after(106)
        asked = [
            lambda store=world.store(), owner=f"run-{number}": store.acquire(owner, now, now + TERM, SKEW)
            for number in range(MANY)
        ]
        answers = at_once(asked)
        (lease,) = [answer for answer in answers if isinstance(answer, Lease)]
        assert lease.fence == first.fence + 1
        assert {answer.owner for answer in answers} == {lease.owner}

    # ── waking ──

    def test_somebody_can_wake_before_anything_exists(self, store: Store):
        assert store.wakes() == 0
        store.wake()
        assert (store.state().wake, store.state().fence) == (1, 0)
        assert store.wakes() == 1
        assert take(store).fence == 1

    def test_every_wake_up_counts(self, world: StoreWorld):
        at_once([lambda store=world.store(): store.wake() for _ in range(20)])
        assert world.store().state().wake == 20

    def test_a_wake_up_survives_taking_and_releasing(self, store: Store):
        store.wake()
        lease = take(store)
        assert store.state().wake == 1
        assert store.release(lease, 1)
        assert store.state().wake == 1

    def test_a_lease_is_not_let_go_when_somebody_came_since(self, store: Store):
        lease = take(store)
        seen = store.state().wake
        store.wake()
        assert not store.release(lease, seen)
        assert isinstance(store.acquire("run-2", after(1), after(300), SKEW), LeaseHeld)
        store.commit(lease, Changes(put=(launch(),)))
        assert store.release(lease, store.state().wake)

    def test_it_is_let_go_whatever_came_when_there_is_no_time_left(self, store: Store):
        lease = take(store)
        store.wake()
        assert store.release(lease, None)
        take(store, "run-2", now=after(1))

    def test_no_wake_up_is_lost_between_the_last_look_and_the_release(self, world: StoreWorld):
        """Whoever comes finds the lease free, or is seen by an iteration of whoever holds it."""
        for number in range(12):
            store = world.store(f"cluster-{number}")
            lease = take(store, "holder")

            def holder(store: Store = store, lease: Lease = lease) -> int:
                while True:
                    seen = store.state().wake
                    if store.release(lease, seen):
                        return seen

            def urgent(store: Store = world.store(f"cluster-{number}")) -> Lease | LeaseHeld:
                store.wake()
                return store.acquire("urgent", after(1), after(300), SKEW)

            seen, answer = at_once([holder, urgent])
            assert seen == 1 or isinstance(answer, Lease)

    # ── releasing ──

    def test_releasing_twice_is_no_error(self, store: Store):
        lease = take(store)
        assert store.release(lease, 0)
        assert store.release(lease, 0)

    def test_releasing_a_lease_that_another_took_changes_nothing(self, store: Store):
        lost = take(store, until=after(10))
        theirs = take(store, "run-2", now=after(100))
        before = store.state()
        assert store.release(lost, None)
        assert store.release(lost, 0)
        assert store.state() == before
        store.commit(theirs, Changes(put=(launch(),)))

    def test_releasing_in_an_empty_table_is_no_error(self, store: Store):
        assert store.release(Lease(owner="run-1", fence=3, expires=NOON), 0)
        assert store.state() == State()

    # ── committing ──

    def test_an_empty_table_is_an_empty_state(self, store: Store):
        assert store.state() == State()

    def test_everything_comes_back_as_it_was_written(self, world: StoreWorld, store: Store):
        lease = take(store)
        operations = (launch(), removal(), cleanup())
        usage = Usage(hour=after(-3600), last=NOON, pools={"default": PoolUsage(usd=1.5, most_nodes=4)})
        changes = Changes(
            journal=journal(),
            seed={"last_scale_time": "2026-11-16T12:00:00Z", "last_scale_action": "scale_up", "node_count": 3},
            put=operations,
            events=(event(),),
            decision=record(),
            usage=(usage,),
            policy=version(),
        )
        store.commit(lease, changes)
        state = store.state()
        assert state.journal == journal()
        assert {each.id: each for each in state.operations} == {each.id: each for each in operations}
        assert state.policy == version()
        history = world.history()
        assert history.events(after(-1), after(1)) == (event(),)
        assert history.decisions(5) == (record(),)
        assert history.usage(after(-7200), NOON) == (usage,)
        assert history.policies() == (version(),)

    def test_an_operation_is_replaced_and_dropped_by_its_id(self, store: Store):
        lease = take(store)
        store.commit(lease, Changes(put=(launch(), removal())))
        store.commit(lease, Changes(put=(launch(answered=True, instances=("i-1",)),), drop=("r1",)))
        assert store.state().operations == (launch(answered=True, instances=("i-1",)),)
        store.commit(lease, Changes(drop=("l1", "never-was")))
        assert store.state().operations == ()

    def test_an_operation_that_is_put_and_dropped_at_once_is_gone(self, store: Store):
        lease = take(store)
        store.commit(lease, Changes(put=(launch(attempts=1), launch(attempts=2), removal()), drop=("r1", "r1")))
        assert store.state().operations == (launch(attempts=2),)

    def test_what_is_not_named_stays(self, store: Store):
        lease = take(store)
        store.commit(lease, Changes(journal=journal(), put=(launch(),), policy=version()))
        store.commit(lease, Changes(put=(removal(),)))
        state = store.state()
        assert (state.journal, len(state.operations), state.policy) == (journal(), 2, version())

    def test_a_commit_may_be_repeated(self, world: StoreWorld, store: Store):
        """A run whose commit was not answered does not know whether it took place."""
        lease = take(store)
        changes = Changes(journal=journal(), put=(launch(),), drop=("gone",), events=(event(),), policy=version())
        store.commit(lease, changes)
        before = store.state()
        store.commit(lease, changes)
        assert store.state() == before
        assert world.history().events(NOON, after(1)) == (event(),)

    @pytest.mark.parametrize("how", ["taken over", "released", "never had"])
    def test_nothing_is_written_without_the_lease(self, world: StoreWorld, store: Store, how: str):
        lease = take(store, until=after(10))
        match how:
            case "taken over":
                take(store, "run-2", now=after(100))
            case "released":
                store.release(lease, None)
            case _:
                lease = replace(lease, fence=lease.fence + 1)
        before = store.state()
        changes = Changes(journal=journal(), put=(launch(),), events=(event(),), decision=record(), policy=version())
        with pytest.raises(LostLeaseError):
            store.commit(lease, changes)
        assert store.state() == before
        history = world.history()
        assert (history.events(after(-1), after(1)), history.decisions(5), history.policies()) == ((), (), ())

    def test_a_run_that_lost_its_lease_cannot_undo_what_the_next_one_wrote(self, store: Store):
        lost = take(store, until=after(10))
        store.commit(lost, Changes(put=(launch(),)))
        theirs = take(store, "run-2", now=after(100))
        store.commit(theirs, Changes(put=(launch(answered=True),)))
        for changes in (Changes(drop=("l1",)), Changes(put=(launch(attempts=9),))):
            with pytest.raises(LostLeaseError):
                store.commit(lost, changes)
        assert store.state().operations == (launch(answered=True),)

    def test_an_expired_lease_that_nobody_took_still_commits(self, store: Store):
        """Whether it is too late is for its owner to know; the store only knows who was last."""
        lease = take(store, until=after(1))
        store.commit(lease, Changes(put=(launch(),)))
        assert store.state().operations == (launch(),)

    def test_no_changes_are_no_commit(self, store: Store):
        store.commit(Lease(owner="nobody", fence=9, expires=NOON), Changes())
        assert store.state() == State()

    def test_more_than_a_transaction_holds_is_written_all_the_same(self, world: StoreWorld, store: Store):
        lease = take(store)
        operations = tuple(launch(id=f"l{number:03}") for number in range(102))
        store.commit(lease, Changes(journal=journal(), put=operations, events=(event(),), decision=record()))
        state = store.state()
        assert (len(state.operations), state.journal) == (102, journal())
        assert world.history().events(NOON, after(1)) == (event(),)
        store.commit(lease, Changes(drop=tuple(each.id for each in operations)))
        assert store.state().operations == ()

    def test_big_records_come_back_whole(self, store: Store):
        """A big fleet's memory, and more than a megabyte of operations, which DynamoDB gives in pages."""
        members = tuple(f"i-{number:017x}" for number in range(3000))
        big = LoopState(memory=Memory(pools={"default": PoolMemory(members=members)}))
        chance = random.Random(7)  # noqa: S311  # it makes text that does not compress
        operations = tuple(removal(id=f"r{n}", reason=chance.randbytes(200_000).hex()) for n in range(6))
        lease = take(store)
        store.commit(lease, Changes(journal=big, put=operations))
        state = store.state()
        assert state.journal == big
        assert sorted(state.operations, key=lambda each: each.id) == list(operations)

    def test_waking_and_committing_at_once_disturb_nobody(self, world: StoreWorld):
        store = world.store()
        lease = take(store)

        def holder() -> None:
            for number in range(10):
                store.commit(lease, Changes(put=(launch(id=f"l{number}"),)))

        def urgent(other: Store = world.store()) -> None:
            for _ in range(10):
                other.wake()

        at_once([holder, urgent, urgent])
        state = store.state()
        assert (len(state.operations), state.wake) == (10, 20)

    # ── events ──

    def test_an_event_is_stored_once_by_its_id(self, world: StoreWorld, store: Store):
        lease = take(store)
        store.commit(lease, Changes(events=(event(), event())))
        store.commit(lease, Changes(put=(launch(),), events=(event(), event("e2"))))
        store.tell(event())
        assert sorted(each.id for each in world.history().events(NOON, after(1))) == ["e1", "e2"]
        assert store.state().operations == (launch(),)

    def test_an_event_that_comes_again_later_is_the_same_event(self, world: StoreWorld, store: Store):
        """A weekly report that is made twice, because nobody heard that the first one was stored."""
        store.tell(event("report-47"))
        store.tell(event("report-47", at=after(60), text="made again"))
        lease = take(store)
        store.commit(lease, Changes(put=(launch(),), events=(event("report-47", at=after(90)),)))
        assert world.history().events(after(-10), after(1000)) == (event("report-47"),)
        assert store.state().operations == (launch(),)

    def test_telling_needs_no_lease(self, world: StoreWorld, store: Store):
        take(store, "another writer")
        store.tell(event())
        assert world.history().events(NOON, after(1)) == (event(),)

    def test_of_many_who_tell_the_same_at_once_one_is_heard(self, world: StoreWorld):
        at_once([lambda n=n: world.store().tell(event("same", at=after(n))) for n in range(10)])
        assert len(world.history().events(NOON, after(60))) == 1

    # ── notices ──

    def test_a_notice_is_recorded_without_the_lease_and_once(self, store: Store):
        take(store, "another writer")
        store.record(notice())
        store.record(notice())
        store.record(notice(kind=NoticeKind.REBALANCE))
        store.record(notice("i-2"))
        assert len(store.state().notices) == 3
        assert set(store.state().notices) == {notice(), notice(kind=NoticeKind.REBALANCE), notice("i-2")}

    def test_a_retired_notice_is_gone_and_a_later_one_stays(self, store: Store):
        lease = take(store)
        store.record(notice())
        store.record(notice(at=after(600)))
        store.commit(lease, Changes(retire=(notice(), notice(), notice("i-unknown"))))
        assert store.state().notices == (notice(at=after(600)),)

    # ── what operators want

    def test_an_order_needs_no_lease_and_is_told(self, world: StoreWorld, store: Store):
        take(store, "another writer")
        pause = Pause(pool="default", by="ann", reason="long jobs", until=after(7200), scale_down_only=True)
        store.order(pause, event(kind=AlertKind.PAUSED))
        assert store.state().commands == (pause,)
        assert world.history().events(NOON, after(1)) == (event(kind=AlertKind.PAUSED),)

    def test_an_order_takes_the_place_of_the_same_kind_for_the_same_pool(self, store: Store):
        store.order(Scale(pool="web", nodes=5, until=after(60)), event("e1"))
        store.order(Scale(pool="batch", nodes=2, until=after(60)), event("e2"))
        store.order(Pause(pool="web"), event("e3"))
        store.order(Pause(), event("e4"))
        store.order(Scale(pool="web", nodes=7, until=after(90)), event("e5"))
        assert set(store.state().commands) == {
            Scale(pool="web", nodes=7, until=after(90)),
            Scale(pool="batch", nodes=2, until=after(60)),
            Pause(pool="web"),
            Pause(),
        }

    def test_withdrawing_ends_that_kind_for_that_pool_only(self, world: StoreWorld, store: Store):
        pause, everywhere = Pause(pool="web", by="ann"), Pause()
        for number, command in enumerate((pause, everywhere, Scale(pool="web", nodes=5, until=after(60)))):
            store.order(command, event(f"e{number}"))
        store.withdraw(Pause(pool="web"), event("resumed"))
        assert set(store.state().commands) == {everywhere, Scale(pool="web", nodes=5, until=after(60))}
        assert "resumed" in {each.id for each in world.history().events(NOON, after(1))}

    def test_a_command_of_the_loop_is_written_with_its_commit_and_never_over_an_operators(
        self, world: StoreWorld, store: Store
    ):
        lease = take(store)
        floor = Scale(pool="web", nodes=9, at_least=True, origin="eu", by="node-fleet", until=after(3600))
        store.commit(lease, Changes(put=(launch(),), ordered=(floor,)))
        assert store.state().commands == (floor,)
        own = Scale(pool="web", nodes=3, by="ann", until=after(60))
        store.order(own, event("e1"))
        store.commit(lease, Changes(ordered=(floor,), events=(event("e2"),)))
        assert store.state().commands == (own,)
        assert "e2" in [each.id for each in world.history().events(after(-60), after(60))]

    def test_withdrawing_what_is_not_there_is_no_error(self, store: Store):
        store.withdraw(Pause(), event("e1"))
        store.withdraw(Pause(), event("e1"))
        assert store.state().commands == ()

    def test_an_order_that_ended_is_cleared_away_unless_another_took_its_place(self, store: Store):
        lease = take(store)
        ended, newer = Pause(pool="web", until=after(-1)), Pause(pool="web", until=after(3600))
        other = Scale(pool="web", nodes=3, until=after(-1))
        store.order(ended, event("e1"))
        store.order(other, event("e2"))
        seen = store.state().commands
        store.order(newer, event("e3"))
        store.commit(lease, Changes(put=(launch(),), expired=seen))
        state = store.state()
        assert state.commands == (newer,)
        assert state.operations == (launch(),)
        store.commit(lease, Changes(expired=(newer,)))
        assert store.state().commands == ()

    # ── the stack ──

    def test_what_the_stack_declares_is_in_the_state(self, world: StoreWorld, store: Store):
        deployment = Deployment(
            cluster=SHOP,
            api_server="https://10.0.1.10:6443",
            targets=(LaunchTarget(template="lt-1", subnets={"eu-west-1a": "subnet-a"}),),
            prices={"t3.small": 0.0228},
        )
        declared = version(0, "stack")
        world.declare(declared, deployment)
        state = store.state()
        assert (state.declared, state.deployment, state.policy) == (declared, deployment, None)

    # ── policies ──

    def test_a_policy_that_is_applied_is_in_force(self, world: StoreWorld, store: Store):
        history = world.history()
        history.apply(version(1), event("e1"))
        history.apply(version(2, "bob"), event("e2"))
        assert store.state().policy == version(2, "bob")
        assert history.policies() == (version(2, "bob"), version(1))
        assert len(history.events(NOON, after(1))) == 2

    def test_a_number_that_somebody_else_made_is_refused_and_nothing_changes(self, world: StoreWorld, store: Store):
        history = world.history()
        history.apply(version(1), event("e1"))
        with pytest.raises(ChangedError):
            history.apply(version(1, "bob"), event("e2"))
        assert store.state().policy == version(1)
        assert [each.id for each in history.events(NOON, after(1))] == ["e1"]

    def test_applying_the_very_same_again_is_no_error(self, world: StoreWorld, store: Store):
        history = world.history()
        for _ in range(2):
            history.apply(version(1), event("e1"))
        assert store.state().policy == version(1)
        assert history.policies() == (version(1),)

    def test_an_older_number_does_not_come_into_force(self, world: StoreWorld, store: Store):
        history = world.history()
        history.apply(version(3), event("e1"))
        with pytest.raises(ChangedError):
            history.apply(version(2), event("e2"))
        assert store.state().policy == version(3)

    def test_of_many_who_apply_the_same_number_one_wins(self, world: StoreWorld):
        def applied(number: int) -> bool:
            try:
                world.history().apply(version(1, f"person-{number}"), event(f"e{number}"))
            except ChangedError:
                return False
            return True

        assert sum(at_once([lambda n=n: applied(n) for n in range(10)])) == 1
        assert len(world.history().policies()) == 1
        assert len(world.history().events(NOON, after(1))) == 1

    def test_a_look_does_not_overwrite_a_policy_that_somebody_applied_meanwhile(self, world: StoreWorld, store: Store):
        lease = take(store)
        world.history().apply(version(1, "ann"), event("e1"))
        with pytest.raises(ChangedError):
            store.commit(lease, Changes(journal=journal(), put=(launch(),), policy=version(1, "stack")))
        state = store.state()
        assert (state.policy, state.operations, state.journal) == (version(1, "ann"), (), LoopState())

    def test_policies_are_sorted_as_numbers(self, world: StoreWorld):
        history = world.history()
        for number in (9, 10, 101):
            history.apply(version(number), event(f"e{number}"))
        assert [each.number for each in history.policies()] == [101, 10, 9]

    # ── history ──

    def test_decisions_come_newest_first_and_as_many_as_asked(self, world: StoreWorld, store: Store):
        lease = take(store)
        records = [record(number, at=after(seconds)) for number, seconds in enumerate((0, 0.5, 1, 60))]
        for each in records:
            store.commit(lease, Changes(decision=each))
        history = world.history()
        assert history.decisions(10) == tuple(reversed(records))
        assert history.decisions(2) == (records[3], records[2])
        assert history.decisions(10, before=after(1)) == (records[1], records[0])
        assert history.decisions(0) == ()

    def test_a_decision_that_is_written_again_replaces_itself(self, world: StoreWorld, store: Store):
        lease = take(store)
        store.commit(lease, Changes(decision=record()))
        store.commit(lease, Changes(decision=record(did=("launched i-1",))))
        assert world.history().decisions(5) == (record(did=("launched i-1",)),)

    def test_events_come_newest_first_from_the_beginning_of_a_span_to_before_its_end(self, world: StoreWorld):
        store, history = world.store(), world.history()
        for seconds in (0, 1.5, 2, 60):
            store.tell(event(f"e{seconds}", at=after(seconds)))
        assert [each.id for each in history.events(NOON, after(60))] == ["e2", "e1.5", "e0"]
        assert [each.id for each in history.events(after(1.5), after(61))] == ["e60", "e2", "e1.5"]
        assert history.events(after(60), NOON) == ()

    def test_usage_comes_newest_first_and_an_hour_once(self, world: StoreWorld, store: Store):
        lease = take(store)
        hours = [Usage(hour=after(3600 * number), last=after(3600 * (number + 1))) for number in range(3)]
        store.commit(lease, Changes(usage=tuple(hours)))
        counted = replace(hours[2], pools={"default": PoolUsage(usd=0.5)})
        store.commit(lease, Changes(usage=(hours[2], counted)))
        assert world.history().usage(NOON, after(7200)) == (hours[1], hours[0])
        assert world.history().usage(NOON, after(7201)) == (counted, hours[1], hours[0])

    # ── clusters ──

    def test_clusters_know_nothing_of_each_other(self, world: StoreWorld):
        shop, bank = world.store(SHOP), world.store(BANK)
        lease = take(shop)
        shop.wake()
        shop.record(notice())
        shop.order(Pause(), event())
        shop.commit(lease, Changes(journal=journal(), put=(launch(),), decision=record(), policy=version()))
        assert bank.state() == State()
        assert take(bank).fence == 1
        history = world.history(BANK)
        assert (history.decisions(5), history.policies(), history.events(NOON, after(1))) == ((), (), ())

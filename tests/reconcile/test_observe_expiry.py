"""Notices that are over are let go of: all of them, and no other."""

from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.model.inventory import InstanceState, Notice, NoticeKind
from nodefleet.model.snapshot import Adopt, Drain, Missing, Pause, Recycle, Scale
from nodefleet.policy.cluster import Policy
from nodefleet.reconcile.observe import ended_commands, stale_notices
from support.book_builders import OpenBook
from support.builders import NOON, after, instance, look
from support.operation_builders import cleanup, removal
from support.worlds import Cluster, shop, spot_worker


def expire(book, observation):
    book.retire(stale_notices(observation, book.operations.values(), Policy()))
    book.expire(ended_commands(observation, Policy()))


FALSE_ALARM = timedelta(seconds=120 + 1200)  # the policy's defaults


def calm(**policy: object) -> Cluster:
    cluster = shop(workers=3, replicas=6, cpu=600, **policy)
    cluster.calm(1)
    return cluster


def noticed(cluster: Cluster, age: timedelta, kind: NoticeKind = NoticeKind.REBALANCE) -> None:
    """EC2 said something so long ago, and nobody acts on it."""
    told = cluster.world.interrupt(spot_worker(cluster.world), kind)
    cluster.world.ec2.machines[told.instance].dooms.clear()
    cluster.world.parts("somebody").store.record(replace(told, at=cluster.world.now - age, told_at=None))


def notices(cluster: Cluster) -> list[NoticeKind]:
    return [notice.kind for notice in cluster.world.parts("reader").store.state().notices]


@pytest.mark.parametrize(
    ("age", "kept"), [(FALSE_ALARM - timedelta(minutes=5), [NoticeKind.REBALANCE]), (FALSE_ALARM, [])]
)
def test_a_notice_of_a_machine_that_runs_is_kept_until_it_means_nothing(age, kept):
    cluster = calm()
    noticed(cluster, age)
    cluster.calm(1)
    assert notices(cluster) == kept


def test_all_notices_of_one_machine_go():
    cluster = calm()
    noticed(cluster, FALSE_ALARM)
    noticed(cluster, FALSE_ALARM, NoticeKind.SCHEDULED_CHANGE)
    cluster.calm(1)
    assert notices(cluster) == []


def test_one_goes_also_in_a_pool_that_is_only_watched():
    cluster = calm(dry_run=True)
    noticed(cluster, FALSE_ALARM, NoticeKind.SCHEDULED_CHANGE)
    cluster.calm(1)
    assert notices(cluster) == []


@pytest.mark.parametrize(("age", "kept"), [(timedelta(0), [NoticeKind.REBALANCE]), (FALSE_ALARM, [])])
def test_one_of_a_machine_that_nobody_knows_goes_too(age, kept):
    cluster = calm()
    victim = spot_worker(cluster.world)
    told = replace(cluster.world.interrupt(victim, NoticeKind.REBALANCE), instance="i-unknown")
    cluster.world.ec2.machines[victim].dooms.clear()
    cluster.world.parts("somebody").store.record(replace(told, at=cluster.world.now - age, told_at=None))
    cluster.calm(1)
    assert notices(cluster) == kept


# ── one observation ──────────────────────────────────────────────────────────────────────────────────────────────

TOLD = Notice(instance="i-001", kind=NoticeKind.REBALANCE, at=NOON)
ENDED = instance(1, state=InstanceState.TERMINATED)


def tidied(**seen):
    """The notices and commands that are let go of, and the notices that are seen afterwards."""
    observation = look(1, **seen)
    book = OpenBook(observation)
    expire(book, observation)
    changes = book.written()
    return changes.retire, changes.expired, tuple(each for each in observation.notices if each not in book.retired)


def test_a_notice_of_a_machine_that_ended_is_let_go_of_and_not_seen_again():
    other = replace(TOLD, instance="i-000")
    assert tidied(notices=(TOLD, other), instances=(ENDED,)) == ((TOLD,), (), (other,))


@pytest.mark.parametrize(
    "seen",
    [
        {"instances": (instance(1),)},
        {"instances": (instance(1, state=InstanceState.STOPPING),)},
        {"instances": (replace(ENDED, id="i-002"),)},
    ],
    ids=["it runs", "it ends", "another ended"],
)
def test_a_notice_of_a_machine_that_may_still_run_is_kept(seen):
    assert tidied(notices=(TOLD,), **seen) == ((), (), (TOLD,))


def test_without_the_list_of_machines_only_its_age_ends_a_notice():
    old = replace(TOLD, at=NOON - FALSE_ALARM)
    seen = replace(look(1, notices=(TOLD, old)), instances=Missing("EC2 is away"))
    book = OpenBook(seen)
    expire(book, seen)
    assert book.retired == (old,)


def test_a_notice_that_a_removal_acts_on_is_kept_until_the_removal_is_over():
    seen = {"notices": (TOLD,), "instances": (ENDED,)}
    assert tidied(operations=(removal(instance="i-001"),), **seen)[0] == ()
    assert tidied(operations=(removal(instance="i-000"),), **seen)[0] == (TOLD,)
    assert tidied(operations=(cleanup(),), **seen)[0] == (TOLD,)


def test_commands_end_at_their_time_and_those_without_one_never():
    ended = (Pause(until=NOON), Scale(nodes=3, until=after(-1)))
    lasting = (Pause(), Pause(until=after(1)), Scale(nodes=3, until=after(1)))
    assert tidied(commands=(*lasting, *ended))[1] == ended


@pytest.mark.parametrize(
    "command",
    [
        Adopt(instance="i-001", pool="default", at=NOON, until=after(60)),
        Drain(instance="i-001", at=NOON, until=after(60)),
        Recycle(instance="i-001", at=NOON, until=after(60)),
    ],
    ids=lambda command: type(command).__name__,
)
@pytest.mark.parametrize(
    ("machines", "ended"),
    [
        ((instance(1, pool="old"),), False),
        ((instance(1, pool="old", state=InstanceState.SHUTTING_DOWN),), False),
        ((instance(1, pool="old", state=InstanceState.TERMINATED),), True),
        ((instance(1),), "owned"),
        ((instance(2),), False),
        (Missing("EC2 is away"), False),
    ],
    ids=["no pool owns it", "it ends", "it ended", "a pool owns it", "another one's", "not known"],
)
def test_a_command_for_one_worker_ends_when_that_worker_is_owned_or_gone(command, machines, ended):
    """A worker that is to be replaced is owned from the first, and only its end is the end of that."""
    ended = not isinstance(command, Recycle) if ended == "owned" else ended
    observation = replace(look(0, commands=(command, Pause())), instances=machines)
    book = OpenBook(observation)
    expire(book, observation)
    assert book.written().expired == ((command,) if ended else ())


def test_a_withdrawal_is_kept_beside_the_notice_that_it_takes_back_until_its_time():
    change = replace(TOLD, kind=NoticeKind.SCHEDULED_CHANGE, at=after(3600), told_at=after(-60), event="event-1")
    withdrawal = replace(change, told_at=after(-30), withdrawn=True)
    assert tidied(notices=(change, withdrawal), instances=(instance(1),)) == ((change,), (), (withdrawal,))


@pytest.mark.parametrize(
    ("state", "ended"),
    [(InstanceState.RUNNING, False), (InstanceState.SHUTTING_DOWN, False), (InstanceState.TERMINATED, True)],
)
def test_an_order_to_replace_a_worker_ends_when_the_worker_has_ended(state, ended):
    order = Recycle(instance="i-001", at=NOON, until=after(86400))
    _, expired, _ = tidied(commands=(order,), instances=(instance(1, state=state),))
    assert expired == ((order,) if ended else ())


def test_an_order_to_drain_ends_when_a_pool_owns_the_worker():
    order = Drain(instance="i-001", at=NOON, until=after(86400))
    assert tidied(commands=(order,), instances=(instance(1),))[1] == (order,)

"""What one iteration collects, and what it writes: all of it once, together, and nothing else."""

from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import PolicyVersion
from nodefleet.model.inventory import Market, Notice, NoticeKind
from nodefleet.model.operations import Close, Joined, JoinFailed, Outcome, RemovalReason, SendAlert
from nodefleet.model.snapshot import Missing, Pause
from nodefleet.model.state import Level, LoopState, Memory
from nodefleet.policy.pool import Pool
from nodefleet.ports import Changes
from support.book_builders import OpenBook
from support.builders import CATALOG, NOON, after, instance, look
from support.operation_builders import launch, removal

NOTICE = Notice(instance="i-001", kind=NoticeKind.REBALANCE, at=NOON)
VERSION = PolicyVersion(number=3, source="stack", at=NOON, data={}, digest="d3")
PRICED = tuple(replace(kind, hourly_usd=0.02, spot_usd=0.005) for kind in CATALOG)


def done(operation="r1", outcome=Outcome.DONE):
    return Close(operation=operation, outcome=outcome, detail="")


def test_an_iteration_without_news_writes_nothing():
    opened = OpenBook()
    opened.flush()
    assert opened.commits.all == []


def test_something_is_written_once():
    opened = OpenBook()
    opened.put(removal())
    opened.flush()
    opened.flush()
    assert [changes.put for changes in opened.commits.all] == [(removal(),)]


def test_a_changed_journal_is_written_once_and_an_unchanged_one_not_at_all():
    opened = OpenBook()
    opened.refuse(VERSION)
    opened.put(removal())
    opened.flush()
    opened.put(launch())
    opened.flush()
    assert [changes.journal for changes in opened.commits.all] == [LoopState(refused_policy="d3"), None]


def test_the_operations_of_the_observation_are_open():
    assert OpenBook(look(3, operations=(removal(), launch()))).operations == {"r1": removal(), launch().id: launch()}


def test_the_last_version_of_an_operation_is_written_beside_others():
    opened = OpenBook()
    later = removal(reason="changed its mind")
    for each in (removal(), launch(), later):
        opened.put(each)
    assert opened.operations == {"r1": later, launch().id: launch()}
    assert opened.written().put == (launch(), later)


def test_a_closed_operation_is_dropped_and_not_put():
    opened = OpenBook(look(3, operations=(removal(id="r0"),)))
    for each in (removal(), launch()):
        opened.put(each)
    opened.close(done("r0"))
    opened.close(done("r1"))
    assert list(opened.operations) == [launch().id]
    changes = opened.written()
    assert (changes.put, changes.drop) == ((launch(),), ("r0", "r1"))


def test_one_that_is_unknown_is_dropped_and_counts_as_nothing():
    opened = OpenBook()
    opened.close(done("r9", Outcome.FAILED))
    assert (opened.failures, opened.removed, opened.events) == (0, 0, [])
    assert opened.written() == Changes(drop=("r9",))


@pytest.mark.parametrize(("outcome", "failures"), [(Outcome.FAILED, 2), (Outcome.DONE, 0), (Outcome.CANCELLED, 0)])
def test_operations_that_failed_are_counted(outcome, failures):
    opened = OpenBook(look(3, operations=(removal(), launch())))
    opened.close(done("r1", outcome))
    opened.close(done(launch().id, outcome))
    assert opened.failures == failures


def test_a_voluntary_removal_that_is_done_is_a_scale_down():
    gone = removal(instance="i-001", node="w001", started=NOON)
    other_pool = instance(7, pool="other", launched_at=NOON)
    opened = OpenBook(look(3, at=after(90), operations=(gone,), catalog=PRICED, instances=[other_pool]))
    opened.close(done())
    assert (opened.removed, opened.drains) == (1, [90.0])
    (event,) = opened.written().events
    assert [event] == opened.events
    assert (event.kind, event.pool, event.nodes, event.change) == (AlertKind.SCALE_DOWN, "default", 2, -1)
    assert event.usd_per_day == pytest.approx(-0.005 * 24)
    assert "w001" in event.text
    assert gone.reason in event.text


@pytest.mark.parametrize(("rotated", "subjects"), [(False, ("w001",)), (True, ("w001", "rotated"))])
def test_the_event_of_a_rotation_says_that_it_is_one(rotated, subjects):
    gone = removal(instance="i-001", node="w001", rotated=rotated)
    opened = OpenBook(look(3, operations=(gone,)))
    opened.close(done())
    assert [event.subjects for event in opened.events] == [subjects]


def test_the_event_of_a_consolidation_says_what_it_saves_with_its_replacement():
    gone = removal(instance="i-001", node="w001", consolidates=True, saves_usd=0.01)
    opened = OpenBook(look(3, operations=(gone,)))
    opened.close(done())
    (event,) = opened.events
    assert (event.subjects, event.usd_per_day) == (("w001", "consolidated"), pytest.approx(-0.24))


@pytest.mark.parametrize("why", [why for why in RemovalReason if why is not RemovalReason.VOLUNTARY])
def test_another_removal_that_is_done_is_none(why):
    opened = OpenBook(look(3, operations=(removal(why),)))
    opened.close(done())
    assert (opened.removed, opened.drains, opened.events) == (0, [], [])


@pytest.mark.parametrize("outcome", [Outcome.CANCELLED, Outcome.FAILED])
def test_a_voluntary_removal_that_did_not_come_to_its_end_is_none(outcome):
    opened = OpenBook(look(3, operations=(removal(),)))
    opened.close(done(outcome=outcome))
    assert (opened.removed, opened.drains, opened.events) == (0, [], [])


@pytest.mark.parametrize(
    ("changes", "usd_per_day"),
    [
        ({}, -0.005 * 24),
        ({"instances": (instance(0), instance(1, market=Market.ON_DEMAND))}, -0.02 * 24),
        ({"instances": (instance(0),)}, None),
        ({"instances": Missing("EC2 is away")}, None),
        ({"catalog": CATALOG}, None),
    ],
    ids=["spot", "on-demand", "gone", "no EC2", "no price"],
)
def test_what_a_removal_saves_is_what_the_machine_costs(changes, usd_per_day):
    seen = replace(look(2, operations=(removal(instance="i-001"),)), **{"catalog": PRICED} | changes)
    opened = OpenBook(seen)
    opened.close(done())
    assert opened.events[0].usd_per_day == (usd_per_day and pytest.approx(usd_per_day))


def test_a_machine_without_a_node_is_named_by_its_id():
    opened = OpenBook(look(3, operations=(removal(instance="i-001", node=""),)))
    opened.close(done())
    assert opened.events[0].text.startswith("i-001 ")


def test_lessons_are_learned_counted_and_written():
    opened = OpenBook()
    opened.add_feedback(
        iter(
            [
                Joined(pool="default", instance="i-1", took=timedelta(seconds=80), at=NOON),
                JoinFailed(pool="default", instance="i-2", at=NOON),
            ]
        )
    )
    opened.add_feedback([Joined(pool="default", instance="i-3", took=timedelta(seconds=70), at=NOON)])
    assert (opened.joins, opened.failures) == ([80.0, 70.0], 1)
    journal = opened.written().journal
    assert journal.memory == opened.memory != Memory()


def test_people_hear_when_joins_fail_again_and_again():
    opened = OpenBook()
    for number in range(Pool().health.failed_joins):
        opened.add_feedback([JoinFailed(pool="default", instance=f"i-{number}", at=NOON)])
    assert AlertKind.JOIN_BACKOFF in {event.kind for event in opened.events}


def alert(kind=AlertKind.DRAIN_BLOCKED, *subjects):
    return SendAlert(alert=kind, pool="default", subjects=subjects, text="the drain waits")


def test_an_alert_is_sent_once_with_the_level():
    opened = OpenBook(journal=LoopState(memory=Memory(level=Level.DEGRADED)))
    sent = alert(AlertKind.AT_MAX)
    opened.send_alert(sent)
    opened.send_alert(sent)
    (event,) = opened.written().events
    assert [event] == opened.events
    assert (event.kind, event.pool, event.text) == (AlertKind.AT_MAX, "default", sent.text)
    assert (event.level, event.dry) == (Level.DEGRADED, False)


def test_an_alert_about_another_subject_is_another_one():
    opened = OpenBook()
    opened.send_alert(alert(AlertKind.AT_MAX, "w1"))
    opened.send_alert(alert(AlertKind.AT_MAX, "w2"))
    assert len(opened.written().events) == 2


@pytest.mark.parametrize("dry", [True, False])
def test_an_alert_of_a_pool_that_is_only_watched_says_so(dry):
    opened = OpenBook()
    opened.send_alert(alert(), dry=dry)
    assert [event.dry for event in opened.events] == [dry]


@pytest.mark.parametrize(
    ("kind", "dry", "counted"),
    [(AlertKind.DRAIN_BLOCKED, False, 2), (AlertKind.DRAIN_BLOCKED, True, 1), (AlertKind.AT_MAX, False, 1)],
)
def test_blocked_drains_and_failed_joins_count_each_time_without_being_sent_again(kind, dry, counted):
    opened = OpenBook()
    opened.send_alert(alert(kind), dry=dry)
    opened.send_alert(alert(kind), dry=dry)
    assert len(opened.events) == counted
    assert {(event.kind.value, event.pool, event.text) for event in opened.events} == {
        (kind.value, "default", "the drain waits")
    }
    assert len(opened.written().events) == 1


@pytest.mark.parametrize(
    ("level", "kind", "hours"),
    [
        (Level.PARTIAL, AlertKind.DEGRADED, 1),
        (Level.DEGRADED, AlertKind.DEGRADED, 6),
        (Level.PARTIAL, AlertKind.AT_MAX, 6),
    ],
)
def test_only_the_loss_of_ec2_or_kubernetes_is_repeated_like_something_critical(level, kind, hours):
    journal, sent = LoopState(memory=Memory(level=level)), []
    for minutes in range(0, 7 * 60, 10):
        opened = OpenBook(look(3, at=after(60 * minutes)), journal)
        opened.send_alert(alert(kind))
        sent += [minutes / 60 for _ in opened.events]
        opened.flush()
        journal = opened.journal
    assert sent[:2] == [0, hours]


def test_news_are_sent_once_for_each_subject():
    opened = OpenBook()
    for subjects in (("v1",), ("v1",), ("v2",)):
        opened.news(AlertKind.POLICY_REFUSED, "all", "it was refused", subjects)
    events = opened.written().events
    assert [(event.kind, event.pool, event.text) for event in events] == [
        (AlertKind.POLICY_REFUSED, "all", "it was refused")
    ] * 2
    assert list(events) == opened.events


def test_retired_notices_are_written_and_not_seen_any_more():
    opened = OpenBook()
    other = replace(NOTICE, instance="i-002")
    opened.retire(iter([NOTICE]))
    opened.retire([other])
    assert opened.retired == (NOTICE, other)
    assert opened.written() == Changes(retire=(NOTICE, other))
    assert opened.retired == (NOTICE, other)


def test_commands_that_ended_are_written():
    opened = OpenBook()
    opened.expire(iter([Pause(until=NOON)]))
    assert opened.written() == Changes(expired=(Pause(until=NOON),))


def test_an_adopted_policy_is_written_and_ends_a_refusal():
    opened = OpenBook(journal=LoopState(adopted_policy="d1", refused_policy="d2"))
    opened.adopt(VERSION)
    assert opened.written() == Changes(journal=LoopState(adopted_policy="d3"), policy=VERSION)


def test_a_refused_policy_is_remembered_beside_the_adopted_one():
    opened = OpenBook(journal=LoopState(adopted_policy="d1"))
    opened.refuse(VERSION)
    assert opened.written() == Changes(journal=LoopState(adopted_policy="d1", refused_policy="d3"))


def test_the_last_figures_are_written():
    opened = OpenBook()
    opened.put(removal())
    opened.finish(Changes(seed={"node_count": 3}))
    assert opened.written() == Changes(put=(removal(),), seed={"node_count": 3})

"""What a look makes of a plan and leaves behind, function by function."""

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest

from book_builders import OpenBook
from builders import NOON, after, look, pod
from nodefleet.domain.decision import Action, Count, Decision, PoolDecision
from nodefleet.domain.events import EventKind
from nodefleet.domain.journal import Journal
from nodefleet.domain.memory import Level, Memory, PoolMemory
from nodefleet.domain.operations import AlertKind, Assign, CancelRemoval, Evict, Keep, Open, Tell, Uncordon
from nodefleet.domain.policy import Policy
from nodefleet.domain.records import Question
from nodefleet.errors import UnavailableError
from nodefleet.loop import cycle
from nodefleet.loop.record import recorded
from operation_builders import launch, removal

FULL = Tell(alert=AlertKind.AT_MAX, pool="default", text="full")
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
    return cycle._write(book, decided, look(3))


# ── the plan ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_operations_that_a_plan_opens_or_changes_are_written_and_begun_once_each():
    book = OpenBook()
    begun = write(book, decision(pool(Open(removal()), Keep(launch()), Keep(removal(reason="newer")))))
    assert begun.operations == ("r1", "l1")
    assert begun.at_once == ()
    assert book.operations == {"r1": removal(reason="newer"), "l1": launch()}


def test_a_removal_that_is_called_off_is_written_with_its_reason_and_goes_on():
    book = OpenBook(look(3, operations=(removal(),)))
    begun = write(book, decision(pool(CancelRemoval(operation="r1", reason="it is needed"))))
    assert begun.operations == ("r1",)
    assert book.operations["r1"].cancelled == "it is needed"
    assert [each.cancelled for each in book.written().put] == ["it is needed"]


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
    tells = (Tell(alert=AlertKind.DEGRADED, pool="", text="Prometheus is away"),)
    write(book, decision(pool(FULL), tells=tells))
    assert [(event.kind, event.pool, event.dry) for event in book.events] == [
        (EventKind.AT_MAX, "default", False),
        (EventKind.DEGRADED, "", False),
    ]


def test_of_a_dry_plan_only_the_alerts_are_left_and_the_other_pools_go_on():
    book = OpenBook(look(3, operations=(removal(),)))
    dry = pool(
        Open(launch()),
        FULL,
        CancelRemoval(operation="r1", reason=""),
        Uncordon("w1", "r1"),
        dry_run=True,
    )
    begun = write(book, decision(dry, pool(Uncordon("w2", "r2"), pool="web")))
    assert (begun.operations, begun.at_once) == ((), (Uncordon("w2", "r2"),))
    assert book.operations == {"r1": removal()}
    assert [(event.kind, event.dry) for event in book.events] == [(EventKind.AT_MAX, True)]


def test_scaling_is_told():
    book = OpenBook()
    write(book, decision(pool(action=Action.GROW, target=6)))
    assert [(event.kind, event.change) for event in book.events] == [(EventKind.SCALE_UP, 2)]


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


def finish(*did, eventful=False, archive=None, took=3.2, journal=None):
    """Gives what is written at the end, the archive and the warnings."""
    seen = look(3, pods=[pod("web-1", "w001")])
    question = Question(observation=seen, memory=Memory(), policy=Policy())
    decided = decision(pool())
    record, content = recorded(question, decided, fence=7, version=5, did=(), eventful=eventful)
    book = OpenBook(seen, journal)
    archive, warnings = archive or Archive(), []
    parts = SimpleNamespace(
        archive=archive,
        time=SimpleNamespace(now=lambda: seen.at + timedelta(seconds=took)),
        telemetry=SimpleNamespace(warn=warnings.append),
    )
    cycle._finish(parts, book, SimpleNamespace(did=list(did)), decided, question, record, content, 5)
    return book.written(), archive, warnings, record


def test_a_look_without_news_keeps_its_usage_and_its_duration_and_archives_nothing():
    changes, archive, warnings, _ = finish(journal=Journal(iterations=(2,)))
    assert (changes.decision, archive.kept, warnings) == (None, {}, [])
    assert changes.journal.iterations == (2, 4)
    assert changes.journal.usage.pools["default"].most_nodes == 4
    assert changes.seed == {"node_count": 4}
    assert changes.usage == ()


def test_the_hour_that_is_over_is_written():
    before = Journal(usage=finish()[0].journal.usage)
    before = replace(before, usage=replace(before.usage, hour=after(-3600), last=after(-60)))
    changes, *_ = finish(journal=before)
    assert [usage.hour for usage in changes.usage] == [after(-3600)]


def test_what_was_done_is_recorded_and_makes_a_look_worth_archiving():
    changes, archive, _, _ = finish("cordoned w001")
    assert changes.decision.did == ("cordoned w001",)
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
    assert cycle._seed(decided, Memory(pools=memories)) == {"node_count": 6} | last

"""Finding recorded decisions by page, by id and by time."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest

from nodefleet.engine.decide import decide
from nodefleet.model.decision import DecisionRecord
from nodefleet.model.state import Memory
from nodefleet.policy.cluster import Policy
from nodefleet_tools.audit import PAGE, decisions, record_named
from support.builders import NOON, look

DECISION = decide(look(), Memory(), Policy())


def record(at: datetime, fence: int = 7, archived: str = "") -> DecisionRecord:
    identity = f"{at:%Y-%m-%dT%H:%M:%S.%fZ}-f{fence}"
    return DecisionRecord(
        id=identity, at=at, cluster="shop", fence=fence, policy=1, decision=DECISION, archived=archived
    )


@dataclass
class Records:
    """A history that serves pages as the table does."""

    held: list[DecisionRecord]
    pages: list[int] = field(default_factory=list)

    def decisions(self, limit, before=None):
        found = sorted(self.held, key=lambda each: each.id, reverse=True)
        page = tuple(each for each in found if before is None or each.at < before)[:limit]
        self.pages.append(len(page))
        return page


def every_two_minutes(number: int) -> Records:
    return Records([record(NOON - timedelta(minutes=2 * index)) for index in range(number)])


def test_all_pages_are_read_newest_first_each_record_once():
    history = every_two_minutes(2 * PAGE + 5)
    found = list(decisions(history))
    assert len({each.id for each in found}) == len(found) == 2 * PAGE + 5
    assert found == sorted(found, key=lambda each: each.at, reverse=True)


def test_no_more_pages_are_read_than_needed():
    history = every_two_minutes(5 * PAGE)
    assert len(list(decisions(history, oldest=NOON - timedelta(minutes=10)))) == 6
    assert history.pages == [PAGE]


def test_an_id_names_one_decision_and_a_fence_tells_two_of_the_same_moment_apart():
    history = Records([record(NOON, 7), record(NOON, 8)])
    for fence in (7, 8):
        assert record_named(history, f"2026-11-16T12:00:00.000000Z-f{fence}").fence == fence
    assert record_named(history, "2026-11-16T12:00:00.000000Z-f9") is None


def test_a_time_names_the_newest_decision_in_it():
    history = every_two_minutes(100)
    assert record_named(history, "2026-11-16").at == NOON
    assert record_named(history, "2026-11-16T11").at == NOON - timedelta(minutes=2)
    assert record_named(history, "2026-11-16 11:40:00Z").at == NOON - timedelta(minutes=20)
    assert record_named(history, "2026-11-16T11:41") is None


def test_one_that_was_kept_whole_comes_before_a_newer_one_that_was_not():
    history = every_two_minutes(10)
    history.held[4] = replace(history.held[4], archived="somewhere")
    assert record_named(history, "2026-11-16T11") == history.held[4]


@pytest.mark.parametrize(
    "text", ["", "f7", "2026", "2026-11", "2026-02-30", "2026-11-16T25", "9999-12-31", "日本語日本語日本語日"]
)
def test_what_is_no_time_names_nothing(text):
    assert record_named(every_two_minutes(3), text) is None


def test_the_end_of_time_is_no_trap():
    last = datetime(9998, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
    assert record_named(Records([record(last)]), "9998-12-31").at == last

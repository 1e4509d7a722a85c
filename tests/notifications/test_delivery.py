"""Each message once, in order, and nothing blocks what comes after it."""

from datetime import timedelta

import pytest

from nodefleet.errors import (
    DeniedError,
    MalformedError,
    MisconfiguredError,
    ThrottledError,
    UnavailableError,
)
from nodefleet.model.alerts import AlertKind
from nodefleet.model.names import Metric
from nodefleet.notifications.delivery import DeliveryResult, DeliveryRuntime, deliver
from nodefleet.notifications.incoming import NotificationForm
from support.message_examples import AT, event, news
from support.notifying_fakes import Clock, Crash, Notes, Pigeon, Table
from support.wording import assert_wording

AWAY = UnavailableError("Slack", "HTTP 503")
FIRST, SECOND, THIRD = (event(AlertKind.DRAIN_BLOCKED, id=name) for name in ("first", "second", "third"))
BATCH = news(FIRST, SECOND, THIRD)


def parts(table=None, pigeon=None, clock=None, owner="me"):
    return DeliveryRuntime(
        sent=(table or Table()).run(owner),
        messenger=pigeon or Pigeon(),
        time=clock or Clock(),
        telemetry=Notes(),
    )


def test_everything_is_told_in_its_order():
    pigeon = Pigeon()
    assert deliver(BATCH, parts(pigeon=pigeon)) == DeliveryResult(messages=3)
    assert pigeon.told == ["first", "second", "third"]


def test_nothing_to_tell_is_no_trouble():
    assert deliver((), parts()) == DeliveryResult()


def test_what_was_told_is_not_told_again():
    table, pigeon = Table(), Pigeon()
    deliver(BATCH, parts(table, pigeon))
    assert deliver(BATCH, parts(table, pigeon, owner="later")) == DeliveryResult()
    assert pigeon.told == ["first", "second", "third"]


def test_delivery_stops_where_slack_is_away_and_gives_back_the_rest():
    table, pigeon = Table(), Pigeon(fails=[None, AWAY])
    delivered = deliver(BATCH, parts(table, pigeon))
    assert delivered == DeliveryResult(messages=1, left=BATCH[1:], error=AWAY)
    assert pigeon.told == ["first"]


def test_what_was_given_back_can_be_told_at_once_by_the_next_run():
    table, pigeon, clock = Table(), Pigeon(fails=[AWAY]), Clock()
    left = deliver(BATCH, parts(table, pigeon, clock)).left
    assert deliver(left, parts(table, pigeon, clock, owner="next")) == DeliveryResult(messages=3)
    assert clock.slept == []


def test_a_dead_webhook_stops_delivery_too_and_loses_nothing():
    dead = DeniedError("Slack", "no_service", "Make a new one")
    delivered = deliver(BATCH, parts(pigeon=Pigeon(fails=[dead])))
    assert delivered == DeliveryResult(left=BATCH, error=dead)


def test_a_message_that_slack_never_takes_is_set_aside_and_counted():
    pigeon, table = Pigeon(fails=[MalformedError("invalid_blocks")]), Table()
    with_parts = parts(table, pigeon)
    assert deliver(BATCH, with_parts) == DeliveryResult(messages=2)
    assert pigeon.told == ["second", "third"]
    assert with_parts.telemetry.counted == [(Metric.MALFORMED, 1)]
    ((_, fields),) = with_parts.telemetry.warned
    assert fields["events"] == ["first"]


def test_what_was_set_aside_is_not_tried_again():
    table = Table()
    deliver(BATCH, parts(table, Pigeon(fails=[MalformedError("invalid_blocks")])))
    assert deliver(BATCH, parts(table, owner="later")) == DeliveryResult()


# ── two runs at once ─────────────────────────────────────────────────────────────────────────────────────────────


def test_of_two_runs_at_once_one_tells():
    table, pigeon, clock = Table(), Pigeon(), Clock()

    class Nested(Pigeon):
        """While this one sends, another run gets the same batch; it waits, and the first is done."""

        def send(self, notification):
            super().send(notification)
            other = Clock(at=clock.at, end=clock.at + timedelta(seconds=11))
            assert deliver(news(FIRST), parts(table, pigeon, other, owner="other")).left == news(FIRST)

    nested = Nested()
    assert deliver(news(FIRST), parts(table, nested, clock)) == DeliveryResult(messages=1)
    assert (nested.told, pigeon.told) == (["first"], [])
    assert deliver(news(FIRST), parts(table, pigeon, clock, owner="other")) == DeliveryResult()


def test_a_run_that_died_while_sending_is_waited_for_and_then_replaced():
    table, clock = Table(), Clock()
    with pytest.raises(Crash):
        deliver(BATCH, parts(table, Pigeon(fails=[Crash()]), clock, owner="died"))
    pigeon = Pigeon()
    assert deliver(BATCH, parts(table, pigeon, clock, owner="next")) == DeliveryResult(messages=3)
    assert pigeon.told == ["first", "second", "third"]
    assert 60 <= sum(clock.slept) < 65


def test_a_run_that_died_after_sending_doubles_one_message_at_most():
    table, clock, pigeon = Table(), Clock(), Pigeon()

    class DiesAfter(Pigeon):
        def send(self, notification):
            pigeon.send(notification)
            raise Crash

    with pytest.raises(Crash):
        deliver(BATCH, parts(table, DiesAfter(), clock, owner="died"))
    deliver(BATCH, parts(table, pigeon, clock, owner="next"))
    assert pigeon.told == ["first", "first", "second", "third"]


def test_a_claim_that_does_not_end_in_time_gives_everything_back():
    table, clock = Table(), Clock(end=AT + timedelta(seconds=30))
    table.marks["second"] = ("other", AT + timedelta(seconds=60))
    pigeon = Pigeon()
    delivered = deliver(BATCH, parts(table, pigeon, clock))
    assert pigeon.told == ["first"]
    assert delivered.left == BATCH[1:]
    assert "second" in str(delivered.error)


def test_claims_of_a_letter_are_given_back_when_one_of_it_is_not_to_be_had():
    table, clock = Table(), Clock(end=AT + timedelta(seconds=30))
    flood = news(*(event(AlertKind.DRAIN_BLOCKED, id=str(number)) for number in range(5)))
    table.marks["3"] = ("other", AT + timedelta(seconds=60))
    assert deliver(flood, parts(table, clock=clock)).left == flood
    assert table.marks == {"3": ("other", AT + timedelta(seconds=60))}


def test_a_folded_letter_leaves_out_what_was_told():
    table, pigeon = Table(), Pigeon()
    flood = news(*(event(AlertKind.DRAIN_BLOCKED, id=str(number)) for number in range(5)))
    table.marks["1"] = table.marks["2"] = ("other", None)
    deliver(flood, parts(table, pigeon))
    (notification,) = pigeon.notifications
    assert notification.form is NotificationForm.MANY
    assert [told.id for told in notification.told] == ["0", "3", "4"]


def test_the_log_has_each_event_of_a_folded_letter():
    flood = news(*(event(AlertKind.DRAIN_BLOCKED, f"node {number}", id=str(number)) for number in range(5)))
    with_parts = parts()
    deliver(flood, with_parts)
    ((_, fields),) = with_parts.telemetry.lines
    assert_wording(fields["events"])


def test_a_retry_of_half_a_flood_tells_nothing_twice():
    """The stream brings everything again from the first that failed, what was folded before it included."""
    table, pigeon = Table(), Pigeon(fails=[None, AWAY])
    flood = [event(AlertKind.DRAIN_BLOCKED, id=str(number)) for number in range(6)]
    batch = news(flood[0], event(AlertKind.AT_MAX, id="max"), *flood[1:])
    left = deliver(batch, parts(table, pigeon)).left
    assert left == batch[1:2]
    deliver(batch[1:], parts(table, pigeon, owner="next"))
    assert sorted(pigeon.told) == sorted(each.told.id for each in batch)


# ── little time ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_nothing_is_begun_that_may_not_finish():
    pigeon = Pigeon()
    delivered = deliver(BATCH, parts(pigeon=pigeon, clock=Clock(end=AT + timedelta(seconds=9))))
    assert pigeon.notifications == []
    assert delivered.left == BATCH
    assert isinstance(delivered.error, UnavailableError)


# ── the table is away ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "error",
    [
        UnavailableError("DynamoDB", "timeout"),
        ThrottledError("DynamoDB", "slow down"),
        DeniedError("DynamoDB", "AccessDenied", "Allow dynamodb:PutItem"),
        MisconfiguredError("no such table"),
    ],
)
def test_without_the_table_people_are_told_all_the_same(error):
    table, pigeon = Table(away=error), Pigeon()
    with_parts = parts(table, pigeon)
    assert deliver(BATCH, with_parts) == DeliveryResult(messages=3)
    assert pigeon.told == ["first", "second", "third"]
    assert table.asked == 1, "a table that is away is asked once, not once for each event"
    assert len(with_parts.telemetry.warned) == 1


def test_without_the_table_and_without_slack_everything_comes_again():
    delivered = deliver(BATCH, parts(Table(away=UnavailableError("DynamoDB", "timeout")), Pigeon(fails=[AWAY])))
    assert delivered == DeliveryResult(left=BATCH, error=AWAY)


def test_a_message_that_could_not_be_remembered_is_not_sent_again():
    table, pigeon = Table(), Pigeon()

    class Forgets(Pigeon):
        def send(self, notification):
            pigeon.send(notification)
            table.away = UnavailableError("DynamoDB", "timeout")

    assert deliver(news(FIRST), parts(table, Forgets())) == DeliveryResult(messages=1)
    assert pigeon.told == ["first"]


def test_a_claim_that_cannot_be_given_back_is_no_further_trouble():
    table = Table()

    class Falls(Pigeon):
        def send(self, notification):  # noqa: ARG002
            table.away = UnavailableError("DynamoDB", "timeout")
            raise AWAY

    assert deliver(BATCH, parts(table, Falls())) == DeliveryResult(left=BATCH, error=AWAY)

"""Slack's Web API: what its answers mean, and one thread for each incident."""

import logging
import traceback
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from nodefleet.adapters.slack.web_api import API_REMEDIES, WebApi
from nodefleet.adapters.slack.webhook import SlackMessenger, Webhook
from nodefleet.errors import DeniedError, MalformedError, ThrottledError, UnavailableError
from nodefleet.model.alerts import AlertKind
from nodefleet.notifications.incoming import AlarmState, DeliveryLimits
from support.loopback_slack import BOT_TOKEN, CHANNEL, Answer, loopback_slack, refusal
from support.message_examples import AT, LINKS, alarm, event, single
from support.notifying_fakes import Clock, Notes
from support.wording import assert_wording

LIMITS = replace(DeliveryLimits(), connect=timedelta(seconds=30), answer=timedelta(seconds=30))  # busy machines, too
QUICK = replace(LIMITS, answer=timedelta(seconds=0.5))  # for what never answers
HELLO = {"text": "hello"}


def posted(*answers, thread="", clock=None, in_channel=False):
    with loopback_slack(*answers) as slack:
        sent = WebApi(slack.bot, clock or Clock(), LIMITS).post(HELLO, thread, in_channel=in_channel)
    return slack, sent


def refused(*answers, thread=""):
    """The error, checked for the token on the way."""
    with loopback_slack(*answers) as slack, pytest.raises(Exception) as caught:  # noqa: PT011
        WebApi(slack.bot, Clock(), QUICK if any(each.hangs for each in answers) else LIMITS).post(HELLO, thread)
    assert BOT_TOKEN not in "".join(traceback.format_exception(caught.value))
    return caught.value


# ── one message ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_message_goes_to_the_channel_and_its_id_comes_back():
    slack, sent = posted()
    assert slack.messages == [{**HELLO, "channel": CHANNEL}]
    assert slack.tokens == [f"Bearer {BOT_TOKEN}"]
    assert sent == "1.000100"


@pytest.mark.parametrize("in_channel", [True, False])
def test_an_answer_goes_into_the_thread_and_if_wanted_to_the_channel_as_well(in_channel):
    slack, _ = posted(thread="7.1", in_channel=in_channel)
    (message,) = slack.messages
    assert (message["thread_ts"], message["reply_broadcast"]) == ("7.1", in_channel)


@pytest.mark.parametrize("gone", ["thread_not_found", "message_not_found", "cannot_reply_to_message"])
def test_a_thread_that_is_gone_keeps_no_message_back(gone):
    slack, sent = posted(refusal(gone), thread="7.1")
    assert slack.messages == [{**HELLO, "channel": CHANNEL}]
    assert sent == "2.000100"


@pytest.mark.parametrize(
    ("answer", "kind", "told"),
    [
        (refusal("invalid_blocks"), MalformedError, "invalid_blocks"),
        (refusal("msg_too_long"), MalformedError, "msg_too_long"),
        (refusal("internal_error"), UnavailableError, "internal_error"),
        (Answer(500), UnavailableError, "HTTP 500"),
        (Answer(500, '{"ok": true, "ts": "1.1"}'), UnavailableError, "HTTP 500"),
        (Answer(503), UnavailableError, "HTTP 503"),
        (
            Answer(307, "", {"Location": "http://127.0.0.1:9/"}),
            UnavailableError,
            "HTTP 307",
        ),  # the token goes nowhere else
        (Answer(200, "<html>"), UnavailableError, "without an answer that Slack gives"),
        (Answer(200, "[]"), UnavailableError, "without an answer that Slack gives"),
        (Answer(hangs=True), UnavailableError, "no answer"),
        (refusal("thread_not_found"), DeniedError, "thread_not_found"),
        (refusal("something_new"), DeniedError, "Check the token and the channel"),
    ],
)
def test_what_an_answer_means(answer, kind, told):
    error = refused(answer)
    assert isinstance(error, kind)
    assert told in str(error)


@pytest.mark.parametrize("in_channel", [True, False])
def test_a_text_that_is_sent_instead_of_blocks_goes_where_the_blocks_would(in_channel):
    sent = []

    class Client:
        def post(self, payload, thread="", *, in_channel=False):
            sent.append(("blocks" in payload, thread, in_channel))
            if "blocks" in payload:
                raise MalformedError("Slack does not take this message: invalid_blocks")
            return "1.1"

    sender = SlackMessenger(Client(), lambda _: LINKS, Notes(), LIMITS)
    assert sender._post(single(event()), "7.1", in_channel=in_channel) == "1.1"
    assert sent == [(True, "7.1", in_channel), (False, "7.1", in_channel)]


@pytest.mark.parametrize(("error", "remedy"), API_REMEDIES.items())
def test_what_an_operator_has_to_fix_is_said(error, remedy):
    problem = refused(refusal(error))
    assert isinstance(problem, DeniedError)
    assert remedy in str(problem)


@pytest.mark.parametrize("limited", [Answer(429, "", {"Retry-After": "3"}), refusal("ratelimited", status=200)])
def test_it_waits_as_long_as_slack_asks_and_then_gives_up(limited):
    clock = Clock()
    slack, _ = posted(limited, clock=clock)
    assert (slack.tries, len(clock.slept)) == (2, 1)
    assert isinstance(refused(limited, limited, limited), ThrottledError)


def test_the_token_is_in_no_log(caplog):
    caplog.set_level(logging.DEBUG)
    posted()
    assert BOT_TOKEN not in caplog.text


# ── one thread for each incident ─────────────────────────────────────────────────────────────────────────────────


@dataclass
class MemoryThreads:
    known: dict[tuple[str, str], str] = field(default_factory=dict)
    away: Exception | None = None

    def find(self, cluster: str, incident: str, now: datetime) -> str:  # noqa: ARG002
        if self.away:
            raise self.away
        return self.known.get((cluster, incident), "")

    def keep(self, cluster: str, incident: str, message: str, until: datetime) -> None:  # noqa: ARG002
        if self.away:
            raise self.away
        self.known[cluster, incident] = message

    def drop(self, cluster: str, incident: str) -> None:
        self.known.pop((cluster, incident), None)


class SilentClient:
    """It delivers, and never says under which id: a webhook."""

    def post(self, payload: dict[str, Any], thread: str, *, in_channel: bool) -> str:  # noqa: ARG002
        return ""


def told(*notified, threads=None, notes=None):
    """What Slack got of it, as (thread, shown in the channel)."""
    with loopback_slack() as slack:
        sender = SlackMessenger(
            WebApi(slack.bot, Clock(), LIMITS),
            lambda _: LINKS,
            notes or Notes(),
            LIMITS,
            threads=threads if threads is not None else MemoryThreads(),
            now=lambda: AT,
        )
        for each in notified:
            sender.send(single(each))
    return [(message.get("thread_ts", ""), message.get("reply_broadcast", False)) for message in slack.messages]


def test_an_alarm_its_change_and_its_end_are_one_thread_and_the_next_alarm_begins_another():
    rings, ends = alarm(id="1"), alarm(id="2", state=AlarmState.OK)
    again = alarm(id="3")
    assert told(rings, ends, again) == [("", False), ("1.000100", True), ("", False)]


def test_a_reminder_goes_into_the_thread_and_critical_ones_show_in_the_channel():
    warned, reminded = event(AlertKind.AT_MAX, id="1"), event(AlertKind.AT_MAX, id="2")
    assert told(warned, reminded) == [("", False), ("1.000100", False)]
    quota, later = event(AlertKind.QUOTA, id="1"), event(AlertKind.QUOTA, id="2")
    assert told(quota, later) == [("", False), ("1.000100", True)]


def test_other_incidents_and_clusters_have_threads_of_their_own_and_scaling_has_none():
    at_max = event(AlertKind.AT_MAX, id="1")
    assert (
        told(
            at_max,
            event(AlertKind.AT_MAX, id="2", cluster="blog"),
            event(AlertKind.QUOTA, id="3"),
            event(AlertKind.SCALE_UP, id="4"),
            event(AlertKind.SCALE_UP, id="5"),
        )
        == [("", False)] * 5
    )


def test_a_message_that_slack_took_without_an_id_begins_no_thread():
    threads = MemoryThreads()
    sender = SlackMessenger(SilentClient(), lambda _: LINKS, Notes(), LIMITS, threads=threads, now=lambda: AT)
    sender.send(single(alarm(id="1")))
    assert threads.known == {}


def test_while_the_table_is_away_messages_go_to_the_channel():
    notes = Notes()
    error = UnavailableError("DynamoDB", "timeout")
    away = MemoryThreads(away=error)
    assert told(alarm(id="1"), alarm(id="2"), threads=away, notes=notes) == [("", False), ("", False)]
    assert {fields["cause"] for _, fields in notes.warned} == {str(error)}
    assert {fields["cluster"] for _, fields in notes.warned} == {"shop"}
    assert_wording(sorted({line for line, _ in notes.warned}))


def test_a_webhook_goes_on_without_threads():
    with loopback_slack() as slack:
        sender = SlackMessenger(Webhook(slack.hook, Clock(), LIMITS), lambda _: LINKS, Notes(), LIMITS)
        sender.send(single(alarm(id="1")))
        sender.send(single(alarm(id="2", state=AlarmState.OK)))
    assert [message.get("thread_ts") for message in slack.messages] == [None, None]

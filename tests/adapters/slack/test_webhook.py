"""What Slack's answers mean, and that its address is never shown."""

import logging
import socket
import traceback
from dataclasses import replace
from datetime import timedelta

import pytest
import requests

from nodefleet.adapters.credentials import SlackHook
from nodefleet.adapters.slack.web_api import SlackReactions, WebApi, post_with_retries
from nodefleet.adapters.slack.webhook import Webhook
from nodefleet.errors import DeniedError, MalformedError, MisconfiguredError, ThrottledError, UnavailableError
from nodefleet.notifications.incoming import DeliveryLimits
from support.loopback_slack import SECRET, Answer, loopback_slack
from support.message_examples import AT
from support.notifying_fakes import Clock
from support.wording import assert_wording

PATIENT = replace(DeliveryLimits(), connect=timedelta(seconds=5), answer=timedelta(seconds=5))  # of a busy machine
QUICK = replace(PATIENT, answer=timedelta(milliseconds=150))
HELLO = {"text": "hello"}


def posted(*answers, clock=None):
    with loopback_slack(*answers) as slack:
        Webhook(slack.hook, clock or Clock(), PATIENT).post(HELLO)
    return slack


def refused(*answers, clock=None, limits=PATIENT):
    """The error, checked for the secret on the way."""
    with loopback_slack(*answers) as slack, pytest.raises(Exception) as caught:  # noqa: PT011
        Webhook(slack.hook, clock or Clock(), limits).post(HELLO)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    return caught.value


def test_a_message_gets_through():
    assert posted().messages == [HELLO]


def test_several_messages_use_one_webhook():
    with loopback_slack() as slack:
        webhook = Webhook(slack.hook, Clock(), PATIENT)
        for _ in range(3):
            webhook.post(HELLO)
    assert slack.messages == [HELLO] * 3


def test_an_answer_that_is_cut_short_after_its_status_is_still_a_delivery():
    assert posted(Answer(cut=True)).tries == 1


class Sending:
    """Takes the place of a session, and keeps how it is used."""

    def __init__(self, problem=None):
        self.used = []
        self.problem = problem

    def post(self, *where, **how):
        self.used.append((*where, how))
        raise self.problem or requests.ConnectionError("refused")

    get = post


LONG = replace(DeliveryLimits(), connect=timedelta(seconds=3), answer=timedelta(seconds=7))
BOT = SlackHook(token="xoxb-1", channel="C0123456789")  # noqa: S106


@pytest.mark.parametrize(
    ("make", "call", "expected"),
    [
        (
            lambda: Webhook(SlackHook(url="https://hooks.slack.com/services/x"), Clock(), LONG),
            lambda client: client.post(HELLO),
            ("https://hooks.slack.com/services/x", {"json": HELLO, "stream": True}),
        ),
        (
            lambda: WebApi(BOT, Clock(), LONG),
            lambda client: client.post(HELLO),
            ("https://slack.com/api/chat.postMessage", {"json": {**HELLO, "channel": "C0123456789"}}),
        ),
        (
            lambda: SlackReactions(BOT, Clock(), LONG),
            lambda client: client.of("7.1"),
            (
                "https://slack.com/api/reactions.get",
                {"params": {"channel": "C0123456789", "timestamp": "7.1", "full": "true"}},
            ),
        ),
    ],
    ids=["webhook", "web API", "reactions"],
)
def test_each_way_to_slack_has_limits_and_follows_no_redirect(make, call, expected):
    client = make()
    client._session = session = Sending()
    with pytest.raises(UnavailableError) as caught:
        call(client)
    assert caught.value.part == "Slack"
    assert_wording(caught.value.cause)
    ((address, how),) = session.used
    assert how.pop("timeout") == (3, 7)
    assert how.pop("allow_redirects") is False
    assert how.pop("headers", None) == (None if isinstance(client, Webhook) else {"Authorization": "Bearer xoxb-1"})
    assert (address, how) == expected


@pytest.mark.parametrize("make", [lambda hook: Webhook(hook, Clock(), LONG), lambda _: WebApi(BOT, Clock(), LONG)])
def test_what_urllib3_logs_of_an_address_is_not_written(make):
    logging.getLogger("urllib3").setLevel(logging.DEBUG)
    make(SlackHook(url="https://hooks.slack.com/services/x"))
    assert logging.getLogger("urllib3").level == logging.INFO


# ── 429 ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_it_waits_as_long_as_slack_asks_and_tries_again():
    clock = Clock()
    slack = posted(Answer(429, "rate_limited", {"Retry-After": "3"}), clock=clock)
    assert (slack.tries, slack.messages, clock.slept) == (2, [HELLO], [3])


def test_it_does_not_wait_for_ever():
    clock = Clock()
    error = refused(*[Answer(429, "", {"Retry-After": "1"})] * 5, clock=clock)
    assert isinstance(error, ThrottledError)
    assert clock.slept == [1, 1]


def test_a_long_wait_is_left_to_the_next_run():
    clock = Clock()
    error = refused(Answer(429, "", {"Retry-After": "30"}), clock=clock)
    assert isinstance(error, ThrottledError)
    assert "30 s" in str(error)
    assert clock.slept == []


@pytest.mark.parametrize(("left", "waits"), [(15.0, True), (14.999, False)])
def test_a_wait_may_use_all_but_the_reserve(left, waits):
    limits = replace(QUICK, reserve=timedelta(seconds=10), longest_wait=timedelta(seconds=5))
    clock = Clock(end=AT + timedelta(seconds=left))
    asked = [timedelta(seconds=5), None]
    if waits:
        post_with_retries(lambda: asked.pop(0), clock, limits)
        assert clock.slept == [5]
    else:
        with pytest.raises(ThrottledError):
            post_with_retries(lambda: asked.pop(0), clock, limits)


def test_it_does_not_wait_beyond_its_own_time():
    clock = Clock(end=AT + timedelta(seconds=14))
    assert isinstance(refused(Answer(429, "", {"Retry-After": "5"}), clock=clock), ThrottledError)
    assert clock.slept == []


@pytest.mark.parametrize("asked", [{}, {"Retry-After": "soon"}, {"Retry-After": "-5"}, {"Retry-After": "²"}])
def test_without_a_readable_wait_it_waits_a_second(asked):
    clock = Clock()
    posted(Answer(429, "", asked), clock=clock)
    assert clock.slept == [1]


# ── away ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("status", [425, 500, 502, 503, 504, 408])
def test_slack_s_own_faults_are_passing(status):
    error = refused(Answer(status, "rollup_error"))
    assert type(error) is UnavailableError
    assert "rollup_error" in str(error)


def test_no_answer_is_an_answer_in_bounded_time():
    error = refused(Answer(hangs=True), limits=QUICK)
    assert type(error) is UnavailableError
    assert "ReadTimeout" in str(error)


def test_nobody_listens():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        hook = SlackHook(url=f"http://127.0.0.1:{taken.getsockname()[1]}/{SECRET}")
        with pytest.raises(UnavailableError) as caught:
            Webhook(hook, Clock(), QUICK).post(HELLO)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


# ── for good ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("code", ["invalid_payload", "invalid_blocks", "no_text", "too_many_attachments", "<html>"])
def test_a_message_that_slack_does_not_take_is_malformed(code):
    assert isinstance(refused(Answer(400, code)), MalformedError)


def test_a_message_that_is_too_big_is_malformed():
    assert isinstance(refused(Answer(413, "")), MalformedError)


@pytest.mark.parametrize(
    ("status", "code", "remedy"),
    [
        (404, "no_service", "removed or switched off"),
        (404, "channel_not_found", "Make a new incoming webhook"),
        (410, "channel_is_archived", "Unarchive the channel"),
        (403, "action_prohibited", "Slack admin"),
        (403, "invalid_token", "Make a new incoming webhook"),
        (403, "<html>nope</html>", "Check the webhook"),
        (400, "no_service", "removed or switched off"),
        (401, "", "Check the webhook"),
        (302, "", "Check the webhook"),
        (300, "", "Check the webhook"),
        (404, "x" + "ü" * 200, "Check the webhook"),
    ],
)
def test_a_webhook_that_no_longer_works_says_what_to_do(status, code, remedy):
    error = refused(Answer(status, code, {"Location": "http://127.0.0.1:1/"}))
    assert isinstance(error, DeniedError)
    assert remedy in error.remedy
    assert "<html>" not in str(error)


# ── the secret ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.slack.com/services/x",
        "https://hooks.slack.com.evil.example/services/x",
        "https://hooks.slack.com@evil.example/x",
        "https://evil.example/hooks.slack.com",
        "http://localhost@evil.example/",
        "http://10.0.0.1/x",
        "hooks.slack.com/services/x",
        "",
    ],
)
def test_only_slack_is_sent_to(url):
    with pytest.raises(MisconfiguredError):
        Webhook(SlackHook(url=url), Clock(), QUICK)


def test_no_log_line_has_the_address(caplog):
    caplog.set_level(logging.DEBUG)
    posted(Answer(429, "", {"Retry-After": "0"}))
    refused(Answer(503))
    assert SECRET not in caplog.text


def test_no_representation_has_the_address():
    hook = SlackHook(url=f"https://hooks.slack.com/{SECRET}")
    webhook = Webhook(hook, Clock(), QUICK)
    assert SECRET not in f"{webhook!r} {vars(webhook)!r}"

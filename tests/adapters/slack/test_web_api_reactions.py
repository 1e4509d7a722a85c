"""Reactions by Slack's Web API: what is asked, what its answers mean; and messages that ask."""

import json
import traceback
from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.adapters.slack.web_api import SlackReactions, WebApi
from nodefleet.adapters.slack.webhook import SlackMessenger
from nodefleet.errors import DeniedError, ThrottledError, UnavailableError
from nodefleet.model.alerts import AlertKind
from nodefleet.notifications.incoming import DeliveryLimits
from support.loopback_slack import BOT_TOKEN, CHANNEL, Answer, loopback_slack, refusal
from support.message_examples import AT, LINKS, event, single
from support.notifying_fakes import Clock, Notes

LIMITS = replace(DeliveryLimits(), connect=timedelta(seconds=30), answer=timedelta(seconds=30))  # busy machines, too
QUICK = replace(LIMITS, answer=timedelta(seconds=0.5))  # for what never answers
UNOWNED = event(AlertKind.CLEANUP_NEEDS_OPERATOR, pool="", subjects=("i-1", "i-2"), id="e1")


def said(**message):
    return Answer(body=json.dumps({"ok": True, "type": "message", "message": message}))


def reactions(answer):
    with loopback_slack(answer) as slack:
        return SlackReactions(slack.bot, Clock(), LIMITS).of("7.1"), slack


def test_users_are_asked_for_by_message_with_the_token_in_the_header_alone():
    found, slack = reactions(said(reactions=[{"name": "x", "users": ["U1", "U2"], "count": 2}]))
    assert found == {"x": ("U1", "U2")}
    assert slack.asked == [f"/api/reactions.get?channel={CHANNEL}&timestamp=7.1&full=true"]
    assert slack.tokens == [f"Bearer {BOT_TOKEN}"]


@pytest.mark.parametrize("message", [{}, {"reactions": []}, {"reactions": ["odd", {"name": "x"}]}])
def test_no_reaction_is_no_answer(message):
    assert reactions(said(**message))[0] == {}


def test_a_message_that_was_deleted_is_known_as_gone():
    assert reactions(refusal("message_not_found"))[0] is None


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        (refusal("missing_scope"), DeniedError, "reactions:read"),
        (refusal("invalid_auth"), DeniedError, "bot token"),
        (refusal("internal_error"), UnavailableError, "internal_error"),
        (refusal("ratelimited", headers={"Retry-After": "7"}), ThrottledError, "7 s"),
        (Answer(status=429, headers={"Retry-After": "9"}), ThrottledError, "9 s"),
        (Answer(status=500), UnavailableError, "^Slack: HTTP 500$"),
        (Answer(status=503), UnavailableError, "503"),
        (
            refusal("something_new"),
            DeniedError,
            "^Slack: something_new. Check the token and the channel in the secret$",
        ),
        (refusal("x" * 99), DeniedError, f"^Slack: {'x' * 60}\\. "),
        (Answer(body="<html>"), UnavailableError, "200"),
        (Answer(body="[]"), UnavailableError, "200"),
        (Answer(body='{"ok": true}'), UnavailableError, "form"),
        (Answer(body='{"ok": true, "message": {"reactions": 3}}'), UnavailableError, "form"),
        (Answer(hangs=True), UnavailableError, "no answer"),
    ],
)
def test_what_is_no_answer_is_never_taken_for_one(answer, error, says):
    with loopback_slack(answer) as slack, pytest.raises(error, match=says) as caught:
        SlackReactions(slack.bot, Clock(), QUICK if answer.hangs else LIMITS).of("7.1")
    assert BOT_TOKEN not in "".join(traceback.format_exception(caught.value))


def test_the_outcome_goes_into_the_questions_thread():
    with loopback_slack() as slack:
        SlackReactions(slack.bot, Clock(), LIMITS).reply("7.1", "denied")
    (message,) = slack.messages
    assert (message["thread_ts"], message["text"]) == ("7.1", "denied")


# ── messages that ask ────────────────────────────────────────────────────────────────────────────────────────────


class Questions:
    def __init__(self, error=None):
        self.stored, self.error = [], error

    def keep(self, approval):
        if self.error:
            raise self.error
        self.stored.append(approval)


def sent(told, questions):
    notes = Notes()
    with loopback_slack() as slack:
        client = WebApi(slack.bot, Clock(), LIMITS)
        messenger = SlackMessenger(client, lambda _: LINKS, notes, LIMITS, approvals=questions, now=lambda: AT)
        messenger.send(single(told))
    (message,) = slack.messages
    return json.dumps(message, ensure_ascii=False), notes


def test_a_message_that_asks_says_how_to_answer_and_is_remembered_by_its_id():
    questions = Questions()
    text, _ = sent(UNOWNED, questions)
    assert "✅" in text
    assert "❌" in text
    assert f"{AT + LIMITS.approval:%H:%M} UTC" in text
    (question,) = questions.stored
    assert (question.message, question.instances) == ("1.000100", ("i-1", "i-2"))
    assert question.asked == AT


@pytest.mark.parametrize(("told", "questions"), [(UNOWNED, None), (event(), Questions())])
def test_nothing_is_asked_without_approvers_or_of_other_events(told, questions):
    text, _ = sent(told, questions)
    assert "✅" not in text
    assert not (questions and questions.stored)


def test_a_question_that_cannot_be_stored_is_still_a_message():
    _, notes = sent(UNOWNED, Questions(UnavailableError("DynamoDB", "away")))
    told = "a question in Slack is not stored: no reaction to it counts"
    assert notes.warned == [(told, {"cause": "DynamoDB: away"})]

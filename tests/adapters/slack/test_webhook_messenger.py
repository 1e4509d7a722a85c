"""Letters become messages, with links if they can be had."""

import pytest

from nodefleet.adapters.slack.message import Links
from nodefleet.adapters.slack.webhook import SlackMessenger, Webhook
from nodefleet.errors import DeniedError, MalformedError, UnavailableError
from nodefleet.model.alerts import AlertKind
from nodefleet.notifications.incoming import DeliveryLimits
from support.loopback_slack import Answer, loopback_slack
from support.message_examples import LINKS, event, single
from support.notifying_fakes import Clock, Notes
from support.slack_rules import problems
from support.wording import assert_wording

LETTER = single(event(AlertKind.AT_MAX, "At max"))


def messenger(slack, links=lambda _: LINKS, notes=None):
    return SlackMessenger(Webhook(slack.hook, Clock(), DeliveryLimits()), links, notes or Notes(), DeliveryLimits())


def test_a_letter_is_sent_as_blocks_that_slack_takes():
    with loopback_slack() as slack:
        messenger(slack).send(LETTER)
    (message,) = slack.messages
    assert problems(message) == []
    assert_wording(message["blocks"][0]["text"]["text"])


def test_blocks_that_slack_refuses_are_sent_as_text():
    notes = Notes()
    with loopback_slack(Answer(400, "invalid_blocks")) as slack:
        messenger(slack, notes=notes).send(LETTER)
    (message,) = slack.messages
    assert "blocks" not in message
    assert_wording(message["text"])
    assert "invalid_blocks" in notes.warned[0][1]["cause"]


def test_a_text_that_slack_refuses_too_is_malformed():
    with loopback_slack(Answer(400, "invalid_blocks"), Answer(400, "no_text")) as slack:
        with pytest.raises(MalformedError):
            messenger(slack).send(LETTER)
        assert slack.tries == 2


def test_links_are_asked_for_once_for_each_cluster():
    asked = []
    with loopback_slack() as slack:
        sender = messenger(slack, lambda cluster: asked.append(cluster) or LINKS)
        for cluster in ("shop", "blog", "shop"):
            sender.send(single(event(cluster=cluster)))
    assert asked == ["shop", "blog"]


@pytest.mark.parametrize("error", [UnavailableError("DynamoDB", "timeout"), DeniedError("DynamoDB", "no", "Allow it")])
def test_without_links_there_still_is_a_message(error):
    notes = Notes()

    def unreadable(_: str) -> Links:
        raise error

    with loopback_slack() as slack:
        sender = messenger(slack, unreadable, notes)
        sender.send(LETTER)
        sender.send(LETTER)
    assert len(slack.messages) == 2
    assert "|Dashboard>" not in str(slack.messages)
    ((_, fields),) = notes.warned
    assert fields == {"cluster": "shop", "cause": str(error)}


def test_what_belongs_to_no_cluster_has_no_links():
    with loopback_slack() as slack:
        messenger(slack, lambda _: pytest.fail("nobody to ask for")).send(single(event(cluster="")))
    assert len(slack.messages) == 1

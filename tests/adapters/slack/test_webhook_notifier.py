"""From what Lambda brings to messages, and what Lambda is answered."""

import json
from datetime import timedelta

import pytest

from nodefleet.adapters.slack.webhook import notifier
from nodefleet.errors import DeniedError, UnavailableError
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Event
from nodefleet.model.names import Metric
from nodefleet.model.serialization import from_plain, to_plain
from support.loopback_slack import Answer, loopback_slack
from support.message_examples import AT, LINKS, event
from support.notifying_fakes import Clock, Notes, Table
from support.slack_rules import problems
from support.wording import assert_wording


def stream(*told, first=1):
    """As Lambda gets a batch; a text instead of an event is a record that cannot be read."""
    records = []
    for number, each in enumerate(told, start=first):
        body = each if isinstance(each, str) else json.dumps(to_plain(each))
        keys = {"cluster_id": {"S": "shop"}, "record": {"S": f"event#{number}"}}
        change = {"Keys": keys, "NewImage": {**keys, "body": {"S": body}}, "SequenceNumber": str(number)}
        records.append({"eventName": "INSERT", "eventSource": "aws:dynamodb", "dynamodb": change})
    return {"Records": records}


def sns(message):
    text = message if isinstance(message, str) else json.dumps(message)
    return {"Records": [{"EventSource": "aws:sns", "Sns": {"MessageId": "m-1", "Message": text}}]}


ALARM = {
    "AlarmName": "node-fleet-prod-no-invocation",
    "NewStateValue": "ALARM",
    "OldStateValue": "OK",
    "StateChangeTime": "2026-11-16T03:12:05.868+0000",
}


def event_in(image):
    return from_plain(Event, json.loads(image["body"]["S"]))


def handled(slack, batch, *, table=None, clock=None, notes=None, owner="me"):
    made = notifier(
        hook=slack.hook,
        sent=(table or Table()).run(owner),
        event_in=event_in,
        links=lambda _: LINKS,
        time=clock or Clock(),
        telemetry=notes if notes is not None else Notes(),
    )
    return made.handle(batch)


def headlines(slack):
    return [message["blocks"][0]["text"]["text"] for message in slack.messages]


THREE = [event(kind, id=kind.value) for kind in (AlertKind.AT_MAX, AlertKind.UNHEALTHY, AlertKind.QUOTA)]


def test_a_batch_of_events_becomes_messages_in_their_order():
    with loopback_slack() as slack:
        assert handled(slack, stream(*THREE)) == {"batchItemFailures": []}
    assert_wording([headline[2:9] for headline in headlines(slack)])
    assert [problems(message) for message in slack.messages] == [[], [], []]


def test_only_what_failed_and_what_came_after_it_is_brought_again():
    table = Table()
    with loopback_slack(Answer(), Answer(503)) as slack:
        assert handled(slack, stream(*THREE), table=table) == {
            "batchItemFailures": [{"itemIdentifier": "2"}, {"itemIdentifier": "3"}]
        }
        assert handled(slack, stream(*THREE[1:], first=2), table=table, owner="next") == {"batchItemFailures": []}
    assert len(slack.messages) == 3


def test_the_whole_batch_brought_again_tells_nothing_twice():
    table = Table()
    with loopback_slack() as slack:
        handled(slack, stream(*THREE), table=table)
        handled(slack, stream(*THREE), table=table, owner="next")
    assert len(slack.messages) == 3


def test_a_poisoned_record_is_set_aside_counted_and_blocks_nothing():
    notes = Notes()
    with loopback_slack() as slack:
        answer = handled(slack, stream("{", THREE[0], '{"kind": "odd"}', THREE[1]), notes=notes)
    assert answer == {"batchItemFailures": []}
    assert len(slack.messages) == 2
    assert notes.counted == [(Metric.MALFORMED, 1)] * 2
    assert [fields["key"] for _, fields in notes.warned] == ["shop event#1", "shop event#3"]
    assert all(fields["cause"] for _, fields in notes.warned)
    assert_wording(sorted({line for line, _ in notes.warned}))


def test_a_dead_webhook_is_reported_with_what_to_do():
    notes = Notes()
    with loopback_slack(Answer(404, "no_service")) as slack:
        answer = handled(slack, stream(*THREE), notes=notes)
    assert len(answer["batchItemFailures"]) == 3
    assert slack.tries == 1
    assert_wording(notes.warned[-1][1]["cause"])


def test_a_flood_is_folded():
    flood = [event(AlertKind.DRAIN_BLOCKED, f"node {number}", id=str(number)) for number in range(50)]
    with loopback_slack() as slack:
        handled(slack, stream(*flood, THREE[2]))
    assert_wording(headlines(slack))


def test_after_a_long_silence_old_events_are_one_line():
    old = [event(id=str(number), at=AT - timedelta(hours=8)) for number in range(30)]
    with loopback_slack() as slack:
        handled(slack, stream(*old, THREE[0]))
    assert_wording(headlines(slack)[0])
    assert len(slack.messages) == 2


def test_an_alarm_becomes_a_message():
    with loopback_slack() as slack:
        assert handled(slack, sns(ALARM)) == {}
    assert headlines(slack) == ["🔴 Alarm · node-fleet-prod-no-invocation"]


def test_an_alarm_that_comes_twice_is_told_once():
    table = Table()
    with loopback_slack() as slack:
        handled(slack, sns(ALARM), table=table)
        handled(slack, sns(ALARM), table=table, owner="next")
    assert len(slack.messages) == 1


@pytest.mark.parametrize(
    ("answer", "error"), [(Answer(503), UnavailableError), (Answer(404, "no_service"), DeniedError)]
)
def test_an_alarm_that_could_not_be_told_raises_so_that_lambda_tries_again(answer, error):
    with loopback_slack(answer) as slack, pytest.raises(error):
        handled(slack, sns(ALARM))


def test_an_alarm_reaches_people_while_the_table_is_away():
    with loopback_slack() as slack:
        handled(slack, sns(ALARM), table=Table(away=UnavailableError("DynamoDB", "timeout")))
    assert len(slack.messages) == 1


@pytest.mark.parametrize(
    "odd", [sns("not an alarm"), {}, {"Records": []}, {"Records": [{}]}, None, [], {"Records": "x"}]
)
def test_what_cannot_be_understood_is_set_aside_and_not_retried(odd):
    notes = Notes()
    with loopback_slack() as slack:
        assert handled(slack, odd, notes=notes) == {}
    assert slack.tries == 0
    assert notes.counted == [(Metric.MALFORMED, 1)]
    assert notes.warned


@pytest.mark.parametrize("odd", [None, "x" * 300, {"Records": "x"}])
def test_what_is_set_aside_is_named_by_its_beginning(odd):
    notes = Notes()
    with loopback_slack() as slack:
        handled(slack, odd, notes=notes)
    fields = {"key": str(odd)[:200], "cause": "neither the table's stream nor SNS"}
    assert notes.warned == [("set aside: it cannot be understood", fields)]


def test_what_could_not_be_told_is_counted():
    notes = Notes()
    with loopback_slack(Answer(), Answer(503, "rollup_error")) as slack:
        handled(slack, stream(*THREE), notes=notes)
    ((line, fields),) = notes.warned
    assert fields["left"] == 2
    assert_wording([line, fields["cause"]])


class NoThreads:
    """Asked for threads, and has none."""

    def __init__(self):
        self.asked = []

    def find(self, cluster, incident, now):  # noqa: ARG002
        self.asked.append((cluster, now))
        return ""

    def keep(self, *_):
        pass


def test_threads_are_looked_for_at_the_time_of_the_run_and_by_a_bot_alone():
    for bot in (True, False):
        threads, clock = NoThreads(), Clock(at=AT + timedelta(hours=3), end=AT + timedelta(hours=4))
        with loopback_slack() as slack:
            made = notifier(
                hook=slack.bot if bot else slack.hook,
                sent=Table().run("me"),
                event_in=event_in,
                links=lambda _: LINKS,
                time=clock,
                telemetry=Notes(),
                threads=threads,
            )
            made.handle(stream(event(AlertKind.AT_MAX, id="1", at=clock.at)))
        assert threads.asked == ([("shop", clock.at)] if bot else [])


def test_a_run_says_what_it_did():
    notes = Notes()
    with loopback_slack() as slack:
        handled(slack, stream(*THREE), notes=notes)
    assert notes.lines == [("told operators", {"news": 3, "messages": 3})]

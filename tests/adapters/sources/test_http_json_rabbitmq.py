"""RabbitMQ on a double of its management API; the real server is in tests/e2e/test_sources_real.py."""

import pytest

from nodefleet.adapters.credentials import MetricsLogin
from nodefleet.adapters.sources.http_json import RabbitmqQueues
from nodefleet.model.snapshot import Missing, Reading
from nodefleet.policy.sources import Rabbitmq
from support.builders import NOON
from support.source_doubles import Answer, HttpDouble, cause, logins, read_one

QUEUE = {"messages": 7, "messages_ready": 5, "messages_unacknowledged": 2}
GUEST = MetricsLogin(username="guest", password="pw")


def reading(answer, secrets=None, **entry):
    with HttpDouble(answer if callable(answer) else lambda _: answer).serving() as server:
        source = Rabbitmq(url=server.address, **{"queue": "orders", **entry})
        return read_one(RabbitmqQueues(secrets or logins(rabbit=GUEST)), source), server.asked


@pytest.mark.parametrize(("counts", "number"), [("ready", 5), ("unacked", 2), ("all", 7)])
def test_messages_of_a_queue(counts, number):
    sample, asked = reading(Answer(document=QUEUE), counts=counts)
    assert (sample, [each.path for each in asked]) == (Reading(number, NOON), ["/api/queues/%2F/orders"])


def test_names_are_quoted():
    _, (asked,) = reading(Answer(document=QUEUE), queue="a/b c", vhost="my host")
    assert asked.path == "/api/queues/my%20host/a%2Fb%20c"


def test_a_login_is_sent():
    _, (asked,) = reading(Answer(document=QUEUE), secret="rabbit")
    assert asked.headers["authorization"] == GUEST.header()


def test_a_rotated_login_is_fetched_again():
    renewed = MetricsLogin(username="guest", password="new")

    def answer(asked):
        known = asked.headers["authorization"] == renewed.header()
        return Answer(document=QUEUE) if known else Answer(401, {"error": "not_authorized"})

    sample, asked = reading(answer, logins(rabbit=[GUEST, renewed]), secret="rabbit")
    assert (sample, len(asked)) == (Reading(7, NOON), 2)


def test_a_queue_that_was_just_declared_has_no_data_yet():
    sample, _ = reading(Answer(document={"name": "orders"}))
    assert sample == Missing("RabbitMQ has no figures of queue orders yet", empty_at=NOON)


@pytest.mark.parametrize("state", ["down", "crashed", "stopped", "minority"])
def test_a_queue_whose_node_is_away_is_not_idle(state):
    sample, _ = reading(Answer(document={"name": "orders", "state": state}))
    assert isinstance(sample, Missing)
    assert sample.empty_at is None


@pytest.mark.parametrize(
    ("answer", "entry", "expected"),
    [
        (Answer(404, {"error": "Object Not Found"}), {}, "RabbitMQ has no queue orders in virtual host /: check both"),
        (Answer(401), {}, "RabbitMQ refuses the login (HTTP 401): name a secret for this source"),
        (Answer(401), {"secret": "rabbit"}, "RabbitMQ refuses the login (HTTP 401): check what secret sources/rabbit"),
        (Answer(500, raw=b"<html>"), {}, "RabbitMQ answered HTTP 500"),
        (Answer(200, document=[]), {}, "RabbitMQ's answer is no queue"),
        (Answer(200, document={"status": "maintenance"}), {}, "RabbitMQ's answer is no queue"),
        (Answer(200, document={"name": "others"}), {}, "RabbitMQ's answer is no queue"),
        (Answer(200, document={"name": "orders", "messages": "many"}), {}, "RabbitMQ's count of orders is 'many',"),
        (Answer(200, document={"name": "orders", "messages": True}), {}, "RabbitMQ's count of orders is True,"),
        (Answer(200, document={"name": "orders", "messages": -1}), {}, "RabbitMQ's count of orders is -1,"),
        (Answer(200, raw=b"<html>"), {}, "RabbitMQ's answer is no JSON: "),
        (Answer(302, headers={"Location": "https://login"}), {}, "RabbitMQ answers with a redirect (HTTP 302)"),
        (Answer(), {"url": "https://guest:pw@host"}, "the address of RabbitMQ holds a login: put that into its secret"),
        (Answer(), {"url": "host:15672"}, "the address of RabbitMQ is not of the form"),
        (Answer(), {"secret": "unknown"}, "Secrets Manager: there is no secret node-fleet/shop/sources/unknown"),
    ],
)
def test_what_goes_wrong_is_missing_with_its_cause(answer, entry, expected):
    with HttpDouble(lambda _: answer).serving() as server:
        source = Rabbitmq(**{"url": server.address, "queue": "orders", **entry})
        sample = read_one(RabbitmqQueues(logins(rabbit=GUEST)), source)
    assert cause(sample).startswith(expected)
    assert sample.empty_at is None

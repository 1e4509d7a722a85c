import pytest

from nodefleet.adapters import http
from nodefleet.adapters.credentials import MetricsLogin
from nodefleet.adapters.sources.http_json import HttpDocuments
from nodefleet.model.snapshot import Missing, Reading
from nodefleet.policy.sources import HttpJson
from support.builders import NOON
from support.source_doubles import Answer, HttpDouble, cause, logins, moment, read_one
from support.wording import assert_wording

LOGIN = MetricsLogin(token="t0k3n")
DOCUMENT = {"queues": [{"length": 4}, {"length": 2.5, "a/b": {"~x": 1}}], "idle": None, "text": "7", "yes": True}


def reading(answer=Answer(document=DOCUMENT), value="/queues/0/length", **entry):  # frozen
    with HttpDouble(lambda _: answer).serving() as server:
        adapter = HttpDocuments(logins(api=LOGIN), loopback=True)
        return read_one(adapter, HttpJson(url=server.address + "/stats?a=1", value=value, **entry)), server.asked


@pytest.mark.parametrize(
    ("value", "number"), [("/queues/0/length", 4), ("/queues/1/length", 2.5), ("/queues/1/a~1b/~0x", 1)]
)
def test_a_pointer_leads_to_the_number(value, number):
    assert reading(value=value)[0] == Reading(number, NOON)


def test_the_whole_document_may_be_the_number():
    assert reading(Answer(document=12), value="")[0] == Reading(12, NOON)


def test_null_is_no_data():
    assert reading(value="/idle")[0] == Missing("the document has null at /idle", empty_at=NOON)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("/queue", "the document has nothing at /queue: 'queue' is not there"),
        ("/queues/2/length", "the document has nothing at /queues/2/length: '2' is not there"),
        ("/queues/x", "the document has nothing at /queues/x: 'x' is not there"),
        ("/text/0", "the document has nothing at /text/0: '0' is not there"),
        ("/text", "the document has no number at /text, but str"),
        ("/yes", "the document has no number at /yes, but bool"),
        ("/queues", "the document has no number at /queues, but list"),
    ],
)
def test_anything_else_is_missing_and_no_idle_state(value, expected):
    sample, _ = reading(value=value)
    assert (cause(sample), sample.empty_at) == (expected, None)


def test_a_login_and_the_query_of_the_address_are_sent():
    _, (asked,) = reading(secret="api")
    assert (asked.path, asked.headers["authorization"]) == ("/stats?a=1", LOGIN.header())


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Answer(503, raw=b""), "the HTTP source at 127.0.0.1:"),
        (Answer(403, {}), "the HTTP source refuses the login (HTTP 403): name a secret for this source"),
        (Answer(200, raw=b"[1"), "the HTTP source's answer is no JSON: "),
        (Answer(200, raw=b" " * ((4 << 20) + 1)), "the HTTP source's answer is bigger than 4 MiB"),
    ],
)
def test_a_server_that_fails_is_missing(answer, expected):
    assert cause(reading(answer)[0]).startswith(expected)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9001/2018-06-01",
        "http://localhost/",
        "http://[::1]/",
        "http://169.254.169.254/",
        "http://0.0.0.0",
    ],
)
def test_the_function_itself_is_no_source(url):
    sample = read_one(HttpDocuments(logins()), HttpJson(url=url, value="/a"))
    assert_wording(cause(sample))


def test_an_address_with_a_login_is_refused():
    sample = read_one(HttpDocuments(logins()), HttpJson(url="https://me:pw@host/", value="/a"))
    assert_wording(cause(sample))


def test_a_document_is_asked_for_as_json(monkeypatch):
    sent = []
    monkeypatch.setattr(http, "send", lambda request, _: sent.append(request) or http.HttpAnswer(status=200, body=b"7"))
    (call,) = HttpDocuments(logins()).calls([HttpJson(url="https://a/b", value="")], moment())
    assert (call.service, call.read()) == ("the HTTP source", [Reading(7, NOON)])
    accepts = {"Accept": "application/json"}
    assert sent == [http.HttpRequest(service="the HTTP source", url="https://a/b", headers=accepts)]

"""One HTTP request: what is sent, how long it may take, and what is said when nothing usable comes back."""

import time
from dataclasses import replace

import certifi
import pytest
import urllib3
from urllib3 import exceptions
from urllib3._collections import HTTPHeaderDict

from nodefleet.adapters import http
from nodefleet.adapters.http import HttpRequest, UnusableError, send
from support.wording import assert_wording

PLAIN = HttpRequest(service="RabbitMQ", url="http://broker:15672/api/queues")
SECURE = replace(PLAIN, url="https://broker/api/queues")


class Answer:
    """What a server says, in pieces."""

    def __init__(self, *pieces: bytes, status: int = 200, **headers: str) -> None:
        self.status, self.headers = status, HTTPHeaderDict(headers)
        self.pieces = iter(pieces)
        self.sizes: list[int] = []
        self.closed = False

    def read1(self, size: int) -> bytes:
        self.sizes.append(size)
        return next(self.pieces, b"")

    def close(self) -> None:
        self.closed = True


class Pools:
    """Takes the place of urllib3's pools, and keeps what they were asked."""

    def __init__(self, answer: Answer | Exception) -> None:
        self.answer = answer

    def __call__(self, **trust):
        self.trust = trust
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def urlopen(self, method, url, **options):
        self.asked = (method, url)
        self.options = options
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def sent(monkeypatch):
    def send_it(request, answer, seconds=5.0):
        pools = Pools(answer)
        monkeypatch.setattr(urllib3, "PoolManager", pools)
        monkeypatch.setattr(time, "monotonic", lambda: 100.0)
        pools.got = send(request, 100.0 + seconds)
        return pools

    return send_it


def test_a_request_says_who_asks_and_nothing_that_was_not_given(sent):
    pools = sent(PLAIN, Answer(b"[]"))
    assert pools.asked == ("GET", PLAIN.url)
    assert pools.options["body"] is None
    assert pools.options["headers"] == {"Accept-Encoding": "identity", "User-Agent": "node-fleet"}
    assert (pools.options["retries"], pools.options["preload_content"]) == (False, False)


def test_a_form_a_login_and_headers_are_sent_with_it(sent):
    given = replace(PLAIN, method="POST", data={"a": "1 2"}, authorization="Bearer t", headers={"Accept": "x"})
    pools = sent(given, Answer(b"[]"))
    assert pools.asked == ("POST", PLAIN.url)
    assert pools.options["body"] == "a=1+2"
    assert pools.options["headers"] == {
        "Accept-Encoding": "identity",
        "User-Agent": "node-fleet",
        "Accept": "x",
        "Content-Type": "application/x-www-form-urlencoded",
        "Authorization": "Bearer t",
    }
    assert sent(replace(PLAIN, data={}), Answer()).options["body"] == ""


@pytest.mark.parametrize(("left", "connect"), [(5.0, 2.0), (0.5, 0.5)])
def test_connecting_is_given_up_before_the_deadline_and_reading_at_it(sent, left, connect):
    limits = sent(PLAIN, Answer(b"[]"), left).options["timeout"]
    assert (limits.connect_timeout, limits.read_timeout) == (connect, left)


@pytest.mark.parametrize(("seconds", "late"), [(0.0, True), (-1.0, True), (0.001, False)])
def test_after_the_deadline_nothing_is_sent(sent, seconds, late):
    if late:
        with pytest.raises(TimeoutError):
            sent(PLAIN, Answer(b"[]"), seconds)
    else:
        sent(PLAIN, Answer(b"[]"), seconds)


def test_an_answer_is_read_in_pieces_and_its_headers_are_in_lower_case(sent):
    answer = Answer(b"ab", b"c", status=201, ETag="7")
    assert sent(PLAIN, answer).got == http.HttpAnswer(status=201, body=b"abc", headers={"etag": "7"})
    assert answer.closed
    assert set(answer.sizes) == {1 << 16}


@pytest.mark.parametrize(
    ("request_", "trust"),
    [
        (PLAIN, {}),
        (replace(PLAIN, verify=False), {}),
        (SECURE, {"ca_certs": certifi.where()}),
        (replace(SECURE, verify=False), {"cert_reqs": "CERT_NONE"}),
        (replace(SECURE, verify=__file__), {"ca_certs": __file__}),
    ],
)
def test_which_certificates_a_server_may_show(sent, request_, trust):
    assert sent(request_, Answer()).trust == trust


def test_a_file_of_certificates_that_is_not_there_is_said(sent):
    with pytest.raises(UnusableError) as raised:
        sent(replace(SECURE, verify="/nowhere/ca.pem"), Answer())
    assert_wording(str(raised.value))


# ── no usable answer ─────────────────────────────────────────────────────────────────────────────────────────────


def caused(outer: Exception, inner: Exception) -> Exception:
    outer.__cause__ = inner
    return outer


@pytest.mark.parametrize(
    "problem",
    [
        caused(exceptions.NewConnectionError(None, "no"), ConnectionRefusedError(111, "Connection refused")),
        exceptions.ConnectTimeoutError("no"),
        exceptions.SSLError("certificate verify failed"),
        exceptions.ProtocolError("Connection aborted."),
        OSError("no route to host"),
        ConnectionResetError(),
    ],
    ids=lambda problem: type(problem).__name__,
)
def test_whatever_goes_wrong_says_with_whom_and_why(sent, problem):
    with pytest.raises(UnusableError) as raised:
        sent(PLAIN, problem)
    assert_wording(str(raised.value))
    assert raised.value.__cause__ is problem


@pytest.mark.parametrize("problem", [exceptions.ReadTimeoutError(None, "", "slow"), TimeoutError("slow")])
def test_an_answer_that_is_too_slow_is_a_timeout(sent, problem):
    with pytest.raises(TimeoutError):
        sent(PLAIN, problem)


@pytest.mark.parametrize("left", [0.5, 9.0])
def test_no_connection_says_how_long_it_was_waited_for(sent, left):
    with pytest.raises(UnusableError) as raised:
        sent(PLAIN, exceptions.ConnectTimeoutError("no"), left)
    assert_wording(str(raised.value))


@pytest.mark.parametrize(
    ("status", "to"),
    [
        (300, "https://login/x?token=s3cret#s3cret"),
        (302, "https://login/x#s3cret"),
        (399, "http://[odd?s3cret"),
        (301, None),
        (304, "https://login/"),
    ],
)
def test_a_redirect_is_refused_without_showing_what_it_carries(sent, status, to):
    answer = Answer(status=status, **({} if to is None else {"location": to}))
    with pytest.raises(UnusableError) as raised:
        sent(PLAIN, answer)
    assert "s3cret" not in str(raised.value)
    assert_wording(str(raised.value))
    assert answer.closed


@pytest.mark.parametrize("status", [200, 299, 400, 404, 500])
def test_any_other_status_is_an_answer(sent, status):
    assert sent(PLAIN, Answer(status=status)).got.status == status


def test_an_answer_that_has_not_changed_is_one_if_it_was_asked_for(sent):
    asked = replace(PLAIN, headers={http.IF_NONE_MATCH: "7"})
    assert sent(asked, Answer(status=304)).got.status == 304


@pytest.mark.parametrize(("advice", "size"), [("", 0), ("", 1), ("ask for less", 1)])
def test_an_answer_has_four_mebibytes_at_most(sent, advice, size):
    pieces = [b"x" * (1 << 20)] * 4 + [b"x" * size]
    if not size:
        assert len(sent(PLAIN, Answer(*pieces)).got.body) == 4 << 20
        return
    with pytest.raises(UnusableError) as raised:
        sent(replace(PLAIN, too_large=advice), Answer(*pieces))
    assert_wording(str(raised.value))


def test_a_server_that_sends_piece_by_piece_for_ever_is_a_timeout(monkeypatch):
    ticks = iter([0.0, 1.0, 2.0, 6.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(ticks))
    monkeypatch.setattr(urllib3, "PoolManager", Pools(Answer(*[b"x"] * 99)))
    with pytest.raises(TimeoutError):
        send(PLAIN, 5.0)


# ── addresses, causes and excerpts ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("address", "usable"),
    [
        ("http://a:9090", True),
        ("https://a/path", True),
        ("ftp://a", False),
        ("a:9090", False),
        ("http://", False),
        ("http://a:0", False),
        ("http://a:x", False),
        ("http://[a", False),
        ("http://ann:pw@a", False),
    ],
)
def test_an_address_is_http_with_a_host_and_no_login(address, usable):
    problem = http.address_problem(address, "Prometheus")
    if usable:
        assert problem == ""
    else:
        assert_wording(problem)


def test_the_innermost_cause_is_told():
    inner, middle = KeyError("x"), ValueError("middle")
    middle.__context__ = inner
    assert http.root_cause(caused(RuntimeError("outer"), middle)) == "KeyError: 'x'"
    assert http.root_cause(OSError()) == "OSError"
    circle = ValueError("round")
    last = ValueError("and round")
    circle.__cause__ = caused(last, circle)
    assert http.root_cause(circle) == f"ValueError: {last}"


@pytest.mark.parametrize(("length", "cut"), [(200, False), (201, True)])
def test_an_excerpt_is_one_line_of_two_hundred_characters(length, cut):
    assert http.excerpt("a \n b") == "a b"
    assert http.excerpt("x" * length) == ("x" * 200 + "…" if cut else "x" * length)

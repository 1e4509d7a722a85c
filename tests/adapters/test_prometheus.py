import socket
import threading
import time
from datetime import timedelta

import pytest

from nodefleet.adapters import http
from nodefleet.adapters.credentials import MetricsLogin
from nodefleet.adapters.http import MOST_BYTES
from nodefleet.adapters.prometheus import PrometheusClient, QueryResult, Series
from nodefleet.errors import DeniedError
from nodefleet.model.snapshot import Missing
from support.builders import NOON
from support.prometheus_stand_in import Http, one, prometheus, said
from support.wording import assert_wording

SOON = timedelta(seconds=5)
SHORTLY = timedelta(seconds=0.2)
ANA = MetricsLogin(username="ana", password="opensesame")  # noqa: S106  # opens nothing
BEARER = MetricsLogin(token="t0ken")  # noqa: S106


def cause(answer: Http, within: timedelta = SOON, **options: object) -> str:
    """Why such an answer is of no use."""
    with prometheus(answer) as server:
        got = PrometheusClient(server.address, **options).ask("up", within)
    assert isinstance(got, Missing), got
    return got.cause


def test_a_query_gives_its_value_and_when_it_was_evaluated():
    with prometheus(one(42.5)) as server:
        got = PrometheusClient(server.address).ask("sum(up)", SOON)
    assert got == QueryResult(evaluated=NOON, series=(Series(labels={}, value=42.5),))
    (asked,) = server.asked
    assert (asked.path, asked.query, asked.authorization) == ("/api/v1/query", "sum(up)", None)


def test_the_server_is_told_how_long_we_wait():
    with prometheus(one(1)) as server:
        PrometheusClient(server.address).ask("up", SOON)
    (asked,) = server.asked
    assert asked.timeout.endswith("ms")
    assert 4000 < int(asked.timeout.removesuffix("ms")) <= 5000


def test_the_address_may_have_a_path():
    with prometheus(one(1)) as server:
        PrometheusClient(f"{server.address}/metrics/").ask("up", SOON)
    assert server.asked[0].path == "/metrics/api/v1/query"


def test_a_query_is_sent_as_it_is_however_long_and_strange():
    strange = 'sum(x{a=~"ü&=+%\\\\d"}) ' + "+ 0" * 4000
    with prometheus(one(1)) as server:
        PrometheusClient(server.address).ask(strange, SOON)
    assert server.asked[0].query == strange
    assert server.asked[0].content_type == "application/x-www-form-urlencoded"


# ── login ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("login", "header"),
    [
        (ANA, "Basic YW5hOm9wZW5zZXNhbWU="),
        (BEARER, "Bearer t0ken"),
        (MetricsLogin(username="ana", password="pässwörd€"), "Basic YW5hOnDDpHNzd8O2cmTigqw="),  # noqa: S106
    ],
)
def test_a_login_goes_into_the_header(login, header):
    with prometheus(one(1)) as server:
        PrometheusClient(server.address, lambda: login).ask("up", SOON)
    assert server.asked[0].authorization == header


def test_a_netrc_or_proxy_of_the_machine_does_not_count(monkeypatch, tmp_path):
    (tmp_path / "netrc").write_text("instance 127.0.0.1 login eve password wrong\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with prometheus(one(1)) as server:
        assert isinstance(PrometheusClient(server.address, lambda: BEARER).ask("up", SOON), QueryResult)
    assert server.asked[0].authorization == BEARER.header()


class Vault:
    """Two logins: the second one after a refresh."""

    def __init__(self, *logins: MetricsLogin) -> None:
        self.logins = logins
        self.refreshed = 0

    def login(self) -> MetricsLogin:
        return self.logins[min(self.refreshed, len(self.logins) - 1)]

    def refresh(self) -> None:
        self.refreshed += 1


def by_login(header: str):
    """A server that knows this login only."""

    def answer(server):
        return one(7) if server.asked[-1].authorization == header else said({"status": "error"}, 401)

    return answer


def test_a_rotated_login_is_fetched_anew_and_tried_once_more():
    vault = Vault(ANA, BEARER)
    with prometheus(one(0)) as server:
        server.answer = lambda _: by_login("Bearer t0ken")(server)
        got = PrometheusClient(server.address, vault.login, vault.refresh).ask("up", SOON)
    assert isinstance(got, QueryResult)
    assert [each.authorization for each in server.asked] == [ANA.header(), BEARER.header()]


def test_a_prometheus_that_begins_to_want_a_login_gets_it_with_the_next_question():
    """The server of an older release had none; what is kept of the secret does not hold it yet."""
    logins = [None, ANA]
    with prometheus(one(0)) as server:
        server.answer = lambda _: by_login(ANA.header())(server)
        got = PrometheusClient(server.address, lambda: logins.pop(0)).ask("up", SOON)
    assert isinstance(got, QueryResult)
    assert [each.authorization for each in server.asked] == [None, ANA.header()]


def test_a_login_that_stays_wrong_is_not_tried_again():
    vault = Vault(ANA)
    with prometheus(said({"status": "error"}, 401)) as server:
        got = PrometheusClient(server.address, vault.login, vault.refresh).ask("up", SOON)
    assert got == Missing("Prometheus refuses the login (HTTP 401): check what its secret holds")
    assert len(server.asked) == vault.refreshed == 1


def test_a_login_that_cannot_be_had_is_the_cause():
    def denied():
        raise DeniedError("Secrets Manager", "GetSecretValue: AccessDenied", "Allow it")

    assert_wording(cause(one(1), login=denied))


def test_no_cause_shows_the_login():
    vault = Vault(ANA)
    for answer in (said({"status": "error"}, 401), Http(403, b"no"), Http(302, headers={"Location": "/login"})):
        assert "opensesame" not in cause(answer, login=vault.login)


# ── what goes wrong ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Http(401), "Prometheus wants a login (HTTP 401): name the secret that holds it in the deployment"),
        (
            Http(302, headers={"Location": "https://login.example.com/start?code=1"}),
            "Prometheus answers with a redirect (HTTP 302) to https://login.example.com/start: give the address",
        ),
        (Http(304), "Prometheus answers with a redirect (HTTP 304) to nowhere: "),
        (Http(502, b"<html>\n<h1>Bad   gateway</h1>"), "Prometheus answered HTTP 502 (<html> <h1>Bad gateway</h1>)"),
        (Http(200, b'{"status": "succ'), "Prometheus's answer cannot be read: "),
        (Http(200, b""), "Prometheus's answer cannot be read: "),
        (Http(200, b'{"status":"success"}', length=500), "the connection to Prometheus at 127.0.0.1:"),
    ],
)
def test_an_answer_that_is_of_no_use_is_missing_with_a_cause(answer, expected):
    assert cause(answer).startswith(expected)


def test_a_redirect_is_not_followed():
    with prometheus(one(1)) as other, prometheus(Http(307, headers={"Location": other.address})) as server:
        PrometheusClient(server.address, lambda: ANA).ask("up", SOON)
    assert other.asked == []


def test_no_answer_in_time_is_missing():
    began = time.monotonic()
    assert_wording(cause(Http(late=True), SHORTLY))
    assert time.monotonic() - began < 2


def test_a_server_that_drips_its_answer_does_not_hold_us():
    began = time.monotonic()
    assert_wording(cause(Http(200, b" " * 500, drip=True), SHORTLY))
    assert time.monotonic() - began < 2


def test_an_endless_answer_is_not_read_to_its_end():
    huge = Http(200, b" " * (MOST_BYTES + 1), length=1 << 40)
    assert_wording(cause(huge))


def test_no_time_left_is_not_asked():
    with prometheus(one(1)) as server:
        got = PrometheusClient(server.address).ask("up", timedelta(0))
    assert got == Missing("Prometheus gave no answer within 0 s")
    assert server.asked == []


def test_nobody_there_is_told_with_the_address():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    got = PrometheusClient(f"http://127.0.0.1:{port}").ask("up", SOON)
    assert isinstance(got, Missing)
    assert_wording(got.cause.partition(": ")[0], PORT=port)
    assert "refused" in got.cause
    assert "0x" not in got.cause  # no object of the library


def test_a_connection_that_is_cut_is_missing():
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def hang_up():
            listening.accept()[0].close()

        threading.Thread(target=hang_up, daemon=True).start()
        got = PrometheusClient(f"http://127.0.0.1:{listening.getsockname()[1]}").ask("up", SOON)
    assert isinstance(got, Missing)
    assert "failed" in got.cause


def test_packets_that_nobody_answers_do_not_cost_the_whole_deadline(monkeypatch):
    monkeypatch.setattr("nodefleet.adapters.http.CONNECT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        port = full.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]  # the queue is full: further packets are dropped
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(("127.0.0.1", port))
        began = time.monotonic()
        got = PrometheusClient(f"http://127.0.0.1:{port}").ask("up", SOON)
        took = time.monotonic() - began
        for each in waiting:
            each.close()
    assert took < 3
    assert isinstance(got, Missing)
    assert_wording(got.cause, PORT=port)


def test_a_server_that_does_not_speak_tls_is_missing():
    with prometheus(one(1)) as server:
        got = PrometheusClient(server.address.replace("http:", "https:")).ask("up", SOON)
    assert isinstance(got, Missing)
    assert_wording(got.cause.partition(": ")[0], ADDRESS=server.address.removeprefix("http://"))


def test_a_file_of_certificates_that_is_not_there_is_missing(tmp_path):
    got = PrometheusClient("https://127.0.0.1:9", verify=str(tmp_path / "ca.pem")).ask("up", SOON)
    assert isinstance(got, Missing)
    assert_wording(got.cause)


def test_a_host_that_cannot_be_one_is_missing():
    got = PrometheusClient("http://*:9090").ask("up", SOON)
    assert isinstance(got, Missing)
    assert_wording(got.cause.partition(": ")[0])


@pytest.mark.parametrize("address", ["", "10.0.1.10:9090", "ftp://host", "http://", "http://host:port", "http://[::1"])
def test_what_is_no_address_is_missing_and_asks_nobody(address):
    got = PrometheusClient(address).ask("up", SOON)
    assert got == Missing("the address of Prometheus is not of the form http://host:port or https://host/path")


def test_a_login_in_the_address_is_refused_and_not_shown():
    got = PrometheusClient("http://ana:opensesame@10.0.1.10:9090").ask("up", SOON)
    assert got == Missing("the address of Prometheus holds a login: put that into its secret")


def test_a_range_is_asked_minute_by_minute(monkeypatch):
    sent = []
    matrix = b'{"status": "success", "data": {"resultType": "matrix", "result": []}}'

    def send(request, deadline):
        sent.append((request, deadline))
        return http.HttpAnswer(status=200, body=matrix)

    monkeypatch.setattr(http, "send", send)
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    client = PrometheusClient("http://prometheus:9090/", lambda: ANA, verify="/ca.pem")
    assert client.ask_range("load", NOON, NOON + timedelta(minutes=3), SOON) == ()
    ((request, deadline),) = sent
    assert deadline == 105.0
    assert request == http.HttpRequest(
        service="Prometheus",
        method="POST",
        url="http://prometheus:9090/api/v1/query_range",
        data={
            "query": "load",
            "start": str(NOON.timestamp()),
            "end": str((NOON + timedelta(minutes=3)).timestamp()),
            "step": "60",
            "timeout": "5000ms",
        },
        authorization=ANA.header(),
        verify="/ca.pem",
        too_large="the query gives too many series",
    )


@pytest.mark.parametrize("address", ["http://a:9090?x", "http://a:9090#x"])
def test_an_address_with_a_query_is_refused(address):
    got = PrometheusClient(address).ask("up", SOON)
    assert got == Missing("the address of Prometheus is not of the form http://host:port or https://host/path")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"errorType": "bad_data", "error": "X parse error X"}, "bad_data: X parse error X"),
        ({"error": "X"}, "X"),
        ({"errorType": "X"}, "X"),
    ],
)
def test_what_prometheus_says_of_an_error_is_told(answer, told):
    found = cause(said({"status": "error", **answer}))
    assert f"({told})" in found
    assert_wording(found)

"""One request: bounded in time, repeated only where that is harmless, and its failures in our words."""

import time
from datetime import timedelta
from types import SimpleNamespace
from typing import NoReturn

import pytest
from urllib3 import exceptions

from nodefleet.adapters.kubernetes import CallLimits, KubernetesCluster, client
from nodefleet.adapters.kubernetes.cluster import to_server
from nodefleet.adapters.kubernetes.resources import NODES, VERSION
from nodefleet.errors import (
    ChangedError,
    DeniedError,
    LoginRefusedError,
    NodeFleetError,
    ThrottledError,
    UnavailableError,
    UnreachableError,
)
from nodefleet.model.operations import PodRef
from support.fake_api_certificates import authority
from support.fake_api_objects import Reply
from support.fake_api_server import TOKEN, FakeApiServer
from support.k8s_objects import node, pod
from support.wording import assert_wording


def text(code: int, words: str = "", **headers: str) -> Reply:
    return Reply(code, words.encode(), headers)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (401, LoginRefusedError),
        (403, DeniedError),
        (409, ChangedError),
        (412, ChangedError),
        (429, ThrottledError),
        (302, UnavailableError),
        (400, UnavailableError),
        (404, UnavailableError),
        (418, UnavailableError),
        (500, UnavailableError),
        (502, UnavailableError),
        (503, UnavailableError),
        (504, UnavailableError),
        (599, UnavailableError),
    ],
)
def test_every_answer_becomes_an_error_of_ours(
    server: FakeApiServer, cluster: KubernetesCluster, code: int, kind: type[NodeFleetError]
):
    server.trouble("list", "nodes", reply=text(code, "words of the server"))
    with pytest.raises(NodeFleetError) as caught:
        cluster.view()
    assert_wording(str(caught.value))
    assert type(caught.value) is kind
    assert len(server.asked) == 1


def test_a_node_that_cannot_be_asked_for_is_not_gone(server: FakeApiServer, cluster: KubernetesCluster):
    server.trouble("get", "nodes", reply=text(500, "etcd is away"))
    with pytest.raises(UnavailableError) as caught:
        cluster.node("w1")
    assert_wording(str(caught.value))


def test_a_missing_permission_is_named_with_what_to_mend(server: FakeApiServer, cluster: KubernetesCluster):
    server.objects.denied.add(("list", "poddisruptionbudgets"))
    with pytest.raises(DeniedError) as caught:
        cluster.view()
    assert caught.value.part == "Kubernetes"
    assert_wording(caught.value.cause)
    assert_wording(caught.value.remedy)


def test_a_missing_permission_on_a_single_pod_names_that_pod(server: FakeApiServer, cluster: KubernetesCluster):
    made = server.objects.put("pods", pod())
    server.objects.denied.add(("create", "pods/eviction"))
    with pytest.raises(DeniedError) as caught:
        cluster.evict(PodRef(namespace="default", name="web-1", uid=made["metadata"]["uid"]))
    assert_wording(str(caught.value))


def test_a_token_that_is_not_accepted_is_said_so(server: FakeApiServer):
    cluster = KubernetesCluster.at(server.url, "an-old-token", authority().ca)
    with pytest.raises(LoginRefusedError) as caught:
        cluster.view()
    assert_wording(str(caught.value))
    assert "an-old-token" not in str(caught.value)
    cluster.close()


def test_a_busy_server_is_not_waited_for(server: FakeApiServer, cluster: KubernetesCluster, pauses: list[float]):
    reply = text(429, "Too many requests, please try again later.", **{"Retry-After": "30"})
    server.trouble("list", "nodes", reply=reply)
    with pytest.raises(ThrottledError) as caught:
        cluster.view()
    assert_wording(str(caught.value))
    assert pauses == []


def test_a_redirect_is_not_followed(server: FakeApiServer, cluster: KubernetesCluster):
    server.trouble("list", "nodes", reply=text(307, "elsewhere", Location=f"{server.url}/version"))
    with pytest.raises(UnavailableError, match="307 elsewhere"):
        cluster.view()
    assert len(server.asked) == 1


def test_a_page_of_html_does_not_fill_the_log(server: FakeApiServer, cluster: KubernetesCluster):
    server.trouble("list", "nodes", reply=text(502, "<html>" + "sorry " * 5000))
    with pytest.raises(UnavailableError) as caught:
        cluster.view()
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"items": [{"metadata": 7}]}', b'{"kind": "Status"}', b"\xff\xfe"]
)
def test_an_answer_that_cannot_be_read_is_no_empty_list(server: FakeApiServer, cluster: KubernetesCluster, body: bytes):
    server.trouble("list", "nodes", reply=Reply(200, body))
    with pytest.raises(UnavailableError) as caught:
        cluster.view()
    assert_wording(str(caught.value))


@pytest.mark.parametrize("cut", ["before", "within"])
def test_a_read_is_repeated_when_the_connection_breaks(
    server: FakeApiServer, cluster: KubernetesCluster, pauses: list[float], cut: str
):
    server.objects.put("nodes", node("w1"))
    server.trouble("list", "nodes", cut=cut, times=2)
    assert [each.name for each in cluster.view().nodes] == ["w1"]
    assert len(pauses) == 2


@pytest.mark.parametrize("cut", ["before", "within"])
def test_a_read_is_not_repeated_for_ever(server: FakeApiServer, cluster: KubernetesCluster, cut: str):
    server.trouble("list", "nodes", cut=cut, times=99)
    with pytest.raises(UnavailableError) as caught:
        cluster.view()
    assert_wording(str(caught.value))
    assert len(server.asked) == 3


@pytest.mark.parametrize("cut", ["before", "within"])
def test_a_write_that_broke_is_not_repeated(server: FakeApiServer, cluster: KubernetesCluster, cut: str):
    server.trouble("create", "events", cut=cut, times=99)
    with pytest.raises(UnavailableError) as caught:
        cluster.note("w1", "NodeFleetLeaving", "leaves")
    assert_wording(str(caught.value))
    assert len(server.asked) == 1


def test_a_server_that_is_not_there_is_tried_a_few_times(server: FakeApiServer, pauses: list[float]):
    nobody = "https://127.0.0.1:1"
    cluster = KubernetesCluster(to_server(nobody, TOKEN, authority().ca), pause=pauses.append)
    with pytest.raises(UnavailableError, match=r"create events default: .*refused"):
        cluster.note("w1", "NodeFleetLeaving", "leaves")  # it never left, so even a write may be tried again
    assert (cluster.calls, len(pauses)) == (3, 2)
    cluster.close()


def test_a_slow_server_is_given_up_and_not_asked_again(server: FakeApiServer, hasty: KubernetesCluster):
    server.trouble("list", "nodes", delay=1.5)
    began = time.monotonic()
    with pytest.raises(UnavailableError) as caught:
        hasty.view()
    assert_wording(str(caught.value))
    assert time.monotonic() - began < 1.4
    assert len(server.asked) == 1


def test_an_answer_that_drips_is_given_up_too(server: FakeApiServer, hasty: KubernetesCluster):
    server.objects.put("nodes", node("w1"))
    server.trouble("list", "nodes", drip=0.02)
    with pytest.raises(UnavailableError) as caught:
        hasty.view()
    assert_wording(str(caught.value))
    assert hasty.node("w1")  # the connection that was left is not used again
    assert server.connections == 2


def test_no_call_takes_longer_than_the_run_has_left(server: FakeApiServer):
    left = [timedelta(seconds=0.15), timedelta(0)]
    limits = CallLimits(connect=1.0, read=10.0, left=lambda: left.pop(0))
    cluster = KubernetesCluster(to_server(server.url, TOKEN, authority().ca), limits)
    server.trouble("get", "nodes", delay=1.5)
    with pytest.raises(UnavailableError) as caught:
        cluster.node("w1")
    assert_wording(str(caught.value))
    with pytest.raises(UnavailableError) as caught:
        cluster.node("w1")
    assert_wording(str(caught.value))
    assert cluster.calls == 1
    cluster.close()


def test_names_cannot_lead_to_other_paths(server: FakeApiServer, cluster: KubernetesCluster):
    assert cluster.node("../pods/x?y") is None
    assert server.asked[0].path == "/api/v1/nodes/..%2Fpods%2Fx%3Fy"


def test_an_answer_without_words_is_called_by_its_code(server: FakeApiServer, cluster: KubernetesCluster):
    server.trouble("list", "nodes", reply=text(503))
    server.trouble("list", "nodes", reply=text(599))
    for words in ("503 Service Unavailable", "599 an answer without words"):
        with pytest.raises(UnavailableError, match=words):
            cluster.view()


def test_a_path_that_is_forbidden_is_named(server: FakeApiServer, cluster: KubernetesCluster):
    server.trouble("get", "", reply=text(403, "no"))
    with pytest.raises(DeniedError) as caught:
        cluster.server_version()
    assert_wording(str(caught.value))


def test_a_connection_that_was_left_for_long_is_not_used_again(
    server: FakeApiServer, cluster: KubernetesCluster, monkeypatch: pytest.MonkeyPatch
):
    """A function that was frozen for minutes cannot know what became of it."""
    monkeypatch.setattr(client, "_IDLE", -1.0)
    cluster.node("w1")
    cluster.node("w1")
    assert server.connections == 2


def test_one_connection_serves_all_calls_of_a_look(server: FakeApiServer, cluster: KubernetesCluster):
    cluster.view()
    cluster.view()
    assert cluster.calls == len(server.asked) == 8
    assert server.connections == 1


class Failing:
    """A transport that fails like this."""

    def __init__(self, problem: Exception) -> None:
        self.problem = problem
        self.sent = 0

    def send(self, *_: object, **__: object) -> NoReturn:
        self.sent += 1
        raise self.problem

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("problem", "tries"),
    [
        (exceptions.NewConnectionError(None, "Connection refused"), 3),
        (exceptions.ConnectTimeoutError("no connection"), 3),
        (exceptions.ProtocolError("Connection aborted.", ConnectionResetError()), 1),
        (exceptions.ReadTimeoutError(None, "", "slow"), 1),
        (exceptions.SSLError("certificate verify failed"), 1),
        (exceptions.HTTPError("x" * 400), 1),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_write_is_sent_again_only_if_it_never_left(problem: Exception, tries: int):
    transport = Failing(problem)
    api = client.Api(transport, pause=lambda _: None)
    with pytest.raises(UnreachableError) as caught:
        api.do(NODES.delete("w1", {}))
    assert transport.sent == tries
    assert_wording(str(caught.value))


def test_an_answer_in_pieces_is_put_together():
    pieces = [b'{"a"', b": ", b"1}"]
    response = SimpleNamespace(read1=lambda size: pieces.pop(0) if pieces and size == 1 << 18 else b"")
    assert client._content(response, time.monotonic() + 60) == b'{"a": 1}'


def test_an_answer_knows_how_many_bytes_came(server: FakeApiServer):
    made = client.Api(to_server(server.url, TOKEN, authority().ca))
    answer = made.do(VERSION)
    made.close()
    assert answer.received == len(answer.body) > 0
    assert answer.date == "Mon, 16 Nov 2026 12:00:00 GMT"

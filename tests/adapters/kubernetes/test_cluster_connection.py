"""How the API server is reached: always verified, and without showing the token to anybody."""

import base64
import contextlib
import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from nodefleet.adapters.kubernetes import KubernetesCluster
from nodefleet.adapters.kubernetes.cluster import TokenTransport, from_kubeconfig, to_server
from nodefleet.adapters.kubernetes.resources import Request
from nodefleet.errors import MisconfiguredError, UnavailableError
from nodefleet.model.names import POOL_LABEL
from support.fake_api_certificates import authority
from support.fake_api_server import TOKEN, FakeApiServer, serving
from support.k8s_objects import node
from support.wording import assert_wording


def kubeconfig(folder: Path, server: str, **cluster: object) -> str:
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        "clusters": [{"name": "here", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "me", "user": {"token": TOKEN}}],
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(content))
    return str(path)


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_a_server_whose_ca_we_were_given_is_trusted(server: FakeApiServer):
    cluster = KubernetesCluster.at(server.url, TOKEN, authority().ca)
    assert cluster.server_version() == "v1.34.4+k3s1"
    cluster.close()


def test_a_server_of_another_ca_is_not_spoken_to(server: FakeApiServer):
    cluster = KubernetesCluster.at(server.url, TOKEN, authority("stranger").ca)
    with pytest.raises(UnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
        cluster.server_version()
    assert server.asked == []
    cluster.close()


def test_a_certificate_for_another_host_is_not_trusted(tmp_path: Path):
    elsewhere = authority("elsewhere", "127.0.0.2")
    with serving(tmp_path, elsewhere) as server:
        cluster = KubernetesCluster.at(server.url, TOKEN, elsewhere.ca)
        with pytest.raises(UnavailableError, match="IP address mismatch"):
            cluster.server_version()
        cluster.close()


@pytest.mark.parametrize("ca", ["", "  \n", "no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_a_ca_that_is_none_is_refused_at_once(ca: str):
    with pytest.raises(MisconfiguredError, match=r"server-ca\.crt"):
        to_server("https://127.0.0.1:6443", TOKEN, ca)


def test_an_empty_token_is_refused_at_once():
    with pytest.raises(MisconfiguredError) as caught:
        to_server("https://127.0.0.1:6443", " \n", authority().ca)
    assert_wording(str(caught.value))


@pytest.mark.parametrize("url", ["http://10.0.0.1:6443", "10.0.0.1:6443", "ftp://127.0.0.1"])
def test_a_token_is_never_sent_in_the_clear(url: str):
    with pytest.raises(MisconfiguredError, match="https://"):
        to_server(url, TOKEN, authority().ca)


def test_the_token_may_end_with_a_newline_as_files_do(server: FakeApiServer):
    cluster = KubernetesCluster.at(server.url + "/", TOKEN + "\n", authority().ca)
    assert cluster.server_version()
    cluster.close()


def test_the_proxy_of_the_environment_is_used_unless_it_is_to_be_bypassed(
    server: FakeApiServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")  # nothing answers there
    monkeypatch.setenv("NO_PROXY", "example.com")
    by_proxy = KubernetesCluster.at(server.url, TOKEN, authority().ca)
    with pytest.raises(UnavailableError):
        by_proxy.server_version()
    assert server.asked == []
    by_proxy.close()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    direct = KubernetesCluster.at(server.url, TOKEN, authority().ca)
    assert direct.server_version()
    direct.close()


class Pools:
    """Keeps what urllib3 is asked."""

    def urlopen(self, *asked: object, **options: Any) -> None:
        self.asked, self.options = asked, options


@pytest.mark.parametrize("body", [None, {}, {"a": 1}])
def test_a_request_is_sent_with_its_login_its_limits_and_its_body(body: Any):
    transport = to_server("https://127.0.0.1:6443/", TOKEN, authority().ca)
    assert isinstance(transport, TokenTransport)
    transport._pools = pools = Pools()
    query = (("limit", "5"), ("continue", "a b"))
    transport.send(Request(verb="patch", path="/api/v1/nodes/w1", query=query, body=body), connect=1.5, read=7.0)
    assert pools.asked == ("PATCH", "https://127.0.0.1:6443/api/v1/nodes/w1?limit=5&continue=a+b")
    assert pools.options["body"] == (None if body is None else json.dumps(body, separators=(",", ":")).encode())
    limits = pools.options["timeout"]
    assert (limits.connect_timeout, limits.read_timeout) == (1.5, 7.0)
    assert (pools.options["retries"], pools.options["preload_content"]) == (False, False)
    assert pools.options["headers"] == {
        "Accept": "application/json",
        "Accept-Encoding": "gzip",
        "Authorization": f"Bearer {TOKEN}",
        "User-Agent": "node-fleet",
        "Content-Type": "application/merge-patch+json",
    }
    transport.send(Request(verb="get", path="/version"), connect=1.5, read=7.0)
    assert pools.asked == ("GET", "https://127.0.0.1:6443/version")


def test_the_official_client_sends_the_same(server: FakeApiServer, tmp_path: Path):
    path = kubeconfig(tmp_path, server.url, **{"certificate-authority-data": encoded(authority().ca)})
    server.objects.put("nodes", node("w1", pool="web"))
    with contextlib.closing(KubernetesCluster.of_kubeconfig(path)) as cluster:
        cluster.assign("w1", "i-1", "batch")
    patch = server.asked[-1]
    sent = {name: patch.headers[name] for name in ("accept", "accept-encoding", "user-agent", "content-type")}
    assert sent == {
        "accept": "application/json",
        "accept-encoding": "gzip",
        "user-agent": "node-fleet",
        "content-type": "application/merge-patch+json",
    }
    assert patch.body["metadata"]["labels"] == {POOL_LABEL: "batch"}


def test_the_official_client_repeats_nothing_and_keeps_the_limits(
    server: FakeApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    asked: list[Any] = []
    path = kubeconfig(tmp_path, server.url, **{"certificate-authority-data": encoded(authority().ca)})
    with contextlib.closing(from_kubeconfig(path)) as transport:
        monkeypatch.setattr(
            transport._client, "call_api", lambda *_, **how: asked.append(how) or SimpleNamespace(response="answer")
        )
        assert transport.send(Request(verb="get", path="/version"), connect=1.5, read=7.0) == "answer"
        assert transport.configuration.retries is False
    assert asked == [{"_request_timeout": (1.5, 7.0)}]


@pytest.mark.parametrize(("reason", "said"), [("no plugin", "no plugin"), (None, "(0)")])
def test_what_the_official_client_refuses_is_an_error_of_the_connection(
    server: FakeApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str | None, said: str
):
    def refuse(*_: object, **__: object) -> NoReturn:
        raise ApiException(status=0, reason=reason)

    path = kubeconfig(tmp_path, server.url, **{"certificate-authority-data": encoded(authority().ca)})
    with contextlib.closing(from_kubeconfig(path)) as transport:
        monkeypatch.setattr(transport._client, "call_api", refuse)
        with pytest.raises(HTTPError) as caught:
            transport.send(Request(verb="get", path="/version"), connect=1.0, read=1.0)
    assert str(caught.value).startswith(said)


def test_a_kubeconfig_says_where_and_who(server: FakeApiServer, tmp_path: Path):
    path = kubeconfig(tmp_path, server.url, **{"certificate-authority-data": encoded(authority().ca)})
    cluster = KubernetesCluster.of_kubeconfig(path)
    assert cluster.server_version() == "v1.34.4+k3s1"
    cluster.close()


def test_a_kubeconfig_that_verifies_nothing_is_refused(tmp_path: Path):
    path = kubeconfig(tmp_path, "https://127.0.0.1:6443", **{"insecure-skip-tls-verify": True})
    with pytest.raises(MisconfiguredError, match="certificate-authority-data"):
        KubernetesCluster.of_kubeconfig(path)


def test_a_kubeconfig_that_is_not_there_is_said_so(tmp_path: Path):
    with pytest.raises(MisconfiguredError, match="kubeconfig"):
        KubernetesCluster.of_kubeconfig(str(tmp_path / "nothing"))


@pytest.mark.parametrize("content", ["", "{", "a: [", "just words", "clusters: 7"])
def test_a_kubeconfig_that_is_none_is_said_so(tmp_path: Path, content: str):
    path = tmp_path / "kubeconfig"
    path.write_text(content)
    with pytest.raises(MisconfiguredError) as caught:
        KubernetesCluster.of_kubeconfig(str(path))
    assert_wording(str(caught.value))


def test_a_kubeconfig_without_such_a_context_is_said_so(tmp_path: Path):
    path = kubeconfig(tmp_path, "https://127.0.0.1:6443")
    with pytest.raises(MisconfiguredError, match="nowhere"):
        KubernetesCluster.of_kubeconfig(path, context="nowhere")


def test_plain_http_is_for_a_proxy_on_this_machine(tmp_path: Path):
    with serving() as server:
        cluster = KubernetesCluster.of_kubeconfig(kubeconfig(tmp_path, server.url))
        assert cluster.server_version()
        cluster.close()


def test_the_token_is_in_no_log_line_no_error_and_no_repr(
    server: FakeApiServer,
    cluster: KubernetesCluster,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
):
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, logger="urllib3")  # who has talked to Slack in this process has hushed it
    server.objects.denied.add(("list", "nodes"))
    texts = [repr(cluster), str(vars(cluster))]
    for _ in range(2):
        with pytest.raises(Exception, match="list nodes") as caught:
            cluster.view()
        texts += [str(caught.value), repr(caught.value)]
        server.objects.denied.clear()
        server.trouble("list", "nodes", cut="before", times=3)
    shown = capsys.readouterr()
    texts += [caplog.text, shown.out, shown.err]
    assert all(TOKEN not in text for text in texts)
    assert "GET /api/v1/nodes" in caplog.text

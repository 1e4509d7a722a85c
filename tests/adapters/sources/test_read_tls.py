"""Servers whose certificate an authority of one's own signed, as in most private networks."""

from ssl import PROTOCOL_TLS_SERVER, SSLContext

import pytest

from nodefleet.adapters.credentials import GithubLogin, MetricsLogin
from nodefleet.adapters.sources.github import GithubJobs
from nodefleet.adapters.sources.http_json import HttpDocuments, RabbitmqQueues
from nodefleet.model.snapshot import Reading
from nodefleet.policy.sources import Github, HttpJson, Rabbitmq
from support.builders import NOON
from support.fake_api_certificates import authority
from support.source_doubles import Answer, GithubDouble, HttpDouble, cause, job, logins, read_one

CA = authority().ca
WITH_LOGIN = {"username": "guest", "password": "pw"}


@pytest.fixture
def tls(tmp_path):
    context = SSLContext(PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority().in_folder(tmp_path))
    return context


def rabbitmq(address, known):
    return read_one(RabbitmqQueues(known), Rabbitmq(url=address, queue="orders", secret="own"))


def document(address, known):
    return read_one(HttpDocuments(known, loopback=True), HttpJson(url=address, value="/messages", secret="own"))


@pytest.mark.parametrize("read", [rabbitmq, document])
@pytest.mark.parametrize(("login", "sent"), [(WITH_LOGIN, True), ({"token": "t0k3n"}, True), ({}, False)])
def test_the_authority_in_the_secret_is_trusted(read, login, sent, tls):
    with HttpDouble(lambda _: Answer(document={"name": "orders", "messages": 7})).serving(tls) as server:
        assert read(server.address, logins(own=MetricsLogin(**login, ca=CA))) == Reading(7, NOON)
    assert [bool(asked.headers.get("authorization")) for asked in server.asked] == [sent]


@pytest.mark.parametrize("read", [rabbitmq, document])
@pytest.mark.parametrize(
    "ca",
    ["", authority("other").ca, "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----"],
    ids=["none", "another", "cut off"],  # the authority's own text is another in each process
)
def test_another_server_gets_no_login(read, ca, tls):
    with HttpDouble(lambda _: Answer(document={})).serving(tls) as server:
        sample = read(server.address, logins(own=MetricsLogin(**WITH_LOGIN, ca=ca)))
    assert "secure connection" in cause(sample) or "cannot be asked" in cause(sample)
    assert server.asked == []


def test_the_authority_of_a_github_enterprise_is_trusted(tls):
    double = GithubDouble(jobs={"shop/web": {1: [job("queued")]}})
    with double.http.serving(tls) as server:
        entry = Github(repositories=("shop/web",), labels=("self-hosted", "linux"), api=server.address, secret="own")
        adapter = GithubJobs(logins(own=GithubLogin(token="pat", ca=CA)), warn=print)
        assert read_one(adapter, entry) == Reading(1, NOON)

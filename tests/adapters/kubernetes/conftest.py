"""A fake API server and the adapter on it. Every request that a test makes must be one that our role allows."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from nodefleet.adapters.kubernetes import NEEDED, NEEDED_PATHS, CallLimits, KubernetesCluster
from nodefleet.adapters.kubernetes.cluster import to_server
from support.fake_api_certificates import authority
from support.fake_api_server import TOKEN, FakeApiServer, serving

PATIENT = CallLimits(connect=5.0, read=5.0)  # tests share a busy instance
HASTY = CallLimits(connect=5.0, read=0.3)


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The official client honours a proxy from the environment; loopback needs none."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FakeApiServer]:
    with serving(tmp_path) as fake:
        yield fake
    allowed = {(verb, each.group, each.resource) for each in NEEDED for verb in each.verbs}
    for asked in fake.asked:
        if asked.resource:
            assert (asked.verb, asked.group, asked.resource) in allowed, f"no permission covers {asked}"
        else:
            assert asked.path in NEEDED_PATHS


@pytest.fixture
def pauses() -> list[float]:
    """How long the adapter waited between tries."""
    return []


@pytest.fixture
def cluster(server: FakeApiServer, pauses: list[float]) -> Iterator[KubernetesCluster]:
    made = KubernetesCluster(to_server(server.url, TOKEN, authority().ca), PATIENT, pause=pauses.append)
    yield made
    made.close()


@pytest.fixture
def hasty(server: FakeApiServer) -> Iterator[KubernetesCluster]:
    """It waits for no answer for longer than 0.3 s."""
    made = KubernetesCluster(to_server(server.url, TOKEN, authority().ca), HASTY)
    yield made
    made.close()

"""Events on nodes."""

from datetime import UTC, datetime
from hashlib import sha256

import pytest

from nodefleet.adapters.kubernetes import KubernetesCluster
from nodefleet.adapters.kubernetes.cluster import to_server
from nodefleet.errors import DeniedError, UnavailableError
from support.fake_api_certificates import authority
from support.fake_api_objects import failure
from support.fake_api_server import TOKEN, FakeApiServer
from support.wording import assert_wording

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
LATER = datetime(2026, 11, 16, 12, 2, tzinfo=UTC)


@pytest.fixture
def times() -> list[datetime]:
    return [NOON, LATER]


@pytest.fixture
def cluster(server: FakeApiServer, times: list[datetime]) -> KubernetesCluster:
    return KubernetesCluster(to_server(server.url, TOKEN, authority().ca), now=lambda: times.pop(0))


@pytest.fixture(autouse=True)
def _closed(cluster: KubernetesCluster):
    yield
    cluster.close()


def test_an_event_is_where_kubectl_describe_looks_for_it(server: FakeApiServer, cluster: KubernetesCluster):
    cluster.note("w1", "NodeFleetDrainWaits", "waits for default/web-1", warning=True)
    ((namespace, name),) = server.objects.stored["events"]
    event = server.objects.find("events", name, namespace)
    assert namespace == "default"
    assert name.startswith("w1.")
    assert event["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": "w1", "uid": "w1"}
    assert (event["reason"], event["type"]) == ("NodeFleetDrainWaits", "Warning")
    assert (event["firstTimestamp"], event["lastTimestamp"]) == ("2026-11-16T12:00:00Z", "2026-11-16T12:00:00Z")
    assert event["source"] == {"component": "node-fleet"}


@pytest.mark.parametrize(("warning", "kind"), [(True, "Warning"), (False, "Normal")])
def test_an_event_says_all_that_kubernetes_asks_for(server: FakeApiServer, cluster: KubernetesCluster, warning, kind):
    cluster.note("w1", "NodeFleetStays", "cannot leave", warning=warning)
    asked = server.asked[-1]
    name = "w1." + sha256(b"w1\nNodeFleetStays\ncannot leave").hexdigest()[:16]
    assert (asked.method, asked.path) == ("POST", "/api/v1/namespaces/default/events")
    assert asked.body == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "default"},
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": "w1", "uid": "w1"},
        "reason": "NodeFleetStays",
        "message": "cannot leave",
        "type": kind,
        "count": 1,
        "firstTimestamp": "2026-11-16T12:00:00Z",
        "lastTimestamp": "2026-11-16T12:00:00Z",
        "source": {"component": "node-fleet"},
        "reportingComponent": "node-fleet",
    }


def test_words_of_just_the_right_length_are_not_cut(server: FakeApiServer, cluster: KubernetesCluster):
    cluster.note("w1", "R" * 128, "m" * 1024)
    (event,) = server.objects.stored["events"].values()
    assert (event["reason"], event["message"]) == ("R" * 128, "m" * 1024)


def test_the_same_again_moves_only_its_last_time(server: FakeApiServer, cluster: KubernetesCluster):
    cluster.note("w1", "NodeFleetDrainWaits", "waits")
    cluster.note("w1", "NodeFleetDrainWaits", "waits")
    (event,) = server.objects.stored["events"].values()
    assert event["count"] == 2
    assert (event["firstTimestamp"], event["lastTimestamp"]) == ("2026-11-16T12:00:00Z", "2026-11-16T12:02:00Z")


def test_an_event_without_a_count_was_seen_once(server: FakeApiServer, cluster: KubernetesCluster):
    cluster.note("w1", "NodeFleetDrainWaits", "waits")
    (event,) = server.objects.stored["events"].values()
    del event["count"]
    cluster.note("w1", "NodeFleetDrainWaits", "waits")
    (event,) = server.objects.stored["events"].values()
    assert event["count"] == 2


@pytest.mark.parametrize("other", [("w2", "A", "m"), ("w1", "B", "m"), ("w1", "A", "n")])
def test_what_differs_is_another_event(server: FakeApiServer, cluster: KubernetesCluster, other: tuple[str, str, str]):
    cluster.note("w1", "A", "m")
    cluster.note(*other)
    assert len(server.objects.stored["events"]) == 2


def test_long_words_are_cut(server: FakeApiServer, cluster: KubernetesCluster):
    cluster.note("w" * 300, "R" * 300, "m" * 3000)
    ((_, name),) = server.objects.stored["events"]
    (event,) = server.objects.stored["events"].values()
    assert len(name) == 253
    assert len(event["reason"]) == 128
    assert (len(event["message"]), event["message"][-1]) == (1024, "…")


def test_an_event_that_was_forgotten_in_between_is_an_error_that_can_be_repeated(
    server: FakeApiServer, cluster: KubernetesCluster
):
    server.trouble("create", "events", reply=failure(409, "AlreadyExists", "there already"))
    with pytest.raises(UnavailableError) as caught:
        cluster.note("w1", "A", "m")
    assert_wording(str(caught.value))
    cluster.note("w1", "A", "m")
    assert len(server.objects.stored["events"]) == 1


def test_what_cannot_be_noted_is_an_error(server: FakeApiServer, cluster: KubernetesCluster):
    server.objects.denied.add(("create", "events"))
    with pytest.raises(DeniedError) as caught:
        cluster.note("w1", "A", "m")
    assert_wording(str(caught.value))

"""What `nodefleet doctor` asks."""

from datetime import UTC, datetime

import pytest

from nodefleet.adapters.kubernetes import NEEDED, KubernetesCluster
from nodefleet.adapters.kubernetes.reads import is_allowed
from nodefleet.errors import UnavailableError
from support.fake_api_server import FakeApiServer
from support.wording import assert_wording


def test_the_servers_version_and_clock(server: FakeApiServer, cluster: KubernetesCluster):
    assert cluster.server_version() == "v1.34.4+k3s1"
    assert cluster.server_time() == datetime(2026, 11, 16, 12, tzinfo=UTC)


@pytest.mark.parametrize("date", ["", "yesterday"])
def test_a_server_that_says_no_time(server: FakeApiServer, cluster: KubernetesCluster, date: str):
    server.date = date
    with pytest.raises(UnavailableError) as caught:
        cluster.server_time()
    assert_wording(str(caught.value))


def test_what_is_allowed_is_asked_for_as_a_role_writes_it(server: FakeApiServer, cluster: KubernetesCluster):
    server.objects.denied.add(("create", "pods/eviction"))
    assert cluster.is_allowed("list", "pods")
    assert not cluster.is_allowed("create", "pods", subresource="eviction", namespace="shop")
    assert cluster.is_allowed("list", "deployments", group="apps")
    plain, review, grouped = [each.body for each in server.asked]
    assert plain["spec"]["resourceAttributes"] == {"verb": "list", "resource": "pods"}
    assert grouped["spec"]["resourceAttributes"] == {"verb": "list", "resource": "deployments", "group": "apps"}
    assert (review["apiVersion"], review["kind"]) == ("authorization.k8s.io/v1", "SelfSubjectAccessReview")
    assert review["spec"]["resourceAttributes"] == {
        "verb": "create",
        "resource": "pods",
        "subresource": "eviction",
        "namespace": "shop",
    }


def test_a_question_without_a_namespace_is_for_all_of_them(cluster: KubernetesCluster, server: FakeApiServer):
    assert is_allowed(cluster._api, "list", "pods")
    assert server.asked[0].body["spec"]["resourceAttributes"] == {"verb": "list", "resource": "pods"}


def test_nothing_is_missing_from_a_role_that_allows_all(server: FakeApiServer, cluster: KubernetesCluster):
    assert cluster.missing_permissions() == ()
    assert len(server.asked) == sum(len(each.verbs) for each in NEEDED)


def test_what_is_missing_is_named_by_resource_and_verb(server: FakeApiServer, cluster: KubernetesCluster):
    server.objects.denied |= {("delete", "nodes"), ("create", "pods/eviction"), ("list", "statefulsets")}
    lacking = [(each.group, each.resource, verb) for each, verb in cluster.missing_permissions()]
    assert lacking == [("", "nodes", "delete"), ("", "pods/eviction", "create"), ("apps", "statefulsets", "list")]


def test_no_permission_reaches_further_than_it_must():
    """No wildcards, no secrets, and nothing is written but nodes, pods and events."""
    written = {each.resource for each in NEEDED if {"create", "update", "patch", "delete"} & set(each.verbs)}
    assert written == {"nodes", "pods", "pods/eviction", "events", "selfsubjectaccessreviews"}
    assert not any("*" in (each.group, each.resource, *each.verbs) for each in NEEDED)
    assert "secrets" not in {each.resource for each in NEEDED}

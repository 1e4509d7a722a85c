"""Who controls a pod, and how many of it that controller wants."""

from typing import Any

import pytest

from nodefleet.adapters.kubernetes import KubernetesCluster, pods
from nodefleet.model.workload import Owner, PodPhase
from support.fake_api_server import FakeApiServer
from support.k8s_objects import controller, pod, reference
from support.wording import assert_wording

WEB = Owner(kind="Deployment", name="web", uid="d-web", replicas=4)


def deployed(server: FakeApiServer, name: str = "web", hashed: str = "aaa", *, replicas: int = 3) -> dict[str, Any]:
    """A Deployment of four with one ReplicaSet; gives what its pods are made with."""
    server.objects.put("deployments", controller(name, f"d-{name}", replicas=4))
    owner, labels = reference("Deployment", name, f"d-{name}"), {"pod-template-hash": hashed}
    made = controller(f"{name}-{hashed}", f"rs-{name}-{hashed}", replicas=replicas, owner=owner, labels=labels)
    server.objects.put("replicasets", made)
    return {"owner": reference("ReplicaSet", f"{name}-{hashed}", f"rs-{name}-{hashed}"), "labels": labels}


def owner_of(cluster: KubernetesCluster, name: str = "web-1") -> Owner | None:
    return next(each.owner for each in cluster.view().pods or () if each.name == name)


def asked_for(server: FakeApiServer) -> list[str]:
    return [asked.resource for asked in server.asked]


def test_a_pod_of_a_deployment_belongs_to_the_deployment(server: FakeApiServer, cluster: KubernetesCluster):
    server.objects.put("pods", pod(**deployed(server)))
    assert owner_of(cluster) == WEB


def test_two_replica_sets_of_a_rollout_are_one_deployment(server: FakeApiServer, cluster: KubernetesCluster):
    server.objects.put("pods", pod("web-1", **deployed(server, hashed="aaa")))
    server.objects.put("pods", pod("web-2", **deployed(server, hashed="bbb")))
    first, second = (each.owner for each in cluster.view().pods or ())
    assert first == second == WEB
    assert first is second


def test_old_replica_sets_are_not_asked_for(server: FakeApiServer, cluster: KubernetesCluster):
    server.objects.put("pods", pod(**deployed(server, hashed="new")))
    deployed(server, hashed="old", replicas=0)
    cluster.view()
    (asked,) = [asked for asked in server.asked if asked.resource == "replicasets"]
    assert asked.query["labelSelector"] == "pod-template-hash in (new)"


def test_many_templates_are_asked_for_in_several_requests(
    server: FakeApiServer, cluster: KubernetesCluster, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(pods, "_HASHES", 2)
    for number in range(5):
        server.objects.put("pods", pod(f"web-{number}", **deployed(server, f"web{number}", f"h{number}")))
    found = [each.owner.name for each in cluster.view().pods or () if each.owner]
    assert found == [f"web{number}" for number in range(5)]
    assert asked_for(server).count("replicasets") == 3


def test_a_replica_set_of_nobody_stands_for_itself(server: FakeApiServer, cluster: KubernetesCluster):
    server.objects.put("replicasets", controller("lone", "rs-lone", replicas=2))
    server.objects.put("pods", pod(owner=reference("ReplicaSet", "lone", "rs-lone")))
    assert owner_of(cluster) == Owner(kind="ReplicaSet", name="lone", uid="rs-lone", replicas=2)
    assert asked_for(server).count("replicasets") == 1


def test_many_replica_sets_of_nobody_are_listed_at_once(
    server: FakeApiServer, cluster: KubernetesCluster, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(pods, "_MOST_BY_NAME", 1)
    for name in ("one", "two"):
        server.objects.put("replicasets", controller(name, f"rs-{name}", replicas=2))
        server.objects.put("pods", pod(name, owner=reference("ReplicaSet", name, f"rs-{name}")))
    assert [each.owner.name for each in cluster.view().pods or () if each.owner] == ["one", "two"]
    (asked,) = [asked for asked in server.asked if asked.resource == "replicasets"]
    assert asked.verb == "list"


def test_a_few_replica_sets_of_nobody_are_asked_for_by_name(
    server: FakeApiServer, cluster: KubernetesCluster, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(pods, "_MOST_BY_NAME", 2)
    for name in ("one", "two"):
        server.objects.put("replicasets", controller(name, f"rs-{name}", replicas=2))
        server.objects.put("pods", pod(name, owner=reference("ReplicaSet", name, f"rs-{name}")))
    assert [each.owner.name for each in cluster.view().pods or () if each.owner] == ["one", "two"]
    assert [asked.verb for asked in server.asked if asked.resource == "replicasets"] == ["get", "get"]


@pytest.mark.parametrize(("kind", "api"), [("Rollout", "argoproj.io/v1alpha1"), ("Deployment", "example.com/v1")])
def test_a_replica_set_of_something_else_stands_for_itself(
    server: FakeApiServer, cluster: KubernetesCluster, kind: str, api: str
):
    above = reference(kind, "web", "x-web", api)
    server.objects.put("replicasets", controller("web-1", "rs-web", replicas=2, owner=above))
    server.objects.put("pods", pod(owner=reference("ReplicaSet", "web-1", "rs-web")))
    assert owner_of(cluster) == Owner(kind="ReplicaSet", name="web-1", uid="rs-web", replicas=2)
    assert "deployments" not in asked_for(server)


def test_a_replica_set_whose_deployment_is_gone_stands_for_itself(server: FakeApiServer, cluster: KubernetesCluster):
    made = deployed(server)
    server.objects.remove("deployments", "web", "default")
    server.objects.put("pods", pod(**made))
    assert owner_of(cluster) == Owner(kind="ReplicaSet", name="web-aaa", uid="rs-web-aaa", replicas=3)


@pytest.mark.parametrize(
    ("kind", "plural", "api", "replicas"),
    [
        ("StatefulSet", "statefulsets", "apps/v1", 3),
        ("ReplicationController", "replicationcontrollers", "v1", 3),
        ("DaemonSet", "daemonsets", "apps/v1", None),
    ],
)
def test_other_controllers(
    server: FakeApiServer, cluster: KubernetesCluster, kind: str, plural: str, api: str, replicas: int | None
):
    server.objects.put(plural, controller("db", "u-db", replicas=replicas))
    server.objects.put("pods", pod(owner=reference(kind, "db", "u-db", api)))
    assert owner_of(cluster) == Owner(kind=kind, name="db", uid="u-db", replicas=replicas)
    others = [] if plural == "daemonsets" else [plural]
    assert asked_for(server) == ["nodes", "pods", "daemonsets", *others, "poddisruptionbudgets"]


def test_a_controller_without_a_number_wants_one(server: FakeApiServer, cluster: KubernetesCluster):
    server.objects.put("statefulsets", controller("db", "u-db", replicas=None))
    server.objects.put("pods", pod(owner=reference("StatefulSet", "db", "u-db")))
    assert owner_of(cluster) == Owner(kind="StatefulSet", name="db", uid="u-db", replicas=1)


@pytest.mark.parametrize(
    ("kind", "api"),
    [
        ("ReplicaSet", "apps/v1"),
        ("StatefulSet", "apps/v1"),
        ("DaemonSet", "apps/v1"),
        ("ReplicationController", "v1"),
        ("Job", "batch/v1"),
    ],
)
def test_a_controller_that_is_not_there_any_more_is_gone(
    server: FakeApiServer, cluster: KubernetesCluster, kind: str, api: str
):
    server.objects.put("pods", pod(owner=reference(kind, "db", "u-db", api)))
    assert owner_of(cluster) == Owner(kind=kind, name="db", uid="u-db", gone=True)


@pytest.mark.parametrize("plural", ["replicasets", "statefulsets"])
def test_another_controller_of_the_same_name_is_not_it(server: FakeApiServer, cluster: KubernetesCluster, plural: str):
    kind = {"replicasets": "ReplicaSet", "statefulsets": "StatefulSet"}[plural]
    server.objects.put(plural, controller("db", "u-new"))
    server.objects.put("pods", pod(owner=reference(kind, "db", "u-old")))
    assert owner_of(cluster) == Owner(kind=kind, name="db", uid="u-old", gone=True)


@pytest.mark.parametrize(
    ("kind", "api"),
    [
        ("Job", "batch.volcano.sh/v1alpha1"),
        ("StrimziPodSet", "core.strimzi.io/v1"),
        ("StatefulSet", "apps.kruise.io/v1"),
        ("Node", "v1"),
    ],
)
def test_controllers_that_are_not_looked_for_are_there(
    server: FakeApiServer, cluster: KubernetesCluster, kind: str, api: str
):
    server.objects.put("pods", pod(owner=reference(kind, "x", "u-x", api)))
    assert owner_of(cluster) == Owner(kind=kind, name="x", uid="u-x")
    assert asked_for(server) == ["nodes", "pods", "daemonsets", "poddisruptionbudgets"]


def test_a_job_that_is_there_has_no_scale(server: FakeApiServer, cluster: KubernetesCluster):
    server.objects.put("jobs", controller("night", "u-night"))
    server.objects.put("pods", pod(owner=reference("Job", "night", "u-night", "batch/v1")))
    assert owner_of(cluster) == Owner(kind="Job", name="night", uid="u-night")


def test_a_role_that_may_not_list_jobs_takes_them_to_be_there(
    server: FakeApiServer, cluster: KubernetesCluster, caplog: pytest.LogCaptureFixture
):
    server.objects.denied.add(("list", "jobs"))
    server.objects.put("pods", pod(owner=reference("Job", "night", "u-night", "batch/v1")))
    assert owner_of(cluster) == Owner(kind="Job", name="night", uid="u-night")
    assert_wording(caplog.messages)


def test_an_owner_that_is_no_controller_controls_nothing(server: FakeApiServer, cluster: KubernetesCluster):
    server.objects.put("pods", pod(owner={**reference("StatefulSet", "db", "u-db"), "controller": False}))
    assert owner_of(cluster) is None


def test_finished_pods_cost_no_request_and_their_controller_is_not_called_gone(
    server: FakeApiServer, cluster: KubernetesCluster
):
    owner = reference("ReplicaSet", "web-aaa", "rs-web-aaa")
    server.objects.put("pods", pod(phase=PodPhase.FAILED, owner=owner))
    assert owner_of(cluster) == Owner(kind="ReplicaSet", name="web-aaa", uid="rs-web-aaa")
    assert "replicasets" not in asked_for(server)


def test_the_pods_of_one_node_know_their_controllers_too(server: FakeApiServer, cluster: KubernetesCluster):
    server.objects.put("pods", pod(**deployed(server)))
    (found,) = cluster.pods_on("w1")
    assert found.owner == WEB

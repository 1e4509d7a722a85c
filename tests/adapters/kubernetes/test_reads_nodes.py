"""What becomes of a Node object."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from nodefleet.adapters.kubernetes import KubernetesCluster
from nodefleet.errors import LoginRefusedError, UnavailableError
from nodefleet.model.inventory import Effect, Node, Resources, Taint
from nodefleet.model.names import LEAVING_TAINT, POOL_LABEL, REASON_ANNOTATION, REMOVAL_ANNOTATION
from nodefleet.model.workload import HOST_LABEL, ZONE_LABEL
from support.fake_api_objects import failure
from support.fake_api_server import FakeApiServer
from support.k8s_objects import condition, node
from support.wording import assert_wording

ELEVEN = datetime(2026, 11, 16, 11, tzinfo=UTC)
OURS = Taint(key=LEAVING_TAINT, value="20261116T120500Z")


def seen(server: FakeApiServer, cluster: KubernetesCluster, thing: dict[str, Any]) -> Node:
    server.objects.put("nodes", thing)
    (found,) = cluster.view().nodes
    assert found == cluster.node(found.name)
    assert cluster.nodes() == (replace(found, heartbeat_at=None),)
    return found


def test_a_worker_in_full(server: FakeApiServer, cluster: KubernetesCluster):
    made = node("w1", instance="i-0abc", taints=(Taint(key="gpu", value="a", effect=Effect.NO_EXECUTE),))
    assert seen(server, cluster, made) == Node(
        name="w1",
        pool="default",
        instance="i-0abc",
        ready=True,
        ready_changed_at=ELEVEN,
        created_at=ELEVEN,
        labels={HOST_LABEL: "w1", ZONE_LABEL: "us-east-1a", POOL_LABEL: "default"},
        taints=(Taint(key="gpu", value="a", effect=Effect.NO_EXECUTE),),
        allocatable=Resources(cpu=2000, memory=2 << 30, storage=18242267924, pods=30),
    )


@pytest.mark.parametrize(
    ("provider", "instance"),
    [
        ("aws:///us-east-1a/i-0123456789abcdef0", "i-0123456789abcdef0"),
        ("aws:////i-0abc", "i-0abc"),
        ("k3s://w1", ""),
        ("", ""),
        ("aws:///us-east-1a/fargate-10-0-0-1", ""),
        ("gce://project/zone/i-0abc", ""),
        ("aws:///us-east-1a/i-0abc/more", ""),
    ],
)
def test_the_machine_is_in_the_provider_id(
    server: FakeApiServer, cluster: KubernetesCluster, provider: str, instance: str
):
    made = node()
    made["spec"]["providerID"] = provider
    assert seen(server, cluster, made).instance == instance


@pytest.mark.parametrize("role", ["control-plane", "master"])
def test_the_control_plane_is_known_by_its_role(server: FakeApiServer, cluster: KubernetesCluster, role: str):
    made = node(pool=None, labels={f"node-role.kubernetes.io/{role}": ""})
    found = seen(server, cluster, made)
    assert found.control_plane
    assert found.pool is None


def test_an_empty_pool_is_no_pool(server: FakeApiServer, cluster: KubernetesCluster):
    assert seen(server, cluster, node(pool="")).pool is None


@pytest.mark.parametrize("status", ["False", "Unknown", ""])
def test_only_true_is_ready(server: FakeApiServer, cluster: KubernetesCluster, status: str):
    made = node()
    made["status"]["conditions"] = [
        condition("MemoryPressure", is_so=True),
        {"type": "Ready", "status": status, "lastTransitionTime": "2026-11-16T11:30:00Z"},
    ]
    found = seen(server, cluster, made)
    assert not found.ready
    assert found.ready_changed_at == datetime(2026, 11, 16, 11, 30, tzinfo=UTC)


@pytest.mark.parametrize("conditions", [None, [], [{"type": "Ready", "status": "False", "lastTransitionTime": None}]])
def test_a_node_that_never_said_anything_is_not_ready_since_it_is_there(
    server: FakeApiServer, cluster: KubernetesCluster, conditions: Any
):
    made = node()
    made["status"]["conditions"] = conditions
    found = seen(server, cluster, made)
    assert (found.ready, found.ready_changed_at) == (False, ELEVEN)


def test_a_node_that_just_registered_has_next_to_nothing(server: FakeApiServer, cluster: KubernetesCluster):
    found = seen(server, cluster, {"metadata": {"name": "w1", "labels": None, "annotations": None}})
    assert (found.ready, found.pool, found.instance, found.taints) == (False, None, "", ())


def test_our_cordon_is_known_by_taint_and_annotation_together(server: FakeApiServer, cluster: KubernetesCluster):
    made = node(taints=(OURS,), annotations={REMOVAL_ANNOTATION: "r-1"}, unschedulable=True)
    found = seen(server, cluster, made)
    assert (found.cordoned, found.removal) == (True, "r-1")
    assert found.taints == (OURS,)  # the scheduler sees it too


def test_our_taint_without_an_annotation_names_no_removal(server: FakeApiServer, cluster: KubernetesCluster):
    assert seen(server, cluster, node(taints=(OURS,), unschedulable=True)).removal == ""


def test_an_annotation_without_our_taint_is_a_cordon_of_a_person(server: FakeApiServer, cluster: KubernetesCluster):
    made = node(annotations={REMOVAL_ANNOTATION: "r-1"}, unschedulable=True)
    found = seen(server, cluster, made)
    assert (found.cordoned, found.removal) == (True, "")


def test_a_cordon_that_a_person_lifted_still_shows_whose_taint_is_left(
    server: FakeApiServer, cluster: KubernetesCluster
):
    found = seen(server, cluster, node(taints=(OURS,), annotations={REMOVAL_ANNOTATION: "r-1"}))
    assert (found.cordoned, found.removal) == (False, "r-1")


def test_only_annotations_that_tell_something_are_kept(server: FakeApiServer, cluster: KubernetesCluster):
    telling = {
        "node-fleet.io/scale-down-disabled": "true",
        "cluster-autoscaler.kubernetes.io/scale-down-disabled": "true",
        "karpenter.sh/do-not-disrupt": "true",
        REASON_ANNOTATION: "because",
    }
    found = seen(server, cluster, node(annotations={**telling, "flannel.alpha.coreos.com/backend-data": "{}"}))
    assert found.annotations == telling


def test_an_effect_that_is_new_to_us_keeps_pods_off(server: FakeApiServer, cluster: KubernetesCluster):
    made = node()
    made["spec"]["taints"] = [{"key": "new", "effect": "NoNothing"}]
    assert seen(server, cluster, made).taints == (Taint(key="new", effect=Effect.NO_SCHEDULE),)


def test_an_amount_that_nobody_understands_is_an_error(server: FakeApiServer, cluster: KubernetesCluster):
    made = node()
    made["status"]["allocatable"] = {"cpu": "many"}
    server.objects.put("nodes", made)
    with pytest.raises(UnavailableError) as caught:
        cluster.view()
    assert_wording(str(caught.value))


# ── how it fares ─────────────────────────────────────────────────────────────────────────────────────────────────


def lease(name: str, renewed: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "kube-node-lease"}, "spec": {"renewTime": renewed}}


def test_heartbeats_are_asked_for_when_a_node_is_not_ready(server: FakeApiServer, cluster: KubernetesCluster):
    server.objects.put("nodes", node("w1"))
    server.objects.put("leases", lease("w1", "2026-11-16T11:00:00.000000Z"))
    assert cluster.view().nodes[0].heartbeat_at is None
    assert "leases" not in [asked.resource for asked in server.asked]
    server.objects.put("nodes", node("w2", instance="i-2", ready=False))
    assert [each.heartbeat_at for each in cluster.view().nodes] == [ELEVEN, None]
    (asked,) = [each for each in server.asked if each.resource == "leases"]
    assert (asked.verb, asked.namespace) == ("list", "kube-node-lease")


def test_without_the_right_to_list_leases_the_rest_is_seen(
    server: FakeApiServer, cluster: KubernetesCluster, caplog: pytest.LogCaptureFixture
):
    server.objects.put("nodes", node("w1", ready=False))
    server.objects.denied.add(("list", "leases"))
    assert cluster.view().nodes[0].heartbeat_at is None
    assert_wording(caplog.messages)


def test_a_login_that_is_refused_is_not_passed_over(server: FakeApiServer, cluster: KubernetesCluster):
    server.objects.put("nodes", node("w1", ready=False))
    server.trouble("list", "leases", reply=failure(401, "Unauthorized", "Unauthorized"), times=9)
    with pytest.raises(LoginRefusedError):
        cluster.view()


def test_pressure_since_it_first_showed(server: FakeApiServer, cluster: KubernetesCluster):
    made = node("w1")
    made["status"]["conditions"] += [condition("DiskPressure", is_so=True), condition("PIDPressure", is_so=False)]
    found = seen(server, cluster, made)
    assert (found.pressures, found.pressed_since) == (("DiskPressure",), ELEVEN)

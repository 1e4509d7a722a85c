"""Where the volumes are that pods claim."""

from typing import Any

import pytest

from fake_api_server import FakeApiServer
from k8s_objects import claim, node, pod, term, volume
from nodefleet.adapters.k8s import KubernetesCluster
from nodefleet.decide.scheduling.fits import why_not
from nodefleet.decide.scheduling.places import NodeModel
from nodefleet.domain.workload import HOST_LABEL, ZONE_LABEL, PodPhase, Volume, VolumeKind

DATA = {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}
EBS = "topology.ebs.csi.aws.com/zone"


def claimed(server: FakeApiServer, cluster: KubernetesCluster, stored: dict[str, Any] | None, **how: Any) -> Volume:
    """What a pod's claim on this PersistentVolume becomes."""
    server.objects.put("persistentvolumeclaims", claim("data-db-0", "pv-1"))
    if stored:
        server.objects.put("persistentvolumes", stored)
    server.objects.put("pods", pod("db-0", volumes=[DATA], **how))
    (found,) = cluster.view().pods or ()
    (only,) = found.volumes
    return only


@pytest.mark.parametrize("source", [{"hostPath": {"path": "/opt/x"}}, {"local": {"path": "/opt/x"}}])
def test_a_local_path_volume_of_k3s_is_on_one_node(server: FakeApiServer, cluster: KubernetesCluster, source: Any):
    found = claimed(server, cluster, volume("pv-1", term(HOST_LABEL, "w1"), **source))
    assert found == Volume(kind=VolumeKind.LOCAL, name="data-db-0", node="w1")


def test_a_host_label_that_is_not_the_name_leads_to_the_node(server: FakeApiServer, cluster: KubernetesCluster):
    server.objects.put("nodes", node("w1.example", labels={HOST_LABEL: "w1"}))
    found = claimed(server, cluster, volume("pv-1", term(HOST_LABEL, "w1"), local={"path": "/x"}))
    assert found.node == "w1.example"


def test_a_volume_may_name_its_node_by_field_or_by_a_label_of_its_driver(
    server: FakeApiServer, cluster: KubernetesCluster
):
    server.objects.put("nodes", node("w1"))
    by_field = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["w1"]}]}
    found = claimed(server, cluster, volume("pv-1", by_field, csi={"driver": "x"}))
    assert (found.kind, found.node) == (VolumeKind.LOCAL, "w1")
    server.objects.put("persistentvolumes", volume("pv-1", term("topology.topolvm.io/node", "w1"), csi={"driver": "x"}))
    (again,) = cluster.view().pods or ()
    assert (again.volumes[0].kind, again.volumes[0].node) == (VolumeKind.LOCAL, "w1")


def test_a_host_path_volume_without_a_node_is_local_all_the_same(server: FakeApiServer, cluster: KubernetesCluster):
    found = claimed(server, cluster, volume("pv-1", hostPath={"path": "/srv"}))
    assert found == Volume(kind=VolumeKind.LOCAL, name="data-db-0")


def test_a_volume_on_several_hosts_is_on_no_single_one(server: FakeApiServer, cluster: KubernetesCluster):
    found = claimed(server, cluster, volume("pv-1", term(HOST_LABEL, "w1"), term(HOST_LABEL, "w2"), local={}))
    assert (found.kind, found.node) == (VolumeKind.LOCAL, None)


@pytest.mark.parametrize(
    ("terms", "zones"),
    [
        ([term(EBS, "us-east-1a")], ("us-east-1a",)),
        ([term(ZONE_LABEL, "us-east-1b", "us-east-1a")], ("us-east-1a", "us-east-1b")),
        ([term("failure-domain.beta.kubernetes.io/zone", "us-east-1a")], ("us-east-1a",)),
        ([term(EBS, "us-east-1a"), term(ZONE_LABEL, "us-east-1b")], ("us-east-1a", "us-east-1b")),
        ([term(EBS, "us-east-1a"), term("other", "x")], ()),  # the second term allows every zone
        ([term(ZONE_LABEL, "us-east-1a", operator="NotIn")], ()),
        ([], ()),
    ],
)
def test_a_volume_that_can_follow_is_in_its_zones(
    server: FakeApiServer, cluster: KubernetesCluster, terms: list[Any], zones: tuple[str, ...]
):
    found = claimed(server, cluster, volume("pv-1", *terms, csi={"driver": "ebs.csi.aws.com"}))
    assert found == Volume(kind=VolumeKind.CLAIM, name="data-db-0", zones=zones)


def test_two_lines_on_zones_in_one_term_must_both_hold(server: FakeApiServer, cluster: KubernetesCluster):
    both = {
        "matchExpressions": [*term(EBS, "a", "b")["matchExpressions"], *term(ZONE_LABEL, "b", "c")["matchExpressions"]]
    }
    assert claimed(server, cluster, volume("pv-1", both)).zones == ("b",)


def test_an_old_volume_says_its_zones_in_a_label(server: FakeApiServer, cluster: KubernetesCluster):
    found = claimed(server, cluster, volume("pv-1", labels={ZONE_LABEL: "us-east-1b__us-east-1a"}))
    assert found.zones == ("us-east-1a", "us-east-1b")


def waiting(server: FakeApiServer, cluster: KubernetesCluster, *volumes: Any) -> tuple[Volume, ...]:
    server.objects.put("pods", pod("db-0", node=None, phase=PodPhase.PENDING, ready=False, volumes=list(volumes)))
    (found,) = cluster.view().pods or ()
    return found.volumes


def test_a_claim_without_a_volume_yet_may_be_bound_anywhere(server: FakeApiServer, cluster: KubernetesCluster):
    server.objects.put("persistentvolumeclaims", claim("data-db-0"))
    assert waiting(server, cluster, DATA) == (Volume(kind=VolumeKind.CLAIM, name="data-db-0"),)


@pytest.mark.parametrize("exists", [False, True])
def test_no_node_helps_a_pod_whose_claim_or_volume_does_not_exist(
    server: FakeApiServer, cluster: KubernetesCluster, exists: bool
):
    if exists:
        server.objects.put("persistentvolumeclaims", claim("data-db-0", "pv-lost"))
    waiting(server, cluster, DATA)
    (found,) = cluster.view().pods or ()
    why = why_not(found, NodeModel(name="new", labels={ZONE_LABEL: "us-east-1a"}))
    what = "its claim names a volume that is not there" if exists else "there is no such claim"
    assert why == f"its volume data-db-0 is in no zone: {what}"


def test_a_pod_that_runs_had_its_claim_when_it_started(server: FakeApiServer, cluster: KubernetesCluster):
    assert claimed(server, cluster, None) == Volume(kind=VolumeKind.CLAIM, name="data-db-0")


def test_a_claim_of_another_namespace_is_not_meant(server: FakeApiServer, cluster: KubernetesCluster):
    server.objects.put("persistentvolumeclaims", claim("data-db-0", "pv-1", namespace="other"))
    server.objects.put("persistentvolumes", volume("pv-1", term(HOST_LABEL, "w1"), local={}))
    (found,) = waiting(server, cluster, DATA)
    assert found.node is None


def test_a_volume_that_is_made_for_a_pod_alone_ends_with_it(server: FakeApiServer, cluster: KubernetesCluster):
    scratch = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}
    server.objects.put("pods", pod("db-0", node="w1", volumes=[scratch]))
    (found,) = cluster.view().pods or ()
    assert found.volumes == (Volume(kind=VolumeKind.EMPTY_DIR, name="scratch"),)


def test_a_pod_that_waits_with_such_a_volume_goes_where_it_is(server: FakeApiServer, cluster: KubernetesCluster):
    server.objects.put("persistentvolumeclaims", claim("db-0-scratch", "pv-1"))
    server.objects.put("persistentvolumes", volume("pv-1", term(EBS, "us-east-1a")))
    found = waiting(server, cluster, {"name": "scratch", "ephemeral": {}}, {"name": "late", "ephemeral": {}})
    assert found == (
        Volume(kind=VolumeKind.CLAIM, name="db-0-scratch", zones=("us-east-1a",)),
        Volume(kind=VolumeKind.CLAIM, name="db-0-late"),  # made in a moment
    )


def test_volumes_are_only_asked_for_if_some_pod_has_one(server: FakeApiServer, cluster: KubernetesCluster):
    server.objects.put("pods", pod("a"))
    server.objects.put("pods", pod("b", phase=PodPhase.SUCCEEDED, volumes=[DATA]))
    cluster.view()
    assert not {"persistentvolumes", "persistentvolumeclaims"} & {asked.resource for asked in server.asked}

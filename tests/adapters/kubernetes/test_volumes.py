"""Where the volumes are that pods claim."""

from typing import Any

import pytest

from nodefleet.adapters.kubernetes import KubernetesCluster
from nodefleet.errors import LoginRefusedError
from nodefleet.model.workload import HOST_LABEL, ZONE_LABEL, PodPhase, Volume, VolumeKind
from nodefleet.scheduling.predicates import NodeModel, unmet_predicate
from support.fake_api_objects import failure
from support.fake_api_server import FakeApiServer
from support.k8s_objects import claim, node, pod, storage_class, term, volume
from support.sentences import is_phrase
from support.wording import assert_wording

DATA = {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}
EBS = "topology.ebs.csi.aws.com/zone"
DRIVER = "ebs.csi.aws.com"


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
    assert all(not each.unusable or is_phrase(each.unusable) for each in found.volumes)
    return found.volumes


def unbound(server: FakeApiServer, cluster: KubernetesCluster, *classes: Any, **spec: Any) -> Volume:
    """What a claim of StorageClass `fast` without a volume becomes for a pod that waits."""
    server.objects.put("persistentvolumeclaims", claim("data-db-0", **{"storageClassName": "fast", **spec}))
    for each in classes:
        server.objects.put("storageclasses", each)
    (found,) = waiting(server, cluster, DATA)
    return found


def test_a_claim_that_waits_for_its_pod_may_be_bound_anywhere(server: FakeApiServer, cluster: KubernetesCluster):
    found = unbound(server, cluster, storage_class("fast"))
    assert found == Volume(kind=VolumeKind.CLAIM, name="data-db-0")


def test_a_storage_class_may_allow_some_zones_only(server: FakeApiServer, cluster: KubernetesCluster):
    allowed = [{"matchLabelExpressions": [{"key": EBS, "values": ["us-east-1b", "us-east-1a"]}]}]
    assert unbound(server, cluster, storage_class("fast", allowedTopologies=allowed)).zones == (
        "us-east-1a",
        "us-east-1b",
    )


# ── attach limits ────────────────────────────────────────────────────────────────────────────────────────────────


def attaching(name: str, *drivers: tuple[str, int | None]) -> dict[str, Any]:
    """A CSINode."""
    listed = [
        {"name": driver, "nodeID": name, "topologyKeys": None, "allocatable": {"count": count} if count else None}
        for driver, count in drivers
    ]
    return {"metadata": {"name": name}, "spec": {"drivers": listed or None}}


def limits(cluster: KubernetesCluster) -> dict[str, Any]:
    return {each.name: dict(each.attach_limits) for each in cluster.view().nodes}


def test_a_node_attaches_as_many_volumes_as_its_driver_says(server: FakeApiServer, cluster: KubernetesCluster):
    for name in ("w1", "w2", "w3"):
        server.objects.put("nodes", node(name))
    server.objects.put("csinodes", attaching("w1", (DRIVER, 25), ("efs.csi.aws.com", None)))
    server.objects.put("csinodes", attaching("w2"))
    found = claimed(server, cluster, volume("pv-1", csi={"driver": DRIVER, "volumeHandle": "vol-1"}))
    assert (found.driver, found.handle) == (DRIVER, "vol-1")
    assert limits(cluster) == {"w1": {DRIVER: 25}, "w2": {}, "w3": {}}


def test_volumes_of_a_driver_without_a_limit_are_not_counted(server: FakeApiServer, cluster: KubernetesCluster):
    server.objects.put("nodes", node("w1"))
    server.objects.put("csinodes", attaching("w1", (DRIVER, 25)))
    found = claimed(server, cluster, volume("pv-1", csi={"driver": "efs.csi.aws.com", "volumeHandle": "fs-1"}))
    assert found.driver == ""


def test_a_claim_that_waits_for_its_pod_counts_for_its_class_s_driver(
    server: FakeApiServer, cluster: KubernetesCluster
):
    server.objects.put("nodes", node("w1"))
    server.objects.put("csinodes", attaching("w1", (DRIVER, 25)))
    found = unbound(server, cluster, storage_class("fast"))
    assert (found.driver, found.handle) == (DRIVER, "default/data-db-0")


def test_a_role_that_may_not_list_csi_nodes_knows_no_limit(
    server: FakeApiServer, cluster: KubernetesCluster, caplog: pytest.LogCaptureFixture
):
    server.objects.denied.add(("list", "csinodes"))
    server.objects.put("nodes", node("w1"))
    server.objects.put("csinodes", attaching("w1", (DRIVER, 25)))
    found = claimed(server, cluster, volume("pv-1", csi={"driver": DRIVER, "volumeHandle": "vol-1"}))
    assert (found.driver, limits(cluster)) == ("", {"w1": {}})
    assert_wording(caplog.messages)


def test_local_volumes_ask_for_no_limits(server: FakeApiServer, cluster: KubernetesCluster):
    server.objects.put("nodes", node("w1"))
    claimed(server, cluster, volume("pv-1", term(HOST_LABEL, "w1"), local={"path": "/x"}))
    assert "csinodes" not in {asked.resource for asked in server.asked}


@pytest.mark.parametrize(
    ("classes", "spec"),
    [
        ([], {}),  # no such class
        ([storage_class("fast", waits=False)], {}),
        ([storage_class("fast")], {"storageClassName": None}),  # no default class when it was made
        ([storage_class("fast")], {"storageClassName": ""}),  # waits for a volume that an operator makes
        ([storage_class("fast", provisioner="kubernetes.io/no-provisioner")], {}),  # and there is none
    ],
)
def test_no_node_helps_a_pod_whose_claim_is_not_bound_by_a_node(
    server: FakeApiServer, cluster: KubernetesCluster, classes: list[Any], spec: dict[str, Any]
):
    assert_wording(unbound(server, cluster, *classes, **spec).unusable)
    (found,) = cluster.view().pods or ()
    assert unmet_predicate(found, NodeModel(name="new", labels={ZONE_LABEL: "us-east-1a"})) is not None


LOCAL = storage_class("fast", provisioner="kubernetes.io/no-provisioner")


def free_volume(name: str, *terms: Any, **spec: Any) -> dict[str, Any]:
    return volume(name, *terms, storageClassName="fast", **spec)


def test_a_claim_that_takes_a_volume_from_a_stock_goes_where_that_is(server: FakeApiServer, cluster: KubernetesCluster):
    server.objects.put("persistentvolumes", free_volume("pv-1", term(HOST_LABEL, "w1"), local={}))
    server.objects.put(
        "persistentvolumes", free_volume("pv-2", term(HOST_LABEL, "w2"), local={}, claimRef={"name": "x"})
    )
    assert unbound(server, cluster, LOCAL).node == "w1"


def test_the_only_one_of_a_stock_may_be_in_a_zone(server: FakeApiServer, cluster: KubernetesCluster):
    server.objects.put("persistentvolumes", free_volume("pv-1", term(EBS, "a")))
    found = unbound(server, cluster, LOCAL)
    assert (found.zones, found.node, found.unusable) == (("a",), None, "")


def test_of_a_local_volume_and_one_in_a_zone_neither_place_is_certain(
    server: FakeApiServer, cluster: KubernetesCluster
):
    server.objects.put("persistentvolumes", free_volume("pv-1", term(HOST_LABEL, "w1"), local={}))
    server.objects.put("persistentvolumes", free_volume("pv-2", term(EBS, "b")))
    found = unbound(server, cluster, LOCAL)
    assert (found.zones, found.node, found.unusable) == ((), None, "")


def test_a_new_node_has_none_of_several_local_volumes(server: FakeApiServer, cluster: KubernetesCluster):
    server.objects.put("persistentvolumes", free_volume("pv-1", term(HOST_LABEL, "w1"), local={}))
    server.objects.put("persistentvolumes", free_volume("pv-2", term(HOST_LABEL, "w2"), local={}))
    assert_wording(unbound(server, cluster, LOCAL).unusable)


@pytest.mark.parametrize(("second", "zones"), [([term(EBS, "b")], ("a", "b")), ([], ())])
def test_a_stock_of_volumes_is_in_all_their_zones(
    server: FakeApiServer, cluster: KubernetesCluster, second: list[Any], zones: tuple[str, ...]
):
    server.objects.put("persistentvolumes", free_volume("pv-1", term(EBS, "a")))
    server.objects.put("persistentvolumes", free_volume("pv-2", *second))
    found = unbound(server, cluster, LOCAL)
    assert (found.zones, found.unusable) == (zones, "")


def test_a_role_without_storage_classes_takes_a_claim_as_waiting_for_its_pod(
    server: FakeApiServer, cluster: KubernetesCluster, caplog: pytest.LogCaptureFixture
):
    server.objects.denied.add(("list", "storageclasses"))
    assert unbound(server, cluster) == Volume(kind=VolumeKind.CLAIM, name="data-db-0")
    assert_wording(caplog.messages)


def test_a_token_that_is_not_accepted_is_an_error_all_the_same(server: FakeApiServer, cluster: KubernetesCluster):
    server.trouble("list", "storageclasses", reply=failure(401, "Unauthorized", "Unauthorized"))
    with pytest.raises(LoginRefusedError):
        unbound(server, cluster)


def test_storage_classes_are_only_asked_for_if_a_pod_waits_for_an_unbound_claim(
    server: FakeApiServer, cluster: KubernetesCluster
):
    claimed(server, cluster, volume("pv-1"))
    server.objects.put("persistentvolumeclaims", claim("unused"))
    cluster.view()
    assert "storageclasses" not in {asked.resource for asked in server.asked}


@pytest.mark.parametrize("exists", [False, True])
def test_no_node_helps_a_pod_whose_claim_or_volume_does_not_exist(
    server: FakeApiServer, cluster: KubernetesCluster, exists: bool
):
    if exists:
        server.objects.put("persistentvolumeclaims", claim("data-db-0", "pv-lost"))
    waiting(server, cluster, DATA)
    (found,) = cluster.view().pods or ()
    why = unmet_predicate(found, NodeModel(name="new", labels={ZONE_LABEL: "us-east-1a"}))
    assert_wording(why)


def test_no_node_helps_a_pod_whose_claim_is_being_deleted(server: FakeApiServer, cluster: KubernetesCluster):
    gone = claim("data-db-0", "pv-1")
    gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    server.objects.put("persistentvolumeclaims", gone)
    server.objects.put("persistentvolumes", volume("pv-1"))
    assert waiting(server, cluster, DATA)[0].unusable
    server.objects.put("pods", pod("db-0", volumes=[DATA]))
    (runs,) = cluster.view().pods or ()
    assert not runs.volumes[0].unusable


def sharing(server: FakeApiServer, cluster: KubernetesCluster, **second: Any) -> dict[str, str]:
    """What keeps each of two pods from a claim that is for one pod alone."""
    server.objects.put("persistentvolumeclaims", claim("data-db-0", "pv-1", accessModes=["ReadWriteOncePod"]))
    server.objects.put("persistentvolumes", volume("pv-1"))
    waits = {"node": None, "phase": PodPhase.PENDING, "ready": False}
    server.objects.put("pods", pod("a", volumes=[DATA], **waits))
    server.objects.put("pods", pod("b", volumes=[DATA], **{**waits, **second}))
    return {found.name: found.volumes[0].unusable for found in cluster.view().pods or ()}


def test_a_claim_for_one_pod_keeps_every_other_pod_waiting(server: FakeApiServer, cluster: KubernetesCluster):
    kept_off = sharing(server, cluster, node="w1", phase=PodPhase.RUNNING)
    assert kept_off["a"]
    assert not kept_off["b"]


def test_of_two_pods_that_wait_for_such_a_claim_one_may_have_it(server: FakeApiServer, cluster: KubernetesCluster):
    kept_off = sharing(server, cluster)
    assert not kept_off["a"]
    assert kept_off["b"]


def test_a_finished_pod_has_given_such_a_claim_back(server: FakeApiServer, cluster: KubernetesCluster):
    assert not sharing(server, cluster, node="w1", phase=PodPhase.SUCCEEDED)["a"]


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

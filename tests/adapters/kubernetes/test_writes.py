"""Nodes that leave, are uncordoned and forgotten: one guarded write each, and nothing of others is lost."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from nodefleet.adapters.kubernetes import KubernetesCluster
from nodefleet.adapters.kubernetes.writes import find
from nodefleet.errors import ChangedError, DeniedError, UnavailableError
from nodefleet.model.names import LEAVING_TAINT, POOL_LABEL, REASON_ANNOTATION, REMOVAL_ANNOTATION
from nodefleet.model.operations import Cordon
from support.fake_api_objects import Reply, conflict, failure
from support.fake_api_server import Asked, FakeApiServer
from support.k8s_objects import node
from support.wording import assert_wording

DEADLINE = datetime(2026, 11, 16, 12, 5, tzinfo=UTC)
LEAVES = Cordon(node="w1", removal="removal/a/i-1", reason="CPU 20 % < 30 %", deadline=DEADLINE)
OURS = {"key": LEAVING_TAINT, "value": "20261116T120500Z", "effect": "NoSchedule"}
UNREACHABLE = {
    "key": "node.kubernetes.io/unreachable",
    "effect": "NoExecute",
    "timeAdded": "2026-11-16T11:59:00Z",
    "somethingNew": {"of": "tomorrow"},
}
RACE = conflict("nodes", "w1", "the object has been modified")


@pytest.fixture
def in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as there:
        there.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


def writes(server: FakeApiServer) -> list[Asked]:
    return [asked for asked in server.asked if asked.method != "GET"]


def stored(server: FakeApiServer) -> dict[str, Any]:
    found = server.objects.find("nodes", "w1")
    assert found
    return found


def with_taints(*taints: dict[str, Any], **how: Any) -> dict[str, Any]:
    made = node("w1", **how)
    made["spec"]["taints"] = list(taints)
    return made


def test_a_node_that_names_no_machine_is_cordoned_and_deleted(server: FakeApiServer, cluster: KubernetesCluster):
    nameless = node("w1", ready=False)
    nameless["spec"]["providerID"] = "k3s://w1"
    server.objects.put("nodes", nameless)
    cluster.cordon(LEAVES, "i-1")
    assert stored(server)["spec"]["unschedulable"]
    cluster.delete_node("w1", "")
    assert server.objects.find("nodes", "w1") is None


def test_a_cordon_is_one_guarded_patch(server: FakeApiServer, cluster: KubernetesCluster):
    version = server.objects.put("nodes", node("w1"))["metadata"]["resourceVersion"]
    cluster.cordon(LEAVES, "i-1")
    (patch,) = writes(server)
    assert patch.headers["content-type"] == "application/merge-patch+json"
    assert patch.body == {
        "metadata": {
            "resourceVersion": version,
            "annotations": {REMOVAL_ANNOTATION: "removal/a/i-1", REASON_ANNOTATION: "CPU 20 % < 30 %"},
        },
        "spec": {"unschedulable": True, "taints": [OURS]},
    }


def test_taints_of_others_survive_with_all_that_is_in_them(server: FakeApiServer, cluster: KubernetesCluster):
    server.objects.put("nodes", with_taints(UNREACHABLE))
    cluster.cordon(LEAVES, "i-1")
    assert stored(server)["spec"]["taints"] == [UNREACHABLE, OURS]
    cluster.uncordon("w1", LEAVES.removal)
    assert stored(server)["spec"]["taints"] == [UNREACHABLE]


def test_the_deadline_is_written_in_utc_and_as_a_label_may_be(
    server: FakeApiServer, cluster: KubernetesCluster, in_tokyo: None
):
    server.objects.put("nodes", node("w1"))
    berlin = DEADLINE.astimezone(timezone(timedelta(hours=1)))
    cluster.cordon(Cordon(node="w1", removal="r", reason="", deadline=berlin), "i-1")
    assert stored(server)["spec"]["taints"] == [OURS]


def test_a_long_reason_is_cut(server: FakeApiServer, cluster: KubernetesCluster):
    server.objects.put("nodes", node("w1"))
    cluster.cordon(Cordon(node="w1", removal="r", reason="because " * 999, deadline=DEADLINE), "i-1")
    reason = stored(server)["metadata"]["annotations"][REASON_ANNOTATION]
    assert (len(reason), reason[-1]) == (500, "…")


@pytest.mark.parametrize(("length", "cut"), [(500, False), (501, True)])
def test_a_reason_has_five_hundred_characters_at_most(
    server: FakeApiServer, cluster: KubernetesCluster, length: int, cut: bool
):
    server.objects.put("nodes", node("w1"))
    cluster.cordon(Cordon(node="w1", removal="r", reason="x" * length, deadline=DEADLINE), "i-1")
    reason = stored(server)["metadata"]["annotations"][REASON_ANNOTATION]
    assert reason == ("x" * 499 + "…" if cut else "x" * length)


@pytest.mark.parametrize("instance", ["i-2", ""])
def test_a_node_of_another_machine_is_not_touched(server: FakeApiServer, cluster: KubernetesCluster, instance: str):
    server.objects.put("nodes", node("w1", instance="i-1", ready=False))
    with pytest.raises(ChangedError) as caught:
        cluster.delete_node("w1", instance)
    assert_wording(str(caught.value))
    assert writes(server) == []


def test_a_node_that_cannot_be_read_is_said_so(server: FakeApiServer, cluster: KubernetesCluster):
    server.trouble("get", "nodes", reply=Reply(200, b'{"metadata": 7}'))
    with pytest.raises(UnavailableError) as caught:
        cluster.node("w1")
    assert_wording(str(caught.value))


def test_a_node_that_names_no_machine_is_not_another_ones(server: FakeApiServer, cluster: KubernetesCluster):
    made = node("w1", ready=False)
    made["spec"]["providerID"] = "k3s://w1"
    server.objects.put("nodes", made)
    cluster.cordon(LEAVES, "i-1")
    cluster.delete_node("w1", "i-1")
    assert cluster.node("w1") is None


def test_a_change_in_between_is_judged_anew(server: FakeApiServer, cluster: KubernetesCluster):
    server.objects.put("nodes", node("w1"))
    server.trouble("patch", "nodes", reply=RACE)
    cluster.cordon(LEAVES, "i-1")
    assert stored(server)["spec"]["unschedulable"]
    assert [asked.verb for asked in server.asked] == ["get", "patch", "get", "patch"]


@pytest.mark.parametrize(
    ("verb", "write"),
    [
        ("patch", lambda cluster: cluster.cordon(LEAVES, "i-1")),
        ("patch", lambda cluster: cluster.uncordon("w1", LEAVES.removal)),
        ("delete", lambda cluster: cluster.delete_node("w1", "i-1")),
    ],
)
def test_a_node_that_changes_all_the_time_is_left(
    server: FakeApiServer, cluster: KubernetesCluster, verb: str, write: Callable[[KubernetesCluster], None]
):
    annotations = {REMOVAL_ANNOTATION: LEAVES.removal}
    server.objects.put("nodes", with_taints(OURS, ready=False, annotations=annotations, unschedulable=True))
    server.trouble(verb, "nodes", reply=RACE, times=99)
    with pytest.raises(ChangedError) as caught:
        write(cluster)
    assert_wording(str(caught.value))
    assert len(writes(server)) == 3


def test_a_node_that_goes_in_between_is_gone(server: FakeApiServer, cluster: KubernetesCluster):
    server.objects.put("nodes", node("w1"))
    server.trouble("get", "nodes", after=1, reply=failure(404, "NotFound", "gone"), times=9)
    server.trouble("patch", "nodes", reply=failure(404, "NotFound", "gone"))
    with pytest.raises(ChangedError) as caught:
        cluster.cordon(LEAVES, "i-1")
    assert_wording(str(caught.value))


def test_letting_in_takes_off_our_annotations_and_no_others(server: FakeApiServer, cluster: KubernetesCluster):
    server.objects.put("nodes", node("w1", annotations={"a.person/says": "hello"}))
    cluster.cordon(LEAVES, "i-1")
    cluster.uncordon("w1", LEAVES.removal)
    assert stored(server)["metadata"]["annotations"] == {"a.person/says": "hello"}
    assert "unschedulable" not in stored(server)["spec"]


def test_letting_in_is_one_guarded_patch(server: FakeApiServer, cluster: KubernetesCluster):
    server.objects.put("nodes", node("w1"))
    cluster.cordon(LEAVES, "i-1")
    version = stored(server)["metadata"]["resourceVersion"]
    cluster.uncordon("w1", LEAVES.removal)
    _, patch = writes(server)
    assert patch.body["metadata"]["resourceVersion"] == version


def test_a_cordon_that_a_person_made_theirs_stays_on(server: FakeApiServer, cluster: KubernetesCluster):
    """They took off our taint and kept the node cordoned."""
    server.objects.put("nodes", with_taints(annotations={REMOVAL_ANNOTATION: LEAVES.removal}, unschedulable=True))
    cluster.uncordon("w1", LEAVES.removal)
    assert stored(server)["spec"]["unschedulable"]
    assert REMOVAL_ANNOTATION not in stored(server)["metadata"]["annotations"]


def test_nothing_is_written_where_nothing_is_ours(server: FakeApiServer, cluster: KubernetesCluster):
    server.objects.put("nodes", node("w1"))
    cluster.uncordon("w1", LEAVES.removal)
    assert writes(server) == []


def test_a_node_without_our_annotation_belongs_to_no_removal(server: FakeApiServer, cluster: KubernetesCluster):
    server.objects.put("nodes", with_taints(OURS, unschedulable=True))
    found = find(cluster._api, "w1")
    assert found is not None
    assert (found.annotated, found.has_our_taint, found.taints_of_others) == ("", True, [])


def test_another_pool_is_one_guarded_patch_and_the_same_one_none(server: FakeApiServer, cluster: KubernetesCluster):
    version = server.objects.put("nodes", node("w1"))["metadata"]["resourceVersion"]
    cluster.assign("w1", "i-1", "web")
    (patch,) = writes(server)
    assert patch.body == {"metadata": {"resourceVersion": version, "labels": {POOL_LABEL: "web"}}}
    cluster.assign("w1", "i-1", "web")
    assert len(writes(server)) == 1


def test_a_deletion_is_guarded_by_identity_and_version(server: FakeApiServer, cluster: KubernetesCluster):
    meta = server.objects.put("nodes", node("w1", ready=False))["metadata"]
    cluster.delete_node("w1", "i-1")
    (deletion,) = writes(server)
    assert deletion.body["preconditions"] == {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}


def test_a_node_that_becomes_ready_in_between_is_not_deleted(server: FakeApiServer, cluster: KubernetesCluster):
    server.objects.put("nodes", node("w1", ready=False))
    server.on("delete", "nodes", lambda: server.objects.put("nodes", node("w1", ready=True)))
    with pytest.raises(ChangedError) as caught:
        cluster.delete_node("w1", "i-1")
    assert_wording(str(caught.value))
    assert server.objects.find("nodes", "w1")


def test_a_node_that_somebody_else_deletes_in_between_is_fine(server: FakeApiServer, cluster: KubernetesCluster):
    server.objects.put("nodes", node("w1", ready=False))
    server.trouble("delete", "nodes", reply=failure(404, "NotFound", "gone"))
    cluster.delete_node("w1", "i-1")


def test_a_node_without_a_pool_is_not_deleted(server: FakeApiServer, cluster: KubernetesCluster):
    server.objects.put("nodes", node("w1", pool=None, ready=False))
    with pytest.raises(ChangedError) as caught:
        cluster.delete_node("w1", "i-1")
    assert_wording(str(caught.value))


@pytest.mark.parametrize(
    ("reply", "kind"),
    [(failure(403, "Forbidden", "no"), DeniedError), (failure(503, "ServiceUnavailable", "no"), UnavailableError)],
)
def test_refusals_are_passed_on(server: FakeApiServer, cluster: KubernetesCluster, reply: Any, kind: Any):
    server.objects.put("nodes", node("w1"))
    server.trouble("patch", "nodes", reply=reply)
    with pytest.raises(kind) as caught:
        cluster.cordon(LEAVES, "i-1")
    assert_wording(str(caught.value))
    assert len(writes(server)) == 1


def test_an_annotation_of_an_operator_is_put_on_and_taken_off_and_nothing_else_changes(
    server: FakeApiServer, cluster: KubernetesCluster
):
    before = server.objects.put("nodes", node("w1"))
    cluster.annotate("w1", {"example.com/kept": "yes", "example.com/other": "no"})
    (patch,) = writes(server)
    assert patch.body == {
        "metadata": {
            "resourceVersion": before["metadata"]["resourceVersion"],
            "annotations": {"example.com/kept": "yes", "example.com/other": "no"},
        },
    }
    cluster.annotate("w1", {"example.com/other": None})
    assert stored(server)["metadata"]["annotations"] == {"example.com/kept": "yes"}


def test_an_annotation_of_a_node_that_is_gone_is_refused(server: FakeApiServer, cluster: KubernetesCluster):
    with pytest.raises(ChangedError) as raised:
        cluster.annotate("w1", {"example.com/kept": "yes"})
    assert_wording(str(raised.value))
    assert writes(server) == []

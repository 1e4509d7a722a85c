"""What becomes of a Pod object, apart from its rules, controller and claims."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nodefleet.adapters.kubernetes import KubernetesCluster
from nodefleet.errors import UnavailableError
from nodefleet.model.inventory import Resources
from nodefleet.model.workload import (
    Operator,
    Owner,
    Pod,
    PodPhase,
    Requirement,
    Rules,
    Selector,
    Spread,
    Volume,
    VolumeKind,
)
from support.fake_api_server import FakeApiServer
from support.k8s_objects import THEN, condition, container, node, pod, reference
from support.wording import assert_wording

MIB = 1 << 20
_POLICIES = (("a", None), ("b", "Always"))


def seen(server: FakeApiServer, cluster: KubernetesCluster, *things: dict[str, Any]) -> tuple[Pod, ...]:
    for thing in things:
        server.objects.put("pods", thing)
    return cluster.view().pods or ()


def at(hour: int, minute: int, second: int = 0) -> datetime:
    return datetime(2026, 11, 16, hour, minute, second, tzinfo=UTC)


def test_a_running_pod_in_full(server: FakeApiServer, cluster: KubernetesCluster):
    made = pod("web-1", namespace="shop", labels={"app": "web"}, meta={"uid": "u-1"}, priority=7)
    assert seen(server, cluster, made) == (
        Pod(
            namespace="shop",
            name="web-1",
            uid="u-1",
            labels={"app": "web"},
            node="w1",
            priority=7,
            created_at=datetime(2026, 11, 16, 11, tzinfo=UTC),
            requests=Resources(cpu=100, memory=64 * MIB),
        ),
    )


def test_a_pod_that_the_scheduler_found_no_node_for(server: FakeApiServer, cluster: KubernetesCluster):
    why = condition("PodScheduled", is_so=False, reason="Unschedulable", since="2026-11-16T11:58:00Z")
    (found,) = seen(server, cluster, pod(node=None, phase=PodPhase.PENDING, ready=False, conditions=[why]))
    assert (found.unschedulable_since, found.node, found.phase) == (at(11, 58), None, PodPhase.PENDING)
    assert found.unschedulable_message == ""


def test_the_scheduler_says_why_and_not_at_any_length(server: FakeApiServer, cluster: KubernetesCluster):
    why = condition("PodScheduled", is_so=False, reason="Unschedulable")
    short = {**why, "message": "0/3 nodes are available: 3 Insufficient cpu."}
    long = {**why, "message": "x" * 5000}
    found = seen(
        server,
        cluster,
        pod("a", node=None, phase=PodPhase.PENDING, conditions=[short]),
        pod("b", node=None, phase=PodPhase.PENDING, conditions=[long]),
        pod("c", node="w1", conditions=[{**why, "status": "True", "message": "bound"}]),
    )
    assert [each.unschedulable_message for each in found] == [short["message"], "x" * 300, ""]


@pytest.mark.parametrize(
    ("reason", "is_so", "node"),
    [
        ("SchedulingGated", False, None),
        ("SchedulerError", False, None),
        ("", True, None),
        ("Unschedulable", False, "w1"),
    ],
)
def test_other_pods_that_wait_are_not_unschedulable(
    server: FakeApiServer, cluster: KubernetesCluster, reason: str, is_so: bool, node: str | None
):
    why = condition("PodScheduled", is_so=is_so, reason=reason)
    (found,) = seen(server, cluster, pod(node=node, phase=PodPhase.PENDING, conditions=[why]))
    assert found.unschedulable_since is None


def test_an_unschedulable_pod_without_a_time_waits_since_it_was_made(server: FakeApiServer, cluster: KubernetesCluster):
    why = condition("PodScheduled", is_so=False, reason="Unschedulable", since=None)
    (found,) = seen(server, cluster, pod(node=None, phase=PodPhase.PENDING, conditions=[why]))
    assert found.unschedulable_since == at(11, 0)


def test_gates_and_nominations_are_seen(server: FakeApiServer, cluster: KubernetesCluster):
    gated = pod("a", node=None, schedulingGates=[{"name": "wait.io/for-me"}])
    nominated = pod("b", node=None, status={"nominatedNodeName": "w2"})
    server.objects.put("nodes", node("w2"))
    first, second = seen(server, cluster, gated, nominated)
    assert (first.gated, first.nominated) == (True, False)
    assert (second.gated, second.nominated, second.nominated_node) == (False, True, "w2")


def test_a_nomination_for_a_node_that_is_gone_makes_no_room(server: FakeApiServer, cluster: KubernetesCluster):
    (found,) = seen(server, cluster, pod("b", node=None, status={"nominatedNodeName": "w2"}))
    assert (found.nominated, found.nominated_node) == (False, "")


def test_a_pod_was_asked_to_go_its_grace_before_it_should_be_gone(server: FakeApiServer, cluster: KubernetesCluster):
    meta = {"deletionTimestamp": "2026-11-16T12:01:00Z", "deletionGracePeriodSeconds": 45}
    (found,) = seen(server, cluster, pod(meta=meta, terminationGracePeriodSeconds=600))
    assert found.deleted_at == at(12, 0, 15)
    assert found.grace == timedelta(seconds=45)


def test_a_pod_that_was_deleted_by_force_has_no_grace(server: FakeApiServer, cluster: KubernetesCluster):
    meta = {"deletionTimestamp": "2026-11-16T12:01:00Z", "deletionGracePeriodSeconds": 0}
    (found,) = seen(server, cluster, pod(meta=meta))
    assert (found.deleted_at, found.grace) == (at(12, 1), timedelta(0))


@pytest.mark.parametrize(("written", "grace"), [(None, 30), (0, 0), (3600, 3600)])
def test_the_grace_of_a_pod_that_stays_is_its_own(
    server: FakeApiServer, cluster: KubernetesCluster, written: int | None, grace: int
):
    (found,) = seen(server, cluster, pod(terminationGracePeriodSeconds=written))
    assert found.grace == timedelta(seconds=grace)


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        ("Pending", PodPhase.PENDING),
        ("Succeeded", PodPhase.SUCCEEDED),
        ("Failed", PodPhase.FAILED),
        ("Unknown", PodPhase.RUNNING),
    ],
)
def test_phases(server: FakeApiServer, cluster: KubernetesCluster, phase: str, expected: PodPhase):
    (found,) = seen(server, cluster, pod(status={"phase": phase}))
    assert found.phase is expected


def test_a_pod_without_a_ready_condition_is_not_ready(server: FakeApiServer, cluster: KubernetesCluster):
    (found,) = seen(server, cluster, pod(status={"conditions": None}))
    assert not found.ready


def test_a_static_pod_is_known_by_its_annotation(server: FakeApiServer, cluster: KubernetesCluster):
    owner = reference("Node", "w1", "u-w1", api="v1")
    (found,) = seen(server, cluster, pod(annotations={"kubernetes.io/config.mirror": "abc"}, owner=owner))
    assert found.mirror
    assert found.annotations == {}


def test_only_annotations_about_moving_are_kept(server: FakeApiServer, cluster: KubernetesCluster):
    telling = {
        "node-fleet.io/safe-to-evict": "true",
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
        "node-fleet.io/do-not-disrupt": "true",
        "karpenter.sh/do-not-disrupt": "true",
    }
    (found,) = seen(server, cluster, pod(annotations={**telling, "checksum/config": "abc"}))
    assert found.annotations == telling


def test_requests_count_as_the_scheduler_counts_them(server: FakeApiServer, cluster: KubernetesCluster):
    made = pod(
        containers=[container("250m", "64Mi"), container("250m", "64Mi")],
        initContainers=[container("100m", "16Mi", restartPolicy="Always"), container("2", "32Mi")],
        overhead={"cpu": "50m", "memory": "1Mi"},
    )
    (found,) = seen(server, cluster, made)
    assert found.requests == Resources(cpu=2150, memory=145 * MIB)


def test_a_sidecar_is_told_from_a_container_that_ends(server: FakeApiServer, cluster: KubernetesCluster):
    ends, stays = (pod(name, initContainers=[container(restartPolicy=policy)]) for name, policy in _POLICIES)
    first, second = seen(server, cluster, ends, stays)
    assert (first.requests.cpu, second.requests.cpu) == (100, 200)


def state(actual: str | None, allocated: str | None, name: str = "main") -> dict[str, Any]:
    """What the kubelet says a container has, and was promised."""
    return {
        "name": name,
        **({"resources": {"requests": {"cpu": actual}}} if actual else {}),
        **({"allocatedResources": {"cpu": allocated}} if allocated else {}),
    }


@pytest.mark.parametrize(
    ("wanted", "actual", "allocated", "reason", "millicores"),
    [
        ("500m", "100m", "100m", "Deferred", 500),  # to grow: the room is reserved before it does
        ("100m", "500m", "100m", None, 500),  # to shrink: it still has it
        ("100m", "100m", "400m", None, 400),  # promised
        ("100m", "100m", "100m", None, 100),
        ("8", "100m", "200m", "Infeasible", 200),  # its node can never give it that much
        ("100m", None, "500m", None, 100),  # a kubelet that does not resize
    ],
)
def test_a_pod_that_is_resized_in_place_counts_with_the_most_of_what_it_has_and_wants(
    server: FakeApiServer, cluster: KubernetesCluster, wanted, actual, allocated, reason, millicores
):
    main = {"name": "main", "resources": {"requests": {"cpu": wanted}}}
    conditions = [condition("PodResizePending", is_so=True, reason=reason)] if reason else []
    status = {"containerStatuses": [state(actual, allocated), state("7", "7", name="other")]}
    (found,) = seen(server, cluster, pod(containers=[main], conditions=conditions, status=status))
    assert found.requests.cpu == millicores


def test_of_init_containers_only_sidecars_are_resized(server: FakeApiServer, cluster: KubernetesCluster):
    needs = {"resources": {"requests": {"cpu": "100m"}}}
    inits = [{"name": "proxy", "restartPolicy": "Always", **needs}, {"name": "setup", **needs}]
    status = {"initContainerStatuses": [state("300m", "300m", name="proxy"), state("9", "9", name="setup")]}
    (found,) = seen(server, cluster, pod(containers=[{"name": "main", **needs}], initContainers=inits, status=status))
    assert found.requests.cpu == 400


def test_requests_of_the_whole_pod_stand_instead_of_its_containers(server: FakeApiServer, cluster: KubernetesCluster):
    (found,) = seen(server, cluster, pod(resources={"requests": {"cpu": "1", "memory": "1Gi"}}))
    assert found.requests == Resources(cpu=1000, memory=1024 * MIB)


def test_a_pod_that_asks_for_nothing_asks_for_nothing(server: FakeApiServer, cluster: KubernetesCluster):
    (found,) = seen(server, cluster, pod(containers=[{"name": "c", "resources": {}}, {"name": "d"}]))
    assert found.requests == Resources()


def test_extended_resources_are_counted(server: FakeApiServer, cluster: KubernetesCluster):
    needs = {"resources": {"requests": {"nvidia.com/gpu": "1", "ephemeral-storage": "1Gi"}}}
    (found,) = seen(server, cluster, pod(containers=[{"name": "c", **needs}]))
    assert found.requests == Resources(storage=1024 * MIB, extended={"nvidia.com/gpu": 1})


def test_an_amount_that_nobody_understands_is_an_error(server: FakeApiServer, cluster: KubernetesCluster):
    server.objects.put("pods", pod(containers=[container("lots")]))
    with pytest.raises(UnavailableError) as caught:
        cluster.view()
    assert_wording(str(caught.value))


def test_rules_that_nobody_understands_are_an_error(server: FakeApiServer, cluster: KubernetesCluster):
    server.objects.put("pods", pod(affinity={"podAffinity": 7}))
    with pytest.raises(UnavailableError) as caught:
        cluster.view()
    assert_wording(str(caught.value))


def test_volumes_on_the_node_are_seen(server: FakeApiServer, cluster: KubernetesCluster):
    volumes = [
        {"name": "scratch", "emptyDir": {}},
        {"name": "disk", "hostPath": {"path": "/var/lib/x"}},
        {"name": "kube-api-access-abcde", "projected": {"sources": []}},
        {"name": "conf", "configMap": {"name": "conf"}},
    ]
    (found,) = seen(server, cluster, pod(volumes=volumes))
    assert found.volumes == (
        Volume(kind=VolumeKind.EMPTY_DIR, name="scratch"),
        Volume(kind=VolumeKind.HOST_PATH, name="disk"),
    )


def test_the_pods_of_one_node_are_asked_for_by_the_server(server: FakeApiServer, cluster: KubernetesCluster):
    server.objects.put("pods", pod("a", node="w1"))
    server.objects.put("pods", pod("b", node="w2"))
    assert [each.name for each in cluster.pods_on("w2")] == ["b"]
    (asked,) = server.asked
    assert asked.query["fieldSelector"] == "spec.nodeName=w2"


def test_pods_that_need_nothing_more_cost_four_requests(server: FakeApiServer, cluster: KubernetesCluster):
    seen(server, cluster, pod("a"), pod("b"))
    assert [asked.resource for asked in server.asked] == ["nodes", "pods", "daemonsets", "poddisruptionbudgets"]


# ── DaemonSets ───────────────────────────────────────────────────────────────────────────────────────────────────


def daemon_set(name: str = "agent", **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container("250m", "128Mi")], **spec}}
    meta = {"name": name, "namespace": "kube-system", "uid": f"ds-{name}"}
    return {"metadata": meta, "spec": {"selector": {"matchLabels": {"app": name}}, "template": template}}


def test_a_daemon_set_without_pods_says_what_a_new_node_will_run(server: FakeApiServer, cluster: KubernetesCluster):
    server.objects.put("daemonsets", daemon_set(nodeSelector={"disk": "ssd"}))
    (found,) = cluster.view().daemon_sets
    assert (found.key, found.is_daemon, found.labels) == ("kube-system/agent", True, {"app": "agent"})
    assert found.requests == Resources(cpu=250, memory=128 * 2**20)
    assert found.rules.node_selector == {"disk": "ssd"}


def test_the_pod_that_a_new_node_gets_in_full(server: FakeApiServer, cluster: KubernetesCluster):
    spread = {
        "topologyKey": "zone",
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {},
        "matchLabelKeys": ["app"],
    }
    server.objects.put("daemonsets", daemon_set(priority=7, topologySpreadConstraints=[spread]))
    server.objects.put("daemonsets", daemon_set("plain"))
    agent, plain = sorted(cluster.view().daemon_sets, key=lambda each: each.name)
    own = Requirement(key="app", operator=Operator.IN, values=("agent",))
    assert agent == Pod(
        namespace="kube-system",
        name="agent",
        labels={"app": "agent"},
        owner=Owner(kind="DaemonSet", name="agent", uid="ds-agent"),
        phase=PodPhase.PENDING,
        ready=False,
        priority=7,
        requests=Resources(cpu=250, memory=128 * MIB),
        rules=Rules(spread=(Spread(topology="zone", selector=Selector(expressions=(own,)), max_skew=1),)),
    )
    assert plain.priority == 0


def test_a_daemon_set_that_is_being_deleted_gives_new_nodes_nothing(server: FakeApiServer, cluster: KubernetesCluster):
    leaving = daemon_set()
    leaving["metadata"]["deletionTimestamp"] = THEN
    server.objects.put("daemonsets", leaving)
    assert cluster.view().daemon_sets == ()


def test_a_daemon_set_with_an_amount_that_nobody_can_read_is_named(server: FakeApiServer, cluster: KubernetesCluster):
    server.objects.put("daemonsets", daemon_set(containers=[container("many")]))
    with pytest.raises(UnavailableError, match="kube-system/agent") as caught:
        cluster.view()
    assert_wording(str(caught.value))


# ── crashing ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("state", "crashes"),
    [
        ({"waiting": {"reason": "CrashLoopBackOff"}}, 7),
        ({"waiting": {"reason": "ContainerCreating"}}, 0),
        ({"running": {"startedAt": "2026-11-16T11:00:00Z"}}, 0),
        (None, 0),
    ],
)
def test_restarts_of_a_container_that_crashes_in_a_loop(server, cluster, state, crashes):
    made = pod("web-1")
    made["status"]["containerStatuses"] = [{"name": "web", "restartCount": 7, "state": state}]
    (found,) = seen(server, cluster, made)
    assert found.crashes == crashes


# ── in brief ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_pods_of_a_node_in_brief_are_read_with_one_question(server: FakeApiServer, cluster: KubernetesCluster):
    """Their controllers are known by the names that the pods give, and claims are not looked for."""
    daemon = reference("DaemonSet", "agent", "ds-1")
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data-1"}}
    server.objects.put("pods", pod("agent-1", owner=daemon, volumes=[claim, {"name": "tmp", "emptyDir": {}}]))
    server.objects.put("pods", pod("alone"))
    server.objects.put("pods", pod("elsewhere", node="w2"))
    found = {each.name: each for each in cluster.pods_on("w1", brief=True)}
    assert sorted(found) == ["agent-1", "alone"]
    owner = found["agent-1"].owner
    assert owner is not None
    assert owner == Owner(kind="DaemonSet", name="agent", uid="ds-1")
    assert found["alone"].owner is None
    assert found["agent-1"].volumes == (Volume(kind=VolumeKind.EMPTY_DIR, name="tmp"),)
    assert [asked.resource for asked in server.asked] == ["pods"]
    assert found["alone"] == next(each for each in cluster.pods_on("w1") if each.name == "alone")

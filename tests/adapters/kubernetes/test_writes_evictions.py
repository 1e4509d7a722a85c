"""What each answer of the Eviction API means. The words are those of kube-apiserver v1.34."""

from typing import Any

import pytest

from nodefleet.adapters.kubernetes import KubernetesCluster
from nodefleet.errors import ChangedError, DeniedError, ThrottledError, UnavailableError
from nodefleet.model.operations import PodRef
from nodefleet.ports import Eviction, EvictionOutcome
from support.fake_api_objects import Reply, conflict, failure
from support.fake_api_server import FakeApiServer
from support.k8s_objects import budget, pod
from support.wording import assert_wording

VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."


@pytest.fixture
def web(server: FakeApiServer) -> PodRef:
    made = server.objects.put("pods", pod("web-1", labels={"app": "web"}))
    return PodRef(namespace="default", name="web-1", uid=made["metadata"]["uid"])


def by_budget(words: str) -> Reply:
    return failure(429, "TooManyRequests", VIOLATES, causes=[{"reason": "DisruptionBudget", "message": words}])


def test_an_eviction_means_one_pod_by_its_uid(server: FakeApiServer, cluster: KubernetesCluster, web: PodRef):
    assert cluster.evict(web) == EvictionOutcome(result=Eviction.EVICTED)
    asked = server.asked[-1]
    assert asked.path == "/api/v1/namespaces/default/pods/web-1/eviction"
    assert asked.body == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "web-1", "namespace": "default"},
        "deleteOptions": {"preconditions": {"uid": web.uid}},
    }


@pytest.mark.parametrize(
    "words",
    [
        "The disruption budget foo needs 0 healthy pods and has 0 currently",
        "The disruption budget foo is still being processed by the server.",
        "The disruption budget foo does not allow evicting pods currently because it failed sync: hoge",
        "The disruption budget foo does not allow evicting pods currently (bar-reason): hoge",
    ],
)
def test_a_budget_that_says_no_is_quoted(server: FakeApiServer, cluster: KubernetesCluster, web: PodRef, words: str):
    server.trouble("create", "pods/eviction", reply=by_budget(words))
    assert cluster.evict(web) == EvictionOutcome(result=Eviction.REFUSED, detail=words)


def test_figures_that_are_not_worked_out_yet_are_a_refusal(
    server: FakeApiServer, cluster: KubernetesCluster, web: PodRef
):
    made = budget("new", labels={"app": "web"}, allowed=1)
    made["metadata"]["generation"] = 2
    server.objects.put("poddisruptionbudgets", made)
    detail = "The disruption budget new is still being processed by the server."
    assert cluster.evict(web) == EvictionOutcome(result=Eviction.REFUSED, detail=detail)


@pytest.mark.parametrize(
    "reply",
    [
        Reply(429, b"Too many requests, please try again later.\n", {"Retry-After": "1"}),
        failure(429, "TooManyRequests", "The server is currently busy", retryAfterSeconds=1),
    ],
)
def test_a_busy_server_is_no_budget(server: FakeApiServer, cluster: KubernetesCluster, web: PodRef, reply: Reply):
    server.trouble("create", "pods/eviction", reply=reply)
    with pytest.raises(ThrottledError) as caught:
        cluster.evict(web)
    assert_wording(str(caught.value))


def test_several_budgets_are_told_from_other_faults(server: FakeApiServer, cluster: KubernetesCluster, web: PodRef):
    words = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    server.trouble("create", "pods/eviction", reply=Reply(500, {"status": "Failure", "message": words, "code": 500}))
    assert cluster.evict(web) == EvictionOutcome(result=Eviction.SEVERAL_BUDGETS, detail=words)
    server.trouble("create", "pods/eviction", reply=failure(500, "InternalError", "etcdserver: leader changed"))
    with pytest.raises(UnavailableError) as caught:
        cluster.evict(web)
    assert_wording(str(caught.value))


def test_a_timeout_over_a_budget_is_a_fault(server: FakeApiServer, cluster: KubernetesCluster, web: PodRef):
    words = 'couldn\'t update PodDisruptionBudget "web" due to conflicts'
    server.trouble("create", "pods/eviction", reply=failure(504, "Timeout", words))
    with pytest.raises(UnavailableError) as caught:
        cluster.evict(web)
    assert_wording(str(caught.value))


def test_a_namespace_that_ends_is_told_from_a_missing_permission(
    server: FakeApiServer, cluster: KubernetesCluster, web: PodRef
):
    server.objects.terminating.add("default")
    waits = cluster.evict(web)
    assert waits.result is Eviction.WAITS
    assert_wording(waits.detail)
    server.objects.terminating.clear()
    server.objects.denied.add(("create", "pods/eviction"))
    with pytest.raises(DeniedError):
        cluster.evict(web)


@pytest.mark.parametrize(
    "why",
    ["pdb disruptions allowed is negative", "DisruptedPods map too big - too many evictions not confirmed"],
)
def test_a_budget_in_disorder_refuses_for_now(server: FakeApiServer, cluster: KubernetesCluster, web: PodRef, why: str):
    message = f'poddisruptionbudget.policy "foo" is forbidden: {why}'
    reply = failure(403, "Forbidden", message, kind="poddisruptionbudget", group="policy", name="foo")
    server.trouble("create", "pods/eviction", reply=reply)
    assert cluster.evict(web) == EvictionOutcome(result=Eviction.REFUSED, detail=message)


@pytest.mark.parametrize("code", [400, 403, 422, 429])
@pytest.mark.parametrize(
    "message",
    [
        'admission webhook "keep.example.com" denied the request: not now',
        "pods \"web-1\" is forbidden: ValidatingAdmissionPolicy 'keep' with binding 'keep' denied request: not now",
    ],
)
def test_a_rule_of_the_cluster_itself_refuses_like_a_budget(
    server: FakeApiServer, cluster: KubernetesCluster, web: PodRef, code: int, message: str
):
    server.trouble("create", "pods/eviction", reply=failure(code, "Forbidden", message))
    assert cluster.evict(web) == EvictionOutcome(result=Eviction.REFUSED, detail=message)


def test_a_webhook_that_is_broken_is_a_fault(server: FakeApiServer, cluster: KubernetesCluster, web: PodRef):
    message = 'Internal error occurred: failed calling webhook "keep.example.com": admission webhook timed out'
    server.trouble("create", "pods/eviction", reply=failure(500, "InternalError", message))
    with pytest.raises(UnavailableError) as caught:
        cluster.evict(web)
    assert_wording(str(caught.value))


def test_another_pod_of_that_name_is_noticed_before_the_server_is_held_up(
    server: FakeApiServer, cluster: KubernetesCluster, web: PodRef
):
    """Of a pending or terminating pod the API server says 409 only after ten seconds."""
    stale = PodRef(namespace="default", name="web-1", uid="another")
    assert cluster.evict(stale).result is Eviction.GONE
    assert [asked.verb for asked in server.asked] == ["get"]


def test_a_pod_that_is_replaced_in_between_is_gone(server: FakeApiServer, cluster: KubernetesCluster, web: PodRef):
    server.trouble("create", "pods/eviction", reply=conflict("Pod", "web-1", "the UID in the precondition"))
    server.on("create", "pods/eviction", lambda: server.objects.put("pods", pod("web-1", meta={"uid": "another"})))
    assert cluster.evict(web).result is Eviction.GONE


def test_a_pod_that_goes_in_between_is_gone(server: FakeApiServer, cluster: KubernetesCluster, web: PodRef):
    server.on("create", "pods/eviction", lambda: server.objects.remove("pods", "web-1", "default"))
    assert cluster.evict(web).result is Eviction.GONE


def test_a_mere_race_is_left_to_the_next_look(server: FakeApiServer, cluster: KubernetesCluster, web: PodRef):
    server.trouble("create", "pods/eviction", reply=conflict("Pod", "web-1", "the object has been modified"))
    with pytest.raises(ChangedError) as caught:
        cluster.evict(web)
    assert_wording(str(caught.value))


def test_a_pod_in_another_namespace_is_found_there(server: FakeApiServer, cluster: KubernetesCluster):
    made = server.objects.put("pods", pod("web-1", namespace="shop"))
    ref = PodRef(namespace="shop", name="web-1", uid=made["metadata"]["uid"])
    assert cluster.evict(ref).result is Eviction.EVICTED
    assert server.asked[-1].namespace == "shop"


def test_force_means_no_grace_and_one_pod_by_its_uid(server: FakeApiServer, cluster: KubernetesCluster, web: PodRef):
    cluster.delete_pod(web)
    (asked,) = server.asked
    assert (asked.verb, asked.body["gracePeriodSeconds"]) == ("delete", 0)
    assert asked.body["preconditions"] == {"uid": web.uid}
    assert server.objects.find("pods", "web-1", "default") is None


@pytest.mark.parametrize(
    ("reply", "kind"), [(failure(403, "Forbidden", "no"), DeniedError), (failure(500, "x", "no"), UnavailableError)]
)
def test_force_that_is_refused_is_said_so(
    server: FakeApiServer, cluster: KubernetesCluster, web: PodRef, reply: Reply, kind: Any
):
    server.trouble("delete", "pods", reply=reply)
    with pytest.raises(kind) as caught:
        cluster.delete_pod(web)
    assert_wording(str(caught.value))

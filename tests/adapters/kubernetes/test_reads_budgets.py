"""What becomes of a PodDisruptionBudget."""

from typing import Any

import pytest

from nodefleet.adapters.kubernetes import KubernetesCluster
from nodefleet.model.workload import Budget, BudgetStatus, Operator, Requirement, Selector, UnhealthyPodPolicy
from support.fake_api_server import FakeApiServer
from support.k8s_objects import budget


def seen(server: FakeApiServer, cluster: KubernetesCluster, thing: dict[str, Any]) -> Budget:
    server.objects.put("poddisruptionbudgets", thing)
    (found,) = cluster.view().budgets
    return found


def test_a_budget_in_full(server: FakeApiServer, cluster: KubernetesCluster):
    lines = [{"key": "tier", "operator": "NotIn", "values": ["test"]}]
    made = budget("web", namespace="shop", needed=2, healthy=3, allowed=1, unhealthyPodEvictionPolicy="AlwaysAllow")
    made["spec"]["selector"] = {"matchLabels": {"app": "web"}, "matchExpressions": lines}
    assert seen(server, cluster, made) == Budget(
        namespace="shop",
        name="web",
        selector=Selector(
            labels={"app": "web"},
            expressions=(Requirement(key="tier", operator=Operator.NOT_IN, values=("test",)),),
        ),
        min_available="2",
        unhealthy_policy=UnhealthyPodPolicy.ALWAYS_ALLOW,
        status=BudgetStatus(disruptions_allowed=1, current_healthy=3, desired_healthy=2, expected_pods=3),
    )


def test_percentages_are_kept_as_they_are_written(server: FakeApiServer, cluster: KubernetesCluster):
    found = seen(server, cluster, budget(minAvailable=None, maxUnavailable="30%"))
    assert (found.min_available, found.max_unavailable) == (None, "30%")


def test_nought_is_not_nothing(server: FakeApiServer, cluster: KubernetesCluster):
    found = seen(server, cluster, budget(minAvailable=None, maxUnavailable=0))
    assert found.max_unavailable == "0"


@pytest.mark.parametrize(("written", "read"), [(None, None), ({}, Selector())])
def test_no_selector_is_not_an_empty_one(
    server: FakeApiServer, cluster: KubernetesCluster, written: Any, read: Selector | None
):
    made = budget()
    made["spec"]["selector"] = written
    assert seen(server, cluster, made).selector == read


@pytest.mark.parametrize("policy", [None, "IfHealthyBudget", "SomethingNew"])
def test_unready_pods_are_kept_unless_the_budget_says_otherwise(
    server: FakeApiServer, cluster: KubernetesCluster, policy: str | None
):
    found = seen(server, cluster, budget(unhealthyPodEvictionPolicy=policy))
    assert found.unhealthy_policy is UnhealthyPodPolicy.IF_HEALTHY_BUDGET


def test_figures_older_than_the_budget_allow_nobody(server: FakeApiServer, cluster: KubernetesCluster):
    made = budget(allowed=2, healthy=3, needed=1)
    made["metadata"]["generation"] = 2
    found = seen(server, cluster, made)
    assert found.status == BudgetStatus(disruptions_allowed=0, current_healthy=3, desired_healthy=1, expected_pods=3)


def test_a_budget_without_figures_has_none(server: FakeApiServer, cluster: KubernetesCluster):
    made = budget()
    del made["status"]
    assert seen(server, cluster, made).status is None

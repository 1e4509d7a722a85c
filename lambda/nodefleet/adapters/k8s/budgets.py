"""PodDisruptionBudgets as the domain knows them."""

from nodefleet.adapters.k8s.selecting import selector_of
from nodefleet.adapters.k8s.shapes import BudgetShape
from nodefleet.domain.workload import Budget, BudgetStatus, UnhealthyPodPolicy

_POLICIES = {policy.value: policy for policy in UnhealthyPodPolicy}


def budget_from(shape: BudgetShape) -> Budget:
    spec = shape.spec
    return Budget(
        namespace=shape.metadata.namespace,
        name=shape.metadata.name,
        selector=selector_of(spec.selector) if spec.selector is not None else None,
        min_available=None if spec.min_available is None else str(spec.min_available),
        max_unavailable=None if spec.max_unavailable is None else str(spec.max_unavailable),
        unhealthy_policy=_POLICIES.get(spec.unhealthy_pod_eviction_policy or "", UnhealthyPodPolicy.IF_HEALTHY_BUDGET),
        status=_status(shape),
    )


def _status(shape: BudgetShape) -> BudgetStatus | None:
    """The Eviction API lets nobody go while the figures are older than the budget itself."""
    figures = shape.status
    if figures is None:
        return None
    current = figures.observed_generation >= shape.metadata.generation
    return BudgetStatus(
        disruptions_allowed=figures.disruptions_allowed if current else 0,
        current_healthy=figures.current_healthy,
        desired_healthy=figures.desired_healthy,
        expected_pods=figures.expected_pods,
    )

"""Disruption budgets as the cluster's own controller counts them, and the Eviction API's answer.

Written apart from `nodefleet.eviction.budgets` on purpose: what the autoscaler believes about budgets is checked
against this, so it must not be the same code.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from nodefleet.model.workload import Budget, BudgetStatus, Pod, PodPhase, UnhealthyPodPolicy
from nodefleet.ports import Eviction, EvictionOutcome
from nodefleet.scheduling.predicates import matches

_PERCENT = "%"


def covered(budget: Budget, pods: Sequence[Pod]) -> list[Pod]:
    if budget.selector is None:
        return []
    return [pod for pod in pods if pod.namespace == budget.namespace and matches(budget.selector, pod.labels)]


def status(budget: Budget, pods: Sequence[Pod]) -> BudgetStatus:
    """What the disruption controller writes into the budget for these pods."""
    own = covered(budget, pods)
    healthy = sum(1 for pod in own if pod.ready and not pod.deleted_at)
    counted = _counted(budget, own)
    if counted is None:  # the controller fails safe: nothing may go
        return BudgetStatus(disruptions_allowed=0, current_healthy=healthy, desired_healthy=0, expected_pods=0)
    expected, desired = counted
    allowed = healthy - desired if expected and healthy > desired else 0
    return BudgetStatus(
        disruptions_allowed=allowed, current_healthy=healthy, desired_healthy=desired, expected_pods=expected
    )


def _counted(budget: Budget, own: Sequence[Pod]) -> tuple[int, int] | None:
    """How many pods are expected, and how many of them must be healthy."""
    if budget.max_unavailable is not None:
        expected = _by_controllers(own)
        return None if expected is None else (expected, max(0, expected - _scaled(budget.max_unavailable, expected)))
    if budget.min_available is None:
        return None
    if not budget.min_available.endswith(_PERCENT):
        return len(own), int(budget.min_available)
    expected = _by_controllers(own)
    return None if expected is None else (expected, _scaled(budget.min_available, expected))


def _by_controllers(own: Sequence[Pod]) -> int | None:
    scales: dict[str, int] = {}
    for pod in own:
        if pod.owner is None:
            continue
        if pod.owner.gone or pod.owner.replicas is None:
            return None
        scales[pod.owner.uid] = pod.owner.replicas
    return sum(scales.values())


def _scaled(limit: str, of: int) -> int:
    """Both kinds of percentage round up."""
    if limit.endswith(_PERCENT):
        return ceil(int(limit[:-1]) * of / 100)
    return int(limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """The Eviction API's answer, and the budget that it was asked of."""

    answer: EvictionOutcome
    budget: Budget | None = None


_GO = Ruling(answer=EvictionOutcome(result=Eviction.EVICTED))


def ruling(pod: Pod, budgets: Sequence[Budget], pods: Sequence[Pod]) -> Ruling:
    """May this pod be evicted now?"""
    if pod.phase is not PodPhase.RUNNING or pod.deleted_at is not None:
        return _GO  # budgets do not speak for pods that are pending, finished or going
    speaking = [budget for budget in budgets if covered(budget, [pod])]
    if not speaking:
        return _GO
    if len(speaking) > 1:
        detail = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        return Ruling(answer=EvictionOutcome(result=Eviction.SEVERAL_BUDGETS, detail=detail))
    (budget,) = speaking
    now = status(budget, pods)
    if not pod.ready:
        enough = now.current_healthy >= now.desired_healthy > 0
        if enough or budget.unhealthy_policy is UnhealthyPodPolicy.ALWAYS_ALLOW:
            return _GO
    if now.disruptions_allowed > 0:
        return Ruling(answer=_GO.answer, budget=budget)
    detail = (
        f"The disruption budget {budget.name} needs {now.desired_healthy} healthy pods"
        f" and has {now.current_healthy} currently"
    )
    return Ruling(answer=EvictionOutcome(result=Eviction.REFUSED, detail=detail), budget=budget)

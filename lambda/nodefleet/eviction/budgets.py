"""PodDisruptionBudgets: how many pods of a workload may be away, and whether this pod may be one of them.

The arithmetic is that of the cluster's disruption controller, the answers are those of the Eviction API. Both the
cluster's own figure and the pods that we saw may be some seconds old, so the smaller number of disruptions counts.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias

from nodefleet.model.names import pluralize
from nodefleet.model.workload import Budget, BudgetStatus, Pod, PodPhase, Selector, UnhealthyPodPolicy
from nodefleet.scheduling.predicates import matches

_COUNT = re.compile(r"([0-9]+)(%?)")


class EvictionRefusal(Enum):
    NONE_LEFT = "none-left"  # the API answers 429: ask again later
    SEVERAL_BUDGETS = "several-budgets"  # the API answers 500: an operator has to fix the budgets


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionPermitted:
    pod: Pod
    budget: str = ""  # the budget whose disruption it uses up; empty: none
    left: int | None = None  # disruptions of that budget after it


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionRefused:
    pod: Pod
    why: EvictionRefusal
    budgets: tuple[str, ...]
    sentence: str


EvictionVerdict: TypeAlias = EvictionPermitted | EvictionRefused


@dataclass(frozen=True, slots=True, kw_only=True)
class _Allowance:
    status: BudgetStatus
    trouble: str = ""  # why it allows nothing whatever the health of its pods
    known: bool = True  # false: the scale of a controller is not known to us, though it may be to the cluster


def covers(budget: Budget, pod: Pod) -> bool:
    return budget.selector is not None and budget.namespace == pod.namespace and matches(budget.selector, pod.labels)


def is_healthy(pod: Pod) -> bool:
    """It counts for its budget: ready, and not on its way out.

    Whatever its phase: a pod that has failed with its instance may never have lost its Ready condition, and the cluster
    counts it.
    """
    return pod.ready and pod.deleted_at is None


class BudgetTracker:
    """All budgets of one iteration, with the pods they cover, ready to be asked about evictions.

    Before a node is cordoned, `verdict` says of each pod whether it could go as the next single eviction. A drain takes
    time and replacements come up meanwhile, so two pods of a budget that allows one disruption at a time do not keep
    their node. During a drain, `verdicts` says which pods may go now and which wait.
    """

    __slots__ = ("_allowances", "_covers")

    def __init__(self, budgets: Iterable[Budget], pods: Iterable[Pod]) -> None:
        by_namespace: defaultdict[str, list[Budget]] = defaultdict(list)
        for budget in budgets:
            by_namespace[budget.namespace].append(budget)
        self._covers = {namespace: _Cover(held) for namespace, held in by_namespace.items()}
        covered: defaultdict[str, list[Pod]] = defaultdict(list)
        for pod in pods:
            for budget in self.covering(pod):
                covered[budget.key].append(pod)
        self._allowances = {
            budget.key: _allowance(budget, covered[budget.key]) for held in by_namespace.values() for budget in held
        }

    def covering(self, pod: Pod) -> tuple[Budget, ...]:
        """The budgets that speak for this pod."""
        cover = self._covers.get(pod.namespace)
        return cover.of(pod) if cover else ()

    def status(self, budget: Budget) -> BudgetStatus:
        return self._allowances[budget.key].status

    def verdict(self, pod: Pod) -> EvictionVerdict:
        """What the Eviction API would answer if this pod were the next one."""
        return self._answer(pod, Counter())

    def verdicts(self, pods: Iterable[Pod]) -> tuple[EvictionVerdict, ...]:
        """What it would answer to one after the other. Pods of several draining nodes share budgets: ask for all."""
        used: Counter[str] = Counter()
        return tuple(self._answer(pod, used) for pod in pods)

    def _answer(self, pod: Pod, used: Counter[str]) -> EvictionVerdict:
        if pod.deleted_at is not None or pod.phase is not PodPhase.RUNNING:
            return EvictionPermitted(pod=pod)  # budgets do not speak for pods that are pending, finished or going
        match self.covering(pod):
            case ():
                return EvictionPermitted(pod=pod)
            case (budget,):
                return self._answer_of(budget, pod, used)
            case several:
                keys = tuple(budget.key for budget in several)
                held = f"{len(keys)} budgets ({', '.join(keys)})"
                sentence = f"pod {pod.key} is covered by {held}, so it cannot be evicted"
                return EvictionRefused(pod=pod, why=EvictionRefusal.SEVERAL_BUDGETS, budgets=keys, sentence=sentence)

    def _answer_of(self, budget: Budget, pod: Pod, used: Counter[str]) -> EvictionVerdict:
        allowed = self._allowances[budget.key]
        if not pod.ready and _lets_unready_go(budget, allowed.status):
            return EvictionPermitted(pod=pod)
        left = allowed.status.disruptions_allowed - used[budget.key]
        if left > 0:
            used[budget.key] += 1
            return EvictionPermitted(pod=pod, budget=budget.key, left=left - 1)
        sentence = _nothing_left(budget, allowed, used[budget.key])
        return EvictionRefused(pod=pod, why=EvictionRefusal.NONE_LEFT, budgets=(budget.key,), sentence=sentence)


class _Cover:
    """Which of a namespace's budgets cover a pod.

    Only labels that some budget names can tell pods apart here, so the answer is worked out once for each set of
    their values: thousands of pods with names and hashes in their labels come down to some dozens.
    """

    __slots__ = ("_answers", "_any_label", "_by_label", "_keys")

    def __init__(self, budgets: Sequence[Budget]) -> None:
        self._keys = sorted({key for budget in budgets for key in _keys(budget.selector)})
        self._by_label: defaultdict[tuple[str, str], list[Budget]] = defaultdict(list)
        self._any_label: list[Budget] = []
        for budget in budgets:
            first = next(iter(budget.selector.labels.items()), None) if budget.selector else None
            (self._by_label[first] if first else self._any_label).append(budget)
        self._answers: dict[tuple[str | None, ...], tuple[Budget, ...]] = {}

    def of(self, pod: Pod) -> tuple[Budget, ...]:
        seen = tuple(pod.labels.get(key) for key in self._keys)
        if seen not in self._answers:
            self._answers[seen] = tuple(budget for budget in self._possible(pod) if covers(budget, pod))
        return self._answers[seen]

    def _possible(self, pod: Pod) -> list[Budget]:
        named = [budget for label in pod.labels.items() for budget in self._by_label.get(label, ())]
        return sorted([*named, *self._any_label], key=lambda budget: budget.name)


def _keys(selector: Selector | None) -> Iterable[str]:
    if selector is None:
        return ()
    return (*selector.labels, *(requirement.key for requirement in selector.expressions))


def _lets_unready_go(budget: Budget, status: BudgetStatus) -> bool:
    """An unready pod serves no requests: it may go without a disruption if the budget says so or has enough without
    it."""
    if budget.unhealthy_policy is UnhealthyPodPolicy.ALWAYS_ALLOW:
        return True
    return status.current_healthy >= status.desired_healthy > 0


def _nothing_left(budget: Budget, allowed: _Allowance, used: int) -> str:
    status = allowed.status
    promise = f"budget {budget.key} allows {pluralize(status.disruptions_allowed, 'disruption', 'disruptions')}"
    if used:
        return f"{promise}, and {pluralize(used, 'pod before this one uses it', 'pods before this one use them')}"
    if allowed.trouble:
        return f"{promise}: {allowed.trouble}"
    return f"{promise}: {status.current_healthy} of {status.expected_pods} healthy, {status.desired_healthy} needed"


def _allowance(budget: Budget, covered: Sequence[Pod]) -> _Allowance:
    own, cluster = _own_figures(budget, covered), budget.status
    if cluster is None:
        return own
    if not own.known:
        return _Allowance(status=cluster)
    return replace(own, status=min(cluster, own.status, key=_room))


def _room(status: BudgetStatus) -> tuple[int, int]:
    return status.disruptions_allowed, status.current_healthy - status.desired_healthy


def _own_figures(budget: Budget, covered: Sequence[Pod]) -> _Allowance:
    """The disruption controller's arithmetic. Both kinds of percentage round up."""
    by_max = budget.max_unavailable is not None
    limit = budget.max_unavailable if by_max else budget.min_available
    if limit is None:
        return _nothing(covered, "it sets neither minAvailable nor maxUnavailable")
    written = _COUNT.fullmatch(limit)
    if written is None:
        name = "maxUnavailable" if by_max else "minAvailable"
        return _nothing(covered, f"{name} {limit!r} is neither a count nor a percentage")
    count, is_share = int(written[1]), bool(written[2])
    expected = _asked_for(covered) if by_max or is_share else len(covered)
    if isinstance(expected, str):
        return replace(_nothing(covered, expected), known=False)
    if is_share:
        count = -(-count * expected // 100)
    needed = max(0, expected - count) if by_max else count
    status = _status(covered, needed=needed, expected=expected)
    # A budget that expects no pods allows nothing: the first ones may just be coming up.
    trouble = "no controller asks for any of its pods" if expected == 0 else ""
    return _Allowance(status=status, trouble=trouble)


def _asked_for(covered: Sequence[Pod]) -> int | str:
    """What the pods' controllers want, each counted once; pods without one count for nothing. Or who is unknown."""
    replicas: dict[str, int] = {}
    for pod in covered:
        owner = pod.owner
        if owner is None:
            continue
        if owner.gone or owner.replicas is None:
            return f"the scale of {owner.kind} {owner.name}, which owns pod {pod.key}, is not known"
        replicas[owner.uid or f"{owner.kind}/{owner.name}"] = owner.replicas
    return sum(replicas.values())


def _nothing(covered: Sequence[Pod], trouble: str) -> _Allowance:
    return _Allowance(status=_status(covered, needed=0, expected=0), trouble=trouble)


def _status(covered: Sequence[Pod], *, needed: int, expected: int) -> BudgetStatus:
    current = sum(is_healthy(pod) for pod in covered)
    allowed = max(0, current - needed) if expected > 0 else 0
    return BudgetStatus(
        disruptions_allowed=allowed, current_healthy=current, desired_healthy=needed, expected_pods=expected
    )

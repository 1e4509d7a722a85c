"""The simulation's own budget arithmetic agrees with the autoscaler's, which was written apart from it."""

from dataclasses import replace
from random import Random

import pytest

from nodefleet.eviction.budgets import BudgetTracker, EvictionPermitted, EvictionRefusal
from nodefleet.model.workload import Budget, Owner, Pod, PodPhase, Selector, UnhealthyPodPolicy
from nodefleet.ports import Eviction
from nodefleet_tools.sim.budgets import ruling, status
from nodefleet_tools.sim.world import NOON
from support.builders import allowance

LIMITS = ["0", "1", "2", "3", "0%", "28%", "30%", "50%", "100%"]


def some_pods(random: Random) -> list[Pod]:
    owners = [None] + [
        Owner(kind="ReplicaSet", name=name, uid=name, replicas=random.choice([None, 0, 1, 3, 7])) for name in "ab"
    ]
    weights = random.choice([(1, 6, 6), (0, 1, 1)])
    return [
        Pod(
            name=str(number),
            uid=str(number),
            labels={"app": random.choice(["shop", "shop", "web"])},
            owner=random.choices(owners, weights)[0],
            node="w1",
            phase=random.choices(list(PodPhase), (1, 8, 1, 1))[0],
            ready=random.random() < 0.8,
            deleted_at=NOON if random.random() < 0.1 else None,
        )
        for number in range(random.randrange(9))
    ]


def some_budget(random: Random, name: str) -> Budget:
    limit = {random.choice(["min_available", "max_unavailable"]): random.choice(LIMITS)}
    selector = random.choice([None, Selector(), Selector(labels={"app": "shop"})])
    return Budget(name=name, selector=selector, unhealthy_policy=random.choice(list(UnhealthyPodPolicy)), **limit)


@pytest.mark.parametrize("seed", range(300))
def test_both_count_the_same(seed):
    random = Random(seed)  # noqa: S311  # repeatable on purpose
    pods, budget = some_pods(random), some_budget(random, "b")
    own, theirs = allowance(budget, pods), status(budget, pods)
    assert own == theirs


@pytest.mark.parametrize("seed", range(300))
def test_both_answer_the_same(seed):
    random = Random(seed)  # noqa: S311  # repeatable on purpose
    pods = some_pods(random)
    budgets = [some_budget(random, str(number)) for number in range(random.randrange(3))]
    ledger = BudgetTracker([replace(each, status=status(each, pods)) for each in budgets], pods)
    words = {EvictionRefusal.NONE_LEFT: Eviction.REFUSED, EvictionRefusal.SEVERAL_BUDGETS: Eviction.SEVERAL_BUDGETS}
    for pod in pods:
        verdict = ledger.verdict(pod)
        expected = Eviction.EVICTED if isinstance(verdict, EvictionPermitted) else words[verdict.why]
        assert ruling(pod, budgets, pods).answer.result is expected

"""All policies on some traces, on all cores, and the table that comes of it."""

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import cache
from math import ceil, floor, log, log10
from pathlib import Path
from statistics import fmean

import nodefleet.engine.forecast
import nodefleet.policy.demand
import nodefleet_tools.backtest
from nodefleet.engine.forecast.sizing import Prices
from nodefleet.policy.demand import Adaptive as AdaptiveRules
from nodefleet.policy.pool import Limits, Pool
from nodefleet_tools.backtest import BUDGET
from nodefleet_tools.backtest.peers import (
    Adaptive,
    Classic,
    ClusterAutoscaler,
    Fixed,
    PredictiveTargetTracking,
    TargetTracking,
)
from nodefleet_tools.backtest.play import DAY, Conditions, Policy, Run, needed, optimum, play
from nodefleet_tools.backtest.traces import Trace

PRICES = {"frugal": 25.0, "balanced": Prices().violation, "careful": 140.0}  # node-minutes per violation minute
SHORTEST = 2 * DAY  # minutes: what is shorter has no yesterday, and does not count in the mean
_TRIES = 4  # prices that are played to meet a budget
_LEAST_PERCENT = 1e-3  # of minutes: none at all has no logarithm


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One policy on one trace."""

    policy: str
    trace: Trace
    conditions: Conditions
    pool: Pool | None = None  # of a policy file
    price: float | None = None  # of the adaptive strategy
    waits: int = 2  # of the adaptive strategy: readings that must find a scale-down worth it
    headroom: int = 0  # of the adaptive strategy
    optimum: float = 0.0
    keep: bool = False


def fingerprint(job: Job) -> str:
    """What a result depends on: the code that decides and plays, the load, the fleet and the policy. A result that is
    kept under it is never taken for that of another load or of another release."""
    trace = job.trace
    settings = (job.policy, job.conditions, job.pool, job.price, job.waits, job.headroom, trace.name)
    digest = hashlib.sha256(_digest_of_code())
    digest.update(repr((settings, trace.first_minute, list(trace.load))).encode())
    return digest.hexdigest()[:32]


@cache
def _digest_of_code() -> bytes:
    packages = (Path(package.__path__[0]) for package in (nodefleet.engine.forecast, nodefleet_tools.backtest))
    files = [path for package in packages for path in sorted(package.glob("*.py"))]
    digest = hashlib.sha256()
    for path in (*files, Path(nodefleet.policy.demand.__file__)):
        digest.update(path.read_bytes())
    return digest.digest()


def adaptive(
    conditions: Conditions,
    price: float,
    name: str,
    *,
    requeue: bool = True,
    waits: int = 2,
    headroom: int = 0,
    rules: AdaptiveRules | None = None,
) -> Adaptive:
    prices = replace(Prices(), violation=price)
    return Adaptive(conditions, prices, name=name, requeue=requeue, waits=waits, headroom=headroom, rules=rules)


def build(job: Job) -> Policy:
    conditions = job.conditions
    if job.price is not None:
        rules = job.pool.adaptive if job.pool else None
        return adaptive(conditions, job.price, job.policy, waits=job.waits, headroom=job.headroom, rules=rules)
    if job.pool is not None:
        return Classic(_limited(job.pool, conditions), job.policy)
    builders: dict[str, Callable[[], Policy]] = {
        "classic": lambda: Classic(_limited(Pool(), conditions)),
        "target tracking 60 %": TargetTracking,
        "cluster-autoscaler-like": lambda: ClusterAutoscaler(conditions),
        "AWS-predictive-like": PredictiveTargetTracking,
        "best fixed fleet": lambda: Fixed(best_fixed(job.trace, conditions)),
        "adaptive, no requeue": lambda: adaptive(conditions, PRICES["balanced"], job.policy, requeue=False),
        "adaptive, headroom 1": lambda: Adaptive(conditions, name=job.policy, headroom=1),
        **{
            f"adaptive {word}": lambda price=price: adaptive(conditions, price, job.policy)  # type: ignore[misc]
            for word, price in PRICES.items()
        },
    }
    return builders[job.policy]()


PEERS = ("classic", "target tracking 60 %", "cluster-autoscaler-like", "AWS-predictive-like", "best fixed fleet")
ADAPTIVE = tuple(f"adaptive {word}" for word in PRICES)


def best_fixed(trace: Trace, conditions: Conditions, budget: float = BUDGET) -> int:
    """The smallest fleet that never changes and stays within the budget of violations, known in hindsight."""
    scored = [load for load in trace.load[trace.history :] if load == load]  # noqa: PLR0124  # nan is not itself
    needs = [needed(load, conditions) for load in scored]
    for nodes in range(conditions.least, conditions.most):
        if 100 * sum(need > nodes for need in needs) <= budget * len(needs):
            return nodes
    return conditions.most


def run(job: Job) -> Run:
    policy = build(job)
    result = play(policy, job.trace, job.conditions, job.optimum, keep=job.keep)
    result.policy = job.policy
    if isinstance(policy, Adaptive):
        result.grade = policy.grade
    return result


def price_for(budget: float, played: Sequence[tuple[float, float]]) -> float | None:
    """The price (node-minutes, two digits, rounded up) at which a load has `budget` percent violations, between the
    prices that were played with their violations, on a line of their logarithms; none outside of them."""
    points = sorted((price, max(percent, _LEAST_PERCENT)) for price, percent in played)
    for (low, many), (high, few) in itertools.pairwise(points):
        if few <= budget <= many:
            share = log(many / budget) / log(many / few) if many > few else 0.0
            return _round_up(low * (high / low) ** share)
    return None


def meet_budget(budget: float, played: Sequence[tuple[float, float]], play_at: Callable[[float], Run]) -> Run | None:
    """The run of the cheapest price found that stays within the budget when it is played; none if a price that was
    played before is that. Violations are no smooth line of the price, so one that misses is tried again, higher."""
    points = list(played)
    price = price_for(budget, points)
    for _ in range(_TRIES):
        if price is None or any(price == before for before, _ in points):
            return None
        result = play_at(price)
        if result.violation_pct <= budget:
            return result
        points.append((price, result.violation_pct))
        within = [above for above, percent in points if above > price and percent <= budget]
        price = _round_up((price * min(within)) ** 0.5) if within else None
    return None


def verdict(runs: Sequence[Run], budget: float) -> str:
    """One sentence: the cheapest policy within the budget, against the classic rules."""
    within = [run for run in runs if run.violation_pct <= budget and not run.policy.startswith("best fixed")]
    classic = next(run for run in runs if run.policy == "classic")
    if not within:
        least = min(runs, key=lambda run: run.violation_pct)
        return (
            f"No policy stays within {budget:g} % violations; "
            f"{least.policy} comes closest with {least.violation_pct:.2f} %."
        )
    best = min(within, key=lambda run: run.node_minutes)
    saved = 100 * (classic.node_minutes - best.node_minutes) / classic.node_minutes
    than = "less" if saved >= 0 else "more"
    return (
        f"Within {budget:g} % violations {best.policy} is cheapest: {best.violation_pct:.2f} % at "
        f"{best.vs_optimum:.2f} × the optimum, {abs(saved):.0f} % {than} node-hours "
        f"than classic ({classic.violation_pct:.2f} %)."
    )


def _round_up(price: float) -> float:
    """To two digits. What is a hair above them counts as them."""
    unit = 10.0 ** (floor(log10(price)) - 1)
    return float(f"{ceil(price / unit - 1e-9) * unit:.6g}")


def run_all(jobs: Sequence[Job], processes: int) -> Iterator[Run]:
    """The results as they come."""
    if processes <= 1:
        yield from map(run, jobs)
        return
    with ProcessPoolExecutor(processes) as pool:
        pending = [pool.submit(run, job) for job in jobs]
        try:
            for done in as_completed(pending):
                yield done.result()
        finally:
            for each in pending:
                each.cancel()  # the caller may want no more of them


def jobs_for(
    traces: Iterable[Trace], conditions: Conditions, policies: Sequence[str], *, keep: bool = False
) -> list[Job]:
    jobs = []
    for trace in traces:
        best = optimum(trace, conditions)
        jobs += [Job(policy=policy, trace=trace, conditions=conditions, optimum=best, keep=keep) for policy in policies]
    return sorted(jobs, key=lambda job: (not job.policy.startswith("adaptive"), -job.trace.minutes))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """A policy over several traces, each of which weighs the same."""

    policy: str
    traces: int
    violation_pct: float
    unavoidable_pct: float
    vs_optimum: float
    actions_per_day: float
    undone_pct: float


def mean(policy: str, runs: Sequence[Run]) -> Mean:
    return Mean(
        policy=policy,
        traces=len(runs),
        violation_pct=fmean(run.violation_pct for run in runs),
        unavoidable_pct=fmean(100 * run.unavoidable_minutes / max(1, run.minutes) for run in runs),
        vs_optimum=fmean(run.vs_optimum for run in runs),
        actions_per_day=fmean(run.actions_per_day for run in runs),
        undone_pct=fmean(run.undone_pct for run in runs),
    )


def cost_at(budget: float, means: Sequence[Mean]) -> float | None:
    """× optimum at this share of violations, on the line between the two prices around it; none outside of them."""
    points = sorted((each.violation_pct, each.vs_optimum) for each in means)
    for (low, costly), (high, cheap) in itertools.pairwise(points):
        if low <= budget <= high and high > low:
            return costly + (cheap - costly) * (budget - low) / (high - low)
    return None


def _limited(pool: Pool, conditions: Conditions) -> Pool:
    return replace(pool, limits=Limits(min=conditions.least, max=conditions.most))

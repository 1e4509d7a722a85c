"""Alarms on a policy's own readings, whatever their source.

CloudWatch watches what it has itself (`reading_alarms`), Prometheus the rest (`reading_rules`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from nodefleet.policy.demand import (
    ClearTime,
    DemandRule,
    JobDemand,
    PerWorkerQueue,
    Quantity,
    QueueAndLatency,
    Threshold,
)
from nodefleet.policy.pool import Pool
from nodefleet.policy.sources import Source
from nodefleet_infra.config import Cluster
from nodefleet_infra.names import Names

TOO_SLOW = 1.5  # × target
SATURATED_PERCENT = 90


class Measure(Enum):
    LEVEL = "level"  # the reading itself
    GROWTH = "growth"  # in a second
    SHARE = "share"  # percent of the pool's workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    key: str  # of MEANINGS
    reading: str  # its name in the policy
    source: Source
    measure: Measure
    limit: float
    minutes: int  # how long it must have been above
    pool: Pool
    rule: str  # the demand rule that is about it
    place: str  # of that rule, for names
    runners_per_node: int = 1  # how many workers a node is

    def name(self, names: Names, cluster: Cluster) -> str:
        return names.of(cluster.name, self.place, self.key)


def watched(cluster: Cluster) -> Iterator[Watch]:
    for pool in cluster.policy.pools:
        for index, rule in enumerate(pool.custom):
            yield from _of_rule(pool, rule, f"{pool.name}-{index}")


def _of_rule(pool: Pool, rule: DemandRule, place: str) -> Iterator[Watch]:
    def watch(key: str, reading: str, measure: Measure, limit: float, minutes: int) -> Iterator[Watch]:
        if source := pool.readings.get(reading):
            yield Watch(
                key=key,
                reading=reading,
                source=source,
                measure=measure,
                limit=limit,
                minutes=minutes,
                pool=pool,
                rule=rule.name,
                place=place,
                runners_per_node=getattr(rule, "runners_per_node", 1),
            )

    yield from watch("queue-growing", queue_of(rule), Measure.GROWTH, pool.targets.queue_growth, 2)
    yield from watch("latency-high", latency_of(rule), Measure.LEVEL, TOO_SLOW * target_of(rule, pool), 3)
    yield from watch("pool-saturated", busy_of(rule), Measure.SHARE, SATURATED_PERCENT, 5)


# ── which of a rule's readings is what ───────────────────────────────────────────────────────────────────────────


def queue_of(rule: DemandRule) -> str:
    """The reading that counts what waits; empty if the rule has none."""
    match rule:
        case Threshold(quantity=Quantity.QUEUE):
            return rule.reading
        case QueueAndLatency() | PerWorkerQueue() | ClearTime():
            return rule.queue
        case JobDemand():
            return rule.jobs
        case _:
            return ""


def latency_of(rule: DemandRule) -> str:
    match rule:
        case Threshold(quantity=Quantity.LATENCY):
            return rule.reading
        case QueueAndLatency():
            return rule.p95_ms
        case _:
            return ""


def busy_of(rule: DemandRule) -> str:
    """The reading that counts workers with a job in hand."""
    match rule:
        case QueueAndLatency():
            return rule.busy
        case ClearTime():
            return rule.running
        case _:
            return ""


def target_of(rule: DemandRule, pool: Pool) -> float:
    """Of its latency, in the reading's own unit."""
    match rule:
        case Threshold():
            own = rule.limit
        case QueueAndLatency():
            own = rule.p95_target_ms
        case _:
            own = None
    return pool.targets.p95_ms if own is None else own

"""The join time of a pool's nodes, learned per instance type and zone.

A forecast must reach as far ahead as a node takes from launch to Ready. `adaptive.join` is that figure until nodes have
joined; afterwards the nodes' own figures replace it. Each node counts once, when it is first seen ready after it was
seen booting, so a node that lost and regained its kubelet teaches nothing.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from statistics import median

from nodefleet.model.fleet import Phase, Worker
from nodefleet.model.state import AdaptiveMemory
from nodefleet.policy.pool import Pool

KEPT = 8  # joins of a type and zone: enough for a median, few enough to follow a new image
FEWEST = 3  # joins: fewer are no rule


def learn_joins(memory: AdaptiveMemory, workers: Sequence[Worker], now: datetime) -> AdaptiveMemory:
    """The joins of the nodes that were booting at the last iteration and are ready now, and which are booting now."""
    joins = {key: list(seconds) for key, seconds in memory.joins.items()}
    for worker in workers:
        if worker.phase is Phase.READY and worker.id in memory.booting and worker.instance and worker.node:
            ready_at = worker.node.ready_changed_at or now
            seconds = round((ready_at - worker.instance.launched_at).total_seconds())
            if seconds > 0:  # two clocks: EC2's and the API server's
                joins.setdefault(_key(worker.instance.type, worker.instance.zone), []).append(seconds)
    return replace(
        memory,
        joins={key: tuple(seconds[-KEPT:]) for key, seconds in joins.items()},
        booting=tuple(sorted(worker.id for worker in workers if worker.phase is Phase.BOOTING)),
    )


def expected_join(joins: Mapping[str, Sequence[int]], pool: Pool, zones: Collection[str]) -> timedelta:
    """How long the next node will take: the slowest median among the types and zones that the pool launches, because
    which of them EC2 will give is not known yet. A launch that takes longer than `health.join_limit` has failed."""
    relevant = [
        seconds
        for key, seconds in joins.items()
        if _type(key) in pool.market.types and (not zones or _zone(key) in zones)
    ]
    known = [median(seconds) for seconds in relevant if len(seconds) >= FEWEST]
    together = [each for seconds in relevant for each in seconds]
    if not known and len(together) >= FEWEST:
        known = [median(together)]
    if not known:
        return pool.adaptive.join
    return min(timedelta(seconds=max(known)), pool.health.join_limit)


def _key(type_: str, zone: str) -> str:
    return f"{type_} {zone}"


def _type(key: str) -> str:
    return key.partition(" ")[0]


def _zone(key: str) -> str:
    return key.partition(" ")[2]

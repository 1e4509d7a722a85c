"""Alarms on a policy's own readings where Prometheus has them: its rules, which Alertmanager brings to operators.

A reading is recorded first, as the policy asks for it, and watched by that record: whatever PromQL the policy has
stands by itself, and may be a scalar, which cannot be compared. Why Prometheus and not the loop: docs/decisions/011.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from nodefleet.adapters.prometheus import for_pool
from nodefleet.notifications.alarm_catalog import MEANINGS
from nodefleet.policy.sources import Prometheus
from nodefleet_infra.config import Cluster
from nodefleet_infra.names import Names
from nodefleet_infra.watched_readings import Measure, Watch, watched

READING, NODES = "node_fleet:reading", "node_fleet:nodes"
TELL = {"tell": "warning"}  # by which Alertmanager knows what is for operators

_EXPRESSIONS = {
    Measure.LEVEL: "max by (pool) ({reading})",
    # From minute to minute: a slope would miss what is measured once a minute and goes up in steps.
    Measure.GROWTH: "max by (pool) (max_over_time({reading}[1m]) - max_over_time({reading}[1m] offset 1m)) / 60",
    Measure.SHARE: "100 * max by (pool) ({reading}) / ({runners} * max by (pool) ({nodes}))",
}
_WORDS = {
    Measure.LEVEL: "{reading}",
    Measure.GROWTH: "growth of {reading} in a second",
    Measure.SHARE: "{reading} in percent of the workers",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Utilisation:
    """An alarm on the workers' mean CPU or memory, of whichever pool has most."""

    key: str  # of MEANINGS
    reading: Literal["cpu", "memory"]  # of a pool's queries
    tell: Literal["critical", "warning"]
    percent: int
    seconds: int  # for which every value is above it


CPU_HIGH = Utilisation(key="cpu-high", reading="cpu", tell="critical", percent=90, seconds=300)
MEMORY_HIGH = Utilisation(key="memory-high", reading="memory", tell="warning", percent=80, seconds=600)


def reading_rules(names: Names, cluster: Cluster, *, utilisation: bool = False) -> tuple[dict[str, Any], ...]:
    """What is recorded, and then the alerts, in the order in which Prometheus is to work them out. `utilisation`: CPU
    and memory too, which CloudWatch watches otherwise, for two metrics and two alarms that cost something."""
    ours = [watch for watch in watched(cluster) if isinstance(watch.source, Prometheus)]
    records = {json.dumps(record): record for watch in ours for record in _records(watch)}
    busy = [rule for each in (CPU_HIGH, MEMORY_HIGH) for rule in _busy(names, cluster, each)] if utilisation else []
    return (*records.values(), *(_alert(names, cluster, watch) for watch in ours), *busy)


def _busy(names: Names, cluster: Cluster, alarm: Utilisation) -> Iterator[dict[str, Any]]:
    record = f"node_fleet:{alarm.reading}"
    for pool in cluster.policy.pools:
        asked = for_pool(getattr(pool.queries, alarm.reading), pool.name)
        if isinstance(asked, str):
            yield {"record": record, "expr": asked, "labels": {"pool": pool.name}}
    words = f"mean {'CPU' if alarm.reading == 'cpu' else 'memory'} of the workers, in percent"
    yield {
        "alert": names.of(cluster.name, alarm.key),
        "expr": f"max({record}) > {alarm.percent}",
        "for": f"{alarm.seconds}s",
        "labels": {"tell": alarm.tell},
        "annotations": {
            "says": MEANINGS[alarm.key].says,
            "reason": f'{words}: {{{{ printf "%.4g" $value }}}}',
            "watched": words,
            "limit": str(alarm.percent),
            "seconds": str(alarm.seconds),
        },
    }


def _records(watch: Watch) -> Iterator[dict[str, Any]]:
    """A name that cannot stand in a query has no reading either: the loop says so."""
    asked = for_pool(watch.source.query, watch.pool.name) if isinstance(watch.source, Prometheus) else None
    if isinstance(asked, str):
        yield {"record": READING, "expr": asked, "labels": {"pool": watch.pool.name, "reading": watch.reading}}
    nodes = for_pool(watch.pool.queries.nodes, watch.pool.name)
    if watch.measure is Measure.SHARE and isinstance(nodes, str):
        yield {"record": NODES, "expr": nodes, "labels": {"pool": watch.pool.name}}


def _alert(names: Names, cluster: Cluster, watch: Watch) -> dict[str, Any]:
    pool = f"pool={_quoted(watch.pool.name)}"
    measured = _EXPRESSIONS[watch.measure].format(
        reading=f"{READING}{{{pool}, reading={_quoted(watch.reading)}}}",
        nodes=f"{NODES}{{{pool}}}",
        runners=watch.runners_per_node,
    )
    words = _as_it_is(_WORDS[watch.measure].format(reading=watch.reading))
    limit = json.dumps(watch.limit)
    return {
        "alert": watch.name(names, cluster),
        "expr": f"{measured} > {limit}",
        "for": f"{watch.minutes}m",
        "labels": TELL | {"pool": watch.pool.name},
        "annotations": {
            "says": _as_it_is(f"{MEANINGS[watch.key].says} ({watch.rule}, pool {watch.pool.name})"),
            "reason": f'{words}: {{{{ printf "%.4g" $value }}}}',
            "watched": words,
            "limit": limit,
            "seconds": f"{watch.minutes * 60}",
        },
    }


def _quoted(text: str) -> str:
    """As PromQL writes a string."""
    return json.dumps(text, ensure_ascii=False)


def _as_it_is(text: str) -> str:
    """Prometheus takes {{ for the beginning of a template."""
    return text.replace("{{", '{{ "{{" }}')

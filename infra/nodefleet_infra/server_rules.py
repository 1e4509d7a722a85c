"""What Prometheus watches of the master itself: its disk, its snapshots, its login, its updates, and who is scraped.

CloudWatch knows none of it without an agent and a metric to pay for each. A master that is gone altogether tells
nothing: for that EC2's status check and the API server's and Prometheus's own alarms ring, which live outside of it.

The server writes what only it knows (userdata/upkeep.sh) for node-exporter to pick up; a figure that is no longer
written is as wrong as one beyond its limit.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Literal

from cronsim import CronSim

from nodefleet.notifications.alarm_catalog import MEANINGS
from nodefleet_infra.config import Cluster
from nodefleet_infra.names import Names

DISK_USED_PERCENT = 85  # etcd stops at the first write that fails; of 40 GB Prometheus may take 20
LATE_SNAPSHOTS = 2.0  # times the longest pause that the schedule has: one may fail, two may not
LATE_FIGURES = timedelta(minutes=30)  # the timer comes every five minutes
LOGIN_LEFT = timedelta(hours=8)  # of 24 h, renewed from 12 h on: four hours of failing, and a third of a day to fix it
LATE_UPDATES = timedelta(days=3)  # they come every day
LATE_REBOOT = timedelta(days=7)  # a new kernel counts from the next start only

_OF_SERVER = '{role="server"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRule:
    key: str  # of MEANINGS
    tell: Literal["critical", "warning"]
    expr: str
    watched: str  # in words
    limit: str
    lasting: timedelta


def server_rules(names: Names, cluster: Cluster) -> tuple[dict[str, Any], ...]:
    return tuple(_alert(names, cluster, rule) for rule in _rules(cluster))


def _rules(cluster: Cluster) -> Iterator[ServerRule]:
    root = '{role="server", mountpoint="/"}'
    yield ServerRule(
        key="master-disk",
        tell="critical",
        expr=f"100 - 100 * node_filesystem_avail_bytes{root} / node_filesystem_size_bytes{root} > {DISK_USED_PERCENT}",
        watched="disk of the master that is in use, in percent",
        limit=str(DISK_USED_PERCENT),
        lasting=timedelta(minutes=5),
    )
    late = round(LATE_SNAPSHOTS * longest_pause(cluster.master.snapshot_cron).total_seconds())
    yield _age("snapshots-late", "critical", "node_fleet_snapshot_timestamp_seconds", "the newest snapshot in S3", late)
    figures = round(LATE_FIGURES.total_seconds())
    yield _age("keeping-late", "critical", "node_textfile_mtime_seconds", "what the master's timer wrote", figures)
    left, name = round(LOGIN_LEFT.total_seconds()), f"node_fleet_login_expiry_timestamp_seconds{_OF_SERVER}"
    yield ServerRule(
        key="login-expiring",
        tell="critical",
        expr=f"time() + {left} - {name} > 0 or absent({name}) * {left}",
        watched=f"seconds by which the autoscaler's login is nearer its end than {left // 3600} hours",
        limit="0",
        lasting=timedelta(minutes=15),
    )
    if cluster.master.updates != "off":
        updates = round(LATE_UPDATES.total_seconds())
        yield _age("updates-late", "warning", "node_fleet_updates_timestamp_seconds", "security updates", updates)
        yield ServerRule(
            key="reboot-due",
            tell="warning",
            expr=f"node_fleet_reboot_due{_OF_SERVER} > 0",
            watched="a new kernel that waits for a start",
            limit="0",
            lasting=LATE_REBOOT,
        )
    yield ServerRule(
        key="scrape-refused",
        tell="warning",
        expr='sum(increase(prometheus_target_scrapes_exceeded_sample_limit_total{job="prometheus"}[15m])) > 0',
        watched="scrapes of pods that were refused for their size",
        limit="0",
        lasting=timedelta(minutes=5),
    )


def _age(key: str, tell: Literal["critical", "warning"], metric: str, what: str, seconds: int) -> ServerRule:
    """One that is not there at all is as old as can be."""
    name = f"{metric}{_OF_SERVER}"
    return ServerRule(
        key=key,
        tell=tell,
        expr=f"time() - {name} > {seconds} or absent({name}) * {10 * seconds}",
        watched=f"age of {what}, in seconds",
        limit=str(seconds),
        lasting=timedelta(minutes=15),
    )


def _alert(names: Names, cluster: Cluster, rule: ServerRule) -> dict[str, Any]:
    seconds = round(rule.lasting.total_seconds())
    return {
        "alert": names.of(cluster.name, rule.key),
        "expr": rule.expr,
        "for": f"{seconds}s",
        "labels": {"tell": rule.tell},
        "annotations": {
            "says": MEANINGS[rule.key].says,
            "reason": f'{rule.watched}: {{{{ printf "%.4g" $value }}}}',
            "watched": rule.watched,
            "limit": rule.limit,
            "seconds": str(seconds),
        },
    }


def longest_pause(cron: str) -> timedelta:
    """Between two times of a schedule, within five weeks of one that has everything."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    end = start + timedelta(days=35)
    times = [start]
    for each in CronSim(cron, start):
        times.append(each)
        if each > end:
            break
    return max(later - earlier for earlier, later in pairwise(times))

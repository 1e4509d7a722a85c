"""Short simulated situations in which the shipped code really sends each kind of message.

    make messages      plays them all, and writes tests/messages.json and the examples of docs/messages.md

Each situation sets a world up and plays ticks of the schedule until the message is in the table. Nothing in the text is
made here: the rules decide, the loop records, and the notifier's own code makes the message of it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from warnings import catch_warnings, simplefilter
from zoneinfo import ZoneInfo

import pytest

from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Event
from nodefleet.model.operations import RefusalKind
from nodefleet.reporting.usage import Period, last_day, last_week
from nodefleet.reporting.weekly import WeeklyReport, weekly_report
from nodefleet.reporting.weekly_text import daily_event, report_event
from nodefleet_tools.dashboard.demo import connection_to
from nodefleet_tools.sim.hooks import Call
from nodefleet_tools.sim.kube import Traits
from nodefleet_tools.sim.load import Service
from nodefleet_tools.sim.world import World
from support.sim_connections import SimConnection, Terminal
from support.worlds import Cluster, empty, shop, spot_worker

MONDAY = datetime(2026, 11, 9, tzinfo=UTC)
_LONGEST = 120  # ticks: four hours

Situation = Callable[[], Cluster]
SITUATIONS: dict[AlertKind, Situation] = {}


def _shows(kind: AlertKind) -> Callable[[Situation], Situation]:
    def known(situation: Situation) -> Situation:
        SITUATIONS[kind] = situation
        return situation

    return known


def produced(kind: AlertKind) -> Event:
    """The first message of this kind in its situation."""
    return _played(SITUATIONS[kind](), kind, 1)[0]


def all_produced() -> dict[str, list[Event]]:
    """The messages of each section of docs/messages.md, by its heading."""
    return {kind.value: [produced(kind)] for kind in SITUATIONS} | {
        "dry run": _played(shop(workers=4, replicas=2, cpu=100, dry_run=True), AlertKind.SCALE_DOWN, 1),
        "many of a kind": _played(_nobody_joins(least=5), AlertKind.JOIN_FAILED, 5),
    }


def alarms_sent() -> dict[str, dict[str, Any]]:
    """What CloudWatch sends of an alarm as the stack deploys it: name, description and rule are the deployment's, only
    the state and CloudWatch's sentence about it are not."""
    with catch_warnings():
        simplefilter("ignore", DeprecationWarning)  # Pulumi's own
        from nodefleet_infra.alarms import alarms  # noqa: PLC0415  # loads Pulumi
        from nodefleet_infra.monitoring import _COMPARISONS  # noqa: PLC0415
        from nodefleet_infra.names import Names  # noqa: PLC0415
        from nodefleet_infra.stack import stack_from  # noqa: PLC0415

    data = {"network": {"zones": ["us-east-1a", "us-east-1b"]}, "clusters": [{"name": "shop"}]}
    stack = stack_from("node-fleet", "prod", "us-east-1", data)
    names, masters = Names(project="node-fleet", stack="prod"), {cluster.id: "i-0" for cluster in stack.clusters}
    made = {each.name: each for each in alarms(names, stack.clusters, stack.config.autoscaler.schedule, masters)}
    name = names.of("shop", "no-invocation")
    alarm, (series,) = made[name], made[name].series.values()
    sent = {
        "AlarmName": name,
        "AlarmDescription": alarm.says,
        "AlarmArn": f"arn:aws:cloudwatch:us-east-1:123456789012:alarm:{name}",
        "Trigger": {
            "MetricName": series.metric,
            "Statistic": series.statistic.upper(),
            "Period": alarm.period,
            "EvaluationPeriods": alarm.periods,
            "ComparisonOperator": _COMPARISONS[alarm.over],
            "Threshold": alarm.limit,
            "Dimensions": [{"name": key, "value": value} for key, value in series.dimensions.items()],
        },
    }
    silent = "no datapoints were received for 1 period and 1 missing datapoint was treated as [Breaching]."
    back = f"1 datapoint [5.0 (16/11/26 03:20:00)] was not less than the threshold ({alarm.limit:.1f})."
    return {
        "alarm": {
            **sent,
            "NewStateValue": "ALARM",
            "OldStateValue": "OK",
            "StateChangeTime": "2026-11-16T03:12:05.000+0000",
            "NewStateReason": f"Threshold Crossed: {silent}",
        },
        "alarm over": {
            **sent,
            "NewStateValue": "OK",
            "OldStateValue": "ALARM",
            "StateChangeTime": "2026-11-16T03:26:05.000+0000",
            "NewStateReason": f"Threshold Crossed: {back}",
        },
    }


def _played(cluster: Cluster, kind: AlertKind, number: int) -> list[Event]:
    table = cluster.world.table

    def found() -> list[Event]:
        return [event for event in table.events if event.kind is kind]

    cluster.until(lambda: len(found()) >= number, ticks=_LONGEST)
    return found()[:number]


def _busy(workers: int = 3, share: float = 0.9, **policy: object) -> Cluster:
    """Pods that work at this share of what their nodes have."""
    world = World(seed=1, policy={"limits": {"min": 2, "max": 6}, **policy})
    world.add_workers(workers)
    workload = world.deploy("shop", replicas=2 * workers, cpu=900)
    world.load.add(Service(workload=workload, demand=lambda _: share * 2 * workers, per_pod=1.0))
    world.settle()
    return Cluster(world)


@contextmanager
def _typed(world: World) -> Iterator[Terminal]:
    with pytest.MonkeyPatch.context() as patch:
        yield Terminal(patch, SimConnection(world))


def _person(*commands: tuple[str, ...]) -> Cluster:
    cluster = shop()
    with _typed(cluster.world) as terminal:
        for command in commands:
            done = terminal(*command)
            assert done.exit_code == 0, done.output
    return cluster


# ── size ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@_shows(AlertKind.SCALE_UP)
def _cpu_is_high() -> Cluster:
    return _busy()


@_shows(AlertKind.SCALE_DOWN)
def _quiet_evening() -> Cluster:
    return shop(workers=4, replicas=2, cpu=100)


@_shows(AlertKind.AT_MAX)
def _too_many_pods() -> Cluster:
    cluster = shop(workers=3, limits={"min": 2, "max": 3})
    cluster.world.deploy("checkout", replicas=6, cpu=1000)
    return cluster


@_shows(AlertKind.SCALED_BY_OPERATOR)
def _somebody_scales() -> Cluster:
    return _person(("scale", "default", "5", "--for", "2h", "--reason", "load test", "--by", "anna"))


@_shows(AlertKind.HANDED_OVER)
def _somebody_adopts() -> Cluster:
    cluster = shop()
    cluster.world.add_workers(1, pool="batch")
    with _typed(cluster.world) as terminal:
        done = terminal("adopt", "--pool", "default", "--all", "--reason", "batch is retired", "--by", "anna")
        assert done.exit_code == 0, done.output
    return cluster


@_shows(AlertKind.RECYCLED)
def _somebody_recycles() -> Cluster:
    cluster = shop()
    worker = cluster.world.workers()[0].id
    with _typed(cluster.world) as terminal:
        done = terminal("recycle", worker, "--yes", "--reason", "kernel update", "--by", "anna")
        assert done.exit_code == 0, done.output
    return cluster


@_shows(AlertKind.DRAINED)
def _somebody_drains() -> Cluster:
    cluster = shop()
    worker = cluster.world.workers()[0].id
    with _typed(cluster.world) as terminal:
        done = terminal("drain", worker, "--yes", "--reason", "noisy disk", "--by", "anna")
        assert done.exit_code == 0, done.output
    return cluster


@_shows(AlertKind.PROTECTED)
def _somebody_protects() -> Cluster:
    cluster = shop()
    with pytest.MonkeyPatch.context() as patch:
        connection = connection_to(cluster.world)
        name = cluster.world.node_of(cluster.world.workers()[0]).name
        done = Terminal(patch, connection)("protect", name, "--reason", "holds a debug session", "--by", "anna")
        assert done.exit_code == 0, done.output
    return cluster


@_shows(AlertKind.PAUSED)
def _somebody_pauses() -> Cluster:
    return _person(("pause", "--for", "2h", "--reason", "database migration", "--by", "anna"))


@_shows(AlertKind.RESUMED)
def _somebody_resumes() -> Cluster:
    return _person(
        ("pause", "--for", "2h", "--reason", "database migration", "--by", "anna"), ("resume", "--by", "anna")
    )


# ── launching ────────────────────────────────────────────────────────────────────────────────────────────────────


def _nobody_joins(least: int = 2) -> Cluster:
    cluster = empty(limits={"min": least, "max": least + 4})
    cluster.world.kube.settings.never_joins = 1.0
    return cluster


SITUATIONS[AlertKind.JOIN_FAILED] = _nobody_joins
SITUATIONS[AlertKind.JOIN_BACKOFF] = _nobody_joins


def _refused(kind: RefusalKind, code: str) -> Cluster:
    cluster = empty()
    cluster.world.shop.refuse(kind=kind, code=code)
    return cluster


@_shows(AlertKind.NO_CAPACITY)
def _no_spot() -> Cluster:
    return _refused(RefusalKind.CAPACITY, "InsufficientInstanceCapacity")


@_shows(AlertKind.QUOTA)
def _quota_is_reached() -> Cluster:
    return _refused(RefusalKind.QUOTA, "VcpuLimitExceeded")


@_shows(AlertKind.PERMISSION)
def _may_not_launch() -> Cluster:
    return _refused(RefusalKind.PERMISSION, "UnauthorizedOperation")


@_shows(AlertKind.LAUNCH_INVALID)
def _subnet_is_gone() -> Cluster:
    return _refused(RefusalKind.INVALID, "InvalidSubnetID.NotFound")


# ── leaving ──────────────────────────────────────────────────────────────────────────────────────────────────────


@_shows(AlertKind.DRAIN_BLOCKED)
def _budget_allows_no_disruption() -> Cluster:
    return _leaving()


def _leaving() -> Cluster:
    """A node that is to leave and cannot: the budget comes after it was chosen, before its first pod is evicted."""
    cluster = shop(workers=4, replicas=12, cpu=100)
    world = cluster.world

    def protect(call: Call) -> None:
        if call.method == "evict" and not world.kube.budgets:
            world.protect("shop", max_unavailable="0")

    cluster.until(lambda: any(node.removal for node in world.kube.nodes.values()), protect, ticks=30)
    return cluster


def _interrupted() -> Cluster:
    cluster = shop(workers=3, replicas=6, cpu=300)
    world = cluster.world
    world.protect("shop", max_unavailable="0")
    cluster.tick()
    cluster.warned([world.interrupt(spot_worker(world))])
    return cluster


SITUATIONS[AlertKind.INTERRUPTED] = _interrupted
SITUATIONS[AlertKind.FORCED] = _interrupted


def _standby(health: Callable[[Cluster], float]) -> Cluster:
    """A standby of another region, whose health Prometheus shows."""
    reading = {"kind": "prometheus", "query": 'count(up{region="eu"} == 1)'}
    cluster = shop(readings={"eu": reading}, standby={"origin": "eu", "reading": "eu", "nodes": 3})
    cluster.world.prometheus.custom["default", "eu"] = lambda: health(cluster)
    return cluster


@_shows(AlertKind.FAILOVER)
def _region_fails() -> Cluster:
    return _standby(lambda cluster: 6.0 if cluster.world.now - cluster.began < timedelta(minutes=10) else 0.0)


@_shows(AlertKind.STANDBY_BLIND)
def _health_is_never_seen() -> Cluster:
    return _standby(lambda _: 0.0)


@_shows(AlertKind.READMITTED)
def _somebody_uncordons() -> Cluster:
    cluster = _leaving()
    (leaving,) = [node.name for node in cluster.world.kube.nodes.values() if node.removal]
    cluster.world.operator.uncordon(leaving)
    return cluster


# ── health ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _dead(number: int, workers: int) -> Cluster:
    cluster = shop(workers=workers, replicas=4, limits={"min": workers, "max": workers + 2})
    for node in cluster.world.ready_nodes()[:number]:
        cluster.world.nodes.silence(node.name)
    return cluster


@_shows(AlertKind.UNHEALTHY)
def _one_is_dead() -> Cluster:
    return _dead(1, 4)


@_shows(AlertKind.MANY_UNHEALTHY)
def _half_is_dead() -> Cluster:
    return _dead(3, 6)


@_shows(AlertKind.CLEANUP_NEEDS_OPERATOR)
def _machines_are_gone() -> Cluster:
    """EC2's list lacks machines whose nodes are there and silent."""
    cluster = shop(workers=5, replicas=2)
    cluster.tick()
    for machine in cluster.world.workers()[:4]:
        cluster.world.nodes.silence(cluster.world.node_of(machine).name)
        machine.ours = False
    return cluster


@_shows(AlertKind.SCALE_DOWN_BLOCKED)
def _query_is_wrong() -> Cluster:
    cluster = shop(
        readings={"error_percent": {"kind": "prometheus", "query": "sum(errors"}},
        custom=[{"kind": "threshold", "name": "errors", "reading": "error_percent", "quantity": "errors"}],
    )
    cause = "Prometheus does not understand the query (bad_data: parse error: unclosed left parenthesis)"
    cluster.world.prometheus.missing["default", "error_percent"] = cause
    return cluster


@_shows(AlertKind.NODE_IN_DOUBT)
def _exporter_is_down() -> Cluster:
    cluster = shop()
    cluster.world.prometheus.silent.add(cluster.world.node_of(cluster.world.workers()[1]).name)
    return cluster


@_shows(AlertKind.DEGRADED)
def _prometheus_is_away() -> Cluster:
    cluster = shop()
    cluster.tick()
    cluster.world.away("gauges", "no answer within 5 s")
    return cluster


@_shows(AlertKind.RECOVERED)
def _prometheus_is_back() -> Cluster:
    cluster = _prometheus_is_away()
    cluster.until(lambda: any(e.kind is AlertKind.DEGRADED for e in cluster.world.table.events), ticks=30)
    cluster.world.back("gauges")
    return cluster


# ── demand ───────────────────────────────────────────────────────────────────────────────────────────────────────


@_shows(AlertKind.CANNOT_HOLD)
def _pod_is_too_large() -> Cluster:
    cluster = shop()
    cluster.world.deploy("train", replicas=1, cpu=16_000, namespace="ml")
    return cluster


@_shows(AlertKind.PODS_REFUSED)
def _scheduler_refuses() -> Cluster:
    """Two pods ask for a claim that nobody can bind; the nodes have room for them."""
    cluster = shop()
    refused = Traits(refused='storageclass.storage.k8s.io "fast" not found')
    cluster.world.deploy("db", replicas=2, cpu=100, traits=refused)
    return cluster


@_shows(AlertKind.NO_BENEFIT)
def _latency_stays() -> Cluster:
    """The database is slow, not the workers."""
    world = World(
        seed=1,
        policy={
            "limits": {"min": 2, "max": 8},
            "readings": {"p95": {"kind": "prometheus", "query": "p95_ms", "when_missing": "veto"}},
            "custom": [{"kind": "threshold", "name": "latency", "reading": "p95", "quantity": "latency"}],
            "targets": {"p95_ms": 500},
        },
    )
    world.add_workers(3)
    world.deploy("shop", replicas=4, cpu=500)
    world.prometheus.custom["default", "p95"] = lambda: 1900.0
    world.settle()
    return Cluster(world)


# ── policy and report ────────────────────────────────────────────────────────────────────────────────────────────


@_shows(AlertKind.POLICY_CHANGED)
def _stack_declares() -> Cluster:
    cluster = shop()
    cluster.world.declare({"limits": {"min": 2, "max": 8}})
    return cluster


@_shows(AlertKind.POLICY_REFUSED)
def _stack_declares_nonsense() -> Cluster:
    cluster = shop()
    cluster.world.declare({"limits": {"min": 12, "max": 8}})
    return cluster


@_shows(AlertKind.RESTING_COST)
def _pool_is_gone_from_the_policy() -> Cluster:
    cluster = shop()
    cluster.world.add_workers(1, pool="batch")
    cluster.calm(35)
    return cluster


@_shows(AlertKind.MARKET_RESTORED)
def _share_of_spot_heals() -> Cluster:
    cluster = shop(workers=2, replicas=2, cpu=300)
    cluster.tick()
    cluster.warned([cluster.world.interrupt(spot_worker(cluster.world))])
    cluster.calm(25)
    return cluster


@_shows(AlertKind.ROTATION_BLOCKED)
def _old_workers_are_kept() -> Cluster:
    rotation = {"max_age": "2h", "spread_percent": 0, "alert_after": "30m"}  # they have been there for a day
    world = World(seed=1, policy={"limits": {"min": 2, "max": 6}, "rotation": rotation})
    world.add_workers(2)
    world.deploy("shop", replicas=2, cpu=1200, annotations={"node-fleet.io/do-not-disrupt": "true"})
    world.settle()
    cluster = Cluster(world)
    cluster.calm(10)
    return cluster


@_shows(AlertKind.POLICY_UNUSABLE)
def _release_knows_a_setting_no_more() -> Cluster:
    cluster = shop()
    world = cluster.world
    cluster.tick()
    (newest,) = [each for each in world.table.policies if each.number == 1]
    world.table.put_policy(replace(newest, number=2, data={"limits": {"least": 2, "most": 6}}))
    return cluster


@_shows(AlertKind.REPORT)
def _weekly_report() -> Cluster:
    return _reported(7, last_week, report_event)


@_shows(AlertKind.DAILY)
def _daily_line() -> Cluster:
    return _reported(1, last_day, daily_event)


def _reported(
    days: int, period_at: Callable[[datetime, tzinfo], Period], event_of: Callable[[WeeklyReport, datetime], Event]
) -> Cluster:
    """Days of the shop, busy by day, and what is reported of them. A tick each half hour is enough for that."""
    every = timedelta(minutes=30)
    world = World(seed=1, policy={"limits": {"min": 2, "max": 6}, "interval": "30m"}, start=MONDAY)
    world.add_workers(2)
    workload = world.deploy("shop", replicas=4, cpu=900)
    world.load.add(Service(workload=workload, demand=lambda at: 3.6 if 8 <= at.hour < 18 else 0.4, per_pod=1.0))
    world.settle()
    cluster = Cluster(world)
    for number in range(1, days * 48 + 3):
        world.clock.advance_to(max(world.now, world.start + number * every))
        cluster.run(f"run-{number}", limit=timedelta(seconds=24))
    parts = world.parts("report")
    period = period_at(world.now, ZoneInfo(world.policy.time_zone))
    usage, events = parts.history.usage(period.start, period.end), parts.history.events(period.start, period.end)
    types = tuple(world.shop.types.values())
    parts.store.tell(event_of(weekly_report(world.name, period, usage, events, world.policy, types), world.now))
    return cluster

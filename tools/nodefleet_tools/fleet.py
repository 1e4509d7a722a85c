"""Clusters of a deployment for many of them: their schedules, their tags, and how each of them is.

A cluster has one schedule, which puts a tick into the queue in the cluster's own message group. A tick's content holds
its scheduled time, by which the queue knows a doubled one; EventBridge puts it in the place of the words in `<…>`.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from nodefleet.adapters.aws.errors import calling, code_of
from nodefleet.model.decision import DecisionRecord
from nodefleet.model.names import TAG_FLEET
from nodefleet.model.snapshot import Deployment, FleetParts, RegisteredCluster
from nodefleet.model.state import Level, Usage
from nodefleet.ports import History

TICK_TIME = "<aws.scheduler.scheduled-time>"
TICK_AGE_SECONDS = 60  # a tick that cannot be delivered within it is dropped: the next one is as good
LATE_TICKS = 3  # so many intervals without a decision, and a cluster counts as late
_THREADS = 16


# ── schedules ────────────────────────────────────────────────────────────────────────────────────────────────────────


def tick_input(cluster: str) -> str:
    return json.dumps({"cluster": cluster, "scheduled": True, "tick": TICK_TIME})


def put_schedule(client: Any, parts: FleetParts, cluster: RegisteredCluster, now: datetime) -> None:
    """Create it, or make it as it should be. Ticks of many clusters are spread over the interval by their names."""
    from botocore.exceptions import ClientError  # type: ignore[import-untyped]  # noqa: PLC0415

    minutes = parts.every // timedelta(minutes=1)
    wanted = {
        "Name": schedule_name(parts, cluster.name),
        "GroupName": parts.schedule_group,
        "ScheduleExpression": f"rate({minutes} minute{'' if minutes == 1 else 's'})",
        "StartDate": now + first_tick(cluster.name, parts.every),
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "State": "DISABLED" if cluster.paused else "ENABLED",
        "Target": {
            "Arn": parts.queue_arn,
            "RoleArn": parts.schedule_role,
            "Input": tick_input(cluster.name),
            "SqsParameters": {"MessageGroupId": cluster.name},
            "RetryPolicy": {"MaximumEventAgeInSeconds": TICK_AGE_SECONDS, "MaximumRetryAttempts": 0},
        },
    }
    with calling("EventBridge Scheduler"):
        try:
            client.create_schedule(**wanted)
        except ClientError as error:
            if code_of(error) != "ConflictException":
                raise
            client.update_schedule(**wanted)


def delete_schedule(client: Any, parts: FleetParts, cluster: str) -> None:
    from botocore.exceptions import ClientError  # noqa: PLC0415

    with calling("EventBridge Scheduler"):
        try:
            client.delete_schedule(Name=schedule_name(parts, cluster), GroupName=parts.schedule_group)
        except ClientError as error:
            if code_of(error) != "ResourceNotFoundException":
                raise


def schedule_name(parts: FleetParts, cluster: str) -> str:
    return f"{parts.name}-{cluster}-tick"


def first_tick(cluster: str, every: timedelta) -> timedelta:
    """The cluster's place in the interval, the same each time."""
    return timedelta(seconds=int(sha256(cluster.encode()).hexdigest()[:8], 16) % int(every.total_seconds()))


# ── what it may launch with ──────────────────────────────────────────────────────────────────────────────────────────


def tag_launch_parts(ec2: Any, parts: FleetParts, deployment: Deployment) -> tuple[str, ...]:
    """The fleet's role launches only with templates, subnets and groups that carry its tag. Gives what was tagged."""
    templates = {target.template: target.template_version for target in deployment.targets if target.template}
    tagged = dict.fromkeys([*templates, *(net for target in deployment.targets for net in target.subnets.values())])
    with calling("EC2"):
        for template, version in templates.items():
            answer = ec2.describe_launch_template_versions(LaunchTemplateId=template, Versions=[version])
            for found in answer["LaunchTemplateVersions"]:
                data = found["LaunchTemplateData"]
                interfaces = data.get("NetworkInterfaces") or []
                groups = [
                    *(data.get("SecurityGroupIds") or []),
                    *(g for each in interfaces for g in each.get("Groups") or []),
                ]
                tagged |= dict.fromkeys(groups)
        if tagged:
            ec2.create_tags(Resources=list(tagged), Tags=[{"Key": TAG_FLEET, "Value": parts.name}])
    return tuple(tagged)


# ── how they are ─────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRow:
    """One cluster by its last decision."""

    name: str
    region: str
    paused: bool
    decided_at: datetime | None
    level: str = ""
    nodes: int = 0
    target: int = 0
    pending: int = 0
    late: bool = False  # no decision for some intervals, and it is not paused
    problem: str = ""  # why its records cannot be read
    usd_today: float | None = None  # of the full hours of today, the autoscaler's own cost included; none: not asked

    @property
    def is_known(self) -> bool:
        """Whether its counts are: without a decision they are none, which is not zero."""
        return self.decided_at is not None and not self.problem

    @property
    def troubled(self) -> bool:
        return self.late or bool(self.problem) or self.level not in ("", Level.NORMAL.value, Level.RECOVERY.value)


def state_of(row: ClusterRow) -> str:
    return "unreadable" if row.problem else "paused" if row.paused else "late" if row.late else row.level or "new"


def cost_of(hours: Iterable[Usage]) -> float:
    return sum(hour.own_usd + sum(pool.usd + pool.warm_usd for pool in hour.pools.values()) for hour in hours)


def row_of(
    cluster: RegisteredCluster,
    last: Sequence[DecisionRecord],
    every: timedelta,
    now: datetime,
    problem: str = "",
    usd_today: float | None = None,
) -> ClusterRow:
    record = last[0] if last else None
    pools = record.decision.pools if record else ()
    since = (record.at if record else cluster.at).astimezone(UTC)
    return ClusterRow(
        name=cluster.name,
        region=cluster.region,
        paused=cluster.paused,
        decided_at=record.at if record else None,
        level=record.decision.level.value if record else "",
        nodes=sum(pool.count.capacity for pool in pools),
        target=sum(pool.target for pool in pools),
        pending=int(record.figures.get("unschedulable_pods", 0)) if record else 0,
        late=not cluster.paused and not problem and now - since > LATE_TICKS * every,
        problem=problem,
        usd_today=usd_today,
    )


def rows(
    history_of: Callable[[str], History],
    clusters: Sequence[RegisteredCluster],
    every: timedelta,
    now: datetime,
    *,
    costs: bool = False,
) -> Iterator[ClusterRow]:
    """Every cluster's last decision, several read at once. One that cannot be read is no trouble of the others.
    `costs`: what each has cost today, which is a query more."""
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

    from nodefleet.errors import NodeFleetError  # noqa: PLC0415

    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)

    def read(cluster: RegisteredCluster) -> ClusterRow:
        try:
            history = history_of(cluster.name)
            usd = cost_of(history.usage(midnight, now)) if costs else None
            return row_of(cluster, history.decisions(1), every, now, usd_today=usd)
        except NodeFleetError as error:
            return row_of(cluster, (), every, now, str(error))

    with ThreadPoolExecutor(_THREADS) as pool:
        yield from pool.map(read, clusters)

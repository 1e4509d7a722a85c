"""Triggers of the functions: schedules, EC2 events, and messages to the wake-up topic.

What EC2 says goes through a queue: its function gets all messages of a moment as one batch, so that a hundred warnings
at once are the work of a few functions, whatever their number is limited to.

Each cluster has its own schedule, with its name as the constant input. A tick that cannot be delivered within a minute
is dropped, because the next one is as good.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import pulumi
import pulumi_aws as aws

from nodefleet.notifications.approvals import READ_APPROVALS
from nodefleet_infra import iam
from nodefleet_infra.autoscaler import subscribe
from nodefleet_infra.config import AutoscalerConfig, Cluster, ScheduleConfig
from nodefleet_infra.interfaces import Place, Text
from nodefleet_infra.names import Names
from nodefleet_infra.statements import document, trust


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """How often a delivery is tried again, and for how long."""

    times: int
    age: int  # seconds


NEVER_AGAIN = Again(times=0, age=60)  # a tick: the next one is as good
AGAIN = dict.fromkeys(("report", "daily"), Again(times=3, age=3600))
APPROVALS_EVERY = timedelta(minutes=2)  # how long a ✅ in Slack waits at most
EVENTS_AGAIN = Again(times=10, age=300)
EVENTS_BATCH = 100  # messages
EVENTS_WINDOW_SECONDS = 2  # of the two minutes that a Spot warning leaves
EVENTS_FUNCTIONS = 10  # at once, unless some concurrency is reserved

# What EventBridge is to pass on. These events carry an instance's id and nothing else that would tell whose it is, so
# that no pattern can pick ours: the function looks. But those of other accounts (a bus may be shared) and of other
# regions stay away, and of two events that say the same, as `shutting-down` and `terminated` do, the first is enough.
EC2_EVENTS: dict[str, dict[str, object]] = {
    "taken": {
        "source": ["aws.ec2"],
        "detail-type": ["EC2 Spot Instance Interruption Warning", "EC2 Instance Rebalance Recommendation"],
    },
    "state": {
        "source": ["aws.ec2"],
        "detail-type": ["EC2 Instance State-change Notification"],
        "detail": {"state": ["shutting-down", "stopping"]},  # what starts joins by itself
    },
    "maintenance": {
        "source": ["aws.health"],
        "detail-type": ["AWS Health Event"],
        "detail": {"service": ["EC2"], "eventTypeCategory": ["scheduledChange"]},
    },
}


# ── expressions ──────────────────────────────────────────────────────────────────────────────────────────────────


def ticks(schedule: ScheduleConfig) -> dict[str, str]:
    """By name; one, or one for the day and one for the night."""
    night = schedule.night
    if night is None:
        return {"tick": _rate(schedule.every)}
    return {
        "day": _cron(schedule.every, _hours(night.until_hour, night.from_hour)),
        "night": _cron(night.every, _hours(night.from_hour, night.until_hour)),
    }


def weekly(schedule: ScheduleConfig) -> str:
    return f"cron(0 {schedule.report_hour} ? * MON *)"


def daily(hour: int) -> str:
    return f"cron(0 {hour} * * ? *)"


def _rate(every: timedelta) -> str:
    minutes = every // timedelta(minutes=1)
    return f"rate({minutes} minute{'' if minutes == 1 else 's'})"


def _cron(every: timedelta, hours: str) -> str:
    return f"cron(0/{every // timedelta(minutes=1)} {hours} * * ? *)"


def _hours(begin: int, end: int) -> str:
    """From one hour until another, which may be on the next day."""
    if begin < end:
        return _span(begin, end)
    return ",".join(filter(None, (_span(begin, 24), _span(0, end))))


def _span(begin: int, end: int) -> str:
    last = end - 1
    return "" if last < begin else str(begin) if last == begin else f"{begin}-{last}"


def tick_input(cluster: str) -> str:
    """Of a fleet: EventBridge puts the tick's time in, so that the queue knows a doubled one."""
    return json.dumps({"cluster": cluster, "scheduled": True, "tick": "<aws.scheduler.scheduled-time>"})


# ── resources ────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Starts:
    """What is started, and what besides the clock starts it."""

    tick: aws.lambda_.Alias  # of reconcile, as the two next
    urgent: aws.lambda_.Alias
    report: aws.lambda_.Alias
    interruption: aws.lambda_.Alias
    events: Text  # queue
    wake: Text  # topic
    undelivered: Text  # queue
    runs: Text | None = None  # the queue that ticks of a fleet go into
    approvals: aws.lambda_.Alias | None = None  # of notify, which reads the answers in Slack; none: nothing is asked


class Schedules(pulumi.ComponentResource):
    role: Text  # ARN of what schedules act as

    def __init__(
        self,
        name: str,
        names: Names,
        place: Place,
        clusters: Sequence[Cluster],
        config: AutoscalerConfig,
        starts: Starts,
        after: Mapping[str, pulumi.Resource],  # by cluster: what must be there while it is started, and outlive it
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("node-fleet:schedules:Schedules", name, None, opts)
        self._names, self._place, self._starts = names, place, starts
        self._schedule, self._enabled, self._after = config.schedule, config.enabled, after
        self._regions = list(dict.fromkeys((place.region, *(config.fleet.regions if config.fleet else ()))))
        self._own = pulumi.ResourceOptions(parent=self)
        group = aws.scheduler.ScheduleGroup("schedules", name=names.base, tags=names.tags(names.base), opts=self._own)
        role = self._role()
        self.role = role.arn
        for cluster in clusters:
            for tick, expression in ticks(config.schedule).items():
                self._start(cluster, tick, expression, starts.runs or starts.tick.arn, group, role)
            self._start(cluster, "report", weekly(config.schedule), starts.report.arn, group, role)
            if config.schedule.daily_hour is not None:
                expression = daily(config.schedule.daily_hour)
                self._start(cluster, "daily", expression, starts.report.arn, group, role, {"daily": True})
        if starts.approvals is not None:
            self._read_approvals(starts.approvals, group, role)
        late = pulumi.ResourceOptions.merge(self._own, pulumi.ResourceOptions(depends_on=list(after.values())))
        for what, pattern in EC2_EVENTS.items():
            self._rule(what, pattern, late)
        self._listen_to_events(config, late)
        if config.enabled:  # otherwise an alert would still start a run
            subscribe("reconcile-wake", starts.urgent, topic=starts.wake, undelivered=starts.undelivered, opts=late)
        self.register_outputs({})

    def _role(self) -> aws.iam.Role:
        full = self._names.of("scheduler")
        only_ours = {"StringEquals": {"aws:SourceAccount": [self._place.account]}}
        role = aws.iam.Role(
            "scheduler",
            name=full,
            description="Starts the functions by the clock",
            assume_role_policy=trust("scheduler", only_ours),
            tags=self._names.tags(full),
            opts=self._own,
        )
        starts = self._starts
        aws.iam.RolePolicy(
            "scheduler",
            role=role.id,
            policy=pulumi.Output.all(
                starts.undelivered,
                starts.runs if starts.runs is not None else "",
                starts.tick.arn,
                starts.report.arn,
                *([starts.approvals.arn] if starts.approvals is not None else []),
            ).apply(
                lambda arns: document(
                    iam.scheduler(iam.SchedulerArns(functions=tuple(arns[2:]), queue=arns[0], runs=arns[1]))
                )
            ),
            opts=self._own,
        )
        return role

    def _start(
        self,
        cluster: Cluster,
        what: str,
        expression: str,
        function: Text,
        group: aws.scheduler.ScheduleGroup,
        role: aws.iam.Role,
        more: Mapping[str, bool] | None = None,  # of its input
    ) -> None:
        name = f"{cluster.name}-{what}"
        again = AGAIN.get(what, NEVER_AGAIN)
        target: aws.scheduler.ScheduleTargetArgsDict = {
            "arn": function,
            "role_arn": role.arn,
            "input": json.dumps({"cluster": cluster.id, "scheduled": True, **(more or {})}),
            "retry_policy": {
                "maximum_event_age_in_seconds": again.age,
                "maximum_retry_attempts": again.times,
            },
        }
        if self._starts.runs is not None and again is NEVER_AGAIN:
            target["input"] = tick_input(cluster.id)
            target["sqs_parameters"] = {"message_group_id": cluster.id}
        if again.times:
            target["dead_letter_config"] = {"arn": self._starts.undelivered}
        aws.scheduler.Schedule(
            name,
            name=self._names.of(name),
            group_name=group.name,
            schedule_expression=expression,
            schedule_expression_timezone=self._schedule.time_zone,
            state="ENABLED" if self._enabled else "DISABLED",
            flexible_time_window={"mode": "OFF"},
            target=target,
            opts=pulumi.ResourceOptions.merge(self._own, pulumi.ResourceOptions(depends_on=[self._after[cluster.id]])),
        )

    def _read_approvals(
        self, notify: aws.lambda_.Alias, group: aws.scheduler.ScheduleGroup, role: aws.iam.Role
    ) -> None:
        """One for all clusters: their questions lie together."""
        aws.scheduler.Schedule(
            "approvals",
            name=self._names.of("approvals"),
            group_name=group.name,
            schedule_expression=_rate(APPROVALS_EVERY),
            state="ENABLED" if self._enabled else "DISABLED",
            flexible_time_window={"mode": "OFF"},
            target={
                "arn": notify.arn,
                "role_arn": role.arn,
                "input": json.dumps(READ_APPROVALS),
                "retry_policy": {
                    "maximum_event_age_in_seconds": NEVER_AGAIN.age,
                    "maximum_retry_attempts": NEVER_AGAIN.times,
                },
            },
            opts=self._own,
        )

    def _rule(self, what: str, pattern: dict[str, object], opts: pulumi.ResourceOptions) -> None:
        name, full = f"ec2-{what}", self._names.of("ec2", what)
        rule = aws.cloudwatch.EventRule(
            name,
            name=full,
            description="EC2 says something of its instances",
            event_pattern=json.dumps({"account": [self._place.account], "region": self._regions, **pattern}),
            state="ENABLED" if self._enabled else "DISABLED",
            tags=self._names.tags(full),
            opts=opts,
        )
        aws.cloudwatch.EventTarget(
            name,
            rule=rule.name,
            target_id="events",
            arn=self._starts.events,
            retry_policy={
                "maximum_event_age_in_seconds": EVENTS_AGAIN.age,
                "maximum_retry_attempts": EVENTS_AGAIN.times,
            },
            dead_letter_config={"arn": self._starts.undelivered},
            opts=opts,
        )

    def _listen_to_events(self, config: AutoscalerConfig, opts: pulumi.ResourceOptions) -> None:
        """Never more functions than may run: a throttled batch would wait until its messages are visible again."""
        aws.lambda_.EventSourceMapping(
            "ec2-events",
            event_source_arn=self._starts.events,
            function_name=self._starts.interruption.arn,
            batch_size=EVENTS_BATCH,
            maximum_batching_window_in_seconds=EVENTS_WINDOW_SECONDS,
            function_response_types=["ReportBatchItemFailures"],
            scaling_config={"maximum_concurrency": config.reserved_concurrency.interruption or EVENTS_FUNCTIONS},
            enabled=self._enabled,
            tags=self._names.tags(self._names.of("ec2-events")),
            opts=opts,
        )

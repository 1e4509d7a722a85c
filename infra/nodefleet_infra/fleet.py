"""One deployment for many clusters: the queue that their runs go through, and what an operator needs to add one.

    schedule of a cluster ──► runs.fifo, a message group for each cluster ──► reconcile, one run at a time
    alerts, operators     ──► reconcile ──┘

A group has one message in work, so a slow cluster takes one place of `max_concurrency` and delays no other. A batch is
one message: a run that takes its whole time holds up no other cluster. A message that is not taken in time is dropped.
"""

import json
from collections.abc import Sequence

import pulumi
import pulumi_aws as aws

from nodefleet.adapters.dynamodb.records import fleet_item, registered_item
from nodefleet.model.snapshot import FleetParts, RegisteredCluster
from nodefleet_infra.config import Cluster, FleetConfig, ScheduleConfig
from nodefleet_infra.functions import HIDDEN_SECONDS, RECONCILE, URGENT
from nodefleet_infra.interfaces import Place, Text
from nodefleet_infra.messaging import FAILED_QUEUED_RUNS, RUNS, tls_only
from nodefleet_infra.messaging import KEPT_SECONDS as DEAD_SECONDS
from nodefleet_infra.names import Names
from nodefleet_infra.records import NO_TIME
from nodefleet_infra.state import State
from nodefleet_infra.statements import Statement, document, trust

_QUEUE = "runs"  # how the stack calls it
KEPT_SECONDS = 300  # the oldest urgent message; ticks are dropped earlier (handlers/reconcile.py)
RECEIVED = 3  # then an urgent message is a dead letter
EVENT_BUS = "default"


class FleetQueue(pulumi.ComponentResource):
    """Made before the functions, which are told of it."""

    url: Text
    arn: Text

    def __init__(self, name: str, names: Names, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("node-fleet:fleet:FleetQueue", name, None, opts)
        own, full = pulumi.ResourceOptions(parent=self), names.of(RUNS)
        dead = names.of(FAILED_QUEUED_RUNS)  # a FIFO queue's dead letters need one of their own kind
        failed = aws.sqs.Queue(
            "failed-queued-runs",
            name=dead,
            fifo_queue=True,
            message_retention_seconds=DEAD_SECONDS,
            sqs_managed_sse_enabled=True,
            tags=names.tags(dead),
            opts=own,
        )
        queue = aws.sqs.Queue(
            _QUEUE,
            name=full,
            fifo_queue=True,
            content_based_deduplication=True,  # a tick's content holds its time
            deduplication_scope="messageGroup",
            fifo_throughput_limit="perMessageGroupId",
            visibility_timeout_seconds=HIDDEN_SECONDS,
            message_retention_seconds=KEPT_SECONDS,
            redrive_policy=failed.arn.apply(
                lambda arn: json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": RECEIVED})
            ),
            sqs_managed_sse_enabled=True,
            tags=names.tags(full),
            opts=own,
        )
        for made, what in ((queue, _QUEUE), (failed, "failed-queued-runs")):
            aws.sqs.QueuePolicy(what, queue_url=made.url, policy=made.arn.apply(tls_only), opts=own)
        self.url, self.arn = queue.url, queue.arn
        self.register_outputs({})


def listen(
    names: Names, config: FleetConfig, queue: FleetQueue, reconcile: aws.lambda_.Alias, *, enabled: bool
) -> aws.lambda_.EventSourceMapping:
    return aws.lambda_.EventSourceMapping(
        _QUEUE,
        event_source_arn=queue.arn,
        function_name=reconcile.arn,
        batch_size=1,
        function_response_types=["ReportBatchItemFailures"],
        scaling_config={"maximum_concurrency": config.max_concurrency},
        enabled=enabled,
        tags=names.tags(names.of(_QUEUE)),
        opts=pulumi.ResourceOptions(parent=queue),
    )


def record(
    state: State,
    names: Names,
    queue: FleetQueue,
    clusters: Sequence[Cluster],
    schedule: ScheduleConfig,
    region: str,
    role: Text,
) -> None:
    """What `nodefleet clusters add` needs, and the stack's own clusters."""

    def parts(made: Sequence[str]) -> str:
        url, arn, role_arn = made
        return json.dumps(
            fleet_item(
                FleetParts(
                    name=names.base,
                    prefix=names.cluster(""),
                    queue=url,
                    queue_arn=arn,
                    schedule_group=names.base,
                    schedule_role=role_arn,
                    every=schedule.every,
                    reconcile_function=f"{names.of(RECONCILE.name)}:{URGENT}",
                )
            ),
            sort_keys=True,
        )

    state.record("fleet", "parts", pulumi.Output.all(queue.url, queue.arn, role).apply(parts))
    for cluster in clusters:
        own = RegisteredCluster(name=cluster.id, region=region, by="stack", at=NO_TIME)
        state.record(cluster.id, "registered", json.dumps(registered_item(own), sort_keys=True))


class ForwardedEvents(pulumi.ComponentResource):
    """EC2 events of another region's instances, brought to this region's bus, whose rules pick them up."""

    def __init__(
        self,
        region: str,
        names: Names,
        place: Place,
        patterns: dict[str, dict[str, object]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("node-fleet:fleet:ForwardedEvents", f"events-{region}", None, opts)
        bus = f"arn:{place.partition}:events:{place.region}:{place.account}:event-bus/{EVENT_BUS}"
        own = pulumi.ResourceOptions(parent=self)
        full = names.of("events", region)
        role = aws.iam.Role(
            full,
            name=full,
            description=f"Brings EC2 events of {region} to {place.region}",
            assume_role_policy=trust("events"),
            tags=names.tags(full),
            opts=own,
        )
        sends = Statement(sid="Forward", actions=("events:PutEvents",), resources=(bus,))
        aws.iam.RolePolicy(full, role=role.id, policy=document((sends,)), opts=own)
        for what, pattern in patterns.items():
            rule = aws.cloudwatch.EventRule(
                f"{region}-{what}",
                name=names.of("ec2", what),
                description=f"EC2 events on their way to {place.region}",
                event_pattern=json.dumps({"account": [place.account], **pattern}),
                region=region,
                tags=names.tags(names.of("ec2", what)),
                opts=own,
            )
            aws.cloudwatch.EventTarget(
                f"{region}-{what}",
                rule=rule.name,
                target_id="home",
                arn=bus,
                role_arn=role.arn,
                region=region,
                opts=own,
            )
        self.register_outputs({})

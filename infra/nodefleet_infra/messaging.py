"""Topics and queues: notifications between parts of the stack, and dead letters.

    wake          Alertmanager and operators → a run, now
    critical      alarms that cannot wait, also those of Prometheus on the master → e-mail and Slack
    warning       the others → Slack

    ec2-events        what EC2 says of its instances, on its way to `interruption` in batches
    failed-runs       urgent events and reports that failed every time
    failed-messages   what could not be told
    undelivered       what SNS, EventBridge or the scheduler could not hand over

CloudWatch can publish only to a topic whose key lets it, which AWS's own key does not: alarms have a key of ours.
"""

import json
from collections.abc import Sequence
from typing import Any

import pulumi
import pulumi_aws as aws

from nodefleet_infra.functions import INTERRUPTION
from nodefleet_infra.interfaces import Place, Text, WarningTopic
from nodefleet_infra.names import Names

FAILED_RUNS, FAILED_MESSAGES, UNDELIVERED = "failed-runs", "failed-messages", "undelivered"
QUEUES = (FAILED_RUNS, FAILED_MESSAGES, UNDELIVERED)
RUNS, FAILED_QUEUED_RUNS = "runs.fifo", "failed-queued-runs.fifo"  # of a deployment for many clusters
EVENTS = "ec2-events"
WAKE, CRITICAL, WARNING = "wake", "critical", "warning"
KEPT_SECONDS = 14 * 24 * 3600  # as long as SQS keeps anything
EVENTS_KEPT_SECONDS = 3600  # a Spot warning is stale after two minutes, a scheduled change matters later
EVENTS_RECEIVED = 4  # then it is a dead letter
EVENTS_HIDDEN_SECONDS = INTERRUPTION.timeout + 30  # while a function works on it; then it is tried again
_KEY_DELETION_DAYS = 7  # the shortest that KMS allows


class Messaging(pulumi.ComponentResource):
    topics: dict[str, Text]  # ARNs
    warnings: WarningTopic
    queues: dict[str, Text]  # ARNs of the dead-letter queues
    events: Text  # ARN of the queue with what EC2 says

    def __init__(
        self,
        name: str,
        names: Names,
        place: Place,
        emails: Sequence[str],
        *,
        own_key: bool = True,  # false: alarms lie at SNS without a key of ours for the moment that they do
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("node-fleet:messaging:Messaging", name, None, opts)
        self._names, self._place = names, place
        self._own = pulumi.ResourceOptions(parent=self)
        self.queues = {queue: self._queue(queue) for queue in QUEUES}
        self.events = self._events()
        key = self._key() if own_key else None
        self.topics = {
            WAKE: self._topic(WAKE, "alias/aws/sns"),
            CRITICAL: self._topic(CRITICAL, key),
            WARNING: self._topic(WARNING, key),
        }
        self.warnings = WarningTopic(arn=self.topics[WARNING], critical=self.topics[CRITICAL], key=key)
        for topic in (CRITICAL, WARNING):
            aws.sns.TopicPolicy(
                topic, arn=self.topics[topic], policy=self.topics[topic].apply(self._from_alarms), opts=self._own
            )
        for index, address in enumerate(emails):
            aws.sns.TopicSubscription(
                f"critical-mail-{index}",
                topic=self.topics[CRITICAL],
                protocol="email",
                endpoint=address,
                opts=self._own,
            )
        self.register_outputs({})

    def _queue(self, name: str) -> Text:
        full = self._names.of(name)
        queue = aws.sqs.Queue(
            name,
            name=full,
            message_retention_seconds=KEPT_SECONDS,
            sqs_managed_sse_enabled=True,
            tags=self._names.tags(full),
            opts=self._own,
        )
        aws.sqs.QueuePolicy(
            name,
            queue_url=queue.url,
            policy=queue.arn.apply(self._undelivered if name == UNDELIVERED else tls_only),
            opts=self._own,
        )
        return queue.arn

    def _events(self) -> Text:
        """One function takes all that EC2 says within a moment, however much it is."""
        full = self._names.of(EVENTS)
        redrive = self.queues[FAILED_RUNS].apply(
            lambda arn: json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": EVENTS_RECEIVED})
        )
        queue = aws.sqs.Queue(
            EVENTS,
            name=full,
            message_retention_seconds=EVENTS_KEPT_SECONDS,
            visibility_timeout_seconds=EVENTS_HIDDEN_SECONDS,
            redrive_policy=redrive,
            sqs_managed_sse_enabled=True,
            tags=self._names.tags(full),
            opts=self._own,
        )
        policy = queue.arn.apply(self._from_rules)
        aws.sqs.QueuePolicy(EVENTS, queue_url=queue.url, policy=policy, opts=self._own)
        return queue.arn

    def _topic(self, name: str, key: pulumi.Input[str] | None) -> Text:
        full = self._names.of(name)
        topic = aws.sns.Topic(name, name=full, kms_master_key_id=key, tags=self._names.tags(full), opts=self._own)
        return topic.arn

    def _key(self) -> Text:
        full = self._names.of("alarms")
        key = aws.kms.Key(
            "alarms",
            description="Alarms on their way to operators",
            enable_key_rotation=True,
            deletion_window_in_days=_KEY_DELETION_DAYS,
            policy=json.dumps(self._key_policy()),
            tags=self._names.tags(full),
            opts=self._own,
        )
        aws.kms.Alias("alarms", name=f"alias/{full}", target_key_id=key.key_id, opts=self._own)
        return key.arn

    # ── who may ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _key_policy(self) -> dict[str, Any]:
        place = self._place
        owner = {
            "Sid": "Account",
            "Effect": "Allow",
            "Principal": {"AWS": f"arn:{place.partition}:iam::{place.account}:root"},
            "Action": "kms:*",
            "Resource": "*",
        }
        alarms = {
            "Sid": "Alarms",
            "Effect": "Allow",
            "Principal": {"Service": "cloudwatch.amazonaws.com"},
            "Action": ["kms:Decrypt", "kms:GenerateDataKey*"],
            "Resource": "*",
            "Condition": {"StringEquals": {"aws:SourceAccount": place.account}},
        }
        return _document(owner, alarms)

    def _from_alarms(self, topic: str) -> str:
        place = self._place
        ours = f"arn:{place.partition}:cloudwatch:{place.region}:{place.account}:alarm:{self._names.base}-*"
        alarms = {
            "Sid": "Alarms",
            "Effect": "Allow",
            "Principal": {"Service": "cloudwatch.amazonaws.com"},
            "Action": "sns:Publish",
            "Resource": topic,
            "Condition": {"ArnLike": {"aws:SourceArn": ours}},
        }
        return json.dumps(_document(alarms))

    def _from_rules(self, queue: str) -> str:
        """Only EventBridge's rules of this stack may put events into it."""
        return json.dumps(_document(self._allowed("events", queue), _not_in_clear(queue)))

    def _allowed(self, service: str, queue: str) -> dict[str, Any]:
        place, base = self._place, self._names.base
        at = f"{place.region}:{place.account}"
        source = {
            "sns": f"arn:{place.partition}:sns:{at}:{base}-*",
            "events": f"arn:{place.partition}:events:{at}:rule/{base}-*",
        }[service]
        return {
            "Sid": service.capitalize(),
            "Effect": "Allow",
            "Principal": {"Service": f"{service}.amazonaws.com"},
            "Action": "sqs:SendMessage",
            "Resource": queue,
            "Condition": {"ArnLike": {"aws:SourceArn": source}},
        }

    def _undelivered(self, queue: str) -> str:
        """SNS and EventBridge write as themselves; the scheduler has a role."""
        allowed = [self._allowed(service, queue) for service in ("sns", "events")]
        return json.dumps(_document(*allowed, _not_in_clear(queue)))


def tls_only(queue: str) -> str:
    return json.dumps(_document(_not_in_clear(queue)))


def _not_in_clear(queue: str) -> dict[str, Any]:
    return {
        "Sid": "TlsOnly",
        "Effect": "Deny",
        "Principal": "*",
        "Action": "sqs:*",
        "Resource": queue,
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }


def _document(*statements: dict[str, Any]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": list(statements)}

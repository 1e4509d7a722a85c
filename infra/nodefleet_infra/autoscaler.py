"""The four functions: their code and libraries, roles, logs, aliases, and what calls them besides the clock."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from nodefleet import settings
from nodefleet.adapters.aws.session import DUALSTACK_VARIABLE
from nodefleet.adapters.dynamodb.codec import EVENTS, SORT
from nodefleet.model.names import Metric
from nodefleet_infra import iam
from nodefleet_infra.artefacts import Artefacts
from nodefleet_infra.config import AutoscalerConfig
from nodefleet_infra.functions import ARCHITECTURE, FUNCTIONS, LIVE, NOTIFY, RECONCILE, RUNTIME, Function
from nodefleet_infra.interfaces import Facts, NetworkFacts, Place, StateFacts, Text
from nodefleet_infra.messaging import CRITICAL, FAILED_MESSAGES, FAILED_RUNS, UNDELIVERED, WARNING
from nodefleet_infra.names import Names
from nodefleet_infra.statements import document, trust

BATCH, WINDOW_SECONDS, RECORD_AGE_SECONDS = 100, 5, 24 * 3600  # of the stream
QUEUE_OF = {function.name: FAILED_MESSAGES if function is NOTIFY else FAILED_RUNS for function in FUNCTIONS}


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalerNeeds:
    names: Names
    place: Place
    config: AutoscalerConfig
    artefacts: Artefacts
    clusters: tuple[str, ...]  # ids
    metrics: tuple[Metric, ...]  # beyond the default ones
    slack: bool
    approvers: tuple[str, ...] = ()  # ids of Slack users
    network: NetworkFacts
    state: StateFacts
    facts: pulumi.Output[Facts]
    topics: Mapping[str, Text]
    queues: Mapping[str, Text]
    runs: Text | None = None  # URL of the queue that runs of a fleet go through


class Autoscaler(pulumi.ComponentResource):
    functions: dict[str, aws.lambda_.Function]
    aliases: dict[tuple[str, str], aws.lambda_.Alias]  # by function and alias
    logs: dict[str, Text]  # by function, the names of their groups

    def __init__(self, name: str, needs: AutoscalerNeeds, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("node-fleet:autoscaler:Autoscaler", name, None, opts)
        self._needs, self._names = needs, needs.names
        self._own = pulumi.ResourceOptions(parent=self)
        self.aliases, self.logs = {}, {}
        layer = self._layer()
        self.functions = {each.name: self._function(each, layer) for each in FUNCTIONS}
        if needs.slack:
            self._listen_to_stream()
            for topic in (CRITICAL, WARNING):
                self._tell(topic)
        self.register_outputs({})

    # ── a function ───────────────────────────────────────────────────────────────────────────────────────────────

    def _layer(self) -> aws.lambda_.LayerVersion:
        layer = self._needs.artefacts.layer
        return aws.lambda_.LayerVersion(
            "libraries",
            layer_name=self._names.of("libraries"),
            description="What the functions import, from layers/requirements.txt",
            code=pulumi.FileArchive(str(layer.path)),
            source_code_hash=layer.digest,
            compatible_architectures=[ARCHITECTURE],
            compatible_runtimes=[RUNTIME],
            opts=self._own,
        )

    def _function(self, each: Function, layer: aws.lambda_.LayerVersion) -> aws.lambda_.Function:
        needs, full = self._needs, self._names.of(each.name)
        log = aws.cloudwatch.LogGroup(
            each.name,
            name=log_group(full),
            retention_in_days=needs.config.log_days,
            tags=self._names.tags(full),
            opts=self._own,
        )
        self.logs[each.name] = log.name
        role, allowed = self._role(each, full)
        network = needs.network
        function = aws.lambda_.Function(
            each.name,
            name=full,
            description=each.says,
            runtime=RUNTIME,
            architectures=[ARCHITECTURE],
            handler=each.handler,
            code=pulumi.FileArchive(str(needs.artefacts.functions.path)),
            source_code_hash=needs.artefacts.functions.digest,
            layers=[layer.arn],
            role=role.arn,
            timeout=each.timeout,
            memory_size=needs.config.memory.of(each.name),
            publish=True,
            reserved_concurrent_executions=needs.config.reserved_concurrency.of(each.name),
            environment={"variables": self._environment(each)},
            logging_config={"log_format": "Text", "log_group": log.name},  # our lines are JSON already
            vpc_config=aws.lambda_.FunctionVpcConfigArgs(
                subnet_ids=list(network.functions),
                security_group_ids=[network.functions_group],
                ipv6_allowed_for_dual_stack=bool(network.dualstack),
            )
            if each.in_vpc
            else None,
            # Lambda keeps its network interfaces for a while: without this a destroy waits for half an hour.
            replace_security_groups_on_destroy=True if each.in_vpc else None,
            tags=self._names.tags(full),
            opts=self._merged([allowed, *(network.ready if each.in_vpc else ())]),
        )
        for alias in each.aliases:
            made = aws.lambda_.Alias(
                f"{each.name}-{alias.name}",
                name=alias.name,
                function_name=function.name,
                function_version=function.version,
                opts=self._own,
            )
            self.aliases[each.name, alias.name] = made
            queue = needs.queues[QUEUE_OF[each.name]]
            aws.lambda_.FunctionEventInvokeConfig(
                f"{each.name}-{alias.name}",
                function_name=function.name,
                qualifier=made.name,
                maximum_retry_attempts=alias.retries,
                maximum_event_age_in_seconds=alias.age,
                destination_config={"on_failure": {"destination": queue}} if alias.keep else None,
                opts=self._own,
            )
        return function

    def _role(self, each: Function, full: str) -> tuple[aws.iam.Role, aws.iam.RolePolicy]:
        place = self._needs.place
        role = aws.iam.Role(
            each.name,
            name=full,
            description=each.says,
            assume_role_policy=trust("lambda"),
            tags=self._names.tags(full),
            opts=self._own,
        )
        own = f"arn:{place.partition}:lambda:{place.region}:{place.account}:function:{full}"
        vpc = iam.in_vpc(place, own) if each.in_vpc else ()
        policy = aws.iam.RolePolicy(
            each.name,
            role=role.id,
            policy=self._needs.facts.apply(lambda facts: document((*iam.FUNCTIONS[each.name](facts), *vpc))),
            opts=self._own,
        )
        return role, policy

    def _environment(self, each: Function) -> dict[str, pulumi.Input[str]]:
        needs = self._needs
        found: dict[str, pulumi.Input[str]] = {
            settings.TABLE: needs.state.table,
            settings.CLUSTERS: settings.REGISTRY if needs.runs is not None else ",".join(needs.clusters),
            settings.SECRETS: self._names.secrets,
            settings.METRICS: (settings.ONLY if needs.config.lean else "")
            + ",".join(metric.value for metric in needs.metrics),
            DUALSTACK_VARIABLE: ",".join(needs.network.dualstack if each.in_vpc else ()) or "none",
        }
        if each is NOTIFY:
            asked = {settings.APPROVERS: ",".join(needs.approvers)} if needs.approvers else {}
            return found | {settings.SLACK: needs.state.slack.name, **asked}
        if each is RECONCILE and needs.runs is not None:
            found[settings.QUEUE] = needs.runs
        return found | {settings.BUCKET: needs.state.looks.name}

    # ── what calls them ──────────────────────────────────────────────────────────────────────────────────────────

    def _listen_to_stream(self) -> None:
        """New event records only: no other record of the table is a notification."""
        new_event = {"eventName": ["INSERT"], "dynamodb": {"Keys": {SORT: {"S": [{"prefix": EVENTS}]}}}}
        aws.lambda_.EventSourceMapping(
            "notify-stream",
            event_source_arn=self._needs.state.stream_arn,
            function_name=self.aliases[NOTIFY.name, LIVE].arn,
            starting_position="LATEST",
            batch_size=BATCH,
            maximum_batching_window_in_seconds=WINDOW_SECONDS,
            maximum_record_age_in_seconds=RECORD_AGE_SECONDS,
            bisect_batch_on_function_error=True,
            function_response_types=["ReportBatchItemFailures"],
            filter_criteria={"filters": [{"pattern": pulumi.Output.json_dumps(new_event)}]},
            destination_config={"on_failure": {"destination_arn": self._needs.queues[FAILED_MESSAGES]}},
            tags=self._names.tags(self._names.of("notify-stream")),
            opts=self._own,
        )

    def _tell(self, topic: str) -> None:
        """Alarms reach `notify`, and operators through it."""
        subscribe(
            f"notify-{topic}",
            self.aliases[NOTIFY.name, LIVE],
            topic=self._needs.topics[topic],
            undelivered=self._needs.queues[UNDELIVERED],
            opts=self._own,
        )

    def _merged(self, after: Sequence[pulumi.Resource]) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions.merge(self._own, pulumi.ResourceOptions(depends_on=list(after)))


def permit(
    name: str, alias: aws.lambda_.Alias, service: str, source: Text, opts: pulumi.ResourceOptions
) -> aws.lambda_.Permission:
    """Lets a service start a function, by one alias and for one source."""
    return aws.lambda_.Permission(
        name,
        action="lambda:InvokeFunction",
        function=alias.function_name,
        qualifier=alias.name,
        principal=f"{service}.amazonaws.com",
        source_arn=source,
        opts=opts,
    )


def subscribe(
    name: str, alias: aws.lambda_.Alias, *, topic: Text, undelivered: Text, opts: pulumi.ResourceOptions
) -> None:
    permission = permit(name, alias, "sns", topic, opts)
    aws.sns.TopicSubscription(
        name,
        topic=topic,
        protocol="lambda",
        endpoint=alias.arn,
        redrive_policy=pulumi.Output.json_dumps({"deadLetterTargetArn": undelivered}),
        opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[permission])),
    )


def log_group(function: str) -> str:
    return f"/aws/lambda/{function}"

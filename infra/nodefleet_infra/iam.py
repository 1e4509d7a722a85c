"""What each role may do: one function for each role, from plain facts to statements.

reconcile, interruption   the loop: both may come to do anything that a run does
notify, report            the messenger and the weekly report
worker, master            the instances
scheduler                 what starts the functions by the clock

Nothing here is granted that a test has not seen used (tests/infra/test_least_privilege.py), and the same test holds
every call of the code against it. `*` stands for a resource only where AWS knows no narrower one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from nodefleet.model.names import SHARED_PARTITION, TAG_FLEET
from nodefleet_infra import disk_keys, iam_ec2, volumes
from nodefleet_infra.interfaces import ClusterArns, Facts, FleetArns, Place, backup_prefix
from nodefleet_infra.statements import Statement

ANYTHING = ("*",)
_READ_AND_WRITE = ("ConditionCheckItem", "DeleteItem", "PutItem", "Query", "UpdateItem")
_SESSIONS = ("CreateControlChannel", "CreateDataChannel", "OpenControlChannel", "OpenDataChannel")
_PULL = ("BatchCheckLayerAvailability", "BatchGetImage", "GetDownloadUrlForLayer")


# ── the functions ────────────────────────────────────────────────────────────────────────────────────────────────


def reconcile(facts: Facts) -> tuple[Statement, ...]:
    return (*_lambda("reconcile", facts), *_queued_runs(facts.fleet), *_loop(facts))


def interruption(facts: Facts) -> tuple[Statement, ...]:
    take = _of("sqs", "DeleteMessage", "GetQueueAttributes", "ReceiveMessage")
    events = Statement(sid="Events", actions=take, resources=(facts.events,))
    return (*_lambda("interruption", facts), events, *_loop(facts))


def notify(facts: Facts) -> tuple[Statement, ...]:
    """It notes what it told of every alarm, also of one that names no cluster or another's: so not by cluster."""
    stream = ("dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator")
    return (
        *_lambda("notify", facts),
        Statement(sid="Stream", actions=stream, resources=(facts.stream,)),
        Statement(sid="Streams", actions=("dynamodb:ListStreams",), resources=ANYTHING),
        Statement(sid="Table", actions=_of("dynamodb", "DeleteItem", "PutItem", "Query"), resources=(facts.table,)),
        _slack(facts.slack_secret),
    )


def report(facts: Facts) -> tuple[Statement, ...]:
    return (*_lambda("report", facts), _records(facts, "PutItem", "Query"), iam_ec2.seeing(machines=False))


FUNCTIONS = {"reconcile": reconcile, "interruption": interruption, "notify": notify, "report": report}


def in_vpc(place: Place, function: str) -> tuple[Statement, ...]:
    """In addition, for a function in a VPC; `function` is its ARN without a version."""
    return iam_ec2.attached_to_vpc(place, function)


def _queued_runs(fleet: FleetArns | None) -> tuple[Statement, ...]:
    """Take runs from the queue, and put urgent ones into it."""
    if fleet is None:
        return ()
    take = _of("sqs", "DeleteMessage", "GetQueueAttributes", "ReceiveMessage", "SendMessage")
    return (Statement(sid="Runs", actions=take, resources=(fleet.queue,)),)


def _fleet_loop(facts: Facts, fleet: FleetArns) -> tuple[Statement, ...]:
    """As of one cluster, for all whose ids begin alike: this policy is as long for a thousand clusters as for one."""
    place = facts.place
    secrets = (
        f"arn:{place.partition}:secretsmanager:{place.region}:{place.account}:secret:{fleet.secrets}/{fleet.prefix}*"
    )
    queues = tuple(f"arn:{place.partition}:sqs:{region}:{place.account}:*" for region in fleet.regions)
    own = {"StringEquals": {f"aws:ResourceTag/{TAG_FLEET}": (fleet.name,)}}
    return (
        _records(facts, *_READ_AND_WRITE),
        Statement(sid="Looks", actions=("s3:PutObject",), resources=(f"{facts.looks}/{fleet.prefix}*",)),
        _secrets(secrets),
        Statement(sid="Queues", actions=("sqs:GetQueueAttributes",), resources=queues, conditions=own),
        Statement(sid="Metrics", actions=("cloudwatch:GetMetricData",), resources=ANYTHING),
        iam_ec2.seeing(),
        *iam_ec2.launching_by_tag(place, fleet),
        *iam_ec2.keeping(place, (f"{fleet.prefix}*",), fleet.regions),
        *disk_keys.using(place, [cluster.disk_key for cluster in facts.clusters if cluster.disk_key]),
    )


def _loop(facts: Facts) -> tuple[Statement, ...]:
    if facts.fleet is not None:
        return _fleet_loop(facts, facts.fleet)
    place, clusters = facts.place, facts.clusters
    return (
        _records(facts, *_READ_AND_WRITE),
        Statement(
            sid="Looks",
            actions=("s3:PutObject",),
            resources=tuple(f"{facts.looks}/{cluster.cluster}/*" for cluster in clusters),
        ),
        _secrets(*(arn for cluster in clusters for arn in (cluster.api_secret, *cluster.source_secrets))),
        *_readings(clusters),
        iam_ec2.seeing(),
        *iam_ec2.launching(place, clusters),
        *iam_ec2.keeping(place, tuple(cluster.cluster for cluster in clusters)),
        *disk_keys.using(place, [cluster.disk_key for cluster in clusters if cluster.disk_key]),
    )


def _readings(clusters: Sequence[ClusterArns]) -> tuple[Statement, ...]:
    """Only what a policy reads."""
    queues = tuple(arn for cluster in clusters for arn in cluster.queues)
    found = []
    if queues:
        found.append(Statement(sid="Queues", actions=("sqs:GetQueueAttributes",), resources=queues))
    if any(cluster.metrics for cluster in clusters):
        found.append(Statement(sid="Metrics", actions=("cloudwatch:GetMetricData",), resources=ANYTHING))
    return tuple(found)


def _records(facts: Facts, *actions: str) -> Statement:
    """Only the records of our clusters, and of all of them together where there is one."""
    shared = (SHARED_PARTITION,) if "UpdateItem" in actions else ()
    ours = (*(cluster.cluster for cluster in facts.clusters), *shared)
    matching = "ForAllValues:StringEquals"
    if facts.fleet is not None:
        ours, matching = (f"{facts.fleet.prefix}*", SHARED_PARTITION), "ForAllValues:StringLike"
    return Statement(
        sid="Table",
        actions=_of("dynamodb", *actions),
        resources=(facts.table,),
        conditions={matching: {"dynamodb:LeadingKeys": ours}},
    )


def _secrets(*arns: str) -> Statement:
    return Statement(sid="Secrets", actions=("secretsmanager:GetSecretValue",), resources=arns)


def _slack(arn: str) -> Statement:
    """A parameter with `autoscaler.lean`. AWS's own key for parameters lets everyone of the account use it who may read
    the parameter."""
    if ":ssm:" in arn:
        return Statement(sid="Parameter", actions=("ssm:GetParameter",), resources=(arn,))
    return _secrets(arn)


def _lambda(function: str, facts: Facts) -> tuple[Statement, ...]:
    """What Lambda itself does with a function's role: write its log, set aside what it could not deliver."""
    log = facts.log_groups[function].removesuffix(":*")
    written = Statement(sid="Log", actions=_of("logs", "CreateLogStream", "PutLogEvents"), resources=(f"{log}:*",))
    queue = facts.queues.get(function)
    if queue is None:
        return (written,)
    return (written, Statement(sid="SetAside", actions=("sqs:SendMessage",), resources=(queue,)))


# ── the instances ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerArns:
    place: Place
    agent_token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterArns:
    place: Place
    cluster: str  # its id
    api_secret: str
    agent_token: str
    server_token: str
    backups: str  # the bucket's ARN
    manifests: str  # the folder in it with what the master runs in the cluster
    programs: str  # the folder in it with what the master itself runs
    wake_topic: str
    warning_topic: str = ""  # empty: no notifications
    critical_topic: str = ""
    warning_key: str = ""  # what encrypts those topics; empty: no key of ours
    reads_metrics: bool = False  # Grafana shows CloudWatch
    makes_volumes: bool = False  # the EBS CSI driver's controller runs on it
    disk_key: str = ""  # with which its volumes are encrypted; empty: the account's own for EBS


def worker(arns: WorkerArns) -> tuple[Statement, ...]:
    """Join, pull images of this account, and let operators in by Session Manager. Every pod that is not kept from the
    metadata service could do the same, so there is nothing more."""
    return (_secrets(arns.agent_token), *_images(arns.place), *_session_manager(arns.place))


def master(arns: MasterArns) -> tuple[Statement, ...]:
    """It fills its cluster's secrets and reads back what a replaced master needs; keeps its snapshots in its own place;
    takes its manifests and its program, which it cannot change; wakes the autoscaler; tells operators of readings and
    of itself. To see whether the bucket is there K3s lists it, without a prefix."""
    kept = f"{arns.backups}/{backup_prefix(arns.cluster)}/*"
    read = tuple(f"{arns.backups}/{folder}/*" for folder in (arns.manifests, arns.programs))
    snapshots = _of("s3", "AbortMultipartUpload", "DeleteObject", "GetObject", "PutObject")
    return (
        Statement(
            sid="Publish",
            actions=("secretsmanager:PutSecretValue",),
            resources=(arns.api_secret, arns.agent_token, arns.server_token),
        ),
        _secrets(arns.agent_token, arns.server_token),
        Statement(sid="Snapshots", actions=snapshots, resources=(kept,)),
        Statement(sid="Manifests", actions=("s3:GetObject",), resources=read),
        Statement(sid="List", actions=("s3:ListBucket",), resources=(arns.backups,)),
        Statement(sid="Wake", actions=("sns:Publish",), resources=(arns.wake_topic,)),
        *_warning(arns),
        *_showing_metrics(arns),
        *(volumes.provisioning(arns.place, arns.cluster, arns.disk_key) if arns.makes_volumes else ()),
        *_images(arns.place),
        *_session_manager(arns.place),
    )


def _warning(arns: MasterArns) -> tuple[Statement, ...]:
    """SNS encrypts a message with the rights of its sender."""
    if not arns.warning_topic:
        return ()
    by_sns = {"StringEquals": {"kms:ViaService": (f"sns.{arns.place.region}.{arns.place.suffix}",)}}
    encrypt = _of("kms", "Decrypt", "GenerateDataKey")
    warn = Statement(sid="Warn", actions=("sns:Publish",), resources=(arns.warning_topic, arns.critical_topic))
    if not arns.warning_key:
        return (warn,)
    return (warn, Statement(sid="WarnKey", actions=encrypt, resources=(arns.warning_key,), conditions=by_sns))


def _showing_metrics(arns: MasterArns) -> tuple[Statement, ...]:
    if not arns.reads_metrics:
        return ()
    shown = _of("cloudwatch", "GetMetricData", "ListMetrics")
    return (Statement(sid="Metrics", actions=shown, resources=ANYTHING),)


def _images(place: Place) -> tuple[Statement, ...]:
    """Of this account and region. The login itself knows no narrower resource; it is worth what the other grants."""
    images = f"arn:{place.partition}:ecr:{place.region}:{place.account}:repository/*"
    return (
        Statement(sid="ImagesLogin", actions=("ecr:GetAuthorizationToken",), resources=ANYTHING),
        Statement(sid="Images", actions=_of("ecr", *_PULL), resources=(images,)),
    )


def _session_manager(place: Place) -> tuple[Statement, ...]:
    """The managed policy for it also reads every parameter of the account."""
    instances = f"arn:{place.partition}:ec2:{place.region}:{place.account}:instance/*"
    return (
        Statement(sid="SessionHost", actions=("ssm:UpdateInstanceInformation",), resources=(instances,)),
        Statement(sid="Sessions", actions=_of("ssmmessages", *_SESSIONS), resources=ANYTHING),
    )


# ── what starts the functions ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerArns:
    functions: tuple[str, ...]  # the aliases that schedules start
    queue: str = ""  # where a tick goes that could not be delivered
    runs: str = ""  # the queue of a fleet, which ticks go into


def scheduler(arns: SchedulerArns) -> tuple[Statement, ...]:
    start = Statement(sid="Start", actions=("lambda:InvokeFunction",), resources=arns.functions)
    queues = tuple(filter(None, (arns.queue, arns.runs)))
    if not queues:
        return (start,)
    return (start, Statement(sid="SetAside", actions=("sqs:SendMessage",), resources=queues))


def _of(service: str, *actions: str) -> tuple[str, ...]:
    return tuple(f"{service}:{action}" for action in actions)

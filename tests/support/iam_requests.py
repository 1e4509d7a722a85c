"""A call to AWS as the questions that IAM is asked about it: which action, on which resource, in what circumstances.

EC2 asks about everything that a call touches. What a fleet launches it asks about in two names, CreateFleet's and
RunInstances'; under which of the two it asks for the tags is not documented, so both must be allowed.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nodefleet.adapters.dynamodb.codec import PARTITION
from nodefleet_infra.interfaces import Place
from support.iam_evaluator import Request

Parameters = Mapping[str, Any]
Context = dict[str, Sequence[str]]

# Operations that are asked about under another name.
_TRANSACTION = {
    "Put": "PutItem",
    "Delete": "DeleteItem",
    "Update": "UpdateItem",
    "ConditionCheck": "ConditionCheckItem",
}
_DISK = {"Iops": "VolumeIops"}  # as IAM calls it
_FLEET = ("CreateFleet", "RunInstances", "CreateTags")
_PARTITION_VALUE = re.compile(rf"#{PARTITION} = (:\w+)|\b{PARTITION} = (:\w+)")


def actions_of(service: str, operation: str, parameters: Parameters) -> set[str]:
    """Only the actions, whatever they are done to."""
    match service, operation:
        case "ec2", "CreateFleet":
            return {*(f"ec2:{action}" for action in _FLEET), "iam:PassRole"}
        case "dynamodb", "TransactWriteItems":
            kinds = {kind for each in parameters["TransactItems"] for kind in each}
            return {f"dynamodb:{_TRANSACTION[kind]}" for kind in kinds}
        case _:
            return {f"{service}:{operation}"}


@dataclass(frozen=True, kw_only=True)
class Template:
    """What a launch template decides."""

    image: str = "ami-1"
    groups: tuple[str, ...] = ("sg-workers",)
    role: str = "workers"
    tags: Mapping[str, str] = field(default_factory=dict)  # of network interfaces
    type: str = "t3.small"  # unless the call says otherwise
    volume: Mapping[str, str] = field(default_factory=lambda: {"VolumeType": "gp3", "VolumeSize": "20"})


@dataclass(frozen=True, kw_only=True)
class World:
    """What IAM knows of the world besides the call."""

    place: Place
    templates: Mapping[str, Template] = field(default_factory=dict)  # by id
    instances: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # tags by id
    secrets: Mapping[str, str] = field(default_factory=dict)  # ARNs by name

    def ec2(self, resource: str) -> str:
        account = "" if resource.startswith("image/") else self.place.account
        return f"arn:{self.place.partition}:ec2:{self.place.region}:{account}:{resource}"

    def arn(self, service: str, resource: str) -> str:
        return f"arn:{self.place.partition}:{service}:{self.place.region}:{self.place.account}:{resource}"

    def role(self, name: str) -> str:
        return f"arn:{self.place.partition}:iam::{self.place.account}:role/{name}"


def requests_of(service: str, operation: str, parameters: Parameters, world: World) -> list[Request]:
    """All of them; the call goes through if each is allowed."""
    match service, operation:
        case "ec2", "CreateFleet":
            return [*_fleet(parameters, world)]
        case "ec2", "RunInstances":
            return [*_run(parameters, world)]
        case "ec2", "CreateTags":
            return [*_tag(parameters, world)]
        case "ec2", "StartInstances" | "StopInstances" | "TerminateInstances":
            return [
                Request(f"ec2:{operation}", world.ec2(f"instance/{identity}"), _owned(identity, world))
                for identity in parameters["InstanceIds"]
            ]
        case "ec2", _ if operation.startswith("Describe"):
            return [Request(f"ec2:{operation}", "*")]
        case "dynamodb", _:
            return [*_table(operation, parameters, world)]
        case "s3", "PutObject" | "GetObject":
            arn = f"arn:{world.place.partition}:s3:::{parameters['Bucket']}/{parameters['Key']}"
            return [Request(f"s3:{operation}", arn)]
        case "secretsmanager", "GetSecretValue" | "PutSecretValue":
            secret = parameters["SecretId"]
            return [Request(f"secretsmanager:{operation}", world.secrets.get(secret, secret))]
        case "ssm", "GetParameter":
            return [Request("ssm:GetParameter", world.arn("ssm", f"parameter{parameters['Name']}"))]
        case "sqs", "GetQueueAttributes" | "SendMessage":
            return [Request(f"sqs:{operation}", world.arn("sqs", parameters["QueueUrl"].rsplit("/", 1)[-1]))]
        case "cloudwatch", "GetMetricData":
            return [Request("cloudwatch:GetMetricData", "*")]
        case _:
            raise LookupError(f"teach tests/support/iam_requests.py what {service} {operation} asks for")


# ── EC2 ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _fleet(parameters: Parameters, world: World) -> Iterator[Request]:
    """An instant fleet."""
    tags = _specified(parameters)
    for kind in ("fleet", "instance", "volume"):
        yield Request("ec2:CreateFleet", world.ec2(f"{kind}/*"), _requested(tags.get(kind, {})))
    for config in parameters["LaunchTemplateConfigs"]:
        template = config["LaunchTemplateSpecification"]["LaunchTemplateId"]
        known = world.templates.get(template, Template())
        subnets = {override["SubnetId"] for override in config["Overrides"]}
        types = {override.get("InstanceType", known.type) for override in config["Overrides"]}
        image = known.image
        for resource in (f"launch-template/{template}", f"image/{image}", *(f"subnet/{each}" for each in subnets)):
            yield Request("ec2:CreateFleet", world.ec2(resource))
        yield from _launched(template, subnets, tags, world, types=types)
    for action in ("CreateFleet", "RunInstances"):
        yield from _tagged_new(tags, action, world)


def _run(parameters: Parameters, world: World) -> Iterator[Request]:
    """By itself, as nobody here does: with or without a template."""
    tags = _specified(parameters)
    template = parameters.get("LaunchTemplate", {}).get("LaunchTemplateId", "")
    replaced = {"image": parameters["ImageId"]} if "ImageId" in parameters else {}
    known = world.templates.get(template, Template())
    disks = [each["Ebs"] for each in parameters.get("BlockDeviceMappings", [])]
    yield from _launched(
        template,
        {parameters["SubnetId"]},
        tags,
        world,
        replaced,
        types={parameters.get("InstanceType", known.type)},
        tenancy=parameters.get("Placement", {}).get("Tenancy", "default"),
        disks=[{**known.volume, **{_DISK.get(key, key): str(value) for key, value in each.items()}} for each in disks],
    )
    yield from _tagged_new(tags, "RunInstances", world)


def _launched(
    template: str,
    subnets: Iterable[str],
    tags: Mapping[str, Mapping[str, str]],
    world: World,
    replaced: Mapping[str, str] | None = None,
    *,
    types: Iterable[str],
    tenancy: str = "default",
    disks: Sequence[Mapping[str, str]] = (),
) -> Iterator[Request]:
    known, replaced = world.templates.get(template, Template()), replaced or {}
    origin: Context = {"ec2:LaunchTemplate": [world.ec2(f"launch-template/{template}")]} if template else {}
    own: Context = {"ec2:IsLaunchTemplateResource": [str(bool(template)).lower()]}
    foreign: Context = {"ec2:IsLaunchTemplateResource": ["false"]}
    image = replaced.get("image", known.image)

    def ask(resource: str, context: Context) -> Request:
        return Request("ec2:RunInstances", world.ec2(resource), {**origin, **context})

    if template:
        yield ask(f"launch-template/{template}", own)
    yield ask(f"image/{image}", foreign if replaced else own)
    yield from (ask(f"security-group/{group}", own) for group in known.groups)
    yield from (ask(f"subnet/{subnet}", foreign) for subnet in subnets)
    yield ask("network-interface/*", {**foreign, **_requested(known.tags)})
    for each in types:
        asked: Context = {"ec2:InstanceType": [each], "ec2:Tenancy": [tenancy]}
        yield ask("instance/*", {**foreign, **asked, **_requested(tags.get("instance", {}))})
    for disk in disks or [known.volume]:
        size: Context = {f"ec2:{key}": [value] for key, value in disk.items()}
        yield ask("volume/*", {**foreign, **size, **_requested(tags.get("volume", {}))})
    if known.tags:
        yield from _tagged_new({"network-interface": known.tags}, "RunInstances", world)
    yield Request("iam:PassRole", world.role(known.role), {"iam:PassedToService": ["ec2.amazonaws.com"]})


def _tag(parameters: Parameters, world: World) -> Iterator[Request]:
    asked = _requested({tag["Key"]: tag["Value"] for tag in parameters["Tags"]})
    for identity in parameters["Resources"]:
        yield Request("ec2:CreateTags", world.ec2(f"instance/{identity}"), {**asked, **_owned(identity, world)})


def _tagged_new(tags: Mapping[str, Mapping[str, str]], action: str, world: World) -> Iterator[Request]:
    for kind, given in tags.items():
        yield Request("ec2:CreateTags", world.ec2(f"{kind}/*"), {"ec2:CreateAction": [action], **_requested(given)})


def _specified(parameters: Parameters) -> dict[str, dict[str, str]]:
    return {
        each["ResourceType"]: {tag["Key"]: tag["Value"] for tag in each["Tags"]}
        for each in parameters.get("TagSpecifications", [])
    }


def _requested(tags: Mapping[str, str]) -> Context:
    found: Context = {f"aws:RequestTag/{key}": [value] for key, value in tags.items()}
    return found | ({"aws:TagKeys": [*tags]} if tags else {})


def _owned(identity: str, world: World) -> Context:
    """Known by either name."""
    tags = world.instances[identity]
    return {f"{service}:ResourceTag/{key}": [value] for service in ("aws", "ec2") for key, value in tags.items()}


# ── DynamoDB ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _table(operation: str, parameters: Parameters, world: World) -> Iterator[Request]:
    if operation == "TransactWriteItems":
        for each in parameters["TransactItems"]:
            for kind, action in each.items():
                yield from _table(_TRANSACTION[kind], action, world)
        return
    keys: Context = {"dynamodb:LeadingKeys": [_partition(parameters)]}
    yield Request(f"dynamodb:{operation}", world.arn("dynamodb", f"table/{parameters['TableName']}"), keys)


def _partition(parameters: Parameters) -> str:
    """Whose record it is."""
    held = parameters.get("Item") or parameters.get("Key")
    if held is None:
        found = _PARTITION_VALUE.search(parameters["KeyConditionExpression"])
        assert found is not None, f"which records does {parameters['KeyConditionExpression']} ask for?"
        return str(parameters["ExpressionAttributeValues"][found[1] or found[2]]["S"])
    return str(held[PARTITION]["S"])

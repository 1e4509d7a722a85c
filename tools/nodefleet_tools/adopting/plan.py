"""The files of an adoption, and what `--apply` would create. Pure: from what was found and chosen to texts."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from nodefleet.adapters.dynamodb.codec import PARTITION, SORT, TTL
from nodefleet.model.names import (
    CAPACITY_LABEL,
    POOL_LABEL,
    ROLE_WORKER,
    SHARED_PARTITION,
    TAG_CLUSTER,
    TAG_POOL,
    TAG_ROLE,
)
from nodefleet.model.serialization import to_plain
from nodefleet.model.snapshot import Deployment, LaunchTarget
from nodefleet.model.workload import TYPE_LABEL, ZONE_LABEL
from nodefleet_infra import iam_ec2, manifests
from nodefleet_infra.role_arns import ClusterArns, Place
from nodefleet_infra.statements import Statement, document
from nodefleet_tools.adopting.inspect import Found
from nodefleet_tools.cli.deployment_file import NO_TEMPLATE

_RECORDS = ("ConditionCheckItem", "DeleteItem", "PutItem", "Query", "UpdateItem")
_ROOT_DEVICE = "/dev/xvda"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The operator's answers."""

    cluster: str
    table: str
    pool: str
    least: int
    most: int
    strategy: str
    prometheus: str
    subnets: Mapping[str, str]  # zone → subnet
    manage_existing: bool  # workers that run already become the pool's

    @property
    def template_name(self) -> str:
        return f"node-fleet-{self.cluster}-{self.pool}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """The launch template as EC2 knows it."""

    id: str = NO_TEMPLATE
    version: str = "1"

    @property
    def exists(self) -> bool:
        return self.id != NO_TEMPLATE


def files(found: Found, chosen: Chosen, template: Template) -> dict[str, str]:
    """File name → content. Terraform and CloudFormation read the JSON files as they are."""
    return {
        "policy.yaml": policy_text(found, chosen),
        "deployment.yaml": _yaml(to_plain(deployment(chosen, template))),
        "table.json": _json(table(chosen)),
        "launch-template.json": _json(launch_template(found, chosen)),
        "user-data.sh": user_data(found.user_data, chosen.pool),
        "iam-policy.json": _json(json.loads(iam_policy(found, chosen, template))),
        "rbac.yaml": manifests.autoscaler(),
    }


def steps(found: Found, chosen: Chosen, template: Template) -> list[str]:
    """What `--apply` creates, a sentence each."""
    zones = ", ".join(chosen.subnets)
    known = f" ({template.id} is there: a new version of it, if it says something else)" if template.exists else ""
    listed = [
        f"DynamoDB table {chosen.table}: on demand, encrypted, point-in-time recovery, TTL, a stream of new records",
        (
            f"EC2 launch template {chosen.template_name}{known}, as {found.worker.id} ({found.worker.image},"
            f" {found.worker.type}, {found.disk_gb} GB), for {zones}"
        ),
        (
            f"the deployment record and policy version 1 of {chosen.cluster} there; pool {chosen.pool} is a dry run:"
            " it decides and changes nothing"
        ),
    ]
    if chosen.manage_existing:
        listed.append(
            f"tags {TAG_CLUSTER}, {TAG_POOL} and {TAG_ROLE} on {', '.join(each.id for each in found.workers)}: they"
            f" become workers of pool {chosen.pool}, which it may remove once it is no dry run"
        )
    if found.servers:
        listed.append(f"tags {TAG_CLUSTER} and {TAG_ROLE}=server on {', '.join(each.id for each in found.servers)}")
    return listed


# ── what each file holds ─────────────────────────────────────────────────────────────────────────────────────────


def policy_text(found: Found, chosen: Chosen) -> str:
    types = sorted({each.type for each in found.workers})
    data: dict[str, Any] = {"dry_run": True, "limits": {"min": chosen.least, "max": chosen.most}}
    if chosen.strategy != "classic":
        data["strategy"] = chosen.strategy
    data["market"] = {"types": types}
    if chosen.pool != "default":
        data = {"pools": [{"name": chosen.pool, **data}]}
    comments = (
        f"# The scaling policy of {chosen.cluster}. Every setting: docs/policy.md, or `nodefleet policy show`.\n"
        "# dry_run: it decides, records and alerts, and changes nothing. Take the line out when you trust it.\n"
        "# market.types: three or more of one architecture make Spot interruptions rarer.\n"
    )
    return comments + _yaml(data)


def policy_data(found: Found, chosen: Chosen) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(policy_text(found, chosen))
    return loaded


def deployment(chosen: Chosen, template: Template) -> Deployment:
    target = LaunchTarget(
        pool=chosen.pool,
        template=template.id,
        template_version=template.version,
        subnets=dict(chosen.subnets),
    )
    return Deployment(cluster=chosen.cluster, prometheus=chosen.prometheus, targets=(target,))


def table(chosen: Chosen) -> dict[str, Any]:
    """The input of CreateTable. TTL and point-in-time recovery are calls of their own in AWS."""
    return {
        "TableName": chosen.table,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in (PARTITION, SORT)],
        "KeySchema": [
            {"AttributeName": PARTITION, "KeyType": "HASH"},
            {"AttributeName": SORT, "KeyType": "RANGE"},
        ],
        "SSESpecification": {"Enabled": True},
        "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
    }


TIME_TO_LIVE = {"Enabled": True, "AttributeName": TTL}


def tags(chosen: Chosen, role: str = ROLE_WORKER) -> list[dict[str, str]]:
    ours = {TAG_CLUSTER: chosen.cluster, TAG_ROLE: role} | ({TAG_POOL: chosen.pool} if role == ROLE_WORKER else {})
    return [{"Key": key, "Value": value} for key, value in ours.items()]


def launch_template(found: Found, chosen: Chosen) -> dict[str, Any]:
    """The input of CreateLaunchTemplate: the worker again, with what makes its node known as its instance's."""
    worker = found.worker
    disk = {"VolumeType": "gp3", "VolumeSize": found.disk_gb, "DeleteOnTermination": True}
    data: dict[str, Any] = {
        "ImageId": worker.image,
        "InstanceType": worker.type,
        "SecurityGroupIds": list(worker.groups),
        "BlockDeviceMappings": [
            {
                "DeviceName": worker.root_device or _ROOT_DEVICE,
                "Ebs": disk | ({"Encrypted": True} if found.disk_encrypted else {}),
            }
        ],
        "MetadataOptions": {"HttpTokens": "required", "HttpEndpoint": "enabled", "HttpPutResponseHopLimit": 1},
        "InstanceInitiatedShutdownBehavior": "terminate",
        "UserData": base64.b64encode(user_data(found.user_data, chosen.pool).encode()).decode(),
        "TagSpecifications": [{"ResourceType": kind, "Tags": tags(chosen)} for kind in ("instance", "volume")],
    }
    if worker.profile:
        data["IamInstanceProfile"] = {"Arn": worker.profile}
    if worker.key:
        data["KeyName"] = worker.key
    return {"LaunchTemplateName": chosen.template_name, "LaunchTemplateData": data}


def user_data(existing: str, pool: str) -> str:
    """The worker's own script, after a drop-in that K3s merges into its configuration."""
    body = existing.removeprefix("\ufeff")
    shebang, _, rest = body.partition("\n") if body.startswith("#!") else ("#!/bin/bash", "", body)
    return f"{shebang}\n{_DROP_IN.replace('@POOL@', pool)}{rest}"


# K3s reads config.yaml.d after config.yaml; `+` adds to a list. The node is named after the instance, because K3s
# refuses a name that is used again with another password.
_DROP_IN = f"""# node-fleet: the node is its instance's, in its zone and pool
(
  imds() {{ curl -sf -m 5 -H "X-aws-ec2-metadata-token: $1" "http://169.254.169.254/latest/meta-data/$2"; }}
  t=$(curl -sf -m 5 -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 300' http://169.254.169.254/latest/api/token)
  id=$(imds "$t" instance-id); zone=$(imds "$t" placement/availability-zone)
  market=$(imds "$t" instance-life-cycle)
  mkdir -p /etc/rancher/k3s/config.yaml.d
  cat > /etc/rancher/k3s/config.yaml.d/50-node-fleet.yaml <<YAML
node-name: "$id"
kubelet-arg+:
  - "provider-id=aws:///$zone/$id"
node-label+:
  - "{POOL_LABEL}=@POOL@"
  - "{CAPACITY_LABEL}=$([ "$market" = spot ] && echo spot || echo on-demand)"
  - "{ZONE_LABEL}=$zone"
  - "{TYPE_LABEL}=$(imds "$t" instance-type)"
YAML
)
"""


def iam_policy(found: Found, chosen: Chosen, template: Template) -> str:
    """What the identity that runs the loop may do: this cluster's records, launches from this template, its workers."""
    place = Place(partition=found.partition, region=found.region, account=found.account)

    def arn(service: str, resource: str) -> str:
        return f"arn:{place.partition}:{service}:{place.region}:{place.account}:{resource}"

    cluster = ClusterArns(
        cluster=chosen.cluster,
        api_secret="",
        templates=(arn("ec2", f"launch-template/{template.id}"),),
        worker_role=found.worker_role,
        subnets=tuple(arn("ec2", f"subnet/{each}") for each in chosen.subnets.values()),
        groups=tuple(arn("ec2", f"security-group/{each}") for each in found.worker.groups),
        types=tuple(sorted({each.type for each in found.workers})),
        disk_gb=found.disk_gb,
    )
    launching = iam_ec2.launching(place, (cluster,))
    if not found.worker_role:
        launching = tuple(each for each in launching if each.sid != "PassRole")
    records = Statement(
        sid="Table",
        actions=tuple(f"dynamodb:{action}" for action in _RECORDS),
        resources=(arn("dynamodb", f"table/{chosen.table}"),),
        conditions={"ForAllValues:StringEquals": {"dynamodb:LeadingKeys": (chosen.cluster, SHARED_PARTITION)}},
    )
    return document((records, iam_ec2.seeing(), *launching, *iam_ec2.keeping(place, (chosen.cluster,))))


def _json(plain: Any) -> str:
    return json.dumps(plain, indent=2, ensure_ascii=False) + "\n"


def _yaml(plain: Mapping[str, Any] | Sequence[Any]) -> str:
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=120)

"""The program deployed into moto: whatever the functions touch is really made.

Each declared resource becomes the boto3 call that AWS's provider would make. The call's form is checked by boto3
itself: a misspelt field, a wrong type or a value out of its range fails here. Ids and ARNs are then moto's own, so what
one resource says of another must fit. What starts or watches the functions is checked the same way but not made.

What Pulumi calls `cidrBlock` boto3 calls `CidrBlock`; `as_request` writes the one as the other and takes nothing that
the call does not have. Where the two differ in more than that, the difference stands in the resource's own method.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from threading import Lock
from typing import Any

import boto3
import botocore.session
from botocore.validate import validate_parameters
from moto.core import DEFAULT_ACCOUNT_ID as ACCOUNT_ID

Inputs = Mapping[str, Any]
Answer = tuple[str, dict[str, Any]]


def as_request(service: str, operation: str, inputs: Inputs) -> dict[str, Any]:
    return dict(_written(_input_shape(service, operation), inputs, operation))


@cache
def _input_shape(service: str, operation: str) -> Any:
    return botocore.session.Session().get_service_model(service).operation_model(operation).input_shape


def valid_request(service: str, operation: str, inputs: Inputs) -> dict[str, Any]:
    """For calls that moto cannot make: boto3 checks their form all the same."""
    request = as_request(service, operation, inputs)
    validate_parameters(request, _input_shape(service, operation))
    return request


def _written(shape: Any, value: Any, where: str) -> Any:
    match shape.type_name:
        case "structure":
            members = {name.lower(): (name, member) for name, member in shape.members.items()}
            unknown = [key for key in value if key.lower() not in members]
            assert not unknown, f"{where} has no {unknown}; it has {sorted(shape.members)}"
            found = ((*members[key.lower()], each) for key, each in value.items() if each is not None)
            return {name: _written(member, each, f"{where}.{name}") for name, member, each in found}
        case "list":
            return [_written(shape.member, each, where) for each in value]
        case "boolean" if isinstance(value, str):
            return {"true": True, "false": False}[value]
        case "integer" | "long" if isinstance(value, float):
            assert value.is_integer(), where
            return int(value)
        case _:
            return value


def _without(inputs: Inputs, *names: str) -> dict[str, Any]:
    return {name: value for name, value in inputs.items() if name not in names}


def _listed(tags: Inputs) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in (tags or {}).items()]


@dataclass
class MotoCloud:
    """Makes resources as they come. What it does not know is left to whoever answers otherwise."""

    region: str
    made: dict[str, int] = field(default_factory=dict)  # how many of which type
    _clients: dict[str, Any] = field(default_factory=dict)
    _one_at_a_time: Lock = field(default_factory=Lock)

    def client(self, service: str) -> Any:
        if service not in self._clients:
            self._clients[service] = boto3.client(service, region_name=self.region)
        return self._clients[service]

    def create(self, kind: str, inputs: Inputs) -> Answer | None:
        maker: Callable[[Inputs], Answer] | None = getattr(self, f"_{kind}", None)
        if maker is None:
            return None
        with self._one_at_a_time:  # Pulumi asks from many threads
            answer = maker(inputs)
            self.made[kind] = self.made.get(kind, 0) + 1
        return answer

    # ── network ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _tagged(self, kind: str, tags: Inputs) -> dict[str, Any]:
        return {"TagSpecifications": [{"ResourceType": kind, "Tags": _listed(tags)}]}

    def _Vpc(self, inputs: Inputs) -> Answer:  # noqa: N802  # these methods have the resources' names
        assert inputs["assignGeneratedIpv6CidrBlock"]
        made = self.client("ec2").create_vpc(
            CidrBlock=inputs["cidrBlock"], AmazonProvidedIpv6CidrBlock=True, **self._tagged("vpc", inputs["tags"])
        )["Vpc"]
        (block,) = made["Ipv6CidrBlockAssociationSet"]
        return made["VpcId"], {"ipv6CidrBlock": block["Ipv6CidrBlock"]}

    def _Subnet(self, inputs: Inputs) -> Answer:  # noqa: N802
        plain = _without(inputs, "tags", "mapPublicIpOnLaunch", "assignIpv6AddressOnCreation")
        request = as_request("ec2", "CreateSubnet", plain) | self._tagged("subnet", inputs["tags"])
        return self.client("ec2").create_subnet(**request)["Subnet"]["SubnetId"], {}

    def _SecurityGroup(self, inputs: Inputs) -> Answer:  # noqa: N802
        made = self.client("ec2").create_security_group(
            GroupName=inputs["name"],
            Description=inputs["description"],
            VpcId=inputs["vpcId"],
            **self._tagged("security-group", inputs["tags"]),
        )
        return made["GroupId"], {}

    def _SecurityGroupIngressRule(self, inputs: Inputs) -> Answer:  # noqa: N802
        pair = {"GroupId": inputs["referencedSecurityGroupId"], "Description": inputs["description"]}
        permission = {
            "IpProtocol": inputs["ipProtocol"],
            "FromPort": int(inputs["fromPort"]),
            "ToPort": int(inputs["toPort"]),
            "UserIdGroupPairs": [pair],
        }
        made = self.client("ec2").authorize_security_group_ingress(
            GroupId=inputs["securityGroupId"], IpPermissions=[permission]
        )
        return made["SecurityGroupRules"][0]["SecurityGroupRuleId"], {}

    def _NetworkInterface(self, inputs: Inputs) -> Answer:  # noqa: N802
        made = self.client("ec2").create_network_interface(
            SubnetId=inputs["subnetId"], Groups=inputs["securityGroups"], Description=inputs["description"]
        )["NetworkInterface"]
        return made["NetworkInterfaceId"], {"privateIp": made["PrivateIpAddress"]}

    def _LaunchTemplate(self, inputs: Inputs) -> Answer:  # noqa: N802
        tags = self._tagged("launch-template", inputs["tags"])
        template = self.client("ec2").create_launch_template(**template_request(inputs), **tags)["LaunchTemplate"]
        identity = template["LaunchTemplateId"]
        arn = self._arn("ec2", f"launch-template/{identity}")
        return identity, {"latestVersion": template["LatestVersionNumber"], "arn": arn}

    # ── state ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _Table(self, inputs: Inputs) -> Answer:  # noqa: N802
        client, name = self.client("dynamodb"), inputs["name"]
        keys = {"HASH": inputs["hashKey"], "RANGE": inputs["rangeKey"]}
        made = client.create_table(
            TableName=name,
            BillingMode=inputs["billingMode"],
            KeySchema=[{"AttributeName": key, "KeyType": kind} for kind, key in keys.items()],
            AttributeDefinitions=[
                {"AttributeName": each["name"], "AttributeType": each["type"]} for each in inputs["attributes"]
            ],
            StreamSpecification={
                "StreamEnabled": inputs["streamEnabled"],
                "StreamViewType": inputs["streamViewType"],
            },
            SSESpecification={"Enabled": inputs["serverSideEncryption"]["enabled"]},
            DeletionProtectionEnabled=inputs["deletionProtectionEnabled"],
            Tags=_listed(inputs["tags"]),
        )["TableDescription"]
        forgetting = {"tableName": name, "timeToLiveSpecification": inputs["ttl"]}
        client.update_time_to_live(**as_request("dynamodb", "UpdateTimeToLive", forgetting))
        client.update_continuous_backups(
            TableName=name,
            PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": inputs["pointInTimeRecovery"]["enabled"]},
        )
        return name, {"arn": made["TableArn"], "streamArn": made["LatestStreamArn"]}

    def _TableItem(self, inputs: Inputs) -> Answer:  # noqa: N802
        item = json.loads(inputs["item"])
        self.client("dynamodb").put_item(TableName=inputs["tableName"], Item=item)
        keys = [item[inputs[key]]["S"] for key in ("hashKey", "rangeKey")]
        return "|".join((inputs["tableName"], *keys)), {}

    def _Bucket(self, inputs: Inputs) -> Answer:  # noqa: N802
        name = inputs["bucket"]
        where = {} if self.region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": self.region}}
        self.client("s3").create_bucket(Bucket=name, **where)
        self.client("s3").put_bucket_tagging(Bucket=name, Tagging={"TagSet": _listed(inputs["tags"])})
        return name, {"arn": f"arn:aws:s3:::{name}"}

    def _BucketPublicAccessBlock(self, inputs: Inputs) -> Answer:  # noqa: N802
        block = {"bucket": inputs["bucket"], "publicAccessBlockConfiguration": _without(inputs, "bucket")}
        self.client("s3").put_public_access_block(**as_request("s3", "PutPublicAccessBlock", block))
        return inputs["bucket"], {}

    def _BucketServerSideEncryptionConfiguration(self, inputs: Inputs) -> Answer:  # noqa: N802
        (rule,) = inputs["rules"]
        algorithm = rule["applyServerSideEncryptionByDefault"]["sseAlgorithm"]
        rules = [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": algorithm}}]
        self.client("s3").put_bucket_encryption(
            Bucket=inputs["bucket"], ServerSideEncryptionConfiguration={"Rules": rules}
        )
        return inputs["bucket"], {}

    def _BucketLifecycleConfiguration(self, inputs: Inputs) -> Answer:  # noqa: N802
        request = {"bucket": inputs["bucket"], "lifecycleConfiguration": {"rules": inputs["rules"]}}
        self.client("s3").put_bucket_lifecycle_configuration(
            **as_request("s3", "PutBucketLifecycleConfiguration", request)
        )
        return inputs["bucket"], {}

    def _BucketPolicy(self, inputs: Inputs) -> Answer:  # noqa: N802
        """moto does not read conditions: what is denied without TLS it would deny always."""
        assert json.loads(valid_request("s3", "PutBucketPolicy", inputs)["Policy"])["Statement"]
        return inputs["bucket"], {}

    def _BucketVersioning(self, inputs: Inputs) -> Answer:  # noqa: N802
        self.client("s3").put_bucket_versioning(**as_request("s3", "PutBucketVersioning", inputs))
        return inputs["bucket"], {}

    def _BucketObjectv2(self, inputs: Inputs) -> Answer:  # noqa: N802
        plain = _without(inputs, "tags", "content") | {"body": inputs["content"].encode()}
        self.client("s3").put_object(**as_request("s3", "PutObject", plain))
        return inputs["key"], {}

    def _Secret(self, inputs: Inputs) -> Answer:  # noqa: N802
        made = self.client("secretsmanager").create_secret(
            Name=inputs["name"], Description=inputs["description"], Tags=_listed(inputs["tags"])
        )
        return made["ARN"], {"arn": made["ARN"]}

    def _Parameter(self, inputs: Inputs) -> Answer:  # noqa: N802
        kept = {"Name": inputs["name"], "Type": inputs["type"], "Value": inputs["value"]}
        self.client("ssm").put_parameter(**kept, Description=inputs["description"], Tags=_listed(inputs["tags"]))
        found = self.client("ssm").get_parameter(Name=inputs["name"])["Parameter"]
        return inputs["name"], {"arn": found["ARN"]}

    # ── messages ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _Queue(self, inputs: Inputs) -> Answer:  # noqa: N802
        attributes = {
            "MessageRetentionPeriod": str(int(inputs["messageRetentionSeconds"])),
            "SqsManagedSseEnabled": str(inputs["sqsManagedSseEnabled"]).lower(),
        }
        if "visibilityTimeoutSeconds" in inputs:
            attributes["VisibilityTimeout"] = str(int(inputs["visibilityTimeoutSeconds"]))
            attributes["RedrivePolicy"] = inputs["redrivePolicy"]
        client = self.client("sqs")
        url = client.create_queue(QueueName=inputs["name"], Attributes=attributes, tags=inputs["tags"])["QueueUrl"]
        arn = client.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        return url, {"url": url, "arn": arn}

    def _QueuePolicy(self, inputs: Inputs) -> Answer:  # noqa: N802
        self.client("sqs").set_queue_attributes(QueueUrl=inputs["queueUrl"], Attributes={"Policy": inputs["policy"]})
        return inputs["queueUrl"], {}

    def _Topic(self, inputs: Inputs) -> Answer:  # noqa: N802
        key = inputs.get("kmsMasterKeyId")  # none with the lean autoscaler
        attributes = {"KmsMasterKeyId": key} if key else {}
        made = self.client("sns").create_topic(Name=inputs["name"], Attributes=attributes, Tags=_listed(inputs["tags"]))
        return made["TopicArn"], {"arn": made["TopicArn"]}

    def _TopicPolicy(self, inputs: Inputs) -> Answer:  # noqa: N802
        self.client("sns").set_topic_attributes(
            TopicArn=inputs["arn"], AttributeName="Policy", AttributeValue=inputs["policy"]
        )
        return inputs["arn"], {}

    # ── only checked: the functions do not touch it, and each service more takes moto a second to start ──────────

    def _Function(self, inputs: Inputs) -> Answer:  # noqa: N802
        ours = ("name", "sourceCodeHash", "replaceSecurityGroupsOnDestroy", "reservedConcurrentExecutions", "code")
        plain = {**_without(inputs, *ours), "functionName": inputs["name"], "code": {"zipFile": b"of make layers"}}
        name = valid_request("lambda", "CreateFunction", plain)["FunctionName"]
        return name, {"arn": self._arn("lambda", f"function:{name}"), "version": "1"}

    def _FunctionEventInvokeConfig(self, inputs: Inputs) -> Answer:  # noqa: N802
        made = valid_request("lambda", "PutFunctionEventInvokeConfig", inputs)
        return f"{made['FunctionName']}:{made['Qualifier']}", {}

    def _EventSourceMapping(self, inputs: Inputs) -> Answer:  # noqa: N802
        plain = dict(inputs)
        if "destinationConfig" in inputs:  # a queue has its own
            failed = inputs["destinationConfig"]["onFailure"]["destinationArn"]
            plain["destinationConfig"] = {"onFailure": {"destination": failed}}
        return valid_request("lambda", "CreateEventSourceMapping", plain)["FunctionName"], {}

    def _Permission(self, inputs: Inputs) -> Answer:  # noqa: N802
        plain = {**_without(inputs, "function"), "functionName": inputs["function"], "statementId": "any"}
        return valid_request("lambda", "AddPermission", plain)["FunctionName"], {}

    def _Role(self, inputs: Inputs) -> Answer:  # noqa: N802
        plain = {
            **_without(inputs, "name", "assumeRolePolicy", "tags"),
            "roleName": inputs["name"],
            "assumeRolePolicyDocument": inputs["assumeRolePolicy"],
            "tags": _listed(inputs["tags"]),
        }
        name = valid_request("iam", "CreateRole", plain)["RoleName"]
        return name, {"arn": f"arn:aws:iam::{ACCOUNT_ID}:role/{name}"}

    def _RolePolicy(self, inputs: Inputs) -> Answer:  # noqa: N802
        plain = {"roleName": inputs["role"], "policyName": "inline", "policyDocument": inputs["policy"]}
        return valid_request("iam", "PutRolePolicy", plain)["RoleName"], {}

    def _ScheduleGroup(self, inputs: Inputs) -> Answer:  # noqa: N802
        plain = {**inputs, "tags": _listed(inputs["tags"])}
        return valid_request("scheduler", "CreateScheduleGroup", plain)["Name"], {}

    def _Schedule(self, inputs: Inputs) -> Answer:  # noqa: N802
        return valid_request("scheduler", "CreateSchedule", inputs)["Name"], {}

    def _EventRule(self, inputs: Inputs) -> Answer:  # noqa: N802
        name = valid_request("events", "PutRule", {**inputs, "tags": _listed(inputs["tags"])})["Name"]
        return name, {"arn": self._arn("events", f"rule/{name}")}

    def _EventTarget(self, inputs: Inputs) -> Answer:  # noqa: N802
        target = {**_without(inputs, "rule", "targetId"), "id": inputs["targetId"]}
        made = valid_request("events", "PutTargets", {"rule": inputs["rule"], "targets": [target]})
        return f"{made['Rule']}-{inputs['targetId']}", {}

    def _LogMetricFilter(self, inputs: Inputs) -> Answer:  # noqa: N802
        counted = {f"metric{name.capitalize()}": value for name, value in inputs["metricTransformation"].items()}
        plain = {
            **_without(inputs, "name", "pattern", "metricTransformation"),
            "filterName": inputs["name"],
            "filterPattern": inputs["pattern"],
            "metricTransformations": [counted],
        }
        return valid_request("logs", "PutMetricFilter", plain)["filterName"], {}

    def _MetricAlarm(self, inputs: Inputs) -> Answer:  # noqa: N802
        plain = {
            **_without(inputs, "name", "metricQueries", "dimensions", "tags"),
            "alarmName": inputs["name"],
            "tags": _listed(inputs["tags"]),
        }
        if "dimensions" in inputs:
            plain["dimensions"] = _named(inputs["dimensions"])
        if "metricQueries" in inputs:
            plain["metrics"] = [_query(each) for each in inputs["metricQueries"]]
        name = valid_request("cloudwatch", "PutMetricAlarm", plain)["AlarmName"]
        return name, {"arn": self._arn("cloudwatch", f"alarm:{name}")}

    def _Dashboard(self, inputs: Inputs) -> Answer:  # noqa: N802
        return valid_request("cloudwatch", "PutDashboard", inputs)["DashboardName"], {}

    def _arn(self, service: str, rest: str) -> str:
        return f"arn:aws:{service}:{self.region}:{ACCOUNT_ID}:{rest}"


def template_request(inputs: Inputs) -> dict[str, Any]:
    """Of CreateLaunchTemplate, without the template's own tags."""
    data = _without(inputs, "name", "description", "tags", "updateDefaultVersion")
    data["securityGroupIds"] = data.pop("vpcSecurityGroupIds")
    data["tagSpecifications"] = [
        {"resourceType": each["resourceType"], "tags": _listed(each["tags"])} for each in data["tagSpecifications"]
    ]
    return as_request(
        "ec2",
        "CreateLaunchTemplate",
        {
            "launchTemplateName": inputs["name"],
            "versionDescription": inputs["description"],
            "launchTemplateData": data,
        },
    )


def _named(dimensions: Inputs) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in (dimensions or {}).items()]


def _query(query: Inputs) -> dict[str, Any]:
    if "metric" not in query:
        return dict(query)
    metric = query["metric"]
    return {
        "id": query["id"],
        "returnData": query["returnData"],
        "metricStat": {
            "metric": {
                "namespace": metric["namespace"],
                "metricName": metric["metricName"],
                "dimensions": _named(metric.get("dimensions", {})),
            },
            "period": metric["period"],
            "stat": metric["stat"],
        },
    }

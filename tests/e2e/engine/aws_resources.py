"""What the stand-in provider does with each kind of resource: made in moto, changed there, and removed again.

Making goes through `infra_on_moto`, which checks every request against boto3's models. What neither the functions nor
the order of a destroy needs is checked the same way and then kept as a name in a register, as AWS would: made twice it
is refused, and what a destroy leaves stands there.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from botocore.validate import validate_parameters

from e2e.engine.optional_resources import OptionalResources
from support.aws_answers import answered
from support.infra_on_moto import (
    Answer,
    Inputs,
    _input_shape,
    _listed,
    _without,
    template_request,
    valid_request,
)

# What AWS cannot change in place, by kind. Where a kind has no entry, its names cannot be changed.
_ALWAYS = frozenset({"name", "bucket", "layerName", "functionName"})
_REPLACED: Mapping[str, frozenset[str]] = {
    "ec2/instance:Instance": frozenset({"ami", "availabilityZone", "subnetId", "keyName", "primaryNetworkInterface"}),
    "ec2/vpc:Vpc": frozenset({"cidrBlock"}),
    "ec2/subnet:Subnet": frozenset({"cidrBlock", "availabilityZone", "vpcId"}),
    "ec2/networkInterface:NetworkInterface": frozenset({"subnetId"}),
    "ec2/securityGroup:SecurityGroup": frozenset({"name", "description", "vpcId"}),
    "ec2/routeTableAssociation:RouteTableAssociation": frozenset({"subnetId"}),
    "ec2/eip:Eip": frozenset({"domain"}),
    "ec2/natGateway:NatGateway": frozenset({"allocationId", "subnetId"}),
    "lambda/layerVersion:LayerVersion": frozenset(
        {"layerName", "code", "sourceCodeHash", "compatibleRuntimes", "compatibleArchitectures", "description"}
    ),
    "lambda/permission:Permission": frozenset({"function", "action", "principal", "sourceArn", "qualifier"}),
    "dynamodb/table:Table": frozenset({"name", "hashKey", "rangeKey"}),
    "dynamodb/tableItem:TableItem": frozenset({"tableName", "hashKey", "rangeKey"}),
    "s3/bucketObjectv2:BucketObjectv2": frozenset({"bucket", "key"}),
    "cloudwatch/eventTarget:EventTarget": frozenset({"rule", "targetId"}),
    "lb/loadBalancer:LoadBalancer": frozenset({"name", "internal", "loadBalancerType", "subnets"}),
    "lb/targetGroup:TargetGroup": frozenset({"name", "port", "protocol", "targetType", "vpcId"}),
    "lb/targetGroupAttachment:TargetGroupAttachment": frozenset({"targetGroupArn", "targetId", "port"}),
    "lb/listener:Listener": frozenset({"loadBalancerArn"}),
    "kms/grant:Grant": frozenset({"keyId", "granteePrincipal", "operations"}),
    "sns/topicSubscription:TopicSubscription": frozenset({"topic", "protocol", "endpoint"}),
    "secretsmanager/secretVersion:SecretVersion": frozenset({"secretId", "secretString"}),
}
# Names that AWS gives once in an account and region.
_ONCE = frozenset({"Role", "InstanceProfile", "Function", "LogGroup", "ScheduleGroup", "Schedule", "kms/Alias"})
# The rest that is only checked: operation, and how its fields are called there ("" where another call has them).
_CHECKED: Mapping[str, tuple[str, str, Mapping[str, str]]] = {
    "LogGroup": ("logs", "CreateLogGroup", {"name": "logGroupName", "retentionInDays": ""}),
    "InstanceProfile": ("iam", "CreateInstanceProfile", {"name": "instanceProfileName", "role": "", "tags": ""}),
    "kms/Alias": ("kms", "CreateAlias", {"name": "aliasName"}),
    "lambda/Alias": ("lambda", "CreateAlias", {}),
    "Key": ("kms", "CreateKey", {"enableKeyRotation": "", "deletionWindowInDays": "", "tags": ""}),
    "TopicSubscription": ("sns", "Subscribe", {"topic": "topicArn", "redrivePolicy": "", "filterPolicy": ""}),
    "BucketOwnershipControls": ("s3", "PutBucketOwnershipControls", {"rule": ""}),
}
_GIVEN: Mapping[str, Inputs] = {
    "BucketOwnershipControls": {"ownershipControls": {"rules": [{"objectOwnership": "BucketOwnerEnforced"}]}},
}


def replaces(kind: str, key: str, news: Inputs) -> bool:
    """Whether a change of this input makes a new resource."""
    if kind == "ec2/instance:Instance" and key in ("userData", "userDataBase64"):
        return bool(news.get("userDataReplaceOnChange"))
    return key in _REPLACED.get(kind, _ALWAYS)


def known_later(kind: str, changed: frozenset[str]) -> frozenset[str]:
    """Outputs that a preview of this change cannot tell yet."""
    match _short(kind):
        case "Function" if changed - {"tags"}:
            return frozenset({"version"})
        case "LaunchTemplate" if changed - {"tags"}:
            return frozenset({"latestVersion", "defaultVersion"})
    return frozenset()


def is_known(kind: str) -> bool:
    """Whether the stand-in can make such a resource."""
    return _short(kind) in _CHECKED or hasattr(EngineCloud, f"_{_short(kind)}")


def _short(kind: str) -> str:
    """ "lambda/alias:Alias" is "lambda/Alias", because there are two; else the last part is enough."""
    last = kind.rpartition(":")[2]
    return f"{kind.partition('/')[0]}/{last}" if last == "Alias" else last


@dataclass
class EngineCloud(OptionalResources):
    register: Path = field(kw_only=True)

    def look_up(self, token: str, arguments: Inputs) -> dict[str, Any]:
        """What the program asks about the account."""
        match token:
            case "aws:index/getCallerIdentity:getCallerIdentity":
                told = self.client("sts").get_caller_identity()
                return {
                    "accountId": told["Account"],
                    "arn": told["Arn"],
                    "userId": told["UserId"],
                    "id": told["Account"],
                }
            case "aws:index/getPartition:getPartition":
                return {
                    "partition": "aws",
                    "dnsSuffix": "amazonaws.com",
                    "id": "aws",
                    "reverseDnsPrefix": "com.amazonaws",
                }
            case "aws:ssm/getParameter:getParameter":
                told = self.client("ssm").get_parameter(Name=arguments["name"])["Parameter"]
                newer = self.register.with_name("image")  # a test says that AWS has published one
                value = newer.read_text() if newer.exists() else told["Value"]
                return {"name": told["Name"], "value": value, "type": told["Type"], "id": told["Name"]}
        raise LookupError(f"the stand-in does not answer {token}: add it to look_up")

    def make(self, kind: str, name: str, inputs: Inputs) -> Answer:
        """Id and what is known besides. A kind that nothing here checks is refused: add it."""
        short = _short(kind)
        if short in _CHECKED:
            self._check(short, inputs)
            made = None
        elif (made := self.create(short, inputs)) is None:
            raise LookupError(f"the stand-in does not know {kind}: say in aws_resources.py what becomes of it")
        identity, known = made or answered(f"aws:{kind}", name, inputs, self.region)
        self._note(short, identity)
        return identity, known

    def change(self, kind: str, identity: str, olds: Inputs, news: Inputs) -> dict[str, Any]:
        short = _short(kind)
        changed = {key for key in news if news[key] != olds.get(key)}
        if short in _CHECKED:
            self._check(short, news)
        elif changer := getattr(self, f"_change_{short}", None):
            return dict(changer(identity, olds, news) or {})
        elif short in _WRITTEN_AGAIN:
            self.create(short, news)
        elif changed - {"tags", "tagsAll"}:
            raise LookupError(f"the stand-in cannot change {sorted(changed)} of {kind}: add _change_{short}")
        return {}

    def remove(self, kind: str, identity: str, known: Inputs) -> None:
        short = _short(kind)
        remover: Callable[[str, Inputs], object] | None = getattr(self, f"_remove_{short}", None)
        if remover is not None:
            with self._one_at_a_time:
                remover(identity, known)
        self._forget(short, identity)

    # ── only checked ─────────────────────────────────────────────────────────────────────────────────────────────

    def _check(self, short: str, inputs: Inputs) -> None:
        service, operation, names = _CHECKED[short]
        plain = {names.get(key, key): value for key, value in inputs.items() if names.get(key, key)}
        valid_request(service, operation, {**plain, **_GIVEN.get(short, {})})

    def _note(self, short: str, identity: str) -> None:
        if short not in _ONCE:
            return
        with self._one_at_a_time:
            there = self._registered()
            if [short, identity] in there:
                raise ValueError(f"EntityAlreadyExists: {short} {identity}")
            self.register.write_text(json.dumps([*there, [short, identity]]))

    def _forget(self, short: str, identity: str) -> None:
        if short in _ONCE:
            with self._one_at_a_time:
                left = [each for each in self._registered() if each != [short, identity]]
                self.register.write_text(json.dumps(left))

    def _registered(self) -> list[list[str]]:
        return list(json.loads(self.register.read_text())) if self.register.exists() else []

    # ── network ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _remove_Vpc(self, identity: str, _: Inputs) -> None:  # noqa: N802  # these methods have the resources' names
        self.client("ec2").delete_vpc(VpcId=identity)

    def _remove_Subnet(self, identity: str, _: Inputs) -> None:  # noqa: N802
        self.client("ec2").delete_subnet(SubnetId=identity)

    def _SecurityGroup(self, inputs: Inputs) -> Answer:  # noqa: N802
        """AWS lets everything out of a new group; its provider takes that away, so that rules are all there is."""
        made = super()._SecurityGroup(inputs)
        client = self.client("ec2")
        (group,) = client.describe_security_groups(GroupIds=[made[0]])["SecurityGroups"]
        client.revoke_security_group_egress(GroupId=made[0], IpPermissions=group["IpPermissionsEgress"])
        return made

    def _remove_SecurityGroup(self, identity: str, _: Inputs) -> None:  # noqa: N802
        self.client("ec2").delete_security_group(GroupId=identity)

    def _DefaultSecurityGroup(self, inputs: Inputs) -> Answer:  # noqa: N802
        """Emptied, not made."""
        wanted = [{"Name": "vpc-id", "Values": [inputs["vpcId"]]}, {"Name": "group-name", "Values": ["default"]}]
        (found,) = self.client("ec2").describe_security_groups(Filters=wanted)["SecurityGroups"]
        return found["GroupId"], {}

    def _SecurityGroupEgressRule(self, inputs: Inputs) -> Answer:  # noqa: N802
        made = self.client("ec2").authorize_security_group_egress(
            GroupId=inputs["securityGroupId"], IpPermissions=[_permission(inputs)]
        )
        return made["SecurityGroupRules"][0]["SecurityGroupRuleId"], {}

    def _SecurityGroupIngressRule(self, inputs: Inputs) -> Answer:  # noqa: N802
        made = self.client("ec2").authorize_security_group_ingress(
            GroupId=inputs["securityGroupId"], IpPermissions=[_permission(inputs)]
        )
        return made["SecurityGroupRules"][0]["SecurityGroupRuleId"], {}

    def _remove_SecurityGroupEgressRule(self, identity: str, known: Inputs) -> None:  # noqa: N802
        self.client("ec2").revoke_security_group_egress(
            GroupId=known["securityGroupId"], SecurityGroupRuleIds=[identity]
        )

    def _remove_SecurityGroupIngressRule(self, identity: str, known: Inputs) -> None:  # noqa: N802
        self.client("ec2").revoke_security_group_ingress(
            GroupId=known["securityGroupId"], SecurityGroupRuleIds=[identity]
        )

    def _InternetGateway(self, inputs: Inputs) -> Answer:  # noqa: N802
        client = self.client("ec2")
        made = client.create_internet_gateway(**self._tagged("internet-gateway", inputs["tags"]))["InternetGateway"]
        client.attach_internet_gateway(InternetGatewayId=made["InternetGatewayId"], VpcId=inputs["vpcId"])
        return made["InternetGatewayId"], {}

    def _remove_InternetGateway(self, identity: str, known: Inputs) -> None:  # noqa: N802
        self.client("ec2").detach_internet_gateway(InternetGatewayId=identity, VpcId=known["vpcId"])
        self.client("ec2").delete_internet_gateway(InternetGatewayId=identity)

    def _EgressOnlyInternetGateway(self, inputs: Inputs) -> Answer:  # noqa: N802
        made = self.client("ec2").create_egress_only_internet_gateway(VpcId=inputs["vpcId"])
        return made["EgressOnlyInternetGateway"]["EgressOnlyInternetGatewayId"], {}

    def _remove_EgressOnlyInternetGateway(self, identity: str, _: Inputs) -> None:  # noqa: N802
        self.client("ec2").delete_egress_only_internet_gateway(EgressOnlyInternetGatewayId=identity)

    def _RouteTable(self, inputs: Inputs) -> Answer:  # noqa: N802
        made = self.client("ec2").create_route_table(
            VpcId=inputs["vpcId"], **self._tagged("route-table", inputs["tags"])
        )
        return made["RouteTable"]["RouteTableId"], {}

    def _remove_RouteTable(self, identity: str, _: Inputs) -> None:  # noqa: N802
        self.client("ec2").delete_route_table(RouteTableId=identity)

    def _Route(self, inputs: Inputs) -> Answer:  # noqa: N802
        named = {"egressOnlyGatewayId": "egressOnlyInternetGatewayId"}
        request = valid_request("ec2", "CreateRoute", {named.get(key, key): each for key, each in inputs.items()})
        self.client("ec2").create_route(**request)
        return f"{inputs['routeTableId']} {_destination(inputs)}", {}

    def _remove_Route(self, _: str, known: Inputs) -> None:  # noqa: N802
        plain = {key: known[key] for key in ("routeTableId", *_DESTINATIONS) if known.get(key)}
        self.client("ec2").delete_route(**valid_request("ec2", "DeleteRoute", plain))

    def _RouteTableAssociation(self, inputs: Inputs) -> Answer:  # noqa: N802
        made = self.client("ec2").associate_route_table(
            RouteTableId=inputs["routeTableId"], SubnetId=inputs["subnetId"]
        )
        return made["AssociationId"], {}

    def _remove_RouteTableAssociation(self, identity: str, _: Inputs) -> None:  # noqa: N802
        self.client("ec2").disassociate_route_table(AssociationId=identity)

    def _Eip(self, inputs: Inputs) -> Answer:  # noqa: N802
        client = self.client("ec2")
        made = client.allocate_address(Domain=inputs["domain"], **self._tagged("elastic-ip", inputs["tags"]))
        if "networkInterface" in inputs:
            client.associate_address(AllocationId=made["AllocationId"], NetworkInterfaceId=inputs["networkInterface"])
        return made["AllocationId"], {"allocationId": made["AllocationId"], "publicIp": made["PublicIp"]}

    def _remove_Eip(self, identity: str, _: Inputs) -> None:  # noqa: N802
        client = self.client("ec2")
        (found,) = client.describe_addresses(AllocationIds=[identity])["Addresses"]
        if association := found.get("AssociationId"):
            client.disassociate_address(AssociationId=association)
        client.release_address(AllocationId=identity)

    def _NatGateway(self, inputs: Inputs) -> Answer:  # noqa: N802
        made = self.client("ec2").create_nat_gateway(
            SubnetId=inputs["subnetId"],
            AllocationId=inputs["allocationId"],
            **self._tagged("natgateway", inputs["tags"]),
        )
        return made["NatGateway"]["NatGatewayId"], {}

    def _remove_NatGateway(self, identity: str, _: Inputs) -> None:  # noqa: N802
        self.client("ec2").delete_nat_gateway(NatGatewayId=identity)

    def _VpcEndpoint(self, inputs: Inputs) -> Answer:  # noqa: N802
        request = valid_request("ec2", "CreateVpcEndpoint", _without(inputs, "tags"))
        made = self.client("ec2").create_vpc_endpoint(**request)["VpcEndpoint"]
        digits = made["VpcEndpointId"].removeprefix("vpce-")[:8]
        return made["VpcEndpointId"], {"prefixListId": f"pl-{digits}"}

    def _remove_VpcEndpoint(self, identity: str, _: Inputs) -> None:  # noqa: N802
        self.client("ec2").delete_vpc_endpoints(VpcEndpointIds=[identity])

    # ── instances ────────────────────────────────────────────────────────────────────────────────────────────────

    def _remove_NetworkInterface(self, identity: str, _: Inputs) -> None:  # noqa: N802
        self.client("ec2").delete_network_interface(NetworkInterfaceId=identity)

    def _Instance(self, inputs: Inputs) -> Answer:  # noqa: N802
        request = _instance_request(inputs)
        validate_parameters(request, _input_shape("ec2", "RunInstances"))
        # moto has no instance profiles here, because it has no roles.
        made = self.client("ec2").run_instances(**_without(request, "IamInstanceProfile"))["Instances"][0]
        arn = self._arn("ec2", f"instance/{made['InstanceId']}")
        return made["InstanceId"], {"arn": arn, "privateIp": made.get("PrivateIpAddress", "")}

    def _remove_Instance(self, identity: str, _: Inputs) -> None:  # noqa: N802
        self.client("ec2").terminate_instances(InstanceIds=[identity])

    def _change_LaunchTemplate(self, identity: str, olds: Inputs, news: Inputs) -> dict[str, Any]:  # noqa: N802
        if all(olds.get(key) == value for key, value in news.items() if key != "tags"):
            return {}
        client, request = self.client("ec2"), template_request(news)
        del request["LaunchTemplateName"]
        made = client.create_launch_template_version(LaunchTemplateId=identity, **request)
        number = made["LaunchTemplateVersion"]["VersionNumber"]
        client.modify_launch_template(LaunchTemplateId=identity, DefaultVersion=str(number))
        return {"latestVersion": number, "defaultVersion": number}

    def _remove_LaunchTemplate(self, identity: str, _: Inputs) -> None:  # noqa: N802
        self.client("ec2").delete_launch_template(LaunchTemplateId=identity)

    # ── functions ────────────────────────────────────────────────────────────────────────────────────────────────

    def _LayerVersion(self, inputs: Inputs) -> Answer:  # noqa: N802
        plain = {**_without(inputs, "code", "sourceCodeHash"), "content": {"zipFile": b"of make layers"}}
        name = valid_request("lambda", "PublishLayerVersion", plain)["LayerName"]
        number = 1 + int(inputs["sourceCodeHash"][:4], 16)  # another content is another version
        arn = self._arn("lambda", f"layer:{name}:{number}")
        return arn, {"arn": arn, "version": str(number)}

    def _change_Function(self, _: str, olds: Inputs, news: Inputs) -> dict[str, Any]:  # noqa: N802
        self.create("Function", news)
        if not news.get("publish") or all(olds.get(key) == each for key, each in news.items() if key != "tags"):
            return {}
        return {"version": str(int(olds.get("version", "1")) + 1)}

    # ── what holds data ──────────────────────────────────────────────────────────────────────────────────────────

    def _change_Table(self, identity: str, _: Inputs, news: Inputs) -> None:  # noqa: N802
        self.client("dynamodb").update_table(
            TableName=identity, DeletionProtectionEnabled=bool(news.get("deletionProtectionEnabled"))
        )

    def _remove_Table(self, identity: str, _: Inputs) -> None:  # noqa: N802
        self.client("dynamodb").delete_table(TableName=identity)  # moto refuses what is protected, as AWS does

    def _remove_TableItem(self, _: str, known: Inputs) -> None:  # noqa: N802
        item = json.loads(known["item"])
        key = {name: item[name] for name in (known["hashKey"], known["rangeKey"])}
        self.client("dynamodb").delete_item(TableName=known["tableName"], Key=key)

    def _change_Bucket(self, *_: Any) -> None:  # noqa: N802
        """`forceDestroy` is the provider's own: nothing in S3."""

    def _remove_Bucket(self, identity: str, known: Inputs) -> None:  # noqa: N802
        client = self.client("s3")
        if known.get("forceDestroy"):
            there = client.list_object_versions(Bucket=identity)
            for kept in (*there.get("Versions", []), *there.get("DeleteMarkers", [])):
                client.delete_object(Bucket=identity, Key=kept["Key"], VersionId=kept["VersionId"])
        client.delete_bucket(Bucket=identity)

    def _remove_BucketObjectv2(self, identity: str, known: Inputs) -> None:  # noqa: N802
        self.client("s3").delete_object(Bucket=known["bucket"], Key=identity)

    def _change_Secret(self, *_: Any) -> None:  # noqa: N802
        """`recoveryWindowInDays` counts when it is deleted."""

    def _remove_Secret(self, identity: str, known: Inputs) -> None:  # noqa: N802
        days = int(known.get("recoveryWindowInDays", 30))
        how: dict[str, Any] = {"RecoveryWindowInDays": days} if days else {"ForceDeleteWithoutRecovery": True}
        self.client("secretsmanager").delete_secret(SecretId=identity, **how)

    def _SecretVersion(self, inputs: Inputs) -> Answer:  # noqa: N802
        made = self.client("secretsmanager").put_secret_value(
            SecretId=inputs["secretId"], SecretString=inputs["secretString"]
        )
        return f"{inputs['secretId']}|{made['VersionId']}", {"versionId": made["VersionId"]}

    def _remove_Parameter(self, identity: str, _: Inputs) -> None:  # noqa: N802
        self.client("ssm").delete_parameter(Name=identity)

    # ── messages ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _remove_Queue(self, identity: str, _: Inputs) -> None:  # noqa: N802
        self.client("sqs").delete_queue(QueueUrl=identity)

    def _remove_Topic(self, identity: str, _: Inputs) -> None:  # noqa: N802
        self.client("sns").delete_topic(TopicArn=identity)


# Writing these again is changing them.
_WRITTEN_AGAIN = frozenset(
    {
        *("TableItem", "BucketObjectv2", "BucketLifecycleConfiguration", "BucketPolicy", "BucketVersioning"),
        *("BucketPublicAccessBlock", "BucketServerSideEncryptionConfiguration", "QueuePolicy", "TopicPolicy"),
        *("Role", "RolePolicy", "FunctionEventInvokeConfig", "EventSourceMapping", "ScheduleGroup", "Schedule"),
        *("EventRule", "EventTarget", "LogMetricFilter", "MetricAlarm", "Dashboard"),
    }
)
_DESTINATIONS = ("destinationCidrBlock", "destinationIpv6CidrBlock", "destinationPrefixListId")


def _destination(inputs: Inputs) -> str:
    return next(str(inputs[key]) for key in _DESTINATIONS if inputs.get(key))


def _permission(inputs: Inputs) -> dict[str, Any]:
    said = {"Description": inputs["description"]} if inputs.get("description") else {}
    found: dict[str, Any] = {"IpProtocol": inputs["ipProtocol"]}
    for port, name in (("fromPort", "FromPort"), ("toPort", "ToPort")):
        if port in inputs:
            found[name] = int(inputs[port])
    match inputs:
        case {"referencedSecurityGroupId": group}:
            found["UserIdGroupPairs"] = [{"GroupId": group, **said}]
        case {"cidrIpv4": block}:
            found["IpRanges"] = [{"CidrIp": block, **said}]
        case {"cidrIpv6": block}:
            found["Ipv6Ranges"] = [{"CidrIpv6": block, **said}]
        case {"prefixListId": prefixes}:
            found["PrefixListIds"] = [{"PrefixListId": prefixes, **said}]
    return found


def _instance_request(inputs: Inputs) -> dict[str, Any]:
    """RunInstances, as AWS's provider asks it for one instance."""
    known = {
        *("ami", "instanceType", "userData", "userDataReplaceOnChange", "tags", "primaryNetworkInterface"),
        *("iamInstanceProfile", "metadataOptions", "rootBlockDevice"),
    }
    assert inputs.keys() <= known, f"RunInstances: say what becomes of {sorted(inputs.keys() - known)}"
    disk, options = inputs["rootBlockDevice"], inputs["metadataOptions"]
    return {
        "ImageId": inputs["ami"],
        "InstanceType": inputs["instanceType"],
        "MinCount": 1,
        "MaxCount": 1,
        "UserData": inputs["userData"],
        "IamInstanceProfile": {"Name": inputs["iamInstanceProfile"]},
        "NetworkInterfaces": [
            {"DeviceIndex": 0, "NetworkInterfaceId": inputs["primaryNetworkInterface"]["networkInterfaceId"]}
        ],
        "MetadataOptions": {
            "HttpTokens": options["httpTokens"],
            "HttpEndpoint": options["httpEndpoint"],
            "HttpPutResponseHopLimit": int(options["httpPutResponseHopLimit"]),
            "InstanceMetadataTags": options["instanceMetadataTags"],
        },
        "BlockDeviceMappings": [
            {
                "DeviceName": "/dev/xvda",
                "Ebs": {
                    "VolumeSize": int(disk["volumeSize"]),
                    "VolumeType": disk["volumeType"],
                    "Encrypted": bool(disk["encrypted"]),
                    **({"KmsKeyId": disk["kmsKeyId"]} if disk.get("kmsKeyId") else {}),
                },
            }
        ],
        "TagSpecifications": [{"ResourceType": "instance", "Tags": _listed(inputs["tags"])}],
    }

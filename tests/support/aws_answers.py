"""What AWS would say of a resource that is made nowhere: ids, ARNs and addresses in AWS's form."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

ACCOUNT = "123456789012"
Inputs = Mapping[str, Any]


def answered(kind: str, name: str, inputs: Inputs, region: str) -> tuple[str, dict[str, Any]]:
    """Id and outputs of a resource of this type (aws:ec2/vpc:Vpc)."""
    args = _Args(typ=kind, name=name, inputs=inputs)
    identity = _id(args)
    return identity, {**inputs, **_said(args, identity, region)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Args:
    typ: str
    name: str
    inputs: Inputs


_ID_PREFIXES = {
    "Vpc": "vpc",
    "Subnet": "subnet",
    "SecurityGroup": "sg",
    "RouteTable": "rtb",
    "LaunchTemplate": "lt",
    "Instance": "i",
    "NetworkInterface": "eni",
    "VpcEndpoint": "vpce",
}


def _digits(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:17]


def _id(args: _Args) -> str:
    kind = args.typ.rpartition(":")[2]
    if kind in _ID_PREFIXES:
        return f"{_ID_PREFIXES[kind]}-{_digits(args.name)}"
    return str(args.inputs.get("name") or args.inputs.get("bucket") or f"{args.name}-{_digits(args.typ)[:4]}")


def _said(args: _Args, identity: str, region: str) -> dict[str, Any]:
    at = f"{region}:{ACCOUNT}"
    name = args.inputs.get("name", identity)
    match args.typ.rpartition(":")[2]:
        case "Vpc":
            return {"ipv6CidrBlock": "2406:da18:abc:de00::/56"}
        case "VpcEndpoint":
            return {"prefixListId": f"pl-{_digits(args.name)[:8]}"}
        case "Eip":
            return {"allocationId": f"eipalloc-{_digits(args.name)}"}
        case "NetworkInterface":
            return {"privateIp": "10.20.0.10", "privateIps": ["10.20.0.10"]}
        case "Table":
            table = f"arn:aws:dynamodb:{at}:table/{name}"
            return {"arn": table, "streamArn": f"{table}/stream/2026-11-16T00:00:00.000"}
        case "Bucket":
            return {"arn": f"arn:aws:s3:::{args.inputs['bucket']}", "bucket": args.inputs["bucket"]}
        case "Parameter":
            return {"arn": f"arn:aws:ssm:{at}:parameter{name}"}
        case "Secret":
            return {"arn": f"arn:aws:secretsmanager:{at}:secret:{name}-AbCdEf"}
        case "Queue":
            return {"arn": f"arn:aws:sqs:{at}:{name}", "url": f"https://sqs.{region}.amazonaws.com/{ACCOUNT}/{name}"}
        case "Topic":
            return {"arn": f"arn:aws:sns:{at}:{name}"}
        case "Key":
            return {"arn": f"arn:aws:kms:{at}:key/{_digits(args.name)}", "keyId": _digits(args.name)}
        case "Role":
            return {"arn": f"arn:aws:iam::{ACCOUNT}:role/{name}"}
        case "InstanceProfile":
            return {"arn": f"arn:aws:iam::{ACCOUNT}:instance-profile/{name}"}
        case "LaunchTemplate":
            return {"arn": f"arn:aws:ec2:{at}:launch-template/{identity}", "latestVersion": 1, "defaultVersion": 1}
        case "LayerVersion":
            return {"arn": f"arn:aws:lambda:{at}:layer:{args.inputs['layerName']}:1"}
        case "Function":
            return {"arn": f"arn:aws:lambda:{at}:function:{name}", "version": "1"}
        case "Alias" if "lambda" in args.typ:
            return {"arn": f"arn:aws:lambda:{at}:function:{args.inputs['functionName']}:{name}"}
        case "EventRule":
            return {"arn": f"arn:aws:events:{at}:rule/{name}"}
        case "MetricAlarm":
            return {"arn": f"arn:aws:cloudwatch:{at}:alarm:{name}"}
        case "LoadBalancer":
            arn = f"arn:aws:elasticloadbalancing:{at}:loadbalancer/net/{name}/{_digits(args.name)}"
            return {"arn": arn, "dnsName": f"{name}-{_digits(args.name)}.elb.{region}.amazonaws.com"}
        case "LogGroup":
            return {"arn": f"arn:aws:logs:{at}:log-group:{name}"}
        case _:
            return {"arn": f"arn:aws:other:{at}:{name}"}

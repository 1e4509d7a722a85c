"""What an adoption needs to know of the account and the cluster. Nothing is changed."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from nodefleet.model.inventory import Node
from nodefleet_tools.cli.environment import InputError

_ALIVE = ["pending", "running"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """An EC2 instance, as far as a launch template repeats it."""

    id: str
    type: str
    zone: str
    subnet: str
    vpc: str
    image: str
    groups: tuple[str, ...]
    profile: str = ""  # ARN of its instance profile
    key: str = ""
    names: frozenset[str] = frozenset()  # that a node of it may have
    root_device: str = ""
    root_volume: str = ""
    tags: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Everything that was read. `worker` is the instance that the launch template repeats."""

    account: str
    partition: str
    region: str
    worker: Machine
    workers: tuple[Machine, ...]  # of the cluster, the one above among them
    servers: tuple[Machine, ...]
    user_data: str  # of the worker; empty: it has none
    worker_role: str  # ARN; empty: its instances have no role
    disk_gb: int
    disk_encrypted: bool


def inspect(clients: Mapping[str, Any], nodes: Sequence[Node], worker: str) -> Found:
    """Read the account with the operator's credentials. `worker` is an instance id, or empty to choose one."""
    with _calling("STS"):
        who = clients["sts"].get_caller_identity()
    machines = {each.id: each for each in _machines(clients["ec2"])}
    servers = [each for node in nodes if node.control_plane for each in _of_node(node, machines.values())]
    workers = [each for node in nodes if not node.control_plane for each in _of_node(node, machines.values())]
    chosen = _chosen(worker, machines, workers)
    if chosen not in workers:
        workers.append(chosen)
    disk = _disk(clients["ec2"], chosen)
    return Found(
        account=who["Account"],
        partition=who["Arn"].split(":")[1],
        region=clients["ec2"].meta.region_name,
        worker=chosen,
        workers=tuple(workers),
        servers=tuple(servers),
        user_data=_user_data(clients["ec2"], chosen),
        worker_role=_role(clients["iam"], chosen),
        disk_gb=disk[0],
        disk_encrypted=disk[1],
    )


def zones(found: Found, subnets: Sequence[str], client: Any) -> dict[str, str]:
    """Zone → subnet: those that were named, else those of the workers."""
    if not subnets:
        return dict(sorted((each.zone, each.subnet) for each in found.workers))
    with _calling("EC2"):
        answer = client.describe_subnets(SubnetIds=list(subnets))
    elsewhere = [each["SubnetId"] for each in answer["Subnets"] if each["VpcId"] != found.worker.vpc]
    if elsewhere:
        raise InputError(f"--subnet: {', '.join(elsewhere)} is in another VPC than {found.worker.id}")
    return dict(sorted((each["AvailabilityZone"], each["SubnetId"]) for each in answer["Subnets"]))


def _machines(client: Any) -> Iterable[Machine]:
    with _calling("EC2"):
        pages = client.get_paginator("describe_instances").paginate(
            Filters=[{"Name": "instance-state-name", "Values": _ALIVE}]
        )
        for page in pages:
            for reservation in page["Reservations"]:
                for each in reservation["Instances"]:
                    yield _machine(each)


def _machine(each: Mapping[str, Any]) -> Machine:
    dns = each.get("PrivateDnsName", "")
    disks = {
        disk["DeviceName"]: disk.get("Ebs", {}).get("VolumeId", "") for disk in each.get("BlockDeviceMappings", ())
    }
    root = each.get("RootDeviceName", "")
    return Machine(
        id=each["InstanceId"],
        type=each["InstanceType"],
        zone=each["Placement"]["AvailabilityZone"],
        subnet=each.get("SubnetId", ""),
        vpc=each.get("VpcId", ""),
        image=each.get("ImageId", ""),
        groups=tuple(sorted(group["GroupId"] for group in each.get("SecurityGroups", ()))),
        profile=each.get("IamInstanceProfile", {}).get("Arn", ""),
        key=each.get("KeyName", ""),
        names=frozenset(filter(None, (each["InstanceId"], dns, dns.partition(".")[0]))),
        root_device=root,
        root_volume=disks.get(root, ""),
        tags={tag["Key"]: tag["Value"] for tag in each.get("Tags", ())},
    )


def _of_node(node: Node, machines: Iterable[Machine]) -> list[Machine]:
    """By its provider id, else by its name: K3s takes the host's name, which EC2 makes of the address."""
    return [each for each in machines if each.id == node.instance or (not node.instance and node.name in each.names)]


def _chosen(worker: str, machines: Mapping[str, Machine], workers: Sequence[Machine]) -> Machine:
    if worker:
        if worker not in machines:
            raise InputError(f"--worker: there is no running instance {worker} in this region")
        return machines[worker]
    if not workers:
        raise InputError(
            "no node of the cluster could be matched with an instance: name a worker whose image, network and user"
            " data new workers shall have with --worker INSTANCE-ID"
        )
    return max(workers, key=lambda each: each.id)


def _user_data(client: Any, machine: Machine) -> str:
    with _calling("EC2"):
        answer = client.describe_instance_attribute(InstanceId=machine.id, Attribute="userData")
    encoded = answer.get("UserData", {}).get("Value", "")
    return base64.b64decode(encoded).decode(errors="replace") if encoded else ""


def _role(client: Any, machine: Machine) -> str:
    if not machine.profile:
        return ""
    with _calling("IAM"):
        answer = client.get_instance_profile(InstanceProfileName=machine.profile.rpartition("/")[2])
    roles = answer["InstanceProfile"]["Roles"]
    return str(roles[0]["Arn"]) if roles else ""


def _disk(client: Any, machine: Machine) -> tuple[int, bool]:
    if not machine.root_volume:
        return 20, True
    with _calling("EC2"):
        (volume,) = client.describe_volumes(VolumeIds=[machine.root_volume])["Volumes"]
    return int(volume["Size"]), bool(volume["Encrypted"])


def _calling(service: str) -> AbstractContextManager[None]:
    """Say in words what AWS refuses. It loads botocore, which the help of `nodefleet init` does without."""
    from nodefleet.adapters.aws.errors import calling  # noqa: PLC0415

    return calling(service)

"""The instances that are not there: an instance that moto shows as running boots and joins, and a terminated one's
heartbeat stops. EC2's words about them go to EventBridge.

KWOK plays the kubelets of those that have a pulse. moto knows no shutting down: both words come one after the other.
"""

import time
from base64 import b64decode
from datetime import UTC, datetime
from threading import Lock, Timer
from typing import Any
from uuid import uuid4

from e2e.parts.kwok import ALIVE_LABEL
from e2e.site.load import Load
from e2e.site.machine import Metadata, node, registered
from e2e.site.stack import Stack
from e2e.site.triggers import Bus
from e2e.site.waiting import Beside
from nodefleet.adapters.kubernetes.resources import NODES
from nodefleet.model.names import POOL_LABEL, ROLE_SERVER, ROLE_WORKER, TAG_CLUSTER, TAG_POOL, TAG_ROLE
from support.aws_answers import ACCOUNT
from support.infra_mocks import Made
from support.real_cluster_world import Admin

_LOOK_EVERY = 0.5  # seconds
_GONE = ("shutting-down", "terminated")


class Hardware(Beside):
    def __init__(self, stack: Stack, admin: Admin, bus: Bus, load: Load, *, boots_in: float, notice: float) -> None:
        super().__init__("hardware", _LOOK_EVERY, self._look)
        self.boots_in, self.notice = boots_in, notice  # seconds
        self.joins = True  # false: what boots from now on never becomes a node
        self._stack, self._admin, self._bus, self._load = stack, admin, bus, load
        self._sizes: dict[str, tuple[int, int]] = {}
        self._seen: dict[str, float] = {}  # instance → when it was first seen running
        self._joined: set[str] = set()
        self._ended: set[str] = set()
        self._taking: list[Timer] = []
        self._looking = Lock()

    # ── what a test does ─────────────────────────────────────────────────────────────────────────────────────────

    def instances(self, role: str = ROLE_WORKER) -> list[dict[str, Any]]:
        """The cluster's instances that run, oldest first."""
        found = [each for each in self._all() if each["State"]["Name"] in ("pending", "running")]
        return sorted((each for each in found if tag(each, TAG_ROLE) == role), key=lambda each: each["LaunchTime"])

    def interrupt(self, instance: str) -> None:
        """EC2 wants a Spot instance back: the warning now, and after the notice it is taken."""
        self._say("EC2 Spot Instance Interruption Warning", instance, {"instance-action": "terminate"})
        timer = Timer(self.notice, lambda: self.terminate(instance))
        self._taking.append(timer)
        timer.start()

    def terminate(self, *instances: str) -> None:
        """Without a word before, and no pod is asked."""
        self._stack.cloud.client("ec2").terminate_instances(InstanceIds=list(instances))

    def stop(self) -> None:
        self._cancel()
        super().stop()

    def clear(self) -> None:
        """No workers are left, and EC2 says nothing of them."""
        self._cancel()
        with self._looking:
            if here := [each["InstanceId"] for each in self.instances()]:
                self.terminate(*here)
            self._ended.update(each["InstanceId"] for each in self._all() if tag(each, TAG_ROLE) == ROLE_WORKER)
            for node in self._admin.items(NODES):
                if POOL_LABEL in node["metadata"]["labels"]:
                    self._load.dies(node["metadata"]["name"])
                    self._admin.api.ask(NODES.delete(node["metadata"]["name"], {}))

    # ── what happens by itself ───────────────────────────────────────────────────────────────────────────────────

    def _look(self) -> None:
        with self._looking:
            self._looked()

    def _looked(self) -> None:
        for instance in self._all():
            identity, state = instance["InstanceId"], instance["State"]["Name"]
            if state in ("pending", "running"):
                began = self._seen.setdefault(identity, time.monotonic())
                ready = time.monotonic() - began >= self.boots_in
                if ready and self.joins and identity not in self._joined:
                    self._join(instance)
            elif identity in self._seen and identity not in self._ended:
                self._end(identity)

    def _cancel(self) -> None:
        for timer in self._taking:
            timer.cancel()
        self._taking.clear()

    def _join(self, instance: dict[str, Any]) -> None:
        role, pool = tag(instance, TAG_ROLE), tag(instance, TAG_POOL)
        source = self._stack.user_data_of(role, pool)
        cpus, memory = self._size(instance["InstanceType"])
        address = self._load.boots(instance["InstanceId"], cpus=cpus, memory_mib=memory)
        is_server = role == ROLE_SERVER
        script = self._stack.server_program if is_server else b64decode(source.inputs["userData"]).decode()
        configuration = registered(_metadata(instance, address), script)
        made = node(configuration, cpus=cpus, memory_mib=memory, disk_gb=_disk(source))
        self._admin.api.ask(NODES.create(made))  # it may be there: then the last try ended here
        self._admin.set_status(f"/api/v1/nodes/{made['metadata']['name']}", made["status"])
        self._joined.add(instance["InstanceId"])

    def _end(self, instance: str) -> None:
        if instance in self._joined:
            self._admin.api.ask(NODES.patch(instance, {"metadata": {"labels": {ALIVE_LABEL: None}}}))
        self._load.dies(instance)
        self._ended.add(instance)
        for state in _GONE:
            self._say("EC2 Instance State-change Notification", instance, {"state": state})

    def _say(self, kind: str, instance: str, detail: dict[str, str]) -> None:
        self._bus.put(
            {
                "version": "0",
                "id": str(uuid4()),
                "detail-type": kind,
                "source": "aws.ec2",
                "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "account": ACCOUNT,  # the rules pass events of their own account only
                "region": self._stack.cloud.region,
                "resources": [],
                "detail": {"instance-id": instance, **detail},
            }
        )

    def _all(self) -> list[dict[str, Any]]:
        ours = [{"Name": f"tag:{TAG_CLUSTER}", "Values": [self._stack.cluster]}]
        pages = self._stack.cloud.client("ec2").get_paginator("describe_instances").paginate(Filters=ours)
        return [instance for page in pages for each in page["Reservations"] for instance in each["Instances"]]

    def _size(self, name: str) -> tuple[int, int]:
        """CPUs and MiB of a type."""
        if name not in self._sizes:
            (type_,) = self._stack.cloud.client("ec2").describe_instance_types(InstanceTypes=[name])["InstanceTypes"]
            self._sizes[name] = (type_["VCpuInfo"]["DefaultVCpus"], type_["MemoryInfo"]["SizeInMiB"])
        return self._sizes[name]


def tag(instance: dict[str, Any], key: str) -> str:
    return next((each["Value"] for each in instance.get("Tags", ()) if each["Key"] == key), "")


def is_spot(instance: dict[str, Any]) -> bool:
    return instance.get("InstanceLifecycle") == "spot"


def _disk(source: Made) -> int:
    """GB, of a launch template or of the master."""
    disk = source.inputs.get("rootBlockDevice") or source.inputs["blockDeviceMappings"][0]["ebs"]
    return int(disk["volumeSize"])


def _metadata(instance: dict[str, Any], address: str) -> Metadata:
    """What its metadata service would tell. Its address is on loopback, where its exporter can be asked."""
    return Metadata(
        instance=instance["InstanceId"],
        zone=instance["Placement"]["AvailabilityZone"],
        type=instance["InstanceType"],
        address=address,
        market="spot" if is_spot(instance) else "on-demand",
    )

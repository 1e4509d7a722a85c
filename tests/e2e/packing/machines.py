"""Instances that are KWOK nodes: what is launched registers as K3s would, and what is terminated falls silent.

This is the Cloud port of one world. EC2's catalogue is asked as the shipped adapter asks it, of moto, which has AWS's
own figures. A node offers less than that: its kernel keeps some of the memory.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from random import Random
from typing import Any

import boto3
from moto import mock_aws

from e2e.parts.kwok import ALIVE_LABEL
from nodefleet.adapters.aws.instance_types import Catalog
from nodefleet.adapters.kubernetes.client import Api
from nodefleet.adapters.kubernetes.resources import NODES, Request
from nodefleet.model.inventory import Instance, InstanceState, InstanceType, Market
from nodefleet.model.names import CAPACITY_LABEL, CONTROL_PLANE_LABELS, POOL_LABEL
from nodefleet.model.operations import Launch
from nodefleet.model.workload import HOST_LABEL, TYPE_LABEL, ZONE_LABEL
from nodefleet.policy.cluster import Policy
from nodefleet.ports import LaunchResult
from nodefleet.scheduling.templates import ARCH_LABEL, OS_LABEL, REGION_LABEL

REGION = "us-east-1"
KERNEL_KEEPS = 6  # percent of an instance's memory; a t3.small of 2048 MiB has 1924
_STORAGE = "19Gi"
_PODS = "110"
_SERVER_TAINT = {"key": CONTROL_PLANE_LABELS[0], "value": "true", "effect": "NoSchedule"}


def utc_now() -> datetime:
    return datetime.now(UTC)


@cache
def offers(types: tuple[str, ...]) -> tuple[InstanceType, ...]:
    with mock_aws():
        keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
        client = boto3.client("ec2", region_name=REGION, **keys)
        return Catalog(lambda: client, {}, utc_now, lambda _: None).of(types)


class Machines:
    def __init__(self, api: Api, world: str, policy: Policy, labels: Mapping[str, str]) -> None:
        self._api = api
        self._policy = policy
        self._labels = labels  # of every node of this world
        self._draw = Random(f"instances {world}")  # noqa: S311  # repeatable on purpose
        self._all: dict[str, Instance] = {}
        self._answers: dict[str, LaunchResult] = {}
        self._booting: list[Instance] = []

    # ── setting the scene ────────────────────────────────────────────────────────────────────────────────────────

    def server(self, zone: str) -> None:
        """The control plane's own node: daemons run there, and it is a place that spread pods count."""
        made = self._made(pool="", zone=zone, type_="t3.medium", market=Market.ON_DEMAND, worker=False)
        roles = dict.fromkeys(CONTROL_PLANE_LABELS[:1], "true")
        self._register(made, roles, [_SERVER_TAINT])

    def start(self, pool: str, zone: str, type_: str, market: Market) -> None:
        """A worker that has joined already."""
        self._join(self._made(pool=pool, zone=zone, type_=type_, market=market))

    def join(self) -> None:
        """What was launched has booted."""
        booted, self._booting = self._booting, []
        for machine in booted:
            self._join(machine)

    def vanish(self, identity: str) -> None:
        """Instance and node are gone at once, if they are not already."""
        del self._all[identity]
        self._api.find(NODES.delete(identity, {"gracePeriodSeconds": 0}))

    # ── the port ─────────────────────────────────────────────────────────────────────────────────────────────────

    def instances(self) -> tuple[Instance, ...]:
        return tuple(self._all.values())

    def instance(self, identity: str) -> Instance | None:
        return self._all.get(identity)

    def catalog(self, types: Sequence[str]) -> tuple[InstanceType, ...]:
        return offers(tuple(types))

    def launch(self, launch: Launch) -> LaunchResult:
        """EC2 chooses among the types that were asked for. They boot until they `join`."""
        if launch.id not in self._answers:
            made = [
                self._made(
                    pool=launch.pool,
                    zone=launch.zone,
                    type_=self._draw.choice(launch.types),
                    market=launch.market,
                    operation=launch.id,
                )
                for _ in range(launch.count)
            ]
            self._booting += made
            self._answers[launch.id] = LaunchResult(instances=tuple(each.id for each in made))
        return self._answers[launch.id]

    def terminate(self, instance: str) -> None:
        """An instance that shuts down has its kubelet say so; then it is silent."""
        self._all[instance] = replace(self._all[instance], state=InstanceState.TERMINATED)
        self._api.do(NODES.patch(instance, {"metadata": {"labels": {ALIVE_LABEL: None}}}))
        stopping = {"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": "node is shutting down"}
        self._set_status(instance, {"conditions": [stopping | {"lastTransitionTime": _stamp(utc_now())}]})

    def start_warm(self, launch: Launch) -> LaunchResult:
        raise AssertionError(f"no instance is kept warm, and {launch.starts} are to be started")

    def keep_warm(self, instance: str) -> bool:
        raise AssertionError(f"no instance is kept warm, and {instance} is to be")

    def mark_failed(self, instance: str) -> None:
        raise AssertionError(f"{instance} joined")

    def assign(self, instance: str, pool: str) -> None:
        raise AssertionError(f"{instance} belongs to a pool, and is handed to {pool}")

    # ── nodes ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _made(
        self, *, pool: str, zone: str, type_: str, market: Market, operation: str = "", worker: bool = True
    ) -> Instance:
        made = Instance(
            id=f"i-{self._draw.getrandbits(68):017x}",
            pool=pool,
            zone=zone,
            type=type_,
            market=market,
            launched_at=utc_now(),
            operation=operation,
            worker=worker,
        )
        self._all[made.id] = made
        return made

    def _join(self, machine: Instance) -> None:
        rules = self._policy.pool(machine.pool)
        assert rules is not None, f"no pool {machine.pool}"
        labels = {POOL_LABEL: machine.pool, CAPACITY_LABEL: machine.market.value, **rules.labels}
        taints = [{"key": each.key, "value": each.value, "effect": each.effect.value} for each in rules.taints]
        self._register(machine, labels, taints)

    def _register(self, machine: Instance, labels: Mapping[str, str], taints: Sequence[Mapping[str, str]]) -> None:
        (offer,) = offers((machine.type,))
        memory = offer.resources.memory * (100 - KERNEL_KEEPS) // 100
        size = {
            "cpu": f"{offer.resources.cpu}m",
            "memory": str(memory),
            "ephemeral-storage": _STORAGE,
            "pods": _PODS,
        }
        everywhere = {
            HOST_LABEL: machine.id,
            OS_LABEL: "linux",
            ARCH_LABEL: "amd64",
            REGION_LABEL: REGION,
            ZONE_LABEL: machine.zone,
            TYPE_LABEL: machine.type,
            ALIVE_LABEL: "true",
        }
        node: dict[str, Any] = {
            "metadata": {"name": machine.id, "labels": {**everywhere, **self._labels, **labels}},
            "spec": {"providerID": f"aws:///{machine.zone}/{machine.id}", "taints": list(taints)},
            "status": {"capacity": size, "allocatable": size},
        }
        self._api.do(NODES.create(node))

    def _set_status(self, node: str, status: Mapping[str, Any]) -> None:
        self._api.do(Request(verb="patch", path=f"/api/v1/nodes/{node}/status", body={"status": status}))


def _stamp(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")

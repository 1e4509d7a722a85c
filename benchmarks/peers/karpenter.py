"""Karpenter v1.8 with its own KWOK provider: built from the Go registry, with the node size that our workers have.

Its nodes carry the label by which KWOK keeps them alive here, and register as long after their request as ours.
"""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from e2e.parts.kwok import ALIVE_LABEL
from e2e.parts.needed import go
from e2e.parts.part import LOOPBACK, Part, answers, free_ports
from e2e.parts.store import made, run_step
from nodefleet.adapters.kubernetes.resources import NODES, Resource
from nodefleet.model.names import POOL_LABEL
from support.real_cluster_world import Admin

MODULE = Path(__file__).parent / "karpenter"
TYPE, ZONES = "t3.small", ("ap-southeast-1a", "ap-southeast-1b")
CLAIMS = Resource(group="karpenter.sh", plural="nodeclaims")
_POOLS = Resource(group="karpenter.sh", plural="nodepools")
_CLASSES = Resource(group="karpenter.kwok.sh", version="v1alpha1", plural="kwoknodeclasses")
_DEFINITIONS = Resource(group="apiextensions.k8s.io", plural="customresourcedefinitions")
_RESERVED_MILLICORES, _RESERVED_KIB = 100, 10 * 1024  # what its provider keeps from every node


@dataclass(frozen=True, slots=True)
class KarpenterRecipe:
    name: str = "karpenter"
    version: str = "v1.8.0"
    costs: str = "about 5 CPU-minutes"

    @property
    def sources(self) -> tuple[Path, ...]:
        return (MODULE / "go.mod", MODULE / "go.sum")

    def check_tools(self) -> None:
        go()

    def make(self, folder: Path) -> None:
        package = "sigs.k8s.io/karpenter/kwok"
        command = ["nice", "-n", "15", go(), "build", "-trimpath", "-ldflags", "-s -w", "-o", str(folder / self.name)]
        run_step(f"{self.name} {self.version}", [*command, package], MODULE, {"CGO_ENABLED": "0"})


def node_size(workers: list[dict[str, Any]]) -> tuple[int, int]:
    """Millicores and KiB that a worker of ours offers."""
    offered = workers[0]["status"]["allocatable"]
    return int(offered["cpu"]) * 1000, int(offered["memory"].removesuffix("Ki"))


@contextmanager
def karpenter(admin: Admin, kubeconfig: Path, folder: Path, *, usd: float, joins_in: int) -> Iterator[None]:
    """Its controller at work; its nodes are gone afterwards."""
    program = made(KarpenterRecipe()) / "karpenter"
    cores, memory = node_size([node for node in admin.items(NODES) if POOL_LABEL in node["metadata"]["labels"]])
    types = folder / "instance_types.json"
    types.write_text(json.dumps([_type(cores, memory, usd)]))
    for definition in _definitions():
        admin.api.ask(_DEFINITIONS.create(definition))
        admin.until(_DEFINITIONS.get(definition["metadata"]["name"]), fine=True)
    for kind in (_POOLS, _CLASSES):
        admin.until(kind.list(), fine=True)
    delay = {"nodeRegistrationDelay": f"{joins_in}s"}
    admin.do(_CLASSES.create(_object("karpenter.kwok.sh/v1alpha1", "KWOKNodeClass", delay)))
    metrics, health = free_ports(2)
    environment = {
        "KUBECONFIG": str(kubeconfig),
        "DISABLE_LEADER_ELECTION": "true",
        "SYSTEM_NAMESPACE": "node-fleet",
        "METRICS_PORT": str(metrics),
        "HEALTH_PROBE_PORT": str(health),
        "INSTANCE_TYPES_FILE_PATH": str(types),
    }
    ready = f"http://{LOOPBACK}:{health}/readyz"
    part = Part("karpenter", [str(program)], ready=lambda: answers(ready), folder=folder, environment=environment)
    part.start()
    try:
        admin.do(_POOLS.create(_pool()))
        yield
    finally:
        admin.api.ask(_POOLS.delete("default", {}))
        part.stop()
        _clear(admin)


def _type(cores: int, kib: int, usd: float) -> dict[str, Any]:
    offerings = [
        {
            "Price": usd,
            "Available": True,
            "Requirements": [_is("karpenter.sh/capacity-type", "on-demand"), _is("topology.kubernetes.io/zone", zone)],
        }
        for zone in ZONES
    ]
    return {
        "name": TYPE,
        "offerings": offerings,
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": {
            "cpu": f"{cores + _RESERVED_MILLICORES}m",
            "memory": f"{kib + _RESERVED_KIB}Ki",
            "ephemeral-storage": "20G",
            "pods": "110",
        },
    }


def _pool() -> dict[str, Any]:
    template = {
        "metadata": {"labels": {ALIVE_LABEL: "true"}},
        "spec": {
            "requirements": [_is("node.kubernetes.io/instance-type", TYPE)],
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "expireAfter": "Never",
        },
    }
    disruption = {
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": "10s",
        "budgets": [{"nodes": "100%"}],
    }
    return _object("karpenter.sh/v1", "NodePool", {"template": template, "disruption": disruption})


def _object(version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "default"}, "spec": spec}


def _is(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": [value]}


def _definitions() -> Iterator[dict[str, Any]]:
    command = [go(), "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/karpenter"]
    listed = subprocess.run(command, cwd=MODULE, check=True, capture_output=True, text=True)  # noqa: S603
    for folder in ("pkg/apis/crds", "kwok/apis/crds"):
        for file in sorted((Path(listed.stdout.strip()) / folder).glob("*.yaml")):
            yield from yaml.safe_load_all(file.read_text())


def _clear(admin: Admin) -> None:
    for kind in (CLAIMS, NODES):
        for each in admin.items(kind):
            if kind is CLAIMS or "karpenter.sh/nodepool" in each["metadata"]["labels"]:
                name = each["metadata"]["name"]
                admin.api.ask(kind.patch(name, {"metadata": {"finalizers": None}}))
                admin.api.ask(kind.delete(name, {}))
    for kind, name in ((_POOLS, "default"), (_CLASSES, "default")):
        admin.api.ask(kind.patch(name, {"metadata": {"finalizers": None}}))
        admin.api.ask(kind.delete(name, {}))

"""cluster-autoscaler with its own KWOK provider: built from the Go registry, with the node size that our workers have.

The registry has a revision of June 2025 (Kubernetes 1.33), but not the one of its API module that goes with it: the
older one of the registry, with its group version renamed, stands in. What it describes (ProvisioningRequests) is off.

Its nodes carry the label by which KWOK keeps them alive here. Unlike ours and Karpenter's they register at once. As on
AWS, its template of a node group counts 100m for kube-proxy until it has seen a node of the group.
"""

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from karpenter import TYPE, ZONES, node_size

from e2e.parts.kwok import ALIVE_LABEL
from e2e.parts.needed import go
from e2e.parts.part import LOOPBACK, Part, answers, free_ports
from e2e.parts.store import made, run_step
from nodefleet.adapters.kubernetes.resources import NODES, Resource
from nodefleet.model.names import POOL_LABEL
from support.real_cluster_world import Admin

MODULE = Path(__file__).parent / "cluster_autoscaler"
GROUP = "peers.node-fleet.invalid/group"  # label of its nodes, and what it makes groups by
_PACKAGE, _API = "k8s.io/autoscaler/cluster-autoscaler", "k8s.io/autoscaler/cluster-autoscaler/apis"
_NAMESPACE = "node-fleet"
_CONFIG, _TEMPLATES = "kwok-provider-config", "kwok-provider-templates"  # the first is its own constant
_TYPES = Path("provisioningrequest", "autoscaling.x-k8s.io", "v1")
# Names of annotations that came to the API after the registry's revision.
_LATER = """package v1

const (
	ProvisioningRequestPodAnnotationKey = "autoscaling.x-k8s.io/consume-provisioning-request"
	ProvisioningClassPodAnnotationKey   = "autoscaling.x-k8s.io/provisioning-class-name"
)
"""
_CONFIG_MAPS = Resource(plural="configmaps")
_MOST = 200  # nodes of a group
_OPTIONS = (
    # As in the other two, under-used nodes leave a few seconds after the pods run. The rest is as shipped: a scan
    # every 10 s, least-waste, nodes below half of their requests.
    "--scale-down-delay-after-add=10s",
    "--scale-down-unneeded-time=10s",
    "--skip-nodes-with-system-pods=false",
    "--skip-nodes-with-local-storage=false",
    "--balance-similar-node-groups=true",
    "--leader-elect=false",
    "--write-status-configmap=false",
    "--cloud-provider=kwok",
    f"--namespace={_NAMESPACE}",
)


@dataclass(frozen=True, slots=True)
class ClusterAutoscalerRecipe:
    name: str = "cluster-autoscaler"
    version: str = "2025-06-13"
    costs: str = "about 5 CPU-minutes"

    @property
    def sources(self) -> tuple[Path, ...]:
        return (MODULE / "go.mod", MODULE / "go.sum", Path(__file__))

    def check_tools(self) -> None:
        go()

    def make(self, folder: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="node-fleet-peers-") as name:
            module = Path(name)
            for file in ("go.mod", "go.sum"):
                shutil.copy(MODULE / file, module)
            _put_api(module)
            command = [go(), "build", "-tags", "kwok", "-trimpath", "-ldflags", "-s -w", "-o", str(folder / self.name)]
            run_step(f"{self.name} {self.version}", [*command, _PACKAGE], module, {"CGO_ENABLED": "0"})


def _put_api(module: Path) -> None:
    """The API module that the registry has, beside the module, as the version that the controller asks for."""
    download = [go(), "mod", "download", "-json", _API]
    told = subprocess.run(download, cwd=module, check=True, capture_output=True, text=True)  # noqa: S603
    target = module / "apis"
    shutil.copytree(json.loads(told.stdout)["Dir"], target, copy_function=shutil.copyfile)
    for path in sorted(target.rglob("*"), reverse=True):
        path.chmod(0o755 if path.is_dir() else 0o644)
        if path.suffix == ".go":
            path.write_text(_rename(path.read_text()))
        if path.name == "v1beta1":
            path.rename(path.with_name("v1"))
    (target / _TYPES / "pods.go").write_text(_LATER)
    edit = [go(), "mod", "edit", f"-replace={_API}=./apis"]
    subprocess.run(edit, cwd=module, check=True)  # noqa: S603


def _rename(source: str) -> str:
    """v1beta1 becomes v1, and what these files call v1 makes room for it."""
    source = re.sub(r'^(\s+)v1 "k8s.io/', r'\1meta "k8s.io/', source, flags=re.MULTILINE)
    source = re.sub(r'(?<![\w"/])(?<!\w\.)v1\.', "meta.", source)
    return source.replace("v1beta1", "v1").replace("V1beta1", "V1")


@contextmanager
def cluster_autoscaler(admin: Admin, kubeconfig: Path, folder: Path) -> Iterator[None]:
    """Its controller at work; its nodes are gone afterwards."""
    program = made(ClusterAutoscalerRecipe()) / "cluster-autoscaler"
    workers = [node for node in admin.items(NODES) if POOL_LABEL in node["metadata"]["labels"]]
    cores, memory = node_size(workers)
    maps = {
        _CONFIG: {"config": json.dumps(_config())},
        _TEMPLATES: {"templates": json.dumps(_templates(cores, memory))},
    }
    (port,) = free_ports(1)
    command = [str(program), *_OPTIONS, f"--kubeconfig={kubeconfig}", f"--address={LOOPBACK}:{port}"]
    environment = {"KUBECONFIG": str(kubeconfig), "KWOK_PROVIDER_MODE": "local", "POD_NAMESPACE": _NAMESPACE}
    health = f"http://{LOOPBACK}:{port}/health-check"
    part = Part("cluster-autoscaler", command, ready=lambda: answers(health), folder=folder, environment=environment)
    with ExitStack() as stack:
        for name, data in maps.items():
            stack.callback(admin.api.ask, _CONFIG_MAPS.delete(name, {}, _NAMESPACE))
            admin.do(_CONFIG_MAPS.create({"metadata": {"name": name}, "data": data}, _NAMESPACE))
        stack.callback(_clear, admin)
        stack.callback(part.stop)
        part.start()
        yield


def nodes_of(admin: Admin) -> list[str]:
    return [node["metadata"]["name"] for node in admin.items(NODES) if GROUP in node["metadata"]["labels"]]


def _clear(admin: Admin) -> None:
    for name in nodes_of(admin):
        admin.api.ask(NODES.delete(name, {}))


def _config() -> dict[str, Any]:
    return {
        "apiVersion": "v1alpha1",
        "readNodesFrom": "configmap",
        "nodegroups": {"fromNodeLabelKey": GROUP},
        "nodes": {"skipTaint": True},
        "configmap": {"name": _TEMPLATES},
    }


def _templates(cores: int, kib: int) -> dict[str, Any]:
    """A node group for each zone, as AWS recommends for Auto Scaling groups."""
    return {"apiVersion": "v1", "kind": "List", "items": [_template(zone, cores, kib) for zone in ZONES]}


def _template(zone: str, cores: int, kib: int) -> dict[str, Any]:
    offers = {"cpu": f"{cores}m", "memory": f"{kib}Ki", "ephemeral-storage": "20G", "pods": "110"}
    labels = {
        ALIVE_LABEL: "true",
        GROUP: f"workers-{zone}",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": TYPE,
        "topology.kubernetes.io/zone": zone,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": f"workers-{zone}",
            "labels": labels,
            "annotations": {"cluster-autoscaler.kwok.nodegroup/max-count": str(_MOST)},
        },
        "status": {"allocatable": offers, "capacity": offers},
    }

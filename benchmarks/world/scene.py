"""The made-up cluster: how big it is, and what its parts are called."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

Object: TypeAlias = dict[str, Any]

CLUSTER = "bench"
POOL = "default"
ZONES = ("eu-west-1a", "eu-west-1b", "eu-west-1c")
TYPE = "t3.medium"
PODS_PER_NODE = 10  # unless told otherwise: nine of Deployments, one of a DaemonSet
REPLICAS = 10
NAMESPACE = "shop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    nodes: int
    waiting: int = 0  # percent more pods than there is room for
    per_node: int = PODS_PER_NODE
    managed: bool = True  # with managedFields, which an API server always sends

    @property
    def pods(self) -> int:
        return self.nodes * self.per_node


def instance_id(number: int) -> str:
    return f"i-{number:017x}"


def address(number: int) -> str:
    return f"10.0.{number // 250}.{number % 250}"


def node_name(number: int) -> str:
    return f"ip-{address(number).replace('.', '-')}.eu-west-1.compute.internal"


def template_hash(app: int) -> str:
    return f"{app * 2654435761 % (1 << 36):09x}"


def written(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def named(version: str, kind: str, namespace: str, name: str, uid: str, born: str, **meta: Any) -> Object:
    """An object with its metadata."""
    place = {"namespace": namespace} if namespace else {}
    own = {"name": name, **place, "uid": uid, "resourceVersion": "48151623", "creationTimestamp": born}
    return {"apiVersion": version, "kind": kind, "metadata": {**own, **meta}}


def container(image: str, requests: dict[str, str]) -> Object:
    mount = {
        "name": "kube-api-access",
        "readOnly": True,
        "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
    }
    return {
        "name": "main",
        "image": image,
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "env": [{"name": "LOG_LEVEL", "value": "info"}],
        "resources": {"limits": {"memory": requests["memory"]}, "requests": requests},
        "volumeMounts": [mount],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }

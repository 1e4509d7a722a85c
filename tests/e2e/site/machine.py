"""What an instance registers itself as: read from the user data that the stack gives it, as its script would.

The script writes K3s's configuration file from a here-document; the same shell expands it here, with what the metadata
service would have told.
"""

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from e2e.parts.kwok import ALIVE_LABEL
from nodefleet.model.names import CONTROL_PLANE_LABELS

_CONFIGURATION = re.compile(r'keep "\$CONFIG/config\.yaml" 0600 <<YAML\n(.*?)\nYAML\n', re.DOTALL)
_ASSIGNMENT = re.compile(r"^readonly [A-Z0-9_]+=.*?(?=^readonly |^set -|^#|^\w+\(\))", re.MULTILINE | re.DOTALL)
_SEEN_OF_MEMORY = 0.94  # the kernel keeps some of it to itself
_PODS = 110  # a kubelet's default


@dataclass(frozen=True, kw_only=True)
class Metadata:
    """What the metadata service tells."""

    instance: str
    zone: str
    type: str
    address: str
    market: str  # spot or on-demand


def registered(machine: Metadata, user_data: str) -> dict[str, Any]:
    """K3s's configuration as the script would write it on this machine."""
    (configuration,) = _CONFIGURATION.findall(user_data)
    values = {
        "INSTANCE": machine.instance,
        "ZONE": machine.zone,
        "TYPE": machine.type,
        "ADDRESS": machine.address,
        "MARKET": machine.market,
    }
    assigned = "\n".join(_ASSIGNMENT.findall(user_data))
    script = f"{assigned}\ncat <<YAML\n{configuration}\nYAML\n"
    command = ["/bin/bash", "--norc", "-c", script]
    said = subprocess.run(command, env=values, check=True, capture_output=True, text=True)  # noqa: S603  # our own
    return dict(yaml.safe_load(said.stdout))


def node(configuration: Mapping[str, Any], *, cpus: int, memory_mib: int, disk_gb: int) -> dict[str, Any]:
    """The Node that K3s makes of it, with a pulse."""
    labels = dict(each.split("=", 1) for each in configuration.get("node-label", ()))
    name, server = configuration["node-name"], "server" not in configuration
    labels |= {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    labels |= dict.fromkeys(CONTROL_PLANE_LABELS, "true") if server else {}
    kubelet = dict(each.split("=", 1) for each in configuration["kubelet-arg"])
    size = {
        "cpu": str(cpus),
        "memory": f"{int(memory_mib * 1024 * _SEEN_OF_MEMORY)}Ki",
        "ephemeral-storage": f"{disk_gb}G",
        "pods": str(_PODS),
    }
    addresses = {"InternalIP": configuration["node-ip"], "Hostname": name}
    return {
        "metadata": {"name": name, "labels": {**labels, ALIVE_LABEL: "true"}},
        "spec": {
            "providerID": kubelet["provider-id"],
            "taints": [_taint(each) for each in configuration.get("node-taint", ())],
        },
        "status": {
            "capacity": size,
            "allocatable": size,
            "addresses": [{"type": kind, "address": address} for kind, address in addresses.items()],
        },
    }


def _taint(written: str) -> dict[str, str]:
    rest, _, effect = written.rpartition(":")
    key, _, value = rest.partition("=")
    return {"key": key, "value": value, "effect": effect}

"""KWOK keeps nodes alive that have no machine, and runs their pods.

It minds nodes with one label only, so a test decides what has a pulse: take the label away and the heartbeat stops,
as when an instance dies. (An annotation would not do: KWOK does not notice when it goes.)
"""

from pathlib import Path

from .control_plane import ControlPlane
from .part import LOOPBACK, Part, answers, free_ports
from .places import HERE
from .recipes import program

ALIVE_LABEL = "node-fleet.test/alive"
_LEASE_SECONDS = 40  # as the kubelet


def kwok(folder: Path, control_plane: ControlPlane) -> Part:
    (port,) = free_ports(1)
    command = [
        program("kwok"),
        # It is the kubelet of every node, so it acts as administrator.
        f"--kubeconfig={control_plane.kubeconfig}",
        f"--config={HERE / 'kwok_stages.yaml'}",
        "--manage-all-nodes=false",
        "--manage-nodes-with-annotation-selector=",
        f"--manage-nodes-with-label-selector={ALIVE_LABEL}",
        f"--node-lease-duration-seconds={_LEASE_SECONDS}",
        f"--server-address={LOOPBACK}:{port}",
        "--cidr=10.42.0.0/16",  # as K3s
    ]
    return Part(
        "kwok",
        command,
        ready=lambda: answers(f"http://{LOOPBACK}:{port}/healthz"),
        folder=folder,
        environment={"KWOK_WORKDIR": str(folder / "data" / "kwok")},  # nobody's own settings in ~/.kwok
    )

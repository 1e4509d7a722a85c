"""kube-state-metrics: what Prometheus learns about pods and nodes."""

from pathlib import Path

from .control_plane import ControlPlane
from .part import LOOPBACK, Part, answers, free_ports
from .recipes import program


class StateMetrics:
    def __init__(self, folder: Path, control_plane: ControlPlane) -> None:
        port, own = free_ports(2)
        self.address = f"{LOOPBACK}:{port}"
        command = [
            program("kube-state-metrics"),
            f"--kubeconfig={control_plane.kubeconfig}",
            f"--host={LOOPBACK}",
            f"--port={port}",
            f"--telemetry-host={LOOPBACK}",
            f"--telemetry-port={own}",
        ]
        self.part = Part(
            "kube-state-metrics", command, ready=lambda: answers(f"http://{self.address}/metrics"), folder=folder
        )

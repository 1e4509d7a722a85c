"""Prometheus and Alertmanager, with a configuration that the caller brings."""

from pathlib import Path

from .part import LOOPBACK, Part, answers, free_ports
from .recipes import program


class Prometheus:
    """`configuration` is read at the start and again after a restart."""

    def __init__(self, folder: Path, configuration: Path) -> None:
        (port,) = free_ports(1)
        self.endpoint = f"http://{LOOPBACK}:{port}"
        command = [
            program("prometheus"),
            f"--config.file={configuration}",
            f"--storage.tsdb.path={folder / 'data' / 'prometheus'}",
            f"--web.listen-address={LOOPBACK}:{port}",
        ]
        self.part = Part("prometheus", command, ready=lambda: answers(f"{self.endpoint}/-/ready"), folder=folder)


class Alertmanager:
    def __init__(self, folder: Path, configuration: Path) -> None:
        (port,) = free_ports(1)
        self.endpoint = f"http://{LOOPBACK}:{port}"
        command = [
            program("alertmanager"),
            f"--config.file={configuration}",
            f"--storage.path={folder / 'data' / 'alertmanager'}",
            f"--web.listen-address={LOOPBACK}:{port}",
            "--cluster.listen-address=",  # alone
        ]
        self.part = Part("alertmanager", command, ready=lambda: answers(f"{self.endpoint}/-/ready"), folder=folder)

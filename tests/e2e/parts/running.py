"""Starts the parts that are asked for, with what they need, in order; and stops them again, whatever happens.

with running("scheduler", "dynamodb") as parts:
    parts.kubeconfig, parts.dynamodb_endpoint
    parts["apiserver"].restart()
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from .control_plane import ControlPlane
from .dynamodb import DynamoDb
from .kwok import kwok
from .needed import say
from .part import Part
from .places import new_run
from .state_metrics import StateMetrics

# What each part needs, in the order in which they start.
NEEDS: Mapping[str, Sequence[str]] = {
    "dynamodb": (),
    "etcd": (),
    "apiserver": ("etcd",),
    "controller-manager": ("apiserver",),
    "scheduler": ("apiserver",),
    "kwok": ("apiserver",),
    "kube-state-metrics": ("apiserver",),
}
_Asked = TypeVar("_Asked")


def with_needs(names: Sequence[str]) -> list[str]:
    """The names and what they need, in starting order."""
    if unknown := sorted(set(names) - set(NEEDS)):
        raise ValueError(f"no such part: {', '.join(unknown)}. There are: {', '.join(NEEDS)}")
    wanted = set(names)
    for name in reversed(list(NEEDS)):
        if name in wanted:
            wanted.update(NEEDS[name])
    return [name for name in NEEDS if name in wanted]


class RunningParts:
    """What runs, and how to reach it."""

    def __init__(self, folder: Path, names: Sequence[str], extra: Mapping[str, Sequence[str]]) -> None:
        self.folder = folder
        self.names = with_needs(names)
        self._control_plane = ControlPlane(folder, extra=extra) if "etcd" in self.names else None
        self._dynamodb = DynamoDb(folder) if "dynamodb" in self.names else None
        self._state_metrics = StateMetrics(folder, self.control_plane) if "kube-state-metrics" in self.names else None
        self._parts = {name: self._part(name) for name in self.names}

    def __getitem__(self, name: str) -> Part:
        return self._parts[name]

    @property
    def control_plane(self) -> ControlPlane:
        return _asked(self._control_plane, "the control plane")

    @property
    def kubeconfig(self) -> Path:
        """The administrator's; `control_plane.kubeconfig_for` makes others."""
        return self.control_plane.kubeconfig

    @property
    def dynamodb_endpoint(self) -> str:
        return _asked(self._dynamodb, "dynamodb").endpoint

    @property
    def state_metrics_address(self) -> str:
        """host:port, as a scrape configuration wants it."""
        return _asked(self._state_metrics, "kube-state-metrics").address

    def environment(self) -> dict[str, str]:
        """What our own suites and kubectl look for."""
        found: dict[str, str] = {}
        if self._control_plane is not None:
            found |= {"KUBECONFIG": str(self.kubeconfig), "NODEFLEET_API_SERVER_KUBECONFIG": str(self.kubeconfig)}
        if self._dynamodb is not None:
            found["NODEFLEET_DYNAMODB_LOCAL"] = self.dynamodb_endpoint
        return found

    def start(self) -> None:
        """Those that need nothing of each other get ready side by side."""
        started: set[str] = set()
        for name in self.names:
            for needed in NEEDS[name]:
                if needed not in started:
                    self[needed].wait_until_ready()
                    started.add(needed)
            self[name].launch()
        for name in self.names:
            if name not in started:
                self[name].wait_until_ready()

    def stop(self) -> None:
        for name in reversed(self.names):
            self[name].stop()

    def _part(self, name: str) -> Part:
        match name:
            case "dynamodb":
                return _asked(self._dynamodb, name).part
            case "etcd":
                return self.control_plane.etcd()
            case "apiserver":
                return self.control_plane.api_server()
            case "controller-manager":
                return self.control_plane.controller_manager()
            case "scheduler":
                return self.control_plane.scheduler()
            case "kwok":
                return kwok(self.folder, self.control_plane)
            case "kube-state-metrics":
                return _asked(self._state_metrics, name).part
        raise ValueError(f"no such part: {name}")


def _asked(found: _Asked | None, name: str) -> _Asked:
    if found is None:
        raise ValueError(f"{name} was not asked for")
    return found


@contextmanager
def running(
    *names: str, folder: Path | None = None, extra: Mapping[str, Sequence[str]] | None = None
) -> Iterator[RunningParts]:
    """Logs stay in `folder`, or in a new one; the data goes when the parts do."""
    place = folder or new_run()
    place.mkdir(parents=True, exist_ok=True)
    parts = RunningParts(place, names, extra or {})
    try:
        say(f"starting {', '.join(parts.names)}; logs in {place}")
        parts.start()
        yield parts
    finally:
        parts.stop()
        shutil.rmtree(place / "data", ignore_errors=True)

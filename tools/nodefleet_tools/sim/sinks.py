"""Where things go, and what needs no world: the archive and the log."""

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from nodefleet.errors import ChangedError
from nodefleet.model.names import Metric
from nodefleet_tools.sim.hooks import Run

Measured: TypeAlias = tuple[Metric, float]


@dataclass(slots=True)
class SimArchive:
    kept: dict[str, bytes] = field(default_factory=dict)

    def keep(self, key: str, content: bytes) -> None:
        self.kept[key] = bytes(content)

    def fetch(self, key: str) -> bytes:
        if key not in self.kept:
            raise ChangedError(f"{key} is not there")
        return self.kept[key]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    run: str
    message: str
    fields: dict[str, Any]
    warning: bool = False


@dataclass(slots=True)
class SimTelemetry:
    """One run's log and metrics; the lines of all runs end up in one list."""

    run: Run
    lines: list[Line]
    metrics: list[Measured]

    def metric(self, metric: Metric, value: float) -> None:
        self.metrics.append((metric, value))

    def line(self, message: str, **fields: Any) -> None:
        self.lines.append(Line(run=self.run.name, message=message, fields=fields))

    def warn(self, message: str, **fields: Any) -> None:
        self.lines.append(Line(run=self.run.name, message=message, fields=fields, warning=True))

    def calls(self) -> int:
        return self.run.calls

"""What the functions write to their log: JSON lines for readers, and metrics in EMF for alarms."""

import json
from dataclasses import dataclass
from typing import Any

import pytest


@dataclass(frozen=True)
class Printed:
    """What the functions wrote to their log since it was last looked at."""

    text: str

    @classmethod
    def since(cls, capsys: pytest.CaptureFixture[str]) -> "Printed":
        captured = capsys.readouterr()
        return cls(captured.out + captured.err)

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [line for line in self._json() if "_aws" not in line]

    @property
    def metrics(self) -> dict[str, list[float]]:
        """By name, of all runs in turn."""
        found: dict[str, list[float]] = {}
        for line in self._json():
            for declared in line.get("_aws", {}).get("CloudWatchMetrics", []):
                for metric in declared["Metrics"]:
                    found.setdefault(metric["Name"], []).extend(line[metric["Name"]])
        return found

    def says(self, words: str) -> bool:
        return any(words in line["message"] for line in self.lines)

    def _json(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.splitlines()]

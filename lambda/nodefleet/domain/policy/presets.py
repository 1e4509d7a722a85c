"""Bundles of numbers that belong together, for people who know what they want but not yet which figures say it.

A preset is a table of overrides, in the form of a policy file: whatever the file says itself wins over it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    trades: str  # what it gives, and for what
    overrides: Mapping[str, Any]  # plain, as a file would say it


DEFAULT_PRESET = "node-fleet"

PRESETS: Mapping[str, Preset] = {
    DEFAULT_PRESET: Preset(
        trades="A small cluster for services: one node at a time, capacity given back after ten calm minutes.",
        overrides={},
    ),
    "low-latency": Preset(
        trades="Answers spikes at once and keeps spare nodes for it; costs the most for the same work.",
        overrides={
            "limits": {"min": 4, "max": 24},
            "steps": {"up": 3, "urgent": 3, "down": 1, "pending": "packing"},
            "sustain": {"up": {"kind": "readings", "count": 1}},  # a spike is answered by the reading that shows it
            "cooldown": {"up": 60},  # and the next one too, while the nodes for the first still boot
            "targets": {"queue": 10, "p95_ms": 500},
        },
    ),
    "high-throughput": Preset(
        trades="Takes large batches with big steps in both directions; a single job may wait for seconds.",
        overrides={
            "limits": {"min": 8, "max": 48},
            "steps": {"up": 4, "urgent": 4, "down": 2, "pending": "packing"},
            "budgets": {"removals": 2},  # otherwise two nodes could not leave at once
            "targets": {"queue": 200, "p95_ms": 5000},
        },
    ),
    "balanced": Preset(
        trades="Moderate cost and moderate latency, for work of no special kind.",
        overrides={
            "limits": {"min": 1, "max": 12},
            "steps": {"up": 2, "urgent": 2, "down": 1, "pending": "packing"},
            "targets": {"queue": 50, "p95_ms": 2000},
        },
    ),
    "cost-optimized": Preset(
        trades="The smallest bill: few nodes, one step at a time; work waits longer before it gets more.",
        overrides={
            "limits": {"min": 1, "max": 6},
            "steps": {"up": 1, "urgent": 1, "down": 1, "pending": "packing"},
            "targets": {"queue": 100, "p95_ms": 8000},
        },
    ),
}

"""The curves of a report as columns of numbers: few enough to be drawn at once, with no short trouble left out."""

from collections import Counter
from collections.abc import Sequence
from math import inf
from typing import Any

from nodefleet.model.inventory import Market
from nodefleet.policy.pool import Reactive
from nodefleet_tools.sim.scenario_result import Frame, ScenarioResult, Standing

MOST = 1500  # points: more than a screen has
_LATENCY_LIMIT = 600_000.0  # ms; what has no end is drawn up to here

# Layers of the chart of workers, from below: name, and what counts as it.
LAYERS: tuple[tuple[str, Market | None, tuple[Standing, ...]], ...] = (
    ("on-demand", Market.ON_DEMAND, (Standing.READY, Standing.UNREADY)),
    ("spot", Market.SPOT, (Standing.READY, Standing.UNREADY)),
    ("booting", None, (Standing.BOOTING,)),
    ("draining", None, (Standing.DRAINING,)),
    ("leaving", None, (Standing.INTERRUPTED, Standing.ENDING)),
    ("failed", None, (Standing.FAILED,)),
)


def series(played: ScenarioResult, other: ScenarioResult | None = None) -> dict[str, Any]:
    """What the page's script draws."""
    groups = _grouped(played.frames)
    last = [group[-1] for group in groups]
    hours = (played.ends - played.starts).total_seconds() / 3600
    counts = [_layers(frame) for frame in last]
    return {
        "start": int(played.starts.timestamp()),
        "end": int(played.ends.timestamp()),
        "t": [int((frame.at - played.starts).total_seconds()) for frame in last],
        "asked": [_short(frame.asked) for frame in last],
        "capacity": [_short(frame.capacity) for frame in last],
        "room": None if any(frame.room is None for frame in last) else [_short(frame.room or 0.0) for frame in last],
        "latency": [round(min(_LATENCY_LIMIT, max(frame.latency_ms for frame in group))) for group in groups],
        "violated": [int(any(frame.violated for frame in group)) for group in groups],
        "cpu": [None if frame.cpu is None else round(frame.cpu) for frame in last],
        "memory": [None if frame.memory is None else round(frame.memory) for frame in last],
        "waiting": [max(frame.waiting for frame in group) for group in groups],
        "layers": [name for name, _, _ in LAYERS],
        "workers": [[count[name] for count in counts] for name, _, _ in LAYERS],
        "otherWorkers": [len(group[-1].workers) for group in _grouped(other.frames)] if other else None,
        "usd": [round(frame.usd, 4) for frame in last],
        "fixed": [
            {"nodes": each.nodes, "perHour": each.usd / hours if hours else 0.0, "room": each.room}
            for each in played.fixed
        ],
        "thresholds": thresholds(played.policy.pools[0].reactive),
        "slo": played.slo_ms,
        "min": sum(pool.limits.min for pool in played.policy.pools),
        "max": sum(pool.limits.max for pool in played.policy.pools),
        "marks": [
            {
                "t": int((mark.at - played.starts).total_seconds()),
                "kind": mark.kind.value,
                "title": mark.title,
                "text": mark.text,
            }
            for mark in played.marks
        ],
    }


def thresholds(reactive: Reactive) -> dict[str, float]:
    """Those of the first pool, whose utilisation is drawn."""
    return {
        "cpuUp": reactive.cpu.up,
        "cpuDown": reactive.cpu.down,
        "memoryUp": reactive.memory.up,
        "memoryDown": reactive.memory.down,
    }


def _grouped(frames: Sequence[Frame]) -> list[Sequence[Frame]]:
    """Neighbours together, so that there are not too many points."""
    stride = -(-len(frames) // MOST) or 1
    return [frames[start : start + stride] for start in range(0, len(frames), stride)]


def _layers(frame: Frame) -> Counter[str]:
    counts: Counter[str] = Counter()
    for worker in frame.workers:
        for name, market, standings in LAYERS:
            if worker.standing in standings and market in (None, worker.market):
                counts[name] += 1
    return counts


def _short(value: float) -> float:
    return 0.0 if value == inf else float(f"{value:.4g}")

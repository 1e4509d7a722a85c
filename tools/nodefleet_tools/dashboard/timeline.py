"""Figures over time for the charts: from recorded decisions, then from each snapshot; and the forecast ahead.

Load is in busy nodes (CPU utilisation × ready nodes), the unit in which the autoscaler itself forecasts, so load,
capacity and forecast share one axis.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from math import expm1
from typing import Any

from nodefleet.engine.forecast.forecaster import ForecastWindow, Outlook
from nodefleet.engine.forecast.history import UNIT
from nodefleet.engine.forecast.sizing import expected_join
from nodefleet.engine.signals.adaptive import learning_of, restore
from nodefleet.model.decision import DecisionRecord
from nodefleet.model.state import AdaptiveMemory, HourLoad, Level, LoopState
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Pool
from nodefleet_tools.dashboard.snapshot import Json

MOST = 4000  # points that are kept
_HOURS_AHEAD = 12
_LOW, _HIGH = 0.1, 0.9  # of past forecast errors
_ENOUGH = 20  # errors: fewer give no band
_READING_WINDOW = 180.0  # seconds: a rate over two minutes, scrapes and an iteration


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    at: float  # seconds since the epoch
    load: float | None  # busy nodes
    ready: int | None  # None: EC2 or Kubernetes could not be read
    booting: int | None
    target: int
    cpu: float | None  # percent
    memory: float | None
    pending: int | None
    usd: float | None  # per hour
    measured: int = 0  # the nodes that the load is computed with
    changed: float = 0.0  # when nodes last became ready, or were no more

    def columns(self) -> list[Any]:
        return [
            self.at,
            self.load,
            self.ready,
            self.booting,
            self.target,
            self.cpu,
            self.memory,
            self.pending,
            self.usd,
        ]


COLUMNS = ("t", "load", "ready", "booting", "target", "cpu", "memory", "pending", "usd")


def point_of(record: DecisionRecord) -> Point:
    """The figures that every decision is recorded with."""
    figures, pools = record.figures, [pool.pool for pool in record.decision.pools]
    known = record.decision.level is not Level.PARTIAL
    ready = [int(figures.get(f"{pool}.ready", 0)) if known else None for pool in pools]
    cpu, memory = (_mean([figures.get(f"{pool}.{name}") for pool in pools], ready) for name in ("cpu", "memory"))
    return Point(
        at=record.at.timestamp(),
        load=_load(cpu, _sum(ready)),
        ready=_sum(ready),
        booting=int(sum(figures.get(f"{pool}.booting", 0) for pool in pools)) if known else None,
        target=int(sum(figures.get(f"{pool}.target", 0) for pool in pools)),
        cpu=cpu,
        memory=memory,
        pending=int(figures.get("unschedulable_pods", 0)) if known else None,
        usd=figures.get("hourly_usd"),
    )


def point_now(snapshot: Json) -> Point:
    """The figures of a snapshot."""
    pools = snapshot["pools"]
    ready = [pool["ready"] for pool in pools]
    cpu, memory = (_mean([pool[name]["value"] for pool in pools], ready) for name in ("cpu", "memory"))
    return Point(
        at=snapshot["at"],
        load=_load(cpu, _sum(ready)),
        ready=_sum(ready),
        booting=None if None in ready else sum(pool["capacity"] - pool["ready"] for pool in pools),
        target=sum(pool["target"] or 0 for pool in pools),
        cpu=cpu,
        memory=memory,
        pending=snapshot["pending"]["count"],
        usd=None if (usd := snapshot["cost"]["hourly_usd"]) is None else round(usd, 4),
    )


def _sum(ready: Sequence[int | None]) -> int | None:
    known = [count for count in ready if count is not None]
    return sum(known) if len(known) == len(ready) else None


def _load(cpu: float | None, ready: int | None) -> float | None:
    return None if cpu is None or ready is None else cpu / 100 * ready


def follow(points: Iterable[Point], before: Point | None) -> Iterator[Point]:
    """Points in the order of time, with loads that do not jump because a node came or went.

    A CPU reading is the mean of the nodes that its window has samples of: for minutes after a node joined or left it
    describes the nodes before. Of both counts the one counts that lets the load go on from where it was.
    """
    for point in points:
        if point.ready is None:
            before = point
            yield before
            continue
        measured, changed = point.ready, point.at
        if before is not None and before.load is not None and point.cpu is not None:
            changed = point.at if point.ready != before.ready else before.changed
            counts = (point.ready, before.measured) if point.at - changed < _READING_WINDOW else (point.ready,)
            known, use = before.load, point.cpu / 100
            measured = min(counts, key=lambda nodes: abs(use * nodes - known))
        load = None if point.cpu is None else point.cpu / 100 * measured
        before = replace(point, load=load, measured=measured, changed=changed)
        yield before


def _mean(values: Sequence[float | None], weights: Sequence[int | None]) -> float | None:
    """Over pools, each weighed by its ready nodes, alike if those are not known; none if no pool with nodes has a
    value."""
    pairs = [(value, 1 if weight is None else weight) for value, weight in zip(values, weights, strict=True)]
    known = [(value, weight) for value, weight in pairs if value is not None and weight]
    total = sum(weight for _, weight in known)
    return round(sum(value * weight for value, weight in known) / total, 2) if total else None


# ── the forecast ─────────────────────────────────────────────────────────────────────────────────────────────────────


def forecast(state: LoopState, policy: Policy, now: datetime, utc_offset: timedelta) -> list[list[float]]:
    """[time, low, expected, high] in busy nodes of the whole cluster. Empty until enough was learned."""
    total: defaultdict[float, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for pool in policy.pools:
        memory = state.memory.pool(pool.name)
        if pool.strategy == "adaptive":
            rows = _of_adaptive(memory.adaptive, pool, policy) if memory.adaptive else []
        else:
            rows = _of_profile(memory.profile, now.astimezone(timezone(utc_offset))) if pool.predictive.enabled else []
        for at, *values in rows:
            total[at] = [sum(pair) for pair in zip(total[at], values, strict=True)]
    return [[at, *(round(value, 3) for value in values)] for at, values in sorted(total.items())]


def _of_adaptive(memory: AdaptiveMemory, pool: Pool, policy: Policy) -> list[list[float]]:
    learning = learning_of(expected_join(memory.joins, pool, ()), policy)
    forecaster = restore(memory.forecaster, learning) if memory.forecaster else None
    outlook = forecaster.outlook() if forecaster else None
    return _of_outlook(outlook) if outlook else []


def _of_outlook(outlook: Outlook) -> list[list[float]]:
    """The windows of the adaptive forecast, with the quantiles of its own past errors."""
    learning = outlook.learning
    ahead = {
        ForecastWindow.LEVEL: learning.join,
        ForecastWindow.SOON: learning.soon,
        ForecastWindow.LATER: learning.later,
    }
    rows = []
    for window, minutes in ahead.items():
        errors = sorted(outlook.errors[window].errors)
        expected = outlook.mixed[window]
        if len(errors) < _ENOUGH:
            continue
        low, high = (expected + errors[int(share * (len(errors) - 1))] / UNIT for share in (_LOW, _HIGH))
        at = 60.0 * (outlook.minute + minutes)
        rows.append([at, max(0.0, expm1(min(low, expected))), expm1(expected), expm1(max(high, expected))])
    return rows


def _of_profile(profile: Iterable[HourLoad], now: datetime) -> list[list[float]]:
    """The same hours of the last days: lowest, mean, highest. `now` is local, as the profile's hours are."""
    by_hour: defaultdict[int, list[HourLoad]] = defaultdict(list)
    for entry in profile:
        by_hour[entry.hour].append(entry)
    rows = []
    for ahead in range(_HOURS_AHEAD):
        start = now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=ahead)
        today = start.date().isoformat()
        loads = [entry.load for entry in by_hour[start.hour] if entry.day != today]
        if len(loads) > 1:
            middle = start + timedelta(minutes=30)
            rows.append([middle.timestamp(), min(loads), sum(loads) / len(loads), max(loads)])
    return rows

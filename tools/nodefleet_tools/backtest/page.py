"""The backtest as one HTML file without anything from elsewhere: the table, cost against violations, load and nodes."""

from collections.abc import Sequence
from datetime import timedelta
from html import escape
from itertools import groupby
from math import isfinite

from nodefleet_tools.backtest.play import Conditions, Run
from nodefleet_tools.backtest.traces import Trace

_WIDTH, _HEIGHT = 1100, 170
_MOST_POINTS = 1400
_LABEL, _LINE = 170, 12  # width and height of a label
_STYLE = (
    "body{font:15px system-ui;margin:2rem auto;max-width:1150px;color:#222}table{border-collapse:collapse}"
    "td,th{padding:.3rem .8rem;text-align:right;border-bottom:1px solid #ddd}"
    "td:first-child,th:first-child{text-align:left;white-space:nowrap}svg{background:#fafafa}.load{stroke:#888;fill:none}.nodes{stroke:#0a6;fill:none;stroke-width:1.5}.short{stroke:#d22}"
    ".front{stroke:#06c;fill:none;stroke-dasharray:4 3}.dot{fill:#0a6}"
    "text{font-size:11px;paint-order:stroke;stroke:#fafafa;stroke-width:3px}"
)


def page(trace: Trace, runs: Sequence[Run], conditions: Conditions, evaluation: str, usd: float) -> str:
    begin, length = trace.start + timedelta(minutes=trace.history), timedelta(minutes=trace.minutes - trace.history)
    gaps = "".join(f" No data from {since:%Y-%m-%d %H:%M} to {until:%Y-%m-%d %H:%M}." for since, until in trace.gaps)
    plots = "".join(_plot(trace, run, conditions) for run in runs if run.ready)
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>Backtest of {escape(trace.name)}</title>"
        f"<style>{_STYLE}</style><h1>Backtest of {escape(trace.name)}</h1><p>{escape(evaluation)}</p>"
        f"{_table(runs, usd)}"
        f"<h2>Cost against violations</h2><p>The lower left is better; those on the line are beaten by no other policy "
        f"in both.</p>{_front(runs)}"
        f"<h2>Load and nodes</h2><p>From {begin:%Y-%m-%d %H:%M} to {begin + length:%Y-%m-%d %H:%M} UTC, up to "
        f"{conditions.most} nodes. Grey: nodes that the load needs. Green: nodes that serve. Red: minutes above the "
        f"limit.{gaps}</p>{plots}"
    )


def _table(runs: Sequence[Run], usd: float) -> str:
    heads = (
        "policy",
        "violations %",
        "minutes",
        "longest, min",
        "node-hours",
        "USD",
        "× optimum",
        "actions/day",
        "undone %",
        "idle node-hours",
        "min at max",
    )
    rows = [
        (
            escape(run.policy),
            f"{run.violation_pct:.2f}",
            str(run.violation_minutes),
            str(run.longest_violation_min),
            f"{run.node_hours:.0f}",
            f"{run.node_hours * usd:.2f}",
            f"{run.vs_optimum:.3f}",
            f"{run.actions_per_day:.1f}",
            f"{run.undone_pct:.0f}",
            f"{run.idle_node_minutes / 60:.0f}",
            str(run.at_max_minutes),
        )
        for run in runs
    ]
    cells = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return "<table><tr>" + "".join(f"<th>{head}</th>" for head in heads) + f"</tr>{cells}</table>"


def pareto(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points (violations, cost) that no other one beats in both, by violations."""
    front: list[tuple[float, float]] = []
    for violations, cost in sorted(points):
        if not front or cost < front[-1][1]:
            front.append((violations, cost))
    return front


def _front(runs: Sequence[Run]) -> str:
    right = max([run.violation_pct for run in runs] + [0.1])
    top = max([run.vs_optimum for run in runs] + [1.1])

    def at(violations: float, cost: float) -> tuple[float, float]:
        return 60 + 900 * violations / right, 280 - 250 * (cost - 0.9) / (top - 0.9)

    places = [(run.policy, *at(run.violation_pct, run.vs_optimum)) for run in runs] + [("optimum", *at(0, 1))]
    labels = _apart([(x, y) for _, x, y in places])
    dots = "".join(f'<circle class=dot r=4 cx="{x:.0f}" cy="{y:.0f}"/>' for _, x, y in places)
    names = "".join(
        f'<text x="{x + 8:.0f}" y="{label + 4:.0f}">{escape(name)}</text>'
        for (name, x, _), label in zip(places, labels, strict=True)
    )
    front = pareto([(run.violation_pct, run.vs_optimum) for run in runs])
    line = " ".join("{:.0f},{:.0f}".format(*at(*point)) for point in front)
    return (
        f"<svg width={_WIDTH} height=310><text x=60 y=300>violations 0 to {right:.2f} %</text>"
        f"<text x=0 y=20>{top:.2f} ×</text><text x=0 y=285>0.90 ×</text>"
        f'<polyline class=front points="{line}"/>{dots}{names}</svg>'
    )


def _apart(places: Sequence[tuple[float, float]]) -> list[float]:
    """The height of each label: beside its place, or lower where another label is in the way."""
    heights: dict[int, float] = {}
    for index, (x, y) in sorted(enumerate(places), key=lambda each: each[1][1]):
        near = sorted(height for other, height in heights.items() if abs(places[other][0] - x) < _LABEL)
        label = y
        for height in near:
            label = height + _LINE if abs(height - label) < _LINE else label
        heights[index] = label
    return [heights[index] for index in range(len(places))]


def _plot(trace: Trace, run: Run, conditions: Conditions) -> str:
    step = max(1, len(run.ready) // _MOST_POINTS)
    load = trace.load[trace.history :]
    needs = [
        max((value / conditions.violation for value in load[at : at + step] if isfinite(value)), default=None)
        for at in range(0, len(run.ready), step)
    ]
    nodes = [min(run.ready[at : at + step]) for at in range(0, len(run.ready), step)]
    top = max(conditions.most, *nodes)
    short = "".join(
        f'<line class=short x1="{_x(at, len(run.ready))}" x2="{_x(at, len(run.ready))}" y1=0 y2=8 />'
        for at in run.short
    )
    return (
        f"<h3>{escape(run.policy)}</h3><svg width={_WIDTH} height={_HEIGHT}>{short}"
        f"{_lines('load', needs, top)}{_lines('nodes', nodes, top)}<text x=2 y=24>{top} nodes</text>"
        f"<text x=2 y={_HEIGHT - 4}>0</text></svg>"
    )


def _lines(name: str, values: Sequence[float | None], top: float) -> str:
    """A line through the values; none across a gap, where nothing is known."""
    parts = groupby(enumerate(values), key=lambda each: each[1] is not None)
    drawn = [
        " ".join(
            f"{_x(index, len(values))},{_HEIGHT - (_HEIGHT - 12) * min(value, top) / top:.1f}"
            for index, value in part
            if value is not None
        )
        for known, part in parts
        if known
    ]
    return "".join(f'<polyline class={name} points="{points}"/>' for points in drawn)


def _x(index: int, count: int) -> str:
    return f"{_WIDTH * index / max(1, count):.1f}"

"""A scenario as it goes on, on a terminal: the load so far, the workers, the latest decisions, and the bill.

It shows what was played before, so the busy minutes can be shown slowly and the quiet hours quickly.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from rich import box
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from nodefleet.model.inventory import Market
from nodefleet_tools.durations import lasting
from nodefleet_tools.sim.scenario_result import Frame, Mark, MarkKind, ScenarioResult, Standing, WorkerSeen

_HOUR = timedelta(hours=1)
_BARS = " ▁▂▃▄▅▆▇█"
_ROWS = 3  # of the curve
_LATEST = 5  # marks that are shown; the newest in full, on as many rows as its reason needs
_NEWEST_ROWS = 2
_NAME = 12  # the column before the curves
_SIGNS = {Market.ON_DEMAND: "■", Market.SPOT: "●"}
_STYLES = {
    Standing.READY: "green",
    Standing.UNREADY: "red",
    Standing.BOOTING: "yellow",
    Standing.DRAINING: "magenta",
    Standing.INTERRUPTED: "bold red",
    Standing.FAILED: "red",
    Standing.ENDING: "bright_black",
}
MARKS = {
    MarkKind.GROW: ("▲", "green"),
    MarkKind.REPLACE: ("◆", "cyan"),
    MarkKind.SHRINK: ("▼", "yellow"),
    MarkKind.REMOVED: ("·", "bright_black"),
    MarkKind.WARNING: ("!", "red"),
    MarkKind.HAPPENED: ("»", "magenta"),
}


class View:
    """Draws the frame with a number, in so many columns."""

    def __init__(self, played: ScenarioResult, width: int) -> None:
        self._played = played
        self._width = width
        self._highest = max((frame.asked for frame in played.frames), default=0.0) or 1.0
        self._zones = sorted({worker.zone for frame in played.frames for worker in frame.workers})
        self._most = max((len(frame.workers) for frame in played.frames), default=0)

    def at(self, number: int) -> Panel:
        frame = self._played.frames[number]
        parts: list[RenderableType] = [
            self._headline(frame),
            Text(),
            *self._curve(number),
            Text(),
            self._workers(frame),
            Text(),
        ]
        parts += [self._drains(frame), self._bill(frame), Text(), *self._marks(frame.at)]
        title = Text.assemble((" node-fleet ", "bold"), (f"{self._played.name} ", ""))
        return Panel(Group(*parts), title=title, title_align="left", box=box.ROUNDED, width=self._width)

    # ── the parts ────────────────────────────────────────────────────────────────────────────────────────────────

    def _headline(self, frame: Frame) -> Text:
        text = Text(no_wrap=True, overflow="ellipsis")
        text.append(f"{frame.at:%a %H:%M}", "bold")
        text.append(f"   load {frame.asked:.3g}/s")
        slow = "bold red" if frame.violated else ""
        text.append(f"   latency {frame.latency_ms:.0f} ms", slow)
        text.append(f"   CPU {frame.cpu:.0f} %" if frame.cpu is not None else "   CPU ?")
        text.append(f"   pods {frame.pods}")
        if frame.waiting:
            text.append(f" + {frame.waiting} waiting", "yellow")
        return text

    def _curve(self, number: int) -> list[Text]:
        """The load up to now over the whole time, some rows high; columns in which the SLO was violated are red."""
        frames = self._played.frames
        width = self._width - 4 - _NAME
        rows = [Text(f"{'load' if row == 0 else '':{_NAME}}", "bright_black", no_wrap=True) for row in range(_ROWS)]
        for column in range(width):
            first, last = column * len(frames) // width, (column + 1) * len(frames) // width
            seen = frames[first : min(max(last, first + 1), number + 1)]
            height = _ROWS * 8 * max((frame.asked for frame in seen), default=0.0) / self._highest
            style = "red" if any(frame.violated for frame in seen) else "blue"
            for row, text in enumerate(rows):
                filled = min(8, max(0, round(height) - 8 * (_ROWS - 1 - row)))
                text.append(_BARS[filled], style)
        return rows

    def _workers(self, frame: Frame) -> Table:
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(width=_NAME - 2, no_wrap=True)
        table.add_column(no_wrap=True, min_width=min(2 * self._most, self._width // 2))
        table.add_column(style="bright_black", no_wrap=True)
        legend: list[str | Text] = ["■ On-Demand  ● Spot", _standings(frame.workers)]
        for index, zone in enumerate(self._zones):
            signs = Text()
            for worker in (each for each in frame.workers if each.zone == zone):
                signs.append(f"{_SIGNS[worker.market]} ", _STYLES[worker.standing])
            table.add_row(zone, signs, legend[index] if index < len(legend) else "")
        return table

    def _drains(self, frame: Frame) -> Text:
        """What is being drained, and which budget it waits for."""
        text = Text(f"{'drains':{_NAME}}", no_wrap=True, overflow="ellipsis")
        for index, drain in enumerate(frame.drains):
            text.append("; " if index else "").append(drain.node, "magenta")
            text.append(f", {drain.left} left")
            if drain.budget:
                text.append(f", waits for {drain.budget}", "bold yellow")
        return text if frame.drains else text.append("none", "bright_black")

    def _bill(self, frame: Frame) -> Text:
        text = Text(f"{'cost':{_NAME}}", no_wrap=True, overflow="ellipsis")
        text.append(f"{frame.usd:.2f} USD", "bold green")
        hours = (self._played.ends - self._played.starts) / _HOUR
        for fixed in self._played.fixed[:1]:
            so_far = fixed.usd / hours * ((frame.at - self._played.starts) / _HOUR)
            text.append(f"   a fixed fleet of {fixed.nodes}: {so_far:.2f} USD")
            if so_far:
                text.append(f"   {100 * (so_far - frame.usd) / so_far:.0f} % saved", "green")
        return text

    def _marks(self, now: datetime) -> list[Text]:
        so_far = [mark for mark in self._played.marks if mark.at <= now and mark.kind is not MarkKind.REMOVED]
        shown = [mark_line(_with_wait(mark)) for mark in so_far[-_LATEST:]]
        lines = [*shown[:-1], *(self._wrapped(shown[-1]) if shown else ())]
        for text in lines:
            text.no_wrap, text.overflow = True, "ellipsis"
        return lines + [Text()] * (_LATEST - 1 + _NEWEST_ROWS - len(lines))

    def _wrapped(self, text: Text) -> list[Text]:
        """The newest mark on as many rows as there are for it; the last one is cut if that is not enough."""
        width = self._width - 4
        rows = list(text.wrap(Console(width=width), width))
        if len(rows) <= _NEWEST_ROWS:
            return rows
        rest = text[sum(len(row) + 1 for row in rows[: _NEWEST_ROWS - 1]) :]
        return [*rows[: _NEWEST_ROWS - 1], rest]


def mark_line(mark: Mark) -> Text:
    """A mark in one line: when, what kind, what, and why."""
    sign, style = MARKS[mark.kind]
    text = Text(f"{mark.at:%H:%M} ")
    text.append(f"{sign} ", style)
    if mark.title:
        text.append(f"{mark.title}  ", f"bold {style}")
    text.append(mark.text)
    return text


def _with_wait(mark: Mark) -> Mark:
    """A scale-up for pods says first how soon it came: that is what urgent runs are for."""
    if mark.waited is None:
        return mark
    return replace(mark, title=f"{mark.title}, {lasting(mark.waited)} after a pod")


def _standings(workers: Sequence[WorkerSeen]) -> Text:
    """3 ready, 1 booting."""
    counts = Counter(worker.standing for worker in workers)
    text = Text()
    for standing in Standing:
        if counts[standing]:
            text.append(", " if text else "").append(f"{counts[standing]} {standing.value}", _STYLES[standing])
    return text

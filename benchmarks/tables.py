"""Figures as an operator reads them: a small table, where they come from, and what is being measured right now."""

import os
import platform
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

Row = Sequence[str | float | int]


def progress(text: str) -> None:
    """On standard error, so that the tables can be kept without it."""
    print(f"  … {text}", file=sys.stderr, flush=True)


def machine() -> str:
    """What a figure without it is worth nothing."""
    model = next((line.partition(": ")[2] for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "?")
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {platform.system()} {platform.release()}, {os.cpu_count()} × {model.strip()}, "
        f"Python {platform.python_version()}, load {load}"
    )


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def middle(found: Iterable[Any], value: Callable[[Any], float]) -> float:
    return median(value(each) for each in found)


def table(title: str, head: Sequence[str], rows: Iterable[Row]) -> None:
    """In Markdown, so that it can be put into a page."""
    shown = [[_shown(each) for each in row] for row in rows]
    widths = [max(len(line[place]) for line in (list(head), *shown)) for place in range(len(head))]
    print(f"\n{title}\n")
    for line in (list(head), ["-" * width for width in widths], *shown):
        print(
            "| "
            + " | ".join(
                _placed(text, width, place) for place, (text, width) in enumerate(zip(line, widths, strict=True))
            )
            + " |"
        )
    sys.stdout.flush()


def _placed(text: str, width: int, place: int) -> str:
    return text.rjust(width) if place else text.ljust(width)


def _shown(value: str | float) -> str:
    match value:
        case str():
            return value
        case int():
            return f"{value:,}"
        case _ if abs(value) < 10:  # noqa: PLR2004  # one figure before the point: two after it
            return f"{value:.2f}"
        case _:
            return f"{value:,.0f}"

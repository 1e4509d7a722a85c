"""What a field of the policy says about itself, and the two ways in which a reading has to last.

`setting` keeps unit, reason and limits beside the default. The checks, `nodefleet policy show` and the JSON Schema
read them from there, so no limit is written twice.
"""

from collections.abc import Mapping
from dataclasses import Field, dataclass, field
from datetime import timedelta
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

PERCENT = "%"
NODES = "nodes"
SECONDS = "s"
_ABOUT = "about"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldInfo:
    unit: str
    why: str
    at_least: float | None = None
    at_most: float | None = None
    above: float | None = None  # strictly
    hint: str = ""  # what to do instead, when the value is out of its limits


def setting(
    default: T,
    unit: str,
    why: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    above: float | None = None,
    hint: str = "",
) -> T:
    """A field with its default, its unit and the reason for it. Percentages lie between 0 and 100 unless said."""
    if unit == PERCENT:
        at_least, at_most = at_least or 0, at_most or 100
    about = FieldInfo(unit=unit, why=why, at_least=at_least, at_most=at_most, above=above, hint=hint)
    return field(default=default, metadata={_ABOUT: about})


def describe(
    why: str, *, unit: str = "", above: float | None = None, at_most: float | None = None
) -> Mapping[str, FieldInfo]:
    """The same for a field that must be written, or whose default is made: field(metadata=said(…))."""
    return {_ABOUT: FieldInfo(unit=unit, why=why, above=above, at_most=at_most)}


def about(declared: Field[Any]) -> FieldInfo | None:
    return declared.metadata.get(_ABOUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """So many new readings in a row. A gap or a reading on the other side starts again."""

    count: int = setting(2, "readings", "one reading may be a spike", at_least=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Each breach counts 1 and loses half its weight every half-life; the sum must reach the threshold."""

    threshold: float = setting(2.0, "score", "about two fresh breaches", above=0)
    half_life: timedelta = setting(timedelta(seconds=240), SECONDS, "two readings ago still counts half", above=0)
    window: timedelta = setting(timedelta(seconds=600), SECONDS, "older breaches are forgotten", above=0)


def highest_score(lasting: Score, interval: timedelta) -> float:
    """What uninterrupted breaches can reach at most; a threshold above it never triggers."""
    readings = lasting.window // interval + 1
    kept = 0.5 ** (interval / lasting.half_life)  # of a breach's weight, one reading later
    return (1 - kept**readings) / (1 - kept) if kept < 1 else float(readings)


def doubled_pause(first: timedelta, times: int, longest: timedelta) -> timedelta:
    """A pause that has doubled so many times, up to the longest. Without it, months of doublings would overflow."""
    delay = first
    for _ in range(times):
        if delay >= longest:
            break
        delay *= 2
    return min(delay, longest)


Lasting: TypeAlias = Readings | Score


@dataclass(frozen=True, slots=True, kw_only=True)
class Sustain:
    """How long a reading must stay beyond its limit before it counts."""

    up: Lasting = setting(Readings(count=2), "", "two readings are four minutes: a spike is over by then")
    down: Lasting = setting(Readings(count=5), "", "five readings are ten minutes: capacity is given back slowly")

"""What a field of the policy says about itself; and how a pause that it sets grows.

`setting` keeps unit, reason and limits beside the default. The checks, `nodefleet policy show` and the JSON Schema
read them from there, so no limit is written twice.
"""

from collections.abc import Mapping
from dataclasses import Field, dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

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


def doubled_pause(first: timedelta, times: int, longest: timedelta) -> timedelta:
    """A pause that has doubled so many times, up to the longest. Without it, months of doublings would overflow."""
    delay = first
    for _ in range(times):
        if delay >= longest:
            break
        delay *= 2
    return min(delay, longest)

"""Values as they stand in a log line: plain JSON that a person can read, whatever is handed in.

Times are in UTC, durations in seconds, errors come with what caused them. Nothing here raises: a value that cannot
even be turned into text is named by its type.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from math import isfinite
from typing import Any

_DEEPEST = 8
_DEEPER = "…"


def plain(value: Any, depth: int = 0) -> Any:
    """The value as JSON knows it."""
    match value:
        case None | bool() | int() | str() if not isinstance(value, Enum):
            return value
        case float():
            return value if isfinite(value) else str(value)  # JSON has no word for these
        case Enum():
            return plain(value.value, depth)
        case datetime():
            return instant(value)
        case timedelta():
            return value.total_seconds()
        case BaseException():
            return story(value)
        case _ if depth >= _DEEPEST:
            return _DEEPER
        case Mapping():
            return {text(plain(key, depth + 1)): plain(inner, depth + 1) for key, inner in value.items()}
        case _ if is_dataclass(value) and not isinstance(value, type):
            # As the author of the class shows it: what has no repr is secret, or of no use to a reader.
            shown = [each.name for each in fields(value) if each.repr]
            return {name: plain(getattr(value, name), depth + 1) for name in shown}
        case set() | frozenset():
            return sorted((plain(inner, depth + 1) for inner in value), key=text)
        case list() | tuple() | Iterable() if not isinstance(value, bytes | bytearray):
            return [plain(inner, depth + 1) for inner in value]
        case _:
            return text(value)


def instant(at: datetime) -> str:
    """2026-11-16T12:00:00Z. A time without a zone is told as it is."""
    if at.tzinfo is None:
        return at.isoformat()
    return at.astimezone(UTC).isoformat().removesuffix("+00:00") + "Z"


def story(problem: BaseException) -> str:
    """An error and what caused it, the latest first."""
    told: list[str] = []
    seen: set[int] = set()
    following: BaseException | None = problem
    while following is not None and id(following) not in seen:
        seen.add(id(following))
        name, said = type(following).__name__, text(following)
        told.append(f"{name}: {said}" if said else name)
        following = following.__cause__ or (None if following.__suppress_context__ else following.__context__)
    return " ← ".join(told)


def text(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001  # whatever its author did wrong, the line must come out
        return f"<{type(value).__name__}>"

"""Event patterns as EventBridge and Lambda's event source mappings read them, as far as the stack uses them."""

from collections.abc import Mapping
from typing import Any


def matches(pattern: Mapping[str, Any], event: Any) -> bool:
    """Every field of the pattern is in the event, with one of the values that it lists."""
    return isinstance(event, Mapping) and all(
        key in event and (_listed(wanted, event[key]) if isinstance(wanted, list) else matches(wanted, event[key]))
        for key, wanted in pattern.items()
    )


def _listed(wanted: list[Any], value: Any) -> bool:
    return any(_is(each, value) for each in wanted)


def _is(wanted: Any, value: Any) -> bool:
    match wanted:
        case {"prefix": str(beginning), **others}:
            assert not others, f"not known here: {others}"
            return isinstance(value, str) and value.startswith(beginning)
        case dict():
            raise AssertionError(f"not known here: {wanted}")
        case _:
            return bool(wanted == value)

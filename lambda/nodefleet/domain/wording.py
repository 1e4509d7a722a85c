"""Words for people. A list in a sentence is cut: a fleet of a thousand must not make a sentence of a thousand names."""

from collections.abc import Iterable

_MOST = 5


def counted(number: int, one: str, many: str) -> str:
    """Three pods fit, one pod fits."""
    return f"{number} {one if number == 1 else many}"


def some(items: Iterable[str], between: str = ", ", most: int = _MOST) -> str:
    """The first few, and how many more there are."""
    listed = list(items)
    more = len(listed) - most
    return between.join(listed[:most]) + (f" and {more} more" if more > 0 else "")

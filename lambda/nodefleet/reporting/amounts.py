"""Figures as people read them: rounded, never rounder than they are."""

_HALF_A_CENT = 0.005
_ALL = 100


def cents(amount: float) -> float:
    """To the cent. Rounded once, then added and subtracted, so that the figures of a report agree with each other."""
    return round(amount, 2)


def usd(amount: float) -> str:
    if 0 < amount < _HALF_A_CENT:
        return "less than USD 0.01"
    return f"USD {amount:,.2f}"


def hourly(price: float) -> str:
    return f"USD {price:.4f}/h"


def percent(value: float) -> str:
    """Some is never 0 % and not all is never 100 %."""
    if 0 < value < 1:
        return "<1 %"
    if _ALL - 1 < value < _ALL:
        return ">99 %"
    return f"{value:.0f} %"


def number(value: float) -> str:
    """One digit where it says something."""
    rounded = round(float(value), 1)
    return f"{rounded:,.0f}" if rounded >= 10 or rounded.is_integer() else f"{rounded:.1f}"  # noqa: PLR2004


def hours(value: float) -> str:
    return f"{number(value)} h"


def times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def some(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"

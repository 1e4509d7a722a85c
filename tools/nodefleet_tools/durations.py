"""How long something lasted, in words, and words for how long."""

import re
from datetime import timedelta

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_WRITTEN = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd])")
_NAMES = ((86400, "day", "days"), (3600, "h", "h"), (60, "min", "min"))
_SOON = 120  # seconds: below it they are counted one by one
_LONGEST = timedelta(days=3650)


def lasting(duration: timedelta) -> str:
    """45 s, 14 min, 3 h, 2 days."""
    seconds = max(0.0, duration.total_seconds())
    if seconds < _SOON:
        return f"{seconds:.0f} s"
    length, one, many = next(each for each in _NAMES if seconds >= 2 * each[0] or each[0] == _NAMES[-1][0])
    number = seconds // length
    return f"{number:.0f} {one if number == 1 else many}"


def ago(duration: timedelta) -> str:
    return f"{lasting(duration)} ago"


def duration_of(text: str) -> timedelta | None:
    """90s, 5m, 2h or 7d; none if it is not one of these."""
    written = _WRITTEN.fullmatch(text.strip())
    if not written:
        return None
    seconds = float(written[1]) * _UNITS[written[2]]
    return timedelta(seconds=seconds) if 0 < seconds <= _LONGEST.total_seconds() else None

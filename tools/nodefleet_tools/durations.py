"""How long something lasted, in words."""

from datetime import timedelta

_NAMES = ((86400, "day", "days"), (3600, "h", "h"), (60, "min", "min"))
_SOON = 120  # seconds: below it they are counted one by one


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

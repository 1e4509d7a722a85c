"""Times of day as a scenario writes them: "10:02", counted from midnight of the first day; "33:00" is 9 on the second.

They stand in quotes: YAML reads 10:02 without them as the number 602.
"""

import re
from datetime import datetime, timedelta

_WRITTEN = re.compile(r"(\d{1,3}):([0-5]\d)(?::([0-5]\d))?")
RIGHT = 'write for example "09:30" or "09:30:15"; "33:00" is 9 on the second day'


def since_midnight(text: str) -> timedelta | None:
    """None if it is no time of day."""
    written = _WRITTEN.fullmatch(text.strip())
    if not written:
        return None
    hours, minutes, seconds = written[1], written[2], written[3] or "0"
    return timedelta(hours=int(hours), minutes=int(minutes), seconds=int(seconds))


def moment(text: str, starts: datetime) -> datetime:
    """When it is that time in a scenario that starts on this day. The text has been checked."""
    since = since_midnight(text)
    if since is None:
        raise ValueError(f"{text!r} is not a time of day: {RIGHT}")
    return midnight(starts) + since


def midnight(at: datetime) -> datetime:
    return at.replace(hour=0, minute=0, second=0, microsecond=0)

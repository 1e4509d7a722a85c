"""What the minutes up to now tell about those to come: 22 figures.

The first nine are of the last three hours; the others are what the same time was like yesterday, last week and in the
last hours, and the time of day. Of the past not only the level counts but the rise that followed: a load that doubles
at nine every morning does so from whatever level it has today.
"""

from math import cos, pi, sin

from nodefleet.decide.forecast.history import WEEK, LoadHistory

DAY = 1440
HOUR = 60
RECENT = 9  # features of the last three hours, which come first
COUNT = 22
_LEVEL = 3  # minutes on either side: one minute of yesterday is mostly noise
_NEXT = 30  # minutes: where the load went after


def features(history: LoadHistory, minute: int, join: int, interval: int) -> list[float] | None:
    """The features of a minute, whose reading is the last one known; none without it. `join`: minutes until a node
    launched now serves. `interval`: minutes until the next one could."""
    now = history.at(minute)
    level = history.mean(minute - 2, minute + 1)
    if now is None or level is None:
        return None
    recent = [
        1.0,
        level,
        *(_or(history.mean(minute + 1 - span, minute + 1), level) for span in (10, 30, 60, 180)),
        now,
        _or(history.at(minute - 2), level),
        _or(history.at(minute - 5), level),
    ]
    unknown = (level, 0.0, 0.0)
    yesterday = _past(history, minute - DAY, join, interval) or unknown
    last_week = _past(history, minute - WEEK, join, interval) or yesterday
    hours = [_past(history, minute - HOUR * ago, join, interval) for ago in (1, 2, 3)]
    rises = [hour[1] for hour in hours if hour]
    hour = hours[0] or unknown
    angle = 2 * pi * (minute % DAY) / DAY
    return [
        *recent,
        *yesterday,
        *last_week,
        hour[1],
        sum(rises) / len(rises) if rises else 0.0,
        hour[0],
        sin(angle),
        cos(angle),
        sin(2 * angle),
        cos(2 * angle),
    ]


def _past(history: LoadHistory, minute: int, join: int, interval: int) -> tuple[float, float, float] | None:
    """Level, rise to when a node launched then would have served, and rise to the mean of the half hour after."""
    if minute - _LEVEL < history.first:
        return None
    level = history.mean(minute - _LEVEL, minute + _LEVEL + 1)
    served = history.mean(minute + join - 1, minute + join + interval + 1)
    after = history.mean(minute + 1, minute + 1 + _NEXT)
    if level is None or served is None or after is None:
        return None
    return level, served - level, after - level


def _or(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else value

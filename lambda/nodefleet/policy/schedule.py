"""Cron expressions and time zones, worked out here so that the core needs neither.

A window opens at each match of its cron, read in its time zone, and stays open for so much real time: when the clocks
change it lasts as long as on any other day. A time that the change skips opens right after it; one that comes twice
opens the first time, and both times if its minute or hour is a `*`.
"""

import difflib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from nodefleet.model.serialization import IssueCode
from nodefleet.model.snapshot import ActiveWindow
from nodefleet.policy.cluster import Policy
from nodefleet.policy.constraints import Conflict
from nodefleet.policy.file_schema import Keys
from nodefleet.policy.pool import Window

_FIELDS = 5
_FIRST_STRETCH = timedelta(hours=2)
_LONGEST_CHANGE = timedelta(hours=3)  # of the clocks, with room to spare
_MINUTE = timedelta(minutes=1)
_SOME_DAY = datetime(2026, 1, 1, tzinfo=UTC)


def active_windows(policy: Policy, now: datetime) -> tuple[ActiveWindow, ...]:
    """The windows of all pools that are open at `now`."""
    found = []
    for pool in policy.pools:
        for window in pool.windows:
            opened = _last_opening(window, ZoneInfo(window.time_zone or policy.time_zone), now)
            if opened:
                until = opened + window.lasting
                found.append(
                    ActiveWindow(pool=pool.name, name=window.name, until=until, min=window.min, max=window.max)
                )
    return tuple(found)


def utc_offset(policy: Policy, now: datetime) -> timedelta:
    """How far the policy's time zone is ahead of UTC at `now`."""
    return now.astimezone(ZoneInfo(policy.time_zone)).utcoffset() or timedelta(0)


def schedule_conflicts(policy: Policy) -> Iterator[Conflict]:
    """Time zones and cron expressions that do not exist."""
    yield from _zone(policy.time_zone, ("time_zone",))
    for number, pool in enumerate(policy.pools):
        for index, window in enumerate(pool.windows):
            at = ("pools", number, "windows", index)
            yield from _cron(window.cron, (*at, "cron"))
            if window.time_zone is not None:
                yield from _zone(window.time_zone, (*at, "time_zone"))


def _last_opening(window: Window, zone: ZoneInfo, now: datetime) -> datetime | None:
    """The last match before or at `now` whose window is still open, in UTC."""
    stretch = min(_FIRST_STRETCH, window.lasting)
    while True:
        last = max((each for each in _openings(window.cron, zone, now - stretch, now) if each <= now), default=None)
        if last and now < last + window.lasting:
            return last
        if stretch == window.lasting:
            return None
        stretch = min(2 * stretch, window.lasting)


def _openings(cron: str, zone: ZoneInfo, start: datetime, end: datetime) -> Iterator[datetime]:
    """Matches between start and end, and a few around them, in UTC.

    CronSim reads the wall clock without a zone: with one, it skips matches where the clocks change by half an hour.
    """
    minute, hour, *_ = cron.split()
    repeats = minute.startswith("*") or hour.startswith("*")
    for match in CronSim(cron, (start - _LONGEST_CHANGE).astimezone(zone).replace(tzinfo=None)):
        wall = match
        while _is_skipped(wall, zone):
            wall += _MINUTE
        opened = wall.replace(tzinfo=zone).astimezone(UTC)
        if opened > end:
            return
        yield opened
        if repeats:
            yield wall.replace(tzinfo=zone, fold=1).astimezone(UTC)


def _is_skipped(wall: datetime, zone: ZoneInfo) -> bool:
    """Whether the clocks never show this time."""
    return wall.replace(tzinfo=zone).astimezone(UTC).astimezone(zone).replace(tzinfo=None) != wall


def _cron(expression: str, keys: Keys) -> Iterator[Conflict]:
    right = 'write five fields, for example "0 8 * * 1-5" for 8:00 from Monday to Friday'
    wrong = ""
    try:
        if len(expression.split()) != _FIELDS:
            wrong = "has not five fields"
        elif next(CronSim(expression, _SOME_DAY), None) is None:
            wrong = "never comes"
    except (CronSimError, ValueError) as error:
        wrong = f"is not a cron expression ({str(error).lower()})"
    if wrong:
        yield Conflict(keys=keys, value=expression, wrong=wrong, right=right)


def _zone(name: str, keys: Keys) -> Iterator[Conflict]:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        close = difflib.get_close_matches(name, available_timezones(), n=1)
        right = f"did you mean {close[0]}?" if close else "write an IANA name, for example UTC or Europe/Berlin"
        yield Conflict(
            keys=keys, value=name, wrong="is not a known time zone", right=right, code=IssueCode.UNKNOWN_NAME
        )

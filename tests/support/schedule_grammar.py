"""The grammar of EventBridge's schedule expressions, because nothing else here knows it: moto takes anything.

rate(value unit)     a positive number; `minute`, `hour`, `day` for 1 and the plural for more
cron(…)              minute hour day-of-month month day-of-week year: six fields. One of the two days is `?`, for no
                     opinion, and not both
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

_RATE = re.compile(r"rate\(([1-9]\d*) (minute|hour|day)(s?)\)")
_CRON = re.compile(r"cron\((\S+) (\S+) (\S+) (\S+) (\S+) (\S+)\)")
_MONTHS = {
    name: number
    for number, name in enumerate(
        ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"], 1
    )
}
_DAYS = {name: number for number, name in enumerate(["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"], 1)}
_FIELDS: tuple[tuple[str, int, int, Mapping[str, int]], ...] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of month", 1, 31, {}),
    ("month", 1, 12, _MONTHS),
    ("day of week", 1, 7, _DAYS),
    ("year", 1970, 2199, {}),
)


class GrammarError(ValueError):
    """EventBridge would refuse it."""


@dataclass(frozen=True)
class Every:
    period: timedelta


@dataclass(frozen=True)
class Cron:
    fields: tuple[frozenset[int] | None, ...]  # in EventBridge's order; none: no opinion

    def matches(self, at: datetime) -> bool:
        """`at` in the schedule's time zone; Sunday is 1."""
        now = (at.minute, at.hour, at.day, at.month, at.isoweekday() % 7 + 1, at.year)
        return all(allowed is None or value in allowed for value, allowed in zip(now, self.fields, strict=True))


def parsed(expression: str) -> Every | Cron:
    if rate := _RATE.fullmatch(expression):
        value, unit, plural = int(rate[1]), rate[2], rate[3]
        if bool(plural) != (value > 1):
            raise GrammarError(f"{expression}: {value} {unit}{'' if plural else 's'} is what EventBridge wants")
        return Every(timedelta(**{f"{unit}s": value}))
    if cron := _CRON.fullmatch(expression):
        days = (cron[3], cron[5])
        if days.count("?") != 1:
            raise GrammarError(f"{expression}: one of day-of-month and day-of-week must be ?, and only one")
        return Cron(tuple(_field(text, *about) for text, about in zip(cron.groups(), _FIELDS, strict=True)))
    raise GrammarError(f"{expression} is neither rate(value unit) nor cron with six fields")


def _field(text: str, name: str, low: int, high: int, words: Mapping[str, int]) -> frozenset[int] | None:
    if text == "?":
        if not name.startswith("day"):
            raise GrammarError(f"? cannot stand for a {name}")
        return None
    return frozenset(value for part in text.split(",") for value in _part(part, name, low, high, words))


def _part(text: str, name: str, low: int, high: int, words: Mapping[str, int]) -> range:
    def number(word: str) -> int:
        value = words.get(word.upper(), -1) if not word.isdigit() else int(word)
        if not low <= value <= high:
            raise GrammarError(f"{word} is no {name}")
        return value

    span, slash, step = text.partition("/")
    if slash and not (step.isdigit() and int(step) > 0):
        raise GrammarError(f"{text}: a step is a positive number")
    first, dash, last = span.partition("-")
    if span == "*":
        begin, end = low, high
    elif dash:
        begin, end = number(first), number(last)
    else:
        begin = number(span)
        end = high if slash else begin
    if end < begin:
        raise GrammarError(f"{text} runs backwards")
    return range(begin, end + 1, int(step) if slash else 1)

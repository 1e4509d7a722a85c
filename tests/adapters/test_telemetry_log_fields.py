import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from enum import Enum

import pytest

from nodefleet.adapters.telemetry import plain, story
from nodefleet.errors import UnavailableError
from support.builders import NOON
from support.wording import assert_wording


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Login:
    name: str
    password: str = field(repr=False)


class Pair(Enum):
    """Members whose values are no scalars."""

    BOTH = ("a", ("b", "c"))


class Unspeakable:
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("text", "text"),
        (None, None),
        (True, True),
        (3, 3),
        (1.5, 1.5),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (NOON, "2026-11-16T12:00:00Z"),
        (datetime(2026, 11, 16, 14, tzinfo=timezone(timedelta(hours=2))), "2026-11-16T12:00:00Z"),
        (datetime(2026, 11, 16, 14), "2026-11-16T14:00:00"),  # noqa: DTZ001
        (timedelta(minutes=2), 120.0),
        (Colour.RED, "red"),
        (Pair.BOTH, ["a", ["b", "c"]]),
        ([Pair.BOTH], [["a", ["b", "c"]]]),
        ({Colour.RED: (1, 2), 3: {NOON}}, {"red": [1, 2], "3": ["2026-11-16T12:00:00Z"]}),
        ({"b", "a"}, ["a", "b"]),
        ((each for each in "ab"), ["a", "b"]),
        (b"raw", "b'raw'"),
        (Login("ana", "opensesame"), {"name": "ana"}),
        (Unspeakable(), "<Unspeakable>"),
        ({"deep": [Unspeakable()]}, {"deep": ["<Unspeakable>"]}),
    ],
)
def test_any_value_becomes_plain_json(value, expected):
    got = plain(value)
    assert json.loads(json.dumps(got)) == got
    assert got == expected


def test_a_class_is_named():
    assert plain(Login) == str(Login)


def test_what_contains_itself_ends_somewhere():
    endless: list[object] = []
    endless.append(endless)
    assert "…" in json.dumps(plain(endless), ensure_ascii=False)


def failed() -> Exception:
    """An error of ours with its cause."""
    problem = UnavailableError("EC2", "no answer")
    problem.__cause__ = ConnectionError("refused")
    return problem


def test_an_error_is_told_with_its_cause():
    assert_wording(story(failed()))
    assert plain({"error": failed()}) == {"error": story(failed())}


def test_what_happened_while_handling_another_error_is_told_too():
    problem = KeyError("lost")
    problem.__context__ = ValueError("first")
    assert_wording(story(problem))


def test_a_cause_that_was_hidden_on_purpose_stays_hidden():
    problem = KeyError()
    problem.__context__ = ValueError("holds a secret")
    problem.__suppress_context__ = True  # as `raise … from None` does
    assert story(problem) == "KeyError"


def test_an_error_that_causes_itself_ends():
    problem = ValueError("again")
    problem.__cause__ = problem
    assert_wording(story(problem))


@dataclass(frozen=True)
class Nested:
    inner: object


@pytest.mark.parametrize(
    "around",
    [Nested, lambda inner: [inner], lambda inner: (inner,), lambda inner: {"inner": inner}],
    ids=["dataclass", "list", "tuple", "mapping"],
)
def test_whatever_holds_the_others_has_an_end(around):
    value: object = "core"
    for _ in range(30):
        value = around(value)
    told = json.dumps(plain(value))
    assert "core" not in told
    assert len(told) < 500
    shallow = plain(around(around("core")))
    assert "core" in json.dumps(shallow)


@pytest.mark.parametrize("deep", [7, 8, 9])
@pytest.mark.parametrize(
    "around",
    [
        Nested,
        lambda inner: [inner],
        lambda inner: (inner,),
        lambda inner: {"inner": inner},
        lambda inner: frozenset({inner}),
    ],
    ids=["dataclass", "list", "tuple", "mapping", "set"],
)
def test_eight_levels_are_shown(around, deep):
    value: object = "core"
    for _ in range(deep):
        value = around(value)
    told = json.dumps(plain(value), ensure_ascii=False)
    assert ("core" in told) is (deep <= 8)
    assert ("…" in told) is (deep > 8)

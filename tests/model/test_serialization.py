"""The codec: without loss, strict, and with every problem at once."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from enum import Enum
from typing import Literal

import pytest

from nodefleet.model.decision import PolicyVersion
from nodefleet.model.serialization import (
    ValidationError,
    ValidationIssue,
    decode,
    from_plain,
    kind_of,
    nearest,
    show_value,
    to_plain,
    where,
)
from support.wording import assert_wording

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Circle:
    radius: float


@dataclass(frozen=True)
class LongBox:
    width: int
    height: int = 1


@dataclass(frozen=True)
class Picture:
    name: str
    shape: Circle | LongBox = Circle(1.0)
    frame: LongBox | None = None
    shapes: tuple[Circle | LongBox, ...] = ()
    colour: Colour = Colour.RED
    style: Literal["thin", "thick"] = "thin"
    visible: bool = True
    drawn: datetime | None = None
    lasting: timedelta = timedelta(0)
    scale: float = 1.0
    notes: Mapping[str, int] = field(default_factory=dict)
    children: tuple["Picture", ...] = ()
    layers: tuple[int, ...] | Circle = ()


FULL = Picture(
    name="p",
    shape=LongBox(2, 3),
    frame=LongBox(4),
    shapes=(Circle(0.5), LongBox(1)),
    colour=Colour.BLUE,
    style="thick",
    visible=False,
    drawn=NOON,
    lasting=timedelta(seconds=90),
    scale=2.0,
    notes={"a": 1},
    children=(Picture(name="inner"),),
    layers=(1, 2),
)


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("picture", [FULL, Picture(name="p"), Picture(name="p", layers=Circle(2.0))])
def test_there_and_back_through_json_is_the_same(picture, full):
    assert from_plain(Picture, json.loads(json.dumps(to_plain(picture, full=full)))) == picture


def test_defaults_are_left_out_unless_asked_for():
    assert to_plain(Picture(name="p")) == {"name": "p"}
    assert set(to_plain(Picture(name="p"), full=True)) == set(Picture.__dataclass_fields__)


def test_what_the_plain_form_looks_like():
    assert to_plain(FULL) == {
        "name": "p",
        "shape": {"kind": "long-box", "width": 2, "height": 3},
        "frame": {"width": 4},
        "shapes": [{"kind": "circle", "radius": 0.5}, {"kind": "long-box", "width": 1}],
        "colour": "blue",
        "style": "thick",
        "visible": False,
        "drawn": "2026-11-16T12:00:00Z",
        "lasting": 90,
        "scale": 2.0,
        "notes": {"a": 1},
        "children": [{"name": "inner"}],
        "layers": [1, 2],
    }


def test_parts_of_a_second_are_kept():
    assert to_plain(Picture(name="p", lasting=timedelta(milliseconds=1500)))["lasting"] == 1.5


def test_times_are_written_in_utc():
    local = NOON.astimezone(timezone(timedelta(hours=8)))
    assert to_plain(Picture(name="p", drawn=local))["drawn"] == "2026-11-16T12:00:00Z"


@pytest.mark.parametrize(
    ("text", "seconds"), [(90, 90), (1.5, 1.5), ("90s", 90), ("5m", 300), ("2h", 7200), ("7d", 604800), ("1.5 h", 5400)]
)
def test_durations_are_seconds_or_have_a_unit(text, seconds):
    assert from_plain(Picture, {"name": "p", "lasting": text}).lasting == timedelta(seconds=seconds)


def test_a_time_that_yaml_has_read_already_is_taken():
    assert from_plain(Picture, {"name": "p", "drawn": NOON}).drawn == NOON


def test_a_whole_number_is_a_number_too():
    scale = from_plain(Picture, {"name": "p", "scale": 3}).scale
    assert (scale, type(scale)) == (3.0, float)


def problems(data, kind=Picture):
    with pytest.raises(ValidationError) as refused:
        from_plain(kind, data)
    return [(problem.path, problem.wrong, problem.right) for problem in refused.value.problems]


NUMBER = ("is not a whole number", "write for example 3")
TIME = "write for example 2026-11-16T12:00:00Z"


@pytest.mark.parametrize(
    ("extra", "path", "wrong", "right"),
    [
        ({"nmae": 1}, "nmae", "is an unknown key", "did you mean name?"),
        ({"frame": {"width": 1.5}}, "frame.width", *NUMBER),
        ({"frame": {"width": True}}, "frame.width", *NUMBER),
        ({"frame": {"width": "1"}}, "frame.width", *NUMBER),
        ({"frame": {}}, "frame.width", "is missing", "LongBox needs it"),
        ({"frame": 3}, "frame", "is not a table", "write one with kind long-box"),
        ({"scale": float("nan")}, "scale", "is not a number", "write for example 2.5"),
        ({"scale": float("inf")}, "scale", "is not a number", "write for example 2.5"),
        ({"scale": True}, "scale", "is not a number", "write for example 2.5"),
        ({"scale": "2"}, "scale", "is not a number", "write for example 2.5"),
        ({"visible": 1}, "visible", "is not a yes or no", "true or false"),
        ({"name": 3}, "name", "is not a text", "put it in quotes"),
        ({"drawn": "noon"}, "drawn", "is not a time", TIME),
        ({"drawn": 3}, "drawn", "is not a time", TIME),
        ({"drawn": "2026-11-16T12:00:00"}, "drawn", "is a time without a zone", TIME),
        ({"drawn": datetime(2026, 11, 16)}, "drawn", "is a time without a zone", TIME),  # noqa: DTZ001
        ({"lasting": "long"}, "lasting", "is not a duration", "write seconds as a number, or 90s, 5m, 2h, 7d"),
        ({"lasting": "5w"}, "lasting", "is not a duration", "write seconds as a number, or 90s, 5m, 2h, 7d"),
        ({"lasting": True}, "lasting", "is not a duration", "write seconds as a number, or 90s, 5m, 2h, 7d"),
        ({"colour": "rde"}, "colour", "is not a choice here", "did you mean red?"),
        ({"colour": [7]}, "colour", "is not a choice here", "known are blue, red"),
        ({"style": "thik"}, "style", "is not a choice here", "did you mean thick?"),
        ({"notes": [1]}, "notes", "is not a table", "write a table of names and values"),
        ({"notes": {"a": "x"}}, "notes.a", *NUMBER),
        ({"shapes": {}}, "shapes", "is not a list", "write a list"),
        ({"shapes": [{"kind": "circel"}]}, "shapes[0].kind", "is not a known kind", "did you mean circle?"),
        ({"shapes": [{"radius": 1}]}, "shapes[0].kind", "is not a known kind", "one of circle, long-box"),
        ({"shapes": [7]}, "shapes[0]", "is not a table", "write one with kind circle or long-box"),
        ({"children": [{"name": "a"}, {"name": 5}]}, "children[1].name", "is not a text", "put it in quotes"),
        ({"layers": ["x"]}, "layers[0]", *NUMBER),
        ({"layers": {"kind": "circle", "radius": "x"}}, "layers.radius", "is not a number", "write for example 2.5"),
        ({"layers": {"radius": 3}}, "layers", "is not a list", "write a list"),
    ],
)
def test_each_mistake_is_named(extra, path, wrong, right):
    assert problems({"name": "p", **extra}) == [(path, wrong, right)]


def test_all_mistakes_come_at_once():
    found = problems({"nmae": "p", "scale": "x", "shapes": [{"kind": "circle"}], "notes": {"a": 1.5}})
    assert [path for path, *_ in found] == ["nmae", "scale", "shapes[0].radius", "notes.a", "name"]


def test_something_else_than_a_table_is_refused():
    ((path, wrong, right),) = problems([1, 2])
    assert_wording((path, wrong))
    assert_wording(right)


def test_a_caller_can_collect_problems_of_its_own():
    found: list[ValidationIssue] = []
    decode(Picture, {"name": 1}, found, ((), "pools"))
    assert [problem.path for problem in found] == ["pools.name"]


def test_refusals_say_everything_in_one_text():
    with pytest.raises(ValidationError) as refused:
        from_plain(Picture, {"nmae": "p"})
    assert_wording(str(refused.value))
    assert_wording(str(refused.value).splitlines()[1])


def test_kinds_are_kebab_case():
    assert (kind_of(LongBox), kind_of(Circle)) == ("long-box", "circle")


def test_paths_read_as_people_write_them():
    assert where((((((), "pools"), 0), "limits"), "min")) == "pools[0].limits.min"
    assert_wording(where(()))


def test_the_nearest_word_is_suggested_or_all_are():
    assert_wording(nearest("limit", ["limits", "market"]))
    assert_wording(nearest("zzz", ["limits", "market"]))


@pytest.mark.parametrize(("length", "shown_length"), [(58, 60), (59, 60), (200, 60)])
def test_long_values_are_cut(length, shown_length):
    text = show_value("x" * length)
    assert len(text) == shown_length
    assert text.endswith("…") is (length > 58)


def test_what_is_plain_already_passes_as_it_is():
    written = {"limits": {"min": 2}, "pools": [{"name": "a", "weights": [1, 2.5, None, True]}]}
    version = PolicyVersion(number=1, source="ann", at=NOON, data=written, digest="d")
    assert to_plain(version)["data"] == written
    assert from_plain(PolicyVersion, to_plain(version)) == version

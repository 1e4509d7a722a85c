"""docs/simulating.md names everything that a scenario file may hold."""

import re
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest
import yaml

from nodefleet.model.serialization import from_plain, kind_of
from nodefleet_tools.sim.scenarios.expectations import Expect
from nodefleet_tools.sim.scenarios.happenings import Happening, Part
from nodefleet_tools.sim.scenarios.model import ClusterSpec, Scenario, ServiceSpec, Shown, WorkloadSpec
from nodefleet_tools.sim.shapes import Shape

PAGE = (Path(__file__).parents[2] / "docs" / "simulating.md").read_text(encoding="utf-8")


def rows(heading: str) -> list[str]:
    """The first cells of the table below a heading."""
    section = PAGE.split(f"### {heading}\n", 1)[1].split("\n#", 1)[0]
    return re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)


@pytest.mark.parametrize(("heading", "union"), [("Shapes of load", Shape), ("Events", Happening)])
def test_every_kind_has_its_row(heading, union):
    assert rows(heading) == [kind_of(cls) for cls in get_args(union)]


@pytest.mark.parametrize("cls", [*get_args(Shape), *get_args(Happening)])
def test_every_field_of_a_shape_or_event_is_named_in_its_row(cls):
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{kind_of(cls)}` |"))
    common = {"at", "pool", "every"}
    assert [each.name for each in fields(cls) if each.name not in common and f"`{each.name}" not in row] == []


def test_every_expectation_and_every_part_of_a_scenario_is_named():
    for cls in (Expect, ClusterSpec, WorkloadSpec, ServiceSpec):
        assert [each.name for each in fields(cls) if f"`{each.name}`" not in PAGE and each.name != "name"] == []
    for kind in [kind_of(cls) for cls in get_args(Shown)] + [part.value for part in Part]:
        assert kind in PAGE


def test_the_example_is_a_scenario():
    example = re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[1]
    assert from_plain(Scenario, yaml.safe_load(example)).name == "my-day"

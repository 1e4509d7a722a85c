"""What fields say of themselves."""

from dataclasses import dataclass, field, fields

import pytest

from nodefleet.policy.fields import PERCENT, FieldInfo, about, describe, setting


@dataclass(frozen=True, kw_only=True)
class Sample:
    share: float = setting(50, PERCENT, "half")
    small: float = setting(5, PERCENT, "at most ten", at_least=1, at_most=10)
    count: int = setting(2, "nodes", "two", at_least=1, hint="pause instead")
    name: str = field(metadata=describe("who", unit="text", above=1, at_most=9))
    bare: int = 0


WRITTEN = {each.name: about(each) for each in fields(Sample)}


def test_a_percentage_lies_between_0_and_100_unless_its_field_says_otherwise():
    assert WRITTEN["share"] == FieldInfo(unit="%", why="half", at_least=0, at_most=100)
    assert WRITTEN["small"] == FieldInfo(unit="%", why="at most ten", at_least=1, at_most=10)


def test_other_units_have_only_the_limits_that_are_named():
    assert WRITTEN["count"] == FieldInfo(unit="nodes", why="two", at_least=1, hint="pause instead")


def test_a_field_without_a_plain_default_can_say_it_too_and_stays_required():
    assert WRITTEN["name"] == FieldInfo(unit="text", why="who", above=1, at_most=9)
    with pytest.raises(TypeError):
        Sample()


def test_a_field_that_says_nothing_has_nothing_to_say():
    assert WRITTEN["bare"] is None

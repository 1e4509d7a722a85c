"""How the policy's types look to whoever walks them."""

from collections.abc import Mapping

import pytest

from nodefleet.policy.cluster import Policy
from nodefleet.policy.demand import DemandRule, Readings, Score, Sustain, Threshold
from nodefleet.policy.file_schema import Part, classes_of, is_table, is_tagged, item, leaves, part, path_of, value_at
from nodefleet.policy.pool import Limits, Pool
from nodefleet.policy.sources import Prometheus, Source
from support.wording import assert_wording


@pytest.mark.parametrize(
    ("keys", "path"),
    [
        ((), "(top level)"),
        (("limits",), "limits"),
        (("pools", 1, "windows", 0, "cron"), "pools[1].windows[0].cron"),
    ],
)
def test_keys_are_written_as_a_person_writes_them(keys, path):
    assert path_of(keys) == path


@pytest.mark.parametrize(
    ("hint", "table", "tagged", "classes"),
    [
        (Limits, True, False, (Limits,)),
        (Mapping[str, Source], True, False, ()),
        (Readings | Score, False, True, (Readings, Score)),
        (Sustain | None, False, False, (Sustain,)),
        (float | None, False, False, ()),
        (tuple[DemandRule, ...], False, False, ()),
        (int, False, False, ()),
    ],
)
def test_only_plain_tables_merge_and_only_choices_have_a_kind(hint, table, tagged, classes):
    assert (is_table(hint), is_tagged(hint), classes_of(hint)) == (table, tagged, classes)


def test_what_belongs_under_a_key_depends_on_the_kind():
    lasting = Readings | Score
    assert part(lasting, {"kind": "score"}, "half_life") is not None
    assert part(lasting, {"kind": "readings"}, "half_life") is None
    assert part(lasting, {"kind": "unheard-of"}, "half_life") is None
    assert part(lasting, {}, "kind") == Part(hint=str)


def test_a_section_knows_its_fields_and_a_table_of_names_takes_any():
    assert part(Limits, {}, "min") is not None
    assert part(Limits, {}, "kind") is None
    assert part(Mapping[str, Source], {}, "anything") == Part(hint=Source)
    assert part(int, {}, "x") is None


def test_only_lists_have_items():
    assert item(tuple[DemandRule, ...]) == Part(hint=DemandRule)
    assert item(Limits) is None


def test_every_single_value_is_a_leaf_with_what_its_field_says():
    pool = Pool(readings={"q": Prometheus(query="up")}, custom=(Threshold(name="t", reading="q"),), labels={"a": "b"})
    found = {path_of(leaf.keys): leaf for leaf in leaves(Policy(pools=(pool,)), Policy)}
    assert found["interval"].about.unit == "s"
    assert found["pools[0].limits.min"].value == 2
    assert_wording(found["pools[0].limits.min"].about.why)
    assert found["pools[0].sustain.up.kind"].value == "readings"
    assert_wording(found["pools[0].sustain.up.kind"].about.why)
    assert found["pools[0].sustain.up.count"].value == 2
    assert found["pools[0].readings.q.kind"].value == "prometheus"
    assert found["pools[0].readings.q.query"].value == "up"
    assert found["pools[0].custom[0].kind"].value == "threshold"
    assert found["pools[0].custom[0].sustain"].value is None
    assert found["pools[0].labels.a"].value == "b"
    assert found["pools[0].labels.a"].about is None
    assert found["pools[0].market.types"].value == ("t3.small", "t3a.small", "t2.small")
    assert found["pools[0].windows"].value == ()
    assert "pools[0].limits" not in found
    assert "pools[0].limits.kind" not in found


def test_empty_tables_are_leaves_too():
    found = {path_of(leaf.keys): leaf.value for leaf in leaves(Policy(), Policy)}
    assert found["pools[0].readings"] == {}


def test_a_value_is_found_by_its_keys():
    policy = Policy(pools=(Pool(labels={"a": "b"}),))
    assert value_at(policy, ()) == policy
    assert value_at(policy, ("pools", 0, "limits", "max")) == 10
    assert value_at(policy, ("pools", 0, "labels", "a")) == "b"

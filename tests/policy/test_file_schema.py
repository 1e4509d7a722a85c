"""The fields of a policy file are those of the policy itself, with all that they say of themselves."""

from dataclasses import MISSING, fields
from typing import get_args

from nodefleet.model.serialization import fields_of
from nodefleet.policy import file_schema
from nodefleet.policy.cluster import Policy
from nodefleet.policy.fields import about
from nodefleet.policy.file_schema import PRESETS
from nodefleet.policy.pool import Pool


def test_a_field_is_declared_again_with_its_type_its_default_and_what_it_says():
    originals = {each.name: (each, hint) for each, hint in fields_of(Pool)}
    declared = file_schema._declare(Pool, ["limits", "name", "dry_run"])
    assert sorted(name for name, _, _ in declared) == ["dry_run", "limits", "name"]
    for name, hint, again in declared:
        original, its_hint = originals[name]
        assert hint == its_hint
        assert (again.default, again.default_factory) == (original.default, original.default_factory)
        assert again.metadata == original.metadata


def test_a_preset_is_one_of_those_there_are_or_none():
    why = "for this pool"
    name, hint, declared = file_schema._preset(why)
    literal, nothing = get_args(hint)
    assert (name, get_args(literal), nothing) == ("preset", tuple(PRESETS), type(None))
    assert (declared.default, declared.default_factory) == (None, MISSING)
    assert about(declared).why == why


def test_a_file_has_the_fields_of_the_cluster_and_those_of_a_pool():
    names = {each.name for each in fields(file_schema.POLICY_FILE)}
    of_pool = {each.name for each in fields(Pool)}
    assert names == {"preset"} | {each.name for each in fields(Policy)} | of_pool - {"name"}
    assert {each.name for each in fields(file_schema.POOL_IN_FILE)} == {"preset"} | of_pool

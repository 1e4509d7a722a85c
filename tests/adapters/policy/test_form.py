"""The fields of a policy file are those of the policy itself, with all that they say of themselves."""

from dataclasses import MISSING, fields
from typing import get_args

from nodefleet.adapters.policy import form
from nodefleet.domain.plain import fields_of
from nodefleet.domain.policy import Policy, Pool
from nodefleet.domain.policy.presets import PRESETS
from nodefleet.domain.policy.settings import about


def test_a_field_is_declared_again_with_its_type_its_default_and_what_it_says():
    originals = {each.name: (each, hint) for each, hint in fields_of(Pool)}
    declared = form._declared(Pool, ["limits", "name", "dry_run"])
    assert sorted(name for name, _, _ in declared) == ["dry_run", "limits", "name"]
    for name, hint, again in declared:
        original, its_hint = originals[name]
        assert hint == its_hint
        assert (again.default, again.default_factory) == (original.default, original.default_factory)
        assert again.metadata == original.metadata


def test_a_preset_is_one_of_those_there_are_or_none():
    name, hint, declared = form._preset("for this pool")
    literal, nothing = get_args(hint)
    assert (name, get_args(literal), nothing) == ("preset", tuple(PRESETS), type(None))
    assert (declared.default, declared.default_factory) == (None, MISSING)
    assert about(declared).why == "for this pool"


def test_a_file_has_the_fields_of_the_cluster_and_those_of_a_pool():
    names = {each.name for each in fields(form.POLICY_FILE)}
    of_pool = {each.name for each in fields(Pool)}
    assert names == {"preset"} | {each.name for each in fields(Policy)} | of_pool - {"name"}
    assert {each.name for each in fields(form.POOL_IN_FILE)} == {"preset"} | of_pool

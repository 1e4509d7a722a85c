"""What docs/policy.md says of the policy is true."""

import re
from pathlib import Path

import pytest

from nodefleet.model.serialization import ValidationError, kind_of
from nodefleet.policy.cluster import Policy
from nodefleet.policy.demand import DemandRule
from nodefleet.policy.file_schema import CLUSTER_PARTS, PRESETS, SHARED_PARTS, classes_of, leaves, path_of
from nodefleet.policy.loading import load
from nodefleet.policy.sources import Source
from nodefleet_tools.cli.outcome import issue_list as problem_list
from nodefleet_tools.cli.policy import worded
from nodefleet_tools.cli.policy_file import parsed

PAGE = (Path(__file__).parents[2] / "docs" / "policy.md").read_text()
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
TABLES = re.findall(r"^\| `([a-z0-9_.]+)` \| ([^|]+) \|", PAGE, re.MULTILINE)
ROWS = [(name, value) for name, value in TABLES if name not in PRESETS]
DEFAULTS = {path_of(leaf.keys).removeprefix("pools[0]."): worded(leaf) for leaf in leaves(Policy(), Policy)}


@pytest.mark.parametrize("block", BLOCKS)
def test_every_example_loads(block):
    content = parsed(block)
    assert content.problems == ()
    load(content.data)


def test_there_are_examples_of_every_rule_and_source():
    text = "".join(BLOCKS)
    for cls in (*classes_of(DemandRule), *classes_of(Source)):
        assert f"kind: {kind_of(cls)}," in text or f"kind: {kind_of(cls)}\n" in text


@pytest.mark.parametrize(("setting", "value"), ROWS)
def test_every_default_in_a_table_is_the_default(setting, value):
    assert DEFAULTS[setting] == value


def test_every_section_is_explained():
    assert len(ROWS) > 50
    for section in (*CLUSTER_PARTS, *SHARED_PARTS):
        assert f"`{section}" in PAGE, section


def test_every_setting_of_a_section_has_its_row():
    in_paragraphs = ("sustain.", "queries.")
    settings = {name for name in DEFAULTS if "." in name and not name.startswith(in_paragraphs)}
    assert settings - {name for name, _ in TABLES} == set()


@pytest.mark.parametrize("name", PRESETS)
def test_the_table_of_presets_is_true(name):
    pool = load({"preset": name}).policy.pools[0]
    limits, steps, targets = pool.limits, pool.steps, pool.targets
    row = (
        f"| `{name}` | {limits.min}–{limits.max} | {steps.up} / {steps.urgent} / {steps.down}"
        f" | {targets.queue:g} | {targets.p95_ms:g} ms | {PRESETS[name].trades} |"
    )
    assert row in PAGE


def test_the_refusal_is_what_one_gets():
    written = "limits: {mx: 20}\nsteps: {up: 0}\nwindows: [{name: w, cron: 0 25 * * *, lasting: 1h, min: 3}]"
    with pytest.raises(ValidationError) as refused:
        load(parsed(written).data)
    assert f"```\n{problem_list('my-policy.yaml', refused.value.problems)}\n```" in PAGE

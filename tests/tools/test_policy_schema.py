"""The JSON Schema says the same as the loader, as far as a schema can."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from nodefleet.model.serialization import ValidationError, to_plain
from nodefleet.policy.cluster import Policy
from nodefleet.policy.file_schema import PRESETS
from nodefleet.policy.loading import load
from nodefleet_tools.policy_schema import schema

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = sorted(set((DOCS / "examples").glob("*.yaml")) - {DOCS / "examples" / "kubernetes.yaml"})  # no policy
SCHEMA = schema()
VALIDATOR = Draft202012Validator(SCHEMA)
UP = {"kind": "prometheus", "query": "up"}


def test_it_is_a_schema_of_its_dialect():
    Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_the_one_in_the_docs_is_up_to_date():
    assert json.loads((DOCS / "policy.schema.json").read_text()) == schema(), "run `make schema`"


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_the_examples_are_valid(file):
    VALIDATOR.validate(yaml.safe_load(file.read_text()))


def test_there_are_examples():
    assert len(EXAMPLES) >= 3


def test_a_whole_policy_written_out_is_valid():
    VALIDATOR.validate(to_plain(Policy(), full=True))


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"preset": "balanced"},
        {"preset": None},
        {"interval": 120.5},
        {"interval": "1.5h"},
        {"limits": {"min": 0}},
        {"reactive": {"cpu": {"up": 100, "down": 0}}},
        {"sustain": {"up": {"kind": "score"}}},
        {"readings": {"a": {"kind": "sqs", "queue_url": "u"}}},
        {"readings": {"q": UP}, "custom": [{"kind": "threshold", "name": "t", "reading": "q", "quantity": "errors"}]},
        {"labels": {"a": ""}, "taints": [{"key": "a", "effect": "NoExecute"}]},
        {"pools": [{"name": "a", "preset": "balanced"}]},
    ],
)
def test_what_loads_is_valid(data):
    load(data)
    assert list(VALIDATOR.iter_errors(data)) == []


@pytest.mark.parametrize(
    "data",
    [
        [],
        {"limit": {}},
        {"preset": "fast"},
        {"name": "a"},
        {"interval": 0},
        {"interval": "soon"},
        {"interval": True},
        {"limits": {"min": -1}},
        {"limits": {"max": 0}},
        {"limits": {"max": "10"}},
        {"limits": {"max": 2.5}},
        {"reactive": {"cpu": {"up": 100.1}}},
        {"market": {"max_price_usd": 0}},
        {"predictive": {"enabled": "yes"}},
        {"time_zone": " "},
        {"strategy": "clairvoyant"},
        {"sustain": {"up": {"count": 2}}},
        {"sustain": {"up": {"kind": "readings", "threshold": 2}}},
        {"readings": {"a": {"kind": "sqs"}}},
        {"readings": {"a": {"kind": "redis"}}},
        {"custom": [{"kind": "threshold", "name": "t", "reading": "q", "quantity": "cpu"}]},
        {"windows": [{"name": "w", "cron": "0 8 * * *", "min": 1}]},
        {"labels": {"a": 1}},
        {"taints": [{"key": "a", "effect": "Never"}]},
        {"pools": []},
        {"pools": [{"limits": {"max": 3}}]},
    ],
)
def test_what_is_invalid_does_not_load_either(data):
    assert list(VALIDATOR.iter_errors(data))
    with pytest.raises(ValidationError):
        load(data)


def fields(table: dict[str, Any]) -> list[dict[str, Any]]:
    return [value for key, value in table["properties"].items() if key != "kind"]


def test_every_field_explains_itself_or_its_section_does():
    for table in (SCHEMA, *SCHEMA["$defs"].values()):
        for field in fields(table):
            section = SCHEMA["$defs"].get(field.get("$ref", "").removeprefix("#/$defs/"), {})
            if table is not SCHEMA["$defs"]["Taint"]:
                assert field.get("description") or section.get("description"), field


def test_a_field_has_its_unit_its_default_its_limits_and_its_hint():
    assert SCHEMA["$defs"]["Steps"]["properties"]["up"] == {
        "type": "integer",
        "minimum": 1,
        "description": "normal growth (nodes). To stop scaling for a while, use `nodefleet pause`",
        "default": 1,
    }
    assert SCHEMA["$defs"]["Utilisation"]["properties"]["up"] == {
        "type": "number",
        "minimum": 0,
        "maximum": 100,
        "description": "headroom for a spike while a new node boots (%)",
        "default": 70,
    }
    cooldown = SCHEMA["$defs"]["Cooldown"]["properties"]["up"]
    assert cooldown["default"] == 300
    assert cooldown["anyOf"][0] == {"type": "number", "minimum": 0}
    assert SCHEMA["$defs"]["MarketMix"]["properties"]["types"]["default"] == ["t3.small", "t3a.small", "t2.small"]
    assert SCHEMA["$defs"]["Sustain"]["properties"]["down"]["default"] == {"kind": "readings", "count": 5}


def test_a_section_names_its_defaults_only_where_they_are_its_own():
    reactive = SCHEMA["$defs"]["Reactive"]["properties"]
    assert reactive["memory"]["default"] == {"up": 75, "down": 50}
    assert "default" not in reactive["cpu"]
    assert "default" not in SCHEMA["properties"]["readings"]


def test_required_fields_have_no_default():
    window = SCHEMA["$defs"]["Window"]
    assert window["required"] == ["name", "cron", "lasting"]
    assert "default" not in window["properties"]["cron"]
    assert SCHEMA["$defs"]["Pool"]["required"] == ["name"]
    assert "default" not in SCHEMA["$defs"]["Pool"]["properties"]["name"]
    assert "required" not in SCHEMA


def test_the_presets_are_explained_where_one_is_chosen():
    for table in (SCHEMA, SCHEMA["$defs"]["Pool"]):
        preset = table["properties"]["preset"]
        assert preset["anyOf"][0] == {"enum": list(PRESETS)}
        assert all(each.trades in preset["description"] for each in PRESETS.values())

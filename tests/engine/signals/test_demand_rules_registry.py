"""What a demand rule needs, and where. To add one, add its type to `DemandRule`: these tests name the files."""

import ast
from pathlib import Path
from typing import get_args

import pytest

from nodefleet.model.serialization import kind_of
from nodefleet.policy.demand import DemandRule

ROOT = Path(__file__).parents[3]
TYPES = "lambda/nodefleet/policy/demand.py"
FORMULAS = "lambda/nodefleet/engine/signals/demand_rules.py"
ALARMS = "infra/nodefleet_infra/watched_readings.py"
PAGE = "docs/deciding.md"


def matched_in(file: str, function: str) -> set[str]:
    """The classes that a function's `match` names."""
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    body = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function)
    return {ast.unparse(node.cls) for node in ast.walk(body) if isinstance(node, ast.MatchClass)}


def files_to_touch(name: str, kind: str) -> list[str]:
    """Where a rule is not known yet. `docs/policy.schema.json` is written by `make schema`."""
    test = f"tests/engine/signals/test_demand_rules_{kind.replace('-', '_')}.py"
    missing = {
        f"{TYPES}: which of its fields name readings": name not in matched_in(TYPES, "readings_of"),
        f"{FORMULAS}: its formula": name not in matched_in(FORMULAS, "_evaluate_demand"),
        f"{ALARMS}: the reading that counts what waits": name not in matched_in(ALARMS, "queue_of"),
        f"{PAGE}: its row": f"\n| `{kind}` |" not in (ROOT / PAGE).read_text("utf-8"),
        f"{test}: its tests": not (ROOT / test).exists(),
    }
    return [what for what, lacks in missing.items() if lacks]


@pytest.mark.parametrize("rule", get_args(DemandRule), ids=kind_of)
def test_every_rule_is_everywhere_it_has_to_be(rule):
    assert files_to_touch(rule.__name__, kind_of(rule)) == []


def test_a_new_rule_touches_five_files():
    assert len({what.partition(":")[0] for what in files_to_touch("New", "new")}) == 5

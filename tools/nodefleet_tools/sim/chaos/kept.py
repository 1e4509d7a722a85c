"""Plans as files. A seed stands for another plan whenever more is drawn; what once went wrong is kept as its plan.

Everything that is drawn while a plan is played comes from streams of its own, named by the plan's seed and a purpose.
An incident that is to do more than before becomes a new kind beside the old one, and a new setting of a plan, a scene
or a fault does nothing by default: so a plan that was kept goes on playing what it played.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from nodefleet_tools.sim.chaos.fault_injection import Rates
from nodefleet_tools.sim.chaos.plan import Delivery, Incident, Plan
from nodefleet_tools.sim.chaos.scene import Scene


def text_of(plan: Plan, about: str = "") -> str:
    """The plan as a file holds it, with a sentence about what it once showed."""
    return json.dumps({"about": about, **asdict(plan)}, indent=1, ensure_ascii=False) + "\n"


def plan_from(text: str) -> Plan:
    plain: dict[str, Any] = json.loads(text)
    del plain["about"]
    made = {
        "scene": _scene(plain["scene"]),
        "rates": Rates(**plain["rates"]),
        "delivery": Delivery(**plain["delivery"]),
        "incidents": tuple(Incident(**{**each, "kind": _kind(each["kind"])}) for each in plain["incidents"]),
    }
    return Plan(**{**plain, **made})


def about(text: str) -> str:
    said: str = json.loads(text)["about"]
    return said


def _scene(plain: Mapping[str, Any]) -> Scene:
    return Scene(**{**plain, "workloads": tuple(plain["workloads"])})


def _kind(kept: str) -> str:
    """The name of an incident today. Plans that were kept earlier name operators and instances by other words."""
    words = {
        "a person ": "an operator ",
        " a machine": " an instance",
        "a machine ": "an instance ",
        "machine": "instance",
    }
    for earlier, today in words.items():
        kept = kept.replace(earlier, today)
    return kept

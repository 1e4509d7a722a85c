"""From a scenario file to a scenario: strictly, and with everything that is wrong with it at once.

The shipped scenarios lie beside this file and are found by their name; every other one by its path.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nodefleet.model.serialization import ValidationError, ValidationIssue, decode
from nodefleet.policy.loading import load
from nodefleet_tools.cli.policy_file import UnreadableError, parsed, text_of
from nodefleet_tools.sim.scenarios.model import Scenario
from nodefleet_tools.sim.scenarios.problems import problems_of
from nodefleet_tools.sim.shapes import Trace
from nodefleet_tools.sim.traces import Points, UnreadableTraceError, read_trace

_SHIPPED = Path(__file__).parent
_ENDING = ".yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    scenario: Scenario
    traces: Mapping[str, Points]  # by the name that the scenario gives them


def shipped() -> dict[str, Path]:
    """The scenarios that come with the tools, by name."""
    return {path.stem: path for path in sorted(_SHIPPED.glob(f"*{_ENDING}"))}


def find(name: str) -> Path:
    """A shipped scenario by its name, or a file."""
    known = shipped()
    if name in known:
        return known[name]
    path = Path(name)
    if path.suffix or path.exists():
        return path
    raise UnreadableError(f"is neither a file nor a scenario that is shipped: those are {', '.join(known)}")


def read(path: Path) -> Read:
    """The scenario in a file, or an UnreadableError, or a RefusedError with every problem."""
    content = parsed(text_of(path), is_json=path.suffix == ".json")
    problems = list(content.problems)
    scenario = decode(Scenario, content.data, problems)
    problems += _of_policy(content.data)
    if isinstance(scenario, Scenario):
        problems += problems_of(scenario)
    traces = _traces(scenario, path.parent, problems) if isinstance(scenario, Scenario) else {}
    if problems:
        raise ValidationError(problems)
    return Read(scenario=scenario, traces=traces)


def _of_policy(data: Any) -> list[ValidationIssue]:
    """The policy is checked by its own rules; its paths begin with `policy`."""
    policy = data.get("policy", {}) if isinstance(data, dict) else {}
    try:
        load(policy)
    except ValidationError as error:
        return [replace(each, path=f"policy.{each.path}") for each in error.problems]
    return []


def _traces(scenario: Scenario, folder: Path, problems: list[ValidationIssue]) -> dict[str, Points]:
    found: dict[str, Points] = {}
    for number, service in enumerate(scenario.services):
        for index, shape in enumerate(service.load):
            if not isinstance(shape, Trace):
                continue
            try:
                found[shape.file] = read_trace(folder / shape.file)
            except UnreadableTraceError as error:
                path = f"services[{number}].load[{index}].file"
                problems.append(ValidationIssue(path=path, value=shape.file, wrong=str(error), right="name a CSV file"))
    return found

"""`nodefleet decide`: the decision on an observation in a file, and why."""

from pathlib import Path

from rich.console import Console

from nodefleet.engine import decide as engine
from nodefleet.model.serialization import ValidationError, to_plain
from nodefleet.policy.cluster import Policy
from nodefleet_tools.cli.outcome import fail, fail_with_issues, print_json
from nodefleet_tools.cli.policy_file import STANDARD_INPUT, UnreadableError, policy_or_exit
from nodefleet_tools.cli.show_decision import show
from nodefleet_tools.observation_file import read_question
from nodefleet_tools.shorthand import Question


def decide_file(*, file: Path, policy: Path | None, as_json: bool, expand: bool) -> None:
    """Say what would be done on this observation, and why."""
    if str(file) == str(policy) == STANDARD_INPUT:
        fail("standard input: holds one file; name the observation or the policy by its path")
    question, rules = _question_or_exit(file, policy_or_exit(policy).policy)
    if expand:
        print_json(to_plain(question))
        return
    decision = engine.decide(question.observation, question.memory, rules)
    if as_json:
        print_json(to_plain(decision))
    else:
        show(decision, rules, Console(highlight=False))


def _question_or_exit(file: Path, policy: Policy) -> tuple[Question, Policy]:
    name = "standard input" if str(file) == STANDARD_INPUT else str(file)
    try:
        return read_question(file, policy)
    except UnreadableError as error:
        fail(f"{name}: {error}")
    except ValidationError as error:
        fail_with_issues(name, error.problems)

"""What a review of a policy finds, told in a terminal: problems end the command, warnings do not."""

import sys

import typer

from nodefleet.policy.cluster import Policy
from nodefleet_tools.cli.policy_file import REFUSED, problem_list
from nodefleet_tools.policy_review import review


def reviewed_or_exit(name: str, policy: Policy) -> None:
    found = review(policy)
    if found.problems:
        print(problem_list(name, found.problems), file=sys.stderr)
        raise typer.Exit(REFUSED)
    for each in found.warnings:
        print(f"Warning: {each.path}: {each.value}: {each.wrong}. To fix it: {each.right}.", file=sys.stderr)

"""The review of a policy at the terminal: problems end the command, warnings do not."""

import sys

from nodefleet.model.serialization import ValidationIssue
from nodefleet.policy.cluster import Policy
from nodefleet_tools.cli.outcome import fail_with_issues, is_json
from nodefleet_tools.policy_review import review


def reviewed_or_exit(name: str, policy: Policy) -> tuple[ValidationIssue, ...]:
    """The warnings of the review, which are printed already, or the end with status 2."""
    found = review(policy)
    if found.problems:
        fail_with_issues(name, found.problems)
    for each in found.warnings if not is_json() else ():
        print(f"Warning: {each.path}: {each.value}: {each.wrong}. To fix it: {each.right}.", file=sys.stderr)
    return found.warnings

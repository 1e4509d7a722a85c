"""Counts in sentences: no f-string puts a bare number before a plural, so that nothing reads "1 pods".

`pluralize` of `model/names.py` (and `some` of the weekly report) choose the form. A number that cannot be 1 where its
sentence is written is listed here with the reason.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodefleet.model.names import pluralize

ROOT = Path(__file__).parents[1]
# What operators read. The simulation's own reports of broken invariants are for developers.
READ_BY_OPERATORS = ("lambda/nodefleet", "tools/nodefleet_tools/cli", "tools/nodefleet_tools/doctor", "infra")
NOUNS = (
    "alerts|budgets|clusters|commands|days|decisions|disruptions|events|evictions|growths|instances|jobs|launches|"
    "messages|minutes|nodes|notices|operations|others|pods|pools|problems|readings|removals|replicas|requests|runners|"
    "runs|samples|series|steps|tasks|times|types|volumes|warnings|weeks|windows|workers|zones"
)
# The words of one noun phrase: a preposition or a verb ends it.
PLURAL = re.compile(
    rf"^ (?:(?!(?:a|and|are|by|follows|for|from|holds|in|is|names|of|on|or|takes|than|the|to|with)\b)[\w-]+ ){{0,2}}"
    rf"({NOUNS})\b"
)
AT_LEAST_TWO = "at least two, or the other form is written beside it"
A_NAME = "a name or a market, no number"
ALLOWED = {
    ("infra/nodefleet_infra/checks.py", "FEWEST_ZONES"): "a constant, 2",
    ("infra/nodefleet_infra/checks.py", "MOST_ZONES"): "a constant, 6",
    ("lambda/nodefleet/adapters/prometheus.py", "len(series)"): AT_LEAST_TWO,
    ("lambda/nodefleet/adapters/prometheus.py", "len(several)"): AT_LEAST_TWO,
    ("lambda/nodefleet/adapters/slack/message.py", "len(told)"): AT_LEAST_TWO,
    ("lambda/nodefleet/engine/data_quality.py", "len(_ready(self.ctx))"): "more than the one that always may be",
    ("lambda/nodefleet/engine/disruption/candidates.py", "on_demand"): AT_LEAST_TWO,
    ("lambda/nodefleet/engine/disruption/candidates.py", "removal_context.zones"): AT_LEAST_TWO,
    (
        "lambda/nodefleet/engine/disruption/orphans.py",
        "len(doubtful)",
    ): "above the limit of cleanups, 1 or more",
    ("lambda/nodefleet/engine/disruption/rotation.py", "time / _DAY"): "two days or more, else in hours",
    ("lambda/nodefleet/engine/disruption/unhealthy.py", "total"): "the brake never holds the only unhealthy worker",
    ("lambda/nodefleet/engine/signals/demand_rules.py", "workers"): AT_LEAST_TWO,
    ("lambda/nodefleet/eviction/budgets.py", "len(keys)"): AT_LEAST_TWO,
    ("lambda/nodefleet/eviction/protection.py", "backoff.failures"): AT_LEAST_TWO,
    ("lambda/nodefleet/model/state.py", "days"): "steps of a constant, none of them 1",
    ("lambda/nodefleet/operations/launch.py", "market"): A_NAME,
    ("lambda/nodefleet/phases.py", "len(pods)"): AT_LEAST_TWO,
    ("lambda/nodefleet/policy/constraints.py", "least"): "more than a cap of 1 or more",
    ("lambda/nodefleet/reconcile/observe.py", "ready"): AT_LEAST_TWO,
    ("lambda/nodefleet/reconcile/preconditions.py", "kind.value"): A_NAME,
    ("lambda/nodefleet/reporting/recommendations.py", "' and '.join((each.name for each in high))"): A_NAME,
    ("lambda/nodefleet/reporting/recommendations.py", "number(busiest)"): "more than max, which is 1 or more",
    ("lambda/nodefleet/reporting/recommendations.py", "number(saved / week.watched)"): "a mean with its decimals",
    ("lambda/nodefleet/reporting/usage.py", "count"): AT_LEAST_TWO,
    ("lambda/nodefleet/reporting/weekly_text.py", "ran"): "more pools than were compared, and one was",
    ("lambda/nodefleet/scheduling/topology.py", "scope"): A_NAME,
    ("tools/nodefleet_tools/cli/backtest.py", "days"): "a span with its decimals",
    ("tools/nodefleet_tools/cli/chaos.py", "tally['runs']"): "of a whole run of chaos",
    ("tools/nodefleet_tools/cli/operators.py", "_LONGEST.days"): "a constant",
    (
        "tools/nodefleet_tools/cli/outcome.py",
        "len(issues)",
    ): "no imports at a command's start",
    ("tools/nodefleet_tools/cli/plan_words.py", "len(listed)"): AT_LEAST_TWO,
    ("tools/nodefleet_tools/cli/run_output.py", "pool.count.booting"): "ready + booting, as a sum: 1+0 nodes",
    ("tools/nodefleet_tools/doctor/ec2_permissions.py", "market.value"): A_NAME,
}


def _bare_counts(source: str) -> Iterator[tuple[int, str]]:
    """Line and expression of every formatted value that a plural follows."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            for value, text in zip(node.values, node.values[1:], strict=False):
                if (
                    isinstance(value, ast.FormattedValue)
                    and isinstance(text, ast.Constant)
                    and PLURAL.match(text.value)
                ):
                    yield value.lineno, ast.unparse(value.value)


def _all_bare_counts() -> Iterator[tuple[str, int, str]]:
    for folder in READ_BY_OPERATORS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if ".venv" not in path.parts:
                name = str(path.relative_to(ROOT))
                yield from ((name, line, value) for line, value in _bare_counts(path.read_text(encoding="utf-8")))


def test_counts_choose_their_form():
    assert [found for found in _all_bare_counts() if (found[0], found[2]) not in ALLOWED] == []


def test_what_is_allowed_is_still_there():
    assert sorted(ALLOWED.keys() - {(name, value) for name, _, value in _all_bare_counts()}) == []


@pytest.mark.parametrize(
    "source",
    ['f"{n} pods wait"', 'f"each of {len(x)} workers"', 'f"{n} ready On-Demand nodes"', 'f"{n} more pods."'],
)
def test_the_check_finds_bare_counts(source):
    assert list(_bare_counts(source))


@pytest.mark.parametrize(
    "source", ["f\"{pluralize(n, 'pod', 'pods')} wait\"", 'f"{name} holds pods"', 'f"{a} of the nodes"', 'f"{x}nodes"']
)
def test_the_check_lets_other_sentences_pass(source):
    assert not list(_bare_counts(source))


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 pods wait"), (1, "1 pod waits"), (2, "2 pods wait"), (1.5, "1.5 pods wait")]
)
def test_a_count_takes_the_form_of_its_number(number, text):
    assert pluralize(number, "pod waits", "pods wait") == text

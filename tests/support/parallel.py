"""Tests on several cores (`pytest -n`): which of them stay in one process, and which begin.

A file's tests stay together, for the fixtures of its module. So do the files that look at the same costly things, since
every process makes its own: days and seeds that are played, stacks that are declared.

What takes longest begins, so that no core waits for it at the end.
"""

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache

import pytest
from xdist.scheduler import LoadFileScheduling

COSTLY = re.compile(r"^from support\.(played_days|infra_mocks) import", re.MULTILINE)  # what they make they keep
# CPU time as measured, the longest first. Anything else is less, and comes by the number of its tests.
LONGEST = (
    "played_days",
    "tests/reconcile/test_crashes.py",
    "infra_mocks",
    "tests/sim/test_chaos_planted.py",
    "tests/infra/test_userdata.py",
    "tests/tools/backtest/test_classic_is_the_engine.py",
    "tests/test_corpus.py",
    "tests/sim/test_sim_pending_pods.py",
    "tests/handlers/test_interruption.py",
    "tests/test_wheel.py",
    "tests/cli/test_init_cli.py",
    "tests/test_layers.py",
    "tests/sim/test_sim_churn.py",
)


class Together(LoadFileScheduling):
    def _split_scope(self, nodeid: str) -> str:
        return group(self.config, nodeid.partition("::")[0])


@cache
def group(config: pytest.Config, file: str) -> str:
    """What a file's tests are together with: a helper's name, or only the file."""
    found = COSTLY.search((config.rootpath / file).read_text(encoding="utf-8"))
    return found[1] if found else file


def longest_first(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the tests in the order in which groups of them are to begin; within a group nothing changes."""
    groups = [group(config, item.nodeid.partition("::")[0]) for item in items]
    sizes = Counter(groups)
    order = sorted(range(len(items)), key=lambda index: (_place(groups[index]), -sizes[groups[index]], groups[index]))
    items[:] = [items[index] for index in order]


def _place(name: str, known: Sequence[str] = LONGEST) -> int:
    return known.index(name) if name in known else len(known)

"""For all tests: profiles for property tests, only calls to AWS that a role of ours may make, and loud skips.

With `-n` each process of pytest-xdist has this file: the calls to AWS are checked after every test, where it ran; the
skips are counted by the one process that reports.
"""

import os
from collections import Counter

import pytest
from hypothesis import settings

from support.aws_calls import aws_calls, every_aws_call_is_granted  # noqa: F401  # fixtures for all tests
from support.botocore_models import service_models_read_once  # noqa: F401  # the same
from support.untraced import untraced
from support.wording import Wordings

settings.register_profile("default", deadline=None, max_examples=60)
settings.register_profile("thorough", deadline=None, max_examples=2000)
settings.register_profile("mutants", deadline=None, max_examples=15, database=None, derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_runtest_setup() -> None:
    Wordings.begin()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    with untraced(item):
        return (yield)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from support.parallel import Together  # noqa: PLC0415  # only where tests run on several cores

    config.option.loadscopereorder = False  # the order is ours, below
    return Together(config, log)


def pytest_collection_modifyitems(config, items) -> None:
    if hasattr(config, "workerinput"):
        from support.parallel import longest_first  # noqa: PLC0415  # the same

        longest_first(config, items)


def pytest_terminal_summary(terminalreporter) -> None:
    """What did not run, and why: one line for each reason, however many tests share it."""
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ") for report in terminalreporter.stats.get("skipped", [])
    )
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"SKIPPED {count} × {reason}", yellow=True)

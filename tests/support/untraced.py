"""Tests whose lines do not count for coverage: they draw many examples, and tracing makes each far more expensive.

Lines that only they reach are not covered: a rule wants a test that shows it by one example.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import coverage
import pytest

DRAWS_MANY = frozenset(
    {
        "test_forecaster.py",  # weeks of readings
        "test_operation_sequences.py",
        "test_simulation_against_plain_scheduler.py",
        "test_fleet_limits_tenants.py",
    }
)


@contextmanager
def untraced(item: pytest.Item) -> Iterator[None]:
    """Pause coverage, if it is measured, while such a test runs."""
    running = coverage.Coverage.current()
    if running is None or not _draws_many(item):
        yield
        return
    running.stop()
    try:
        yield
    finally:
        running.start()


def _draws_many(item: pytest.Item) -> bool:
    drawn = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
    return drawn or Path(item.path).name in DRAWS_MANY

"""What one command leaves in this process must not reach the next test: in production each is a process of its own."""

from collections.abc import Iterator

import pytest

from nodefleet_tools.cli.outcome import expect_json


@pytest.fixture(autouse=True)
def errors_as_sentences() -> Iterator[None]:
    expect_json(())
    yield
    expect_json(())

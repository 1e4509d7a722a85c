"""Whatever an adapter says went wrong names the part that it came from and can be read, in every test of an adapter;
and every one of them runs far from Greenwich, because times outside are in UTC wherever a function runs."""

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from nodefleet.adapters.aws.session import PARTS
from nodefleet.errors import ChangedError, DeniedError, MalformedError, MisconfiguredError, UnavailableError
from nodefleet.model.snapshot import Missing
from support.sentences import is_advice, is_readable

KNOWN = {*PARTS.values(), "Kubernetes", "Prometheus", "Slack", "service-quotas"}


@pytest.fixture(scope="session", autouse=True)
def _far_from_greenwich() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as there:
        there.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture(autouse=True)
def _every_trouble_is_explained(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    made: list[tuple[Any, str]] = []
    for kind in (UnavailableError, DeniedError, ChangedError, MalformedError, MisconfiguredError, Missing):
        monkeypatch.setattr(kind, "__init__", _noting(kind.__init__, made))
    yield
    monkeypatch.undo()
    for trouble, where in made:
        text = trouble.cause if isinstance(trouble, Missing) else str(trouble)
        assert is_readable(text), f"{where}: {text!r}"
        if isinstance(trouble, UnavailableError | DeniedError):
            assert trouble.part in KNOWN, f"{where}: {trouble.part!r}"
            assert trouble.cause, where
        if isinstance(trouble, DeniedError):
            assert is_advice(trouble.remedy), f"{where}: {trouble.remedy!r}"


def _noting(real: Callable[..., None], made: list[tuple[Any, str]]) -> Callable[..., None]:
    """Notes what adapters make; what a test makes itself is its own business."""

    def init(self: Any, *arguments: Any, **options: Any) -> None:
        real(self, *arguments, **options)
        where = sys._getframe(1).f_globals["__name__"]
        if where.startswith("nodefleet.adapters"):
            made.append((self, where))

    return init

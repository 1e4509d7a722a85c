"""The cluster that connects when it is first asked, and again when its login is refused."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Barrier, Thread

import pytest

from nodefleet.adapters.kubernetes.cluster import ReconnectingCluster
from nodefleet.errors import (
    DeniedError,
    LoginRefusedError,
    MisconfiguredError,
    ThrottledError,
    UnavailableError,
    UnreachableError,
)
from nodefleet.model.operations import Cordon, PodRef

POD = PodRef(namespace="default", name="web", uid="u-1")
CORDON = Cordon(node="w1", removal="r-1", reason="CPU 20 %", deadline=datetime(2026, 11, 16, 12, tzinfo=UTC))
REFUSED = LoginRefusedError("Kubernetes", "401", "Renew the token")

CALLS = [
    ("view", (), {}),
    ("node", ("w1",), {}),
    ("nodes", (), {}),
    ("pods_on", ("w1",), {"brief": True}),
    ("cordon", (CORDON, "i-1"), {}),
    ("uncordon", ("w1", "r-1"), {}),
    ("assign", ("w1", "i-1", "web"), {}),
    ("evict", (POD,), {}),
    ("delete_pod", (POD,), {}),
    ("delete_node", ("w1", "i-1"), {}),
    ("note", ("w1", "Leaves", "why"), {"warning": True}),
]


class Connection:
    """Answers every call with its name, or as it is told."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.asked: list[tuple[str, tuple[object, ...], dict[str, object]]] = []
        self.closed = 0

    @property
    def calls(self) -> int:
        return len(self.asked)

    def close(self) -> None:
        self.closed += 1

    def __getattr__(self, name: str):
        def call(*arguments: object, **options: object) -> str:
            self.asked.append((name, arguments, options))
            if self.errors:
                raise self.errors.pop(0)
            return name

        return call


@dataclass
class Late:
    """A late cluster, and what came of its connecting."""

    to_come: list[Connection | Exception]
    made: list[Connection] = field(default_factory=list)
    refreshed: int = 0

    def __post_init__(self) -> None:
        self.cluster = ReconnectingCluster(self._connect, self._refresh)

    def _connect(self) -> Connection:
        coming = self.to_come.pop(0)
        if isinstance(coming, Exception):
            raise coming
        self.made.append(coming)
        return coming

    def _refresh(self) -> None:
        self.refreshed += 1


def test_it_connects_when_it_is_first_asked_and_only_once():
    late = Late([Connection()])
    assert (late.made, late.cluster.calls) == ([], 0)
    late.cluster.view()
    late.cluster.node("w1")
    assert len(late.made) == 1
    assert late.cluster.calls == 2


@pytest.mark.parametrize(("name", "arguments", "options"), CALLS)
def test_every_call_is_passed_on_as_it_is_and_made_again_after_a_refusal(name, arguments, options):
    late = Late([Connection(REFUSED), Connection()])
    answer = getattr(late.cluster, name)(*arguments, **options)
    assert answer in (name, None)  # what changes something has no answer
    first, second = late.made
    assert first.asked == second.asked == [(name, arguments, options)]


def test_a_refused_login_is_said_and_the_old_connection_is_closed():
    late = Late([Connection(REFUSED), Connection()])
    assert late.cluster.view() == "view"
    assert (late.refreshed, late.made[0].closed, late.made[1].closed) == (1, 1, 0)


def test_calls_of_closed_connections_still_count():
    late = Late([Connection(REFUSED), Connection()])
    late.cluster.view()
    late.cluster.view()
    assert late.cluster.calls == 3


def test_a_login_that_is_refused_again_is_an_error_and_the_next_call_tries_anew():
    """Secrets Manager may not be asked again within some seconds."""
    late = Late([Connection(REFUSED), Connection(REFUSED), Connection()])
    with pytest.raises(LoginRefusedError):
        late.cluster.view()
    late.made[1].errors.append(REFUSED)
    assert late.cluster.view() == "view"
    assert late.refreshed == 2


@pytest.mark.parametrize(
    "error", [UnavailableError("Kubernetes", "timed out"), DeniedError("Kubernetes", "403", "Allow it")]
)
def test_other_errors_pass_and_keep_the_connection(error):
    late = Late([Connection(error)])
    with pytest.raises(type(error)):
        late.cluster.evict(POD)
    assert late.cluster.view() == "view"
    assert (len(late.made), late.refreshed) == (1, 0)


@pytest.mark.parametrize("error", [MisconfiguredError("no such secret"), UnavailableError("Secrets Manager", "away")])
def test_a_login_that_cannot_be_had_is_asked_for_again_by_the_next_call(error):
    late = Late([error, Connection()])
    with pytest.raises(type(error)):
        late.cluster.view()
    assert late.cluster.calls == 0
    assert late.cluster.view() == "view"


def test_a_renewed_login_that_cannot_be_had_leaves_nothing_broken_behind():
    late = Late([Connection(REFUSED), UnavailableError("Secrets Manager", "away"), Connection()])
    with pytest.raises(UnavailableError):
        late.cluster.view()
    assert late.cluster.view() == "view"
    assert late.made[0].closed == 1


def test_threads_that_are_refused_together_renew_the_login_once():
    refused = Connection(REFUSED, REFUSED)
    late = Late([refused, Connection()])
    late.cluster._ensure_connected()
    together = Barrier(2)
    real = refused.__getattr__

    def view() -> str:
        together.wait(5)
        return real("view")()

    refused.view = view  # both have the old connection before either is refused
    answers: list[object] = []
    threads = [Thread(target=lambda: answers.append(late.cluster.view())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    assert answers == ["view", "view"]
    assert (late.refreshed, refused.closed, len(late.made)) == (1, 1, 2)


# ── nobody answers ───────────────────────────────────────────────────────────────────────────────────────────────

NOBODY = UnreachableError("Kubernetes", "certificate verify failed")
SAYS_NO = UnavailableError("Kubernetes", "500 failed calling webhook")


def failing(late: Late) -> None:
    with pytest.raises(UnavailableError):
        late.cluster.view()


def test_after_two_calls_that_nobody_answered_address_and_certificate_are_read_again():
    late = Late([Connection(NOBODY, NOBODY), Connection()])
    failing(late)
    assert late.refreshed == 0
    failing(late)
    assert (late.refreshed, late.made[0].closed) == (1, 1)
    assert late.cluster.view() == "view"
    assert late.cluster.calls == 3


@pytest.mark.parametrize("between", [[SAYS_NO], [ThrottledError("Kubernetes", "429")]])
def test_a_server_that_says_no_is_there(between):
    late = Late([Connection(NOBODY, *between, NOBODY)])
    for _ in range(3):
        failing(late)
    assert late.cluster.view() == "view"
    assert (late.refreshed, len(late.made)) == (0, 1)


def test_while_it_is_away_it_is_asked_for_anew_every_second_time():
    late = Late([Connection(*[NOBODY] * 2), Connection(*[NOBODY] * 2), Connection()])
    for _ in range(4):
        failing(late)
    assert late.cluster.view() == "view"
    assert late.refreshed == 2


@pytest.mark.parametrize(
    ("first", "refreshed"),
    [([NOBODY], 0), ([NOBODY, REFUSED], 1)],
    ids=["an answer", "a login that was renewed"],
)
def test_whoever_answers_ends_the_count(first, refreshed):
    late = Late([Connection(*first), Connection(), Connection()])
    failing(late)
    assert late.cluster.view() == "view"
    late.made[-1].errors += [NOBODY, NOBODY]
    failing(late)
    assert late.refreshed == refreshed
    failing(late)
    assert late.refreshed == refreshed + 1

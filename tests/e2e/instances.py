"""Function instances: each invocation in a process of its own, as Lambda gives every concurrent run its own.

They are forked from a server that has imported everything, so that fifty are there within seconds, and share nothing
with each other or with the test. A gate stops an instance right before some call until the test lets it go on, so that
what happens meanwhile happens at a moment of the test's choosing.
"""

import multiprocessing
import os
import pkgutil
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import StringIO
from multiprocessing.connection import Connection, wait
from typing import Any
from uuid import uuid4

# The methods of what the loop uses are named by the class that adapters give it.
LOOK = "nodefleet.reconcile.run:reconcile_once"
ACQUIRE = "nodefleet.adapters.dynamodb.store:DynamoStore.acquire"
COMMIT = "nodefleet.adapters.dynamodb.store:DynamoStore.commit"
RELEASE = "nodefleet.adapters.dynamodb.store:DynamoStore.release"
LAUNCH = "nodefleet.adapters.aws.ec2:Ec2.launch"
CLAIM = "nodefleet.adapters.dynamodb.delivery_log:DynamoDeliveryLog.claim"

PATIENCE = 240.0  # seconds for whatever a test waits for: fifty processes on a busy instance take their time
_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(
    [
        "__main__",
        "boto3",
        "kubernetes.client",
        "nodefleet.adapters.aws.archive",
        "nodefleet.adapters.aws.ec2",
        "nodefleet.adapters.aws.secrets",
        "nodefleet.adapters.dynamodb.delivery_log",
        "nodefleet.adapters.dynamodb.store",
        "nodefleet.adapters.dynamodb.store",
        "nodefleet.adapters.sources.read",
        "nodefleet.adapters.sources.read",
        "nodefleet.adapters.kubernetes.cluster",
        "nodefleet.adapters.kubernetes.cluster",
        "nodefleet.policy.loading",
        "nodefleet.adapters.prometheus",
        "nodefleet.adapters.slack.webhook",
        "nodefleet.handlers.notify",
        "nodefleet.handlers.reconcile",
        "requests",
    ]
)


class Gate:
    """Whoever comes to it for the first time waits until it is opened. One gate may be several instances'."""

    def __init__(self, before: str) -> None:
        self.before = before
        self._reached, self._opened = _SERVER.Event(), _SERVER.Event()

    def wait_for_somebody(self) -> None:
        assert self._reached.wait(PATIENCE), f"nobody came to {self.before}"

    def open(self) -> None:
        self._opened.set()

    def pass_through(self) -> None:
        self._reached.set()
        assert self._opened.wait(PATIENCE), f"the gate before {self.before} stayed shut"


class StartLine:
    """So many instances wait for each other, and go on at the same moment."""

    def __init__(self, before: str, count: int) -> None:
        self.before = before
        self._barrier = _SERVER.Barrier(count)

    def pass_through(self) -> None:
        self._barrier.wait(PATIENCE)


@dataclass(frozen=True, kw_only=True)
class Order:
    """What an instance is to do."""

    handler: str  # a module below nodefleet.handlers
    event: Any
    environment: Mapping[str, str]
    gates: Sequence[Gate | StartLine] = ()
    limit: timedelta = timedelta(minutes=10)  # far away, unless a test wants it near
    at: datetime | None = None  # what its clock shows when it starts; none: the time that it is


@dataclass(frozen=True, kw_only=True)
class Outcome:
    answer: Any = None
    error: str = ""  # the class of what was raised, and its words
    printed: str = ""


class Instance:
    def __init__(self, order: Order) -> None:
        self.answers, theirs = _SERVER.Pipe(duplex=False)
        self.process = _SERVER.Process(target=_invoked, args=(order, theirs), daemon=True)
        self.process.start()
        theirs.close()

    def outcome(self) -> Outcome:
        assert self.answers.poll(PATIENCE), "the instance does not answer"
        outcome: Outcome = self.answers.recv()
        self.process.join(PATIENCE)
        return outcome

    def kill(self) -> None:
        """As when the instance under it goes: nothing is cleaned up."""
        self.process.kill()
        self.process.join(PATIENCE)


def wait_until_answered(instances: Sequence[Instance], count: int) -> None:
    """Until so many of them have."""
    silent = {instance.answers for instance in instances}
    while len(instances) - len(silent) < count:
        heard = wait(silent, PATIENCE)
        assert heard, f"{len(silent)} instances do not answer"
        silent -= {*heard}


def _invoked(order: Order, answers: Connection) -> None:
    """In the instance's own process."""
    os.environ.clear()
    os.environ.update(order.environment)
    printed = StringIO()
    try:
        with redirect_stdout(printed):
            answer = _handled(order)
        outcome = Outcome(answer=answer, printed=printed.getvalue())
    except Exception as error:  # noqa: BLE001  # as Lambda: whatever it is, it is the answer
        words = f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
        outcome = Outcome(error=words, printed=printed.getvalue())
    answers.send(outcome)


def _handled(order: Order) -> Any:
    from nodefleet import bootstrap  # noqa: PLC0415  # the server has it already; the test need not
    from nodefleet.adapters import clock as machine_time  # noqa: PLC0415
    from nodefleet.adapters.aws import session  # noqa: PLC0415

    ahead = order.at - datetime.now(UTC) if order.at else timedelta(0)

    def clock() -> datetime:
        return datetime.now(UTC) + ahead

    machine_time.utc_now = bootstrap.utc_now = clock
    session.TABLE_READ_SECONDS = 60  # fifty on two cores wait for each other
    for gate in order.gates:
        _shut(gate)
    handler = pkgutil.resolve_name(f"nodefleet.handlers.{order.handler}:handler")
    return handler(order.event, _Context(clock, clock() + order.limit))


class _Context:
    """Lambda's, as far as it is used."""

    def __init__(self, clock: Callable[[], datetime], ends: datetime) -> None:
        self._clock, self._ends = clock, ends
        self.aws_request_id = str(uuid4())

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int((self._ends - self._clock()).total_seconds() * 1000))


def _shut(gate: Gate | StartLine) -> None:
    holder, name = _split(gate.before)
    owner = pkgutil.resolve_name(holder)
    real: Callable[..., Any] = getattr(owner, name)
    passed: list[bool] = []

    def waits(*args: Any, **options: Any) -> Any:
        if not passed:
            passed.append(True)
            gate.pass_through()
        return real(*args, **options)

    setattr(owner, name, waits)


def _split(place: str) -> tuple[str, str]:
    """What holds the function, and the function's name there."""
    module, _, within = place.partition(":")
    owner, _, name = within.rpartition(".")
    return (f"{module}:{owner}" if owner else module), name

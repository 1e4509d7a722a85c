"""Every call of a port passes here, before and after its effect.

One proxy serves all ports, so that a test can count the calls of a run, let any of them fail before or after it took
effect, kill the run at it, change its answer, or let another run go in between.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar, cast

P = TypeVar("P")

# The ports whose calls leave the process. Numbers count these only.
EXTERNAL = frozenset({"cloud", "cluster", "gauges", "store", "history", "archive", "time"})
_INSIDE = frozenset({"now", "remaining", "calls"})  # reading one's own watch is no call


class KilledError(BaseException):
    """The process of a run ends here. No `except Exception` sees it."""


class Moment(Enum):
    BEFORE = "before"  # nothing has happened yet
    AFTER = "after"  # it took effect, and the answer is on its way


@dataclass(slots=True, kw_only=True)
class Call:
    run: str
    number: int  # 1, 2, … of this run's external calls; 0 for one that stays inside the process
    port: str
    method: str
    arguments: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    moment: Moment = Moment.BEFORE
    result: Any = None  # after the effect; a hook may put another one in its place

    @property
    def name(self) -> str:
        return f"{self.port}.{self.method}"

    def __str__(self) -> str:
        return f"{self.run} #{self.number} {self.name} ({self.moment.value})"


Hook: TypeAlias = Callable[[Call], None]


@dataclass(slots=True, kw_only=True)
class Run:
    """One run of the loop, as the world sees it."""

    name: str
    limit: datetime  # when it is stopped from outside
    hooks: list[Hook] = field(default_factory=list)
    calls: int = 0  # external ones so far
    fence: int | None = None  # of the lease that it was given last; none: it has let go, or never had one
    dead: bool = False  # its process has ended: not even a `finally` reaches the outside any more
    log: list[str] = field(default_factory=list)  # the external calls by name, in order
    # what the guard needs to know of it
    began: datetime | None = None
    looked_at: datetime | None = None  # when its last iteration began
    wake_seen: int | None = None  # what that iteration knew of wake-ups
    interrupted: frozenset[str] = frozenset()  # … and which instances it knew that EC2 takes
    looked_before: tuple[datetime, int, frozenset[str]] | None = None  # the same, read before it had the lease
    recorded: set[str] = field(default_factory=set)  # instances whose notices it put into the table
    unheard: str = ""  # it released the lease though it was woken since
    checked: dict[str, datetime] = field(default_factory=dict)  # when it last asked for a node or its pods
    unread: dict[str, str] = field(default_factory=dict)  # pools whose readings were not there in truth, and why

    def counted(self, port: str, method: str) -> int:
        if port not in EXTERNAL:
            return 0
        self.calls += 1
        self.log.append(f"{port}.{method}")
        return self.calls


class Gate(Protocol):
    """What the world itself does to a call: time limits, outages, delays, its own hooks, checks afterwards."""

    def before(self, run: Run, call: Call) -> None: ...

    def after(self, run: Run, call: Call) -> None: ...


def hooked(port: P, name: str, run: Run, gate: Gate) -> P:
    """The same port, with every call passing the gate and the run's hooks."""
    return cast("P", _Hooked(port, name, run, gate))


class _Hooked:
    def __init__(self, port: Any, name: str, run: Run, gate: Gate) -> None:
        self._port, self._name, self._run, self._gate = port, name, run, gate

    def __getattr__(self, method: str) -> Any:
        held = getattr(self._port, method)
        if method in _INSIDE or not callable(held):
            return held
        return partial(self._pass, method, held)

    def _pass(self, method: str, effect: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        if self._run.dead:
            raise KilledError(f"{self._run.name} has ended")
        call = Call(
            run=self._run.name,
            number=self._run.counted(self._name, method),
            port=self._name,
            method=method,
            arguments=arguments,
            options=options,
        )
        try:
            self._hooks(call)
            self._gate.before(self._run, call)
            call.result = effect(*arguments, **options)
            call.moment = Moment.AFTER
            self._hooks(call)
            self._gate.after(self._run, call)
        except KilledError:
            self._run.dead = True
            raise
        return call.result

    def _hooks(self, call: Call) -> None:
        for hook in tuple(self._run.hooks):
            hook(call)


# ── hooks that tests want ────────────────────────────────────────────────────────────────────────────────────────


def at_call(number: int, moment: Moment, act: Callable[[], object]) -> Hook:
    """Do something at one of the run's external calls: raise an error, raise KilledError, play another run."""

    def hook(call: Call) -> None:
        if call.number == number and call.moment is moment:
            act()

    return hook


def when(name: str, moment: Moment, act: Callable[[], object], *, times: int = 1) -> Hook:
    """The same, at the first calls of one method: when("cloud.launch", …)."""
    left = [times]

    def hook(call: Call) -> None:
        if call.name == name and call.moment is moment and left[0] > 0:
            left[0] -= 1
            act()

    return hook


def raising(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


def killed(number: int, moment: Moment) -> Hook:
    """The process dies at this call."""
    return at_call(number, moment, raising(KilledError(f"killed {moment.value} call {number}")))


class Sequential:
    """Together, one after the other: which order real threads would take is the hooks' business, not chance's."""

    def __call__(self, *calls: Callable[[], Any]) -> list[Any]:
        return [_result(call) for call in calls]


def _result(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:  # noqa: BLE001  # the port hands errors over as values
        return error

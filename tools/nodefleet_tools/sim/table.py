"""One cluster's records as a table would hold them: JSON text made by the codec, by kind and key.

So nothing gets in that a real table could not hold, and nothing that is read shares memory with what was written. A
text that was read once is not read again: what it stands for cannot be changed.
"""

import json
import zlib
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from nodefleet.model.decision import DecisionRecord, Event, PolicyVersion
from nodefleet.model.inventory import Notice
from nodefleet.model.operations import Cleanup, Launch, Operation, Removal
from nodefleet.model.serialization import from_plain, kind_of, to_plain
from nodefleet.model.snapshot import Adopt, Deployment, Drain, KnownPrices, Pause, Recycle, Scale, TuningResult
from nodefleet.model.state import LoopState
from nodefleet.ports import Lease, State
from nodefleet_tools.sim.clock import Clock

T = TypeVar("T")

_TTL = {"decision": timedelta(days=30), "event": timedelta(days=30), "usage": timedelta(days=400)}
_POLICY_DIGITS = 6
_LONG = 100_000  # bytes
_OPERATIONS = {kind_of(cls): cls for cls in (Launch, Removal, Cleanup)}
_COMMANDS = {kind_of(cls): cls for cls in (Pause, Scale, Adopt, Drain, Recycle)}


@dataclass(slots=True, kw_only=True)
class _Item:
    text: str
    written_at: datetime
    expires: datetime | None = None
    read: list[Any] = field(default_factory=list)  # what the text stands for, once it was read


class Table:
    """The items, by kind of record and key. Expired ones go when their kind is next read: a TTL is lazy."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.items: dict[str, dict[str, _Item]] = defaultdict(dict)
        self.lease: Lease | None = None
        self.fence = 0
        self.wake = 0
        self.seed: dict[str, Any] = {}

    def put(self, kind: str, key: str, value: Any, *, type_: str = "") -> int:
        """Store it, and say how many bytes it takes; long ones are compressed."""
        plain = to_plain(value)
        text = json.dumps({"kind": type_, "value": plain} if type_ else plain, sort_keys=True, allow_nan=False)
        ttl = _TTL.get(kind)
        self.items[kind][key] = _Item(
            text=text, written_at=self.clock.now, expires=self.clock.now + ttl if ttl else None
        )
        return len(text) if len(text) < _LONG else len(zlib.compress(text.encode()))

    def put_policy(self, version: PolicyVersion, kind: str = "policy") -> int:
        return self.put(kind, _policy_key(version) if kind == "policy" else "", version)

    def drop(self, kind: str, key: str) -> None:
        self.items[kind].pop(key, None)

    def has(self, kind: str, key: str) -> bool:
        return key in self.items[kind]

    def stored(self, kind: str, read: Callable[[Any], T]) -> list[T]:
        """What there is of a kind, by key, as `read` understands its plain form."""
        if kind in _TTL:
            live = {key: item for key, item in self.items[kind].items() if not self._is_over(item)}
            self.items[kind] = live
        held = self.items[kind]
        return [_read(held[key], read) for key in sorted(held)]

    def all(self, kind: str, cls: type[T]) -> list[T]:
        return self.stored(kind, lambda plain: from_plain(cls, plain))

    def either(self, kind: str, classes: dict[str, type[Any]]) -> list[Any]:
        return self.stored(kind, lambda plain: from_plain(classes[plain["kind"]], plain["value"]))

    def _is_over(self, item: _Item) -> bool:
        return item.expires is not None and item.expires < self.clock.now

    @property
    def size(self) -> int:
        """In bytes, as far as the texts go."""
        return sum(len(item.text) for held in self.items.values() for item in held.values())

    # ── for setting the scene, and for looking at what came of it ────────────────────────────────────────────────

    @property
    def operations(self) -> tuple[Operation, ...]:
        return tuple(self.either("operation", _OPERATIONS))

    @property
    def events(self) -> tuple[Event, ...]:
        return tuple(self.all("event", Event))

    @property
    def decisions(self) -> tuple[DecisionRecord, ...]:
        return tuple(self.all("decision", DecisionRecord))

    @property
    def policies(self) -> list[PolicyVersion]:
        """By number. A policy's data is plain already, whatever it holds."""
        return self.stored("policy", _policy)

    @property
    def journal(self) -> LoopState:
        return next(iter(self.all("journal", LoopState)), LoopState())

    @property
    def commands(self) -> tuple[Pause | Scale, ...]:
        return tuple(self.either("command", _COMMANDS))

    @property
    def notices(self) -> tuple[Notice, ...]:
        return tuple(self.all("notice", Notice))

    def notices_since(self, since: datetime) -> tuple[Notice, ...]:
        """Those that were recorded since then: EC2's events may come late."""
        items = self.items["notice"]
        recent = [items[key].written_at > since for key in sorted(items)]
        return tuple(notice for notice, is_recent in zip(self.notices, recent, strict=True) if is_recent)

    def state(self) -> State:
        return State(
            fence=self.fence,
            wake=self.wake,
            journal=self.journal,
            operations=self.operations,
            notices=self.notices,
            commands=self.commands,
            policy=next(reversed(self.policies), None),
            declared=next(iter(self.stored("declared", _policy)), None),
            deployment=next(iter(self.all("deployment", Deployment)), None),
            prices=next(iter(self.all("prices", KnownPrices)), None),
            tuned=tuple(self.all("tuning", TuningResult)),
        )


def _read(item: _Item, read: Callable[[Any], T]) -> T:
    if not item.read:
        item.read.append(read(json.loads(item.text)))
    found: T = item.read[0]
    return found


def _policy(plain: dict[str, Any]) -> PolicyVersion:
    return PolicyVersion(**{**plain, "at": from_plain(datetime, plain["at"])})


def _policy_key(version: PolicyVersion) -> str:
    return f"{version.number:0{_POLICY_DIGITS}}"


def stamp(at: datetime) -> str:
    """A time whose texts sort as the times do."""
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"

"""What people are told: each thing once.

A decision says what is so on every look. It is news when it was not so before, and again when it has been so for a
long time. Figures change from look to look, so two sentences that differ only in numbers are the same thing.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256

from nodefleet.domain.events import Event, EventKind
from nodefleet.domain.journal import Said
from nodefleet.domain.policy import Messages

_NUMBER = re.compile(r"(?<![\w-])\d[\d.,:-]*(?![\w-])")


def key_of(kind: str, pool: str, text: str) -> str:
    """The same for the same thing, whatever its figures."""
    return sha256(f"{kind}|{pool}|{_NUMBER.sub('#', text)}".encode()).hexdigest()[:16]


def event_id(cluster: str, key: str, at: datetime) -> str:
    return f"{key}-{sha256(f'{cluster}|{key}|{at.isoformat()}'.encode()).hexdigest()[:12]}"


@dataclass(slots=True)
class Saying:
    """What has been said so far, and what is said in this look."""

    cluster: str
    now: datetime
    rules: Messages
    said: dict[str, Said] = field(default_factory=dict)

    @classmethod
    def since(cls, said: Mapping[str, Said], cluster: str, now: datetime, rules: Messages) -> "Saying":
        """What has not been so for a long time is forgotten: it would be news again anyway."""
        kept = {key: each for key, each in said.items() if now - each.seen_at < rules.remind_after}
        return cls(cluster=cluster, now=now, rules=rules, said=kept)

    def is_news(self, key: str) -> bool:
        """Whether people should hear of it now; notes that it is so."""
        known = self.said.get(key)
        news = (
            known is None
            or self.now - known.seen_at >= self.rules.over_after
            or self.now - known.told_at >= self.rules.remind_after
        )
        told_at = self.now if news or known is None else known.told_at
        self.said[key] = Said(told_at=told_at, seen_at=self.now)
        return news

    def event(self, kind: EventKind, pool: str, text: str) -> Event | None:
        """The event, if it is news."""
        key = key_of(kind.value, pool, text)
        if not self.is_news(key):
            return None
        return self.made(kind, pool, text, key=key)

    def made(self, kind: EventKind, pool: str, text: str, *, key: str = "") -> Event:
        """An event for something that happened just now, whether or not the like happened before."""
        key = key or key_of(kind.value, pool, text)
        return Event(
            id=event_id(self.cluster, key, self.now), at=self.now, cluster=self.cluster, kind=kind, pool=pool, text=text
        )


def only_news(events: Iterable[Event | None]) -> tuple[Event, ...]:
    return tuple(event for event in events if event is not None)

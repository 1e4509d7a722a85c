"""Deduplication: an alert is sent once for each condition, not once for each iteration.

Kind, pool and subjects identify an alert; figures, pod names and the wording do not. An alert with several subjects is
new when one of its subjects is new. An alert is sent again

    when                                                     after
    the condition lasts                                      remind_after; remind_critical if it is critical
    the condition ended for a while and is back              over_after; a condition that is visible only when a launch
                                                             or a drain is attempted again counts as lasting

Of many new alerts of one kind and pool with different subjects, `most` are sent within remind_after, and the last of
them says until when the others are held back. Interruptions, forced deletions and readmissions are never held back:
each happens to a node once, and EC2 limits their number.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import sha256

from nodefleet.model.alerts import CRITICAL, NEVER_HELD_BACK, SEEN_ON_ATTEMPTS, AlertKind
from nodefleet.model.decision import Event
from nodefleet.model.state import AlertRecord
from nodefleet.policy.cluster import Messages


def key_of(kind: str, pool: str, subject: str) -> str:
    return sha256(f"{kind}|{pool}|{subject}".encode()).hexdigest()[:16]


def event_id(cluster: str, key: str, at: datetime) -> str:
    return f"{key}-{sha256(f'{cluster}|{key}|{at.isoformat()}'.encode()).hexdigest()[:12]}"


@dataclass(slots=True)
class AlertDeduplicator:
    """The alerts sent so far, and those of this iteration."""

    cluster: str
    now: datetime
    rules: Messages
    records: dict[str, AlertRecord] = field(default_factory=dict)

    @classmethod
    def since(
        cls, records: Mapping[str, AlertRecord], cluster: str, now: datetime, rules: Messages
    ) -> "AlertDeduplicator":
        """Restore the stored records. Conditions not observed for remind_after are dropped: they count as new."""
        kept = {key: each for key, each in records.items() if now - each.seen_at < rules.remind_after}
        return cls(cluster=cluster, now=now, rules=rules, records=kept)

    def is_news(self, key: str) -> bool:
        """Whether a condition is new or due for a reminder. Records that it was observed now."""
        known = self.records.get(key)
        news = known is None or self._is_back(known) or self._is_due(known, self.rules.remind_after)
        self._remember(key, alerted=news)
        return news

    def event(
        self, kind: AlertKind, pool: str, text: str, subjects: Iterable[str] = (), *, critical: bool = False
    ) -> Event | None:
        """The event to send; None if the alert repeats a known condition or is held back."""
        unique = tuple(dict.fromkeys(subjects))
        keys = [key_of(kind.value, pool, subject) for subject in sorted(unique) or [""]]
        known = [self.records.get(key) for key in keys]
        is_critical = critical or kind in CRITICAL
        remind = self.rules.remind_critical if is_critical else self.rules.remind_after
        back = any(each is None or (kind not in SEEN_ON_ATTEMPTS and self._is_back(each)) for each in known)
        if back and not self._has_room(kind, pool):
            for key, each in zip(keys, known, strict=True):
                if each is not None:
                    self._remember(key, alerted=False)
            return None
        news = back or any(each is not None and self._is_due(each, remind) for each in known)
        for key in keys:
            self._remember(key, alerted=news)
        if not news:
            return None
        text += self._count_alert(kind, pool) if back else ""
        return self.make_event(kind, pool, text, unique, key=keys[0])

    def make_event(
        self, kind: AlertKind, pool: str, text: str, subjects: Iterable[str] = (), *, key: str = ""
    ) -> Event:
        """An event without deduplication, for something that happened just now. Subjects distinguish two events of the
        same kind, pool and time."""
        unique = tuple(subjects)
        key = key or key_of(kind.value, pool, ",".join(unique))
        return Event(
            id=event_id(self.cluster, key, self.now),
            at=self.now,
            cluster=self.cluster,
            kind=kind,
            pool=pool,
            subjects=unique,
            text=text,
        )

    # ── frequency ────────────────────────────────────────────────────────────────────────────────────────────────

    def _is_back(self, known: AlertRecord) -> bool:
        return self.now - known.seen_at >= self.rules.over_after

    def _is_due(self, known: AlertRecord, remind: timedelta) -> bool:
        return self.now - known.told_at >= remind

    def _remember(self, key: str, *, alerted: bool) -> None:
        known = self.records.get(key)
        told_at = self.now if alerted or known is None else known.told_at
        self.records[key] = AlertRecord(told_at=told_at, seen_at=self.now)

    def _window(self, kind: AlertKind, pool: str) -> tuple[str, AlertRecord]:
        """The record that counts new alerts of this kind and pool; `told_at` is when the count started."""
        key = key_of(kind.value, pool, "*")
        known = self.records.get(key)
        if known is None or self._is_due(known, self.rules.remind_after):
            known = AlertRecord(told_at=self.now, seen_at=self.now)
        return key, known

    def _has_room(self, kind: AlertKind, pool: str) -> bool:
        return kind in NEVER_HELD_BACK or self._window(kind, pool)[1].times < self.rules.most

    def _count_alert(self, kind: AlertKind, pool: str) -> str:
        """Count a new alert. Returns the text to append to the last alert before the others are held back."""
        if kind in NEVER_HELD_BACK:
            return ""
        key, window = self._window(kind, pool)
        self.records[key] = replace(window, seen_at=self.now, times=window.times + 1)
        if window.times + 1 < self.rules.most:
            return ""
        until = window.told_at + self.rules.remind_after
        return f" (Further new alerts of this kind are held back until {until:%H:%M} UTC.)"

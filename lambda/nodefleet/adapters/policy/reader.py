"""Policies as the loop reads them. A text that was read once is not read again: it is the same on every look."""

import json
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from nodefleet.adapters.policy.load import load, salvage
from nodefleet.adapters.policy.schedule import active_windows, utc_offset
from nodefleet.domain.observation import ActiveWindow
from nodefleet.domain.policy import Policy

_KEPT = 16  # texts


def digest_of(data: Any) -> str:
    """The same for the same content, however its keys are ordered."""
    return sha256(json.dumps(data, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


class PolicyReader:
    def __init__(self) -> None:
        self._read: dict[str, Policy] = {}

    def read(self, data: Any) -> Policy:
        digest = digest_of(data)
        if digest not in self._read:
            if len(self._read) >= _KEPT:
                self._read.clear()
            self._read[digest] = load(data).policy
        return self._read[digest]

    def salvage(self, data: Any) -> Policy:
        return salvage(data)

    def windows(self, policy: Policy, now: datetime) -> tuple[ActiveWindow, ...]:
        return active_windows(policy, now)

    def utc_offset(self, policy: Policy, now: datetime) -> timedelta:
        return utc_offset(policy, now)

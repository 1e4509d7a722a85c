"""The default policy in compressed time: two minutes are four seconds. Every number of it is policy."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from nodefleet.policy.pool import Queries

INTERVAL = 4  # seconds; 120 otherwise
_RATES = {
    each.name: str(each.default).replace("[5m]", "[5s]").replace("[2m]", "[2m]" if each.name == "load" else "[5s]")
    for each in fields(Queries)
}

COMPRESSED: Mapping[str, Any] = {
    "interval": INTERVAL,
    "lease": 30,
    "limits": {"min": 2, "max": 8},
    "cooldown": {"up": 10, "down": 20},
    "trust": {"stale_after": 15, "cache_for": 20, "gap": 4, "recovery_hold": 20, "clock_skew": 1},
    "burst": {"every": 1, "budget": 3.5, "reserve": 1},
    "predictive": {"enabled": False},
    "market": {"types": ["t3.small", "t3a.small"]},
    # Not compressed as much: an instance that joins late because the computer is busy would be replaced.
    "health": {"join_limit": 120, "not_ready_limit": 60, "probe_first": 4, "probe_longest": 20},
    "removal": {
        "drain_timeout": 20,
        "stuck_after": 2,
        "notice": 16,
        "force_after": 12,
        "false_alarm_after": 60,
        "retry_first": 20,
        "retry_longest": 120,
    },
    "budgets": {"cleanup_after": 4},
    "queries": _RATES,
}


def compressed(**changes: Any) -> dict[str, Any]:
    """With other values: `compressed(limits={"min": 4})`. Tables merge field by field."""
    return _merged(COMPRESSED, changes)


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        known = merged.get(key)
        merged[key] = _merged(known, value) if isinstance(known, Mapping) and isinstance(value, Mapping) else value
    return merged

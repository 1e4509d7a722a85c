"""The outcome of a decision as typed values: actions, targets, bounds, steps, alerts, and what is remembered.

No sentence is part of it. Two releases that differ only in wording give the same outcome and the same digest, so a
stored corpus of decisions can be compared across any rewording. The words used here are those of the stored records
and stay the same when classes are renamed.
"""

import json
from collections.abc import Iterable
from datetime import datetime
from hashlib import sha256
from typing import Any, TypeAlias, assert_never

from nodefleet.model.decision import Bound, Decision, KeptNode, Overruled, PoolDecision
from nodefleet.model.operations import (
    Assign,
    CancelRemoval,
    Cleanup,
    Close,
    Cordon,
    Create,
    DeleteNode,
    Evict,
    ForceDelete,
    KeepWarm,
    Launch,
    MarkFailed,
    Operation,
    PodRef,
    Removal,
    Save,
    SendAlert,
    SendLaunch,
    Step,
    TakeOver,
    Terminate,
    Uncordon,
)
from nodefleet.model.serialization import to_plain
from nodefleet.model.state import Memory

Outcome: TypeAlias = dict[str, Any]
_DIGITS = 16  # of a digest: a corpus has some thousands of decisions
_FIGURES = 6  # decimals of what is remembered: another processor may round the last one otherwise
_WORDING = frozenset({"sentence", "blocker", "cause"})  # of what is remembered: for operators only


def outcome_of(decision: Decision) -> Outcome:
    return {
        "level": decision.level.value,
        "pools": [_pool(pool) for pool in decision.pools],
        "alerts": _alerts(decision.tells),
        "steps": _steps(decision.plan),
        "requeue": bool(decision.look_again),
        "memory": _memory(decision.memory),
    }


def digest_of(outcome: Outcome) -> str:
    text = json.dumps(outcome, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return sha256(text.encode()).hexdigest()[:_DIGITS]


def summary_of(outcome: Outcome) -> str:
    """The decision in one line, to compare two of them by."""
    said = [f"{pool['pool']}: {_pool_summary(pool)}" for pool in outcome["pools"]]
    said += [f"alert {alert[0]}" for alert in outcome["alerts"]]
    said += [f"step {_step_summary(step)}" for step in outcome["steps"]]
    return f"{outcome['level']}; {'; '.join(said)}" if said else outcome["level"]


def _pool_summary(pool: Outcome) -> str:
    dry = ["dry run"] if pool["dry_run"] else []
    overruled = [f"{each[0]} < {each[4]}" for each in pool["overruled"]]
    said = [*dry, *_counted(map(_step_summary, pool["steps"])), *_counted(alert[0] for alert in pool["alerts"])]
    return ", ".join([f"{pool['action']} {pool['capacity']} → {pool['target']}", *said, *_counted(overruled)])


def _step_summary(step: Outcome) -> str:
    details = (step[key] for key in ("market", "purpose", "why", "debris") if key in step)
    return " ".join((step["step"], *details))


def _counted(words: Iterable[str]) -> list[str]:
    listed = list(words)
    return [f"{word} × {listed.count(word)}" if listed.count(word) > 1 else word for word in dict.fromkeys(listed)]


# ── the parts ────────────────────────────────────────────────────────────────────────────────────────────────────


def _pool(pool: PoolDecision) -> Outcome:
    return {
        "pool": pool.pool,
        "action": pool.action.value,
        "capacity": pool.count.capacity,
        "count": to_plain(pool.count),
        "target": pool.target,
        "dry_run": pool.dry_run,
        "bounds": [_bound(bound) for bound in pool.bounds],
        "overruled": [_overruled(each) for each in pool.overruled],
        "steps": _steps(pool.plan),
        "alerts": _alerts(step for step in pool.plan if isinstance(step, SendAlert)),
        "stays": [_stay(stay) for stay in pool.stays],
    }


def _bound(bound: Bound) -> list[Any]:
    return [bound.source, bound.side.value, bound.nodes, bound.rank.name.lower(), _time(bound.expires)]


def _overruled(each: Overruled) -> list[Any]:
    return [*_bound(each.bound)[:4], each.by]


def _stay(stay: KeptNode) -> list[str]:
    return [stay.worker, stay.phase.value, stay.reason.value]


def _alerts(alerts: Iterable[SendAlert]) -> list[list[Any]]:
    return sorted([tell.alert.value, tell.pool, sorted(tell.subjects)] for tell in alerts)


def _steps(plan: Iterable[Step]) -> list[Outcome]:
    return [_step(step) for step in plan if not isinstance(step, SendAlert)]


def _step(step: Step) -> Outcome:
    match step:
        case Create(operation):
            return {"step": "open", **_operation(operation)}
        case Save(operation):
            return {"step": "keep", **_operation(operation)}
        case Close():
            return {"step": "close", "operation": step.operation, "outcome": step.outcome.value}
        case SendLaunch(launch):
            return {"step": "send-launch", **_operation(launch)}
        case Cordon():
            return {"step": "cordon", "node": step.node, "removal": step.removal, "deadline": _time(step.deadline)}
        case Uncordon():
            return {"step": "uncordon", "node": step.node, "removal": step.removal}
        case Evict():
            return {"step": "evict", "node": step.node, "pods": _pods(step.pods)}
        case ForceDelete():
            return {"step": "force-delete", "node": step.node, "pods": _pods(step.pods)}
        case Terminate():
            return {"step": "terminate", "instance": step.instance}
        case KeepWarm():
            return {"step": "keep-warm", "instance": step.instance}
        case DeleteNode():
            return {"step": "delete-node", "node": step.node}
        case MarkFailed():
            return {"step": "mark-failed", "instance": step.instance}
        case Assign():
            return {"step": "assign", "instance": step.instance, "node": step.node, "pool": step.pool}
        case CancelRemoval():
            return {"step": "cancel-removal", "operation": step.operation}
        case TakeOver():
            return {"step": "take-over", "origin": step.origin, "nodes": step.nodes}
        case SendAlert():
            return {"step": "alert", "kind": step.alert.value}
        case _:
            assert_never(step)


def _pods(pods: Iterable[PodRef]) -> list[str]:
    return sorted(pod.uid for pod in pods)


def _operation(operation: Operation) -> Outcome:
    common = {"id": operation.id, "pool": operation.pool, "deadline": _time(operation.deadline)}
    match operation:
        case Launch():
            return {
                "operation": "launch",
                **common,
                "zone": operation.zone,
                "market": operation.market.value,
                "types": list(operation.types),
                "count": operation.count,
                "template": [operation.template, operation.template_version, operation.subnet],
                "max_price_usd": operation.max_price_usd,
                "purpose": operation.purpose.value,
            }
        case Removal():
            return {
                "operation": "removal",
                **common,
                "instance": operation.instance,
                "node": operation.node,
                "why": operation.why.value,
                "force_from": _time(operation.force_from),
                "cancelled": bool(operation.cancelled),
                "notice": operation.notice.value if operation.notice else None,
            }
        case Cleanup():
            return {
                "operation": "cleanup",
                **common,
                "debris": operation.debris.value,
                "target": operation.target,
                "first_seen": _time(operation.first_seen),
            }
        case _:
            assert_never(operation)


def _memory(memory: Memory) -> Any:
    return _unworded(to_plain(memory))


def _unworded(plain: Any) -> Any:
    if isinstance(plain, dict):
        return {key: _unworded(value) for key, value in plain.items() if key not in _WORDING}
    if isinstance(plain, list):
        return [_unworded(each) for each in plain]
    return round(plain, _FIGURES) if isinstance(plain, float) else plain


def _time(at: datetime | None) -> str | None:
    return at.isoformat() if at else None

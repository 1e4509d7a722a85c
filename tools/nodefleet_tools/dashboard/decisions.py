"""Recorded decisions for the page: a filtered list, one of them with everything it saw, and replays.

A replay decides an archived input again, with its own policy or with another one. The what-if does that for the
archived decisions of a week and counts what would have been different, before a policy is saved.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

from nodefleet.engine.target import resolve_target
from nodefleet.errors import NodeFleetError
from nodefleet.model.decision import Action, Decision, DecisionRecord, PoolDecision
from nodefleet.model.serialization import to_plain
from nodefleet.model.snapshot import ClusterView, Missing
from nodefleet.policy.cluster import Policy
from nodefleet.ports import Archive, History
from nodefleet_tools.audit import decisions, record_named
from nodefleet_tools.cli.plan_words import sentence, stay_lines
from nodefleet_tools.cli.show_decision import headline, side
from nodefleet_tools.cli.show_record import Row, rows
from nodefleet_tools.cli.show_replay import differences
from nodefleet_tools.dashboard.snapshot import Json
from nodefleet_tools.replaying import NotReplayableError, by_another, decided, is_same, question_of

PAGE = 60  # rows
_SCANNED = 3000  # records, for a filter that few of them pass
_WEEK = timedelta(days=7)
_MOST_REPLAYED = 300
_MOST_DIFFERENT = 60


class UnknownDecisionError(LookupError):
    """No recorded decision has this id or time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    action: str = ""  # grow, shrink, hold; changes: all but hold; empty: all
    pool: str = ""
    text: str = ""
    before: datetime | None = None


def listed(history: History, wanted: Filter) -> Json:
    """A page of rows, newest first; quiet decisions in a row that came to the same are one row."""
    records = islice(decisions(history, before=wanted.before), _SCANNED)
    found = list(islice(rows(record for record in records if _matches(record, wanted)), PAGE))
    more = len(found) == PAGE
    return {"rows": [_row(row) for row in found], "before": found[-1].oldest.at.isoformat() if more else None}


def _matches(record: DecisionRecord, wanted: Filter) -> bool:
    pools = [pool for pool in record.decision.pools if wanted.pool in ("", pool.pool)]
    if not pools:
        return False
    if wanted.action == "changes":
        pools = [pool for pool in pools if pool.action is not Action.HOLD]
    elif wanted.action:
        pools = [pool for pool in pools if pool.action.value == wanted.action]
    if not pools:
        return False
    return not wanted.text or any(wanted.text.lower() in line.lower() for line in _lines(record, pools))


def _lines(record: DecisionRecord, pools: list[PoolDecision]) -> Iterator[str]:
    """Everything that a search covers."""
    yield record.id
    yield from record.did
    for pool in pools:
        yield pool.reason
        yield from pool.votes
        yield from (bound.sentence for bound in pool.bounds)
        yield from (stay.worker for stay in pool.stays)


def _row(row: Row) -> Json:
    record = row.newest
    return {
        "id": record.id,
        "at": record.at.timestamp(),
        "from": row.oldest.at.timestamp(),
        "count": row.iterations,
        "level": record.decision.level.value,
        "archived": bool(record.archived),
        "dry": record.dry,
        "did": list(record.did),
        "pools": [_brief(pool) for pool in record.decision.pools],
    }


def _brief(pool: PoolDecision) -> Json:
    by = resolve_target(pool.bounds).by
    return {
        "pool": pool.pool,
        "action": pool.action.value,
        "capacity": pool.count.capacity,
        "target": pool.target,
        "headline": headline(pool),
        "by": by.source if by else "",
        "reason": pool.reason,
        "dry_run": pool.dry_run,
    }


# ── one of them ──────────────────────────────────────────────────────────────────────────────────────────────────────


def detail(history: History, archive: Archive, identity: str) -> Json:
    record = _named(history, identity)
    saw, cause = _saw(record, archive)
    return {
        **_row(Row(newest=record, oldest=record, iterations=1)),
        "policy": record.policy,
        "fence": record.fence,
        "cut": record.cut,
        "requeue": record.decision.look_again,
        "figures": dict(record.figures),
        "alerts": [tell.text for tell in record.decision.tells],
        "pools": [_whole(pool) for pool in record.decision.pools],
        "saw": saw,
        "not_replayable": cause,
    }


def _named(history: History, identity: str) -> DecisionRecord:
    record = record_named(history, identity)
    if record is None:
        raise UnknownDecisionError(f"there is no decision {identity}")
    return record


def _whole(pool: PoolDecision) -> Json:
    settled = resolve_target(pool.bounds)
    overruled = {each.bound: each.by for each in pool.overruled}
    return {
        **_brief(pool),
        "count": to_plain(pool.count, full=True),
        "votes": list(pool.votes),
        "bounds": [
            {
                "rank": bound.rank.name.lower(),
                "nodes": side(bound),
                "source": bound.source,
                "sentence": bound.sentence,
                "sets": bound is settled.by,
                "overruled_by": overruled.get(bound, ""),
            }
            for bound in sorted(pool.bounds, key=lambda bound: bound.rank)
        ],
        "plan": [sentence(step) for step in pool.plan],
        "stays": [{"workers": who, "why": why} for who, why in stay_lines(pool.stays)],
    }


def _saw(record: DecisionRecord, archive: Archive) -> tuple[Json | None, str]:
    """What the decision saw, or why that is not known."""
    try:
        seen = question_of(record, archive).observation
    except (NotReplayableError, NodeFleetError) as error:
        return None, str(error)
    view = seen.kubernetes
    pods = view.pods or () if isinstance(view, ClusterView) else ()
    return {
        "instances": seen.instances.cause if isinstance(seen.instances, Missing) else len(seen.instances),
        "nodes": len(view.nodes) if isinstance(view, ClusterView) else view.cause,
        "pods": len(pods),
        "pending": [pod.key for pod in pods if pod.unschedulable_since is not None],
        "operations": len(seen.operations),
        "notices": len(seen.notices),
        "everything": to_plain(seen),
    }, ""


# ── decided again ────────────────────────────────────────────────────────────────────────────────────────────────────


def replay(history: History, archive: Archive, identity: str, policy: Policy | None) -> Json:
    """The archived input decided again by the code at hand, and by another policy if one is given."""
    record = _named(history, identity)
    question = question_of(record, archive)
    again = decided(question)
    if policy is None:
        return {
            "same": is_same(record, again),
            "first": _decision(record.decision),
            "second": _decision(again),
            "differences": _differences(record.decision, again),
        }
    other = decided(by_another(question, policy))
    found = _differences(again, other)
    return {"same": not found, "first": _decision(again), "second": _decision(other), "differences": found}


def _decision(decision: Decision) -> list[Json]:
    return [_brief(pool) for pool in decision.pools]


def _differences(first: Decision, second: Decision) -> list[Json]:
    return [
        {"pool": each.pool, "what": each.what, "first": list(each.first), "second": list(each.second)}
        for each in differences(first, second)
    ]


def what_if(history: History, archive: Archive, policy: Policy, now: datetime) -> Json:
    """The archived decisions of the last week under another policy. Of more than a few hundred an even share is taken.

    Each decision is asked for itself: how the fleet would have developed afterwards is not part of the answer.
    """
    kept = [record for record in decisions(history, oldest=now - _WEEK) if record.archived]
    chosen = kept[:: -(-len(kept) // _MOST_REPLAYED)] if kept else []
    same, more, fewer, unreadable = 0, 0, 0, 0
    different: list[Json] = []
    for record in chosen:
        try:
            question = question_of(record, archive)
        except (NotReplayableError, NodeFleetError):
            unreadable += 1
            continue
        mine, theirs = decided(question), decided(by_another(question, policy))
        change = _targets(theirs) - _targets(mine)
        if _actions(mine) == _actions(theirs):
            same += 1
            continue
        more, fewer = more + (change > 0), fewer + (change < 0)
        if len(different) < _MOST_DIFFERENT:
            different.append(
                {
                    "id": record.id,
                    "at": record.at.timestamp(),
                    "change": change,
                    "first": _decision(mine),
                    "second": _decision(theirs),
                }
            )
    asked = len(chosen) - unreadable
    return {
        "archived": len(kept),
        "asked": asked,
        "same": same,
        "more": more,
        "fewer": fewer,
        "unreadable": unreadable,
        "different": different,
    }


def _targets(decision: Decision) -> int:
    return sum(pool.target for pool in decision.pools)


def _actions(decision: Decision) -> list[tuple[str, Action, int]]:
    return [(pool.pool, pool.action, pool.target) for pool in decision.pools]

"""The custom layer: readings that the user names, each with a rule that turns them into nodes. Off until named.

A rule needs its readings. One that is configured and cannot be read is a veto on shrinking, never a zero. One whose
source answers and has no data counts as its `when_missing` says.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import assert_never

from nodefleet.capacity import FleetSize
from nodefleet.engine.context import Assumed, Cached, Ignored, SignalInput, custom_name, substitute_reading
from nodefleet.engine.signals.rules import clear_time, job_demand, per_worker_queue, queue_and_latency, threshold
from nodefleet.engine.signals.thresholds import Evaluation, Pace, from_cache, unreadable_vote, vote_on
from nodefleet.engine.signals.vote import Abstain, SignalVote
from nodefleet.model.readings import NOT_ASKED, Missing, PoolReadings, Reading
from nodefleet.model.state import Breaches
from nodefleet.policy.cluster import Trust
from nodefleet.policy.demand import (
    ClearTime,
    DemandRule,
    JobDemand,
    PerWorkerQueue,
    QueueAndLatency,
    Threshold,
    WhenMissing,
    readings_of,
    when_missing,
)
from nodefleet.policy.pool import Pool


def evaluate_custom(
    pool: Pool,
    readings: PoolReadings,
    cached: Mapping[str, Reading],
    breaches: Mapping[str, Breaches],
    fleet_size: FleetSize,
    *,
    trust: Trust,
    pace: Pace,
) -> tuple[SignalVote, ...]:
    """The vote of each of the pool's rules, in their order. `cached`: the readings kept by `update_cache`."""
    found = []
    for rule in pool.custom:
        inputs = {
            field: substitute_reading(
                readings.custom.get(name, NOT_ASKED),
                cached.get(custom_name(name)),
                trust,
                fleet_size.now,
                absent=when_missing(field, pool.readings.get(name)),
                least=_least(rule, field),
            )
            for field, name in readings_of(rule)
        }
        found.append(_evaluate_rule(rule, inputs, breaches, fleet_size, pool, pace))
    return tuple(found)


def counts_as_last(pool: Pool) -> frozenset[str]:
    """Names of the readings whose last value is needed however old it is: `context.update_cache` keeps them."""
    return frozenset(
        custom_name(name)
        for rule in pool.custom
        for field, name in readings_of(rule)
        if when_missing(field, pool.readings.get(name)) is WhenMissing.LAST
    )


def _least(rule: DemandRule, field: str) -> float | None:
    """What a rule takes for a reading that it has never had."""
    if isinstance(rule, ClearTime) and field == "job_seconds":
        return rule.shortest_job.total_seconds()
    return None


def _evaluate_rule(
    rule: DemandRule,
    inputs: Mapping[str, SignalInput | Assumed | Ignored],
    before: Mapping[str, Breaches],
    fleet_size: FleetSize,
    pool: Pool,
    pace: Pace,
) -> SignalVote:
    signal = custom_name(rule.name)
    found = _read_rule(rule, inputs)
    needed = [
        f"{found.names[field]} is ignored: {cause}" for field, cause in found.ignored if field in _required_fields(rule)
    ]
    if found.unknown:
        return unreadable_vote(signal, found.cause, before)
    if needed:
        return replace(unreadable_vote(signal, "", before), vote=Abstain("; ".join(needed)))
    formed = vote_on(signal, _evaluate_demand(rule, found.values, fleet_size, pool), found.at, before, pace)
    if found.notes:
        reason = f"{formed.vote.reason} ({'; '.join(found.notes)})"
        formed = replace(formed, vote=replace(formed.vote, reason=reason))
    return from_cache(formed, before, found.cause) if found.cause else formed


@dataclass(slots=True)
class _RuleReadings:
    """What a rule has to go by."""

    names: Mapping[str, str]  # of the readings, by the rule's field
    values: dict[str, float] = field(default_factory=dict)
    times: list[datetime] = field(default_factory=list)
    causes: list[str] = field(default_factory=list)  # why a reading is not there, where that forbids to shrink
    notes: list[str] = field(default_factory=list)  # what was taken instead of data
    ignored: list[tuple[str, str]] = field(default_factory=list)
    unknown: bool = False  # some of it could not be had at all

    @property
    def cause(self) -> str:
        return "; ".join(self.causes)

    @property
    def at(self) -> datetime:
        """A rule is as old as the oldest of its readings: each counts once for sustain."""
        return min(self.times)


def _read_rule(rule: DemandRule, inputs: Mapping[str, SignalInput | Assumed | Ignored]) -> _RuleReadings:
    found = _RuleReadings(names=dict(readings_of(rule)))
    for each, seen in inputs.items():
        name = found.names[each]
        match seen:
            case Reading(value, at):
                found.values[each] = value
                found.times.append(at)
            case Cached(reading, cause):
                found.values[each] = reading.value
                found.times.append(reading.at)
                found.causes.append(f"{name} unknown: {cause}")
            case Assumed(reading, cause):
                found.values[each] = reading.value
                found.times.append(reading.at)
                found.notes.append(f"{name}: {cause}")
            case Ignored(cause):
                found.ignored.append((each, cause))
            case Missing(cause):
                found.causes.append(f"{name} unknown: {cause}")
                found.unknown = True
            case _:
                assert_never(seen)
    return found


def _required_fields(rule: DemandRule) -> frozenset[str]:
    """The fields that a rule cannot do without."""
    match rule:
        case QueueAndLatency():
            return frozenset({"queue"})
        case ClearTime():
            return frozenset({"queue", "running", "job_seconds"})
        case _:
            return frozenset(name for name, _ in readings_of(rule))


def _evaluate_demand(rule: DemandRule, seen: Mapping[str, float], fleet_size: FleetSize, pool: Pool) -> Evaluation:
    match rule:
        case Threshold():
            return threshold.evaluate(rule, seen["reading"], fleet_size, pool)
        case QueueAndLatency():
            return queue_and_latency.evaluate(
                rule, seen["queue"], seen.get("p95_ms"), seen.get("busy"), fleet_size, pool
            )
        case PerWorkerQueue():
            return per_worker_queue.evaluate(rule, seen["queue"], fleet_size, pool)
        case ClearTime():
            return clear_time.evaluate(
                rule,
                queue=seen["queue"],
                running=seen["running"],
                job_seconds=seen["job_seconds"],
                peak=seen.get("peak"),
                multiplier=seen.get("multiplier"),
                fleet_size=fleet_size,
                pool=pool,
            )
        case JobDemand():
            return job_demand.evaluate(rule, seen["jobs"], fleet_size, pool)
        case _:
            assert_never(rule)

"""The custom layer: readings that the user names, each with a rule that turns them into nodes. Off until named.

A rule needs its readings. One that is configured and cannot be read is a veto on shrinking, never a zero. One whose
source answers and has no data counts as its `when_missing` says.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import assert_never

from nodefleet.decide.inputs import Assumed, Cached, Ignored, Input, custom_name, stood_in, upheld
from nodefleet.decide.signals.demand import clear_time, job_demand, per_worker_queue, queue_and_latency, threshold
from nodefleet.decide.signals.verdict import Finding, opinion, unreadable
from nodefleet.decide.signals.votes import Abstain, Look, Opinion
from nodefleet.decide.sustain import Pace
from nodefleet.domain.memory import Breaches
from nodefleet.domain.policy import (
    ClearTime,
    DemandRule,
    JobDemand,
    PerWorkerQueue,
    Pool,
    QueueAndLatency,
    Threshold,
    Trust,
)
from nodefleet.domain.policy.demand import WhenMissing, readings_of, when_missing
from nodefleet.domain.readings import NOT_ASKED, Missing, PoolReadings, Reading


def opinions(
    pool: Pool,
    readings: PoolReadings,
    cached: Mapping[str, Reading],
    breaches: Mapping[str, Breaches],
    look: Look,
    *,
    trust: Trust,
    pace: Pace,
) -> tuple[Opinion, ...]:
    """What each of the pool's rules says, in their order. `cached` is what `inputs.remembered` kept."""
    found = []
    for rule in pool.custom:
        inputs = {
            field: stood_in(
                readings.custom.get(name, NOT_ASKED),
                cached.get(custom_name(name)),
                trust,
                look.now,
                absent=when_missing(field, pool.readings.get(name)),
                least=_least(rule, field),
            )
            for field, name in readings_of(rule)
        }
        found.append(_opinion(rule, inputs, breaches, look, pool, pace))
    return tuple(found)


def counts_as_last(pool: Pool) -> frozenset[str]:
    """Readings whose last value is needed however old it is, as `inputs.remembered` calls them."""
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


def _opinion(
    rule: DemandRule,
    inputs: Mapping[str, Input | Assumed | Ignored],
    before: Mapping[str, Breaches],
    look: Look,
    pool: Pool,
    pace: Pace,
) -> Opinion:
    signal = custom_name(rule.name)
    heard = _heard(rule, inputs)
    needed = [f"{heard.names[field]} is ignored: {cause}" for field, cause in heard.ignored if field in _needed(rule)]
    if heard.unknown:
        return unreadable(signal, heard.cause, before)
    if needed:
        return replace(unreadable(signal, "", before), vote=Abstain("; ".join(needed)))
    formed = opinion(signal, _found(rule, heard.values, look, pool), heard.at, before, pace)
    if heard.notes:
        reason = f"{formed.vote.reason} ({'; '.join(heard.notes)})"
        formed = replace(formed, vote=replace(formed.vote, reason=reason))
    return upheld(formed, before, heard.cause) if heard.cause else formed


@dataclass(slots=True)
class _Heard:
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


def _heard(rule: DemandRule, inputs: Mapping[str, Input | Assumed | Ignored]) -> _Heard:
    heard = _Heard(names=dict(readings_of(rule)))
    for each, seen in inputs.items():
        name = heard.names[each]
        match seen:
            case Reading(value, at):
                heard.values[each] = value
                heard.times.append(at)
            case Cached(reading, cause):
                heard.values[each] = reading.value
                heard.times.append(reading.at)
                heard.causes.append(f"{name} unknown: {cause}")
            case Assumed(reading, cause):
                heard.values[each] = reading.value
                heard.times.append(reading.at)
                heard.notes.append(f"{name}: {cause}")
            case Ignored(cause):
                heard.ignored.append((each, cause))
            case Missing(cause):
                heard.causes.append(f"{name} unknown: {cause}")
                heard.unknown = True
            case _:
                assert_never(seen)
    return heard


def _needed(rule: DemandRule) -> frozenset[str]:
    """The fields that a rule cannot do without."""
    match rule:
        case QueueAndLatency():
            return frozenset({"queue"})
        case ClearTime():
            return frozenset({"queue", "running", "job_seconds"})
        case _:
            return frozenset(name for name, _ in readings_of(rule))


def _found(rule: DemandRule, seen: Mapping[str, float], look: Look, pool: Pool) -> Finding:
    match rule:
        case Threshold():
            return threshold.found(rule, seen["reading"], look, pool)
        case QueueAndLatency():
            return queue_and_latency.found(rule, seen["queue"], seen.get("p95_ms"), seen.get("busy"), look, pool)
        case PerWorkerQueue():
            return per_worker_queue.found(rule, seen["queue"], look, pool)
        case ClearTime():
            return clear_time.found(
                rule,
                queue=seen["queue"],
                running=seen["running"],
                job_seconds=seen["job_seconds"],
                peak=seen.get("peak"),
                multiplier=seen.get("multiplier"),
                look=look,
                pool=pool,
            )
        case JobDemand():
            return job_demand.found(rule, seen["jobs"], look, pool)
        case _:
            assert_never(rule)

"""The custom layer: readings that the user names, each with a rule that turns them into nodes. Off until named.

A rule needs all of its readings. One that is configured and cannot be read is a veto on shrinking, never a zero.
"""

from collections.abc import Mapping
from typing import assert_never

from nodefleet.decide.inputs import Cached, Input, custom_name, fresh, upheld
from nodefleet.decide.signals.demand import clear_time, job_demand, per_worker_queue, queue_and_latency, threshold
from nodefleet.decide.signals.verdict import Finding, opinion, unreadable
from nodefleet.decide.signals.votes import Look, Opinion
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
from nodefleet.domain.policy.demand import readings_of
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
            field: fresh(readings.custom.get(name, NOT_ASKED), cached.get(custom_name(name)), trust, look.now)
            for field, name in readings_of(rule)
        }
        found.append(_opinion(rule, inputs, breaches, look, pool, pace))
    return tuple(found)


def _opinion(
    rule: DemandRule, inputs: Mapping[str, Input], before: Mapping[str, Breaches], look: Look, pool: Pool, pace: Pace
) -> Opinion:
    signal = custom_name(rule.name)
    names = dict(readings_of(rule))
    cause = "; ".join(
        f"{names[field]} unknown: {seen.cause}" for field, seen in inputs.items() if not isinstance(seen, Reading)
    )
    known: dict[str, Reading] = {}
    for field, seen in inputs.items():
        match seen:
            case Missing():
                return unreadable(signal, cause, before)
            case Cached(reading, _):
                known[field] = reading
            case Reading():
                known[field] = seen
    values = {field: reading.value for field, reading in known.items()}
    # A rule is as old as the oldest of its readings: each counts once for sustain.
    at = min(reading.at for reading in known.values())
    formed = opinion(signal, _found(rule, values, look, pool), at, before, pace)
    return upheld(formed, before, cause) if cause else formed


def _found(rule: DemandRule, seen: Mapping[str, float], look: Look, pool: Pool) -> Finding:
    match rule:
        case Threshold():
            return threshold.found(rule, seen["reading"], look, pool)
        case QueueAndLatency():
            return queue_and_latency.found(rule, seen["queue"], seen["p95_ms"], seen["busy"], look, pool)
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

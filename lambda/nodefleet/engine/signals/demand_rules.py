"""The custom layer: readings that the user names, each with a demand rule that turns them into nodes. Off until named.

A rule needs its readings. One that is configured and cannot be read is a veto on shrinking, never a zero. One whose
source answers and has no data counts as its `when_missing` says.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import ceil
from typing import assert_never

from nodefleet.capacity import FleetSize
from nodefleet.engine.context import Assumed, Cached, Ignored, SignalInput, custom_name, substitute_reading
from nodefleet.engine.signals.vote import (
    AT_ONCE,
    Above,
    Abstain,
    Band,
    Below,
    Between,
    Evaluation,
    Pace,
    SignalVote,
    from_cache,
    unreadable_vote,
    vote_on,
)
from nodefleet.model.names import figure, pluralize
from nodefleet.model.snapshot import NOT_ASKED, Missing, PoolReadings, Reading, Sample
from nodefleet.model.state import Breaches
from nodefleet.policy.cluster import Trust
from nodefleet.policy.demand import (
    ClearTime,
    DemandRule,
    JobDemand,
    PerWorkerQueue,
    Quantity,
    QueueAndLatency,
    Threshold,
    readings_of,
)
from nodefleet.policy.pool import Pool, Targets
from nodefleet.policy.sources import WhenMissing, when_missing


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
                _reject_negative(rule, readings.custom.get(name, NOT_ASKED)),
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


def _reject_negative(rule: DemandRule, sample: Sample) -> Sample:
    """Jobs, times and shares are never below zero: exporters say -1 for what they do not know. Differences of rates may
    fall a little below, and a threshold compares whatever it is given."""
    if isinstance(sample, Reading) and sample.value <= -1 and not isinstance(rule, Threshold):
        return Missing(f"{figure(sample.value)} is less than none")
    return sample


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
            return evaluate_threshold(rule, seen["reading"], fleet_size, pool)
        case QueueAndLatency():
            return evaluate_queue_and_latency(
                rule, seen["queue"], seen.get("p95_ms"), seen.get("busy"), fleet_size, pool
            )
        case PerWorkerQueue():
            return evaluate_per_worker_queue(rule, seen["queue"], fleet_size, pool)
        case ClearTime():
            return evaluate_clear_time(
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
            return evaluate_job_demand(rule, seen["jobs"], fleet_size, pool)
        case _:
            assert_never(rule)


# ── threshold ────────────────────────────────────────────────────────────────────────────────────────────────────────
# One more step while a reading stays above its limit. The reading is what the measured nodes achieve together, so the
# floor is a step above those: nodes that still boot are part of the step, and a repeat buys nothing twice.


def evaluate_threshold(rule: Threshold, value: float, fleet_size: FleetSize, pool: Pool) -> Evaluation:
    limit = _target(rule.quantity, pool.targets) if rule.limit is None else rule.limit
    percent = _calm_percent(rule.quantity, pool.targets) if rule.calm_percent is None else rule.calm_percent
    calm = limit * percent / 100
    zone: Band = Between()
    compared = f"{figure(value)} between {figure(calm)} and {figure(limit)}"
    if value > limit:
        zone, compared = Above(fleet_size.covered + pool.steps.up), f"{figure(value, limit)} > {figure(limit)}"
    elif value <= calm:
        low = f"{figure(value)} ≤ {figure(calm)}, {percent:g} % of {figure(limit)}"
        zone, compared = Below(pool.steps.down), low
    sustain = rule.sustain or pool.sustain
    sentence = f"{rule.reading} {compared}"
    return Evaluation(zone=zone, value=value, sentence=sentence, up=sustain.up, down=sustain.down)


def _target(quantity: Quantity, targets: Targets) -> float:
    match quantity:
        case Quantity.QUEUE:
            return targets.queue
        case Quantity.LATENCY:
            return targets.p95_ms
        case Quantity.RATE:
            return targets.rate
        case Quantity.ERRORS:
            return targets.errors_percent


def _calm_percent(quantity: Quantity, targets: Targets) -> float:
    """A queue must nearly be empty, the others only far from their limit."""
    return targets.calm_queue_percent if quantity is Quantity.QUEUE else targets.calm_percent


# ── queue and latency ────────────────────────────────────────────────────────────────────────────────────────────────
# Workers that take jobs from a queue under a latency target: any of three triggers grows, all three calm shrink.
# Workers are all that are there or booting, as those will share the load; the floor is a step above the ready ones, so
# that a repeat while the step boots buys nothing more.


def evaluate_queue_and_latency(
    rule: QueueAndLatency, queue: float, p95_ms: float | None, busy: float | None, fleet_size: FleetSize, pool: Pool
) -> Evaluation:
    """`p95_ms` and `busy` are none where the policy says to do without."""
    queue_target = pool.targets.queue if rule.queue_target is None else rule.queue_target
    p95_target = pool.targets.p95_ms if rule.p95_target_ms is None else rule.p95_target_ms
    workers = fleet_size.capacity * rule.runners_per_node
    waits, slow, taken = queue, p95_ms or 0.0, busy or 0.0
    occupied = f"{figure(taken)} of {pluralize(workers, 'worker', 'workers')} busy"
    all_busy = busy is not None and taken >= workers and waits > 0
    reasons = [
        reason
        for reason, holds in (
            (f"{rule.queue} {figure(waits, queue_target)} > {figure(queue_target)}", waits > queue_target),
            (f"{rule.p95_ms} {figure(slow, p95_target)} ms > {figure(p95_target)} ms", slow > p95_target),
            (f"{occupied} and {pluralize(waits, 'job waits', 'jobs wait')}", all_busy),
        )
        if holds
    ]
    calm = (
        waits <= queue_target * rule.calm_queue_percent / 100
        and slow <= p95_target * rule.calm_p95_percent / 100
        and taken <= workers * rule.calm_busy_percent / 100
    )
    figures = ", ".join(
        text
        for text, known in (
            (f"{rule.queue} {figure(waits)} of {figure(queue_target)}", True),
            (f"{rule.p95_ms} {figure(slow)} of {figure(p95_target)} ms", p95_ms is not None),
            (occupied, busy is not None),
        )
        if known
    )
    step_up = pool.steps.urgent if rule.step_up is None else rule.step_up
    step_down = pool.steps.down if rule.step_down is None else rule.step_down
    zone: Band = Between()
    sentence = f"{figures}: within limits"
    if reasons:
        zone, sentence = Above(fleet_size.covered + step_up), "; ".join(reasons)
    elif calm:
        zone, sentence = Below(step_down), f"{figures}: all low"
    sustain = rule.sustain or pool.sustain
    value = _pressure(waits / queue_target, slow / p95_target)
    return Evaluation(zone=zone, value=value, sentence=sentence, up=sustain.up, down=sustain.down)


def _pressure(queue: float, p95: float) -> float:
    """Percent of the target that is missed most, so that both can be compared; the queue's if none is missed."""
    return 100 * (max(queue, p95) if p95 > 1 else queue)


# ── per worker queue ─────────────────────────────────────────────────────────────────────────────────────────────────
# One more worker when the queue is longer than so many jobs for each worker. Workers are all that are there or
# booting; the floor is one above the ready ones, so that a repeat while that one boots buys nothing more. Idle time is
# measured between samples: the number of iterations does not matter.


def evaluate_per_worker_queue(rule: PerWorkerQueue, queue: float, fleet_size: FleetSize, pool: Pool) -> Evaluation:
    workers = fleet_size.capacity * rule.runners_per_node
    limit = rule.per_worker * workers
    each = "for the one worker" if workers == 1 else f"for each of {workers} workers"
    spelled = f"{figure(limit)} ({figure(rule.per_worker)} {each})"
    zone: Band = Between()
    compared = f"between {figure(rule.calm_queue)} and {spelled}"
    if queue > limit:
        zone, compared = Above(fleet_size.covered + 1), f"> {spelled}"
    elif queue <= rule.calm_queue:
        zone, compared = Below(), f"≤ {figure(rule.calm_queue)}"
    sustain = rule.sustain or pool.sustain
    sentence = f"{rule.queue} {figure(queue)} {compared}"
    return Evaluation(zone=zone, value=queue, sentence=sentence, up=sustain.up, down=rule.idle_for)


# ── clear time ───────────────────────────────────────────────────────────────────────────────────────────────────────
# As many workers as clear the queue within the target time, beside those that are running. The count is computed from
# the readings alone and compared with all workers that are there or booting, so a repeat while they boot asks for the
# same count and buys nothing more. It grows at once: a queue that waits is late already.


def desired_workers(
    rule: ClearTime, queue: float, running: float, job_seconds: float, peak: float, multiplier: float, most: int
) -> int:
    """Clamped last: the time-of-day pattern can neither break the limit nor stop a running job."""
    job = max(job_seconds, rule.shortest_job.total_seconds())
    for_queue = ceil(queue * job / rule.clear_within.total_seconds())
    at_work = ceil(running)
    warm = int(peak * rule.warm_percent / 100)
    return max(at_work, min(int(max(for_queue + at_work, warm) * multiplier), most))


def remembered_peak(rule: ClearTime, fleet_size: FleetSize) -> int:
    """The most nodes that there were in the last days, now included."""
    since = (fleet_size.now - timedelta(days=rule.peak_days)).date().isoformat()
    return max((nodes for day, nodes in fleet_size.peaks.items() if day >= since), default=0)


def evaluate_clear_time(
    rule: ClearTime,
    *,
    queue: float,
    running: float,
    job_seconds: float,
    peak: float | None,
    multiplier: float | None,
    fleet_size: FleetSize,
    pool: Pool,
) -> Evaluation:
    times = 1 if multiplier is None else multiplier
    per_node = rule.runners_per_node
    highest = remembered_peak(rule, fleet_size) * per_node if peak is None else peak
    workers = desired_workers(rule, queue, running, job_seconds, highest, times, pool.limits.max * per_node)
    wanted = ceil(workers / per_node)
    current = fleet_size.capacity
    buffer = current * rule.shrink_below_percent / 100
    zone: Band = Between()
    compared = f"for {current} now"
    if wanted > current:
        zone, compared = Above(wanted), f"> {current} now"
    elif wanted < buffer:
        zone, compared = (
            Below(current - wanted),
            f"< {figure(buffer)}, {rule.shrink_below_percent:g} % of {current} now",
        )
    counted = pluralize(workers, "worker", "workers")
    counted = counted if per_node == 1 else f"{counted}, {per_node} to a node: {wanted}"
    sentence = (
        f"{rule.queue} {figure(queue)} at {figure(job_seconds)} s and {figure(running)} running "
        f"need {counted} {compared}"
    )
    up = rule.sustain.up if rule.sustain else AT_ONCE
    return Evaluation(zone=zone, value=queue, sentence=sentence, up=up, down=rule.shrink_after)


# ── job demand ───────────────────────────────────────────────────────────────────────────────────────────────────────
# Runners for jobs that wait or run, with a dead zone between growing and shrinking. The gap is measured against all
# nodes that are there or booting; the floor is the step above the ready ones, so that a repeat while the step boots
# buys nothing more.


def evaluate_job_demand(rule: JobDemand, jobs: float, fleet_size: FleetSize, pool: Pool) -> Evaluation:
    runners = fleet_size.capacity * rule.runners_per_node
    high, low = runners * rule.grow_above, runners * rule.shrink_below
    spelled = f"× {pluralize(runners, 'runner', 'runners')}"
    zone: Band = Between()
    compared = f"between {figure(low)} and {figure(high)} ({rule.shrink_below:g} to {rule.grow_above:g} {spelled})"
    if jobs > high:
        step = _step((jobs - runners) * rule.grow_share, rule.runners_per_node, rule.step_up)
        zone, compared = Above(fleet_size.covered + step), f"> {figure(high)} ({rule.grow_above:g} {spelled})"
    elif jobs < low:
        step = _step((runners - jobs) * rule.shrink_share, rule.runners_per_node, rule.step_down)
        zone, compared = Below(step), f"< {figure(low)} ({rule.shrink_below:g} {spelled})"
    sustain = rule.sustain or pool.sustain
    sentence = f"{rule.jobs} {figure(jobs)} {compared}"
    return Evaluation(zone=zone, value=jobs, sentence=sentence, up=sustain.up, down=sustain.down)


def _step(runners: float, per_node: int, most: int) -> int:
    """Nodes for so many runners: rounded half up, at least one, at most the step."""
    return min(max(int(runners / per_node + 0.5), 1), most)

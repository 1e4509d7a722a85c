"""As many workers as clear the queue within the target time, beside those that are running.

The count is computed from the readings alone and compared with all workers that are there or booting, so a repeat
while they boot asks for the same count and buys nothing more. It grows at once: a queue that waits is late already.
"""

from datetime import timedelta
from math import ceil

from nodefleet.capacity import FleetSize
from nodefleet.engine.signals.thresholds import AT_ONCE, Above, Band, Below, Between, Evaluation
from nodefleet.model.names import figure
from nodefleet.policy.demand import ClearTime
from nodefleet.policy.pool import Pool


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


def evaluate(
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
    counted = f"{wanted} workers" if per_node == 1 else f"{workers} workers, {per_node} to a node: {wanted}"
    sentence = (
        f"{rule.queue} {figure(queue)} at {figure(job_seconds)} s and {figure(running)} running "
        f"need {counted} {compared}"
    )
    up = rule.sustain.up if rule.sustain else AT_ONCE
    return Evaluation(zone=zone, value=queue, sentence=sentence, up=up, down=rule.shrink_after)

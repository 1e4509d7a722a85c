"""As many workers as clear the queue within the target time, beside those that are running.

The count is computed from the readings alone and compared with all workers that are there or booting, so a repeat
while they boot asks for the same count and buys nothing more. It grows at once: a queue that waits is late already.
"""

from math import ceil

from nodefleet.decide.signals.verdict import Above, Below, Between, Finding, Zone, figure
from nodefleet.decide.signals.votes import Look
from nodefleet.decide.sustain import AT_ONCE
from nodefleet.domain.policy import ClearTime, Pool


def desired(
    rule: ClearTime, queue: float, running: float, job_seconds: float, peak: float, multiplier: float, most: int
) -> int:
    """Clamped last: the time-of-day pattern can neither break the limit nor stop a running job."""
    job = max(job_seconds, rule.shortest_job.total_seconds())
    for_queue = ceil(queue * job / rule.clear_within.total_seconds())
    at_work = ceil(running)
    warm = int(peak * rule.warm_percent / 100)
    return max(at_work, min(int(max(for_queue + at_work, warm) * multiplier), most))


def found(
    rule: ClearTime,
    *,
    queue: float,
    running: float,
    job_seconds: float,
    peak: float | None,
    multiplier: float | None,
    look: Look,
    pool: Pool,
) -> Finding:
    times = 1 if multiplier is None else multiplier
    wanted = desired(rule, queue, running, job_seconds, peak or 0, times, pool.limits.max)
    current = look.capacity
    buffer = current * rule.shrink_below_percent / 100
    zone: Zone = Between()
    compared = f"for {current} now"
    if wanted > current:
        zone, compared = Above(wanted), f"> {current} now"
    elif wanted < buffer:
        zone, compared = (
            Below(current - wanted),
            f"< {figure(buffer)}, {rule.shrink_below_percent:g} % of {current} now",
        )
    sentence = (
        f"{rule.queue} {figure(queue)} at {figure(job_seconds)} s and {figure(running)} running "
        f"need {wanted} workers {compared}"
    )
    up = rule.sustain.up if rule.sustain else AT_ONCE
    return Finding(zone=zone, value=queue, sentence=sentence, up=up, down=rule.shrink_after)

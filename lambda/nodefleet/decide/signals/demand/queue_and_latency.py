"""Workers that take jobs from a queue under a latency target: any of three triggers grows, all three calm shrink.

Workers are all that are there or booting, as those will share the load; the floor is a step above the ready ones, so
that a repeat while the step boots buys nothing more.
"""

from nodefleet.decide.signals.verdict import Above, Below, Between, Finding, Zone, figure
from nodefleet.decide.signals.votes import Look
from nodefleet.domain.policy import Pool, QueueAndLatency


def found(rule: QueueAndLatency, queue: float, p95_ms: float, busy: float, look: Look, pool: Pool) -> Finding:
    queue_target = pool.targets.queue if rule.queue_target is None else rule.queue_target
    p95_target = pool.targets.p95_ms if rule.p95_target_ms is None else rule.p95_target_ms
    workers = look.capacity
    reasons = [
        reason
        for reason, holds in (
            (f"{rule.queue} {figure(queue)} > {figure(queue_target)}", queue > queue_target),
            (f"{rule.p95_ms} {figure(p95_ms)} ms > {figure(p95_target)} ms", p95_ms > p95_target),
            (f"{figure(busy)} of {workers} workers busy and {figure(queue)} jobs wait", busy >= workers and queue > 0),
        )
        if holds
    ]
    calm = (
        queue <= queue_target * rule.calm_queue_percent / 100
        and p95_ms <= p95_target * rule.calm_p95_percent / 100
        and busy <= workers * rule.calm_busy_percent / 100
    )
    figures = (
        f"{rule.queue} {figure(queue)} of {figure(queue_target)}, "
        f"{rule.p95_ms} {figure(p95_ms)} of {figure(p95_target)} ms, {figure(busy)} of {workers} workers busy"
    )
    zone: Zone = Between()
    sentence = f"{figures}: within limits"
    if reasons:
        zone, sentence = Above(look.covered + rule.step_up), "; ".join(reasons)
    elif calm:
        zone, sentence = Below(rule.step_down), f"{figures}: all low"
    sustain = rule.sustain or pool.sustain
    value = _pressure(queue / queue_target, p95_ms / p95_target)
    return Finding(zone=zone, value=value, sentence=sentence, up=sustain.up, down=sustain.down)


def _pressure(queue: float, p95: float) -> float:
    """Percent of the target that is missed most, so that both can be compared; the queue's if none is missed."""
    return 100 * (max(queue, p95) if p95 > 1 else queue)

"""Workers that take jobs from a queue under a latency target: any of three triggers grows, all three calm shrink.

Workers are all that are there or booting, as those will share the load; the floor is a step above the ready ones, so
that a repeat while the step boots buys nothing more.
"""

from nodefleet.capacity import FleetSize
from nodefleet.engine.signals.thresholds import Above, Band, Below, Between, Evaluation
from nodefleet.model.names import figure
from nodefleet.policy.demand import QueueAndLatency
from nodefleet.policy.pool import Pool


def evaluate(
    rule: QueueAndLatency, queue: float, p95_ms: float | None, busy: float | None, fleet_size: FleetSize, pool: Pool
) -> Evaluation:
    """`p95_ms` and `busy` are none where the policy says to do without."""
    queue_target = pool.targets.queue if rule.queue_target is None else rule.queue_target
    p95_target = pool.targets.p95_ms if rule.p95_target_ms is None else rule.p95_target_ms
    workers = fleet_size.capacity * rule.runners_per_node
    waits, slow, taken = queue, p95_ms or 0.0, busy or 0.0
    all_busy = busy is not None and taken >= workers and waits > 0
    reasons = [
        reason
        for reason, holds in (
            (f"{rule.queue} {figure(waits)} > {figure(queue_target)}", waits > queue_target),
            (f"{rule.p95_ms} {figure(slow)} ms > {figure(p95_target)} ms", slow > p95_target),
            (f"{figure(taken)} of {workers} workers busy and {figure(waits)} jobs wait", all_busy),
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
            (f"{figure(taken)} of {workers} workers busy", busy is not None),
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

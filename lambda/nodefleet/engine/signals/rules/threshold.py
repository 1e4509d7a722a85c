"""One more step while a reading stays above its limit.

The reading is what the measured nodes achieve together, so the floor is a step above those: nodes that still boot are
part of the step, and a repeat buys nothing twice.
"""

from nodefleet.capacity import FleetSize
from nodefleet.engine.signals.thresholds import Above, Band, Below, Between, Evaluation
from nodefleet.model.names import figure
from nodefleet.policy.demand import Quantity, Threshold
from nodefleet.policy.pool import Pool, Targets


def evaluate(rule: Threshold, value: float, fleet_size: FleetSize, pool: Pool) -> Evaluation:
    limit = _target(rule.quantity, pool.targets) if rule.limit is None else rule.limit
    percent = _calm_percent(rule.quantity, pool.targets) if rule.calm_percent is None else rule.calm_percent
    calm = limit * percent / 100
    zone: Band = Between()
    compared = f"between {figure(calm)} and {figure(limit)}"
    if value > limit:
        zone, compared = Above(fleet_size.covered + pool.steps.up), f"> {figure(limit)}"
    elif value <= calm:
        zone, compared = Below(pool.steps.down), f"≤ {figure(calm)}, {percent:g} % of {figure(limit)}"
    sustain = rule.sustain or pool.sustain
    sentence = f"{rule.reading} {figure(value)} {compared}"
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

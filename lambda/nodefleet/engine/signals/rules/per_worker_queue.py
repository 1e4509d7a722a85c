"""One more worker when the queue is longer than so many jobs for each worker.

Workers are all that are there or booting; the floor is one above the ready ones, so that a repeat while that one
boots buys nothing more. Idle time is measured between samples: the number of iterations does not matter.
"""

from nodefleet.capacity import FleetSize
from nodefleet.engine.signals.thresholds import Above, Band, Below, Between, Evaluation
from nodefleet.model.names import figure
from nodefleet.policy.demand import PerWorkerQueue
from nodefleet.policy.pool import Pool


def evaluate(rule: PerWorkerQueue, queue: float, fleet_size: FleetSize, pool: Pool) -> Evaluation:
    workers = fleet_size.capacity * rule.runners_per_node
    limit = rule.per_worker * workers
    spelled = f"{figure(limit)} ({figure(rule.per_worker)} for each of {workers} workers)"
    zone: Band = Between()
    compared = f"between {figure(rule.calm_queue)} and {spelled}"
    if queue > limit:
        zone, compared = Above(fleet_size.covered + 1), f"> {spelled}"
    elif queue <= rule.calm_queue:
        zone, compared = Below(), f"≤ {figure(rule.calm_queue)}"
    sustain = rule.sustain or pool.sustain
    sentence = f"{rule.queue} {figure(queue)} {compared}"
    return Evaluation(zone=zone, value=queue, sentence=sentence, up=sustain.up, down=rule.idle_for)

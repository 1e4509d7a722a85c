"""One more worker when the queue is longer than so many jobs for each worker.

Workers are all that are there or booting; the floor is one above the ready ones, so that a repeat while that one
boots buys nothing more. Idle time is measured between samples: how often somebody looked does not matter.
"""

from nodefleet.decide.signals.verdict import Above, Below, Between, Finding, Zone, figure
from nodefleet.decide.signals.votes import Look
from nodefleet.domain.policy import PerWorkerQueue, Pool


def found(rule: PerWorkerQueue, queue: float, look: Look, pool: Pool) -> Finding:
    workers = look.capacity * rule.runners_per_node
    limit = rule.per_worker * workers
    spelled = f"{figure(limit)} ({figure(rule.per_worker)} for each of {workers} workers)"
    zone: Zone = Between()
    compared = f"between {figure(rule.calm_queue)} and {spelled}"
    if queue > limit:
        zone, compared = Above(look.covered + 1), f"> {spelled}"
    elif queue <= rule.calm_queue:
        zone, compared = Below(), f"≤ {figure(rule.calm_queue)}"
    sustain = rule.sustain or pool.sustain
    sentence = f"{rule.queue} {figure(queue)} {compared}"
    return Finding(zone=zone, value=queue, sentence=sentence, up=sustain.up, down=rule.idle_for)

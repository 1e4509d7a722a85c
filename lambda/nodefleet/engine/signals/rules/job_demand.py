"""Runners for jobs that wait or run, with a dead zone between growing and shrinking.

The gap is measured against all nodes that are there or booting; the floor is the step above the ready ones, so that a
repeat while the step boots buys nothing more.
"""

from nodefleet.capacity import FleetSize
from nodefleet.engine.signals.thresholds import Above, Band, Below, Between, Evaluation
from nodefleet.model.names import figure
from nodefleet.policy.demand import JobDemand
from nodefleet.policy.pool import Pool


def evaluate(rule: JobDemand, jobs: float, fleet_size: FleetSize, pool: Pool) -> Evaluation:
    runners = fleet_size.capacity * rule.runners_per_node
    high, low = runners * rule.grow_above, runners * rule.shrink_below
    spelled = f"× {runners} runners"
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

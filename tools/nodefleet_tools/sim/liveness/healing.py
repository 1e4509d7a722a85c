"""A worker that stays not ready is replaced and removed, in a fleet of any size, at min = max too.

The bound: the limit after which it is unhealthy, the brake if it is one of many, and for each that is unhealthy the
time until its replacement is ready and it is drained; and what is still remembered of launches that failed.
"""

from collections.abc import Mapping
from datetime import timedelta

from nodefleet.model.inventory import InstanceState, Node
from nodefleet.policy.pool import Pool
from nodefleet_tools.sim.liveness.check import Check
from nodefleet_tools.sim.rules import Rule


class Healing(Check):
    rule = Rule.HEALING

    def cases(self) -> Mapping[str, timedelta]:
        world, conditions = self.world, self.world.conditions
        if not (conditions.launches_work and conditions.lists_are_true):
            return {}
        found: dict[str, timedelta] = {}
        for pool in world.policy.pools:
            dead = [node for node in world.kube.nodes.values() if node.pool == pool.name and self._is_dead(node)]
            if not pool.dry_run:
                bound = self._bound(pool, len(dead))
                found |= {f"node {node.name} is dead and its instance runs": bound for node in dead}
        return found

    def _is_dead(self, node: Node) -> bool:
        machine = self.world.ec2.machines.get(node.instance)
        runs = machine is not None and machine.ours and machine.state is InstanceState.RUNNING
        return runs and not node.ready and node.name not in self.world.kubelets.alive

    def _bound(self, pool: Pool, dead: int) -> timedelta:
        conditions, policy = self.world.conditions, self.world.policy
        each = conditions.joined_within(pool) + pool.removal.drain_timeout + 2 * policy.interval
        many = dead > max(1, conditions.workers(pool.name) // pool.health.sick_one_in)
        brake = pool.health.brake_limit if many else timedelta(0)
        trouble = max(pool.market.remember_shortage, pool.health.probe_longest)
        # One that is interrupted as well is uncordoned first, if EC2 does not take it.
        warned = pool.removal.notice + pool.removal.false_alarm_after
        return pool.health.not_ready_limit + brake + trouble + warned + dead * each + conditions.slack(intervals=4)

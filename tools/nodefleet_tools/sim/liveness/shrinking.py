"""An idle fleet with nothing that protects its nodes shrinks to min, one exporter or one node in doubt or not.

A pool must give a node back when all of this is true of the world:

    it has more ready workers than min, none is booting, and no pod waits anywhere
    CPU and memory of its workers are below their lower limits, and its own readings are 0 or have no data
    a worker is empty: no pod on it has to move; it is measured, it is not the last of its zone nor of the On-Demand
    base, and nobody opted it out or cordoned it
    at most one node is not ready, and at most one exporter is silent
    no command, window, forecast or headroom wants more, and no part is away

Each size may last: sustain.down, recovery_hold, doubt_for, cooldown.down, and two drains, one of which was uncordoned.
"""

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from math import isnan

from nodefleet.model.inventory import Market, Node
from nodefleet.policy.demand import ClearTime
from nodefleet.policy.fields import Readings
from nodefleet.policy.pool import Pool
from nodefleet_tools.sim.liveness.check import Check
from nodefleet_tools.sim.rules import Rule

_TOLERATED = 1  # nodes in doubt, and exporters that are silent
_PERCENT = 100.0


class Shrinking(Check):
    rule = Rule.SHRINKING

    def cases(self) -> Mapping[str, timedelta]:
        world, conditions = self.world, self.world.conditions
        if not (conditions.all_answer and conditions.readings_are_true and conditions.lists_are_true):
            return {}
        if conditions.paused or any(True for _ in world.kube.unbound()):
            return {}
        return {self._subject(pool): self._bound(pool) for pool in world.policy.pools if self._should_shrink(pool)}

    def _subject(self, pool: Pool) -> str:
        ready = len(self.world.ready_nodes(pool.name))
        return f"pool {pool.name} is idle with {ready} workers, min is {pool.limits.min}"

    def _should_shrink(self, pool: Pool) -> bool:
        ready = self.world.ready_nodes(pool.name)
        return (
            min(len(ready), self.world.conditions.workers(pool.name)) > pool.limits.min
            and not pool.windows
            and not pool.dry_run
            and self._is_sound(pool, ready)
            and self._is_idle(pool, ready)
            and any(self._is_free(node, pool, ready) for node in ready)
        )

    def _is_sound(self, pool: Pool, ready: list[Node]) -> bool:
        world = self.world
        every = [node for node in world.kube.nodes.values() if node.pool == pool.name]
        booting = world.conditions.workers(pool.name) - len(every)
        silent = sum(node.name in world.prometheus.silent for node in ready)
        forecast = world.table.journal.memory.pool(pool.name).forecast
        return booting <= 0 and len(every) - len(ready) <= _TOLERATED and silent <= _TOLERATED and forecast is None

    def _is_idle(self, pool: Pool, ready: list[Node]) -> bool:
        prometheus = self.world.prometheus
        if pool.headroom.is_kept or any(isinstance(rule, ClearTime) and rule.warm_percent for rule in pool.custom):
            return False  # it keeps some ready of its own
        own = [prometheus.custom[key]() for key in prometheus.custom if key[0] == pool.name]
        if any(value is not None and not isnan(value) and value for value in own):
            return False
        uses = [prometheus.use(node) for node in ready]
        means = {"cpu": [cpu for cpu, _ in uses], "memory": [memory for _, memory in uses]}
        limits = {"cpu": pool.reactive.cpu, "memory": pool.reactive.memory}
        for name, shares in means.items():
            fixed = prometheus.fixed.get((pool.name, name))
            percent = fixed() if fixed else _PERCENT * sum(shares) / len(shares)
            projected = percent * len(shares) / max(1, len(shares) - 1)
            if percent >= limits[name].down or projected > limits[name].up - pool.reactive.projection_margin:
                return False
        return True

    def _is_free(self, node: Node, pool: Pool, ready: list[Node]) -> bool:
        world = self.world
        machine = world.ec2.machines.get(node.instance or "")
        if machine is None or node.name in world.prometheus.silent or node.annotations:
            return False
        if any(pod.movable for pod in world.kube.pods_on(node.name)):
            return False
        others = [world.ec2.machines[each.instance] for each in ready if each.instance in world.ec2.machines]
        zones = Counter(each.zone for each in others)
        markets = Counter(each.market for each in others)
        last_of_zone = zones[machine.zone] == 1 and len(world.zones) > 1
        base = machine.market is Market.ON_DEMAND and markets[Market.ON_DEMAND] <= pool.market.on_demand_base
        return not last_of_zone and not base

    def _bound(self, pool: Pool) -> timedelta:
        policy, down = self.world.policy, pool.sustain.down
        calm = down.count * policy.interval if isinstance(down, Readings) else down.window
        waits = policy.trust.recovery_hold + policy.trust.doubt_for + pool.cooldown.down
        return calm + waits + 2 * pool.removal.drain_timeout + self.world.conditions.slack(intervals=4)

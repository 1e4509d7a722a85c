"""An idle fleet with nothing that protects its nodes shrinks to min, one exporter or one node in doubt or not.

A pool must give a node back when all of this is true of the world:

    it has more ready workers than min, none is booting, and no pod waits anywhere
    CPU and memory of its workers are below their lower limits, and its own readings are 0 or have no data; without one
    of the measured workers the mean of the others stays clear of the upper limits: it would buy the worker again
    a worker is empty: no pod on it has to move; it is measured, it is not the last of its zone nor of the On-Demand
    base, and no operator opted it out or cordoned it
    at most one node is not ready, and at most one exporter is silent
    without that worker the others still have the pool's headroom free; one that is not ready leaves that open
    no command, window or forecast wants more, and no part is away
    with `strategy: adaptive`: one node would carry its load twice. Above that the errors of earlier forecasts may speak
    for more nodes, for days if the load has jumped about; it keeps `adaptive.headroom` besides min

Each size may last: sustain.down, recovery_hold, doubt_for, cooldown.down, and two drains, one of which was uncordoned.
"""

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from math import ceil, isnan

from nodefleet.model.inventory import Market, Node, Resources, total
from nodefleet.model.snapshot import add_up
from nodefleet.policy.demand import ClearTime, Readings
from nodefleet.policy.pool import Pool
from nodefleet_tools.sim.liveness.check import Check
from nodefleet_tools.sim.rules import Rule
from nodefleet_tools.sim.shop import GIB

_TOLERATED = 1  # nodes in doubt, and exporters that are silent
_PERCENT = 100.0
_SURELY = 2.0  # times the load that one node must carry for a forecast to have nothing to say


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
            and self._is_beyond_forecasts(pool, ready)
            and any(self._is_free(node, pool, ready) and self._keeps_headroom(node, pool, ready) for node in ready)
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
        if any(isinstance(rule, ClearTime) and rule.warm_percent for rule in pool.custom):
            return False  # it keeps some ready of its own
        probe = pool.standby.reading  # of another cluster
        own = [measure() for (of, name), measure in prometheus.custom.items() if of == pool.name and name != probe]
        if any(value is not None and not isnan(value) and value for value in own):
            return False
        measured = [node for node in ready if node.name not in prometheus.silent]
        uses = [prometheus.use(node) for node in (measured if len(measured) > 1 else ready)]
        means = {"cpu": [cpu for cpu, _ in uses], "memory": [memory for _, memory in uses]}
        limits = {"cpu": pool.reactive.cpu, "memory": pool.reactive.memory}
        for name, shares in means.items():
            fixed = prometheus.fixed.get((pool.name, name))
            percent = fixed() if fixed else _PERCENT * sum(shares) / len(shares)
            projected = percent * len(shares) / max(1, len(shares) - 1)
            if percent >= limits[name].down or projected > limits[name].up - pool.reactive.projection_margin:
                return False
        return True

    def _is_beyond_forecasts(self, pool: Pool, ready: list[Node]) -> bool:
        if pool.strategy != "adaptive":
            return True
        fixed = self.world.prometheus.fixed.get((pool.name, "cpu"))
        shares = [fixed() / _PERCENT if fixed else self.world.prometheus.use(node)[0] for node in ready]
        carried = pool.adaptive.limit / _PERCENT
        return _SURELY * add_up(shares) <= carried and len(ready) > pool.limits.min + pool.adaptive.headroom

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

    # ── headroom ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _keeps_headroom(self, leaving: Node, pool: Pool, ready: list[Node]) -> bool:
        """Placeholders of one size are placed by counting how many each node holds."""
        rules = pool.headroom
        if not rules.is_kept:
            return True
        if any(node.pool == pool.name and node not in ready for node in self.world.kube.nodes.values()):
            return False
        others = [node for node in ready if node is not leaving]
        whole = self._smallest(pool, ready)
        times = rules.most_times if rules.time_of_day else 1.0  # the most that it may be
        peaks = self.world.table.journal.memory.pool(pool.name).peaks.values()
        spare = ceil(times * max(rules.nodes, max((*peaks, len(ready))) * rules.peak_percent / _PERCENT))
        if self._held(whole, others) < spare:
            return False
        running = [pod.requests for node in ready for pod in self.world.kube.pods_on(node.name) if pod.movable]
        asked, number = total(running), max(len(running), 1)
        size = Resources(
            cpu=min(round(1000 * rules.pod_cpu) if rules.pod_cpu else asked.cpu // number, whole.cpu),
            memory=min(round(GIB * rules.pod_memory) if rules.pod_memory else asked.memory // number, whole.memory),
        )
        size = size if size.cpu or size.memory else whole
        amounts = [
            (1000 * rules.cpu, size.cpu or whole.cpu),
            (GIB * rules.memory, size.memory or whole.memory),
            (asked.cpu * rules.percent / _PERCENT, size.cpu or whole.cpu),
            (asked.memory * rules.percent / _PERCENT, size.memory or whole.memory),
        ]
        pods = ceil(times * max(rules.pods, *(amount / max(each, 1) for amount, each in amounts)))
        return self._held(size, others) >= pods

    def _smallest(self, pool: Pool, ready: list[Node]) -> Resources:
        """An empty node of the type that holds least, without what DaemonSets take."""
        kinds = [self.world.nodes.allocatable(name) for name in pool.market.types]
        daemons = [total(pod.requests for pod in self.world.kube.pods_on(node.name) if pod.is_daemon) for node in ready]
        return Resources(
            cpu=min(kind.cpu for kind in kinds) - min(each.cpu for each in daemons),
            memory=min(kind.memory for kind in kinds) - min(each.memory for each in daemons),
        )

    def _held(self, size: Resources, nodes: list[Node]) -> int:
        """How many pods of one size find room on these nodes."""
        held = 0
        for node in nodes:
            pods = self.world.kube.pods_on(node.name)
            taken, offered = total(pod.requests for pod in pods if not pod.finished), node.allocatable
            rooms = [offered.pods - len(pods)]
            rooms += [(offered.cpu - taken.cpu) // size.cpu] if size.cpu else []
            rooms += [(offered.memory - taken.memory) // size.memory] if size.memory else []
            held += max(0, min(rooms))
        return held

    def _bound(self, pool: Pool) -> timedelta:
        policy, down = self.world.policy, pool.sustain.down
        calm = down.count * policy.interval if isinstance(down, Readings) else down.window
        waits = policy.trust.recovery_hold + policy.trust.doubt_for + pool.cooldown.down
        return calm + waits + 2 * pool.removal.drain_timeout + self.world.conditions.slack(intervals=4)

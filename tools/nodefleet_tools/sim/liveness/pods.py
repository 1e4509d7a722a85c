"""Growth never stops below max while a pod waits that a new node would hold, whatever it is called.

With `steps.pending: packing` each such pod runs within join_limit and three intervals. With `steps` the fleet takes its
next step within the growth cooldown, join_limit and three intervals: the case is the pool at its present size, so every
node that is bought starts its clock again.

Demanded while launches work, EC2 lists what there is, nobody has paused or ordered a size, and the pool has room below
max. A pod counts if it asks for nothing but resources (no selectors, neighbours or volumes), an empty node of the
first pool without taints would hold it, and its scheduler has never refused its controller's pods for a reason that
packing does not model: those come back by `benefit.retry_first`, and have tests of their own.
"""

from collections.abc import Mapping
from datetime import timedelta

from nodefleet.domain.policy import Pool
from nodefleet.domain.resources import Resources, total
from nodefleet.domain.workload import Pod
from nodefleet_tools.sim.liveness.check import Check
from nodefleet_tools.sim.rules import Rule


class Pods(Check):
    rule = Rule.PODS

    def cases(self) -> Mapping[str, timedelta]:
        world, conditions = self.world, self.world.conditions
        pool = next((each for each in world.policy.pools if not each.taints and not each.dry_run), None)
        if pool is None or not (conditions.launches_work and conditions.lists_are_true) or conditions.paused:
            return {}
        if not conditions.below_max(pool.name) or (offered := self._offered(pool)) is None:
            return {}
        pods = [pod for pod in world.waiting_pods() if self._could_run(pod, offered)]
        if not pods:
            return {}
        if pool.steps.pending == "packing":
            return {f"pod {pod.key} waits": self._bound(pool) for pod in pods}
        return {f"pods wait for {self._size(pool)}": self._bound(pool) + pool.cooldown.up}

    def _size(self, pool: Pool) -> str:
        return f"pool {pool.name} of {self.world.conditions.workers(pool.name)} workers"

    def _bound(self, pool: Pool) -> timedelta:
        # What chaos left in the memory: a type that lacked capacity, a probe after nodes that did not join.
        remembered = max(pool.market.remember_shortage, pool.health.probe_longest)
        return remembered + self.world.conditions.joined_within(pool) + self.world.conditions.slack(intervals=3)

    def _offered(self, pool: Pool) -> Resources | None:
        """What the smallest node of the pool offers to pods that are not daemons; none if it has none."""
        nodes = self.world.ready_nodes(pool.name)
        if not nodes:
            return None
        daemons = [total(pod.requests for pod in self.world.kube.pods_on(node.name) if pod.is_daemon) for node in nodes]
        cpu = min(node.allocatable.cpu - taken.cpu for node, taken in zip(nodes, daemons, strict=True))
        memory = min(node.allocatable.memory - taken.memory for node, taken in zip(nodes, daemons, strict=True))
        return Resources(cpu=cpu, memory=memory)

    def _could_run(self, pod: Pod, offered: Resources) -> bool:
        rules = pod.rules
        elsewhere = rules.node_selector or rules.node_terms is not None or rules.host_ports
        near_others = rules.affinity or rules.anti_affinity or rules.spread
        if elsewhere or near_others or pod.volumes or pod.requests.extended or pod.requests.storage:
            return False
        if pod.gated or pod.is_daemon or pod.priority < 0 or pod.deleted_at is not None:
            return False
        known = pod.owner is not None and pod.owner.uid not in self.world.scheduler.refused
        return known and pod.requests.cpu <= offered.cpu and pod.requests.memory <= offered.memory

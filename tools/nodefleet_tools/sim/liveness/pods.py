"""Growth never stops below max while a pod waits that a new node would hold, whatever it is called.

With `steps.pending: packing` each such pod runs within the time that a node takes to join and three intervals. With
`steps` the fleet takes its next step within that and the growth cooldown: the case is the pool at its present size, so
every node that is bought starts its clock again.

That holds while nothing is left of earlier trouble. Before it may also take what is still remembered of it (capacity
that lacked, probes after nodes that did not join), join_limit for a node that never comes, and the lease of a run that
died.

Demanded while launches work, EC2 lists what there is, no operator has paused or ordered a size, and the pool has room
below max. A pod counts if it asks for nothing but resources (no selectors, neighbours or volumes), an empty node of the
first pool without taints would hold it, and its scheduler has never refused its controller's pods for a reason that
packing does not model: those come back by `benefit.retry_first`, and have tests of their own.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from nodefleet.model.inventory import Resources, total
from nodefleet.model.state import Level
from nodefleet.model.workload import Pod
from nodefleet.policy.pool import Pool
from nodefleet_tools.sim.instances import SimulatedInstance
from nodefleet_tools.sim.liveness.check import Check
from nodefleet_tools.sim.rules import Rule

if TYPE_CHECKING:
    from nodefleet_tools.sim.world import World


class Pods(Check):
    rule = Rule.PODS

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._troubled: datetime | None = None  # when something of earlier trouble was last left

    def cases(self) -> Mapping[str, timedelta]:
        world, conditions = self.world, self.world.conditions
        pool = next((each for each in world.policy.pools if not each.taints and not each.dry_run), None)
        if pool is None or not (conditions.launches_work and conditions.lists_are_true) or conditions.growth_held:
            return {}
        if not conditions.below_max(pool.name) or (offered := self._offered(pool)) is None:
            return {}
        pods = [pod for pod in world.waiting_pods() if self._could_run(pod, offered)]
        self._troubled = self._troubled if self._is_undisturbed(pool) else world.now
        if not pods:
            return {}
        if pool.steps.pending == "packing":
            return {subject: self._bound(pool, subject) for subject in (f"pod {pod.key} waits" for pod in pods)}
        subject = f"pods wait for {self._size(pool)}"
        return {subject: self._bound(pool, subject) + pool.cooldown.up}

    def _size(self, pool: Pool) -> str:
        return f"pool {pool.name} of {self.world.conditions.workers(pool.name)} workers"

    def _bound(self, pool: Pool, subject: str) -> timedelta:
        conditions = self.world.conditions
        # What chaos left in the memory: a type that lacked capacity, a probe after nodes that did not join.
        remembered = max(pool.market.remember_shortage, pool.health.probe_longest)
        disturbed = remembered + conditions.joined_within(pool) + conditions.slack(intervals=3)
        since = self._since.get(subject, self.world.now)
        before = max(timedelta(0), self._troubled - since) if self._troubled else timedelta(0)
        return min(disturbed, before + conditions.join_time + 3 * self.world.policy.interval)

    def _is_undisturbed(self, pool: Pool) -> bool:
        """Nothing is left of earlier trouble that may hold back a launch, or looks like capacity and is none."""
        world, conditions = self.world, self.world.conditions
        memory = world.table.journal.memory
        of = memory.pool(pool.name)
        lease = world.table.lease
        holder = world.runs.get(lease.owner) if lease and world.now < lease.expires else None
        dead_run = holder is not None and holder.dead
        recalled = of.shortages or of.join_trouble or of.losses or of.vanished or of.braked_since
        if recalled or dead_run or conditions.slow or memory.level is not Level.NORMAL:
            return False
        joining = world.now - conditions.join_time
        return all(self._joins(each, joining) for each in world.ec2.live_workers(pool.name))

    def _joins(self, machine: SimulatedInstance, joining: datetime) -> bool:
        node = self.world.kube.node_of(machine.id)
        taken = machine.interrupted_at is not None or machine.failed
        return not taken and (machine.launched_at > joining if node is None else node.ready)

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

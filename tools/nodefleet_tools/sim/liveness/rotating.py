"""A worker that is due for rotation is replaced, if nothing protects it.

The case is the workers of a pool that are due, and when the pool last grew or shrank: each that goes, each that becomes
due and each change of size starts the clock again. It may last cooldown.down, the time until a new node is ready, two
drains, one of which was uncordoned, removal.settle, and the pause after attempts that failed.

A worker is due by the truth of its instance: its age with the whole of the spread, or another template version than the
deployment's. Demanded of pools with room for one more, without windows, while everything answers, no pod waits, every
node is ready and nothing is remembered of earlier trouble; and of workers whose pods all have others of their kind and
no budget, rule or volume.
"""

from collections.abc import Mapping
from datetime import timedelta

from nodefleet.model.snapshot import Deployment
from nodefleet.model.state import Level, LoopState, PoolMemory
from nodefleet.model.workload import Pod
from nodefleet.policy.fields import doubled_pause
from nodefleet.policy.pool import Pool
from nodefleet_tools.sim.instances import SimulatedInstance
from nodefleet_tools.sim.liveness.check import Check
from nodefleet_tools.sim.rules import Rule


class Rotating(Check):
    rule = Rule.ROTATION

    def cases(self) -> Mapping[str, timedelta]:
        world, conditions = self.world, self.world.conditions
        pools = [pool for pool in world.policy.pools if pool.rotation.max_age or pool.rotation.drift]
        if not pools:
            return {}
        answer = conditions.all_answer and conditions.readings_are_true and conditions.launches_work
        if not (answer and conditions.lists_are_true) or conditions.paused or world.prometheus.silent:
            return {}
        if any(True for _ in world.kube.unbound()):
            return {}
        memory = next(iter(world.table.all("journal", LoopState)), LoopState()).memory
        if memory.level is not Level.NORMAL:
            return {}
        found = {}
        for pool in pools:
            known = memory.pool(pool.name)
            due = self._due(pool, known) if self._is_quiet(pool, known) else []
            if due:
                scaled = max(filter(None, (known.last_grow, known.last_shrink)), default=None)
                subject = f"workers of pool {pool.name} are due for rotation since {scaled or 'ever'}: {', '.join(due)}"
                found[subject] = self._bound(pool, known)
        return found

    def _is_quiet(self, pool: Pool, known: PoolMemory) -> bool:
        world = self.world
        recalled = known.losses or known.join_trouble or known.shortages or known.vanished or known.braked_since
        nodes = [node for node in world.kube.nodes.values() if node.pool == pool.name]
        well = all(node.ready and not (node.cordoned and not node.removal) for node in nodes)
        interrupted = any(machine.interrupted_at or machine.failed for machine in world.ec2.live_workers(pool.name))
        fixed = pool.windows or pool.dry_run or pool.taints
        return (
            not (recalled or known.doubtful or interrupted or fixed) and well and world.conditions.below_max(pool.name)
        )

    def _due(self, pool: Pool, known: PoolMemory) -> list[str]:
        backing_off = {each.node for each in known.backoffs}
        found = []
        for machine in self.world.ec2.live_workers(pool.name):
            node = self.world.kube.node_of(machine.id)
            if node is None or node.cordoned or node.annotations or node.name in backing_off:
                continue
            pods = self.world.kube.pods_on(node.name)
            if self._is_due(machine, pool) and all(pod.is_daemon or self._moves(pod) for pod in pods):
                found.append(machine.id)
        return found

    def _is_due(self, machine: SimulatedInstance, pool: Pool) -> bool:
        rules, now = pool.rotation, self.world.now
        if rules.max_age and now - machine.launched_at >= rules.max_age:
            return True
        deployment = next(iter(self.world.table.all("deployment", Deployment)), None)
        target = next((each for each in deployment.targets if each.pool == pool.name), None) if deployment else None
        made = (machine.template, machine.template_version)
        return rules.drift and target is not None and all(made) and made != (target.template, target.template_version)

    def _moves(self, pod: Pod) -> bool:
        """It may go, and whatever node there is may take it."""
        rules, owner = pod.rules, pod.owner
        bound = rules.node_selector or rules.node_terms is not None or rules.host_ports or pod.volumes
        near = rules.affinity or rules.anti_affinity or rules.spread
        budgets = [each for each in self.world.kube.budgets.values() if each.namespace == pod.namespace]
        plain = not (bound or near or pod.annotations or pod.requests.extended or pod.crashes)
        kept = budgets or pod.namespace == "kube-system" or pod.deleted_at is not None or not pod.ready
        alike = owner is not None and owner.kind == "ReplicaSet" and (owner.replicas or 0) > 1
        refused = owner is not None and owner.uid in self.world.scheduler.refused
        return plain and alike and not kept and not refused

    def _bound(self, pool: Pool, known: PoolMemory) -> timedelta:
        removal, conditions = pool.removal, self.world.conditions
        failures = known.rotation.failures if known.rotation else 0
        pause = (
            doubled_pause(removal.retry_first, failures - 1, pool.rotation.retry_longest) if failures else timedelta(0)
        )
        takes = conditions.joined_within(pool) + 2 * removal.drain_timeout
        return pool.cooldown.down + takes + removal.settle + pause + conditions.slack(intervals=6)

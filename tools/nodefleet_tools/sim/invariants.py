"""The guard: every effect passes it, and what must never happen (`rules`) is kept with what led to it.

It judges by the truth of the world, not by what a run was told. Between a run's last check and its effect the world may
change, and nothing can be done about that: what changed since the check is not held against the run.
"""

from collections import deque
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from nodefleet.model.inventory import Node
from nodefleet.model.operations import Cordon, Launch, Removal
from nodefleet.model.snapshot import add_up
from nodefleet.model.workload import Pod
from nodefleet.policy.pool import Pool
from nodefleet.scheduling.predicates import tolerates_leaving
from nodefleet_tools.sim.accounts import OLD_VIEW, Accounts
from nodefleet_tools.sim.availability import Availability
from nodefleet_tools.sim.budgets import covered, status
from nodefleet_tools.sim.churn import Churn
from nodefleet_tools.sim.hooks import Run
from nodefleet_tools.sim.instances import OPERATOR, SimulatedInstance
from nodefleet_tools.sim.orphan_checks import Leftovers
from nodefleet_tools.sim.rules import Happened, Rule, Violation
from nodefleet_tools.sim.shop import amount_of

if TYPE_CHECKING:
    from nodefleet_tools.sim.world import World

__all__ = ["Guard", "Happened", "Rule", "Violation"]

_STUCK_AFTER = timedelta(seconds=10)  # past its grace, a pod is no longer waited for
_REMEMBERED = 20_000
_ROUNDING = 1e-9  # of sums of prices


class Guard:
    def __init__(self, world: "World") -> None:
        self._world = world
        self.violations: list[Violation] = []
        self.trace: deque[Happened] = deque(maxlen=_REMEMBERED)
        self.by_people: set[str] = set()  # nodes that an operator has cordoned and not given back
        self.uncordoned_at: dict[str, datetime] = {}  # … and when an operator last did give one back
        self.clock_error = timedelta(0)  # by which a run's clock may be wrong, either way
        self.accounts = Accounts(self, world)
        self.leftovers = Leftovers(self, world)
        self.availability = Availability(self, world)
        self.churn = Churn(self, world)

    def broken(self, who: str, rule: Rule, detail: str) -> None:
        self.violations.append(Violation(at=self._world.now, run=who, rule=rule, detail=detail))
        self.did(who, f"VIOLATION {rule.value}: {detail}")

    def did(self, who: str, what: str) -> None:
        self.trace.append(Happened(self._world.now, who, what))

    # ── EC2 ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def launched(self, run: Run, launch: Launch, made: Sequence[SimulatedInstance]) -> None:
        if not made:
            self.did(run.name, f"launch {launch.id}: nothing new")
            return
        ids = ", ".join(machine.id for machine in made)
        self.did(run.name, f"launch {launch.id}: {ids} ({launch.market.value}, {launch.zone})")
        self.needs_lease(run, f"launch {ids}")
        self.accounts.launched(run, launch)
        self.churn.launched(launch.pool)
        made_of_it = [machine for machine in self._world.ec2.machines.values() if machine.operation == launch.id]
        if len(made_of_it) > launch.count:
            detail = f"{len(made_of_it)} instances, and {launch.id} asked for {launch.count}"
            self.broken(run.name, Rule.TWICE, detail)
        if self.within_max(run, launch):
            self.within_fleet_max(run, launch)

    def started(self, run: Run, launch: Launch, machines: Sequence[SimulatedInstance]) -> None:
        ids = ", ".join(machine.id for machine in machines) or "nothing new"
        self.did(run.name, f"start {launch.id}: {ids}")
        if not machines:
            return
        self.needs_lease(run, f"start {ids}")
        self.accounts.launched(run, launch)
        self.churn.launched(launch.pool)
        if self.within_max(run, launch):
            self.within_fleet_max(run, launch)

    def kept_warm(self, run: Run, machine: SimulatedInstance) -> None:
        self.did(run.name, f"stop {machine.id} and keep it warm")
        self.needs_lease(run, f"stop {machine.id}")
        self.accounts.terminated(run, machine)
        self.churn.terminated(run, machine)
        kept = [each for each in self._world.ec2.machines.values() if each.pool == machine.pool and each.is_kept]
        number, most = len({machine.id, *(each.id for each in kept)}), self._world.most_warm(machine.pool)
        if number > most:
            self.broken(run.name, Rule.WARM, f"{number} are kept in pool {machine.pool}, and warm.size is {most}")
        self._leaves_no_pods(run, machine)

    def within_max(self, run: Run, launch: Launch) -> bool:
        there = [
            machine
            for machine in self._world.ec2.live_workers(launch.pool)
            if machine.by != OPERATOR and not self._is_taken(machine) and self._can_be_known(machine, run)
        ]
        most = self._world.most(launch.pool, since=launch.started)
        if len(there) > most:
            detail = f"{len(there)} workers in pool {launch.pool}, and max is {most}"
            self.broken(run.name, Rule.OVER_MAX, detail)
        return len(there) <= most

    def within_fleet_max(self, run: Run, launch: Launch) -> None:
        """All pools together, and the workers that none of them owns. A limit that the policy does not
        name lets each pool have its min of nodes that are ready or may still join."""
        there = [
            machine
            for machine in self._world.ec2.live_workers()
            if machine.by != OPERATOR and not self._is_taken(machine) and self._can_be_known(machine, run)
        ]
        own = [machine for machine in there if machine.pool == launch.pool and self._may_be_capacity(machine)]
        self._within_caps(run, launch, there, own)
        if len(own) <= self._world.unlimited_min(launch.pool, since=launch.started):
            return
        most = self._world.fleet_max(since=launch.started)
        if len(there) > most:
            self.broken(run.name, Rule.OVER_FLEET_MAX, f"{len(there)} workers in all pools and none, and {most} may be")

    def _within_caps(
        self, run: Run, launch: Launch, there: list[SimulatedInstance], own: list[SimulatedInstance]
    ) -> None:
        """CPU, memory, GPUs and cost of all workers, for a pool that has more than its min."""
        world = self._world
        if len(own) <= world.least(launch.pool, since=launch.started):
            return
        types = world.ec2.shop.types
        for name, cap in world.caps(since=launch.started).items():
            amount = add_up(amount_of(name, types[machine.type], machine.market) for machine in there)
            if amount > cap + _ROUNDING:
                self.broken(run.name, Rule.OVER_FLEET_CAP, f"{amount:g} in use, and fleet.{name} is {cap:g}")

    def _may_be_capacity(self, machine: SimulatedInstance) -> bool:
        """A worker that leaves is none, also before its node could be cordoned."""
        leaving = {each.instance for each in self._world.table.operations if isinstance(each, Removal)}
        node = self._world.kube.node_of(machine.id)
        if node is not None:
            return node.ready and not node.cordoned and machine.id not in leaving
        rules = self._world.policy.pool(machine.pool) or Pool()
        return not machine.failed and self._world.now - machine.launched_at < rules.health.join_limit

    def _can_be_known(self, machine: SimulatedInstance, run: Run) -> bool:
        """If EC2 lists nothing when a run observes, and no ready worker shows that this is wrong, it knows only what
        EC2 answered to launches: it has to count an instance of a stored answer until EC2 should have listed it and for
        `cleanup_after` more, and one whose answer was lost until the first of these times."""
        looked_at = run.looked_at or self._world.now
        if machine.tagged_again_at is not None and machine.tagged_again_at >= looked_at:
            return False  # it bore no tag of ours when the run looked
        since = looked_at - OLD_VIEW
        nodes = [node for node in self._world.kube.nodes.values() if node.pool and node.ready]
        told = any(node.ready_changed_at and node.ready_changed_at <= since for node in nodes)
        rules, answered = self._world.policy.pool(machine.pool) or Pool(), self.accounts.answered.get(machine.id)
        counted = self._world.policy.interval + (rules.budgets.cleanup_after if answered else timedelta(0))
        fresh = self._world.now - (answered or machine.launched_at) < counted - 2 * self.clock_error
        return not self._world.ec2.hid_all(since=looked_at) or told or fresh

    def _is_taken(self, machine: SimulatedInstance) -> bool:
        """EC2 takes it; or it said so, and the word that it does not after all has reached no function yet."""
        if machine.interrupted_at is not None:
            return True
        world, rules = self._world, self._world.policy.pool(machine.pool) or Pool()
        if not world.ec2.withdrawn:
            return False
        heard = {each.event for each in world.table.notices if each.withdrawn}
        return any(
            each.instance == machine.id
            and each.event in world.ec2.withdrawn - heard
            and world.now >= each.at - rules.health.scheduled_change_lead
            for each in world.ec2.interruptions
        )

    def terminated(self, run: Run, machine: SimulatedInstance) -> None:
        self.did(run.name, f"terminate {machine.id}")
        self.needs_lease(run, f"terminate {machine.id}")
        self.accounts.terminated(run, machine)
        self.leftovers.terminated(run, machine)
        self.churn.terminated(run, machine)
        self._leaves_no_pods(run, machine)

    def _leaves_no_pods(self, run: Run, machine: SimulatedInstance) -> None:
        node = self._world.kube.node_of(machine.id)
        if node is None or not node.ready or self._is_taken(machine) or not machine.live:
            return
        self._returned(run, node, machine)
        left = [
            pod
            for pod in self._world.kube.pods_on(node.name)
            if self._had_to_move(pod) and not self._came_back(pod, machine)
        ]
        if left and not self._changed_since_check(run, node):
            names = ", ".join(pod.key for pod in left)
            self.broken(run.name, Rule.ABANDONED, f"{machine.id} was terminated with {names} on {node.name}")

    def marked(self, run: Run, machine: SimulatedInstance) -> None:
        self.did(run.name, f"tag {machine.id} as failed to join")
        self.needs_lease(run, f"tag {machine.id}")
        self.accounts.marked(run, machine)

    def assigned(self, run: Run, machine: SimulatedInstance, pool: str) -> None:
        self.did(run.name, f"tag {machine.id} as a worker of pool {pool}")
        self.needs_lease(run, f"tag {machine.id}")
        self.accounts.assigned(run, machine, pool)

    def forbidden(self, run: Run, machine: SimulatedInstance, verb: str) -> None:
        if machine.untagged_at is not None and run.looked_at is not None and machine.untagged_at >= run.looked_at:
            return  # it was ours when the run looked
        detail = f"tried to {verb} {machine.id}, which is not a worker of ours"
        self.broken(run.name, Rule.FORBIDDEN, detail)

    def _had_to_move(self, pod: Pod) -> bool:
        if not pod.movable:
            return False
        waited = self._world.now + self.clock_error
        return pod.deleted_at is None or waited <= pod.deleted_at + pod.grace + _STUCK_AFTER

    def _came_back(self, pod: Pod, machine: SimulatedInstance) -> bool:
        """Its controller made it while the node was leaving, and it tolerates every taint: no eviction would keep it
        off, and it is made again elsewhere when the node has ended. One that no controller makes again is never
        excused, nor is one that was there before the removal began."""
        began = [
            each.started
            for each in self._world.table.operations
            if isinstance(each, Removal) and each.instance == machine.id
        ]
        made = pod.created_at
        managed = pod.owner is not None and not pod.owner.gone
        return managed and tolerates_leaving(pod.rules) and made is not None and any(made > start for start in began)

    def _returned(self, run: Run, node: Node, machine: SimulatedInstance) -> None:
        """Pods that came back end with the node. Their budgets hold for that as for an eviction."""
        pods = tuple(self._world.kube.pods.values())
        going = [each for each in pods if each.node == node.name and each.ready and self._came_back(each, machine)]
        left = tuple(each for each in pods if each not in going)
        for budget in self._world.kube.budgets.values():
            now = status(budget, left) if covered(budget, going) else None
            if now is not None and now.current_healthy < now.desired_healthy:
                wanted = f"{now.current_healthy} healthy are left, {budget.key} wants {now.desired_healthy}"
                self.broken(run.name, Rule.BUDGET, f"{node.name} ended with pods that had come back: {wanted}")

    def _changed_since_check(self, run: Run, node: Node) -> bool:
        """It became ready, joined, or was uncordoned by an operator after the run had looked at it for the last
        time."""
        checked = run.checked.get(node.name) or run.looked_at
        changes = (node.ready_changed_at, node.created_at, self.uncordoned_at.get(node.name))
        return checked is not None and any(at is not None and at >= checked for at in changes)

    # ── Kubernetes ───────────────────────────────────────────────────────────────────────────────────────────────

    def cordoned(self, run: Run, node: Node, cordon: Cordon) -> None:
        self.did(run.name, f"cordon {node.name} for {cordon.removal}")
        if not node.cordoned:
            self.availability.began(node)
        if not self._taken_by_ec2(node):
            self.needs_lease(run, f"cordon {node.name}")
            self.accounts.needs_operation(run, f"cordon {node.name}", cordon.removal)
        if node.name in self.by_people and node.cordoned:
            detail = f"{node.name} was cordoned by an operator, and our cordon covers it"
            self.broken(run.name, Rule.OPERATOR, detail)

    def uncordoned(self, run: Run, node: Node, removal: str) -> None:
        self.did(run.name, f"uncordon {node.name}")
        self.needs_lease(run, f"uncordon {node.name}")
        self.accounts.uncordoned(run, node, removal)
        if node.name in self.by_people:
            self.broken(run.name, Rule.OPERATOR, f"{node.name} was cordoned by an operator, and we uncordoned it")

    def evicted(self, run: Run, pod: Pod) -> None:
        self.did(run.name, f"evict {pod.key} from {pod.node}")
        node = self._world.kube.nodes.get(pod.node or "")
        if node is not None and not self._taken_by_ec2(node):
            self.needs_lease(run, f"evict {pod.key}")
            self.accounts.emptied(run, node, f"evict {pod.key}")
        machine = self._world.ec2.machines.get(node.instance) if node else None
        if machine is not None and self._came_back(pod, machine):
            self.broken(run.name, Rule.RETURNED, f"{pod.key} was evicted from {pod.node}, and would come back again")
        if pod.deleted_at is not None:
            return  # it had to go anyway
        if node is not None:
            self.availability.evicted(run, pod, node)
        if not pod.ready:
            return  # no budget counted it
        pods = tuple(self._world.kube.pods.values())
        for budget in self._world.kube.budgets.values():
            now = status(budget, pods) if covered(budget, [pod]) else None
            if now is not None and now.current_healthy < now.desired_healthy:
                wanted = f"{now.current_healthy} healthy, {budget.key} wants {now.desired_healthy}"
                self.broken(run.name, Rule.BUDGET, f"{pod.key} was evicted: {wanted}")

    def forced(self, run: Run, pod: Pod) -> None:
        self.did(run.name, f"delete {pod.key} by force from {pod.node}")
        node = self._world.kube.nodes.get(pod.node or "")
        if node is not None and node.ready and not self._taken_by_ec2(node):
            self.broken(run.name, Rule.FORCED, f"{pod.key} on {pod.node}, which EC2 does not take")

    def node_deleted(self, run: Run, node: Node) -> None:
        self.did(run.name, f"delete node {node.name}")
        self.by_people.discard(node.name)
        self.needs_lease(run, f"delete node {node.name}")
        self.accounts.node_deleted(run, node)
        self.leftovers.node_deleted(run, node)

    # ── the lease ────────────────────────────────────────────────────────────────────────────────────────────────

    def needs_lease(self, run: Run, what: str) -> None:
        """What is done between two clocks that differ too much is not held against a run; what it writes is."""
        held = self._world.table.lease
        trusted = self.clock_error <= self._world.policy.trust.clock_skew
        if trusted and (held is None or run.fence != held.fence):
            holder = f"{held.owner} holds it" if held else "it is free"
            self.broken(run.name, Rule.LEASE, f"{what} with fence {run.fence}: {holder}")

    def _taken_by_ec2(self, node: Node) -> bool:
        machine = self._world.ec2.machines.get(node.instance)
        return machine is None or self._is_taken(machine) or not machine.live

"""Cleanups, held against the truth: nothing is destroyed at first sight, and never much at once on doubtful evidence.

How long something has been orphaned is known here: a Node since its instance ended or EC2 stopped showing it, an
instance since it should have joined or its Node went; or since the iteration that saw it first, if it was never seen
well since. Two observations that agree cannot be further apart than that.
"""

from collections import defaultdict, deque
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from nodefleet.model.inventory import InstanceState, Node
from nodefleet.model.operations import Cleanup
from nodefleet.policy.pool import Pool
from nodefleet_tools.sim.hooks import Run
from nodefleet_tools.sim.instances import SimulatedInstance
from nodefleet_tools.sim.rules import Rule

if TYPE_CHECKING:
    from nodefleet_tools.sim.invariants import Guard
    from nodefleet_tools.sim.world import World

_CLOCKS = timedelta(seconds=30)  # two runs may differ by so much about how long ago something was
_OLD_VIEW = timedelta(seconds=90)  # a run's view of Kubernetes may be so old


class Leftovers:
    def __init__(self, guard: "Guard", world: "World") -> None:
        self._guard = guard
        self._world = world
        self._since: dict[str, datetime] = {}  # when an iteration could first see it as orphaned
        self._doubtful: dict[str, deque[tuple[datetime, str]]] = defaultdict(deque)  # what cleanups destroyed, by pool

    def looked(self) -> None:
        """An iteration saw EC2 and Kubernetes, and its decision is recorded."""
        now, world = self._world.now, self._world
        for machine in world.ec2.live_workers():
            node = world.kube.node_of(machine.id)
            if node is None:
                self._since.setdefault(machine.id, now)
            elif node.created_at is None or node.created_at < now - _OLD_VIEW:
                self._since.pop(machine.id, None)
        for node in world.kube.nodes.values():
            its = world.ec2.machines.get(node.instance)
            if its is not None and its.live and world.ec2.listed(its):
                self._since.pop(node.name, None)
            else:
                self._since.setdefault(node.name, now)

    def terminated(self, run: Run, machine: SimulatedInstance) -> None:
        cleanup = self._cleanup(machine.id)
        if cleanup is None:
            return
        rules = self._rules(machine.pool)
        stopped = _stopped_at(machine)
        if stopped is not None:  # EC2 itself says that it serves no node
            self._is_old_enough(run, cleanup, stopped, rules)
            if machine.warm:
                return  # our own tag says so: nothing about it is doubtful
            self._few_enough(run, cleanup, machine.pool, rules)
            return
        since = machine.launched_at + rules.health.join_limit
        dropped = self._world.kube.dropped.get(machine.id)
        self._is_old_enough(run, cleanup, max(since, dropped or since), rules)
        node = self._world.kube.node_of(machine.id)
        looked = run.looked_at or self._world.now
        if node is not None and node.created_at is not None and node.created_at < looked - _OLD_VIEW:
            self._guard.broken(
                run.name, Rule.HASTY, f"{machine.id} was terminated as orphaned, and is node {node.name}"
            )
        self._few_enough(run, cleanup, machine.pool, rules)

    def node_deleted(self, run: Run, node: Node) -> None:
        cleanup = self._cleanup(node.name)
        if cleanup is None:
            return
        rules = self._rules(node.pool or "")
        machine = self._world.ec2.machines.get(node.instance)
        self._is_old_enough(run, cleanup, self._gone_since(machine, node), rules)
        if machine is None or machine.state is not InstanceState.TERMINATED:
            self._few_enough(run, cleanup, node.pool or "", rules)

    def _gone_since(self, machine: SimulatedInstance | None, node: Node) -> datetime:
        ec2 = self._world.ec2
        if machine is None:
            return node.created_at or self._world.start
        terminated = next((at for at, state in machine.states if state is InstanceState.TERMINATED), None)
        hidden = [at for at in (machine.untagged_at, ec2.hidden_since, terminated) if at is not None]
        return min(hidden, default=self._world.now)

    def _is_old_enough(self, run: Run, cleanup: Cleanup, since: datetime, rules: Pool) -> None:
        age = self._world.now - min(since, self._since.get(cleanup.target, since))
        if age < rules.budgets.cleanup_after - _CLOCKS:
            detail = f"{cleanup.debris.value} {cleanup.target} was orphaned for {age.total_seconds():.0f} s only"
            self._guard.broken(run.name, Rule.HASTY, detail)

    def _few_enough(self, run: Run, cleanup: Cleanup, pool: str, rules: Pool) -> None:
        now, recent = self._world.now, self._doubtful[pool]
        if cleanup.target not in (target for _, target in recent):
            recent.append((now, cleanup.target))
        apart = rules.budgets.cleanup_after - _CLOCKS
        while recent and now - recent[0][0] >= apart:
            recent.popleft()
        fleet = sum(self._may_be_seen(machine) for machine in self._world.ec2.machines.values() if machine.pool == pool)
        allowed = max(rules.budgets.cleanup_least, int(rules.budgets.cleanup_percent * fleet / 100))
        if len(recent) > allowed:
            names = ", ".join(target for _, target in recent)
            self._guard.broken(run.name, Rule.MASS, f"{names} within {apart.total_seconds():.0f} s")

    def _may_be_seen(self, machine: SimulatedInstance) -> bool:
        ended = machine.ended_at
        return machine.worker and (ended is None or self._world.now - ended < _OLD_VIEW)

    def _cleanup(self, target: str) -> Cleanup | None:
        found = (each for each in self._world.table.operations if isinstance(each, Cleanup) and each.target == target)
        return next(found, None)

    def _rules(self, pool: str) -> Pool:
        return self._world.policy.pool(pool) or Pool(name=pool)


def _stopped_at(machine: SimulatedInstance) -> datetime | None:
    """Since when it is stopped, or was when its termination began: that may be asked for twice."""
    known = (each for each in reversed(machine.states) if each[1] in (InstanceState.STOPPED, InstanceState.RUNNING))
    at, state = next(known, (None, None))
    return at if state is InstanceState.STOPPED else None

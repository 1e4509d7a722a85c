"""An instance that is paid for and is no capacity ends, or an operator is alerted.

Holds while EC2, Kubernetes and the table answer and EC2 lists what there is. An instance that is marked as failed to
join was told when it was marked: so many as the policy keeps stay for an operator, and the others end one after the
other. One whose termination EC2 refuses may take the time of its cleanup, and holds up no other.
"""

from collections.abc import Mapping
from datetime import timedelta

from nodefleet.model.alerts import AlertKind
from nodefleet.model.inventory import InstanceState
from nodefleet.model.operations import Removal
from nodefleet.policy.pool import Pool
from nodefleet_tools.sim.instances import SimulatedInstance
from nodefleet_tools.sim.liveness.check import Check
from nodefleet_tools.sim.rules import Rule

_PAID = (InstanceState.PENDING, InstanceState.RUNNING, InstanceState.STOPPING, InstanceState.STOPPED)


class RestingCost(Check):
    rule = Rule.RESTING_COST

    def begun(self) -> None:
        self._names: dict[str, set[str]] = {}  # by instance, with the name that its Node has or had

    def cases(self) -> Mapping[str, timedelta]:
        world, conditions = self.world, self.world.conditions
        answers = conditions.answers("cloud", "cluster", "store") and conditions.lists_are_true
        if not answers:
            return {}
        policy = world.policy
        joined = max((pool.health.join_limit for pool in policy.pools), default=timedelta(0))
        bound = policy.resting.longest + joined + conditions.slack()
        resting = {
            f"instance {each.id} is no capacity": bound
            for each in world.ec2.machines.values()
            if self._rests(each) and not self._alerted(each)
        }
        return resting | {
            f"pool {pool.name} keeps {kept} instances that did not join": self._ended_within(pool, kept)
            for pool in policy.pools
            if (kept := self._marked(pool)) > pool.health.keep_failed
        }

    def _marked(self, pool: Pool) -> int:
        """Of those that have not joined since, and that an operator was not asked to terminate."""
        return sum(
            each.failed
            and self.world.kube.node_of(each.id) is None
            and not self._alerted(each, AlertKind.CLEANUP_NEEDS_OPERATOR)
            for each in self.world.ec2.live_workers(pool.name)
        )

    def _ended_within(self, pool: Pool, kept: int) -> timedelta:
        """Until there is one fewer: every cleanup before that takes its longest, and the next waits for it."""
        return kept * (pool.budgets.cleanup_after + pool.removal.drain_timeout + self.world.conditions.slack())

    def _rests(self, machine: SimulatedInstance) -> bool:
        if not (machine.ours and machine.worker and machine.state in _PAID) or machine.failed:
            return False
        pool = self.world.policy.pool(machine.pool)
        if machine.is_kept and pool is not None:
            return False  # how many and for how long is another rule
        node = self.world.kube.node_of(machine.id)
        stopped = machine.state in (InstanceState.STOPPING, InstanceState.STOPPED)
        if stopped or node is None or not node.ready or pool is None:
            return True
        leaves = any(isinstance(each, Removal) and each.instance == machine.id for each in self.world.table.operations)
        return node.cordoned and bool(node.removal) and not leaves

    def _alerted(self, machine: SimulatedInstance, kind: AlertKind = AlertKind.RESTING_COST) -> bool:
        """An alert of the last while is about it."""
        since = self.world.now - self.world.policy.messages.remind_after
        node = self.world.kube.node_of(machine.id)
        names = self._names.setdefault(machine.id, {machine.id})  # its Node may be deleted since
        names |= {node.name} if node else set()
        return any(
            not names.isdisjoint(event.subjects)
            for event in self.world.table.events
            if event.kind is kind and event.at >= since
        )

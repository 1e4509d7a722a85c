"""An operation is closed within the time that its deadlines give.

A launch:    sent until its deadline (lease), EC2's answer an interval later, join_limit.
A removal:   voluntary or unhealthy: drained until drain_timeout, and as long again to be terminated or uncordoned.
             Interrupted: until its deadline, which is when EC2 takes it (a scheduled change: up to
             scheduled_change_lead after it began), and false_alarm_after until EC2 is no longer believed.
A cleanup:   until drain_timeout.
Each then takes a tick to be seen, and one more to be done: a termination, an uncordon. While Kubernetes or EC2 does not
answer, the operations' own clocks stand still.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import assert_never

from nodefleet.model.operations import Cleanup, Launch, Operation, Removal, RemovalReason
from nodefleet.policy.pool import Pool
from nodefleet_tools.sim.liveness.check import Check
from nodefleet_tools.sim.rules import Rule


class Finishing(Check):
    rule = Rule.UNFINISHED

    def cases(self) -> Mapping[str, timedelta]:
        conditions = self.world.conditions
        if not (conditions.answers("cloud", "cluster", "store") and conditions.lists_are_true):
            return {}
        return {f"operation {each.id} is open": self._bound(each) for each in self.world.table.operations}

    def _bound(self, operation: Operation) -> timedelta:
        policy = self.world.policy
        pool = policy.pool(operation.pool) or Pool(name=operation.pool)
        match operation:
            case Launch():
                own = policy.lease + policy.interval + pool.health.join_limit
            case Removal(why=RemovalReason.INTERRUPTED):
                own = operation.deadline - operation.started + pool.removal.false_alarm_after
            case Removal():
                own = 2 * pool.removal.drain_timeout
            case Cleanup():
                own = pool.removal.drain_timeout
            case _:
                assert_never(operation)
        return own + self.world.conditions.slack(intervals=4)

"""Instances that are kept warm are few and young: what is beyond `warm.size` or `warm.max_age` is terminated in time.

Holds while EC2, Kubernetes and the table answer and EC2 lists what there is.
"""

from collections.abc import Mapping
from datetime import timedelta

from nodefleet.policy.pool import Pool
from nodefleet_tools.sim.liveness.check import Check
from nodefleet_tools.sim.rules import Rule


class Warm(Check):
    rule = Rule.WARM

    def cases(self) -> Mapping[str, timedelta]:
        conditions = self.world.conditions
        if not (conditions.answers("cloud", "cluster", "store") and conditions.lists_are_true) or conditions.paused:
            return {}
        found: dict[str, timedelta] = {}
        for pool in self.world.policy.pools:
            if not pool.dry_run:
                found |= dict.fromkeys(self._of(pool), self._bound(pool))
        return found

    def _of(self, pool: Pool) -> list[str]:
        kept = [
            each for each in self.world.ec2.machines.values() if each.is_kept and each.ours and each.pool == pool.name
        ]
        old = [each.id for each in kept if self.world.now - each.states[0][0] >= pool.warm.max_age]
        beyond = [f"more than {pool.warm.size} instances of pool {pool.name} are kept warm"]
        return [
            *(f"instance {identity} is kept warm beyond warm.max_age" for identity in old),
            *(beyond if len(kept) > pool.warm.size else ()),
        ]

    def _bound(self, pool: Pool) -> timedelta:
        return (
            2 * pool.budgets.cleanup_after + 2 * pool.removal.drain_timeout + self.world.conditions.slack(intervals=6)
        )

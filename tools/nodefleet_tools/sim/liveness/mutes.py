"""Pods that lost their vote are heard again: no mute lasts.

A class of pods is muted for `benefit.retry_first`, doubling up to `benefit.retry_longest`. Then one of its pods asks:
it gets a node, or is found to be refused again (after join_limit or `benefit.refused_after`) and the class is muted and
alerted once more. So the number of its mutes grows, or it is not remembered any more. The case is a class with its
number of mutes in all pools: one that a pool has muted is silent in every other too, and asks in one of them at a time.

Demanded while its pods wait, launches work, EC2 lists what there is, nothing is paused or ordered, and a pool that has
muted it has room: without room no node is bought for any signal.
"""

from collections import defaultdict
from collections.abc import Mapping
from datetime import timedelta

from nodefleet.model.state import LoopState, PendingClass
from nodefleet.policy.fields import doubled_pause
from nodefleet.policy.pool import Pool
from nodefleet_tools.sim.liveness.check import Check
from nodefleet_tools.sim.rules import Rule


class Mutes(Check):
    rule = Rule.MUTE

    def cases(self) -> Mapping[str, timedelta]:
        world, conditions = self.world, self.world.conditions
        if not (conditions.launches_work and conditions.lists_are_true) or conditions.growth_held:
            return {}
        if not world.waiting_pods():
            return {}
        memory = next(iter(world.table.all("journal", LoopState)), LoopState()).memory
        muted: defaultdict[str, list[tuple[Pool, PendingClass]]] = defaultdict(list)
        for pool in world.policy.pools:
            for each in memory.pool(pool.name).pending:
                if each.mutes and not pool.dry_run:
                    muted[each.name].append((pool, each))
        found = {}
        for name, by_pool in muted.items():
            if any(conditions.below_max(pool.name) for pool, _ in by_pool):
                pools = ", ".join(pool.name for pool, _ in by_pool)
                subject = f"class {name} of pool {pools} after mute {sum(each.mutes for _, each in by_pool)}"
                found[subject] = max(self._bound(pool, each) for pool, each in by_pool)
        return found

    def _bound(self, pool: Pool, muted: PendingClass) -> timedelta:
        conditions, rules = self.world.conditions, pool.benefit
        asks = max(conditions.joined_within(pool) + pool.market.remember_shortage, rules.refused_after)
        pause = doubled_pause(rules.retry_first, muted.mutes - 1, rules.retry_longest)
        return pause + asks + pool.cooldown.up + conditions.slack(intervals=4)

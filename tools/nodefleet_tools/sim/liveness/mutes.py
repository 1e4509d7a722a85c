"""Pods that lost their vote are heard again: no mute lasts.

A class of pods is muted for `benefit.retry_first`, doubling up to `benefit.retry_longest`. Then one of its pods asks:
it gets a node, or is found to be refused again (after join_limit or `benefit.refused_after`) and the class is muted and
alerted once more. So the number of its mutes grows, or it is not remembered any more. The case is a class with its
number of mutes.

Demanded while its pods wait, launches work, EC2 lists what there is, nothing is paused or ordered, and there is room:
without room nobody buys for whoever asks.
"""

from collections.abc import Mapping
from datetime import timedelta

from nodefleet.model.state import LoopState
from nodefleet.policy.fields import doubled_pause
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
        journal = next(iter(world.table.all("journal", LoopState)), LoopState())
        found = {}
        for pool in world.policy.pools:
            if pool.dry_run or not conditions.below_max(pool.name):
                continue
            rules = pool.benefit
            asks = max(conditions.joined_within(pool) + pool.market.remember_shortage, rules.refused_after)
            for each in journal.memory.pool(pool.name).pending:
                if each.mutes:
                    pause = doubled_pause(rules.retry_first, each.mutes - 1, rules.retry_longest)
                    subject = f"class {each.name} of pool {pool.name} after mute {each.mutes}"
                    found[subject] = pause + asks + pool.cooldown.up + conditions.slack(intervals=4)
        return found

"""A floor that a standby pool ordered for another cluster ends: by an operator's command, or after `standby.lasting`.

It may be in the table for `standby.lasting` and the usual slack, whatever the other cluster does meanwhile. Once it has
ended the fleet has to shrink as any other (`shrinking`). Another floor for the same cluster needs a moment in which
that cluster was healthy: a standby that takes over again and again would never end either.

Demanded while every part answers; runs that cannot read the table cannot end anything.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from nodefleet.model.snapshot import AUTOSCALER, Scale
from nodefleet.policy.pool import Pool
from nodefleet_tools.sim.liveness.check import Check
from nodefleet_tools.sim.rules import Rule

if TYPE_CHECKING:
    from nodefleet_tools.sim.world import World


class Standby(Check):
    rule = Rule.STANDBY

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._last: dict[str, datetime | None] = {}  # by pool: the end of a floor after which it was not seen healthy
        self._again: set[str] = set()

    def begun(self) -> None:
        super().begun()
        self._last.clear()
        self._again.clear()

    def cases(self) -> Mapping[str, timedelta]:
        if not self.world.conditions.all_answer:
            return {}
        found = {}
        for pool, order in self._floors():
            subject = f"pool {pool.name} is kept at {order.nodes} for {order.origin} until {order.until:%d %H:%M:%S}"
            found[subject] = pool.standby.lasting + self.world.conditions.slack()
            if self._last.get(pool.name, order.until) != order.until:
                self._again.add(f"pool {pool.name} takes over {order.origin} again, which was not healthy in between")
            self._last[pool.name] = order.until
        self._forget_healthy()
        return {**found, **dict.fromkeys(self._again, timedelta(0))}

    def _floors(self) -> Iterator[tuple[Pool, Scale]]:
        for order in self.world.table.commands:
            pool = self.world.policy.pool(order.pool) if isinstance(order, Scale) else None
            if isinstance(order, Scale) and pool and order.by == AUTOSCALER and order.origin == pool.standby.origin:
                yield pool, order

    def _forget_healthy(self) -> None:
        """Without a floor, a cluster that is healthy may be taken over when it fails the next time."""
        kept = {pool.name for pool, _ in self._floors()}
        for pool in self.world.policy.pools:
            measure = self.world.prometheus.custom.get((pool.name, pool.standby.reading or ""))
            value = measure() if measure else None
            if pool.name not in kept and value is not None and value >= pool.standby.healthy:
                self._last.pop(pool.name, None)

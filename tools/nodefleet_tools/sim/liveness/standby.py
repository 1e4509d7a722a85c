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
        self._last: dict[str, datetime] = {}  # by pool: the end of the last floor that was seen in force
        self._healthy: set[str] = set()  # pools whose other cluster was healthy since a floor for it was ordered
        self._again: set[str] = set()

    def begun(self) -> None:
        super().begun()
        self._last.clear()
        self._healthy.clear()
        self._again.clear()

    def cases(self) -> Mapping[str, timedelta]:
        floors = list(self._floors())
        for pool, order in floors:
            if order.until <= self.world.now:
                continue  # it has ended, and only its record is still there
            if self._last.get(pool.name, order.until) != order.until and pool.name not in self._healthy:
                self._again.add(f"pool {pool.name} takes over {order.origin} again, which was not healthy in between")
            self._last[pool.name] = order.until
        self._see_health({pool.name for pool, order in floors if order.until > self.world.now})
        if not self.world.conditions.all_answer:
            return {}
        found = {}
        for pool, order in floors:
            subject = f"pool {pool.name} is kept at {order.nodes} for {order.origin} until {order.until:%d %H:%M:%S}"
            found[subject] = pool.standby.lasting + self.world.conditions.slack()
        return {**found, **dict.fromkeys(self._again, timedelta(0))}

    def _floors(self) -> Iterator[tuple[Pool, Scale]]:
        for order in self.world.table.commands:
            pool = self.world.policy.pool(order.pool) if isinstance(order, Scale) else None
            if isinstance(order, Scale) and pool and order.by == AUTOSCALER and order.origin == pool.standby.origin:
                yield pool, order

    def _see_health(self, in_force: set[str]) -> None:
        """A cluster that fails again before the floor for it has ended must be healthy once more."""
        for pool in self.world.policy.pools:
            measure = self.world.prometheus.custom.get((pool.name, pool.standby.reading or ""))
            value = measure() if measure else None
            if value is not None and value >= pool.standby.healthy:
                self._healthy.add(pool.name)
            elif pool.name in in_force:
                self._healthy.discard(pool.name)

"""Facts of the world that a liveness check depends on. All of them are the truth, not what a run was told."""

from datetime import timedelta
from math import floor
from typing import TYPE_CHECKING

from nodefleet.capacity import caps_of
from nodefleet.model.inventory import Market
from nodefleet.model.snapshot import Pause, add_up
from nodefleet.policy.pool import Pool
from nodefleet_tools.sim.shop import amount_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nodefleet_tools.sim.instances import SimulatedInstance
    from nodefleet_tools.sim.world import World

PORTS = ("cloud", "cluster", "store", "gauges")
_NO_CAP = 1 << 30
_ROUNDING = 1e-9


class Conditions:
    def __init__(self, world: "World") -> None:
        self._world = world
        self.slow = False  # an iteration takes so long that a run has time for one or none

    def answers(self, *ports: str) -> bool:
        """These parts answer every call: cloud, cluster, store, gauges, archive."""
        faults = self._world.faults
        if not faults.away and not faults.throttled:
            return True
        return not any(port in faults.away or faults.throttled[port] > 0 for port in ports)

    @property
    def all_answer(self) -> bool:
        return self.answers(*PORTS)

    @property
    def lists_are_true(self) -> bool:
        """EC2 lists what there is."""
        return self._world.ec2.hidden_since is None

    @property
    def readings_are_true(self) -> bool:
        prometheus = self._world.prometheus
        return self.answers("gauges") and not prometheus.frozen and not prometheus.missing

    @property
    def capacity_available(self) -> bool:
        """EC2 sells every type of every pool in every zone and market at the prices that the policy pays."""
        shop = self._world.shop
        return not shop.refusals and not shop.stock and not shop.spot_prices and shop.quota is None

    @property
    def nodes_join(self) -> bool:
        settings = self._world.kube.settings
        return settings.never_joins == 0 and settings.joins_late == 0

    @property
    def launches_work(self) -> bool:
        """A launch that is sent now becomes a ready node within join_limit."""
        return self.answers("cloud", "cluster", "store") and self.capacity_available and self.nodes_join

    @property
    def paused(self) -> bool:
        """A command holds some pool."""
        return any(each.until is None or each.until > self._world.now for each in self._world.table.commands)

    @property
    def growth_held(self) -> bool:
        """A command keeps some pool from growing. A pause of the scale-down must not."""
        commands = self._world.table.commands
        held = (each for each in commands if not (isinstance(each, Pause) and each.scale_down_only))
        return any(each.until is None or each.until > self._world.now for each in held)

    def workers(self, pool: str, market: Market | None = None) -> int:
        """Pending and running instances of a pool."""
        return sum(1 for each in self._world.ec2.live_workers(pool) if market in (None, each.market))

    def room(self, pool: str) -> int:
        """How many instances the pool may still launch, alone and within the fleet; pending and leaving ones take
        room."""
        policy = self._world.policy
        rules = policy.pool(pool)
        if rules is None:
            return 0
        live = self._world.ec2.live_workers()
        own = sum(each.pool == pool for each in live)
        fleet = policy.fleet_max - len(live)
        if policy.fleet.max is None:
            fleet = max(fleet, rules.limits.min - own)
        return max(0, min(rules.limits.max - own, fleet, self._within_caps(rules, live)))

    def _within_caps(self, pool: Pool, live: "Sequence[SimulatedInstance]") -> int:
        """How many more nodes of the pool, each as large and as expensive as its types may be, fit under the caps."""
        types, rooms = self._world.ec2.shop.types, [_NO_CAP]
        own = [types[name] for name in pool.market.types if name in types]
        for name, cap in caps_of(self._world.policy.fleet).items():
            largest = max((amount_of(name, each, Market.ON_DEMAND) for each in own), default=0.0)
            if largest:
                there = add_up(amount_of(name, types[each.type], each.market) for each in live)
                rooms.append(floor((cap - there) / largest + _ROUNDING))
        return min(rooms)

    def below_max(self, pool: str) -> bool:
        return self.room(pool) > 0

    def slack(self, intervals: int = 2) -> timedelta:
        """What any reaction may take besides its own time: a run that died holds the lease, and so many ticks."""
        policy = self._world.policy
        return policy.lease + 2 * policy.trust.clock_skew + intervals * policy.interval

    @property
    def join_time(self) -> timedelta:
        """From a request that EC2 takes to a ready node, when all goes well."""
        cloud, kubernetes = self._world.ec2.settings, self._world.kube.settings
        return timedelta(seconds=cloud.boots_in[1] + kubernetes.joins_in[1] + kubernetes.ready_in[1])

    def joined_within(self, pool: Pool) -> timedelta:
        """From the tick that launches a node until it is ready, at the latest."""
        return pool.health.join_limit + self._world.policy.interval

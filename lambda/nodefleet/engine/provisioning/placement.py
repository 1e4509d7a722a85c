"""Zone and market of new nodes: zones balanced, Spot on an On-Demand base, no known shortage."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from nodefleet.capacity import on_demand_of, on_demand_share
from nodefleet.engine.context import PlacementRequest
from nodefleet.model.fleet import Worker
from nodefleet.model.inventory import Instance, Market
from nodefleet.model.operations import Shortage
from nodefleet.policy.pool import MarketMix


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A launch: so many nodes of some types in one zone and market."""

    zone: str
    market: Market
    types: tuple[str, ...]
    count: int
    starts: tuple[str, ...] = ()  # warm instances that are started instead of launching so many


ANY = PlacementRequest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    launches: tuple[Placed, ...]
    missing: int  # nodes for which there is known to be no capacity anywhere


def place(
    asks: Sequence[PlacementRequest],
    workers: Iterable[Worker],
    zones: Sequence[str],
    mix: MarketMix,
    shortages: Iterable[Shortage],
    now: datetime,
    *,
    on_demand_at_least: int = 0,
    warm: Sequence[Worker] = (),
) -> Placement:
    """Launches for the asked nodes. `workers` are those that are and stay capacity; what is `warm` is started where an
    On-Demand node is wanted, the emptier zone first."""
    staying = list(workers)
    per_zone = Counter(dict.fromkeys(zones, 0))
    per_zone.update(worker.zone for worker in staying if worker.zone in per_zone)
    wanted = on_demand_share(len(staying) + len(asks), mix) - on_demand_of(staying)
    left_on_demand = min(len(asks), max(wanted, on_demand_at_least))
    scarce = {(short.type, short.zone, short.market) for short in shortages if now < short.until}

    chosen: Counter[tuple[str, Market, tuple[str, ...]]] = Counter()
    left_warm, started = list(warm), defaultdict[str, list[Instance]](list)
    for ask in asks:
        market = ask.market or (Market.ON_DEMAND if left_on_demand > 0 else Market.SPOT)
        found = _choose(ask, market, per_zone, mix, scarce)
        if found is None:
            continue
        zone, market, _ = found
        instance = _choose_warm(ask, left_warm, per_zone, mix, scarce) if market is Market.ON_DEMAND else None
        if instance:
            left_warm = [each for each in left_warm if each.instance != instance]
            zone = instance.zone
            started[zone].append(instance)
        else:
            chosen[found] += 1
        per_zone[zone] += 1
        left_on_demand -= market is Market.ON_DEMAND
    starts = tuple(
        Placed(
            zone=zone,
            market=Market.ON_DEMAND,
            types=tuple(dict.fromkeys(each.type for each in of_zone)),
            count=len(of_zone),
            starts=tuple(each.id for each in of_zone),
        )
        for zone, of_zone in started.items()
    )
    launches = tuple(
        Placed(zone=zone, market=market, types=types, count=count) for (zone, market, types), count in chosen.items()
    )
    missing = len(asks) - chosen.total() - sum(each.count for each in starts)
    return Placement(launches=(*starts, *launches), missing=missing)


def _choose_warm(
    ask: PlacementRequest,
    warm: Sequence[Worker],
    per_zone: Mapping[str, int],
    mix: MarketMix,
    scarce: set[tuple[str, str, Market]],
) -> Instance | None:
    """One that the asked pods fit on, in the zone with the fewest nodes. Starting needs capacity like launching."""
    zones, types = set(per_zone) & set(ask.zones or per_zone), ask.types or mix.types
    fit = [
        worker.instance
        for worker in warm
        if worker.instance
        and worker.zone in zones
        and worker.instance.type in types
        and (worker.instance.type, worker.zone, Market.ON_DEMAND) not in scarce
    ]
    return min(fit, key=lambda instance: per_zone[instance.zone], default=None)


def _choose(
    ask: PlacementRequest,
    market: Market,
    per_zone: Mapping[str, int],
    mix: MarketMix,
    scarce: set[tuple[str, str, Market]],
) -> tuple[str, Market, tuple[str, ...]] | None:
    """The zone with the fewest nodes that has capacity; On-Demand where Spot is known to have none, unless the pods
    depend on Spot."""
    zones = sorted(set(per_zone) & set(ask.zones or per_zone), key=lambda zone: (per_zone[zone], zone))
    for paid in dict.fromkeys((market, ask.market or Market.ON_DEMAND)):
        for zone in zones:
            types = tuple(kind for kind in ask.types or mix.types if (kind, zone, paid) not in scarce)
            if types:
                return zone, paid, types
    return None

"""Instance types: when the work needs much of one resource and little of the other, another shape is cheaper."""

import re

from nodefleet.domain.machines import InstanceType
from nodefleet.reporting.amounts import hourly, percent
from nodefleet.reporting.case import Case, Recommendation, Subject

_TYPE = re.compile(r"(?P<family>[a-z]+)\d+(?P<attributes>[a-z-]*)\.")
_ARM_BEFORE_NAMES = "a1."  # the first generation did not say it
_GRAVITON = "g"
_MOST_MEMORY = ("r", "x", "u", "z")
_MOST_CPU = ("c",)


def other_type(case: Case) -> Recommendation | None:
    week, least, main = case.week, case.thresholds, case.main
    if main is None or min(map(week.known_percent, ("cpu_known", "memory_known"))) < least.readable_percent:
        return None
    cpu, memory = _needed_cpu(case), _needed_memory(case)
    if cpu is None or memory is None:
        return None
    scarce, ample = max(cpu, memory), min(cpu, memory)
    if scarce < least.needed_percent / 100 or scarce < least.lopsided * ample:
        return None
    for_memory = memory > cpu
    high, low = (("memory", memory), ("CPU", cpu)) if for_memory else (("CPU", cpu), ("memory", memory))
    because = f"{main.name} is needed for its {high[0]} ({percent(100 * high[1])}), its {low[0]} much less "
    because += f"({percent(100 * low[1])})"
    better = _cheapest(case, main, cpu, memory, for_memory=for_memory)
    if better is None:
        return _family(case, main, because, for_memory=for_memory)
    offer, share = better
    spent = case.paid(week.node_hours)
    return Recommendation(
        pool=case.pool.name,
        subject=Subject.TYPE,
        do=f"Try {offer.name} in place of {main.name} in market.types{_price_to_allow(offer, case)}",
        because=because,
        effect=f"for the same need it costs {percent(100 * (1 - share))} less at On-Demand prices",
        usd_per_month=None if spent is None else spent * (1 - share),
    )


def larger_or_equal(case: Case) -> list[str]:
    """Types of the catalogue that the pool does not use and that could stand in for its main one, cheapest first."""
    main = case.main
    if main is None:
        return []
    offers = [
        (offer.hourly_usd, offer.name)
        for offer in case.catalog.values()
        if offer.name not in case.pool.market.types
        and offer.hourly_usd is not None
        and not _price_to_allow(offer, case)
        and offer.resources.cpu >= main.resources.cpu
        and offer.resources.memory >= main.resources.memory
        and _could_replace(offer.name, main.name)
    ]
    return [name for _, name in sorted(offers)]


def _needed_cpu(case: Case) -> float | None:
    use = case.week.mean(lambda hour: hour.cpu)
    asked = case.week.mean(lambda hour: hour.requested_cpu) or 0.0
    return None if use is None else max(use / case.at_work(case.pool.reactive.cpu), asked / 100)


def _needed_memory(case: Case) -> float | None:
    use = case.week.mean(lambda hour: hour.memory)
    asked = case.week.mean(lambda hour: hour.requested_memory) or 0.0
    return None if use is None else max(use / case.at_work(case.pool.reactive.memory), asked / 100)


def _cheapest(
    case: Case, main: InstanceType, cpu: float, memory: float, *, for_memory: bool
) -> tuple[InstanceType, float] | None:
    """The type that does the same work for the least, and for what share of the present price."""
    if main.hourly_usd is None or not main.hourly_usd:
        return None
    nodes = case.week.nodes
    found = []
    for offer in case.catalog.values():
        if not _fits(offer, main, for_memory=for_memory):
            continue
        each = max(
            cpu * main.resources.cpu / offer.resources.cpu, memory * main.resources.memory / offer.resources.memory
        )
        count = max(nodes * each / max(cpu, memory), float(case.pool.limits.min))
        found.append((count * (offer.hourly_usd or 0.0) / (nodes * main.hourly_usd), offer.name))
    share, name = min(found, default=(1.0, ""))
    return (case.catalog[name], share) if share <= 1 - case.thresholds.cheaper_percent / 100 else None


def _fits(offer: InstanceType, main: InstanceType, *, for_memory: bool) -> bool:
    """Priced, of the same kind, and not smaller in what is scarce: the largest pod must still fit."""
    has, had = offer.resources, main.resources
    if offer.name == main.name or not offer.hourly_usd or not has.cpu or not has.memory:
        return False
    as_large = has.memory >= had.memory if for_memory else has.cpu >= had.cpu
    return as_large and _could_replace(offer.name, main.name)


def _could_replace(name: str, main: str) -> bool:
    """Of the same architecture, so that images run; and no burstable type for one that is always at full speed."""
    return _is_arm(name) == _is_arm(main) and (_is_burstable(main) or not _is_burstable(name))


def _is_arm(name: str) -> bool:
    found = _TYPE.match(name)
    return name.startswith(_ARM_BEFORE_NAMES) or (found is not None and _GRAVITON in found["attributes"])


def _is_burstable(name: str) -> bool:
    found = _TYPE.match(name)
    return found is not None and found["family"] == "t"


def _price_to_allow(offer: InstanceType, case: Case) -> str:
    """Spot above max_price_usd is never bought."""
    price = offer.spot_usd if offer.spot_usd is not None else offer.hourly_usd
    market = case.pool.market
    if not market.spot_percent or price is None or price <= market.max_price_usd:
        return ""
    return f", and allow its Spot price ({hourly(price)}; market.max_price_usd is {market.max_price_usd:g})"


def _family(case: Case, main: InstanceType, because: str, *, for_memory: bool) -> Recommendation | None:
    """No type that we know the price of is better: say where to look, unless that is where we are.

    Of a fleet at min there would be as many of the other type, at its higher price."""
    if case.week.nodes - case.pool.limits.min < case.thresholds.least_nodes_saved:
        return None
    found = _TYPE.match(main.name)
    family = found["family"] if found else ""
    if family.startswith(_MOST_MEMORY if for_memory else _MOST_CPU):
        return None
    if for_memory:
        where = "the memory-optimised families (r)"
        where += ", or the next larger size of the same family" if family == "t" else ""
    else:
        where = "the compute-optimised families (c)"
        where += ", or the next smaller size of the same family" if family == "t" else ""
    more, less = ("memory", "CPU") if for_memory else ("CPU", "memory")
    return Recommendation(
        pool=case.pool.name,
        subject=Subject.TYPE,
        do=f"Look for a type with more {more} for its {less} than {main.name}: {where}",
        because=because,
        effect="no type in the catalogue does the same for less",
    )

"""Faults of EC2: instances are taken with and without a warning, capacity is short, lists are stale."""

from datetime import timedelta
from random import Random

from nodefleet.model.inventory import Market, NoticeKind
from nodefleet.model.operations import RefusalKind
from nodefleet.policy.pool import RemovalRules
from nodefleet_tools.sim.chaos.drawing import coin
from nodefleet_tools.sim.chaos.stage import Stage
from nodefleet_tools.sim.shop import QUOTA
from nodefleet_tools.sim.world import LAMBDA_LIMIT

_DEAR = 0.5  # USD/h: more than any policy here pays


def takes_spot(stage: Stage, random: Random) -> str:
    machine = stage.any_worker(random, Market.SPOT)
    if machine is None or machine.interrupted_at is not None:
        return ""
    stage.invocations.event([stage.world.interrupt(machine.id)])
    return machine.id


def takes_many(stage: Stage, random: Random) -> str:
    """Some type in some zone is wanted elsewhere: all of it at once."""
    spot = [
        each for each in stage.world.ec2.live_workers() if each.market is Market.SPOT and each.interrupted_at is None
    ]
    taken = random.sample(spot, min(len(spot), random.randint(2, 4)))
    notices = [stage.world.interrupt(machine.id) for machine in taken]
    if coin(random):
        stage.invocations.event(notices)
    else:
        for notice in notices:
            stage.invocations.event([notice])
    return ", ".join(machine.id for machine in taken)


def takes_spot_illegibly(stage: Stage, random: Random) -> str:
    """The record of its warning can never be read: a newer version wrote it, or it was cut off."""
    machine = stage.any_worker(random, Market.SPOT)
    if machine is None or machine.interrupted_at is not None:
        return ""
    stage.strikes.illegible.add(machine.id)
    stage.world.guard.accounts.illegible.add(machine.id)
    stage.invocations.event([stage.world.interrupt(machine.id)])
    return machine.id


def recommends(stage: Stage, random: Random) -> str:
    machine = stage.any_worker(random, Market.SPOT)
    if machine is None:
        return ""
    stage.invocations.event([stage.world.interrupt(machine.id, NoticeKind.REBALANCE)])
    return machine.id


def schedules(stage: Stage, random: Random) -> str:
    """A change is announced, and half of the time it comes to pass."""
    machine = stage.any_worker(random)
    if machine is None or machine.interrupted_at is not None:
        return ""
    world = stage.world
    notice = world.interrupt(machine.id, NoticeKind.SCHEDULED_CHANGE)
    stage.invocations.event([notice])
    happens = coin(random)
    if happens:
        world.clock.after(random.uniform(60, 600), lambda: world.ec2.end(machine))
        return machine.id
    rules = RemovalRules()
    after = rules.notice + rules.false_alarm_after + LAMBDA_LIMIT  # a run that began before that may still act on it
    world.clock.after(after.total_seconds(), lambda: world.ec2.forget(notice))
    return f"{machine.id}, but nothing will come of it"


def schedules_ahead(stage: Stage, random: Random) -> str:
    """Hours or days ahead; some of these are withdrawn, and some never come without a withdrawal."""
    machine = stage.any_worker(random)
    if machine is None or machine.interrupted_at is not None:
        return ""
    world = stage.world
    ahead = timedelta(seconds=random.choice((1800.0, 4500.0, 6 * 3600.0, 3 * 86400.0, 14 * 86400.0)))
    notice = world.interrupt(machine.id, NoticeKind.SCHEDULED_CHANGE, ahead=ahead, happens=coin(random))
    stage.invocations.event([notice])
    said = f"{machine.id} in {ahead}"
    if coin(random):
        return said
    after = random.uniform(60, 2400)
    world.clock.after(after, lambda: stage.invocations.event([world.withdraw(notice)]))
    return f"{said}, withdrawn after {after:.0f} s"


def schedules_many_ahead(stage: Stage, random: Random) -> str:
    """Maintenance of a rack: two to four instances at once, days ahead."""
    free = [each for each in stage.world.ec2.live_workers() if each.interrupted_at is None]
    chosen = random.sample(free, min(len(free), random.randint(2, 4)))
    ahead = timedelta(days=random.choice((1, 3, 14)))
    for machine in chosen:
        stage.invocations.event([stage.world.interrupt(machine.id, NoticeKind.SCHEDULED_CHANGE, ahead=ahead)])
    return f"{', '.join(machine.id for machine in chosen)} in {ahead}" if chosen else ""


def recommends_all(stage: Stage, random: Random) -> str:
    """Spot runs short in a zone: half or all of the Spot instances at once."""
    spot = [each for each in stage.world.ec2.live_workers() if each.market is Market.SPOT]
    chosen = spot if coin(random) else random.sample(spot, (len(spot) + 1) // 2)
    for machine in chosen:
        stage.invocations.event([stage.world.interrupt(machine.id, NoticeKind.REBALANCE)])
    return ", ".join(machine.id for machine in chosen)


def never_tags(stage: Stage, random: Random) -> str:
    """A tag policy that no operator fixes refuses the tag of what did not join, and some instances do not join."""
    world = stage.world
    stage.strikes.untaggable = True
    world.kube.settings.never_joins = max(world.kube.settings.never_joins, random.choice((0.2, 0.6)))
    return "for ever"


def dies(stage: Stage, random: Random) -> str:
    """Without a word: the hardware failed."""
    machine = stage.any_worker(random)
    if machine is None:
        return ""
    stage.world.ec2.end(machine)
    return machine.id


# ── what it has to sell ──────────────────────────────────────────────────────────────────────────────────────────


def lacks_capacity(stage: Stage, random: Random) -> str:
    world = stage.world
    zone = random.choice((*world.zones, None))
    market = random.choice((Market.SPOT, Market.ON_DEMAND, None))
    kind = random.choice((RefusalKind.CAPACITY, RefusalKind.CAPACITY, *RefusalKind))
    seconds = random.uniform(60, 1500)
    world.shop.refuse(zone=zone, market=market, kind=kind)
    world.clock.after(seconds, lambda: world.shop.refusals.pop((None, zone, market), None))
    return f"{zone or 'all zones'}, {market.value if market else 'both markets'}: {kind.value} for {seconds:.0f} s"


def has_few(stage: Stage, random: Random) -> str:
    """Fewer than may be asked for: a launch gets a part of what it wants."""
    world = stage.world
    left = random.randint(0, 1)
    offers = [
        (kind, zone, market)
        for pool in world.policy.pools
        for kind in pool.market.types
        for zone in world.zones
        for market in Market
    ]
    world.shop.stock |= dict.fromkeys(offers, left)
    world.clock.after(random.uniform(60, 1500), world.shop.stock.clear)
    return f"{left} of each type"


def quota_reached(stage: Stage, random: Random) -> str:
    world = stage.world
    world.shop.quota = len(world.ec2.live_workers()) + random.randint(0, 1)

    def raised() -> None:
        world.shop.quota = None

    world.clock.after(random.uniform(60, 1500), raised)
    return f"{world.shop.quota} workers ({', '.join(QUOTA.values())})"


def gets_dear(stage: Stage, random: Random) -> str:
    world = stage.world
    zone = random.choice(world.zones)
    types = {kind for pool in world.policy.pools for kind in pool.market.types}
    world.shop.spot_prices |= {(kind, zone): _DEAR for kind in types}
    world.clock.after(random.uniform(60, 1500), world.shop.spot_prices.clear)
    return zone


def lists_nothing(stage: Stage, random: Random) -> str:
    """An empty answer that is no error: a wrong region, or a role that sees nothing."""
    ec2, seconds = stage.world.ec2, random.uniform(20, 900)
    ec2.hidden_since = stage.world.now
    stage.world.clock.at(stage.world.now + timedelta(seconds=seconds), ec2.show_again)
    return f"for {seconds:.0f} s"

"""How many nodes the forecast is worth, in one currency: node-minutes.

A minute above the limit has a price in node-minutes. Scale-up weighs that price times its chance against the nodes.
Scale-down weighs what fewer nodes save against the chance that they are missed at once (the price) or called back soon
(a removal that is undone saved little and cost a drain).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from statistics import median

from nodefleet.engine.forecast.forecaster import ForecastWindow, Outlook
from nodefleet.model.fleet import Phase, Worker
from nodefleet.model.state import AdaptiveMemory
from nodefleet.policy.demand import Adaptive
from nodefleet.policy.pool import Pool

# ── join time ────────────────────────────────────────────────────────────────────────────────────────────────────────
# The join time of a pool's nodes, learned per instance type and zone.
#
# A forecast must reach as far ahead as a node takes from launch to Ready. `adaptive.join` is that figure until nodes
# have joined; afterwards the nodes' own figures replace it. Each node counts once, when it is first seen ready after it
# was seen booting, so a node that lost and regained its kubelet teaches nothing.


KEPT = 8  # joins of a type and zone: enough for a median, few enough to follow a new image
FEWEST = 3  # joins: fewer are no rule


def learn_joins(memory: AdaptiveMemory, workers: Sequence[Worker], now: datetime) -> AdaptiveMemory:
    """The joins of the nodes that were booting at the last iteration and are ready now, and which are booting now."""
    joins = {key: list(seconds) for key, seconds in memory.joins.items()}
    for worker in workers:
        if worker.phase is Phase.READY and worker.id in memory.booting and worker.instance and worker.node:
            ready_at = worker.node.ready_changed_at or now
            seconds = round((ready_at - worker.instance.launched_at).total_seconds())
            if seconds > 0:  # two clocks: EC2's and the API server's
                joins.setdefault(_key(worker.instance.type, worker.instance.zone), []).append(seconds)
    return replace(
        memory,
        joins={key: tuple(seconds[-KEPT:]) for key, seconds in joins.items()},
        booting=tuple(sorted(worker.id for worker in workers if worker.phase is Phase.BOOTING)),
    )


def expected_join(joins: Mapping[str, Sequence[int]], pool: Pool, zones: Collection[str]) -> timedelta:
    """How long the next node will take: the slowest median among the types and zones that the pool launches, because
    which of them EC2 will give is not known yet. A launch that takes longer than `health.join_limit` has failed."""
    relevant = [
        seconds
        for key, seconds in joins.items()
        if _type(key) in pool.market.types and (not zones or _zone(key) in zones)
    ]
    known = [median(seconds) for seconds in relevant if len(seconds) >= FEWEST]
    together = [each for seconds in relevant for each in seconds]
    if not known and len(together) >= FEWEST:
        known = [median(together)]
    if not known:
        return pool.adaptive.join
    return min(timedelta(seconds=max(known)), pool.health.join_limit)


def _key(type_: str, zone: str) -> str:
    return f"{type_} {zone}"


def _type(key: str) -> str:
    return key.partition(" ")[0]


def _zone(key: str) -> str:
    return key.partition(" ")[2]


# ── sizing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """All in node-minutes."""

    violation: float = 65.0  # one minute above the limit
    least_gain: float = 3.0  # a scale-up must be worth more: noise would make the fleet flap
    least_gain_requeued: float = 3.5  # the same between two scheduled decisions: each more decision may err once more
    undone: float = 36.0  # a removal that is called back, or a scale-up that another one follows
    least_saving: float = 9.5  # a scale-down must be worth more
    violation_minutes: float = 2.0  # above the limit, when removed nodes are missed at once

    def for_load(self, busy: float, rules: Adaptive) -> "Prices":
        """The prices of a pool whose busiest hours have this load, in busy nodes. The same work cut into more nodes
        moves more of them, so above `prices_for` nodes all prices grow in proportion. The violation's grows faster:
        whole nodes leave a small fleet room to spare by rounding up, and a large one none."""
        times = max(1.0, busy / rules.prices_for)
        return Prices(
            violation=self.violation * times**rules.price_growth,
            least_gain=self.least_gain * times,
            least_gain_requeued=self.least_gain_requeued * times,
            undone=self.undone * times,
            least_saving=self.least_saving * times,
            violation_minutes=self.violation_minutes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What the forecast asks for."""

    up: int | None  # grow to this; none: the capacity is enough
    down: int | None  # shrinking to this would be worth it; none: not
    now: Sequence[float]  # chance that n nodes exceed the limit when a node launched now would serve
    soon: Sequence[float] = ()
    later: Sequence[float] = ()


def size(
    outlook: Outlook,
    *,
    capacity: int,
    least: int,
    most: int,
    limit: float,
    prices: Prices,
    saturated: bool = False,
    requeued: bool = False,
) -> Sizes:
    """The sizes between `least` and `most`. `limit`: utilisation (a share) above which a minute is a violation.
    `requeued`: between two scheduled decisions, where only growing is asked for."""
    more = outlook.learning.hidden if saturated else 0.0
    top = max(most, capacity)
    now = outlook.shortfalls(ForecastWindow.LEVEL, top, limit, more)
    # More than the largest fleet can carry still needs the largest fleet: its own chance must not speak against it.
    now[most:] = [0.0] * (top + 1 - most)
    best = cheapest(now, least, most, prices)
    gain = _cost(now, capacity, prices) - _cost(now, best, prices)
    needed = prices.least_gain_requeued if requeued else prices.least_gain
    if best > capacity and gain > needed:
        later = outlook.shortfalls(ForecastWindow.LATER, top, limit, more)
        return Sizes(up=with_next(best, later, most, outlook.learning.later, prices), down=None, now=now)
    if requeued or capacity <= least:
        return Sizes(up=None, down=None, now=now)
    soon = outlook.shortfalls(ForecastWindow.SOON, top, limit, more)
    later = outlook.shortfalls(ForecastWindow.LATER, top, limit, more)
    savings = {
        nodes: saving(capacity - nodes, soon[nodes], later[nodes], outlook, prices)
        for nodes in range(max(least, best), capacity)
    }
    down = max(savings, key=lambda nodes: savings[nodes], default=None)
    if down is None or savings[down] <= prices.least_saving:
        down = None
    return Sizes(up=None, down=down, now=now, soon=soon, later=later)


def is_close(sizes: Sizes, capacity: int, prices: Prices) -> bool:
    """A fresher reading could call for a scale-up: an iteration before the next scheduled one is worth its price."""
    return prices.violation * sizes.now[min(capacity, len(sizes.now) - 1)] > prices.least_gain_requeued / 16


def cheapest(chances: Sequence[float], least: int, most: int, prices: Prices) -> int:
    """The number of nodes for which nodes and expected violations together cost least."""
    return min(range(least, most + 1), key=lambda nodes: (_cost(chances, nodes, prices), nodes))


def with_next(best: int, later: Sequence[float], most: int, minutes: int, prices: Prices) -> int:
    """The number of nodes to launch together: those that the next minutes will call for come along if that costs less
    than another scale-up. One that comes along is early by half of the minutes; the largest fleet needs no other."""
    again = [*later[:most], 0.0]
    return min(
        range(best, most + 1), key=lambda nodes: ((nodes - best) * minutes / 2 + prices.undone * again[nodes], nodes)
    )


def saving(fewer: int, soon: float, later: float, outlook: Outlook, prices: Prices) -> float:
    """What it is worth to have so many nodes fewer, if they are missed soon or later with these chances."""
    minutes = outlook.learning.later
    called_back = minutes / 2 - outlook.learning.join  # on average, and the new node boots meanwhile
    kept = minutes * (1 - later) + called_back * later
    return fewer * kept - prices.undone * later - prices.violation * prices.violation_minutes * soon


def _cost(chances: Sequence[float], nodes: int, prices: Prices) -> float:
    return nodes + prices.violation * chances[nodes]

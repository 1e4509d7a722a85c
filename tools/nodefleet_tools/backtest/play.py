"""A policy played on a trace: nodes by minute, and what that was worth.

One minute after the other:

1. nodes that were launched `join` minutes ago serve from this minute on;
2. if the load is more than `violation` of the nodes that serve, it is a minute of violation; if it is more than the
   largest fleet could carry, that is no fault of the policy and counted apart;
3. the policy sees the reading of this minute, which cannot show more than all CPU of the nodes that serve, and may
   change the fleet: every `interval` minutes, and between them if it asks to be requeued;
4. all nodes are paid, those that boot too.

So a node that is launched on the reading of minute o serves from o + join. Minutes without data are not scored, and no
decision is made in them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, isfinite
from typing import Protocol

from nodefleet.engine.forecast.forecaster import FORECASTERS
from nodefleet_tools.backtest.traces import Trace

DAY = 1440
UNDONE = 30  # minutes: a scale-up that is taken back within was not needed, or came too late


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The fleet that a policy may have."""

    least: int = 2
    most: int = 10
    join: int = 3  # minutes
    violation: float = 0.85  # share of the nodes that serve
    interval: int = 2  # minutes between scheduled decisions


@dataclass(frozen=True, slots=True)
class Reading:
    """What a policy sees of a minute."""

    minute: int  # since the epoch
    load: float | None  # busy nodes as measured; none: no data
    ready: int
    booting: int
    scheduled: bool  # else: requeued

    @property
    def capacity(self) -> int:
        return self.ready + self.booting


class Policy(Protocol):
    name: str

    def learn(self, trace: Trace, until: int) -> None:
        """Whatever was before the scored part."""
        ...

    def decide(self, reading: Reading) -> int:
        """The number of nodes to have, ready and booting."""
        ...


@dataclass(slots=True)
class Grade:
    """How good a forecast was: violations that decisions promised against those that came, and who had the vote."""

    promised: float = 0.0
    seen: int = 0
    decisions: int = 0
    votes: list[float] = field(default_factory=lambda: [0.0] * len(FORECASTERS))  # sums
    voted: int = 0

    def add_votes(self, shares: Sequence[float]) -> None:
        self.votes = [old + share for old, share in zip(self.votes, shares, strict=True)]
        self.voted += 1

    @property
    def shares(self) -> dict[str, float]:
        """The mean share of each forecaster in the vote."""
        return {name: vote / max(1, self.voted) for name, vote in zip(FORECASTERS, self.votes, strict=True)}

    @property
    def promised_pct(self) -> float:
        return 100 * self.promised / max(1, self.decisions)

    @property
    def seen_pct(self) -> float:
        return 100 * self.seen / max(1, self.decisions)


@dataclass(slots=True)
class Run:
    """What a policy did on one trace."""

    policy: str
    trace: str
    minutes: int = 0  # scored
    violation_minutes: int = 0
    unavoidable_minutes: int = 0  # more load than the largest fleet can carry
    longest_violation_min: int = 0
    node_minutes: int = 0
    idle_node_minutes: int = 0  # nodes beyond those that the minute needed
    at_max_minutes: int = 0
    scale_ups: int = 0
    scale_downs: int = 0
    undone: int = 0  # scale-ups taken back within 30 minutes
    optimum_node_minutes: float = 0.0
    ready: list[int] = field(default_factory=list)  # by scored minute
    short: list[int] = field(default_factory=list)  # scored minutes of violation
    grade: Grade | None = None  # of the adaptive strategy's forecast
    days: list[list[int]] = field(default_factory=list)  # of each scored day: minutes, violation minutes, node-minutes

    @property
    def violation_pct(self) -> float:
        return 100 * self.violation_minutes / max(1, self.minutes)

    @property
    def vs_optimum(self) -> float:
        return self.node_minutes / self.optimum_node_minutes if self.optimum_node_minutes else 0.0

    @property
    def actions_per_day(self) -> float:
        return (self.scale_ups + self.scale_downs) / max(1, self.minutes) * DAY

    @property
    def undone_pct(self) -> float:
        return 100 * self.undone / self.scale_ups if self.scale_ups else 0.0

    @property
    def node_hours(self) -> float:
        return self.node_minutes / 60


class Fleet:
    """Nodes that serve and nodes that boot."""

    def __init__(self, ready: int) -> None:
        self.ready = ready
        self.booting: list[tuple[int, int]] = []  # (serves from, nodes)

    @property
    def boots(self) -> int:
        return sum(nodes for _, nodes in self.booting)

    def join(self, minute: int) -> None:
        if self.booting and self.booting[0][0] <= minute:
            self.ready += sum(nodes for at, nodes in self.booting if at <= minute)
            self.booting = [(at, nodes) for at, nodes in self.booting if at > minute]

    def resize(self, nodes: int, serves_from: int) -> None:
        """Launch what is missing; what is too much goes, nodes that boot first."""
        more = nodes - self.ready - self.boots
        if more > 0:
            self.booting.append((serves_from, more))
        while more < 0 and self.booting:
            at, last = self.booting.pop()
            gone = min(last, -more)
            more += gone
            if last > gone:
                self.booting.append((at, last - gone))
        self.ready += min(0, more)


def needed(load: float, conditions: Conditions) -> int:
    """The smallest fleet that carries this load without a violation, as far as the limits allow."""
    return max(conditions.least, min(conditions.most, ceil(load / conditions.violation - 1e-12)))


def play(policy: Policy, trace: Trace, conditions: Conditions, optimum: float, *, keep: bool = False) -> Run:
    """`optimum`: the clairvoyant's node-minutes. `keep`: the nodes of every minute, for a report."""
    begin = trace.history
    policy.learn(trace, begin)
    before = next((load for load in reversed(trace.load[:begin]) if isfinite(load)), 0.0)
    fleet = Fleet(max(conditions.least, min(conditions.most, ceil(before / 0.6))))
    run = Run(policy=policy.name, trace=trace.name, optimum_node_minutes=optimum)
    limit, carried, lasting = conditions.violation, conditions.violation * conditions.most, 0
    recent_ups: list[int] = []
    for index in range(begin, trace.minutes):
        load = trace.load[index]
        fleet.join(index)
        known = isfinite(load)
        above = known and load > limit * fleet.ready + 1e-12
        if known:
            run.minutes += 1
            if above and load <= carried:
                run.violation_minutes += 1
                if keep:
                    run.short.append(index - begin)
            elif above:
                run.unavoidable_minutes += 1
            lasting = lasting + 1 if above else 0
            run.longest_violation_min = max(run.longest_violation_min, lasting)
            run.idle_node_minutes += max(0, fleet.ready - needed(load, conditions))
            run.at_max_minutes += fleet.ready >= conditions.most
        paid = fleet.ready
        if known:
            boots = fleet.boots
            reading = Reading(
                trace.first_minute + index,
                min(load, float(fleet.ready)),
                fleet.ready,
                boots,
                (index - begin) % conditions.interval == 0,
            )
            target = max(conditions.least, min(conditions.most, policy.decide(reading)))
            if target > reading.capacity:
                run.scale_ups += 1
                recent_ups = [at for at in recent_ups if index - at <= UNDONE] + [index]
            elif target < reading.capacity:
                run.scale_downs += 1
                run.undone += sum(index - at <= UNDONE for at in recent_ups)
                recent_ups = []
            if target != reading.capacity:
                fleet.resize(target, index + conditions.join)
            run.node_minutes += paid + fleet.boots
            _count_day(run, (index - begin) // DAY, above=above and load <= carried, paid=paid + fleet.boots)
        if keep:
            run.ready.append(fleet.ready)
    return run


def _count_day(run: Run, day: int, *, above: bool, paid: int) -> None:
    while len(run.days) <= day:
        run.days.append([0, 0, 0])
    run.days[day][0] += 1
    run.days[day][1] += above
    run.days[day][2] += paid


def optimum(trace: Trace, conditions: Conditions) -> float:
    """The fewest node-minutes without an avoidable violation, knowing the future: exact, by dynamic programming over
    the number of nodes. Each node that is added boots for `join` minutes, which are paid; removing is free."""
    least, most, join = conditions.least, conditions.most, conditions.join
    cost = [0.0] * (most + 1)
    for load in trace.load[trace.history :]:
        known = isfinite(load)
        need = needed(load, conditions) if known else least
        cost = _transition(cost, least, most, join)
        for nodes in range(least, most + 1):
            cost[nodes] = (cost[nodes] + (nodes if known else 0)) if nodes >= need else _NEVER
    return min(cost[least:])


_NEVER = 1e18


def _transition(cost: Sequence[float], least: int, most: int, join: int) -> list[float]:
    """The cheapest way to have n nodes in the next minute."""
    after = list(cost)
    for nodes in range(most - 1, least - 1, -1):  # fewer: free
        after[nodes] = min(after[nodes], after[nodes + 1])
    rising = _NEVER
    for nodes in range(least, most + 1):  # more: each boots for `join` minutes
        rising = min(rising + join, cost[nodes])
        after[nodes] = min(after[nodes], rising)
    return after

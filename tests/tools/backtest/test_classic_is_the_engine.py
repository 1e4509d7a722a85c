"""The fast path of the backtest decides like the engine, minute by minute."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import pi, sin
from random import Random

import pytest

from nodefleet.engine.decide import decide
from nodefleet.model.state import Memory
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Budgets, Limits, MarketMix, Pool, Predictive, RemovalRules, Steps
from nodefleet_tools.backtest.peers import Classic
from nodefleet_tools.backtest.play import Conditions, Reading, play
from nodefleet_tools.backtest.traces import Trace
from support.builders import instance, look, node

DAY = 1440
START = datetime(2026, 11, 2, tzinfo=UTC)  # a Monday
MOST = 10  # workers
RUNNING = [instance(n, launched_at=START - timedelta(days=1)) for n in range(MOST)]
READY = [node(n, ready_changed_at=START - timedelta(days=1)) for n in range(MOST)]


class Engine:
    """The real one on a fleet that does what it says: `strategy: classic` with CPU alone."""

    name = "engine"

    def __init__(self, pool):
        self._policy = Policy(pools=(pool,))
        self._memory = Memory()
        self._cpu = []
        self._workers = {}  # number → minute since which it is ready
        self._next = 0

    def learn(self, trace, until):
        for index in range(0, until, 2):
            self._decide(Reading(trace.first_minute + index, trace.load[index], 10, 0, True), trace.load[index] * 10)

    def decide(self, reading):
        self._cpu = [*self._cpu, 100 * reading.load / reading.ready][-2:]
        if not reading.scheduled:
            return reading.capacity
        return self._decide(reading, sum(self._cpu) / len(self._cpu))

    def _decide(self, reading, cpu):
        at = datetime.fromtimestamp(reading.minute * 60, UTC)
        numbers = range(reading.ready)
        booting = range(100, 100 + reading.booting)
        seen = look(
            (),
            at=at,
            cpu=cpu,
            memory=10.0,
            pods=(),
            instances=[
                *(RUNNING[n] for n in numbers),
                *(instance(n, launched_at=at - timedelta(minutes=1)) for n in booting),
            ],
            nodes=[READY[n] for n in numbers],
        )
        memory = replace(self._memory, pools={k: replace(v, members=()) for k, v in self._memory.pools.items()})
        decision = decide(seen, memory, self._policy)
        self._memory = decision.memory
        return decision.pools[0].target


def pool(**changes):
    return Pool(
        limits=Limits(min=2, max=MOST),
        market=MarketMix(rebalance_after=timedelta(0)),
        removal=RemovalRules(settle=timedelta(0)),
        **changes,
    )


def trace(seed, days):
    random, walk, loads = Random(seed), 0.0, []  # noqa: S311
    for minute in range(days * DAY):
        walk = 0.98 * walk + random.gauss(0, 0.15)
        burst = 3 if random.random() < 0.001 else 0
        loads.append(max(0.0, 3 + 2.2 * sin(2 * pi * minute / DAY) + walk + burst))
    return Trace(name=f"walk {seed}", start=START, load=loads, step=60)


@pytest.mark.parametrize(
    ("seed", "days", "changes"),
    [
        (2, 4, {}),  # the forecast has learned enough to act after two days
        (2, 4, {"predictive": Predictive(sizing="forecast")}),
        (1, 3, {"predictive": Predictive(enabled=False)}),
        (2, 3, {"predictive": Predictive(enabled=False), "steps": Steps(down=3), "budgets": Budgets(removals=3)}),
    ],
)
def test_classic_decides_like_the_engine(seed, days, changes):
    rules, load, conditions = pool(**changes), trace(seed, days), Conditions()
    fast = play(Classic(rules), load, conditions, 1.0, keep=True)
    real = play(Engine(rules), load, conditions, 1.0, keep=True)
    assert fast.ready == real.ready
    assert fast.scale_ups > 5
    assert fast.scale_downs > 5

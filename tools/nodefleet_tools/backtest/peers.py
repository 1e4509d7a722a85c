"""What the adaptive strategy is measured against. Each knows one number per minute, like the real one.

`Classic` is a fast path: the same decisions as the engine's `strategy: classic`, minute by minute, which a test proves
by playing both. The others are models of well-known autoscalers in their default settings, not their code.
"""

from collections import defaultdict, deque
from collections.abc import Sequence
from copy import deepcopy
from functools import lru_cache
from math import ceil, isfinite
from statistics import fmean

from nodefleet.engine.forecast.forecaster import Forecaster, ForecastWindow, Learning, Outlook
from nodefleet.engine.forecast.sizing import Prices, Sizes, is_close, size
from nodefleet.engine.signals.evaluate import nodes_for
from nodefleet.policy.demand import Adaptive as AdaptiveRules
from nodefleet.policy.pool import Pool
from nodefleet_tools.backtest.play import DAY, Conditions, Grade, Reading
from nodefleet_tools.backtest.traces import Trace

_HOUR = 60
_SATURDAY = 5
_RATE = 2  # minutes that a CPU reading averages over


class _Cpu:
    """CPU percent as a rate over the last minutes."""

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=_RATE)

    def percent(self, reading: Reading) -> float | None:
        if reading.load is not None and reading.ready:
            self._recent.append(reading.load / reading.ready)
        return 100 * fmean(self._recent) if self._recent else None


class Fixed:
    """Always so many nodes."""

    def __init__(self, nodes: int) -> None:
        self.name = f"fixed {nodes}"
        self._nodes = nodes

    def learn(self, trace: Trace, until: int) -> None:
        pass

    def decide(self, _: Reading) -> int:
        return self._nodes


class TargetTracking:
    """Like a HorizontalPodAutoscaler or an Auto Scaling group: CPU at 60 %, ten percent of tolerance, and shrinking to
    the highest of the last five minutes' wishes."""

    def __init__(self, target: float = 60.0, tolerance: float = 0.1, stabilise: int = 3) -> None:
        self.name = f"target tracking {target:g} %"
        self._target, self._tolerance = target, tolerance
        self._cpu = _Cpu()
        self._wishes: deque[int] = deque(maxlen=stabilise)

    def learn(self, trace: Trace, until: int) -> None:
        pass

    def decide(self, reading: Reading) -> int:
        cpu = self._cpu.percent(reading)
        if not reading.scheduled or cpu is None:
            return reading.capacity
        return self._wish(reading, cpu)

    def _wish(self, reading: Reading, cpu: float) -> int:
        ratio = cpu / self._target
        within = abs(ratio - 1) <= self._tolerance
        wish = reading.capacity if within else ceil(reading.ready * ratio - 1e-9)
        if wish > reading.ready and reading.booting:
            wish = max(wish, reading.capacity)
        self._wishes.append(wish)
        return wish if wish > reading.capacity else min(reading.capacity, max(self._wishes))


class PredictiveTargetTracking(TargetTracking):
    """Like predictive scaling of AWS beside target tracking: the mean load of that hour on the days before, at 60 %,
    five minutes ahead of each hour, as a floor."""

    def __init__(self, target: float = 60.0) -> None:
        super().__init__(target)
        self.name = "AWS-predictive-like"
        self._hours: dict[int, list[float]] = defaultdict(list)  # by hour since the epoch

    def learn(self, trace: Trace, until: int) -> None:
        for index, load in enumerate(trace.load[:until]):
            if isfinite(load):
                self._hours[(trace.first_minute + index) // _HOUR].append(load)

    def decide(self, reading: Reading) -> int:
        if reading.load is not None:
            self._hours[reading.minute // _HOUR].append(reading.load)
        wish = super().decide(reading)
        if not reading.scheduled:
            return wish
        return max(wish, self._floor((reading.minute + 5) // _HOUR))

    def _floor(self, hour: int) -> int:
        days = [hour - 24 * ago for ago in range(1, 15)]
        means = [fmean(self._hours[day]) for day in days if self._hours.get(day)]
        return ceil(100 * fmean(means) / self._target - 1e-9) if means else 0


class ClusterAutoscaler:
    """Like cluster-autoscaler with requests that fit the load: grows when pods no longer fit, removes nodes that were
    not needed for ten minutes, not within ten minutes of growing."""

    def __init__(self, conditions: Conditions, unneeded: int = 10) -> None:
        self.name = "cluster-autoscaler-like"
        self._limit = conditions.violation
        self._needs: deque[int] = deque(maxlen=unneeded)
        self._unneeded = unneeded
        self._grown = -(10**9)

    def learn(self, trace: Trace, until: int) -> None:
        pass

    def decide(self, reading: Reading) -> int:
        if reading.load is None:
            return reading.capacity
        need = ceil(reading.load / self._limit - 1e-12)
        self._needs.append(need)
        if not reading.scheduled:
            return reading.capacity
        if need > reading.capacity:
            self._grown = reading.minute
            return need
        calm = reading.minute - self._grown >= self._unneeded and len(self._needs) == self._unneeded
        return min(reading.capacity, max(self._needs)) if calm else reading.capacity


class Classic:
    """`strategy: classic` on CPU alone, as the engine decides it."""

    def __init__(self, pool: Pool, name: str = "classic") -> None:
        self.name = name
        self._pool = pool
        self._cpu = _Cpu()
        self._above = self._below = 0
        self._grown = self._scaled = -(10**9)
        self._hours: dict[tuple[int, int], tuple[float, int]] = {}  # (day, hour) → mean load, readings
        self._promised: tuple[int, int] | None = None  # (hour since the epoch, nodes)

    def learn(self, trace: Trace, until: int) -> None:
        for index in range(0, until, 2):
            if isfinite(trace.load[index]):
                self._learn(trace.first_minute + index, trace.load[index])

    def _learn(self, minute: int, load: float) -> None:
        key = (minute // DAY, minute % DAY // _HOUR)
        mean, count = self._hours.get(key, (0.0, 0))
        self._hours[key] = (mean + (load - mean) / (count + 1), count + 1)

    def decide(self, reading: Reading) -> int:
        cpu = self._cpu.percent(reading)
        if not reading.scheduled or cpu is None:
            return reading.capacity
        pool, now = self._pool, reading.minute
        up, down = pool.reactive.cpu.up, pool.reactive.cpu.down
        self._above = self._above + 1 if cpu > up else 0
        self._below = self._below + 1 if cpu < down else 0
        self._learn(now, cpu / 100 * reading.ready)
        wanted = reading.ready + pool.steps.up if self._above >= _count(pool.sustain.up) else 0
        wanted = max(wanted, self._foreseen(now, reading.ready))
        target = reading.capacity
        target -= self._fewer(reading, cpu)
        target = max(target, wanted)
        if target > reading.capacity and _within(now - self._grown, pool.cooldown.up.total_seconds()):
            target = reading.capacity
        target = max(pool.limits.min, min(pool.limits.max, target))
        if target > reading.capacity:
            self._grown = self._scaled = now
        elif target < reading.capacity:
            self._scaled = now
        return target

    def _fewer(self, reading: Reading, cpu: float) -> int:
        """How many nodes may go: `steps.down`, as far as the nodes that remain would carry the load."""
        pool = self._pool
        if self._below < _count(pool.sustain.down) or reading.capacity <= 1:
            return 0
        if _within(reading.minute - self._scaled, pool.cooldown.down.total_seconds()):
            return 0
        limit = pool.reactive.cpu.up - pool.reactive.projection_margin
        for fewer in range(pool.steps.down, 0, -1):
            remain = reading.ready - fewer
            if remain > 0 and cpu * reading.ready / remain <= limit:
                return min(fewer, pool.budgets.removals)
        return 0

    def _foreseen(self, now: int, ready: int) -> int:
        """The floor of the predictive layer."""
        rules = self._pool.predictive
        if not rules.enabled:
            return 0
        running = self._promised if self._promised and now < (self._promised[0] + 1) * _HOUR else None
        coming = now // _HOUR + 1
        if now % _HOUR >= rules.from_minute and not (running and running[0] == coming) and ready:
            loads, limit = self._alike(coming, now), self._pool.reactive.cpu.up
            if len(loads) >= rules.min_days and 100 * fmean(loads) / ready > limit:
                needed = nodes_for(fmean(loads), limit) if rules.sizing == "forecast" else 0
                running = (coming, max(ready + rules.step, running[1] if running else 0, needed))
        self._promised = running
        return running[1] if running else 0

    def _alike(self, coming: int, now: int) -> Sequence[float]:
        """The loads of that hour on the most alike days of which there are enough."""
        rules, (day, hour) = self._pool.predictive, divmod(coming, 24)
        known = {
            past: self._hours[past, hour][0]
            for past in range(day - rules.history_days - 1, day + 1)
            if (past, hour) in self._hours and now - _last(past, hour) <= rules.history_days * DAY
        }
        weekday = _weekday(day)
        same = [load for past, load in known.items() if _weekday(past) == weekday]
        kind = [load for past, load in known.items() if (_weekday(past) >= _SATURDAY) == (weekday >= _SATURDAY)]
        return next((each for each in (same, kind) if len(each) >= rules.min_days), list(known.values()))


def _last(day: int, hour: int) -> int:
    """The minute of the last scheduled reading of an hour."""
    return day * DAY + hour * _HOUR + _HOUR - 2


def _weekday(day: int) -> int:
    return (day + 3) % 7  # the epoch was a Thursday


def _within(minutes: int, seconds: float) -> bool:
    return minutes * 60 < seconds


def _count(lasting: object) -> int:
    return int(getattr(lasting, "count", 1))


@lru_cache(maxsize=2)
def _learned(learning: Learning, first_minute: int, loads: tuple[float, ...]) -> Forecaster:
    """What a forecaster knows after these minutes: the same for every price that is played on a trace."""
    return Forecaster.of(
        ((first_minute + index, load if isfinite(load) else None) for index, load in enumerate(loads)), learning
    )


class Adaptive:
    """`strategy: adaptive`: the forecaster and the sizing that ship. `waits`: decisions in a row that must find a
    scale-down worth it. `requeue`: while load rises, a decision between two scheduled ones may grow the fleet."""

    def __init__(
        self,
        conditions: Conditions,
        prices: Prices | None = None,
        *,
        name: str = "adaptive",
        waits: int = 2,
        requeue: bool = True,
        headroom: int = 0,
        rules: AdaptiveRules | None = None,
    ) -> None:
        self.name = name
        self._conditions, self._prices, self._rules = conditions, prices or Prices(), rules or AdaptiveRules()
        self._waits, self._requeue, self._headroom = waits, requeue, headroom
        self.forecaster = Forecaster(Learning(join=conditions.join, interval=conditions.interval))
        self._calm = 0
        self._close = False  # a decision between two scheduled ones could change something
        self._due: deque[tuple[int, float]] = deque()  # (minute, chance of a violation) that decisions promised
        self.grade = Grade()

    def learn(self, trace: Trace, until: int) -> None:
        self.forecaster = deepcopy(_learned(self.forecaster.learning, trace.first_minute, tuple(trace.load[:until])))

    def decide(self, reading: Reading) -> int:
        forecaster = self.forecaster
        forecaster.observe(reading.minute, reading.load)
        if reading.load is None:
            return reading.capacity
        self._compare(reading)
        if not reading.scheduled and not (self._requeue and self._close and forecaster.is_rising()):
            return reading.capacity
        outlook = forecaster.outlook()
        if outlook is None:
            return reading.capacity
        conditions, prices = self._conditions, self._prices.for_load(forecaster.busy_load(), self._rules)
        sizes = size(
            outlook,
            capacity=reading.capacity - self._headroom,
            least=conditions.least,
            most=conditions.most,
            limit=conditions.violation,
            prices=prices,
            saturated=reading.load >= outlook.learning.saturated * reading.ready,
            requeued=not reading.scheduled,
        )
        self._close = is_close(sizes, reading.capacity - self._headroom, prices)
        if reading.scheduled:
            self._promise(reading, outlook, sizes)
        if sizes.up is not None:
            self._calm = 0
            return sizes.up + self._headroom
        if not reading.scheduled:
            return reading.capacity
        self._calm = self._calm + 1 if sizes.down is not None and not reading.booting else 0
        if sizes.down is not None and self._calm >= self._waits:
            self._calm = 0
            return sizes.down + self._headroom
        return reading.capacity

    def _promise(self, reading: Reading, outlook: Outlook, sizes: Sizes) -> None:
        """Keep the chance of a violation that this decision accepts, and who had the vote."""
        nodes = min(max(0, sizes.up if sizes.up is not None else reading.capacity), len(sizes.now) - 1)
        self._due.append((reading.minute + self._conditions.join, sizes.now[nodes]))
        self.grade.add_votes(outlook.votes[ForecastWindow.LEVEL])

    def _compare(self, reading: Reading) -> None:
        """Compare the promises for this minute with it. A minute without data keeps no promise and breaks none."""
        while self._due and self._due[0][0] <= reading.minute:
            minute, chance = self._due.popleft()
            if minute == reading.minute and reading.load is not None:
                self.grade.promised += chance
                self.grade.seen += reading.load > self._conditions.violation * reading.ready
                self.grade.decisions += 1

"""`strategy: adaptive`: a forecast of the load and the price of a violation instead of CPU thresholds.

Growth is a floor like that of any other signal, in one step. Shrinking needs the consent of the others as ever; this
signal says how many nodes it could do without. Between two scheduled decisions (a requeued look while load rises) it
may only grow the fleet.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import ceil, expm1

from nodefleet.decide.case import Case
from nodefleet.decide.forecast.features import DAY
from nodefleet.decide.forecast.forecaster import FORECASTERS, Forecaster, Outlook
from nodefleet.decide.forecast.history import WEEK
from nodefleet.decide.forecast.learning import Learning, Window
from nodefleet.decide.forecast.sizing import Prices, Sizes, is_close, size
from nodefleet.decide.forecast.stored import restore, store
from nodefleet.decide.inputs import Cached
from nodefleet.decide.signals.votes import Calm, Floor, Opinion, Settling, Steady, Veto, Vote
from nodefleet.domain.decision import BoundSource
from nodefleet.domain.forecasting import AdaptiveMemory
from nodefleet.domain.policy import Announced, Policy, Pool
from nodefleet.domain.readings import Missing, Reading

SIGNAL = BoundSource.ADAPTIVE.value
_MINUTE = timedelta(minutes=1)
_BRIDGED = 3  # minutes: readings of scheduled runs are two apart, and what lies between was hardly different
_FADING = 0.999  # of what was promised, each decision: about two days
_USUAL = 15  # minutes on either side: the usual load at a time of day


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecasted:
    """What the forecast says, what has to be remembered, and whether the load rises."""

    opinion: Opinion
    memory: AdaptiveMemory | None
    is_rising: bool = False
    grade: str = ""  # of the forecast, by itself


def is_adaptive(pool: Pool) -> bool:
    return pool.strategy == "adaptive"


def minute_of(at: datetime) -> int:
    return int(at.timestamp()) // 60


def evaluate(this: Case) -> Forecasted:
    """The opinion on this pool's load. Without a CPU reading the fleet must not shrink, and nothing is learned."""
    before = this.before.adaptive or AdaptiveMemory()
    match this.cpu:
        case Missing(cause) | Cached(_, cause):
            return Forecasted(opinion=_said(Veto(f"CPU unknown: {cause}")), memory=this.before.adaptive)
        case Reading() as cpu:
            return _evaluate(this, cpu, before)


def _evaluate(this: Case, cpu: Reading, before: AdaptiveMemory) -> Forecasted:
    rules, learning = this.pool.adaptive, learning_of(this.pool, this.policy)
    stored = restore(before.forecaster, learning) if before.forecaster else None
    forecaster = stored or Forecaster(learning)
    learn(forecaster, (*this.readings.load, Reading(cpu.value / 100 * this.look.covered, cpu.at)))
    outlook = forecaster.outlook()
    if outlook is None:
        memory = replace(before, forecaster=store(forecaster), calm=0)
        return Forecasted(opinion=_said(Steady("no reading of this minute to forecast from")), memory=memory)
    requeued = before.decided_at is not None and this.seen.at - before.decided_at < 0.75 * this.policy.interval
    capacity, least, most = this.look.capacity, this.pool.limits.min, this.most
    prices = replace(Prices(), violation=rules.node_minutes)
    sizes = size(
        outlook,
        capacity=max(0, capacity - rules.headroom),
        least=min(least, most),
        most=most,
        limit=rules.limit / 100,
        prices=prices,
        saturated=cpu.value >= 100 * learning.saturated,
        requeued=requeued,
    )
    announced = _announced(rules.events, forecaster, this.seen.at, rules.limit / 100, rules.join + this.policy.interval)
    vote, calm = _vote(this, outlook, sizes, before.calm, announced, requeued=requeued)
    memory = replace(before, forecaster=store(forecaster), calm=calm)
    if not requeued:
        memory = _graded(memory, this, cpu, sizes, vote, outlook)
    opinion = Opinion(signal=SIGNAL, vote=vote)
    rising = forecaster.is_rising() and is_close(sizes, max(0, capacity - rules.headroom), prices)
    return Forecasted(opinion=opinion, memory=memory, is_rising=rising, grade=grade(memory, outlook))


def learning_of(pool: Pool, policy: Policy) -> Learning:
    """The figures of learning that depend on the policy."""
    return Learning(join=max(1, ceil(pool.adaptive.join / _MINUTE)), interval=max(1, round(policy.interval / _MINUTE)))


def learn(forecaster: Forecaster, load: Sequence[Reading]) -> None:
    """Minute by minute. A short hole takes the value that ends it; a longer one stays unknown."""
    for reading in load:
        minute, last = minute_of(reading.at), forecaster.history.last
        if last is not None and 1 < minute - last <= _BRIDGED:
            for skipped in range(last + 1, minute):
                forecaster.observe(skipped, reading.value)
        forecaster.observe(minute, reading.value)


def _vote(
    this: Case,
    outlook: Outlook,
    sizes: Sizes,
    calm: int,
    announced: tuple[int, str] | None,
    *,
    requeued: bool,
) -> tuple[Vote, int]:
    """The vote, and for how many decisions in a row a scale-down has been worth it."""
    rules, capacity = this.pool.adaptive, this.look.capacity
    expected = _expected(outlook, sizes, capacity - rules.headroom, rules.limit, this)
    spare = f", {rules.headroom} more as headroom" if rules.headroom else ""
    up = None if sizes.up is None else sizes.up + rules.headroom
    if announced and announced[0] > max(capacity, up or 0):
        return Floor(nodes=min(announced[0], this.most), reason=announced[1]), 0
    if up is not None and up > capacity:
        return Floor(nodes=min(up, this.most), reason=f"{capacity} → {up}: {expected(sizes.up or up)}{spare}"), 0
    if announced and announced[0] >= capacity:
        return Steady(announced[1]), 0
    if requeued:
        return Steady(f"{expected(None)}; fewer are looked at every {this.policy.interval.total_seconds():.0f} s"), calm
    if sizes.down is None:
        return Steady(expected(None)), 0
    if this.count.booting:
        return Steady(f"{expected(None)}; a node is booting"), 0
    down = max(sizes.down + rules.headroom, announced[0] if announced else 0)
    if down >= capacity:
        return Steady(expected(None)), 0
    reason = f"{capacity} → {down}: {_missed(sizes, down - rules.headroom, outlook)}{spare}"
    if calm + 1 < rules.waits:
        return Settling(f"{reason}, {calm + 1} of {rules.waits} readings"), calm + 1
    return Calm(reason=reason, down=capacity - down), calm + 1


def _expected(outlook: Outlook, sizes: Sizes, nodes: int, limit: float, this: Case):  # type: ignore[no-untyped-def]  # noqa: ANN202
    """The sentence of the chances, for a number of nodes to compare with or none."""
    at = this.seen.at + this.pool.adaptive.join
    now = sizes.now[max(0, min(nodes, len(sizes.now) - 1))]

    def sentence(other: int | None) -> str:
        also = "" if other is None else f", {_percent(sizes.now[other])} with {other}"
        load = expm1(outlook.mixed[Window.LEVEL])
        return (
            f"{_percent(now)} chance that {nodes} nodes exceed {limit:g} % at {at:%H:%M}{also}"
            f" (load {load:.1f} expected)"
        )

    return sentence


def _missed(sizes: Sizes, nodes: int, outlook: Outlook) -> str:
    learning = outlook.learning
    return (
        f"{_percent(sizes.soon[nodes])} chance that {nodes} nodes fall short within {learning.soon} min,"
        f" {_percent(sizes.later[nodes])} within {learning.later} min"
    )


def _percent(chance: float) -> str:
    return f"{100 * chance:.1f} %"


def _graded(
    memory: AdaptiveMemory, this: Case, cpu: Reading, sizes: Sizes, vote: Vote, outlook: Outlook
) -> AdaptiveMemory:
    """What was promised is compared with what came, and the present promise is kept for its time."""
    came = [promise for promise in memory.due if promise[0] <= outlook.minute]
    waiting = tuple(promise for promise in memory.due if promise[0] > outlook.minute)
    violated = cpu.value > this.pool.adaptive.limit
    nodes = vote.nodes if isinstance(vote, Floor) else this.look.capacity
    chance = sizes.now[max(0, min(nodes, len(sizes.now) - 1))]
    return replace(
        memory,
        decided_at=this.seen.at,
        promised=memory.promised * _FADING + sum(promise[1] for promise in came),
        violated=memory.violated * _FADING + (len(came) if violated else 0),
        due=(*waiting, (float(outlook.minute + outlook.learning.join), round(chance, 6))),
    )


def grade(memory: AdaptiveMemory, outlook: Outlook) -> str:
    """Who has the vote, and how promises compare with what came."""
    votes = zip(FORECASTERS, outlook.votes[Window.LEVEL], strict=True)
    shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in votes)
    return f"votes: {shares}; violations promised {memory.promised:.1f}, seen {memory.violated:.0f}"


def _announced(
    events: Sequence[Announced], forecaster: Forecaster, now: datetime, limit: float, lead: timedelta
) -> tuple[int, str] | None:
    """The most that an announced event asks for, from so long before it that nodes can join, until it is over."""
    asked = []
    for event in events:
        if not event.at - lead <= now < event.at + event.lasting:
            continue
        usual = _usual(forecaster, minute_of(max(now, event.at)), minute_of(event.at - lead))
        if usual is not None:
            nodes = ceil(event.multiple * usual / limit - 1e-9)
            sentence = f"{event.name} at {event.at:%H:%M} is announced with {event.multiple:g} × the usual {usual:.1f}"
            asked.append((nodes, sentence))
    return max(asked, default=None)


def _usual(forecaster: Forecaster, minute: int, before: int) -> float | None:
    """The load of that time a week ago, else yesterday, else right before the event."""
    history = forecaster.history
    past = (minute - WEEK, minute - DAY, before - _USUAL)
    means = (history.mean(each - _USUAL, each + _USUAL + 1) for each in past)
    known = next((mean for mean in means if mean is not None), None)
    return None if known is None else expm1(known)


def _said(vote: Vote) -> Opinion:
    return Opinion(signal=SIGNAL, vote=vote)


def consenting(opinion: Opinion) -> Opinion:
    """Memory between its thresholds blocks no scale-down: its projection on the nodes that remain does."""
    match opinion.vote:
        case Steady(reason) | Settling(reason):
            return replace(opinion, vote=Calm(reason=reason))
        case _:
            return opinion

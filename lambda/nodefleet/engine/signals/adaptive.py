"""`strategy: adaptive`: a forecast of the load and the price of a violation instead of CPU thresholds.

Growth is a floor like that of any other signal, in one step. Shrinking needs the consent of the others as ever; this
signal says how many nodes it could do without. Between two scheduled decisions (a requeued look while load rises) it
may only grow the fleet.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import ceil, expm1

from nodefleet.engine.context import Cached, PoolContext
from nodefleet.engine.forecast.forecaster import FORECASTERS, Forecaster, ForecastWindow, Learning, Outlook
from nodefleet.engine.forecast.history import DAY, WEEK
from nodefleet.engine.forecast.sizing import Prices, Sizes, is_close, size
from nodefleet.engine.forecast.storage import restore, store
from nodefleet.engine.signals.vote import (
    BelowThreshold,
    ScaleDownOk,
    ScaleUp,
    SignalVote,
    Unreadable,
    Vote,
    WithinThresholds,
)
from nodefleet.model.decision import BoundSource
from nodefleet.model.readings import Missing, Reading
from nodefleet.model.state import AdaptiveMemory
from nodefleet.policy.adaptive import Announced
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Pool

SIGNAL = BoundSource.ADAPTIVE.value
_MINUTE = timedelta(minutes=1)
_BRIDGED = 3  # minutes: readings of scheduled runs are two apart, and what lies between was hardly different
_FADING = 0.999  # of what was promised, each decision: about two days
_USUAL = 15  # minutes on either side: the usual load at a time of day


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecasted:
    """What the forecast says, what has to be remembered, and whether the load rises."""

    opinion: SignalVote
    memory: AdaptiveMemory | None
    is_rising: bool = False
    grade: str = ""  # of the forecast, by itself


def is_adaptive(pool: Pool) -> bool:
    return pool.strategy == "adaptive"


def minute_of(at: datetime) -> int:
    return int(at.timestamp()) // 60


def evaluate(ctx: PoolContext) -> Forecasted:
    """The opinion on this pool's load. Without a CPU reading the fleet must not shrink, and nothing is learned."""
    before = ctx.before.adaptive or AdaptiveMemory()
    match ctx.cpu:
        case Missing(cause) | Cached(_, cause):
            return Forecasted(opinion=_as_vote(Unreadable(f"CPU unknown: {cause}")), memory=ctx.before.adaptive)
        case Reading() as cpu:
            return _evaluate(ctx, cpu, before)


def _evaluate(ctx: PoolContext, cpu: Reading, before: AdaptiveMemory) -> Forecasted:
    rules, learning = ctx.pool.adaptive, learning_of(ctx.pool, ctx.policy)
    stored = restore(before.forecaster, learning) if before.forecaster else None
    forecaster = stored or Forecaster(learning)
    learn(forecaster, (*ctx.readings.load, Reading(cpu.value / 100 * ctx.look.covered, cpu.at)))
    outlook = forecaster.outlook()
    if outlook is None:
        memory = replace(before, forecaster=store(forecaster), calm=0)
        return Forecasted(
            opinion=_as_vote(WithinThresholds("no reading of this minute to forecast from")), memory=memory
        )
    requeued = before.decided_at is not None and ctx.seen.at - before.decided_at < 0.75 * ctx.policy.interval
    capacity, least, most = ctx.look.capacity, ctx.pool.limits.min, ctx.most
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
    announced = _announced_nodes(
        rules.events, forecaster, ctx.seen.at, rules.limit / 100, rules.join + ctx.policy.interval
    )
    vote, calm = _vote(ctx, outlook, sizes, before.calm, announced, requeued=requeued)
    memory = replace(before, forecaster=store(forecaster), calm=calm)
    if not requeued:
        memory = _grade_promises(memory, ctx, cpu, sizes, vote, outlook)
    opinion = SignalVote(signal=SIGNAL, vote=vote)
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
    ctx: PoolContext,
    outlook: Outlook,
    sizes: Sizes,
    calm: int,
    announced: tuple[int, str] | None,
    *,
    requeued: bool,
) -> tuple[Vote, int]:
    """The vote, and for how many decisions in a row a scale-down has been worth it."""
    rules, capacity = ctx.pool.adaptive, ctx.look.capacity
    expected = _describe_chances(outlook, sizes, capacity - rules.headroom, rules.limit, ctx)
    spare = f", {rules.headroom} more as headroom" if rules.headroom else ""
    up = None if sizes.up is None else sizes.up + rules.headroom
    if announced and announced[0] > max(capacity, up or 0):
        return ScaleUp(nodes=min(announced[0], ctx.most), reason=announced[1]), 0
    if up is not None and up > capacity:
        return ScaleUp(nodes=min(up, ctx.most), reason=f"{capacity} → {up}: {expected(sizes.up or up)}{spare}"), 0
    if announced and announced[0] >= capacity:
        return WithinThresholds(announced[1]), 0
    if requeued:
        return WithinThresholds(
            f"{expected(None)}; fewer are looked at every {ctx.policy.interval.total_seconds():.0f} s"
        ), calm
    if sizes.down is None:
        return WithinThresholds(expected(None)), 0
    if ctx.count.booting:
        return WithinThresholds(f"{expected(None)}; a node is booting"), 0
    down = max(sizes.down + rules.headroom, announced[0] if announced else 0)
    if down >= capacity:
        return WithinThresholds(expected(None)), 0
    reason = f"{capacity} → {down}: {_describe_shortfall(sizes, down - rules.headroom, outlook)}{spare}"
    if calm + 1 < rules.waits:
        return BelowThreshold(f"{reason}, {calm + 1} of {rules.waits} readings"), calm + 1
    return ScaleDownOk(reason=reason, down=capacity - down), calm + 1


def _describe_chances(outlook: Outlook, sizes: Sizes, nodes: int, limit: float, ctx: PoolContext):  # type: ignore[no-untyped-def]  # noqa: ANN202
    """The sentence of the chances, for a number of nodes to compare with or none."""
    at = ctx.seen.at + ctx.pool.adaptive.join
    now = sizes.now[max(0, min(nodes, len(sizes.now) - 1))]

    def sentence(other: int | None) -> str:
        also = "" if other is None else f", {_percent(sizes.now[other])} with {other}"
        load = expm1(outlook.mixed[ForecastWindow.LEVEL])
        return (
            f"{_percent(now)} chance that {nodes} nodes exceed {limit:g} % at {at:%H:%M}{also}"
            f" (load {load:.1f} expected)"
        )

    return sentence


def _describe_shortfall(sizes: Sizes, nodes: int, outlook: Outlook) -> str:
    learning = outlook.learning
    return (
        f"{_percent(sizes.soon[nodes])} chance that {nodes} nodes fall short within {learning.soon} min,"
        f" {_percent(sizes.later[nodes])} within {learning.later} min"
    )


def _percent(chance: float) -> str:
    return f"{100 * chance:.1f} %"


def _grade_promises(
    memory: AdaptiveMemory, ctx: PoolContext, cpu: Reading, sizes: Sizes, vote: Vote, outlook: Outlook
) -> AdaptiveMemory:
    """What was promised is compared with what came, and the present promise is kept for its time."""
    came = [promise for promise in memory.due if promise[0] <= outlook.minute]
    waiting = tuple(promise for promise in memory.due if promise[0] > outlook.minute)
    violated = cpu.value > ctx.pool.adaptive.limit
    nodes = vote.nodes if isinstance(vote, ScaleUp) else ctx.look.capacity
    chance = sizes.now[max(0, min(nodes, len(sizes.now) - 1))]
    return replace(
        memory,
        decided_at=ctx.seen.at,
        promised=memory.promised * _FADING + sum(promise[1] for promise in came),
        violated=memory.violated * _FADING + (len(came) if violated else 0),
        due=(*waiting, (float(outlook.minute + outlook.learning.join), round(chance, 6))),
    )


def grade(memory: AdaptiveMemory, outlook: Outlook) -> str:
    """Who has the vote, and how promises compare with what came."""
    votes = zip(FORECASTERS, outlook.votes[ForecastWindow.LEVEL], strict=True)
    shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in votes)
    return f"votes: {shares}; violations promised {memory.promised:.1f}, seen {memory.violated:.0f}"


def _announced_nodes(
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


def _as_vote(vote: Vote) -> SignalVote:
    return SignalVote(signal=SIGNAL, vote=vote)


def consenting(opinion: SignalVote) -> SignalVote:
    """Memory between its thresholds blocks no scale-down: its projection on the nodes that remain does."""
    match opinion.vote:
        case WithinThresholds(reason) | BelowThreshold(reason):
            return replace(opinion, vote=ScaleDownOk(reason=reason))
        case _:
            return opinion

"""`strategy: adaptive`: a forecast of the load and the price of a violation instead of CPU thresholds.

A scale-up is a floor like that of any other signal, in one step. A scale-down needs the votes of the other signals as
ever; this signal says how many nodes it could do without. A requeued iteration, between two scheduled decisions while
load rises, may only grow the fleet.
"""

from array import array
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import ceil, expm1
from struct import error as StructError  # noqa: N812
from struct import iter_unpack, pack

from nodefleet.engine.context import Cached, PoolContext
from nodefleet.engine.forecast.forecaster import (
    DEFAULT,
    FORECASTERS,
    Errors,
    Forecaster,
    ForecastWindow,
    Learning,
    Outlook,
    Pending,
)
from nodefleet.engine.forecast.history import COUNT, DAY, KEPT, RECENT, WEEK, LoadHistory
from nodefleet.engine.forecast.sizing import Prices, Sizes, expected_join, is_close, learn_joins, size
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
from nodefleet.model.names import pluralize
from nodefleet.model.snapshot import Missing, Reading, add_up
from nodefleet.model.state import VERSION, AdaptiveMemory, StoredForecaster
from nodefleet.policy.cluster import Policy
from nodefleet.policy.demand import Announced

# ── what is remembered of a forecaster ───────────────────────────────────────────────────────────────────────────────
# The forecaster as text, and back: what was stored decides like what was not.
#
# About 40 KB for a week, three quarters of it the load by minute. If it is lost or cannot be read, everything is
# learned again from the load of the last days.


_WINDOWS = len(ForecastWindow)
_SINGLE = _WINDOWS * len(FORECASTERS)
_PENDING = f"<q{_SINGLE + _WINDOWS}d"


def store(forecaster: Forecaster) -> StoredForecaster:
    history = forecaster.history
    cut = max(0, len(history.values) - KEPT)
    regression = forecaster.regression
    return StoredForecaster(
        first=history.first + cut,
        load=_text(history.values[cut:].tobytes()),
        sums=_doubles([value for row in (*regression.products, *regression.moments) for value in row]),
        models=_doubles([value for model in forecaster.coefficients for window in model for value in window]),
        losses=_doubles([*(loss for losses in forecaster.losses for loss in losses), forecaster.scores]),
        pending=_text(b"".join(_pack(each) for each in forecaster.pending)),
        errors=_text(b"".join(each.forecasts.tobytes() + each.errors.tobytes() for each in forecaster.errors)),
        learned=forecaster.learned,
    )


def restore(stored: StoredForecaster, learning: Learning = DEFAULT) -> Forecaster | None:
    """None if it is of another version or damaged: then it has to be learned again."""
    if stored.version != VERSION:
        return None
    try:
        return _restore(stored, learning)
    except (ValueError, StructError):  # not Base64, or too short
        return None


def _restore(stored: StoredForecaster, learning: Learning) -> Forecaster:
    forecaster = Forecaster(learning)
    forecaster.history = LoadHistory(stored.first, array("H", _bytes(stored.load)))
    sums = iter(_read(stored.sums, COUNT * (COUNT + 1) // 2 + COUNT * _WINDOWS))
    regression = forecaster.regression
    regression.products = [[next(sums) for _ in row] for row in regression.products]
    regression.moments = [[next(sums) for _ in row] for row in regression.moments]
    if stored.models:
        models = iter(_read(stored.models, _WINDOWS * (COUNT + RECENT)))
        forecaster.coefficients = [
            [[next(models) for _ in range(size)] for _ in range(_WINDOWS)] for size in (COUNT, RECENT)
        ]
    losses = _read(stored.losses, _SINGLE + 1)
    forecaster.losses = [losses[at : at + len(FORECASTERS)] for at in range(0, _SINGLE, len(FORECASTERS))]
    forecaster.scores = losses[-1]
    forecaster.pending = deque(_unpack(row) for row in iter_unpack(_PENDING, _bytes(stored.pending)))
    forecaster.errors = _errors(_bytes(stored.errors))
    forecaster.learned = stored.learned
    return forecaster


def _pack(pending: Pending) -> bytes:
    single = [value for window in pending.single for value in window]
    return pack(_PENDING, pending.minute, *single, *pending.mixed)


def _unpack(row: tuple[float, ...]) -> Pending:
    size = len(FORECASTERS)
    single = tuple(tuple(row[at : at + size]) for at in range(1, 1 + _SINGLE, size))
    return Pending(minute=int(row[0]), single=single, mixed=tuple(row[1 + _SINGLE :]))


def _errors(data: bytes) -> tuple[Errors, ...]:
    size, rest = divmod(len(data), 2 * _WINDOWS)
    if rest:
        raise ValueError("the errors are cut off")
    parts = [data[at : at + size] for at in range(0, 2 * _WINDOWS * size, size)] if size else [b""] * 2 * _WINDOWS
    return tuple(Errors(array("H", parts[at]), array("h", parts[at + 1])) for at in range(0, 2 * _WINDOWS, 2))


def _doubles(values: list[float]) -> str:
    return _text(pack(f"<{len(values)}d", *values))


def _read(text: str, count: int) -> list[float]:
    values = [value for (value,) in iter_unpack("<d", _bytes(text))]
    if len(values) != count:
        raise ValueError(f"{len(values)} numbers instead of {count}")
    return values


def _text(data: bytes) -> str:
    return b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return b64decode(text, validate=True)


# ── the signal ───────────────────────────────────────────────────────────────────────────────────────────────────────


SIGNAL = BoundSource.ADAPTIVE.value
_MINUTE = timedelta(minutes=1)
_BRIDGED = 3  # minutes: readings of scheduled runs are two apart, and the load between them was hardly different
_FADING = 0.999  # of the promises, each decision: about two days
_USUAL = 15  # minutes on either side: the usual load at a time of day


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecasted:
    """The vote of the forecast, what the next iteration needs, and whether the load rises."""

    vote: SignalVote
    memory: AdaptiveMemory | None
    is_rising: bool = False
    grade: str = ""  # of the forecast, by itself


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """The sizes that the forecast is worth, with what the sentences about them need."""

    outlook: Outlook
    sizes: Sizes
    join: timedelta  # until a node launched now serves
    announced: tuple[int, str] | None  # nodes that an announced event needs, and the sentence that says so
    requeued: bool


def minute_of(at: datetime) -> int:
    return int(at.timestamp()) // 60


def evaluate(ctx: PoolContext) -> Forecasted:
    """The vote on this pool's load. Without a CPU reading the fleet must not shrink, and no load is learned."""
    before = learn_joins(ctx.before.adaptive or AdaptiveMemory(), ctx.workers, ctx.observation.at)
    match ctx.cpu:
        case Missing(cause) | Cached(_, cause):
            return Forecasted(vote=_as_vote(Unreadable(f"CPU unknown: {cause}")), memory=before)
        case Reading() as cpu:
            return _evaluate(ctx, cpu, before)


def _evaluate(ctx: PoolContext, cpu: Reading, before: AdaptiveMemory) -> Forecasted:
    rules = ctx.pool.adaptive
    join = expected_join(before.joins, ctx.pool, _zones(ctx))
    learning = learning_of(join, ctx.policy)
    stored = restore(before.forecaster, learning) if before.forecaster else None
    forecaster = stored or Forecaster(learning)
    readings = (*ctx.readings.load, Reading(cpu.value / 100 * ctx.fleet_size.covered, cpu.at))
    learn(forecaster, readings)
    outlook = forecaster.outlook(_fresher(forecaster, readings))
    if outlook is None:
        memory = replace(before, forecaster=store(forecaster), calm=0)
        return Forecasted(vote=_as_vote(WithinThresholds("no reading of this minute to forecast from")), memory=memory)
    requeued = before.decided_at is not None and ctx.observation.at - before.decided_at < 0.75 * ctx.policy.interval
    prices = replace(Prices(), violation=rules.node_minutes).for_load(forecaster.busy_load(), rules)
    without_headroom = max(0, ctx.fleet_size.capacity - rules.headroom)
    sizes = size(
        outlook,
        capacity=without_headroom,
        least=min(ctx.pool.limits.min, ctx.most),
        most=ctx.most,
        limit=rules.limit / 100,
        prices=prices,
        saturated=cpu.value >= 100 * learning.saturated,
        requeued=requeued,
    )
    announced = _announced_nodes(
        rules.events, forecaster, ctx.observation.at, rules.limit / 100, join + ctx.policy.interval
    )
    outcome = _Outcome(outlook=outlook, sizes=sizes, join=join, announced=announced, requeued=requeued)
    vote, calm = _vote(ctx, outcome, before.calm)
    memory = replace(before, forecaster=store(forecaster), calm=calm, skill=skill(forecaster))
    if not requeued:
        memory = _grade_promises(memory, ctx, cpu, outcome, vote)
    rising = forecaster.is_rising() and is_close(sizes, without_headroom, prices)
    return Forecasted(vote=_as_vote(vote), memory=memory, is_rising=rising, grade=grade(memory, outlook))


def _zones(ctx: PoolContext) -> frozenset[str]:
    target = ctx.observation.target(ctx.pool.name)
    return frozenset(target.subnets) if target else frozenset()


def learning_of(join: timedelta, policy: Policy) -> Learning:
    """The parameters of learning that depend on the pool and its policy."""
    return Learning(join=max(1, ceil(join / _MINUTE)), interval=max(1, round(policy.interval / _MINUTE)))


def learn(forecaster: Forecaster, load: Sequence[Reading]) -> None:
    """Minute by minute. A short hole takes the value that ends it; a longer one stays unknown."""
    for reading in load:
        minute, last = minute_of(reading.at), forecaster.history.last
        if last is not None and 1 < minute - last <= _BRIDGED:
            for skipped in range(last + 1, minute):
                forecaster.observe(skipped, reading.value)
        forecaster.observe(minute, reading.value)


def _fresher(forecaster: Forecaster, readings: Sequence[Reading]) -> float | None:
    """The highest reading of the minute that was learned last. An iteration some seconds after that one sees a newer
    value of the same minute; only a rise matters, because a requeued iteration may only grow the fleet."""
    newest = forecaster.history.last
    return max((each.value for each in readings if minute_of(each.at) == newest), default=None)


def _vote(ctx: PoolContext, found: _Outcome, calm: int) -> tuple[Vote, int]:
    """The vote, and for how many decisions in a row a scale-down has been worth it."""
    rules, capacity, sizes, announced = ctx.pool.adaptive, ctx.fleet_size.capacity, found.sizes, found.announced
    spare = f", {rules.headroom} more as headroom" if rules.headroom else ""
    up = None if sizes.up is None else sizes.up + rules.headroom
    if announced and announced[0] > max(capacity, up or 0):
        return ScaleUp(nodes=min(announced[0], ctx.most), reason=announced[1]), 0
    if up is not None and up > capacity:
        reason = f"{capacity} → {up}: {_describe_chances(ctx, found, sizes.up)}{spare}"
        return ScaleUp(nodes=min(up, ctx.most), reason=reason), 0
    if announced and announced[0] >= capacity:
        return WithinThresholds(announced[1]), 0
    expected = _describe_chances(ctx, found)
    if found.requeued:
        every = f"{ctx.policy.interval.total_seconds():.0f} s"
        return WithinThresholds(f"{expected}; scale-down is decided every {every}"), calm
    if sizes.down is None:
        return WithinThresholds(_describe_hold(ctx, found)), 0
    if ctx.count.booting:
        return WithinThresholds(f"{expected}; a node is booting"), 0
    down = max(sizes.down + rules.headroom, announced[0] if announced else 0)
    if down >= capacity:
        return WithinThresholds(expected), 0
    reason = f"{capacity} → {down}: {_describe_shortfall(found, down - rules.headroom)}{spare}"
    if calm + 1 < rules.waits:
        return BelowThreshold(f"{reason}, {calm + 1} of {pluralize(rules.waits, 'reading', 'readings')}"), calm + 1
    return ScaleDownOk(reason=reason, down=capacity - down), calm + 1


def _describe_chances(ctx: PoolContext, found: _Outcome, other: int | None = None) -> str:
    """The chance that the present nodes do not suffice, beside that of another number of nodes."""
    sizes, nodes = found.sizes, ctx.fleet_size.capacity - ctx.pool.adaptive.headroom
    now = sizes.now[max(0, min(nodes, len(sizes.now) - 1))]
    also = "" if other is None else f", {_percent(sizes.now[other])} with {other}"
    load = expm1(found.outlook.mixed[ForecastWindow.LEVEL])
    exceed = pluralize(nodes, "node exceeds", "nodes exceed")
    return (
        f"{_percent(now)} chance that {exceed} {ctx.pool.adaptive.limit:g} % at "
        f"{ctx.observation.at + found.join:%H:%M}{also} (load {load:.1f} expected)"
    )


def _describe_hold(ctx: PoolContext, found: _Outcome) -> str:
    """The chances with one node less, which are why it stays; at min there is none to weigh."""
    fewer = ctx.fleet_size.capacity - ctx.pool.adaptive.headroom - 1
    if not 0 <= fewer < len(found.sizes.soon):
        return _describe_chances(ctx, found)
    return f"{_describe_chances(ctx, found, fewer)}; {_describe_shortfall(found, fewer)}"


def _describe_shortfall(found: _Outcome, nodes: int) -> str:
    sizes, learning = found.sizes, found.outlook.learning
    fall = pluralize(nodes, "node falls", "nodes fall")
    return (
        f"{_percent(sizes.soon[nodes])} chance that {fall} short within {learning.soon} min,"
        f" {_percent(sizes.later[nodes])} within {learning.later} min"
    )


def _percent(chance: float) -> str:
    return f"{100 * chance:.1f} %"


def _grade_promises(
    memory: AdaptiveMemory, ctx: PoolContext, cpu: Reading, found: _Outcome, vote: Vote
) -> AdaptiveMemory:
    """Compare the promises whose time has come with the reading, and keep the present promise for its time."""
    outlook, sizes = found.outlook, found.sizes
    came = [promise for promise in memory.due if promise[0] <= outlook.minute]
    waiting = tuple(promise for promise in memory.due if promise[0] > outlook.minute)
    violated = cpu.value > ctx.pool.adaptive.limit
    nodes = vote.nodes if isinstance(vote, ScaleUp) else ctx.fleet_size.capacity
    chance = sizes.now[max(0, min(nodes, len(sizes.now) - 1))]
    return replace(
        memory,
        decided_at=ctx.observation.at,
        promised=memory.promised * _FADING + add_up(promise[1] for promise in came),
        violated=memory.violated * _FADING + (len(came) if violated else 0),
        due=(*waiting, (float(outlook.minute + outlook.learning.join), round(chance, 6))),
    )


def skill(forecaster: Forecaster) -> float | None:
    """By how many percent the best forecaster's loss of the last hours is below that of the last value; None before
    the first forecast was graded. Zero means that the history of this load helps nothing."""
    losses = dict(zip(FORECASTERS, forecaster.grades()[ForecastWindow.LEVEL], strict=True))
    last = losses["last"]
    return round(100 * (1 - min(losses.values()) / last), 1) if last > 0 else None


def grade(memory: AdaptiveMemory, outlook: Outlook) -> str:
    """Which forecaster has the vote, how much better than the last value it is, and whether the promises hold."""
    votes = zip(FORECASTERS, outlook.votes[ForecastWindow.LEVEL], strict=True)
    shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in votes)
    better = "" if memory.skill is None else f"; {memory.skill:.0f} % better than the last value"
    return (
        f"votes: {shares}{better}; violations promised {memory.promised:.1f}, seen {memory.violated:.0f}; "
        f"a launched node serves after {outlook.learning.join} min"
    )


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


def consenting(vote: SignalVote) -> SignalVote:
    """Memory between its thresholds blocks no scale-down: its projection on the nodes that remain does."""
    match vote.vote:
        case WithinThresholds(reason) | BelowThreshold(reason):
            return replace(vote, vote=ScaleDownOk(reason=reason))
        case _:
            return vote

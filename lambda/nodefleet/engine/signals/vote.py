"""The vote of a signal, and how a value that is compared with thresholds becomes one.

Only ScaleUp adds nodes; a fleet shrinks only if every signal votes ScaleDownOk or abstains.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import ClassVar, TypeAlias

from nodefleet.capacity import FleetSize
from nodefleet.model.decision import BoundSource
from nodefleet.model.names import percent, pluralize
from nodefleet.model.operations import SendAlert
from nodefleet.model.snapshot import Reading, add_up
from nodefleet.model.state import Breaches, PoolMemory
from nodefleet.policy.cluster import Policy
from nodefleet.policy.demand import Lasting, Readings, Score
from nodefleet.policy.pool import Reactive


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleUp:
    STORED_AS: ClassVar[str] = "floor"
    nodes: int  # an absolute count: repeating it buys nothing twice
    reason: str
    expires: datetime | None = None


@dataclass(frozen=True, slots=True)
class AboveThreshold:
    """Above the limit, but not for long enough yet."""

    STORED_AS: ClassVar[str] = "waiting"

    reason: str


@dataclass(frozen=True, slots=True)
class WithinThresholds:
    """Between the limits: no more nodes, and no fewer."""

    STORED_AS: ClassVar[str] = "steady"

    reason: str


@dataclass(frozen=True, slots=True)
class BelowThreshold:
    """Below the lower limit, but not for long enough yet."""

    STORED_AS: ClassVar[str] = "settling"

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleDownOk:
    """Below the lower limit for long enough: some nodes may go."""

    STORED_AS: ClassVar[str] = "calm"

    reason: str
    down: int = 1  # how many it could do without, up to the pool's step


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Configured but unreadable: the fleet may grow on other grounds, it must not shrink."""

    STORED_AS: ClassVar[str] = "veto"

    reason: str


@dataclass(frozen=True, slots=True)
class Abstain:
    """Not configured, or too little history: no say in either direction."""

    reason: str


Vote: TypeAlias = ScaleUp | AboveThreshold | WithinThresholds | BelowThreshold | ScaleDownOk | Unreadable | Abstain


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalVote:
    """The vote of one signal, and the streaks that it remembers."""

    signal: str
    vote: Vote
    value: float | None = None  # the figure that should improve when it gets nodes
    breaches: Mapping[str, Breaches] = field(default_factory=dict)  # by direction: "cpu:up", "cpu:down"


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalResults:
    """The votes of all signals on one pool, and the pool's memory after them."""

    votes: tuple[SignalVote, ...]
    memory: PoolMemory
    alerts: tuple[SendAlert, ...]
    at_once: int | None = None  # a size that does not wait for the growth cooldown
    grade: str = ""  # `strategy: adaptive`: how good its forecast has been
    is_rising: bool = False  # `strategy: adaptive`: another iteration soon may be worth it

    @property
    def floors(self) -> tuple[tuple[SignalVote, ScaleUp], ...]:
        return tuple((opinion, opinion.vote) for opinion in self.votes if isinstance(opinion.vote, ScaleUp))

    @property
    def asks_for_pods(self) -> bool:
        return any(opinion.signal == BoundSource.PODS for opinion, _ in self.floors)


# ── thresholds ───────────────────────────────────────────────────────────────────────────────────────────────────────
# From the figure of a rule to its vote: the band it is in, and whether it has lasted.
#
# Every rule finds the same three things: above its limit, between, or below its lower limit. Whether that has lasted
# is the same question for all of them, so it is asked here and the rules stay formulas.

# ── sustained breaches ───────────────────────────────────────────────────────────────────────────────────────────────
# A spike is not load: how long a reading has stood beyond its limit.
#
# Readings count by sample time. Two observations ten seconds apart see the same minute of load, so a sample counts
# only if it is at least three quarters of an interval younger than the last counted one; a gap starts again.


NO_BREACHES = Breaches()

# How long it must stay so: in readings, as a score, or for a time. AT_ONCE is no time at all.
HowLong: TypeAlias = Lasting | timedelta
AT_ONCE = timedelta(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How far apart readings are meant to be."""

    interval: timedelta
    spacing: float  # × interval: closer ones count once
    gap: float  # × interval: a longer silence starts again

    @classmethod
    def of(cls, policy: Policy) -> "Pace":
        return cls(interval=policy.interval, spacing=policy.trust.spacing, gap=policy.trust.gap)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sustained:
    breaches: Breaches
    held: bool  # beyond the limit now, and for long enough
    progress: str  # "1 of 2 readings", "score 1.25 of 2", "for 120 of 300 s"


def evaluate_sustain(before: Breaches, sample: Reading, *, beyond: bool, lasting: HowLong, pace: Pace) -> Sustained:
    """The breaches after this sample, and whether they have lasted."""
    if before.last is not None and sample.at < before.last:
        # An older sample than one already seen is no news of that time: it must neither count nor weigh more than 1.
        sample = replace(sample, at=before.last)
    match lasting:
        case Readings(count=needed):
            breaches = _streak(before, sample, beyond=beyond, pace=pace, keep=needed)
            seen = len(breaches.times)
            return Sustained(
                breaches=breaches, held=seen >= needed, progress=f"{seen} of {pluralize(needed, 'reading', 'readings')}"
            )
        case Score():
            breaches = _score_breaches(before, sample, beyond=beyond, lasting=lasting, pace=pace)
            score = score_of(breaches, sample, lasting)
            held = beyond and score >= lasting.threshold
            return Sustained(breaches=breaches, held=held, progress=f"score {score:.2f} of {lasting.threshold:g}")
        case timedelta():
            breaches = _streak(before, sample, beyond=beyond, pace=pace, keep=1)
            stood = sample.at - (breaches.since or sample.at)
            held = beyond and stood >= lasting
            return Sustained(breaches=breaches, held=held, progress=_describe_elapsed(stood, lasting))


def _describe_elapsed(stood: timedelta, lasting: timedelta) -> str:
    if not lasting:
        return "at once"
    seconds = f"{stood.total_seconds():.0f}"
    return f"for {seconds} s" if stood >= lasting else f"for {seconds} of {lasting.total_seconds():.0f} s"


def score_of(breaches: Breaches, sample: Reading, lasting: Score) -> float:
    """Σ 0.5^(age / half-life) over the breaches in the window."""
    return float(add_up(0.5 ** ((sample.at - time) / lasting.half_life) for time in breaches.times))


def _streak(before: Breaches, sample: Reading, *, beyond: bool, pace: Pace, keep: int) -> Breaches:
    if not beyond:
        return Breaches(last=sample.at)
    if _begins(before, sample, pace):
        return Breaches(times=(sample.at,), since=sample.at, last=sample.at)
    times = before.times
    if _is_new(times, sample, pace):
        times = (*times, sample.at)
    # Older than needed is not kept: the memory stays small however long it lasts.
    return Breaches(times=times[-keep:], since=before.since, last=sample.at)


def _score_breaches(before: Breaches, sample: Reading, *, beyond: bool, lasting: Score, pace: Pace) -> Breaches:
    times = tuple(time for time in before.times if sample.at - time <= lasting.window)
    if not beyond:
        return Breaches(times=times, last=sample.at)
    if _is_new(times, sample, pace):
        times = (*times, sample.at)
    return Breaches(times=times, since=sample.at if _begins(before, sample, pace) else before.since, last=sample.at)


def _begins(before: Breaches, sample: Reading, pace: Pace) -> bool:
    """The sample before was on the other side, or the silence since it was too long."""
    return before.since is None or before.last is None or sample.at - before.last > pace.gap * pace.interval


def _is_new(times: tuple[datetime, ...], sample: Reading, pace: Pace) -> bool:
    return not times or sample.at - times[-1] >= pace.spacing * pace.interval


def from_cache(opinion: SignalVote, before: Mapping[str, Breaches], cause: str) -> SignalVote:
    """What remains of an opinion that was formed on a cached reading.

    A Floor stands if the reading had counted already when it was fresh. Everything else becomes a Veto, nothing is
    added to the breaches, and there is no value: a cached figure says nothing about whether new nodes helped.
    """
    known = {name: before.get(name, NO_BREACHES) for name in opinion.breaches}
    counted_anew = any(set(after.times) - set(known[name].times) for name, after in opinion.breaches.items())
    kept = replace(opinion, value=None, breaches=known)
    match opinion.vote:
        case ScaleUp() as floor if not counted_anew:
            return replace(kept, vote=replace(floor, reason=f"{floor.reason} ({cause}: last good reading)"))
        case vote:
            return replace(kept, vote=Unreadable(f"{cause}; last good reading: {vote.reason}"))


# ── evaluation ───────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Above:
    nodes: int  # the count it asks for


@dataclass(frozen=True, slots=True)
class Between:
    pass


@dataclass(frozen=True, slots=True)
class Below:
    down: int = 1  # how many nodes it could do without


Band: TypeAlias = Above | Between | Below


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    zone: Band
    value: float  # the figure that should improve when it gets nodes
    sentence: str
    up: HowLong  # how long it must be above
    down: HowLong  # how long it must be below


def vote_on(signal: str, found: Evaluation, at: datetime, before: Mapping[str, Breaches], pace: Pace) -> SignalVote:
    """The vote on a finding whose readings were sampled at `at`, and the breaches to remember."""
    sample = Reading(found.value, at)
    above, below = isinstance(found.zone, Above), isinstance(found.zone, Below)
    up_key, down_key = _keys(signal)
    up = evaluate_sustain(before.get(up_key, NO_BREACHES), sample, beyond=above, lasting=found.up, pace=pace)
    down = evaluate_sustain(before.get(down_key, NO_BREACHES), sample, beyond=below, lasting=found.down, pace=pace)
    breaches = {up_key: up.breaches, down_key: down.breaches}
    return SignalVote(signal=signal, vote=_vote(found, up, down), value=found.value, breaches=breaches)


def unreadable_vote(signal: str, cause: str, before: Mapping[str, Breaches]) -> SignalVote:
    """No reading: no shrinking. A streak is kept as it is; if the silence lasts, the gap ends it."""
    breaches = {key: before.get(key, NO_BREACHES) for key in _keys(signal)}
    return SignalVote(signal=signal, vote=Unreadable(cause), breaches=breaches)


def _keys(signal: str) -> tuple[str, str]:
    return f"{signal}:up", f"{signal}:down"


def _vote(found: Evaluation, up: Sustained, down: Sustained) -> Vote:
    match found.zone:
        case Above(nodes):
            seen = f"{found.sentence}, {up.progress}"
            return ScaleUp(nodes=nodes, reason=seen) if up.held else AboveThreshold(f"{seen}: waiting for {_what(up)}")
        case Between():
            return WithinThresholds(found.sentence)
        case Below(spare):
            seen = f"{found.sentence}, {down.progress}"
            return ScaleDownOk(reason=seen, down=spare) if down.held else BelowThreshold(seen)


def _what(up: Sustained) -> str:
    return "a second" if len(up.breaches.times) == 1 else "more"


# ── projection ───────────────────────────────────────────────────────────────────────────────────────────────────────


def find_overload(votes: Sequence[SignalVote], fleet_size: FleetSize, reactive: Reactive, down: int) -> list[str]:
    """Readings that would come too close to their growth threshold on the nodes that remain.

    The readings are the mean of the measured nodes, of which one leaves. Where none of them would remain, those whose
    exporters are silent are taken to carry as much.
    """
    if fleet_size.capacity <= down:
        return []  # the last one goes only where min is 0, and only if its pods fit elsewhere
    measured = fleet_size.covered if fleet_size.measured is None or fleet_size.measured <= down else fleet_size.measured
    remaining = measured - down
    thresholds = {
        BoundSource.CPU.value: ("CPU", reactive.cpu.up),
        BoundSource.MEMORY.value: ("memory", reactive.memory.up),
    }
    found = []
    for opinion in votes:
        if opinion.signal not in thresholds or opinion.value is None:
            continue
        name, up = thresholds[opinion.signal]
        limit = up - reactive.projection_margin
        if remaining <= 0:
            found.append(f"no ready node would remain to carry {name} {percent(opinion.value)}")
        elif opinion.value * measured / remaining > limit:
            projected = opinion.value * measured / remaining
            nodes = pluralize(remaining, "node", "nodes")
            found.append(f"{name} would be {percent(projected, limit)} on {nodes}, limit {limit:g} %")
    return found

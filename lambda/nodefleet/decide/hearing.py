"""What the signals of all three layers say about one pool, and what they have to remember of it."""

from dataclasses import dataclass, replace

from nodefleet.decide import benefit, inputs
from nodefleet.decide.case import Case
from nodefleet.decide.signals import adaptive, custom, predictive, reactive
from nodefleet.decide.signals.votes import Floor, Opinion
from nodefleet.decide.sizing import at_once, pods_opinion
from nodefleet.decide.sustain import Pace
from nodefleet.decide.waiting import Waiting
from nodefleet.domain.alerts import AlertKind
from nodefleet.domain.decision import BoundSource
from nodefleet.domain.memory import PoolMemory
from nodefleet.domain.operations import Tell
from nodefleet.domain.policy import Pool, Utilisation
from nodefleet.domain.readings import Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    opinions: tuple[Opinion, ...]
    memory: PoolMemory
    tells: tuple[Tell, ...]
    at_once: int | None = None  # a size that does not wait for the growth cooldown
    grade: str = ""  # `strategy: adaptive`: how good its forecast has been
    is_rising: bool = False  # `strategy: adaptive`: another look soon may be worth it

    @property
    def floors(self) -> tuple[tuple[Opinion, Floor], ...]:
        return tuple((opinion, opinion.vote) for opinion in self.opinions if isinstance(opinion.vote, Floor))


def hear(this: Case, waiting: Waiting) -> Heard:
    pool, before, trust = this.pool, this.before, this.policy.trust
    offset = this.seen.utc_offset
    profile = before.profile
    if isinstance(this.cpu, Reading):
        profile = predictive.learned(profile, this.cpu, this.look.covered, pool.predictive, offset)
    foreseen, forecast = predictive.vote(
        profile,
        before.forecast,
        this.look,
        predictive=pool.predictive,
        cpu=pool.reactive.cpu,
        utc_offset=offset,
    )
    pods = pods_opinion(waiting.unschedulable, this.look_at_pods, pool, this.cpu_percent)
    memory_use = _utilisation(this, BoundSource.MEMORY.value, this.memory, pool.reactive.memory)
    sized = adaptive.evaluate(this) if adaptive.is_adaptive(pool) else None
    said = (
        *_of_load(this, sized, memory_use, foreseen, pods),
        *custom.opinions(
            pool, this.readings, before.cached, before.breaches, this.look, trust=trust, pace=Pace.of(this.policy)
        ),
    )
    grants, lost = benefit.judged(before.grants, said, this.look, proof(pool))
    opinions = benefit.muted(said, grants)
    newly_lost = lost - {grant.signal for grant in before.grants if grant.lost}
    memory = replace(
        before,
        breaches={name: kept for opinion in said for name, kept in opinion.breaches.items()},
        profile=profile,
        forecast=None if sized else forecast,
        adaptive=sized.memory if sized else None,
        peaks=this.look.peaks,
        cached=inputs.remembered(before.cached, this.readings, trust, this.seen.at, custom.counts_as_last(pool)),
        grants=grants,
        pod_grants=(),
        pending=waiting.votes.classes,
    )
    tells = [_without_vote(opinion, pool) for opinion in opinions if opinion.signal in newly_lost]
    return Heard(
        opinions=opinions,
        memory=memory,
        tells=(*tells, *waiting.tells),
        at_once=_at_once(at_once(pods, waiting.unschedulable, pool), sized),
        grade=sized.grade if sized else "",
        is_rising=bool(sized and sized.is_rising),
    )


def _of_load(
    this: Case, sized: adaptive.Forecasted | None, memory: Opinion, foreseen: Opinion, pods: Opinion
) -> tuple[Opinion, ...]:
    """CPU thresholds and the hourly profile, or the forecast instead of both."""
    if sized is None:
        cpu = _utilisation(this, BoundSource.CPU.value, this.cpu, this.pool.reactive.cpu)
        return cpu, memory, pods, foreseen
    return sized.opinion, adaptive.consenting(memory), pods


def _at_once(pods: int | None, sized: adaptive.Forecasted | None) -> int | None:
    """What pending pods and the forecast ask for does not wait: both count the nodes that boot."""
    forecast = sized.opinion.vote.nodes if sized and isinstance(sized.opinion.vote, Floor) else None
    return max((each for each in (pods, forecast) if each is not None), default=None)


def proof(pool: Pool) -> benefit.Proof:
    return benefit.Proof(benefit=pool.benefit, settle=pool.cooldown.up)


def _utilisation(this: Case, name: str, seen: inputs.Input, limits: Utilisation) -> Opinion:
    pool = this.pool
    return reactive.utilisation(
        name,
        seen,
        this.before.breaches,
        this.look,
        limits=limits,
        sustain=pool.sustain,
        steps=pool.steps,
        pace=Pace.of(this.policy),
    )


def _without_vote(opinion: Opinion, pool: Pool) -> Tell:
    return Tell(
        alert=AlertKind.NO_BENEFIT,
        pool=pool.name,
        subjects=(opinion.signal,),
        text=f"{opinion.signal}: {opinion.vote.reason}",
    )


def after_growth(heard: Heard, this: Case, waiting: Waiting, *, nodes: int, memory: PoolMemory) -> PoolMemory:
    """What is remembered of a growth to `nodes`: who asked for it and what it read then, and for which pods."""
    counts_pods_singly = waiting.unschedulable.nodes is not None
    growing = [
        opinion
        for opinion, floor in heard.floors
        if floor.nodes > this.count.capacity and not (opinion.signal == BoundSource.PODS and counts_pods_singly)
    ]
    return replace(
        memory,
        grants=benefit.granted(memory.grants, growing, this.look, proof(this.pool), nodes=nodes),
        pending=waiting.bought(nodes - this.count.capacity, this.seen.at, this.pool.benefit.classes),
    )

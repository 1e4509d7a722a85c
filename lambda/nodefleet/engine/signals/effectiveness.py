"""Whether nodes helped. A slow database must not buy nodes to the limit.

What a signal read when it was given nodes is remembered. Once they are ready and have had time to take load, a signal
that still asks and has not improved gets a strike; with enough strikes in a row it loses its vote until it clears.
Pods that wait are judged by themselves: see `pending_classes`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from nodefleet.capacity import FleetSize
from nodefleet.engine.signals.vote import AboveThreshold, ScaleUp, SignalVote, Unreadable, WithinThresholds
from nodefleet.model.names import figure, pluralize
from nodefleet.model.state import ScaleUpRecord
from nodefleet.policy.pool import Benefit


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectivenessRules:
    """What counts as help, and how long it may take to show."""

    benefit: Benefit
    settle: timedelta  # after a growth: the pool's growth cooldown, as before its end nothing more is bought anyway


def judge_scale_ups(
    grants: Sequence[ScaleUpRecord], opinions: Sequence[SignalVote], look: FleetSize, proof: EffectivenessRules
) -> tuple[tuple[ScaleUpRecord, ...], frozenset[str]]:
    """The grants that still matter, and the signals that have no vote. Comes before `granted` in an iteration."""
    by_signal = {opinion.signal: opinion for opinion in opinions}
    kept = []
    for grant in grants:
        opinion = by_signal.get(grant.signal)
        # A reading that went missing has not cleared: missing is not zero.
        if opinion is not None and isinstance(opinion.vote, ScaleUp | AboveThreshold | Unreadable):
            kept.append(grant if grant.lost else _judge_record(grant, opinion, look, proof))
    return tuple(kept), frozenset(grant.signal for grant in kept if grant.lost)


def mute_votes(opinions: Sequence[SignalVote], grants: Sequence[ScaleUpRecord]) -> tuple[SignalVote, ...]:
    """The opinions, with the floors of signals without a vote taken out. They neither buy nor let the fleet shrink."""
    lost = {grant.signal: grant for grant in grants if grant.lost}
    return tuple(_mute_vote(opinion, lost.get(opinion.signal)) for opinion in opinions)


def record_scale_up(
    grants: Sequence[ScaleUpRecord],
    growing: Sequence[SignalVote],
    look: FleetSize,
    proof: EffectivenessRules,
    *,
    nodes: int,
) -> tuple[ScaleUpRecord, ...]:
    """The grants after a growth to `nodes` that the opinions in `growing` set."""
    known = {grant.signal: grant for grant in grants}
    for opinion in growing:
        before = known.get(opinion.signal)
        if opinion.value is not None and not (before and before.lost):
            strikes = _strikes(before, opinion, look, proof) if before else 0
            known[opinion.signal] = ScaleUpRecord(
                signal=opinion.signal, value=opinion.value, at=look.now, nodes=nodes, strikes=strikes
            )
    return tuple(known.values())


def _judge_record(
    grant: ScaleUpRecord, opinion: SignalVote, look: FleetSize, proof: EffectivenessRules
) -> ScaleUpRecord:
    # Strikes are only written down with the next growth or with the loss: each growth counts once, not each iteration.
    strikes = _strikes(grant, opinion, look, proof)
    lost = 0 < _limit(grant.signal, proof.benefit) <= strikes
    return replace(grant, strikes=strikes, lost=True) if lost else grant


def _strikes(grant: ScaleUpRecord, opinion: SignalVote, look: FleetSize, proof: EffectivenessRules) -> int:
    """Growths in a row that changed nothing, this one among them as soon as that can be said."""
    if not isinstance(opinion.vote, ScaleUp) or opinion.value is None:
        return grant.strikes
    if look.covered < grant.nodes or look.now - grant.at < proof.settle:
        return grant.strikes
    fell = grant.value - opinion.value
    improved = fell >= grant.value * proof.benefit.improvement_percent / 100
    return 0 if improved else grant.strikes + 1


def _limit(signal: str, benefit: Benefit) -> int:
    """How many growths without effect a signal may have; 0 is any number."""
    match signal:
        case "cpu":
            return benefit.cpu
        case "memory":
            return benefit.memory
        case "pods":  # where they can only be counted
            return benefit.pods
        case _:
            return benefit.custom


def _mute_vote(opinion: SignalVote, grant: ScaleUpRecord | None) -> SignalVote:
    if grant is None or not isinstance(opinion.vote, ScaleUp):
        return opinion
    now = "unknown" if opinion.value is None else figure(opinion.value)
    reason = (
        f"{opinion.vote.reason}; has no vote until it clears: {grant.strikes} of its growths in a row changed "
        f"nothing; {figure(grant.value)} when it got the last of {pluralize(grant.nodes, 'node', 'nodes')}, {now} now"
    )
    return replace(opinion, vote=WithinThresholds(reason))

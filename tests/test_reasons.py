"""Every sentence that operators read, over simulated runs of all situations: right grammar, no ids that mean nothing to
an operator, no missing values, and every hold with its cause."""

import re
from collections.abc import Iterator
from functools import cache

import pytest

from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Action, Decision, PoolDecision
from nodefleet.model.operations import CancelRemoval, Create, Launch, Removal, RemovalReason
from support.message_situations import SITUATIONS

_TICKS = 20
_THINGS = (
    "nodes|pods|workers|readings|days|removals|instances|disruptions|replicas|machines|zones|growths|launches|growth|"
    "budgets|problems|others|recommendations|windows|hours|minutes"
)
WRONG = {
    "one of many": re.compile(rf"(?<![\d.,–-])(?<!\+ )1 ({_THINGS})\b"),
    "one are": re.compile(r"(?<![\d.,–-])1 (are|have|were|wait|fit|need|look)\b"),
    "many is": re.compile(r"\b([02-9]|\d\d+) (node|pod|worker|removal|instance) (is|has|was|waits|fits|needs)\b"),
    "one they": re.compile(r"(?<![\d.,–-])1 (node|pod|worker|instance)\b[^.;:]*\b(they|them|their)\b", re.IGNORECASE),
    "no value": re.compile(r"\b(nan|None(?! of)|inf|True|False|NaN)\b"),
    "an object": re.compile(r"<\w+[ .]|\w+\(\w+="),
    "a uid": re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-|\buid[-_]?\d"),
    "a long figure": re.compile(r"\d\.\d{4,}"),
    "spaces": re.compile(r"  | [,;.](?!\d)| \)|\( "),
    "punctuation": re.compile(r"\.\.(?!\.)|[,;:] *$|; but|, ,|\(\)"),
    "percent": re.compile(r"\d%"),
}


@cache
def _decisions(kind: AlertKind) -> tuple[Decision, ...]:
    if kind is AlertKind.REPORT:
        return ()  # a week of one fleet: too long for here, and nothing new
    cluster = SITUATIONS[kind]()
    cluster.calm(_TICKS)
    return tuple(record.decision for record in cluster.world.table.decisions)


def _sentences(decision: Decision) -> Iterator[str]:
    yield decision.look_again
    yield from (tell.text for tell in decision.tells)
    for pool in decision.pools:
        yield pool.reason
        yield from (bound.sentence for bound in pool.bounds)
        yield from pool.votes
        yield from (stay.detail for stay in pool.stays)
        yield from (step.text for step in pool.plan if hasattr(step, "text"))


def _pools(kind: AlertKind) -> Iterator[PoolDecision]:
    return (pool for decision in _decisions(kind) for pool in decision.pools)


@pytest.mark.parametrize("kind", SITUATIONS)
def test_sentences_are_well_formed(kind):
    said = {sentence for decision in _decisions(kind) for sentence in _sentences(decision)}
    wrong = [
        (name, pattern.search(sentence).group(), sentence)
        for sentence in sorted(said)
        for name, pattern in WRONG.items()
        if pattern.search(sentence)
    ]
    assert wrong == []


@pytest.mark.parametrize("kind", SITUATIONS)
def test_the_figure_in_the_headline_is_the_plan_s(kind):
    for pool in _pools(kind):
        launched = sum(
            step.operation.count
            for step in pool.plan
            if isinstance(step, Create) and isinstance(step.operation, Launch)
        )
        back = sum(isinstance(step, CancelRemoval) for step in pool.plan)
        leaving = sum(
            isinstance(step, Create)
            and isinstance(step.operation, Removal)
            and step.operation.why is RemovalReason.VOLUNTARY
            for step in pool.plan
        )
        capacity = pool.count.capacity
        match pool.action:
            case Action.GROW:
                assert pool.target == capacity + launched + back
                assert pool.reason.startswith(f"Growing {capacity} → {pool.target}: ")
            case Action.SHRINK:
                assert pool.target == capacity - leaving
                assert pool.reason.startswith(f"Shrinking {capacity} → {pool.target}: ")
            case Action.HOLD:
                assert pool.target == capacity
                assert pool.reason.startswith(f"Holding {capacity}: ")


@pytest.mark.parametrize("kind", SITUATIONS)
def test_every_hold_says_why(kind):
    """Either a signal that is not calm, or that fewer would do and what keeps them: all calm is no cause to hold."""
    for pool in _pools(kind):
        if pool.action is not Action.HOLD:
            continue
        cause = pool.reason.partition(": ")[2]
        assert cause
        calm = all(vote.split(": ", 1)[1].startswith(("calm,", "abstain,")) for vote in pool.votes)
        if calm and pool.votes:
            assert ", but " in cause or "; " in cause or "paused" in cause, pool.reason

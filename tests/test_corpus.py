"""Stored decisions are decided as before. If one is meant to change: `make corpus`, and read the difference."""

from dataclasses import replace

import pytest

from nodefleet.engine.decide import decide
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Action, BoundSource, KeepReason, Rank, Side
from nodefleet.model.state import Level
from nodefleet_tools.outcomes import digest_of, outcome_of
from support.corpus import INPUTS, OUTCOMES, SENTENCES, decided, differences, lines_of, stored

LEAST = 1_000
LARGEST_BYTES = 3_000_000
ALERTS_OF_DECISIONS = {
    AlertKind.AT_MAX,
    AlertKind.CANNOT_HOLD,
    AlertKind.CLEANUP_NEEDS_OPERATOR,
    AlertKind.DEGRADED,
    AlertKind.DRAIN_BLOCKED,
    AlertKind.INTERRUPTED,
    AlertKind.MANY_UNHEALTHY,
    AlertKind.MARKET_RESTORED,
    AlertKind.NODE_IN_DOUBT,
    AlertKind.NO_BENEFIT,
    AlertKind.NO_CAPACITY,
    AlertKind.PODS_REFUSED,
    AlertKind.RECOVERED,
    AlertKind.RESTING_COST,
    AlertKind.ROTATION_BLOCKED,
    AlertKind.SCALE_DOWN_BLOCKED,
    AlertKind.UNHEALTHY,
}  # the others are sent by operations, the loop or operators: tests/messages.json has all
RARE = {KeepReason.NOT_WHOLE, KeepReason.PODS_UNKNOWN}  # tests/engine has them; no simulated day does


@pytest.fixture(scope="module")
def found():
    return decided(stored())


def test_every_stored_decision_has_its_outcome(found):
    changed = differences(lines_of(OUTCOMES), found.outcomes)
    assert not changed, f"{len(changed)} decisions changed; if it is meant: make corpus\n" + "\n".join(changed[:10])


def test_people_read_the_same_sentences(found):
    changed = sorted(set(found.sentences) ^ set(lines_of(SENTENCES)))
    assert not changed, f"{len(changed)} sentences changed; if it is meant: make corpus\n" + "\n".join(changed[:20])


def test_the_corpus_is_large_enough_and_small_enough(found):
    assert len(found.outcomes) >= LEAST
    assert sum(path.stat().st_size for path in INPUTS.parent.iterdir()) <= LARGEST_BYTES


def test_every_kind_of_decision_is_in_the_corpus(found):
    kinds = found.kinds
    assert {level.value for level in Level} <= set(kinds)
    assert {action.value for action in Action} | {"dry"} <= set(kinds)
    assert {kind.removeprefix("alert ") for kind in kinds if kind.startswith("alert ")} == {
        kind.value for kind in ALERTS_OF_DECISIONS
    }
    bounds = {tuple(kind.split(" ")) for kind in kinds if len(kind.split(" ")) == 3 and "<" not in kind}
    assert {rank.name.lower() for rank in Rank} <= {each[2] for each in bounds}
    assert {side.value for side in Side} <= {each[1] for each in bounds}
    assert {source.value for source in BoundSource} == {each[0] for each in bounds}
    stays = {kind.split(" ")[1] for kind in kinds if len(kind.split(" ")) == 2}
    assert {reason.value for reason in KeepReason} - stays == {reason.value for reason in RARE}


def test_an_outcome_holds_no_wording_and_notices_everything_else():
    question = next(each for each in stored() if each.decision().pools[0].plan).question()
    decision = decide(question.observation, question.memory, question.policy)
    assert digest_of(outcome_of(decision)) == digest_of(outcome_of(_reworded(decision)))
    pool = decision.pools[0]
    for changed in (
        replace(pool, target=pool.target + 1),
        replace(pool, plan=pool.plan[1:]),
        replace(pool, bounds=pool.bounds[1:]),
        replace(pool, dry_run=not pool.dry_run),
    ):
        other = replace(decision, pools=(changed, *decision.pools[1:]))
        assert digest_of(outcome_of(other)) != digest_of(outcome_of(decision))


def _reworded(decision):
    pool = decision.pools[0]
    bounds = tuple(replace(bound, sentence="otherwise") for bound in pool.bounds)
    pools = (replace(pool, reason="otherwise", votes=(), bounds=bounds), *decision.pools[1:])
    tells = tuple(replace(tell, text="otherwise") for tell in decision.tells)
    return replace(decision, pools=pools, tells=tells)

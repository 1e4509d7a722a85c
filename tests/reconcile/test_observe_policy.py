"""Which policy is in force, and what happens to one that is not good."""

import pytest

from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import BUILT_IN, PolicyVersion
from nodefleet.model.snapshot import Missing, Observation
from nodefleet.model.state import LoopState
from nodefleet.policy.cluster import Policy
from nodefleet.policy.loading import PolicyReader
from nodefleet.policy.pool import Limits
from nodefleet.ports import State
from nodefleet.reconcile.observe import resolve_policy, with_fleet
from support.builders import NOON, instance, look
from support.sentences import is_phrase, is_sentence
from support.wording import assert_wording

GOOD = {"limits": {"min": 3, "max": 7}}
BAD = {"limits": {"min": 9, "max": 7}}


def version(number, data, digest=""):
    return PolicyVersion(number=number, source="ann", at=NOON, data=data, digest=digest or f"d{number}")


def ruled(state):
    return resolve_policy(state, PolicyReader(), NOON)


def with_workers(state, seen):
    return with_fleet(ruled(state), state, seen, NOON)


EMPTY = look(0)


def test_without_any_policy_and_without_a_fleet_the_defaults_become_the_first_version():
    found = with_workers(State(), EMPTY)
    assert (found.policy, found.version, found.hold) == (Policy(), 1, "")
    assert (found.adopted.number, found.adopted.source, found.adopted.data) == (1, BUILT_IN, {})
    assert found.adopted.at == NOON
    assert [news.kind for news in found.news] == [AlertKind.POLICY_CHANGED]


@pytest.mark.parametrize("seen", [look(1), Observation(at=NOON, instances=Missing("away"))])
def test_without_any_policy_a_fleet_that_exists_or_may_exist_is_held(seen):
    found = with_workers(State(), seen)
    assert (found.policy.pools, found.version, found.adopted) == ((), 0, None)
    assert_wording(found.hold)
    (news,) = found.news
    assert (news.kind, news.subject) == (AlertKind.POLICY_UNUSABLE, "none")
    assert found.hold in news.text


def test_the_control_plane_alone_is_no_fleet():
    server = instance(1, worker=False)
    assert not with_workers(State(), look(0, instances=(server,))).hold


def test_a_fleet_changes_nothing_of_a_policy_that_is_recorded():
    state = State(policy=version(4, GOOD))
    assert with_workers(state, look(3)) == ruled(state)


def test_the_version_in_force_is_used():
    found = ruled(State(policy=version(4, GOOD)))
    assert (found.policy.pools[0].limits.min, found.version, found.hold) == (3, 4, "")


def test_a_new_declared_policy_becomes_the_next_version():
    found = ruled(State(policy=version(4, {}), declared=version(0, GOOD, "new")))
    assert (found.version, found.adopted.number, found.adopted.source) == (5, 5, "stack")
    assert (found.adopted.at, found.adopted.data, found.adopted.digest) == (NOON, GOOD, "new")
    assert found.policy.pools[0].limits.max == 7
    assert [news.kind for news in found.news] == [AlertKind.POLICY_CHANGED]


@pytest.mark.parametrize("journal", [LoopState(adopted_policy="d0"), LoopState(refused_policy="d0")])
def test_a_declared_policy_that_is_known_is_not_looked_at_again(journal):
    """An operator's later version stays in force although the stack still declares the earlier one."""
    found = ruled(State(policy=version(5, GOOD), declared=version(0, {}, "d0"), journal=journal))
    assert (found.version, found.adopted, found.refused, found.news) == (5, None, None, ())


def test_a_declared_policy_that_is_not_good_is_refused_and_the_last_good_one_stays():
    found = ruled(State(policy=version(4, GOOD), declared=version(0, BAD, "bad")))
    assert (found.version, found.policy.pools[0].limits.min) == (4, 3)
    assert found.refused.digest == "bad"
    (news,) = found.news
    assert (news.kind, news.subject) == (AlertKind.POLICY_REFUSED, "bad")
    assert "limits.min" in news.text


@pytest.mark.parametrize("journal", [LoopState(), LoopState(refused_policy="bad")])
def test_a_first_policy_that_is_not_good_begins_nothing(journal):
    """Not even with the defaults: whoever wrote a policy wants another fleet."""
    state = State(declared=version(0, BAD, "bad"), journal=journal)
    found = with_workers(state, EMPTY)
    assert (found.policy.pools, found.version, found.adopted) == ((), 0, None)
    assert_wording(found.hold)
    assert found.refused == (None if journal.refused_policy else state.declared)
    assert found.news[-1].kind is AlertKind.POLICY_UNUSABLE


def test_a_version_in_force_that_is_refused_holds_the_fleet_by_what_can_be_read_of_it():
    found = ruled(State(policy=version(4, {**GOOD, "nonsense": 1})))
    assert (found.version, found.policy.pools[0].limits) == (4, Limits(min=3, max=7))
    assert "version 4" in found.hold
    (news,) = found.news
    assert (news.kind, news.subject) == (AlertKind.POLICY_UNUSABLE, "4")
    assert "nonsense" in news.text


def test_a_good_declared_policy_ends_the_hold_of_a_refused_one():
    found = ruled(State(policy=version(4, BAD), declared=version(0, GOOD, "new")))
    assert (found.version, found.hold, found.adopted.number) == (5, "", 5)


def test_two_policies_that_are_refused_are_both_told():
    found = ruled(State(policy=version(4, BAD), declared=version(0, BAD, "bad")))
    assert [news.kind for news in found.news] == [AlertKind.POLICY_REFUSED, AlertKind.POLICY_UNUSABLE]
    assert found.refused.digest == "bad"


@pytest.mark.parametrize(
    "state",
    [
        State(),
        State(policy=version(4, BAD)),
        State(policy=version(4, {}), declared=version(0, GOOD, "new")),
        State(policy=version(4, GOOD), declared=version(0, BAD, "bad")),
        State(declared=version(0, BAD, "bad")),
    ],
    ids=["none", "unusable", "changed", "refused", "first refused"],
)
@pytest.mark.parametrize("seen", [EMPTY, look(1)], ids=["empty", "a fleet"])
def test_what_people_are_told_is_whole_sentences(state, seen):
    found = with_workers(state, seen)
    assert found.news
    assert all(is_sentence(news.text) for news in found.news)
    assert found.hold == "" or is_phrase(found.hold)


def test_a_refusal_says_the_first_problem_and_how_many_more_there_are():
    one, three = ({"limits": {"min": 9, "max": 7}}, {"limits": {"min": 9, "max": 7}, "no": 1, "nor": 2})
    text, longer = (ruled(State(policy=version(4, data))).news[-1].text for data in (one, three))
    assert "(and" not in text
    assert "(and 2 more)" in longer
    assert not any(ending in text for ending in ("..", "?.", " ."))

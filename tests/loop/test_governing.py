"""Which policy is in force, and what happens to one that is not good."""

import pytest

from builders import NOON
from nodefleet.adapters.policy import load
from nodefleet.domain.events import EventKind
from nodefleet.domain.journal import Journal
from nodefleet.domain.policy import Policy
from nodefleet.domain.records import PolicyVersion
from nodefleet.errors import MisconfiguredError
from nodefleet.loop.governing import governing
from nodefleet.ports import State

GOOD = {"limits": {"min": 3, "max": 7}}
BAD = {"limits": {"min": 9, "max": 7}}


class Policies:
    def read(self, data):
        return load(data).policy


class Versions:
    def __init__(self, *versions):
        self.versions = versions
        self.asked = 0

    def policies(self):
        self.asked += 1
        return self.versions


def version(number, data, digest=""):
    return PolicyVersion(number=number, source="ann", at=NOON, data=data, digest=digest or f"d{number}")


def ruled(state, *earlier):
    return governing(state, Policies(), Versions(*earlier), NOON)


def test_without_any_the_defaults_hold():
    found = ruled(State())
    assert (found.policy, found.version, found.news) == (Policy(), 0, ())


def test_the_version_in_force_is_used_and_no_other_is_fetched():
    versions = Versions()
    found = governing(State(policy=version(4, GOOD)), Policies(), versions, NOON)
    assert (found.policy.pools[0].limits.min, found.version, versions.asked) == (3, 4, 0)


def test_a_new_declared_policy_becomes_the_next_version():
    found = ruled(State(policy=version(4, {}), declared=version(0, GOOD, "new")))
    assert (found.version, found.adopted.number, found.adopted.source) == (5, 5, "stack")
    assert found.policy.pools[0].limits.max == 7
    assert [kind for kind, _ in found.news] == [EventKind.POLICY_CHANGED]


@pytest.mark.parametrize("journal", [Journal(adopted_policy="d0"), Journal(refused_policy="d0")])
def test_a_declared_policy_that_is_known_is_not_looked_at_again(journal):
    """A person's later version stays in force although the stack still declares the earlier one."""
    found = ruled(State(policy=version(5, GOOD), declared=version(0, {}, "d0"), journal=journal))
    assert (found.version, found.adopted, found.refused, found.news) == (5, None, None, ())


def test_a_declared_policy_that_is_not_good_is_refused_and_the_last_good_one_stays():
    found = ruled(State(policy=version(4, GOOD), declared=version(0, BAD, "bad")))
    assert (found.version, found.policy.pools[0].limits.min) == (4, 3)
    assert found.refused.digest == "bad"
    ((kind, text),) = found.news
    assert kind is EventKind.POLICY_REFUSED
    assert "limits.min" in text
    assert "stays in force" in text


def test_a_first_policy_that_is_not_good_leaves_the_defaults():
    found = ruled(State(declared=version(0, BAD, "bad")))
    assert (found.policy, found.version, found.refused.digest) == (Policy(), 0, "bad")


def test_a_version_in_force_that_is_not_good_any_more_gives_way_to_the_last_good_one():
    found = ruled(
        State(policy=version(4, BAD)), version(5, GOOD), version(4, BAD), version(3, {"nonsense": 1}), version(2, GOOD)
    )
    assert (found.version, found.policy.pools[0].limits.min) == (2, 3)
    assert [kind for kind, _ in found.news] == [EventKind.POLICY_REFUSED, EventKind.POLICY_REFUSED]


def test_without_a_good_version_nothing_is_done():
    with pytest.raises(MisconfiguredError, match="policy apply"):
        ruled(State(policy=version(1, BAD)))

"""Each subject has its turn, and only what ends the whole run is raised."""

from types import SimpleNamespace

import pytest

from nodefleet.errors import ChangedError, LostLeaseError
from nodefleet.reconcile.executor import try_each


def tried(call, *subjects):
    asked = []

    def together(*calls):
        return [_result(each) for each in calls]

    def ask(subject):
        asked.append(subject)
        return call(subject)

    try:
        return asked, try_each(SimpleNamespace(together=together), subjects, ask)
    except Exception as error:
        error.asked = asked
        raise


def _result(call):
    try:
        return call()
    except Exception as error:  # noqa: BLE001  # as the real one: it gives what was raised
        return error


def failing(error, on):
    def call(subject):
        if subject == on:
            raise error
        return subject.upper()

    return call


def test_each_subject_is_given_with_what_came_of_it():
    error = ChangedError("it is another one")
    assert tried(failing(error, "b"), "a", "b", "c") == (["a", "b", "c"], [("a", "A"), ("b", error), ("c", "C")])


@pytest.mark.parametrize("error", [LostLeaseError("lost"), ZeroDivisionError("a fault")], ids=["lease", "fault"])
def test_a_lost_lease_and_a_fault_of_ours_are_raised_after_all_had_a_turn(error):
    with pytest.raises(type(error)) as raised:
        tried(failing(error, "a"), "a", "b")
    assert raised.value is error
    assert error.asked == ["a", "b"]

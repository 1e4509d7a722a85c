"""The figures fit each other."""

from nodefleet.notifying.limits import Limits


def test_a_claim_outlives_the_longest_sending():
    assert Limits().claim > Limits().longest_sending


def test_there_is_time_for_one_try_in_the_reserve():
    limits = Limits()
    assert limits.reserve > limits.connect + limits.answer

"""The figures fit each other."""

from nodefleet.notifications.incoming import DeliveryLimits


def test_a_claim_outlives_the_longest_sending():
    limits = DeliveryLimits()
    longest = limits.tries * (limits.connect + limits.answer) + (limits.tries - 1) * limits.longest_wait
    assert limits.claim > longest


def test_there_is_time_for_one_try_in_the_reserve():
    limits = DeliveryLimits()
    assert limits.reserve > limits.connect + limits.answer

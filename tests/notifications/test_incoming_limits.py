"""The figures fit each other."""

from nodefleet.notifications.incoming import DeliveryLimits


def test_a_claim_outlives_the_longest_sending():
    assert DeliveryLimits().claim > DeliveryLimits().longest_sending


def test_there_is_time_for_one_try_in_the_reserve():
    limits = DeliveryLimits()
    assert limits.reserve > limits.connect + limits.answer

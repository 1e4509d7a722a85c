"""How long the next iteration may take."""

from datetime import timedelta

from nodefleet.policy.cluster import Burst
from nodefleet.reconcile.run import next_duration, remember_duration

RULES = Burst(remembered=3, margin=1.5)


def test_durations_are_whole_seconds_rounded_up_and_the_oldest_is_forgotten():
    durations: tuple[int, ...] = ()
    for seconds in (40, 0.2, 7.01, 3):
        durations = remember_duration(durations, timedelta(seconds=seconds), RULES)
    assert durations == (1, 8, 3)


def test_the_longest_counts_with_its_margin():
    assert next_duration((1, 8, 3), RULES) == timedelta(seconds=12)


def test_without_any_nothing_is_expected():
    assert next_duration((), RULES) == timedelta(0)

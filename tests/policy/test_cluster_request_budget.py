"""A token bucket: full at first, refilled by the clock, and never beyond its size."""

from datetime import timedelta

import pytest

from nodefleet.policy.cluster import BucketRules, TokenBucket, empty_bucket, refill, take_token
from support.builders import NOON, after

RULES = BucketRules(size=3, per_second=0.5)
NOW = timedelta(0)


def test_a_bucket_that_nobody_used_is_full():
    assert refill(None, RULES, NOON) == TokenBucket(tokens=3, at=NOON)


def test_as_many_requests_as_its_size_go_at_once_and_the_next_one_waits():
    bucket, waits = None, []
    for _ in range(4):
        bucket, wait = take_token(bucket, RULES, NOON)
        waits.append(wait)
    assert waits == [NOW, NOW, NOW, timedelta(seconds=2)]


@pytest.mark.parametrize(("seconds", "tokens"), [(0, 0), (1, 0.5), (2, 1), (6, 3), (600, 3)])
def test_it_refills_by_the_clock_up_to_its_size(seconds, tokens):
    assert refill(empty_bucket(NOON), RULES, after(seconds)).tokens == tokens


def test_a_request_is_sent_once_the_time_that_was_told_is_over():
    empty, wait = take_token(empty_bucket(NOON), RULES, after(1))
    assert wait == timedelta(seconds=1)
    assert take_token(empty, RULES, after(1) + wait)[1] == NOW


def test_a_clock_that_runs_behind_refills_nothing_and_waits_for_the_other():
    bucket, wait = take_token(empty_bucket(after(10)), RULES, NOON)
    assert bucket == empty_bucket(after(10))
    assert wait == timedelta(seconds=12)

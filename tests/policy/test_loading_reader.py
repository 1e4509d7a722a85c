"""Policies as the loop reads them."""

import pytest

from nodefleet.model.serialization import ValidationError
from nodefleet.policy.loading import PolicyReader, digest_of
from support.builders import NOON


def test_a_text_is_read_once():
    reader = PolicyReader()
    first = reader.read({"limits": {"min": 3, "max": 7}})
    assert first.pools[0].limits.min == 3
    assert reader.read({"limits": {"max": 7, "min": 3}}) is first
    assert reader.read({"limits": {"min": 4, "max": 7}}) is not first


def test_many_texts_do_not_pile_up():
    reader = PolicyReader()
    for most in range(10, 60):
        reader.read({"limits": {"max": most}})
    assert len(reader._read) <= 16


def test_what_is_refused_is_refused_every_time():
    reader = PolicyReader()
    for _ in range(2):
        with pytest.raises(ValidationError):
            reader.read({"limits": {"min": 9, "max": 7}})


def test_the_digest_does_not_depend_on_the_order_of_keys():
    assert digest_of({"a": 1, "b": [1, 2]}) == digest_of({"b": [1, 2], "a": 1})
    assert digest_of({"a": 1}) != digest_of({"a": 2})


def test_windows_and_offset_come_from_the_schedule():
    reader = PolicyReader()
    policy = reader.read(
        {
            "time_zone": "Europe/Berlin",
            "windows": [{"name": "noon", "cron": "0 13 * * *", "lasting": "1h", "min": 4}],
        }
    )
    assert [window.name for window in reader.windows(policy, NOON)] == ["noon"]
    assert reader.utc_offset(policy, NOON).total_seconds() == 3600

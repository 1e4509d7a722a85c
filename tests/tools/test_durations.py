from datetime import timedelta

import pytest

from nodefleet_tools.durations import ago, lasting


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "0 s"),
        (0, "0 s"),
        (119, "119 s"),
        (120, "2 min"),
        (3600, "60 min"),
        (7200, "2 h"),
        (86400, "24 h"),
        (172800, "2 days"),
        (864000, "10 days"),
    ],
)
def test_a_duration_is_told_in_the_unit_that_a_person_would_use(seconds, words):
    assert lasting(timedelta(seconds=seconds)) == words
    assert ago(timedelta(seconds=seconds)) == f"{words} ago"

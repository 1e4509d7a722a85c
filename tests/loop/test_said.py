"""Each thing once: what makes two sentences the same thing, and when it is news again."""

from datetime import timedelta

import pytest

from builders import NOON, after
from nodefleet.domain.events import EventKind
from nodefleet.domain.operations import AlertKind
from nodefleet.domain.policy import Messages
from nodefleet.loop.said import Saying, key_of

RULES = Messages(remind_after=timedelta(hours=6), over_after=timedelta(minutes=15))


def says(*seconds: float, text: str = "At max: CPU 91.0 % > 70 %") -> list[bool]:
    """Whether the same thing is an event at each of these times."""
    said, told = {}, []
    for moment in seconds:
        saying = Saying.since(said, "shop", after(moment), RULES)
        told.append(saying.event(EventKind.AT_MAX, "default", text) is not None)
        said = saying.said
    return told


def test_what_is_so_on_every_look_is_said_once():
    assert says(0, 120, 240, 360) == [True, False, False, False]


def test_what_is_still_so_after_hours_is_said_again():
    looks = [minutes * 60 for minutes in range(0, 725, 10)]
    told = says(*looks)
    assert [moment for moment, news in zip(looks, told, strict=True) if news] == [0, 6 * 3600, 12 * 3600]


def test_what_comes_back_after_a_while_is_news():
    assert says(0, 899, 1799) == [True, False, True]


def test_what_flaps_is_not_news():
    assert says(0, 300, 600, 900) == [True, False, False, False]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("CPU 91.0 % > 70 %, 3 of 2 readings", "CPU 88.5 % > 70 %, 4 of 2 readings", True),
        ("paused until 2026-11-16 12:00", "paused until 2026-11-17 13:30", True),
        ("w001 could not be drained", "w002 could not be drained", False),
        ("pod shop/web-7 waits", "pod shop/web-8 waits", False),
        ("i-0abc is gone", "i-0abd is gone", False),
    ],
)
def test_sentences_that_differ_only_in_figures_are_the_same_thing(one, other, same):
    assert (key_of("at-max", "default", one) == key_of("at-max", "default", other)) is same


def test_pools_and_kinds_are_told_apart():
    keys = {key_of(kind, pool, "x") for kind in ("at-max", "sick") for pool in ("a", "b")}
    assert len(keys) == 4


def test_what_is_long_over_is_forgotten():
    saying = Saying.since({}, "shop", NOON, RULES)
    saying.event(EventKind.AT_MAX, "default", "x")
    assert Saying.since(saying.said, "shop", after(6 * 3600 - 1), RULES).said
    assert not Saying.since(saying.said, "shop", after(6 * 3600), RULES).said


def test_an_event_that_is_made_twice_in_a_look_is_one_event():
    first, again = (Saying.since({}, "shop", NOON, RULES).made(EventKind.SCALE_UP, "default", "x") for _ in range(2))
    assert first.id == again.id
    later = Saying.since({}, "shop", after(1), RULES).made(EventKind.SCALE_UP, "default", "x")
    assert later.id != first.id


def test_every_alert_is_an_event():
    assert {alert.value for alert in AlertKind} <= {kind.value for kind in EventKind}

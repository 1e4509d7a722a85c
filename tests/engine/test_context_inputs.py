from datetime import timedelta
from math import inf, nan

import pytest

from nodefleet.engine.context import Cached, custom_name, update_cache, usable_reading
from nodefleet.engine.signals.vote import (
    AboveThreshold,
    Abstain,
    BelowThreshold,
    ScaleDownOk,
    ScaleUp,
    SignalVote,
    Unreadable,
    WithinThresholds,
    from_cache,
)
from nodefleet.model.snapshot import Missing, PoolReadings, Reading
from nodefleet.model.state import Breaches
from nodefleet.policy.cluster import Trust
from support.builders import NOON, after
from support.signal_builders import TRUST

GONE = Missing("connection refused")
LAST = Reading(80, after(-120))


@pytest.mark.parametrize(
    ("sampled", "cause"),
    [
        (0, None),
        (-300, None),
        (-301, "stale: sampled 301 s ago, limit 300 s"),
        (-412, "stale: sampled 412 s ago, limit 300 s"),
        (300, None),  # clocks differ a little
        (301, "from the future: sampled 301 s ahead, limit 300 s"),
    ],
)
def test_a_sample_that_is_too_old_or_too_new_counts_as_missing(sampled, cause):
    sample = Reading(50, after(sampled))
    assert usable_reading(sample, None, TRUST, NOON) == (sample if cause is None else Missing(cause))


@pytest.mark.parametrize(
    ("value", "cause"),
    [
        (nan, "nan is not a number"),
        (inf, "inf is not a number"),
        (-inf, "-inf is not a number"),
        (-1e300, "-1e+300 is larger than anything that is counted or measured"),
    ],
)
def test_what_is_not_a_number_counts_as_missing(value, cause):
    assert usable_reading(Reading(value, NOON), None, TRUST, NOON) == Missing(cause)


def test_a_missing_reading_without_a_last_good_one_stays_missing():
    assert usable_reading(GONE, None, TRUST, NOON) == GONE


@pytest.mark.parametrize(
    ("sampled", "usable"), [(0, True), (-599, True), (-600, False), (-601, False), (300, True), (301, False)]
)
def test_the_last_good_reading_stands_in_while_it_is_young(sampled, usable):
    last = Reading(80, after(sampled))
    assert usable_reading(GONE, last, TRUST, NOON) == (Cached(last, "connection refused") if usable else GONE)


def test_a_stale_sample_is_replaced_by_the_last_good_one_and_a_good_one_is_not():
    stale = Reading(50, after(-412))
    assert usable_reading(stale, LAST, TRUST, NOON) == Cached(LAST, "stale: sampled 412 s ago, limit 300 s")
    assert usable_reading(Reading(50, NOON), LAST, TRUST, NOON) == Reading(50, NOON)


def test_nothing_stands_in_when_the_policy_keeps_no_cache():
    assert usable_reading(GONE, Reading(80, NOON), Trust(cache_for=timedelta(0)), NOON) == GONE


def test_good_readings_are_remembered_and_old_ones_forgotten():
    readings = PoolReadings(
        cpu=Reading(50, NOON), memory=GONE, custom={"cpu": Reading(7, NOON), "late": Reading(7, after(-301))}
    )
    before = {
        "cpu": LAST,
        "memory": LAST,
        "custom:late": Reading(3, after(-600)),
        "custom:off": Reading(3, after(-599)),
    }
    assert update_cache(before, readings, TRUST, NOON) == {
        "cpu": Reading(50, NOON),
        "memory": LAST,
        "custom:cpu": Reading(7, NOON),  # a user's reading of that name is another one
        "custom:off": Reading(3, after(-599)),
    }


def test_custom_names_cannot_be_taken_for_built_in_ones():
    assert custom_name("cpu") == "custom:cpu"


COUNTED = Breaches(times=(after(-240), after(-120)), since=after(-240), last=after(-120))
BEFORE = {"cpu:up": COUNTED, "cpu:down": Breaches(last=after(-120)), "memory:up": Breaches()}


def said(vote, up=COUNTED):
    return SignalVote(signal="cpu", vote=vote, value=80, breaches={"cpu:up": up, "cpu:down": Breaches(last=NOON)})


def test_growth_that_had_lasted_is_upheld_and_says_on_what():
    assert from_cache(said(ScaleUp(nodes=4, reason="CPU 80.0 % > 70 %")), BEFORE, "CPU unknown: refused") == SignalVote(
        signal="cpu",
        vote=ScaleUp(nodes=4, reason="CPU 80.0 % > 70 % (CPU unknown: refused: last good reading)"),
        value=None,
        breaches={"cpu:up": COUNTED, "cpu:down": Breaches(last=after(-120))},
    )


def test_growth_that_only_lasts_because_the_cached_reading_was_counted_anew_is_a_veto():
    more = Breaches(times=(after(-120), NOON), since=after(-240), last=NOON)
    result = from_cache(said(ScaleUp(nodes=4, reason="high"), up=more), BEFORE, "gone")
    assert result.vote == Unreadable("gone; last good reading: high")
    assert result.breaches["cpu:up"] == COUNTED


def test_a_signal_without_earlier_breaches_keeps_none():
    result = from_cache(said(AboveThreshold("high")), {}, "gone")
    assert result.breaches == {"cpu:up": Breaches(), "cpu:down": Breaches()}


@pytest.mark.parametrize(
    "vote",
    [
        AboveThreshold("figures"),
        WithinThresholds("figures"),
        BelowThreshold("figures"),
        ScaleDownOk(reason="figures"),
        Unreadable("figures"),
        Abstain("figures"),
    ],
)
def test_on_a_cached_reading_everything_but_growth_is_a_veto_that_names_the_cause(vote):
    assert from_cache(said(vote), BEFORE, "CPU unknown: refused").vote == Unreadable(
        "CPU unknown: refused; last good reading: figures"
    )

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodefleet.engine.context import Cached
from nodefleet.engine.signals.evaluate import evaluate_utilisation
from nodefleet.engine.signals.vote import (
    AboveThreshold,
    BelowThreshold,
    ScaleDownOk,
    ScaleUp,
    Unreadable,
    WithinThresholds,
)
from nodefleet.model.snapshot import Missing, Reading
from nodefleet.model.state import Breaches
from nodefleet.policy.demand import Readings, Score, Sustain
from nodefleet.policy.pool import Reactive, Steps
from support.builders import NOON, after
from support.signal_builders import AT_ONCE, PACE, floor_of, look, words

CPU, MEMORY = Reactive().cpu, Reactive().memory


def opinion(seen, seconds=0.0, before=None, *, name="cpu", limits=CPU, sustain=None, steps=None, covered=3, capacity=3):
    return evaluate_utilisation(
        name,
        seen,
        before or {},
        look(seconds, covered=covered, capacity=capacity),
        limits=limits,
        sustain=sustain or Sustain(),
        steps=steps or Steps(),
        pace=PACE,
    )


def along(*rows, **how):
    """(seconds, percent) → all opinions."""
    said = []
    for seconds, percent in rows:
        before = said[-1].breaches if said else {}
        said.append(opinion(Reading(percent, after(seconds)), seconds, before, **how))
    return said


def test_one_reading_above_the_limit_waits_for_a_second():
    (said,) = along((0, 82))
    assert said.vote == AboveThreshold("CPU 82.0 % > 70 %, 1 of 2 readings: waiting for a second")
    assert (said.signal, said.value) == ("cpu", 82)


def test_two_readings_an_interval_apart_ask_for_a_step_more_than_the_covered_nodes():
    assert along((0, 82), (120, 85))[-1].vote == ScaleUp(nodes=4, reason="CPU 85.0 % > 70 %, 2 of 2 readings")
    assert floor_of(along((0, 82), (120, 85), steps=Steps(up=2), covered=5)[-1]) == 7


def test_memory_has_its_own_limits_and_name():
    both = {"name": "memory", "limits": MEMORY}
    assert along((0, 80), (120, 75.1), **both)[-1].vote == ScaleUp(
        nodes=4, reason="memory 75.1 % > 75 %, 2 of 2 readings"
    )
    assert set(along((0, 80), **both)[-1].breaches) == {"memory:up", "memory:down"}


@pytest.mark.parametrize(
    ("percent", "vote"),
    [
        (70.1, ScaleUp(nodes=4, reason="CPU 70.1 % > 70 %, 1 of 1 reading")),
        (70, WithinThresholds("CPU 70.0 % between 30 % and 70 %")),
        (30, WithinThresholds("CPU 30.0 % between 30 % and 70 %")),
        (29.9, ScaleDownOk(reason="CPU 29.9 % < 30 %, 1 of 1 reading")),
    ],
)
def test_the_limits_themselves_are_still_fine(percent, vote):
    assert opinion(Reading(percent, NOON), sustain=AT_ONCE).vote == vote


def test_calm_takes_five_readings():
    said = along(*[(120 * n, 25) for n in range(6)])
    assert words(said) == ["BelowThreshold"] * 4 + ["ScaleDownOk"] * 2
    assert said[3].vote == BelowThreshold("CPU 25.0 % < 30 %, 4 of 5 readings")
    assert said[4].vote == ScaleDownOk(reason="CPU 25.0 % < 30 %, 5 of 5 readings", down=1)


def test_a_reading_between_the_limits_starts_both_directions_anew():
    assert words(along((0, 82), (120, 60), (240, 82))) == ["AboveThreshold", "WithinThresholds", "AboveThreshold"]
    rows = [(0, 20), (120, 20), (240, 20), (360, 20), (480, 31), (600, 20)]
    assert words(along(*rows))[-2:] == ["WithinThresholds", "BelowThreshold"]


def test_both_directions_are_remembered_apart():
    assert along((0, 82))[-1].breaches == {
        "cpu:up": Breaches(times=(NOON,), since=NOON, last=NOON),
        "cpu:down": Breaches(last=NOON),
    }
    assert along((0, 12))[-1].breaches == {
        "cpu:up": Breaches(last=NOON),
        "cpu:down": Breaches(times=(NOON,), since=NOON, last=NOON),
    }


def test_with_three_readings_to_go_the_second_waits_for_more():
    said = along((0, 82), (120, 82), sustain=Sustain(up=Readings(count=3)))
    assert said[-1].vote == AboveThreshold("CPU 82.0 % > 70 %, 2 of 3 readings: waiting for more")


def test_a_score_may_be_used_instead():
    said = along((0, 82), (120, 60), (240, 82), sustain=Sustain(up=Score(threshold=1.5)))
    assert said[-1].vote == ScaleUp(nodes=4, reason="CPU 82.0 % > 70 %, score 1.50 of 1.5")


def test_a_repeated_look_while_nodes_boot_buys_nothing_more():
    said = along((0, 82), (120, 85), (240, 88), capacity=4)
    assert [floor_of(each) for each in said[1:]] == [4, 4]


def test_a_missing_reading_never_lets_the_fleet_shrink_and_keeps_the_streak():
    before = along((0, 82))[-1].breaches
    said = opinion(Missing("connection refused"), 120, before)
    assert said.vote == Unreadable("CPU unknown: connection refused")
    assert (said.breaches, said.value) == (before, None)
    assert floor_of(opinion(Reading(85, after(240)), 240, said.breaches)) == 4


def test_a_cached_reading_upholds_growth_that_had_lasted():
    before = along((0, 82), (120, 85))[-1].breaches
    said = opinion(Cached(Reading(85, after(120)), "timed out"), 240, before)
    reason = "CPU 85.0 % > 70 %, 2 of 2 readings (CPU unknown: timed out: last good reading)"
    assert (said.vote, said.breaches) == (ScaleUp(nodes=4, reason=reason), before)


def test_a_cached_reading_is_never_the_second_one():
    before = along((0, 82))[-1].breaches
    for sampled in (0, 120):  # even if it had not been counted yet
        said = opinion(Cached(Reading(85, after(sampled)), "timed out"), 240, before)
        assert isinstance(said.vote, Unreadable)
        assert said.breaches == before


def test_a_cached_reading_never_lets_the_fleet_shrink():
    before = along(*[(120 * n, 25) for n in range(5)])[-1].breaches
    said = opinion(Cached(Reading(25, after(480)), "timed out"), 600, before)
    assert said.vote == Unreadable("CPU unknown: timed out; last good reading: CPU 25.0 % < 30 %, 5 of 5 readings")
    assert said.breaches == before


@given(st.floats(0, 100), st.floats(0, 100), st.integers(0, 20))
def test_a_higher_reading_never_gives_a_lower_floor(one, other, covered):
    low, high = sorted((one, other))
    floors = [floor_of(opinion(Reading(v, NOON), sustain=AT_ONCE, covered=covered)) for v in (low, high)]
    assert floors[0] <= floors[1]


@given(st.lists(st.floats(0, 100), max_size=8), st.text())
def test_a_floor_never_comes_from_a_missing_reading(percents, cause):
    said = along(*[(120 * n, percent) for n, percent in enumerate(percents)])
    before = said[-1].breaches if said else {}
    assert isinstance(opinion(Missing(cause), 120 * len(said), before).vote, Unreadable)

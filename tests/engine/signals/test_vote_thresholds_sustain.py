from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodefleet.engine.signals.vote import NO_BREACHES, HowLong, Pace, Sustained, evaluate_sustain
from nodefleet.model.snapshot import Reading
from nodefleet.model.state import Breaches
from nodefleet.policy.cluster import Policy, Trust
from nodefleet.policy.demand import Readings, Score
from support.builders import NOON, after
from support.signal_builders import PACE
from support.wording import assert_wording

TWO = Readings(count=2)
SCORE = Score(threshold=2.0, half_life=timedelta(seconds=120), window=timedelta(seconds=600))
FIVE_MINUTES = timedelta(seconds=300)


def along(*rows: tuple[float, bool], lasting: HowLong = TWO, pace: Pace = PACE) -> Sustained:
    """(seconds, beyond) → what stands after the last."""
    result = Sustained(breaches=NO_BREACHES, held=False, progress="")
    for seconds, beyond in rows:
        result = evaluate_sustain(
            result.breaches, Reading(0, after(seconds)), beyond=beyond, lasting=lasting, pace=pace
        )
    return result


@pytest.mark.parametrize(
    ("rows", "held", "progress"),
    [
        ([(0, True)], False, "1 of 2 readings"),
        ([(0, True), (120, True)], True, "2 of 2 readings"),
        ([(0, True), (89.9, True)], False, "1 of 2 readings"),  # the same load, looked at twice
        ([(0, True), (90, True)], True, "2 of 2 readings"),
        ([(0, True), (240, True)], True, "2 of 2 readings"),
        ([(0, True), (240.1, True)], False, "1 of 2 readings"),  # a gap
        ([(0, True), (80, True), (250, True)], True, "2 of 2 readings"),  # nobody was silent for long
        ([(0, True), (80, True), (320.1, True)], False, "1 of 2 readings"),
        ([(0, True), (120, False), (240, True)], False, "1 of 2 readings"),
        ([(0, True), (120, False)], False, "0 of 2 readings"),
        ([(0, True), (120, True), (130, True)], True, "2 of 2 readings"),
        ([(0, True), (120, True), (240, True)], True, "2 of 2 readings"),
        ([(0, True), (10, True), (20, True), (30, True)], False, "1 of 2 readings"),  # a burst of iterations
        ([(0, True), (30, True), (60, True), (90, True)], True, "2 of 2 readings"),
    ],
)
def test_readings_count_by_sample_time(rows, held, progress):
    result = along(*rows)
    assert (result.held, result.progress) == (held, progress)


def test_a_streak_remembers_no_more_times_than_it_needs_and_when_it_began():
    result = along(*[(120 * n, True) for n in range(10)])
    assert result.breaches == Breaches(times=(after(960), after(1080)), since=NOON, last=after(1080))


def test_a_sample_from_before_the_last_one_is_not_another_reading():
    assert not along((120, True), (0, True)).held
    assert along((120, True), (0, True)).breaches.last == after(120)


@pytest.mark.parametrize(
    ("rows", "held", "progress"),
    [
        ([(0, True)], False, "score 1.00 of 2"),
        ([(0, True), (120, True)], False, "score 1.50 of 2"),
        ([(0, True), (120, True), (240, True)], False, "score 1.75 of 2"),
        ([(0, True), (120, False), (240, True)], False, "score 1.25 of 2"),  # a calm reading does not reset it
        ([(0, True), (90, True)], False, "score 1.59 of 2"),
        ([(0, True), (80, True)], False, "score 0.63 of 2"),  # not counted, and the first one decays
        ([(0, True), (600, True)], False, "score 1.03 of 2"),
        ([(0, True), (600.1, True)], False, "score 1.00 of 2"),  # out of the window
    ],
)
def test_a_score_decays_with_the_age_of_each_breach(rows, held, progress):
    result = along(*rows, lasting=SCORE)
    assert (result.held, result.progress) == (held, progress)


def test_a_score_holds_from_its_threshold_on_and_only_while_beyond():
    reachable = Score(threshold=1.5, half_life=timedelta(seconds=120), window=timedelta(seconds=600))
    assert along((0, True), (120, True), lasting=reachable).held
    low = Score(threshold=0.5, half_life=timedelta(seconds=120), window=timedelta(seconds=600))
    assert not along((0, True), (120, True), (130, False), lasting=low).held


def test_a_score_does_not_weigh_a_breach_more_because_an_older_sample_came_late():
    assert along((120, True), (0, True), lasting=SCORE).progress == "score 1.00 of 2"


def test_half_life_of_30_s_at_60_s_readings_reaches_1_25_after_two_breaches_and_never_2():
    quick = Score(threshold=2.0, half_life=timedelta(seconds=30), window=timedelta(seconds=180))
    minute = Pace(interval=timedelta(seconds=60), spacing=0.75, gap=2.0)
    assert along((60, True), (120, True), lasting=quick, pace=minute).progress == "score 1.25 of 2"
    forever = along(*[(60 * n, True) for n in range(60)], lasting=quick, pace=minute)
    assert (forever.held, forever.progress) == (False, "score 1.33 of 2")


def test_a_score_knows_when_its_run_of_breaches_began():
    assert along((0, True), (120, True), lasting=SCORE).breaches.since == NOON
    assert along((0, True), (120, False), lasting=SCORE).breaches == Breaches(times=(NOON,), last=after(120))
    assert along((0, True), (240.1, True), lasting=SCORE).breaches.since == after(240.1)


@pytest.mark.parametrize(
    ("rows", "held", "progress"),
    [
        ([(0, True)], False, "for 0 of 300 s"),
        ([(0, True), (120, True), (299, True)], False, "for 299 of 300 s"),
        ([(0, True), (120, True), (300, True)], True, "for 300 s"),
        ([(0, True), (120, True), (240, False), (360, True)], False, "for 0 of 300 s"),
        ([(0, True), (300, True)], False, "for 0 of 300 s"),  # silence is not calm
        ([(0, True), (150, True), (300, False)], False, "for 0 of 300 s"),
        ([(10 * n, True) for n in range(31)], True, "for 300 s"),
    ],
)
def test_a_time_is_measured_between_samples(rows, held, progress):
    result = along(*rows, lasting=FIVE_MINUTES)
    assert (result.held, result.progress) == (held, progress)


def test_a_time_remembers_only_the_last_counted_sample():
    result = along(*[(120 * n, True) for n in range(10)], lasting=FIVE_MINUTES)
    assert result.breaches == Breaches(times=(after(1080),), since=NOON, last=after(1080))


def test_no_time_at_all_holds_at_once_but_only_beyond_the_limit():
    assert_wording((along((0, True), lasting=timedelta(0)).held, along((0, True), lasting=timedelta(0)).progress))
    assert not along((0, False), lasting=timedelta(0)).held


def test_the_pace_is_the_policys():
    policy = Policy(interval=timedelta(seconds=60), trust=Trust(spacing=0.5, gap=3.0))
    assert Pace.of(policy) == Pace(interval=timedelta(seconds=60), spacing=0.5, gap=3.0)


STEPS = st.lists(st.tuples(st.integers(0, 400), st.booleans()), max_size=40)


def at_times(steps):
    seconds, rows = 0, []
    for step, beyond in steps:
        seconds += step
        rows.append((seconds, beyond))
    return rows


@given(STEPS, st.integers(1, 6))
def test_never_held_with_fewer_new_samples_beyond_than_needed(steps, needed):
    rows = at_times(steps)
    if along(*rows, lasting=Readings(count=needed)).held:
        run = []
        for seconds, beyond in reversed(rows):
            if not beyond:
                break
            run.append(seconds)
        counted, last = 0, float("inf")
        for seconds in run:  # the most that could be counted: as many as lie a spacing apart
            if last - seconds >= 90:
                counted, last = counted + 1, seconds
        assert counted >= needed


@given(STEPS, st.sampled_from([TWO, Readings(count=5), SCORE, FIVE_MINUTES]))
def test_two_looks_at_the_same_sample_are_one(steps, lasting):
    rows = at_times(steps)
    twice = [row for row in rows for _ in range(2)]
    assert along(*rows, lasting=lasting) == along(*twice, lasting=lasting)


@given(STEPS, st.integers(2, 6), st.floats(240.001, 10_000))
def test_a_gap_starts_anew(steps, needed, silence):
    rows = at_times(steps)
    last = rows[-1][0] if rows else 0
    result = along(*rows, (last + silence, True), lasting=Readings(count=needed))
    assert (result.held, len(result.breaches.times)) == (False, 1)


@given(STEPS, st.sampled_from([TWO, SCORE, FIVE_MINUTES, timedelta(0)]))
def test_a_sample_on_the_other_side_never_holds(steps, lasting):
    rows = at_times(steps)
    last = rows[-1][0] if rows else 0
    assert not along(*rows, (last + 1, False), lasting=lasting).held

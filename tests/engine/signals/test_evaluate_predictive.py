from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodefleet.capacity import FleetSize
from nodefleet.engine.signals.evaluate import evaluate_forecast, learn_profile
from nodefleet.engine.signals.vote import Abstain, ScaleUp
from nodefleet.model.snapshot import Reading
from nodefleet.model.state import Forecast, HourLoad
from nodefleet.policy.pool import Predictive, Utilisation

ON = Predictive()
MONTH = Predictive(history_days=28)
UTC_ZONE = timedelta(0)
DHAKA = timedelta(hours=6)
MUMBAI = timedelta(hours=5, minutes=30)


def on(day, hour, minute=0):
    """November 2026; the 16th is a Monday."""
    return datetime(2026, 11, day, hour, minute, tzinfo=UTC)


def hours(loads, hour=9, first=1, month=11):
    """One entry a day with these loads; None leaves a day out."""
    return tuple(
        HourLoad(
            day=f"2026-{month:02}-{day:02}",
            hour=hour,
            load=load,
            samples=30,
            last=datetime(2026, month, day, hour, 58, tzinfo=UTC),
        )
        for day, load in enumerate(loads, start=first)
        if load is not None
    )


def said(profile, now, forecast=None, covered=3, capacity=None, predictive=ON, up=70.0, offset=UTC_ZONE):
    seen = FleetSize(now=now, covered=covered, capacity=covered if capacity is None else capacity)
    opinion, kept = evaluate_forecast(
        profile, forecast, seen, predictive=predictive, cpu=Utilisation(up=up), utc_offset=offset
    )
    assert (opinion.signal, opinion.value, opinion.breaches) == ("predictive", None, {})
    return opinion.vote, kept


WEEK = hours([2.4] * 7, first=9)  # every day from Monday the 9th to Sunday the 15th
NINE = "predicted CPU 80.0 % > 70 % for 09:00 (load 2.4 on 3 nodes, 5 workdays)"
AT_NINE = Forecast(nodes=4, hour=on(16, 9), expires=on(16, 10), sentence=NINE)


# ── learning ─────────────────────────────────────────────────────────────────────────────────────────────────────


def learn(*samples, profile=(), predictive=ON, offset=UTC_ZONE):
    for at, percent, covered in samples:
        profile = learn_profile(profile, Reading(percent, at), covered, predictive, offset)
    return profile


def test_load_is_utilisation_times_nodes():
    assert learn((on(16, 9, 2), 60, 5)) == (HourLoad(day="2026-11-16", hour=9, load=3.0, samples=1, last=on(16, 9, 2)),)


def test_an_hour_keeps_the_mean_of_its_samples():
    (entry,) = learn((on(16, 9, 0), 50, 2), (on(16, 9, 2), 50, 4), (on(16, 9, 4), 100, 6))
    assert entry == HourLoad(day="2026-11-16", hour=9, load=3.0, samples=3, last=on(16, 9, 4))


def test_a_sample_counts_once_and_an_older_one_not_at_all():
    once = learn((on(16, 9, 2), 60, 5))
    assert learn((on(16, 9, 2), 90, 5), (on(16, 9, 0), 90, 5), profile=once) == once


def test_hours_and_days_are_kept_apart_in_order():
    profile = learn((on(16, 9, 58), 50, 2), (on(16, 10, 0), 50, 2), (on(17, 9, 0), 50, 2))
    assert [(entry.day, entry.hour) for entry in profile] == [("2026-11-16", 9), ("2026-11-16", 10), ("2026-11-17", 9)]
    late = learn((on(16, 8, 58), 50, 2), profile=profile)
    assert (late[0].day, late[0].hour) == ("2026-11-16", 8)


def test_the_hour_and_the_day_are_local():
    (entry,) = learn((on(16, 20, 0), 50, 2), offset=DHAKA)
    assert (entry.day, entry.hour) == ("2026-11-17", 2)
    (entry,) = learn((on(16, 9, 29), 50, 2), offset=MUMBAI)
    assert entry.hour == 14
    (entry,) = learn((on(16, 9, 30), 50, 2), offset=MUMBAI)
    assert entry.hour == 15


def test_entries_older_than_the_history_are_dropped():
    old = learn((on(9, 9, 0), 50, 2))
    assert len(learn((on(16, 9, 0), 50, 2), profile=old)) == 2
    assert [entry.day for entry in learn((on(16, 9, 1), 50, 2), profile=old)] == ["2026-11-16"]
    assert len(learn((on(16, 9, 1), 50, 2), profile=old, predictive=MONTH)) == 2


def test_a_reading_that_covers_no_node_teaches_nothing_but_time_passes():
    assert learn((on(16, 9, 0), 50, 0)) == ()
    assert learn((on(16, 9, 1), 50, 0), profile=learn((on(9, 9, 0), 50, 2))) == ()


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(1, 20)), min_size=1, max_size=30))
def test_the_mean_is_that_of_all_samples(samples):
    (entry,) = learn(*[(on(16, 9, minute), percent, nodes) for minute, (percent, nodes) in enumerate(samples)])
    assert entry.samples == len(samples)
    assert entry.load == pytest.approx(sum(percent / 100 * nodes for percent, nodes in samples) / len(samples))


# ── looking ahead ────────────────────────────────────────────────────────────────────────────────────────────────


def test_from_minute_50_on_a_busy_coming_hour_asks_for_a_node_until_it_is_over():
    assert said(WEEK, on(16, 8, 50)) == (ScaleUp(nodes=4, reason=NINE, expires=on(16, 10)), AT_NINE)


def test_before_minute_50_it_does_not_look():
    assert said(WEEK, on(16, 8, 49)) == (Abstain("looks at the coming hour from minute 50"), None)
    early = Predictive(from_minute=40)
    assert isinstance(said(WEEK, on(16, 8, 40), predictive=early)[0], ScaleUp)
    assert said(WEEK, on(16, 8, 39), predictive=early)[0] == Abstain("looks at the coming hour from minute 40")


def test_a_forecast_is_upheld_through_its_hour_and_no_longer():
    for now in (on(16, 8, 52), on(16, 9, 0), on(16, 9, 49), on(16, 9, 59)):
        assert said(WEEK, now, AT_NINE) == (ScaleUp(nodes=4, reason=NINE, expires=on(16, 10)), AT_NINE)
    assert said(WEEK, on(16, 10, 0), AT_NINE) == (Abstain("looks at the coming hour from minute 50"), None)


def test_a_node_that_joined_since_does_not_raise_it():
    assert said(hours([9.9] * 7, first=9), on(16, 8, 56), AT_NINE, covered=4)[1] == AT_NINE


def test_a_calm_coming_hour_has_no_say():
    calm = "predicted CPU 40.0 % ≤ 70 % for 09:00 (load 1.2 on 3 nodes, 5 workdays)"
    assert said(hours([1.2] * 7, first=9), on(16, 8, 50)) == (Abstain(calm), None)


def test_the_limit_itself_is_calm():
    assert isinstance(said(hours([2.1] * 7, first=9), on(16, 8, 50), up=70)[0], Abstain)
    assert isinstance(said(hours([2.11] * 7, first=9), on(16, 8, 50), up=70)[0], ScaleUp)


def test_the_present_nodes_count_not_those_of_that_day():
    assert isinstance(said(WEEK, on(16, 8, 50), covered=4)[0], Abstain)


def test_nodes_that_boot_are_part_of_the_step():
    assert said(WEEK, on(16, 8, 50), covered=3, capacity=4)[0].nodes == 4


def test_sized_by_the_forecast_it_asks_for_what_the_load_needs_and_at_least_the_step():
    by_forecast = Predictive(sizing="forecast")
    busy = hours([6.3] * 7, first=9)
    assert said(busy, on(16, 8, 50))[0].nodes == 4
    assert said(busy, on(16, 8, 50), predictive=by_forecast)[0].nodes == 9  # 6.3 ÷ 70 %
    assert said(WEEK, on(16, 8, 50), predictive=by_forecast)[0].nodes == 4
    assert said(WEEK, on(16, 8, 50), predictive=Predictive(sizing="forecast", step=3))[0].nodes == 6


def test_the_step_is_the_policys():
    assert said(WEEK, on(16, 8, 50), predictive=Predictive(step=3))[0].nodes == 6


def test_the_hour_after_a_busy_one_is_decided_anew():
    profile = WEEK + hours([3.2] * 7, hour=10, first=9)
    floor, forecast = said(profile, on(16, 9, 50), AT_NINE, covered=4)
    assert (floor.nodes, floor.expires) == (5, on(16, 11))
    assert (forecast.nodes, forecast.hour) == (5, on(16, 10))


def test_with_one_node_ready_it_looks_too():
    assert said(WEEK, on(16, 8, 50), covered=1)[0].nodes == 2


def test_seconds_do_not_shift_the_hour():
    odd = on(16, 8, 50) + timedelta(seconds=17, microseconds=250)
    assert said(WEEK, odd)[1] == AT_NINE


def test_the_running_hour_keeps_its_floor_while_the_next_is_calm_unknown_or_smaller():
    upheld = (ScaleUp(nodes=4, reason=NINE, expires=on(16, 10)), AT_NINE)
    assert said(WEEK + hours([0.3] * 7, hour=10, first=9), on(16, 9, 50), AT_NINE, covered=4) == upheld
    assert said(WEEK, on(16, 9, 50), AT_NINE, covered=4) == upheld
    assert said(WEEK + hours([3.2] * 7, hour=10, first=9), on(16, 9, 50), AT_NINE, covered=0) == upheld
    floor, _ = said(WEEK + hours([3.2] * 7, hour=10, first=9), on(16, 9, 50), AT_NINE, covered=2)
    assert floor.nodes == 4


def test_too_little_history_abstains_and_says_how_much_there_is():
    assert said(hours([9, 9], first=14), on(16, 8, 50)) == (Abstain("2 of 3 days of data for 09:00"), None)
    assert said((), on(16, 8, 50))[0] == Abstain("0 of 3 days of data for 09:00")
    assert isinstance(said(hours([9, 9, 9], first=13), on(16, 8, 50))[0], ScaleUp)
    assert isinstance(said(hours([9, 9], first=14), on(16, 8, 50), predictive=Predictive(min_days=2))[0], ScaleUp)


def test_days_beyond_the_history_do_not_count():
    assert said(hours([9] * 5, first=1), on(16, 8, 50))[0] == Abstain("0 of 3 days of data for 09:00")


def test_other_hours_do_not_count():
    assert said(hours([9] * 7, hour=8, first=9), on(16, 8, 50))[0] == Abstain("0 of 3 days of data for 09:00")


# Monday … Sunday, from October the 19th: Mondays are busy, other workdays less, weekends not.
MONTH_OF_LOADS = [2.7, 1.5, 1.5, 1.5, 1.5, 0.3, 0.3] * 4
FOUR_WEEKS = hours(MONTH_OF_LOADS[:13], first=19, month=10) + hours(MONTH_OF_LOADS[13:], first=1)


@pytest.mark.parametrize(
    ("now", "predictive", "basis"),
    [
        (on(16, 8, 50), MONTH, "predicted CPU 90.0 % > 10 % for 09:00 (load 2.7 on 3 nodes, 4 Mondays)"),
        (on(17, 8, 50), MONTH, "predicted CPU 50.0 % > 10 % for 09:00 (load 1.5 on 3 nodes, 4 Tuesdays)"),
        (on(21, 8, 50), MONTH, "predicted CPU 10.0 % ≤ 10 % for 09:00 (load 0.3 on 3 nodes, 4 Saturdays)"),
        (on(22, 8, 50), MONTH, "predicted CPU 10.0 % ≤ 10 % for 09:00 (load 0.3 on 3 nodes, 4 Sundays)"),
        # a week has one Monday only: all workdays are used
        (on(16, 8, 50), ON, "predicted CPU 58.0 % > 10 % for 09:00 (load 1.74 on 3 nodes, 5 workdays)"),
        (on(17, 8, 50), ON, "predicted CPU 50.0 % > 10 % for 09:00 (load 1.5 on 3 nodes, 4 workdays)"),
        # and two days of a weekend, which are not three: all days are used
        (on(14, 8, 50), ON, "predicted CPU 44.3 % > 10 % for 09:00 (load 1.33 on 3 nodes, 7 days)"),
        (
            on(15, 8, 50),
            Predictive(min_days=2),
            "predicted CPU 10.0 % ≤ 10 % for 09:00 (load 0.3 on 3 nodes, 2 weekend days)",
        ),
    ],
)
def test_the_most_alike_days_of_which_there_are_enough_are_used(now, predictive, basis):
    profile = tuple(entry for entry in FOUR_WEEKS if entry.last < now)
    assert said(profile, now, predictive=predictive, up=10)[0].reason == basis


def test_minutes_hours_and_weekdays_are_local():
    # 02:50 UTC on Monday is 08:50 in Dhaka; the profile's hours are local.
    floor, forecast = said(WEEK, on(16, 2, 50), offset=DHAKA)
    assert floor.reason == NINE
    assert (forecast.hour, forecast.expires) == (on(16, 3), on(16, 4))
    # 03:20 UTC is 08:50 in Mumbai.
    floor, forecast = said(WEEK, on(16, 3, 20), offset=MUMBAI)
    assert (floor.reason, forecast.hour) == (NINE, on(16, 3, 30))
    assert said(WEEK, on(16, 3, 40), forecast, offset=MUMBAI)[1] == forecast


def test_before_midnight_the_coming_hour_is_tomorrows():
    mondays = hours([2.7, None, None, None, None, None, None] * 2, hour=0, first=2)
    reason = "predicted CPU 90.0 % > 70 % for 00:00 (load 2.7 on 3 nodes, 2 Mondays)"
    floor, forecast = said(mondays, on(15, 23, 50), predictive=Predictive(history_days=28, min_days=2))
    assert (floor.reason, forecast.hour) == (reason, on(16, 0))


def test_switched_off_it_abstains_and_forgets():
    assert said(WEEK, on(16, 9, 10), AT_NINE, predictive=Predictive(enabled=False)) == (
        Abstain("predictive scaling is off"),
        None,
    )


def test_without_a_ready_node_there_is_nothing_to_compare_with():
    assert said(WEEK, on(16, 8, 50), covered=0) == (Abstain("no ready node to predict for"), None)


@given(st.floats(0, 20), st.floats(0, 20), st.integers(1, 10))
def test_a_busier_past_never_gives_a_lower_floor(one, other, covered):
    low, high = sorted((one, other))
    floors = [
        getattr(said(hours([load] * 7, first=9), on(16, 8, 50), covered=covered)[0], "nodes", 0) for load in (low, high)
    ]
    assert floors[0] <= floors[1]

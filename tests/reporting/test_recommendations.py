"""When min and max are too tight or too wide, and by how much."""

from collections import Counter
from datetime import timedelta

import pytest

from nodefleet.model.alerts import AlertKind
from nodefleet.policy.pool import Limits, MarketMix, Pool, Window
from nodefleet.reporting.recommendations import lower_max, lower_min, raise_max
from support.week_builders import case, used
from support.wording import assert_wording

TEN = Pool(limits=Limits(min=2, max=10))
CALM = used(2, 1)
FULL = used(7, 3, cpu=90, memory=60, at_max_seconds=3600)
THRICE = Counter({AlertKind.AT_MAX: 3})


def test_a_fleet_that_is_busy_at_max_should_be_allowed_more():
    found = raise_max(case((148, CALM), (20, FULL), pool=TEN))
    assert_wording(found.do)
    assert_wording(found.because)
    assert found.for_service
    # five more nodes for 20 of 168 hours, at what a node-hour cost
    week = case((148, CALM), (20, FULL), pool=TEN).week
    assert found.usd_per_month == pytest.approx(-5 * 20 * week.usd_per_node_hour * 730 / 168)


@pytest.mark.parametrize(
    ("cpu", "memory", "raised"),
    [
        (66, 40, 11),  # 10 × 66 / 60
        (60.1, 40, 11),
        (80, 40, 14),  # 10 × 80 / 60 = 13.3
        (40, 78, 12),  # 10 × 78 / 65
        (100, 100, 15),  # saturated: not more than half as many again
    ],
)
def test_how_many_more_follows_from_the_busiest_hour(cpu, memory, raised):
    full = used(7, 3, cpu=cpu, memory=memory, at_max_seconds=3600)
    assert raise_max(case((148, CALM), (20, full), pool=TEN)).do.endswith(f"to {raised}")


def test_being_as_large_as_max_is_no_reason_by_itself():
    fixed = Pool(limits=Limits(min=3, max=3))
    assert raise_max(case((168, used(2, 1, at_max_seconds=3600)), pool=fixed)) is None


def test_pods_that_wait_at_max_are_a_reason():
    full = used(7, 3, at_max_seconds=3600, waiting_pod_seconds=1800)
    found = raise_max(case((148, CALM), (20, full), pool=TEN))
    assert_wording(found.do)
    assert_wording(found.because)


def test_waiting_pods_say_nothing_of_a_pool_among_several():
    full = used(7, 3, at_max_seconds=3600, waiting_pod_seconds=1800)
    assert raise_max(case((148, CALM), (20, full), pool=TEN, only_pool=False)) is None


def test_a_short_time_at_max_is_a_rare_peak_unless_it_comes_again_and_again():
    rarely = [(163, CALM), (5, FULL)]
    assert raise_max(case(*rarely, pool=TEN)) is None
    found = raise_max(case(*rarely, pool=TEN, told=THRICE))
    assert_wording(found.because)


def test_without_readings_max_grows_by_a_step():
    full = used(7, 3, cpu=None, memory=None, at_max_seconds=3600)
    assert raise_max(case((148, CALM), (20, full), pool=TEN, told=THRICE)).do.endswith("to 11")


def test_a_cost_that_is_not_known_is_not_invented():
    unpriced = used(7, 3, cpu=90, usd=0, unpriced_seconds=36000, at_max_seconds=3600)
    assert raise_max(case((168, unpriced), pool=TEN)).usd_per_month is None


# ── a lower max ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_max_far_above_the_peak_guards_nothing():
    found = lower_max(case((168, CALM), pool=TEN))
    assert_wording(found.do)
    assert_wording(found.because)
    assert_wording(found.effect)
    assert found.usd_per_month is None


@pytest.mark.parametrize(
    ("pool", "stretches"),
    [
        (TEN, [(168, used(3, 1))]),  # 4 → 8: two nodes lower are not worth it
        (TEN, [(168, used(4, 2))]),
        (TEN, [(150, CALM), (18, None)]),  # less than the whole week was watched
        (TEN, [(168, used(0, 0))]),
        (Pool(limits=Limits(min=8, max=10)), [(168, CALM)]),
        (Pool(limits=Limits(min=2, max=10), market=MarketMix(on_demand_base=8)), [(168, CALM)]),
        (
            Pool(
                limits=Limits(min=2, max=10),
                windows=(Window(name="sale", cron="0 8 * * 5", lasting=timedelta(hours=3), min=9),),
            ),
            [(168, CALM)],
        ),
    ],
)
def test_max_stays_where_it_is(pool, stretches):
    assert lower_max(case(*stretches, pool=pool)) is None


@pytest.mark.parametrize("kind", [AlertKind.PAUSED, AlertKind.SCALED_BY_OPERATOR])
def test_a_size_that_people_set_says_nothing_about_limits(kind):
    by_hand = Counter({kind: 1})
    assert lower_max(case((168, CALM), pool=TEN, told=by_hand)) is None
    idle = used(4, 2, cpu=10, memory=20, asked=(10, 10))
    assert lower_min(case((168, idle), pool=Pool(limits=Limits(min=6, max=10)), told=by_hand)) is None


def test_a_bill_that_cannot_be_reckoned_is_not_told():
    assert_wording(lower_max(case((168, CALM), pool=TEN, catalog={})).effect)


# ── a lower min ──────────────────────────────────────────────────────────────────────────────────────────────────

SIX = Pool(limits=Limits(min=6, max=12))
IDLE = used(4, 2, cpu=12, memory=20, asked=(30, 20))
BUSY = used(6, 3, cpu=55, memory=50)


def test_a_fleet_that_idles_at_min_could_be_smaller():
    found = lower_min(case((100, BUSY), (68, IDLE), pool=SIX))
    assert_wording(found.do)
    assert_wording(found.because)
    week = case((100, BUSY), (68, IDLE), pool=SIX).week
    assert found.usd_per_month == pytest.approx(4 * 68 * week.usd_per_node_hour * 730 / 168)


@pytest.mark.parametrize(
    ("cpu", "memory", "asked", "lower"),
    [
        (12, 20, (60, 20), 4),  # 6 × 60 / 90
        (12, 49, (30, 20), 5),  # 6 × 49 / 65 = 4.5
        (29, 20, (30, 20), 3),  # 6 × 29 / 60 = 2.9
        (1, 1, (1, 1), 2),  # one may fail and work goes on
    ],
)
def test_how_low_follows_from_use_and_requests(cpu, memory, asked, lower):
    idle = used(4, 2, cpu=cpu, memory=memory, asked=asked)
    assert lower_min(case((168, idle), pool=SIX)).do.endswith(f"to {lower}")


@pytest.mark.parametrize(
    "stretches",
    [
        [(168, used(4, 2, cpu=31, memory=20, asked=(30, 20)))],  # not calm: it would not have shrunk
        [(168, used(4, 2, cpu=12, memory=51, asked=(30, 20)))],
        [(168, used(4, 2, cpu=12, memory=20, asked=(80, 20)))],  # pods would not fit
        [(168, used(4, 2, cpu=12, memory=20, asked=None))],  # nobody knows whether they would
        [(168, used(4, 2, cpu=None, memory=20, asked=(30, 20)))],
        [(168, used(5, 2, cpu=12, memory=20, asked=(30, 20)))],  # above min: not min's doing
        [(150, BUSY), (18, IDLE)],  # a short night
    ],
)
def test_min_stays_where_it_is(stretches):
    assert lower_min(case(*stretches, pool=SIX)) is None


def test_a_min_of_two_is_never_lowered():
    assert lower_min(case((168, used(1, 1, cpu=1, memory=1, asked=(1, 1))))) is None

"""Weeks and the sentences they make."""

from dataclasses import replace
from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest

from nodefleet.model.alerts import AlertKind
from nodefleet.model.state import AdaptiveMemory, Memory, PoolMemory
from nodefleet.policy.pool import Limits, Pool
from nodefleet.reporting.usage import last_week
from nodefleet.reporting.weekly import weekly_report
from nodefleet.reporting.weekly_text import headline, lines, plain, report_event
from support.week_builders import CATALOG, MONDAY, NINE, TUNED, WEEK, hours, merged, policy, told, used
from support.wording import assert_wording

STEADY = (100, used(2, 1)), (68, used(4, 2))
WEEK_WORDS = "Week 2026-W46 (2026-11-09 to 2026-11-15)"


def report(usage, events=(), rules=None, period=WEEK, catalog=CATALOG):
    return weekly_report("shop", period, usage, events, rules or policy(), catalog)


def said(it, about):
    """What the report says about something: the lines' own words."""
    return [line.says for line in lines(it) if line.label == about]


@pytest.mark.parametrize(
    ("stretches", "sentence"),
    [
        pytest.param(
            STEADY,
            "708 node-hours for USD 8.50, USD 11.66 (58 %) less than a fixed fleet as large as the peak. "
            "Nothing needs doing.",
            id="a good week",
        ),
        pytest.param(
            [(168, used(6, 3, cpu=20, memory=30, asked=(90, 40)))],
            "1,512 node-hours for USD 18.14, USD 12.10 (40 %) less than a fixed fleet as large as the peak. "
            "1 recommendation, worth up to USD 35.04 a month.",
            id="one thing to do",
        ),
        pytest.param(
            [(168, used(7, 3, cpu=90, at_max_seconds=3600))],
            "1,680 node-hours for USD 19.49, USD 14.11 (42 %) less than a fixed fleet as large as the peak. "
            "1 recommendation.",
            id="one that costs",
        ),
        pytest.param(
            [(168, used(0, 6))],
            "1,008 node-hours for USD 20.16, as much as a fixed fleet as large as the peak. Nothing needs doing.",
            id="nothing saved",
        ),
        pytest.param(
            [(168, used(0, 6, usd=0.15))],
            "1,008 node-hours for USD 25.20, USD 5.04 (25 %) more than a fixed fleet as large as the peak. "
            "Nothing needs doing.",
            id="a fixed fleet was cheaper",
        ),
        pytest.param(
            [(140, used(4, 2)), (28, None)],
            "840 node-hours for USD 10.08, USD 6.72 (40 %) less than a fixed fleet as large as the peak. "
            "83 % of it was watched. Nothing needs doing.",
            id="not all was watched",
        ),
        pytest.param(
            [(128, None), (40, used())],
            "only 40 of 168 h were watched, too little to judge: 120 node-hours for USD 1.44, "
            "USD 0.96 (40 %) less than a fixed fleet as large as the peak.",
            id="a first, partial week",
        ),
        pytest.param(
            [(168, used(4, 2, usd=0.068, unpriced_seconds=720))],
            "1,008 node-hours for at least USD 11.42, at most USD 8.74 (43 %) less than a fixed fleet as large as the "
            "peak. Nothing needs doing.",
            id="some prices lack",
        ),
        pytest.param(
            [(168, used(4, 2, usd=0, unpriced_seconds=6 * 3600))],
            "1,008 node-hours for an unknown price. Nothing needs doing.",
            id="all prices lack",
        ),
        pytest.param(
            [],
            "the autoscaler did not run. Not one hour was recorded. See that its schedule is on; "
            "`nodefleet doctor` names what else is wrong.",
            id="nothing ran",
        ),
        pytest.param(
            [(168, used(watched=0))],
            "the autoscaler ran and could look at nothing for longer than a moment. "
            "`nodefleet doctor` names what is wrong.",
            id="nothing was seen",
        ),
        pytest.param(
            [(168, used(0, 0))], "0 node-hours for USD 0.00. Nothing needs doing.", id="a pool that needed no node"
        ),
    ],
)
def test_the_week_in_a_sentence_or_two(stretches, sentence):
    quiet = policy(Pool(limits=Limits(min=2, max=10)))
    assert headline(report(hours(*stretches), rules=quiet)) == f"{WEEK_WORDS}: {sentence}"


def test_the_lines_of_a_good_week():
    assert_wording(report_event(report(hours(*STEADY)), NINE).details)


def test_the_report_is_one_event_for_a_cluster_and_week():
    event = report_event(report(hours(*STEADY)), NINE)
    assert (event.id, event.kind, event.cluster, event.at) == ("report/shop/2026-W46", AlertKind.REPORT, "shop", NINE)
    assert report_event(report(()), NINE + timedelta(days=2)).id == event.id


def test_an_empty_week_says_what_people_were_told_and_no_figures():
    it = report((), [told(AlertKind.ALARM, pool=""), told(AlertKind.PAUSED, pool="")])
    assert_wording(report_event(it, NINE).details)


def test_unreadable_readings_are_said_with_their_share():
    half = (84, used(4, 2, cpu=40)), (84, used(4, 2, cpu=None, memory=None, asked=None))
    assert_wording(said(report(hours(*half)), "Use"))
    nothing = report(hours((168, used(4, 2, cpu=None, memory=None, asked=None))))
    assert_wording(said(nothing, "Use"))


def test_prices_that_are_not_known_are_said_with_their_share():
    some = report(hours((168, used(2, 1, usd=0.03, unpriced_seconds=3600))))
    assert_wording(said(some, "Cost"))
    assert_wording(said(some, "Fixed fleet"))
    none = report(hours((168, used(2, 1, usd=0, unpriced_seconds=3 * 3600))))
    assert_wording(said(none, "Cost"))


@pytest.mark.parametrize(
    ("stretches", "words"),
    [
        (
            [(2, used(4, 2, interruptions=1)), (166, used(4, 2))],
            (
                "67 % of the node-hours, where the policy aims at 67 % for fleets of these sizes; "
                "2 interruptions, one in 336 Spot node-hours"
            ),
        ),
        (
            [(168, used(1, 1))],
            "50 % of the node-hours, where the policy aims at 50 % for fleets of these sizes; no interruption",
        ),
        (
            [(2, used(1, 1, market_swaps=1)), (166, used(1, 1))],
            (
                "50 % of the node-hours, where the policy aims at 50 % for fleets of these sizes; no interruption; "
                "2 On-Demand nodes above the share replaced by Spot"
            ),
        ),
    ],
)
def test_spot_and_its_interruptions(stretches, words):
    assert said(report(hours(*stretches)), "Spot") == [words]


@pytest.mark.parametrize(
    ("hour", "why"),
    [
        (used(0, 6, no_capacity=1), "(EC2 had no capacity 168 times, and what Spot lacks is bought On-Demand)"),
        (used(0, 6, interruptions=1), "(what replaces lost nodes to hold min is bought On-Demand)"),
        (used(0, 6), "(nothing recorded says why)"),
    ],
)
def test_less_spot_than_wanted_says_why(hour, why):
    (line,) = said(report(hours((168, hour))), "Spot")
    assert_wording(line)


def test_scaling_waiting_and_failures_are_counted():
    eventful = used(
        4,
        2,
        scale_ups=1,
        scale_downs=2,
        at_max_seconds=360,
        waiting_pod_seconds=1800,
        join_failures=1,
        drain_failures=2,
        no_capacity=3,
    )
    told_of = [
        told(AlertKind.QUOTA),
        told(AlertKind.QUOTA, number=1),
        told(AlertKind.DEGRADED, pool=""),
        told(AlertKind.PERMISSION, dry=True),
        told(AlertKind.UNHEALTHY, day=8),
    ]
    it = report(hours((1, eventful), (167, used(4, 2))), told_of)
    assert_wording(said(it, "Scaling"))
    assert_wording(said(it, "Waiting"))
    assert_wording(said(it, "Failures"))


def test_workers_that_were_rotated_are_counted_among_those_that_went():
    assert_wording(
        said(report(hours((2, used(4, 2, scale_downs=3, rotations=2, consolidations=1)), (166, used(4, 2)))), "Scaling")
    )


def test_an_event_that_is_listed_twice_counts_once():
    assert_wording(said(report((), [told(AlertKind.QUOTA)] * 2), "Failures"))


# ── recommendations ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_recommendation_says_what_why_and_what_it_brings():
    it = report(hours((168, used(6, 3, cpu=20, memory=30, asked=(90, 40)))))
    assert_wording(said(it, "Recommendation 1"))


def test_a_recommendation_that_costs_says_so():
    it = report(hours((168, used(7, 3, cpu=66, at_max_seconds=3600))))
    (line,) = said(it, "Recommendation 1")
    assert_wording(line)
    assert_wording(line)


def test_too_little_was_watched_to_advise_anything():
    asking = used(6, 3, cpu=20, memory=30, asked=(90, 40))
    it = report(hours((85, None), (83, asking)))
    assert it.advice.recommendations == ()
    assert_wording(said(it, "Recommendations"))
    assert report(hours((84, None), (84, asking))).advice.recommendations


def test_limits_are_judged_since_the_policy_changed_last():
    full = used(7, 3, cpu=90, at_max_seconds=3600)
    full_then_calm = hours((48, full), (120, used(7, 3)))
    assert report(full_then_calm).advice.recommendations
    changed = [told(AlertKind.POLICY_CHANGED, day=1, pool=""), told(AlertKind.POLICY_CHANGED, day=2, pool="")]
    it = report(full_then_calm, changed)
    assert it.advice.recommendations == ()
    assert_wording(said(it, "People"))
    assert_wording(said(it, "Recommendations"))


def test_a_policy_that_is_too_young_is_not_judged_yet():
    it = report(hours((168, used(4, 2))), [told(AlertKind.POLICY_CHANGED, day=6)])
    assert_wording(said(it, "Recommendations"))
    assert_wording(headline(it))


def test_a_size_set_by_hand_is_said():
    it = report(hours(*STEADY), [told(AlertKind.SCALED_BY_OPERATOR), told(AlertKind.PAUSED, pool="")])
    assert_wording(said(it, "People"))


# ── pools ────────────────────────────────────────────────────────────────────────────────────────────────────────

TWO = policy(Pool(name="web"), Pool(name="batch", limits=Limits(min=6, max=12)))


def test_several_pools_are_told_together_and_one_by_one():
    web = hours(*STEADY, pool="web")
    batch = hours((168, used(4, 2, cpu=5, memory=5, asked=(5, 5))), pool="batch")
    it = report(merged(web, batch), rules=TWO)
    assert_wording(said(it, "Together"))
    assert_wording(said(it, "Cost (web)"))
    assert_wording(said(it, "Cost (batch)"))
    (advised,) = said(it, "Recommendation 1 (batch)")
    assert_wording(advised)


def test_a_pool_that_left_the_policy_is_told_but_not_advised():
    old = hours((20, used(0, 5, cpu=5, memory=5, asked=(90, 90), type_="m5.large")), pool="old")
    it = report(merged(hours(*STEADY), old))
    assert_wording(said(it, "Pool (old)"))
    assert_wording(said(it, "Nodes (old)"))
    assert_wording(said(it, "Fixed fleet (old)"))
    assert_wording(headline(it))
    assert not any(each.pool == "old" for each in it.advice.recommendations)


def test_a_pool_of_which_nothing_was_recorded_is_not_a_pool_without_nodes():
    it = report(
        merged(hours(*STEADY, pool="web"), hours((168, used(0, 0)), pool="idle")),
        rules=policy(Pool(name="web"), Pool(name="idle", limits=Limits(min=0, max=3)), Pool(name="new")),
    )
    assert_wording(said(it, "Nodes (idle)"))
    assert_wording(said(it, "Nodes (new)"))
    assert_wording(said(it, "Recommendations (new)"))
    assert_wording(said(it, "Recommendations"))


def test_a_dry_run_is_marked_and_aims_at_nothing():
    it = report(hours(*STEADY), rules=policy(Pool(dry_run=True)))
    assert_wording(said(it, "Pool (default)"))
    assert_wording(said(it, "Spot"))


def test_of_very_many_pools_the_dearest_are_told_and_the_rest_added_up():
    names = [f"p{number:02}" for number in range(14)]
    usage = merged(*(hours((168, used(0, 3 + number)), pool=name) for number, name in enumerate(names)))
    it = report(usage, rules=policy(*(Pool(name=name, limits=Limits(min=2, max=20)) for name in names)))
    assert [line.pool for line in lines(it) if line.about == "Cost"] == names[4:]
    assert_wording(said(it, "Others"))
    assert len(it.advice.recommendations) <= 5


def test_recommendations_that_are_left_out_are_counted():
    names = [f"p{number}" for number in range(7)]
    idle = used(4, 2, cpu=5, memory=5, asked=(5, 5))
    it = report(
        merged(*(hours((168, idle), pool=name) for name in names)),
        rules=policy(*(Pool(name=name, limits=Limits(min=6, max=6)) for name in names)),
    )
    assert_wording(said(it, "Recommendations"))


# ── clocks ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("monday", "count", "watched"),
    [("2026-03-30", 167, "167 of 167 h (100 %)"), ("2026-10-26", 169, "169 of 169 h (100 %)")],
)
def test_a_week_in_which_the_clocks_change_is_whole(monday, count, watched):
    now = NINE.replace(month=int(monday[5:7]), day=int(monday[8:]))
    week = last_week(now, ZoneInfo("Europe/Berlin"))
    it = report(hours((count + 5, used(4, 2)), start=week.start), period=week)
    assert said(it, "Watched") == [watched]
    assert it.comparisons[0].hours == count


def test_a_record_that_begins_late_says_so_in_local_time():
    week = last_week(NINE, ZoneInfo("Europe/Berlin"))
    it = report(hours((168, used(4, 2)), start=MONDAY + timedelta(days=2)), period=week)
    (line,) = said(it, "Watched")
    assert_wording(line)


# ── the terminal ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_on_a_terminal_lines_are_wrapped_under_their_subject():
    shown = plain(report(hours(*STEADY)), width=80).splitlines()
    assert shown[0].startswith("shop: Week 2026-W46 (2026-11-09 to 2026-11-15): 708 node-hours")
    assert all(len(line) <= 80 for line in shown)
    assert not any(line.lstrip().startswith("%") for line in shown)
    assert "Watched          168 of 168 h (100 %)." in shown
    fixed = next(index for index, line in enumerate(shown) if line.startswith("Fixed fleet "))
    assert shown[fixed + 1].startswith(" " * 17)


def test_the_same_figures_whatever_the_order_of_the_record():
    usage = hours(*STEADY)
    events = [told(AlertKind.QUOTA), told(AlertKind.AT_MAX)]
    assert lines_of(report(usage, events)) == lines_of(report(usage[::-1], events[::-1]))


def lines_of(it):
    return [str(line) for line in lines(it)]


def test_types_that_the_catalogue_does_not_have_are_not_a_reason_to_fail():
    it = report(hours((168, replace(used(4, 2), types={}))), catalog=())
    assert_wording(said(it, "Fixed fleet"))


def test_what_the_autoscaler_itself_costs_is_said_by_part_and_only_where_it_is_known():
    usage = hours(*STEADY)
    known = weekly_report(
        "shop", WEEK, usage, (), policy(), CATALOG, own_monthly_usd={"logs": 0.01, "alarms": 2.1, "metrics": 4.5}
    )
    (line,) = said(known, "Autoscaler")
    assert_wording(line)
    assert said(report(usage), "Autoscaler") == []
    assert known.usd == report(usage).usd  # beside the instances, not in their cost


# ── tuning ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def tuned(**changes):
    results = (replace(TUNED, **changes), replace(TUNED, pool="another"))
    return weekly_report("shop", WEEK, hours(*STEADY), (), policy(), CATALOG, tuned=results)


def test_the_week_says_what_tuning_would_have_saved_and_how_sure_that_is():
    assert_wording([*said(tuned(), "Tuning"), *said(tuned(saving_pct=-3.0), "Tuning")])


def test_without_tuning_nothing_is_said_of_it():
    assert said(report(hours(*STEADY)), "Tuning") == []


# ── the forecast's grade ─────────────────────────────────────────────────────────────────────────────────────────────


def graded(strategy="adaptive", **grade):
    rules = policy(Pool(strategy=strategy))
    memory = Memory(pools={"default": PoolMemory(adaptive=AdaptiveMemory(**grade))})
    return weekly_report("shop", WEEK, hours(*STEADY), (), rules, CATALOG, memory=memory)


def test_the_week_of_an_adaptive_pool_says_what_its_forecast_is_worth():
    found = graded(skill=31.4, promised=4.6, violated=3.0)
    assert found.pools[0].forecast == AdaptiveMemory(skill=31.4, promised=4.6, violated=3.0)
    assert_wording([*said(found, "Forecast"), *said(graded(skill=0.0, promised=4.6, violated=9.0), "Forecast")])


def test_a_forecast_that_was_never_graded_or_has_no_vote_is_not_in_the_report():
    assert said(graded(), "Forecast") == []
    assert said(graded("classic", skill=31.4), "Forecast") == []
    assert said(report(hours(*STEADY)), "Forecast") == []

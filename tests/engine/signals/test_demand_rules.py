from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodefleet.engine.signals.demand_rules import counts_as_last, evaluate_custom
from nodefleet.engine.signals.vote import Abstain, ScaleUp, Unreadable
from nodefleet.model.snapshot import Missing, PoolReadings, Reading
from nodefleet.model.state import Breaches
from nodefleet.policy.demand import ClearTime, JobDemand, PerWorkerQueue, QueueAndLatency, Threshold, readings_of
from nodefleet.policy.pool import Limits, Pool
from nodefleet.policy.sources import Prometheus, WhenMissing
from support.builders import NOON, after
from support.signal_builders import AT_ONCE, PACE, TRUST, ask, ask_along, floor_of, look, words
from support.wording import assert_wording

RULES = {
    "threshold": Threshold(name="shop", reading="orders", sustain=AT_ONCE),
    "queue-and-latency": QueueAndLatency(name="shop", queue="orders", p95_ms="p95", busy="busy", sustain=AT_ONCE),
    "per-worker-queue": PerWorkerQueue(name="shop", queue="orders", sustain=AT_ONCE),
    "clear-time": ClearTime(name="shop", queue="orders", running="running", job_seconds="mean"),
    "job-demand": JobDemand(name="shop", jobs="orders", sustain=AT_ONCE),
}
EVERY_RULE = pytest.mark.parametrize("rule", RULES.values(), ids=RULES)


def high(rule):
    return {field: 10_000 for field, _ in readings_of(rule)}


def said_by(*rules, custom):
    readings = PoolReadings(custom=custom)
    return evaluate_custom(Pool(custom=rules), readings, {}, {}, look(), trust=TRUST, pace=PACE)


def test_nothing_configured_says_nothing():
    assert said_by(custom={"orders": Reading(10_000, NOON)}) == ()


def test_rules_speak_in_their_order_each_with_its_own_readings():
    queue = Threshold(name="queue", reading="orders", sustain=AT_ONCE)
    jobs = JobDemand(name="jobs", jobs="jobs", sustain=AT_ONCE)
    said = said_by(jobs, queue, custom={"orders": Reading(101, NOON), "jobs": Reading(3, NOON)})
    assert [opinion.signal for opinion in said] == ["custom:jobs", "custom:queue"]
    assert words(said) == ["WithinThresholds", "ScaleUp"]
    assert set(said[1].breaches) == {"custom:queue:up", "custom:queue:down"}


@EVERY_RULE
def test_every_rule_grows_on_high_readings(rule):
    assert isinstance(ask(rule, high(rule)).vote, ScaleUp)


@EVERY_RULE
def test_one_missing_reading_is_a_veto_that_names_it(rule):
    for field, name in readings_of(rule):
        for sample in (Missing("connection refused"), Reading(10_000, after(-412))):
            cause = sample.cause if isinstance(sample, Missing) else "stale: sampled 412 s ago, limit 300 s"
            said = ask(rule, {**high(rule), field: sample})
            assert said.vote == Unreadable(f"{name} unknown: {cause}")
            assert said.value is None


def test_a_reading_that_nobody_asked_for_is_a_veto_too():
    assert ask(RULES["threshold"], {}).vote == Unreadable("orders unknown: not asked for")


def test_all_that_is_missing_is_named():
    gone = {"queue": Missing("refused"), "p95_ms": 10, "busy": Missing("no data")}
    assert ask(RULES["queue-and-latency"], gone).vote == Unreadable("orders unknown: refused; busy unknown: no data")


def test_a_missing_reading_outweighs_a_cached_one_and_both_are_named():
    gone = {"queue": Missing("refused"), "p95_ms": 10, "busy": Missing("no data")}
    said = ask(RULES["queue-and-latency"], gone, cached={"orders": Reading(9999, after(-60))})
    assert said.vote == Unreadable("orders unknown: refused; busy unknown: no data")


def test_a_missing_reading_keeps_what_was_remembered():
    before = {"custom:shop:up": Breaches(times=(NOON,), since=NOON, last=NOON), "cpu:up": Breaches(last=NOON)}
    said = ask(RULES["threshold"], {"reading": Missing("refused")}, breaches=before)
    assert said.breaches == {"custom:shop:up": before["custom:shop:up"], "custom:shop:down": Breaches()}


@EVERY_RULE
def test_cached_readings_uphold_growth_that_had_lasted(rule):
    before = ask(rule, high(rule)).breaches
    gone = {field: Missing("refused") for field in high(rule)}
    cached = {name: Reading(10_000, NOON) for _, name in readings_of(rule)}
    said = ask(rule, gone, look(120), breaches=before, cached=cached)
    assert floor_of(said) == floor_of(ask(rule, high(rule)))
    assert_wording(said.vote.reason)
    assert (said.breaches, said.value) == (before, None)


@EVERY_RULE
def test_cached_readings_start_no_growth(rule):
    gone = {field: Missing("refused") for field in high(rule)}
    cached = {name: Reading(10_000, after(-60)) for _, name in readings_of(rule)}
    assert isinstance(ask(rule, gone, cached=cached).vote, Unreadable)


@EVERY_RULE
def test_cached_readings_never_let_the_fleet_shrink(rule):
    calm = [(60 * n, dict.fromkeys(high(rule), 0), 10) for n in range(20)]
    *_, last = ask_along(rule, calm)
    assert words([last]) == ["ScaleDownOk"]
    gone = {field: Missing("refused") for field in high(rule)}
    cached = {name: Reading(0, after(19 * 60)) for _, name in readings_of(rule)}
    said = ask(rule, gone, look(19 * 60 + 10, covered=10), breaches=last.breaches, cached=cached)
    assert isinstance(said.vote, Unreadable)
    assert_wording(said.vote.reason)
    assert said.breaches == last.breaches


def test_one_cached_reading_among_fresh_ones_is_enough_for_caution():
    values = {"queue": 0, "p95_ms": Missing("refused"), "busy": 0}
    said = ask(RULES["queue-and-latency"], values, cached={"p95": Reading(0, after(-60))})
    assert isinstance(said.vote, Unreadable)
    assert_wording(said.vote.reason)


def test_a_rule_counts_by_the_oldest_of_its_readings():
    rule = QueueAndLatency(name="shop", queue="orders", p95_ms="p95", busy="busy")
    old = {"p95_ms": Reading(9999, NOON), "busy": 0}
    said = ask_along(rule, [(0, {"queue": 0, **old}, 3), (120, {"queue": 0, **old}, 3)])
    assert words(said) == ["AboveThreshold", "AboveThreshold"]


@EVERY_RULE
@given(data=st.data())
def test_a_floor_never_comes_from_a_missing_reading(rule, data):
    values = {field: data.draw(st.floats(0, 10_000)) for field in high(rule)}
    before = ask(rule, values, look(-120)).breaches
    missing = data.draw(st.sampled_from(sorted(values)))
    said = ask(rule, {**values, missing: Missing("refused")}, breaches=before)
    assert isinstance(said.vote, Unreadable)


# ── no data: what the policy says it counts as ───────────────────────────────────────────────────────────────────

EMPTY = Missing("no series", empty_at=NOON)


def prometheus(when: WhenMissing | None, *names: str) -> Pool:
    return Pool(readings={name: Prometheus(query="q", when_missing=when) for name in names})


def test_a_failed_query_is_a_veto_whatever_the_policy_says_of_no_data():
    for when in WhenMissing:
        said = ask(RULES["threshold"], {"reading": Missing("refused")}, pool=prometheus(when, "orders"))
        assert said.vote == Unreadable("orders unknown: refused")


@EVERY_RULE
def test_without_any_data_an_idle_rule_lets_the_fleet_shrink(rule):
    calm = [(60 * n, dict.fromkeys(high(rule), replace(EMPTY, empty_at=after(60 * n))), 10) for n in range(20)]
    *_, last = ask_along(rule, calm)
    assert words([last]) == ["ScaleDownOk"]
    assert_wording(last.vote.reason)


def test_no_data_of_long_ago_is_no_news():
    said = ask(RULES["threshold"], {"reading": replace(EMPTY, empty_at=after(-412))})
    assert said.vote == Unreadable("orders unknown: no series")


def test_no_data_can_be_a_veto():
    said = ask(RULES["threshold"], {"reading": EMPTY}, pool=prometheus(WhenMissing.VETO, "orders"))
    assert said.vote == Unreadable("orders unknown: no series")


def test_a_veto_for_want_of_data_is_upheld_growth_while_the_last_reading_is_young():
    rule = RULES["threshold"]
    before = ask(rule, high(rule)).breaches
    cached = {"orders": Reading(10_000, NOON)}
    empty = replace(EMPTY, empty_at=after(120))
    pool = prometheus(WhenMissing.VETO, "orders")
    said = ask(rule, {"reading": empty}, look(120), breaches=before, cached=cached, pool=pool)
    assert isinstance(said.vote, ScaleUp)


def test_the_last_value_counts_however_old_it_is():
    pool = prometheus(WhenMissing.LAST, "orders")
    said = ask(RULES["threshold"], {"reading": EMPTY}, cached={"orders": Reading(500, after(-86_400))}, pool=pool)
    assert isinstance(said.vote, ScaleUp)
    assert_wording(said.vote.reason)


def test_without_a_last_value_there_is_none_to_count():
    said = ask(RULES["threshold"], {"reading": EMPTY}, pool=prometheus(WhenMissing.LAST, "orders"))
    assert said.vote == Unreadable("orders unknown: no series")


def test_a_rule_without_the_reading_that_it_needs_has_no_say():
    for rule, field, name in (
        (RULES["threshold"], "reading", "orders"),
        (RULES["queue-and-latency"], "queue", "orders"),
        (RULES["clear-time"], "running", "running"),
    ):
        said = ask(rule, {**high(rule), field: EMPTY}, pool=prometheus(WhenMissing.IGNORE, name))
        assert said.vote == Abstain(f"{name} is ignored: no series")


def test_a_queue_can_do_without_its_latency_and_its_workers():
    rule, pool = RULES["queue-and-latency"], prometheus(WhenMissing.IGNORE, "p95", "busy")
    empty = {"p95_ms": EMPTY, "busy": EMPTY}
    assert words([ask(rule, {"queue": queue, **empty}, pool=pool) for queue in (0, 50, 101)]) == [
        "ScaleDownOk",
        "WithinThresholds",
        "ScaleUp",
    ]
    assert_wording(ask(rule, {"queue": 50, **empty}, pool=pool).vote.reason)


def test_the_time_of_a_job_is_the_last_known_one_or_the_shortest():
    rule = replace(RULES["clear-time"], shortest_job=timedelta(seconds=60), clear_within=timedelta(seconds=300))
    waiting = {"queue": 50, "running": 0, "job_seconds": EMPTY}
    pool = Pool(limits=Limits(max=100))
    assert floor_of(ask(rule, waiting, pool=pool)) == 10
    assert floor_of(ask(rule, waiting, pool=pool, cached={"mean": Reading(240, after(-86_400))})) == 40


def test_readings_that_count_as_their_last_value_are_kept():
    rule = RULES["clear-time"]
    assert counts_as_last(Pool(custom=(rule,))) == {"custom:mean"}
    own = replace(prometheus(WhenMissing.LAST, "orders"), custom=(RULES["threshold"],))
    assert counts_as_last(own) == {"custom:orders"}
    assert counts_as_last(replace(prometheus(None, "orders"), custom=(RULES["threshold"],))) == frozenset()


# ── odd numbers ──────────────────────────────────────────────────────────────────────────────────────────────────────


@EVERY_RULE
@given(data=st.data())
def test_any_number_gives_a_vote(rule, data):
    """One absurd reading must not end the decision of the whole cluster."""
    odd = st.sampled_from([-1e308, -1e21, -5.0, -0.5, 0.0, 1e-320, 80.0, 1e15, 1e21, 1e25, 1.7e308])
    values = {field: data.draw(odd) for field, _ in readings_of(rule)}
    assert words([ask(rule, values, look(covered=data.draw(st.integers(0, 3))))])


@pytest.mark.parametrize("rule", [rule for kind, rule in RULES.items() if kind != "threshold"])
def test_less_than_none_is_no_count(rule):
    """Exporters say -1 for what they do not know."""
    for field, _ in readings_of(rule):
        said = ask(rule, {**dict.fromkeys(high(rule), 0.0), field: -1.0})
        assert isinstance(said.vote, Unreadable)
    nearly = ask(rule, dict.fromkeys(high(rule), -0.01))
    assert not isinstance(nearly.vote, Unreadable)


def test_a_threshold_compares_whatever_it_is_given():
    assert words([ask(RULES["threshold"], {"reading": -40.0})]) == ["ScaleDownOk"]

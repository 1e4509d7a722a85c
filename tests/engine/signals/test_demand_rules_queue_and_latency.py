import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodefleet.engine.signals.vote import ScaleDownOk, ScaleUp, WithinThresholds
from nodefleet.policy.demand import QueueAndLatency
from nodefleet.policy.pool import Pool, Steps, Targets
from support.signal_builders import AT_ONCE, ask, ask_along, floor_of, look, words
from support.wording import assert_wording


def rule(**changed):
    return QueueAndLatency(
        **{
            "name": "workers",
            "queue": "backlog",
            "p95_ms": "p95",
            "busy": "busy",
            "queue_target": 50,
            "p95_target_ms": 2000,
            "sustain": AT_ONCE,
            **changed,
        }
    )


def seen(queue, p95, busy):
    return {"queue": queue, "p95_ms": p95, "busy": busy}


@pytest.mark.parametrize(
    ("queue", "p95", "busy", "vote"),
    [
        # any of the three triggers
        (51, 1000, 5, "ScaleUp"),
        (50, 1000, 5, "WithinThresholds"),
        (0, 2001, 5, "ScaleUp"),
        (0, 2000, 5, "WithinThresholds"),
        (1, 0, 10, "ScaleUp"),
        (1, 0, 11, "ScaleUp"),
        (1, 0, 9, "WithinThresholds"),
        (0, 0, 10, "WithinThresholds"),  # all busy, but nothing waits
        # all three calm
        (15, 1000, 7, "ScaleDownOk"),
        (0, 0, 0, "ScaleDownOk"),
        (15.1, 1000, 7, "WithinThresholds"),
        (15, 1000.1, 7, "WithinThresholds"),
        (15, 1000, 7.1, "WithinThresholds"),
    ],
)
def test_any_trigger_grows_and_only_all_three_calm_shrink(queue, p95, busy, vote):
    assert words([ask(rule(), seen(queue, p95, busy), look(covered=10))]) == [vote]


def test_the_votes_give_their_figures():
    ten = look(covered=10)
    assert ask(rule(), seen(80, 2500, 10), ten).vote == ScaleUp(
        nodes=12,
        reason="backlog 80 > 50; p95 2500 ms > 2000 ms; 10 of 10 workers busy and 80 jobs wait, 1 of 1 reading",
    )
    assert ask(rule(), seen(20, 900, 4), ten).vote == WithinThresholds(
        "backlog 20 of 50, p95 900 of 2000 ms, 4 of 10 workers busy: within limits"
    )
    assert ask(rule(), seen(10, 900, 4), ten).vote == ScaleDownOk(
        reason="backlog 10 of 50, p95 900 of 2000 ms, 4 of 10 workers busy: all low, 1 of 1 reading"
    )


def test_steps_and_shares_are_the_rules():
    ten = look(covered=10)
    own = rule(step_up=4, step_down=2, calm_queue_percent=10, calm_p95_percent=20, calm_busy_percent=30)
    assert floor_of(ask(own, seen(51, 0, 0), ten)) == 14
    assert ask(own, seen(5, 400, 3), ten).vote.down == 2
    assert (
        words([ask(own, seen(*figures), ten) for figures in ((5.1, 400, 3), (5, 401, 3), (5, 400, 3.1))])
        == ["WithinThresholds"] * 3
    )


def test_steps_that_the_rule_does_not_name_are_the_pools():
    pool = Pool(steps=Steps(up=2, urgent=4, down=2))
    up, down = ask(rule(), seen(51, 0, 0), pool=pool), ask(rule(), seen(0, 0, 0), pool=pool)
    assert (floor_of(up), down.vote.down) == (7, 2)


def test_workers_share_nodes():
    shared = rule(runners_per_node=4)
    busy = [ask(shared, seen(1, 0, busy), look(covered=2)) for busy in (7, 8)]
    assert words(busy) == ["WithinThresholds", "ScaleUp"]
    assert_wording(busy[1].vote.reason)
    assert words([ask(shared, seen(0, 0, busy), look(covered=2)) for busy in (5, 6)]) == [
        "ScaleDownOk",
        "WithinThresholds",
    ]


def test_targets_that_the_rule_does_not_name_are_the_pools():
    pool = Pool(targets=Targets(queue=10, p95_ms=100))
    open_rule = rule(queue_target=None, p95_target_ms=None)
    assert words([ask(open_rule, seen(10, 100, 1), pool=pool)]) == ["WithinThresholds"]
    assert words([ask(open_rule, seen(11, 0, 1), pool=pool)]) == ["ScaleUp"]
    assert words([ask(open_rule, seen(0, 101, 1), pool=pool)]) == ["ScaleUp"]


def test_it_lasts_as_long_as_the_pool_says_if_the_rule_does_not():
    rows = [(0, seen(51, 0, 0), 3), (120, seen(51, 0, 0), 3)]
    assert words(ask_along(rule(sustain=None), rows)) == ["AboveThreshold", "ScaleUp"]


def test_without_any_worker_a_single_job_asks_for_some():
    assert floor_of(ask(rule(), seen(1, 0, 0), look(covered=0))) == 2


@pytest.mark.parametrize(
    ("queue", "p95", "percent"),
    [(100, 1000, 200), (100, 6000, 300), (10, 3000, 150), (10, 2000, 20), (10, 1000, 20), (100, 3000, 200)],
)
def test_what_should_improve_is_the_target_that_is_missed_most(queue, p95, percent):
    assert ask(rule(), seen(queue, p95, 3)).value == percent


def test_a_repeated_look_while_nodes_boot_buys_nothing_more():
    boots = look(covered=3, capacity=5)
    assert [floor_of(ask(rule(), seen(80, 0, 3), boots)) for _ in range(3)] == [5, 5, 5]


def test_busy_workers_are_compared_with_those_that_boot_too():
    assert words([ask(rule(), seen(5, 0, 3), look(covered=3, capacity=5))]) == ["ScaleDownOk"]
    assert words([ask(rule(), seen(5, 0, 4), look(covered=3, capacity=5))]) == ["WithinThresholds"]


PAIR = st.tuples(st.floats(0, 5000), st.floats(0, 5000)).map(sorted)


@given(PAIR, PAIR, PAIR, st.integers(0, 20))
def test_higher_readings_never_give_a_lower_floor(queues, p95s, busy, covered):
    low, high = (
        floor_of(ask(rule(), seen(*figures), look(covered=covered))) for figures in zip(queues, p95s, busy, strict=True)
    )
    assert low <= high

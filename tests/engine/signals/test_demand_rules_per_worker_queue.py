from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodefleet.engine.signals.vote import AboveThreshold, BelowThreshold, ScaleDownOk, ScaleUp, WithinThresholds
from nodefleet.model.snapshot import Reading
from nodefleet.policy.demand import PerWorkerQueue
from support.builders import after
from support.signal_builders import AT_ONCE, ask, ask_along, floor_of, look, words
from support.wording import assert_wording


def rule(**changed):
    return PerWorkerQueue(**{"name": "tasks", "queue": "tasks_waiting", "sustain": AT_ONCE, **changed})


@pytest.mark.parametrize(
    ("queue", "workers", "vote"),
    [
        (16, 3, ScaleUp(nodes=4, reason="tasks_waiting 16 > 15 (5 for each of 3 workers), 1 of 1 reading")),
        (15, 3, WithinThresholds("tasks_waiting 15 between 0 and 15 (5 for each of 3 workers)")),
        (1, 3, WithinThresholds("tasks_waiting 1 between 0 and 15 (5 for each of 3 workers)")),
        (0, 3, BelowThreshold("tasks_waiting 0 ≤ 0, for 0 of 300 s")),
        (1, 0, ScaleUp(nodes=1, reason="tasks_waiting 1 > 0 (5 for each of 0 workers), 1 of 1 reading")),
    ],
)
def test_more_than_five_jobs_for_each_worker_ask_for_one_more(queue, workers, vote):
    assert ask(rule(), {"queue": queue}, look(covered=workers)).vote == vote


def test_a_worker_may_go_after_300_s_without_work():
    rows = [(120 * n, {"queue": 0}, 3) for n in range(4)]
    said = ask_along(rule(), rows)
    assert words(said) == ["BelowThreshold", "BelowThreshold", "BelowThreshold", "ScaleDownOk"]
    assert said[-1].vote == ScaleDownOk(reason="tasks_waiting 0 ≤ 0, for 360 s", down=1)


def test_idle_time_is_counted_in_seconds_not_in_looks():
    often = [(10 * n, {"queue": 0}, 3) for n in range(31)]
    assert words(ask_along(rule(), often)) == ["BelowThreshold"] * 30 + ["ScaleDownOk"]
    # The same old sample again and again says nothing about the time since.
    old = [(10 * n, {"queue": Reading(0, after(0))}, 3) for n in range(31)]
    assert words(ask_along(rule(), old)) == ["BelowThreshold"] * 31


def test_one_job_starts_the_idle_time_anew():
    queues = (0, 0, 1, 0, 0, 0)
    said = ask_along(rule(), [(120 * n, {"queue": queue}, 3) for n, queue in enumerate(queues)])
    assert words(said) == [
        "BelowThreshold",
        "BelowThreshold",
        "WithinThresholds",
        "BelowThreshold",
        "BelowThreshold",
        "BelowThreshold",
    ]


def test_the_rules_own_figures_are_used():
    own = rule(per_worker=2, calm_queue=3, idle_for=timedelta(0))
    assert words([ask(own, {"queue": queue}) for queue in (7, 6, 4, 3)]) == [
        "ScaleUp",
        "WithinThresholds",
        "WithinThresholds",
        "ScaleDownOk",
    ]


def test_workers_share_nodes():
    shared = rule(runners_per_node=3, sustain=AT_ONCE)
    said = [ask(shared, {"queue": queue}, look(covered=2)) for queue in (30, 31)]
    assert words(said) == ["WithinThresholds", "ScaleUp"]
    assert floor_of(said[1]) == 3
    assert_wording(said[1].vote.reason)


def test_growth_lasts_as_long_as_the_pool_says_if_the_rule_does_not():
    said = ask_along(rule(sustain=None), [(0, {"queue": 16}, 3), (120, {"queue": 17}, 3)])
    assert said[0].vote == AboveThreshold(
        "tasks_waiting 16 > 15 (5 for each of 3 workers), 1 of 2 readings: waiting for a second"
    )
    assert floor_of(said[1]) == 4


def test_what_should_improve_is_the_queue():
    assert ask(rule(), {"queue": 16}).value == 16


def test_a_repeated_look_while_a_node_boots_buys_nothing_more():
    boots = look(covered=3, capacity=4)
    assert [floor_of(ask(rule(), {"queue": 50}, boots)) for _ in range(3)] == [4, 4, 4]
    assert words([ask(rule(), {"queue": 20}, boots)]) == ["WithinThresholds"]  # enough once it is there


@given(st.floats(0, 200), st.floats(0, 200), st.integers(0, 20))
def test_a_longer_queue_never_gives_a_lower_floor(one, other, covered):
    low, high = sorted((one, other))
    floors = [floor_of(ask(rule(), {"queue": value}, look(covered=covered))) for value in (low, high)]
    assert floors[0] <= floors[1]

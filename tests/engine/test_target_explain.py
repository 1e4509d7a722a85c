"""Reasons as operators read them."""

import pytest

from nodefleet.engine.signals.vote import (
    AboveThreshold,
    Abstain,
    ScaleDownOk,
    ScaleUp,
    SignalVote,
    Unreadable,
    WithinThresholds,
)
from nodefleet.engine.target import (
    explain_hold,
    explain_scale_down,
    explain_scale_up,
    explain_stuck,
    render_votes,
    resolve_target,
)
from nodefleet.model.decision import Rank, TargetResult, ceiling, floor
from support.builders import NOON
from support.wording import assert_wording

CPU = floor(5, "cpu", Rank.SIGNAL, "CPU is busy")
PODS = floor(7, "pods", Rank.SIGNAL, "pods wait")
KEEP = floor(4, "memory", Rank.SIGNAL, "memory is steady")
CALM = floor(3, "calm", Rank.SIGNAL, "all is calm")
MIN = floor(4, "min", Rank.LIMIT, "min is 4")
MAX = ceiling(6, "max", Rank.LIMIT, "max is 6")


def test_growing_says_who_asked():
    assert_wording(explain_scale_up(4, resolve_target([CPU, KEEP]), 5))


def test_growing_less_than_asked_says_who_asked_for_more():
    assert_wording(explain_scale_up(4, resolve_target([CPU, PODS, MAX]), 6))


def test_of_several_that_are_overruled_the_highest_speaks():
    most = floor(9, "custom:q", Rank.SIGNAL, "queue is long")
    for order in ([PODS, most, MAX], [most, PODS, MAX]):
        assert_wording(explain_scale_up(4, resolve_target(order), 6))


def test_growing_by_less_than_was_wanted_names_what_is_launched_and_why_no_more():
    assert_wording(explain_scale_up(4, resolve_target([PODS]), 5, "2 more nodes are wanted, but b is full"))


def test_holding_because_the_rest_would_be_too_busy_says_so():
    bounds = [
        floor(3, "projection", Rank.SIGNAL, "CPU would be 73.5 % on 2 nodes, limit 60 %"),
        floor(3, "projection", Rank.SIGNAL, "memory would be 72.0 % on 2 nodes, limit 65 %"),
    ]
    opinions = [SignalVote(signal="cpu", vote=ScaleDownOk(reason="CPU 49.0 % < 50 %"))]
    assert_wording(explain_hold(3, resolve_target(bounds), bounds, opinions))


def test_holding_while_paused_says_so():
    bounds = [
        KEEP,
        floor(4, "pause", Rank.SAFETY, "paused by ann"),
        ceiling(4, "pause", Rank.SAFETY, "paused by ann"),
    ]
    opinions = [SignalVote(signal="memory", vote=WithinThresholds("memory is steady"))]
    assert_wording(explain_hold(4, resolve_target(bounds), bounds, opinions))


def test_a_hold_without_any_signal_says_what_keeps_it():
    bounds = [floor(4, "keep", Rank.SIGNAL, "no signal is calm")]
    assert_wording(explain_hold(4, resolve_target(bounds), bounds, []))


def test_shrinking_says_who_agreed_and_who_leaves():
    settled = resolve_target([CALM])
    assert_wording(explain_scale_down(4, settled, [CALM], ["w1", "w2"]))


def test_shrinking_for_a_limit_says_which():
    bounds = [floor(8, "cpu", Rank.SIGNAL, "busy"), MAX]
    assert_wording(explain_scale_down(8, resolve_target(bounds), bounds, ["w1"]))


def test_a_limit_speaks_before_a_calm_that_wanted_less_change():
    bounds = [floor(7, "calm", Rank.SIGNAL, "all is calm"), MAX]
    assert_wording(explain_scale_down(8, resolve_target(bounds), bounds, ["w1"]))


def test_the_reason_for_fewer_is_calm_even_where_a_limit_says_how_many():
    bounds = [floor(3, "calm", Rank.SIGNAL, "all is calm"), floor(5, "min", Rank.LIMIT, "min is 5")]
    assert_wording(explain_scale_down(8, resolve_target(bounds), bounds, ["w1"]))


def test_nobody_can_leave():
    assert_wording(explain_stuck(4, resolve_target([CALM]), [CALM], "no node can leave"))


def test_holding_against_a_floor_says_who_asked_and_who_said_no():
    bounds = [KEEP, PODS, ceiling(4, "cooldown", Rank.DAMPING, "cooldown: wait")]
    assert_wording(explain_hold(4, resolve_target(bounds), bounds, []))


def test_holding_against_calm_says_who_said_no():
    bounds = [CALM, MIN]
    assert_wording(explain_hold(4, resolve_target(bounds), bounds, []))


def test_holding_says_what_the_signals_say_those_that_wait_first():
    opinions = [
        SignalVote(signal="memory", vote=WithinThresholds("memory is steady")),
        SignalVote(signal="predictive", vote=Abstain("no data")),
        SignalVote(signal="cpu", vote=AboveThreshold("CPU waits")),
    ]
    assert_wording(explain_hold(4, resolve_target([KEEP]), [KEEP], opinions))


def test_holding_names_those_that_ask_first():
    opinions = [
        SignalVote(signal="a", vote=ScaleDownOk(reason="a is calm")),
        SignalVote(signal="b", vote=ScaleUp(nodes=3, reason="b asks")),
    ]
    assert_wording(explain_hold(4, resolve_target([KEEP]), [KEEP], opinions))


def test_without_any_bound_it_says_that_nothing_asks():
    nothing = TargetResult(target=0, by=None, overruled=())
    assert_wording(explain_stuck(1, nothing, [], "x"))


@pytest.mark.parametrize(
    ("vote", "word"),
    [
        (AboveThreshold("r"), "waiting"),
        (ScaleDownOk(reason="r"), "calm"),
        (ScaleUp(nodes=1, reason="r", expires=NOON), "floor"),
    ],
)
def test_each_vote_is_said_with_its_kind(vote, word):
    assert render_votes([SignalVote(signal="cpu", vote=vote)]) == (f"cpu: {word}, r",)


def test_a_pool_without_nodes_does_not_take_what_cannot_be_measured_for_a_cause():
    """There is no CPU to measure; an unknown queue is another matter."""
    opinions = [
        SignalVote(signal="cpu", vote=Unreadable("CPU unknown: the query gave no series")),
        SignalVote(signal="pods", vote=ScaleDownOk(reason="0 pods unschedulable")),
    ]
    queue = SignalVote(signal="custom:queue", vote=Unreadable("orders unknown: timed out"))
    for votes in (opinions, [*opinions, queue]):
        assert_wording(explain_hold(0, resolve_target([]), [], votes))
    assert_wording(explain_hold(1, resolve_target([]), [], opinions))

"""Shrinking is AND, and projected."""

import pytest

from nodefleet.capacity import FleetSize
from nodefleet.engine.signals.vote import (
    AboveThreshold,
    Abstain,
    BelowThreshold,
    ScaleDownOk,
    ScaleUp,
    SignalVote,
    Unreadable,
    WithinThresholds,
)
from nodefleet.engine.target import evaluate_gate
from nodefleet.model.decision import Rank, Side
from nodefleet.policy.pool import Reactive
from support.builders import NOON
from support.wording import assert_wording

LOOK = FleetSize(now=NOON, covered=5, capacity=5)


def says(signal, vote, value=None):
    return SignalVote(signal=signal, vote=vote, value=value)


CPU = says("cpu", ScaleDownOk(reason="CPU 20 %"), 20.0)
MEMORY = says("memory", ScaleDownOk(reason="memory 30 %"), 30.0)


def result(*opinions, look=LOOK, step=1):
    return [(bound.source, bound.nodes, bound.sentence) for bound in evaluate_gate(opinions, look, Reactive(), step)]


def test_when_all_are_calm_one_may_go():
    assert result(CPU, MEMORY) == [("calm", 4, "CPU 20 %; memory 30 %")]


def test_an_abstention_does_not_hinder():
    assert result(CPU, MEMORY, says("predictive", Abstain("no data")))[0][:2] == ("calm", 4)


@pytest.mark.parametrize("vote", [AboveThreshold("w"), WithinThresholds("s"), BelowThreshold("t"), Unreadable("v")])
def test_one_voice_against_it_is_enough(vote):
    assert result(CPU, MEMORY, says("x", vote)) == [("x", 5, vote.reason)]


def test_everyone_who_is_against_it_is_named():
    assert [source for source, *_ in result(says("a", WithinThresholds("s")), CPU, says("b", Unreadable("v")))] == [
        "a",
        "b",
    ]


def test_a_signal_that_asks_for_nodes_is_not_calm():
    asking = (says("pods", ScaleUp(nodes=3, reason="r")), says("custom:q", ScaleUp(nodes=3, reason="r")))
    assert_wording(result(CPU, MEMORY, *asking))


def test_a_forecast_has_no_say_beyond_its_own_floor():
    assert result(CPU, MEMORY, says("predictive", ScaleUp(nodes=3, reason="r")))[0][:2] == ("calm", 4)


def test_if_nobody_speaks_nothing_goes():
    assert_wording(result(says("predictive", Abstain("no data"))))
    assert_wording(result())


@pytest.mark.parametrize(
    ("cpu", "covered", "fits"),
    [
        (48.0, 5, True),  # 60 % on four, exactly ten below 70
        (48.1, 5, False),
        (30.0, 2, True),
        (30.1, 2, False),
    ],
)
def test_the_rest_must_bear_the_load(cpu, covered, fits):
    look = FleetSize(now=NOON, covered=covered, capacity=covered)
    found = result(says("cpu", ScaleDownOk(reason="c"), cpu), look=look)
    assert found[0][:2] == (("calm", covered - 1) if fits else ("projection", covered))


@pytest.mark.parametrize(("measured", "fits"), [(3, True), (2, False), (1, True), (None, True)])
def test_the_load_is_projected_on_the_nodes_that_it_was_measured_on(measured, fits):
    """A silent exporter's node is in no mean. Where no measured node would remain it is taken to carry as much."""
    look = FleetSize(now=NOON, covered=3, measured=measured, capacity=3)
    found = result(says("cpu", ScaleDownOk(reason="c"), 38.0), look=look)
    assert found[0][:2] == (("calm", 2) if fits else ("projection", 3))


def test_the_projection_says_its_figures():
    look = FleetSize(now=NOON, covered=2, capacity=2)
    found = result(says("cpu", ScaleDownOk(reason="c"), 40.0), says("memory", ScaleDownOk(reason="m"), 45.0), look=look)
    assert_wording(found)
    booting = FleetSize(now=NOON, covered=1, capacity=2)
    assert_wording(result(CPU, look=booting))


def test_the_last_node_may_go_when_everybody_is_calm():
    """Where min is 0; elsewhere the limit keeps it, and in any case its pods must fit elsewhere."""
    assert result(CPU, MEMORY, look=FleetSize(now=NOON, covered=1, capacity=1))[0][:2] == ("calm", 0)


def test_the_projection_names_what_would_be():
    look = FleetSize(now=NOON, covered=3, capacity=3)
    rule = says("custom:queue", ScaleDownOk(reason="q"), 5.0)
    assert_wording(result(rule, says("cpu", ScaleDownOk(reason="c"), 50.0), look=look))


def test_projection_only_concerns_utilisation():
    assert result(CPU, says("custom:queue", ScaleDownOk(reason="q"), 1000.0))[0][0] == "calm"


@pytest.mark.parametrize(
    ("asked", "step", "left"),
    [((), 3, 2), ((1,), 3, 4), ((3,), 3, 2), ((9,), 3, 2), ((3, 2), 3, 3), ((3,), 1, 4), ((0,), 3, 4)],
)
def test_rules_may_do_without_more_up_to_the_step(asked, step, left):
    rules = [says(f"custom:{n}", ScaleDownOk(reason="q", down=down)) for n, down in enumerate(asked)]
    pods = says("pods", ScaleDownOk(reason="p", down=9), 0.0)
    assert result(CPU, pods, *rules, step=step)[0][1] == left


@pytest.mark.parametrize(("cpu", "left"), [(24.0, 2), (24.1, 3), (36.1, 4)])
def test_no_more_go_at_once_than_the_rest_can_bear(cpu, left):
    rule = says("custom:q", ScaleDownOk(reason="q", down=3))
    assert result(says("cpu", ScaleDownOk(reason="c"), cpu), rule, step=3)[0][:2] == ("calm", left)


def test_never_below_zero():
    assert result(says("custom:q", ScaleDownOk(reason="q")), look=FleetSize(now=NOON, covered=0, capacity=0)) == [
        ("calm", 0, "q")
    ]


def test_these_are_floors_of_signals():
    busy = says("cpu", ScaleDownOk(reason="c"), 99.0)
    cases = ([CPU], [], [says("x", WithinThresholds("s"))], [says("x", ScaleUp(nodes=1, reason="r"))], [busy])
    found = [bound for opinions in cases for bound in evaluate_gate(opinions, LOOK, Reactive(), 1)]
    assert {bound.source for bound in found} == {"calm", "keep", "x", "projection"}
    assert {(bound.side, bound.rank) for bound in found} == {(Side.FLOOR, Rank.SIGNAL)}

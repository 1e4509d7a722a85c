"""Unhealthy workers and their replacement, and cordons of ours that were forgotten."""

import pytest

from nodefleet.capacity import count_workers
from nodefleet.engine.disruption.unhealthy import Brake, brake, plan_replacements, to_replace, uncordon_stale
from nodefleet.model.alerts import AlertKind
from nodefleet.model.operations import Create, Removal, RemovalReason, SendAlert, Uncordon
from nodefleet.model.state import Loss
from nodefleet.phases import derive_workers
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Budgets, Limits, Pool
from support.builders import NOON, after, instance, look, node
from support.decisions import doom
from support.operation_builders import removal
from support.wording import assert_wording

POOL = Pool(limits=Limits(min=2, max=10))


def fleet(seen, pool=POOL):
    return derive_workers(seen, Policy(pools=(pool,)))


def ill(number):
    return node(number, ready=False, ready_changed_at=after(-600))


def removals(steps):
    return [step.operation for step in steps if isinstance(step, Create) and isinstance(step.operation, Removal)]


def tells(steps):
    return [step.alert for step in steps if isinstance(step, SendAlert)]


def sick_steps(seen, losses=(), pool=POOL, since=None):
    everyone = fleet(seen, pool)
    held = brake(everyone, pool, since, seen.at)
    return plan_replacements(everyone, pool, count_workers(everyone, seen, "default"), losses, held, seen)


def one_of(total, sick_numbers=(9,), **changes):
    return look(
        total - len(sick_numbers),
        instances=[instance(n) for n in sick_numbers],
        nodes=[ill(n) for n in sick_numbers],
        **changes,
    )


def test_a_sick_worker_whose_replacement_is_there_is_removed():
    steps = sick_steps(one_of(4))
    (opened,) = removals(steps)
    assert (opened.instance, opened.why, opened.deadline) == ("i-009", RemovalReason.UNHEALTHY, after(300))
    assert_wording(opened.reason)
    assert tells(steps) == [AlertKind.UNHEALTHY]
    assert_wording(steps[1].text)
    assert (steps[1].pool, opened.started, opened.pool) == ("default", NOON, "default")


def test_the_last_heartbeat_is_named():
    silent = node(9, ready=False, ready_changed_at=after(-60), heartbeat_at=after(-100))
    steps = sick_steps(look(3, instances=[instance(9)], nodes=[silent]))
    assert_wording(removals(steps)[0].reason)


def test_nodes_that_are_ready_and_no_good_count_for_the_brake():
    pressed = [node(n, pressures=("DiskPressure",), pressed_since=after(-600)) for n in (20, 21)]
    seen = look(3, instances=[instance(20), instance(21)], nodes=pressed)
    assert tells(sick_steps(seen)) == [AlertKind.MANY_UNHEALTHY]
    assert removals(sick_steps(seen)) == []


def test_exactly_min_besides_it_is_enough():
    assert len(removals(sick_steps(one_of(4), pool=Pool(limits=Limits(min=3, max=10))))) == 1


def test_healthy_fleets_have_nothing_to_do():
    assert sick_steps(look(4)) == []


def test_a_sick_worker_is_replaced_first():
    waiting = (Loss(worker="i-009", at=NOON, cause="unhealthy"),)
    assert sick_steps(one_of(4), waiting) == []


def test_it_stays_while_the_replacement_boots():
    booting = instance(5, launched_at=after(-10))
    seen = look(3, instances=[instance(9), booting], nodes=[ill(9)])
    assert sick_steps(seen) == []


def test_it_stays_while_there_are_fewer_than_min():
    pool = Pool(limits=Limits(min=4, max=10))
    assert sick_steps(one_of(4), pool=pool) == []


def test_at_max_it_must_go_first():
    pool = Pool(limits=Limits(min=2, max=4))
    waiting = (Loss(worker="i-009", at=NOON, cause="unhealthy"),)
    steps = sick_steps(one_of(4), waiting, pool)
    assert [each.instance for each in removals(steps)] == ["i-009"]
    assert_wording(steps[1].text)


@pytest.mark.parametrize(
    ("total", "ill_ones", "many"),
    [(1, 1, False), (2, 1, False), (2, 2, True), (3, 1, False), (6, 2, False), (5, 2, True)],
)
def test_more_than_a_third_and_more_than_one_is_the_master_or_the_network(total, ill_ones, many):
    seen = one_of(total, tuple(range(20, 20 + ill_ones)))
    held = brake(fleet(seen), POOL, None, NOON)
    assert held == (Brake(since=NOON, until=after(900)) if many else Brake())
    assert held.holds is many
    assert (tells(sick_steps(seen)) == [AlertKind.MANY_UNHEALTHY]) is many


def test_the_brake_ends_after_some_time_and_then_one_at_a_time_goes():
    seen = one_of(5, (20, 21))
    assert removals(sick_steps(seen, since=after(-899))) == []
    steps = sick_steps(seen, since=after(-900))
    assert [each.instance for each in removals(steps)] == ["i-020"]
    assert tells(steps) == [AlertKind.MANY_UNHEALTHY, AlertKind.UNHEALTHY]
    assert_wording(steps[0].text)


def test_the_brake_holds_back_replacements_and_lets_them_go_one_at_a_time():
    losses = tuple(Loss(worker=f"i-{n}", at=NOON, cause="unhealthy") for n in range(3))
    assert to_replace(losses, Brake(), POOL) == losses
    assert to_replace(losses, Brake(since=NOON, until=after(900)), POOL) == ()
    assert to_replace(losses, Brake(since=NOON), POOL) == losses[:1]


def test_many_sick_ones_are_named():
    (told,) = sick_steps(one_of(3, (20, 21)))
    assert told.pool == "default"
    assert_wording(told.text)


def test_one_at_a_time():
    seen = one_of(9, (20, 21))
    assert [each.instance for each in removals(sick_steps(seen))] == ["i-020"]
    under_way = removal(instance="i-020", node="w020", why=RemovalReason.UNHEALTHY)
    seen = one_of(9, (20, 21), operations=(under_way,))
    assert removals(sick_steps(seen)) == []


def test_more_at_a_time_if_the_budget_says_so():
    pool = Pool(budgets=Budgets(sick=2))
    assert len(removals(sick_steps(one_of(9, (20, 21)), pool=pool))) == 2


# ── forgotten ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_our_own_cordon_without_an_operation_is_undone():
    """The table was restored from an old backup, say: the mark on the node is all that is left."""
    seen = look(2, instances=[instance(9)], nodes=[node(9, cordoned=True, removal="r9")])
    uncordon, told = uncordon_stale(fleet(seen), POOL)
    assert uncordon == Uncordon("w009", "r9")
    assert (told.alert, told.pool) == (AlertKind.READMITTED, "default")
    assert_wording(told.text)


def test_every_forgotten_cordon_is_undone():
    marked = [node(n, cordoned=True, removal=f"r{n}") for n in (8, 9)]
    seen = look(2, instances=[instance(8), instance(9)], nodes=marked)
    assert [step.node for step in uncordon_stale(fleet(seen), POOL) if isinstance(step, Uncordon)] == ["w008", "w009"]


@pytest.mark.parametrize(
    ("changes", "around"),
    [
        ({"cordoned": True}, {}),  # an operator's
        ({}, {}),
        ({"cordoned": True, "removal": "r1"}, {"operations": (removal(instance="i-009", node="w009"),)}),
        ({"cordoned": True, "removal": "r1"}, {"notices": (doom(9),)}),
        ({"cordoned": True, "removal": "r1", "ready": False, "ready_changed_at": after(-9)}, {}),
    ],
)
def test_other_cordons_are_left_alone(changes, around):
    seen = look(2, instances=[instance(9)], nodes=[node(9, **changes)], **around)
    assert uncordon_stale(fleet(seen), POOL) == []

"""Debris is looked at again before it is destroyed, and only what the cleanup names is touched."""

from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.model.alerts import AlertKind
from nodefleet.model.inventory import InstanceState
from nodefleet.model.operations import Close, DeleteNode, OrphanKind, Outcome, RemovalReason, Save, SendAlert, Terminate
from nodefleet.operations.advance import advance
from nodefleet.operations.progress import Progress
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Budgets, Pool
from support.builders import after
from support.operation_builders import AWAY, POLICY, cleanup, closed, effects, instance, look, node, removal

NODE, INSTANCE = OrphanKind.NODE, OrphanKind.INSTANCE
DEAD = node(ready=False)
FAILED = instance(failed=True)


def ended(outcome, detail):
    return Progress(steps=(Close(operation="c1", outcome=outcome, detail=detail),))


@pytest.mark.parametrize(
    ("debris", "seen", "step"),
    [
        (NODE, look(120, nodes=[DEAD]), DeleteNode("w1")),
        (NODE, look(120, [instance(state=InstanceState.TERMINATED)], [DEAD]), DeleteNode("w1")),
        (NODE, look(599, nodes=[DEAD, node("w2")]), DeleteNode("w1")),
        (INSTANCE, look(120, [FAILED]), Terminate("i-1", "its instance is gone")),
        (INSTANCE, look(120, [instance()]), Terminate("i-1", "its instance is gone")),
        (INSTANCE, look(120, [instance(state=InstanceState.STOPPED)]), Terminate("i-1", "its instance is gone")),
        (INSTANCE, look(120, [instance(pool="gone"), instance("i-2")]), Terminate("i-1", "its instance is gone")),
        (INSTANCE, look(120, [instance(pool="gone")], [DEAD]), Terminate("i-1", "its instance is gone")),
    ],
)
def test_what_is_still_debris_is_destroyed_by_its_own_id(debris, seen, step):
    operation = cleanup(debris, attempts=4)
    assert advance(operation, seen, POLICY) == Progress(steps=(Save(replace(operation, attempts=5)), step))


@pytest.mark.parametrize("debris", OrphanKind)
def test_what_other_workers_are_does_not_matter(debris):
    other, its_node = instance("i-0"), node("w0", instance="i-0")
    machines = [other, FAILED] if debris is INSTANCE else [other]
    members = [its_node, DEAD] if debris is NODE else [its_node]
    assert len(effects(advance(cleanup(debris), look(120, machines, members), POLICY))) == 1


@pytest.mark.parametrize("debris", OrphanKind)
def test_two_looks_must_be_far_enough_apart(debris):
    def at(seconds):
        seen = look(seconds, [FAILED] if debris is INSTANCE else [], [DEAD] if debris is NODE else [])
        return advance(cleanup(debris), seen, POLICY)

    assert at(119) == Progress()
    assert len(effects(at(120))) == 1


def test_how_far_apart_is_the_pools():
    policy = Policy(pools=(Pool(budgets=Budgets(cleanup_after=timedelta(seconds=30))),))
    assert advance(cleanup(), look(29, nodes=[DEAD]), policy) == Progress()
    assert effects(advance(cleanup(), look(30, nodes=[DEAD]), policy)) == [DeleteNode("w1")]


@pytest.mark.parametrize(
    ("debris", "seen", "detail"),
    [
        (NODE, look(10), "node w1 is gone"),
        (NODE, look(9999), "node w1 is gone"),
        (INSTANCE, look(10), "instance i-1 is gone"),
        (INSTANCE, look(10, [instance(state=InstanceState.TERMINATED)]), "instance i-1 is gone"),
        (INSTANCE, look(10, kubernetes=AWAY), "instance i-1 is gone"),
        (INSTANCE, look(9999, [instance(state=InstanceState.TERMINATED)], kubernetes=AWAY), "instance i-1 is gone"),
    ],
)
def test_what_is_gone_is_done(debris, seen, detail):
    assert advance(cleanup(debris), seen, POLICY) == ended(Outcome.DONE, detail)


@pytest.mark.parametrize(
    ("debris", "seen", "detail"),
    [
        (NODE, look(200, [instance()], [node()]), "node w1 is not orphaned: ready"),
        (NODE, look(200, [instance()], [DEAD]), "node w1 is not orphaned: unhealthy"),
        (
            NODE,
            look(200, nodes=[DEAD], operations=(removal(RemovalReason.UNHEALTHY),)),
            "node w1 is not orphaned: terminating",
        ),
        (NODE, look(200, nodes=[node(ready=False, control_plane=True)]), "node w1 is not ours to delete"),
        (NODE, look(200, nodes=[node(ready=False, pool=None)]), "node w1 is not ours to delete"),
        (INSTANCE, look(200, [FAILED], [node()]), "instance i-1 is the ready node w1"),
        (INSTANCE, look(200, [instance(pool="gone")], [node()]), "instance i-1 is the ready node w1"),
        (INSTANCE, look(200, [instance()], [DEAD]), "instance i-1 is not orphaned: unhealthy"),
        (INSTANCE, look(200, [instance(launched_at=after(0))]), "instance i-1 is not orphaned: booting"),
        (INSTANCE, look(200, [instance(worker=False)]), "instance i-1 is not ours to terminate"),
    ],
)
def test_what_is_no_longer_debris_is_left_alone(debris, seen, detail):
    assert advance(cleanup(debris), seen, POLICY) == ended(Outcome.CANCELLED, detail)


@pytest.mark.parametrize(
    ("debris", "seen"),
    [
        (NODE, look(9999, nodes=[DEAD], kubernetes=AWAY)),
        (NODE, look(9999, nodes=[DEAD], instances=AWAY)),
        (NODE, look(599, [instance(state=InstanceState.TERMINATED)], [node()])),  # it will notice soon
        (INSTANCE, look(9999, [FAILED], kubernetes=AWAY)),
        (INSTANCE, look(9999, instances=AWAY)),
        (INSTANCE, look(9999, [instance(state=InstanceState.SHUTTING_DOWN)])),
    ],
)
def test_nothing_is_destroyed_and_no_deadline_passes_on_half_a_picture(debris, seen):
    assert advance(cleanup(debris), seen, POLICY) == Progress()


@pytest.mark.parametrize(
    ("debris", "seen", "what"),
    [
        (NODE, look(600, nodes=[DEAD]), "node w1"),
        (NODE, look(600, [instance(state=InstanceState.TERMINATED)], [node()]), "node w1"),
        (INSTANCE, look(600, [FAILED]), "instance i-1"),
    ],
)
def test_past_the_deadline_a_person_is_told(debris, seen, what):
    text = f"{what} could not be cleaned up within 600 s (its instance is gone). Look at it and remove it by hand"
    assert advance(cleanup(debris), seen, POLICY).steps == (
        SendAlert(alert=AlertKind.CLEANUP_NEEDS_OPERATOR, pool="default", subjects=(what.split()[1],), text=text),
        Close(operation="c1", outcome=Outcome.FAILED, detail=f"{what} is still there"),
    )


def test_a_ready_node_is_no_debris_though_ec2_does_not_list_its_machine():
    detail = "node w1 is not orphaned: unlisted"
    assert advance(cleanup(), look(599, nodes=[node()]), POLICY) == ended(Outcome.CANCELLED, detail)


def test_a_cleanup_just_before_its_deadline_still_tries():
    assert closed(advance(cleanup(), look(599, nodes=[DEAD]), POLICY)) is None

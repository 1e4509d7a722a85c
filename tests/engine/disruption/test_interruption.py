"""Workers that EC2 takes."""

from nodefleet.engine.disruption.interruption import plan_interruptions
from nodefleet.model.alerts import AlertKind
from nodefleet.model.inventory import InstanceState, Notice, NoticeKind
from nodefleet.model.operations import Create, Removal, RemovalReason, Save
from nodefleet.phases import derive_workers
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Limits, Pool
from support.builders import NOON, after, instance, look, node
from support.operation_builders import removal
from support.wording import assert_wording

POOL = Pool(limits=Limits(min=2, max=10))


def fleet(seen, pool=POOL):
    return derive_workers(seen, Policy(pools=(pool,)))


def doom(number, at=after(-5), kind=NoticeKind.SPOT_INTERRUPTION):
    return Notice(instance=f"i-{number:03}", kind=kind, at=at)


def removals(steps):
    return [step.operation for step in steps if isinstance(step, Create | Save) and isinstance(step.operation, Removal)]


def test_a_doomed_worker_gets_a_removal_in_a_hurry():
    seen = look(2, notices=(doom(1),), cluster="shop", run="7")
    opened, told = plan_interruptions(fleet(seen), POOL, seen)
    assert opened == Create(
        Removal(
            id="shop-f7-20261116T120000-interrupted-i-001",
            pool="default",
            instance="i-001",
            node="w001",
            why=RemovalReason.INTERRUPTED,
            reason="EC2 takes it: spot-interruption at 11:59:55",
            started=NOON,
            deadline=after(115),
            force_from=after(85),
        )
    )
    assert (told.alert, told.pool) == (AlertKind.INTERRUPTED, "default")
    assert_wording(told.text)


def test_all_doomed_workers_are_handled_at_once():
    seen = look(3, notices=(doom(0), doom(2)))
    assert [each.instance for each in removals(plan_interruptions(fleet(seen), POOL, seen))] == ["i-000", "i-002"]


def test_a_voluntary_removal_becomes_an_interrupted_one():
    leaving = removal(instance="i-001", node="w001", evicting=True, cancelled="load came back")
    seen = look(2, notices=(doom(1),), operations=(leaving,))
    kept, _ = plan_interruptions(fleet(seen), POOL, seen)
    assert isinstance(kept, Save)
    changed = kept.operation
    assert (changed.id, changed.why, changed.evicting, changed.cancelled) == (
        leaving.id,
        RemovalReason.INTERRUPTED,
        True,
        "",
    )
    assert (changed.deadline, changed.force_from) == (after(115), after(85))
    assert_wording(changed.reason)


def test_an_interrupted_removal_that_is_open_is_left_alone():
    leaving = removal(instance="i-001", node="w001", why=RemovalReason.INTERRUPTED)
    seen = look(2, notices=(doom(1),), operations=(leaving,))
    assert plan_interruptions(fleet(seen), POOL, seen) == []


def test_an_interrupted_worker_whose_notice_is_gone_is_left_to_its_removal():
    leaving = removal(instance="i-001", node="w001", why=RemovalReason.INTERRUPTED)
    seen = look(2, operations=(leaving,))
    assert plan_interruptions(fleet(seen), POOL, seen) == []


def test_one_that_is_handled_already_does_not_hide_the_next():
    leaving = removal(instance="i-000", node="w000", why=RemovalReason.INTERRUPTED)
    seen = look(3, notices=(doom(0), doom(2)), operations=(leaving,))
    assert [each.instance for each in removals(plan_interruptions(fleet(seen), POOL, seen))] == ["i-002"]


def test_a_machine_that_ec2_has_taken_needs_no_removal_any_more():
    seen = look(1, instances=[instance(5, state=InstanceState.SHUTTING_DOWN)], nodes=[node(5)], notices=(doom(5),))
    assert plan_interruptions(fleet(seen), POOL, seen) == []


def test_a_worker_without_a_node_can_be_doomed_too():
    seen = look(1, instances=[instance(5, launched_at=after(-10))], notices=(doom(5),))
    assert [(each.instance, each.node) for each in removals(plan_interruptions(fleet(seen), POOL, seen))] == [
        ("i-005", "")
    ]

"""Within an iteration workers are derived again only where something about them has changed, with the same result."""

from dataclasses import replace

import pytest

from nodefleet import phases
from nodefleet.model.inventory import Notice, NoticeKind
from nodefleet.phases import derive_workers, rederive_workers
from nodefleet.policy.cluster import Policy
from support.builders import NOON, after, look, node
from support.operation_builders import launch, removal

POLICY = Policy()
MADE = launch(instances=("i-001",))
LEAVES = removal(instance="i-000", node="w000")
WARNED = Notice(instance="i-002", kind=NoticeKind.SPOT_INTERRUPTION, at=NOON)


def seen(**changes):
    return replace(look(4), **changes)


@pytest.mark.parametrize(
    ("before", "later", "derived"),
    [
        ({}, {}, []),
        ({}, {"operations": (launch(instances=()),)}, []),
        ({}, {"operations": (LEAVES,)}, ["w000"]),
        ({"operations": (LEAVES,)}, {"operations": (replace(LEAVES, evicting=True),)}, ["w000"]),
        ({"operations": (LEAVES, MADE)}, {"operations": (MADE,)}, ["w000"]),
        ({"operations": (LEAVES,)}, {"operations": (MADE,)}, ["w000", "w001"]),
        ({}, {"operations": (replace(LEAVES, instance=""),)}, ["w000"]),
        ({"notices": (WARNED,)}, {}, ["w002"]),
        ({}, {"notices": (WARNED,), "operations": (LEAVES,)}, ["w000", "w002"]),
        ({}, {"notices": (replace(WARNED, instance="i-elsewhere"),)}, []),
    ],
)
def test_only_workers_with_another_operation_or_notice_are_derived_again(monkeypatch, before, later, derived):
    then, now = seen(**before), seen(**later)
    fleet = derive_workers(then, POLICY)
    expected = derive_workers(now, POLICY)
    names = []
    one = phases._PhaseResolver.worker

    def counted(resolver, instance, of_node):
        names.append(of_node.name)
        return one(resolver, instance, of_node)

    monkeypatch.setattr(phases._PhaseResolver, "worker", counted)
    assert rederive_workers(fleet, then, now, POLICY) == expected
    assert names == derived


@pytest.mark.parametrize("part", ["instances", "kubernetes"])
def test_what_a_step_changed_in_ec2_or_kubernetes_is_seen(part):
    then = seen()
    nodes = (node(0), replace(node(1), ready=False, ready_changed_at=after(-600)), node(2), node(3))
    changed = {"instances": then.instances[1:], "kubernetes": replace(then.kubernetes, nodes=nodes)}
    now = replace(then, **{part: changed[part]})
    fleet = derive_workers(then, POLICY)
    found = rederive_workers(fleet, then, now, POLICY)
    assert found == derive_workers(now, POLICY) != fleet

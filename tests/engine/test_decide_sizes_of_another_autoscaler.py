"""Sizes that another autoscaler (escalator) is tested with, where its rule and ours must agree, or visibly differ.

It grows until requests are below a percentage of the fleet; we grow until the pods fit. So its percentages have no
counterpart here, and of its scale-up rows only those remain whose answer follows from the pods. Node age and starving
single nodes are not features of ours.
"""

from dataclasses import replace

import pytest

from nodefleet.engine.decide import decide
from nodefleet.model.decision import Action
from nodefleet.model.inventory import InstanceType, Resources
from nodefleet.model.operations import Create, Launch
from nodefleet.model.snapshot import Scale
from nodefleet.model.state import Memory
from nodefleet.phases import derive_workers
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Limits, MarketMix, Pool
from nodefleet.scheduling.packing import pack_pools, packing_input
from support.builders import look, node, only, waiting
from support.operation_builders import removal

KNOWN = Memory()
ONE_TYPE = Policy(pools=(Pool(market=MarketMix(types=("t3.small",))),))


@pytest.mark.parametrize(
    ("nodes", "cpu", "memory", "pods", "asked_cpu", "asked_memory", "new"),
    [
        (2, 1000, 4000, 10, 500, 100, 3),
        (2, 3000, 1000, 10, 500, 2000, 0),  # no node could ever hold one: it buys 27 and more, we buy none and say so
        (100, 1000, 1000, 80, 1000, 1000, 0),
        (100, 1000, 1000, 150, 1000, 1000, 50),
    ],
)
def test_how_many_nodes_requests_come_down_to(nodes, cpu, memory, pods, asked_cpu, asked_memory, new):
    size = Resources(cpu=cpu, memory=memory, pods=200)
    numbers = range(nodes)
    seen = look(
        nodes,
        pods=[waiting(f"p-{n}", requests=Resources(cpu=asked_cpu, memory=asked_memory)) for n in range(pods)],
        catalog=(InstanceType(name="t3.small", resources=size),),
    )
    view = replace(seen.kubernetes, nodes=tuple(node(n, allocatable=size) for n in numbers))
    seen = replace(seen, kubernetes=view)
    found = pack_pools(packing_input(seen, ONE_TYPE, derive_workers(seen, ONE_TYPE)))
    assert found.by_pool["default"].nodes == new
    assert bool(found.unplaceable) is (asked_memory > memory)


@pytest.mark.parametrize(("there", "asked", "added"), [(20, 30, 10), (10, 55, 40), (50, 60, 0)])
def test_growth_is_clamped_to_the_limit(there, asked, added):
    policy = Policy(pools=(Pool(limits=Limits(max=50)),))
    command = Scale(nodes=asked, until=look().at.replace(hour=23))
    plan = only(decide(look(there, commands=(command,)), KNOWN, policy)).plan
    opened = [step.operation for step in plan if isinstance(step, Create) and isinstance(step.operation, Launch)]
    assert sum(launch.count for launch in opened) == added


@pytest.mark.parametrize(
    ("there", "leaving", "action"),
    [
        (12, 0, Action.SHRINK),
        (15, 0, Action.SHRINK),
        (11, 0, Action.SHRINK),
        (10, 0, Action.HOLD),
        (12, 4, Action.HOLD),  # eight are meant to stay
    ],
)
def test_a_fleet_above_its_limit_shrinks_though_one_at_a_time(there, leaving, action):
    under_way = tuple(removal(id=f"r{n}", instance=f"i-{n:03}", node=f"w{n:03}") for n in range(there - leaving, there))
    decided = only(decide(look(there, pods=(), operations=under_way), KNOWN, Policy()))
    assert (decided.action, decided.target) == (action, there - leaving - (action is Action.SHRINK))

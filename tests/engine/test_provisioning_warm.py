"""Stopped instances: which leaving worker is kept, which one is started, and which one is let go."""

from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.capacity import count_workers
from nodefleet.engine.decide import decide
from nodefleet.engine.provisioning import ScaleUpRequest, plan_scale_up
from nodefleet.model.decision import Action
from nodefleet.model.fleet import Phase
from nodefleet.model.inventory import InstanceState, Market
from nodefleet.model.operations import Cleanup, Create, Launch, Removal, Shortage
from nodefleet.model.state import NOTHING_KNOWN, Memory
from nodefleet.phases import derive_workers
from nodefleet.policy.cluster import FleetLimits, Policy
from nodefleet.policy.demand import WarmPool
from nodefleet.policy.pool import Budgets, Limits, MarketMix, Pool
from support.builders import NOON, after, calm_for, instance, look, node, only
from support.operation_builders import launch, removal

ALL_ON_DEMAND = MarketMix(spot_percent=0)
POOL = Pool(market=ALL_ON_DEMAND, warm=WarmPool(size=2), limits=Limits(min=1, max=6))
POLICY = Policy(pools=(POOL,))


def warm(number, **changes):
    kept = {"state": InstanceState.STOPPED, "warm": True, "market": Market.ON_DEMAND}
    return instance(number, **kept | changes)


def grown(seen, more, pool=POOL, memory=NOTHING_KNOWN):
    workers = derive_workers(seen, Policy(pools=(pool,)))
    need = ScaleUpRequest(more=more, restoring=0, reason="busy")
    plan = plan_scale_up(need, workers, pool, memory, seen, POLICY)
    return [step.operation for step in plan.steps if isinstance(step, Create)]


def opened(seen, kind, pool=POOL, memory=None):
    decision = only(decide(seen, memory or Memory(), Policy(pools=(pool,))))
    return [step.operation for step in decision.plan if isinstance(step, Create) and isinstance(step.operation, kind)]


# ── what it is ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("state", [InstanceState.STOPPING, InstanceState.STOPPED])
def test_a_warm_instance_is_no_capacity_and_does_not_count_against_max(state):
    seen = look(2, instances=[warm(7, state=state)])
    fleet = derive_workers(seen, POLICY)
    kept = next(worker for worker in fleet if worker.id == "i-007")
    assert (kept.phase, kept.is_capacity, kept.occupies) == (Phase.WARM, False, False)
    assert count_workers(fleet, seen, "default").occupied == 2


def test_the_tag_means_nothing_while_it_runs():
    (worker,) = derive_workers(look(0, instances=[warm(7, state=InstanceState.RUNNING)], nodes=[node(7)]), POLICY)
    assert worker.phase is Phase.READY


def test_one_that_is_being_started_counts_as_booting_and_once():
    start = launch(id="s", market=Market.ON_DEMAND, count=1, starts=("i-007",))
    seen = look(2, instances=[warm(7)], operations=(start,))
    count = count_workers(derive_workers(seen, POLICY), seen, "default")
    assert (count.booting, count.occupied) == (1, 3)


def test_one_that_ec2_refused_to_start_is_warm_again():
    start = launch(id="s", market=Market.ON_DEMAND, count=1, starts=("i-007",), answered=True, answered_at=NOON)
    seen = look(2, instances=[warm(7)], operations=(start,))
    count = count_workers(derive_workers(seen, POLICY), seen, "default")
    assert (count.booting, count.occupied) == (0, 2)


# ── growing ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_pool_starts_what_is_warm_before_it_launches():
    start, bought = grown(look(1, instances=[warm(7)]), 2)
    assert (start.starts, start.count, start.zone, start.market) == (("i-007",), 1, "b", Market.ON_DEMAND)
    assert (bought.starts, bought.count) == ((), 1)


def test_those_of_one_zone_are_started_by_one_request():
    (start,) = grown(look(1, instances=[warm(7), warm(9)]), 2)
    assert set(start.starts) == {"i-007", "i-009"}


def test_the_zone_with_fewer_nodes_comes_first():
    (start,) = grown(look(1, instances=[warm(6), warm(7)]), 1)
    assert start.starts == ("i-007",)


@pytest.mark.parametrize(
    "changes",
    [
        {"state": InstanceState.STOPPING},
        {"warm": False},
        {"type": "m5.large"},
        {"template": "lt-1", "template_version": "2"},
        {"launched_at": after(-8 * 86400)},
        {"created_at": after(-8 * 86400)},
    ],
    ids=["still stopping", "stopped by an operator", "another type", "an old template", "old", "old and restarted"],
)
def test_what_is_not_fit_is_not_started(changes):
    (bought,) = grown(look(1, instances=[warm(7, **changes)]), 1)
    assert bought.starts == ()


def test_what_another_operation_has_is_not_started():
    seen = look(1, instances=[warm(7)], operations=(removal(instance="i-007", node="", keeps=True),))
    (bought,) = grown(seen, 1)
    assert bought.starts == ()


def test_a_type_that_lacks_capacity_is_not_started():
    short = Shortage(pool="default", type="t3.small", zone="b", market=Market.ON_DEMAND, until=after(600))
    bought = grown(look(1, instances=[warm(7)]), 1, memory=replace(NOTHING_KNOWN, shortages=(short,)))
    assert [each.starts for each in bought] == [()]


def test_a_spot_node_is_launched_and_nothing_is_started_for_it():
    spot = replace(POOL, market=MarketMix(spot_percent=100, on_demand_base=0))
    (bought,) = grown(look(1, instances=[warm(7)]), 1, pool=spot)
    assert (bought.starts, bought.market) == ((), Market.SPOT)


def test_a_cap_of_the_fleet_counts_what_is_started_once():
    capped = Policy(pools=(POOL,), fleet=FleetLimits(cpu=6))
    start = launch(id="s", market=Market.ON_DEMAND, types=("t3.small",), count=1, starts=("i-007",))
    seen = look(2, instances=[warm(7)], operations=(start,), pending=3)
    assert only(decide(seen, Memory(), capped)).target == 3


# ── shrinking ────────────────────────────────────────────────────────────────────────────────────────────────────


def on_demand(numbers):
    return {"instances": [instance(n, market=Market.ON_DEMAND) for n in numbers], "nodes": [node(n) for n in numbers]}


def shrunk(pool, instances=(), operations=(), nodes=(), **changes):
    """The removal that a calm pool of three opens."""
    policy = Policy(pools=(pool,))
    scene = {"workers": 0, "cpu": 5, "memory": 5, "pods": (), **on_demand(range(3))}
    memory, at = calm_for(4, policy, **scene)
    scene["instances"] = [replace(each, **changes) for each in scene["instances"]] + list(instances)
    scene["nodes"] += list(nodes)
    decision = only(decide(look(at=at, operations=operations, **scene), memory, policy))
    assert decision.action is Action.SHRINK
    (leaves,) = [s.operation for s in decision.plan if isinstance(s, Create) and isinstance(s.operation, Removal)]
    return leaves


def test_a_worker_that_leaves_is_kept():
    assert shrunk(POOL).keeps


@pytest.mark.parametrize(
    ("pool", "instances", "changes"),
    [
        (replace(POOL, warm=WarmPool()), (), {}),
        (POOL, (warm(7), warm(8)), {}),
        (POOL, (), {"market": Market.SPOT}),
        (POOL, (), {"created_at": after(-8 * 86400)}),
        (POOL, (), {"template": "lt-0", "template_version": "1"}),
    ],
    ids=["none are kept", "as many as may be are kept", "Spot", "too old", "drifted"],
)
def test_otherwise_it_is_terminated(pool, instances, changes):
    assert not shrunk(pool, instances, **changes).keeps


@pytest.mark.parametrize(("size", "keeps"), [(1, False), (2, True)])
def test_a_removal_that_keeps_its_instance_has_a_place_already(size, keeps):
    pool = replace(POOL, warm=WarmPool(size=size), budgets=Budgets(removals=2))
    other = removal(instance="i-003", node="w003", keeps=True)
    going = {"instances": [instance(3)], "nodes": [node(3, cordoned=True, removal="r1")]}
    assert shrunk(pool, operations=(other,), **going).keeps is keeps


# ── letting go ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_as_many_as_the_policy_keeps_stay():
    assert opened(look(2, instances=[warm(7), warm(8)]), Cleanup) == []


@pytest.mark.parametrize(
    ("pool", "gone"),
    [
        (replace(POOL, warm=WarmPool(size=1)), ["i-007"]),
        (replace(POOL, warm=WarmPool(size=0)), ["i-008", "i-007"]),
        (replace(POOL, warm=WarmPool(size=2, max_age=timedelta(hours=30))), ["i-007"]),
        (replace(POOL, market=replace(ALL_ON_DEMAND, types=("t3a.small",))), ["i-008", "i-007"]),
    ],
    ids=["fewer are kept now: the oldest goes", "none are kept any more", "too old", "other types"],
)
def test_what_is_too_many_too_old_or_drifted_is_cleaned_up(pool, gone):
    old, young = warm(7, created_at=after(-40 * 3600)), warm(8)
    cleanups = opened(look(2, instances=[old, young]), Cleanup, pool)
    assert [each.target for each in cleanups] == gone
    assert all(each.deadline > each.started + pool.budgets.cleanup_after for each in cleanups)


def test_nothing_is_opened_twice():
    pool = replace(POOL, warm=WarmPool(size=0))
    seen = look(2, instances=[warm(7)])
    (cleanup,) = opened(seen, Cleanup, pool)
    assert opened(replace(seen, operations=(cleanup,)), Cleanup, pool) == []


def test_min_is_restored_by_a_start():
    (start,) = opened(look(0, instances=[warm(7)]), Launch)
    assert start.starts == ("i-007",)

"""What is drawn beyond the plain plan: each kind in its share, on its own, and with an effect."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.errors import MalformedError, NodeFleetError, UnavailableError
from nodefleet.model.operations import Cordon, PodRef
from nodefleet_tools.sim.chaos.incidents import befall
from nodefleet_tools.sim.chaos.plan import Incident, Plan
from nodefleet_tools.sim.chaos.quiescence import calm_down
from nodefleet_tools.sim.chaos.scene import Scene, staged
from nodefleet_tools.sim.chaos.stage import Stage
from nodefleet_tools.sim.chaos.widening import ALL, Widening
from support.played_days import staged_plan

SEEDS = range(400)
QUIET = Plan(
    seed=1,
    scene=Scene(
        policy={"limits": {"min": 2, "max": 4}},
        workers={"default": 3},
        workloads=({"name": "app", "replicas": 4, "cpu": 300},),
    ),
)


def with_only(kind: str, seed: int = 1) -> Plan:
    return Plan.of(seed, {kind: Widening(1.0, ALL[kind].change)})


@pytest.mark.parametrize("kind", ALL)
def test_each_kind_changes_its_share_of_the_plans(kind):
    changed = sum(Plan.of(seed, {kind: ALL[kind]}) != Plan.plain(seed) for seed in SEEDS)
    assert changed / len(SEEDS) == pytest.approx(ALL[kind].share, abs=0.08)


@pytest.mark.parametrize("kind", ALL)
def test_what_one_kind_draws_does_not_depend_on_the_others(kind):
    """Without one of them a plan that it did not touch is the same."""
    others = {name: each for name, each in ALL.items() if name != kind}
    untouched = [seed for seed in range(40) if Plan.of(seed, {kind: ALL[kind]}) == Plan.plain(seed)]
    assert all(Plan.of(seed, others) == Plan.of(seed) for seed in untouched)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("seed", [1, 2])
def test_every_kind_makes_a_scene_that_can_be_staged(kind, seed):
    world = staged(with_only(kind, seed))
    assert world.violations == []
    assert world.now == world.start


def test_fleets_are_from_one_to_sixty():
    sizes = {
        rules["limits"]["max"] for seed in range(1200) for rules in [Plan.of(seed).scene.policy] if "limits" in rules
    }
    assert {1, 2, 3} <= sizes
    assert max(sizes) == 60


def test_a_limit_of_all_pools_together_is_drawn_and_changed():
    policies = [Plan.of(seed).scene.policy for seed in SEEDS]
    explicit = [rules for rules in policies if "max" in rules.get("fleet", {})]
    tight = [
        rules
        for rules in explicit
        if rules["fleet"]["max"] < sum(each["limits"]["max"] for each in rules.get("pools", [rules]))
    ]
    assert any("pools" in rules for rules in tight)
    here = staged_plan(QUIET)
    seen = set()
    for number in range(20):
        befall(here, Incident(number=number, after=0, kind="an operator changes fleet.max"))
        seen.add(here.world.policy.fleet.max)
    assert seen == {None, 2, 4, 8}  # never less than min


def test_each_cap_of_the_fleet_and_both_orders_of_pools_are_drawn():
    policies = [with_only("caps of the fleet", seed).scene.policy for seed in range(80)]
    assert {name for rules in policies for name in rules["fleet"]} == {"cpu", "memory", "usd_per_hour"}
    assert {each.get("priority") for rules in policies for each in rules.get("pools", ())[1:]} == {0, 10}
    assert "gpus" in {
        name for seed in range(40) for name in with_only("a pool with GPUs", seed).scene.policy.get("fleet", ())
    }


def test_a_pod_that_asks_for_a_gpu_gets_a_node_of_the_pool_that_has_them():
    here = staged_plan(with_only("a pool with GPUs", 2))
    here.invocations.calm = here.strikes.calm = True
    for _ in range(4):
        here.invocations.tick()
        here.world.advance(120)
    assert {machine.type for machine in here.world.workers("gpu")} == {"g4dn.xlarge"}
    here.invocations.turns.end()


def test_headroom_is_drawn_in_each_way_and_stays_below_max():
    policies = [with_only("headroom", seed).scene.policy for seed in range(80)]
    firsts = [rules["pools"][0] if "pools" in rules else rules for rules in policies]
    kept = {name for rules in firsts for name in rules["headroom"]}
    assert {"nodes", "pods", "cpu", "memory", "percent", "peak_percent"} <= kept
    assert all(rules["headroom"].get("nodes", 0) < rules["limits"]["max"] for rules in firsts)


def test_both_ways_to_name_and_order_pods_are_drawn():
    settings = [Plan.of(seed).scene.kubernetes for seed in SEEDS]
    assert {each.get("random_names", False) for each in settings} == {True, False}
    assert {each.get("scheduling_order", "queue") for each in settings} == {"queue", "random"}


def test_each_mode_of_consolidation_is_drawn():
    drawn = {with_only("consolidation", seed).scene.policy.get("consolidation", {}).get("mode") for seed in range(40)}
    assert {"off", "empty", "underutilised"} <= drawn


# ── their effects ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_long_history_is_remembered():
    world = staged(with_only("a long history", 1))
    days = with_only("a long history", 1).scene.history_days
    profile = world.table.state().journal.memory.pool("default").profile
    assert len(profile) == 24 * days


def test_a_tick_that_finds_no_free_function_is_lost_and_an_alert_is_tried_again():
    here = staged_plan(replace(QUIET, concurrency=1, look_takes=30.0))
    here.invocations.calm = here.strikes.calm = True
    here.invocations.tick()
    here.world.clock.after(5, here.invocations.tick)
    here.world.clock.after(6, here.invocations.alert)
    here.world.advance(110)
    refused = [each for each in here.world.guard.trace if each.who == "Lambda" and each.what.startswith("!")]
    begun = [each.who for each in here.world.guard.trace if each.what == "begins"]
    assert len(refused) >= 2
    assert sum(who.startswith("tick") for who in begun) == 1
    here.world.advance(200)
    assert any(each.who.startswith("alert") for each in here.world.guard.trace if each.what == "begins")
    here.invocations.turns.end()


def test_a_slow_cluster_takes_its_time_to_be_read():
    here = staged_plan(replace(QUIET, look_takes=38.0))
    parts = here.world.parts("r", hooks=[here.strikes])
    before = here.world.now
    parts.cluster.view()
    assert here.world.now - before >= timedelta(seconds=38)


def incident(kind: str, number: int = 0) -> Stage:
    here = staged_plan(QUIET)
    befall(here, Incident(number=number, after=0.0, kind=kind))
    return here


def test_every_eviction_of_a_poisoned_pod_fails_and_no_other():
    here = incident("a pod cannot be evicted")
    (uid,) = here.strikes.poisoned
    parts = here.world.parts("r", hooks=[here.strikes])
    for pod in list(here.world.kube.pods.values()):
        ref = PodRef(namespace=pod.namespace, name=pod.name, uid=pod.uid)
        if pod.uid != uid:
            continue
        for _ in range(2):
            with pytest.raises(NodeFleetError):
                parts.cluster.evict(ref)
    assert parts.cluster.evict(PodRef(namespace="default", name="none", uid="none"))


def test_a_poisoned_node_cannot_be_cordoned():
    here = incident("a node cannot be changed")
    (name,) = here.strikes.poisoned
    parts = here.world.parts("r", hooks=[here.strikes])
    cordon = Cordon(node=name, removal="r", reason="test", deadline=here.world.now)
    with pytest.raises(NodeFleetError):
        parts.cluster.cordon(cordon, here.world.kube.nodes[name].instance)
    assert not here.world.kube.nodes[name].cordoned


def test_a_record_that_cannot_be_read_stops_whoever_reads_the_table_until_it_is_mended():
    here = incident("a record cannot be read")
    parts = here.world.parts("r", hooks=[here.strikes], limit=timedelta(hours=1))
    with pytest.raises(MalformedError):
        parts.store.state()
    here.world.advance(901)
    assert parts.store.state()


def test_a_dead_node_stays_dead_when_the_trouble_is_over():
    here = incident("a node stays dead")
    (name,) = here.dead
    here.world.advance(60)
    calm_down(here)
    here.world.advance(60)
    assert not here.world.kube.nodes[name].ready


def test_a_policy_of_a_newer_release_is_refused_until_somebody_applies_another():
    here = incident("a new release refuses the policy")
    world = here.world
    newest = world.table.policies[-1]
    assert newest.number == 2
    with pytest.raises(Exception, match="from_a_newer_release"):
        world.policies.read(newest.data)
    assert world.most("default") == world.policy.pool("default").limits.max
    world.advance(1801)
    assert world.policies.read(world.table.policies[-1].data) == world.policy


def test_a_renamed_pool_leaves_its_machines_to_nobody():
    here = incident("an operator renames a pool")
    assert here.world.policy.pool("default") is None
    assert here.world.ec2.live_workers("default")


def test_a_change_that_is_days_ahead_takes_no_machine_now():
    taken = Counter()
    for number in range(12):
        here = incident("EC2 schedules a change days ahead", number=number)
        (notice, *_) = here.world.ec2.interruptions
        taken[here.world.ec2.machines[notice.instance].interrupted_at is not None] += 1
        assert notice.at - here.world.now >= timedelta(minutes=30)
        here.invocations.turns.end()
    assert taken[False]


def test_the_scheduler_refuses_a_workload_that_packing_would_place():
    here = incident("the scheduler refuses a workload")
    (refused,) = [each for each in here.world.controllers.workloads.values() if each.traits.refused]
    here.world.controllers.scale(refused, refused.replicas + 1)
    here.world.advance(10)
    waiting = [pod for pod in here.world.waiting_pods() if pod.owner and pod.owner.uid == refused.uid]
    assert waiting
    assert waiting[0].unschedulable_message == refused.traits.refused


def test_errors_of_a_poisoned_object_are_new_ones_each_time():
    here = incident("a pod cannot be evicted")
    (failing,) = here.strikes.poisoned.values()
    assert failing() is not failing()
    assert isinstance(failing(), NodeFleetError | UnavailableError)


def test_a_node_that_can_never_be_changed_cannot_be_deleted_either_and_that_does_not_end():
    here = incident("a node can never be changed")
    (name,) = here.strikes.hopeless
    calm_down(here)
    parts = here.world.parts("r", hooks=[here.strikes])
    with pytest.raises(NodeFleetError):
        parts.cluster.delete_node(name)
    with pytest.raises(NodeFleetError):
        parts.cluster.uncordon(name, "r")
    assert name in here.world.kube.nodes


def test_a_notice_that_can_never_be_read_is_left_out_of_the_state_for_ever():
    plan = replace(QUIET, scene=replace(QUIET.scene, policy={**QUIET.scene.policy, "market": {"on_demand_base": 0}}))
    here = staged_plan(plan)
    befall(here, Incident(number=0, after=0.0, kind="a notice can never be read"))
    here.world.advance(20)
    calm_down(here)
    parts = here.world.parts("r", hooks=[here.strikes])
    (instance,) = here.strikes.illegible
    assert instance in {each.instance for each in here.world.table.notices}
    assert instance not in {each.instance for each in parts.store.state().notices}
    here.invocations.turns.end()


def test_exporters_fall_silent_for_a_while_or_for_ever():
    silent = Counter()
    for number in range(12):
        here = incident("an exporter falls silent", number=number)
        assert len(here.world.prometheus.silent) == 1
        calm_down(here)
        silent[len(here.world.prometheus.silent)] += 1
    assert set(silent) == {0, 1}


def test_a_pool_is_removed_while_it_grows():
    here = incident("an operator removes a pool that grows")
    here.invocations.calm = here.strikes.calm = True
    here.world.advance(3)
    here.strikes.calm = False
    here.world.advance(60)
    assert here.world.policy.pool("default") is None
    assert here.world.ec2.live_workers("default")
    here.invocations.turns.end()


def test_a_queue_that_is_idle_has_no_data():
    busy = next(plan for plan in (with_only("a reading without data", seed) for seed in SEEDS) if plan.scene.backlog)
    world = staged(busy)
    begins, ends = busy.scene.backlog
    measure = world.prometheus.custom["default", "backlog"]
    seen = []
    for at in (begins - 1, begins + 1, ends + 1):
        world.clock.advance_to(world.start + timedelta(seconds=at))
        seen.append(measure())
    assert seen == [None, 500.0, None]


def test_slow_pods_are_ready_minutes_after_they_were_placed():
    plan = with_only("pods that start slowly")
    started = {each["traits"]["starts_in"] for each in plan.scene.workloads if each["name"].startswith("app")}
    assert len(started) == 1
    assert started <= {60.0, 200.0, 400.0}

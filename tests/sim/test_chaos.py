"""Hours full of faults: nothing happens that must never happen. `make chaos` plays many more of them."""

from collections import Counter
from dataclasses import fields, replace
from datetime import timedelta

import pytest

from nodefleet.errors import DeniedError, ThrottledError, UnavailableError
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Event
from nodefleet.model.inventory import InstanceState
from nodefleet.model.snapshot import Missing
from nodefleet_tools.sim.chaos import operator_actions
from nodefleet_tools.sim.chaos.fault_injection import Rates
from nodefleet_tools.sim.chaos.incidents import INCIDENTS, befall
from nodefleet_tools.sim.chaos.plan import WEIGHTS, Delivery, Incident, Plan
from nodefleet_tools.sim.chaos.play import play
from nodefleet_tools.sim.chaos.quiescence import Rest, calm_down, restored_within
from nodefleet_tools.sim.chaos.scene import Scene, staged
from nodefleet_tools.sim.chaos.seeds import verdicts
from nodefleet_tools.sim.chaos.stage import Stage
from nodefleet_tools.sim.chaos.widening import LATER
from nodefleet_tools.sim.hooks import KilledError
from nodefleet_tools.sim.rules import Rule
from support.played_days import played_seed, staged_plan
from support.wording import assert_wording

SHARE = 20  # seeds that every test run plays
AT_A_TIME = 10


@pytest.mark.parametrize("first", range(0, SHARE, AT_A_TIME))
def test_nothing_happens_that_must_never_happen(first):
    for seed in range(first, first + AT_A_TIME):
        assert [f"seed {seed}: {each}" for each in played_seed(seed).violations] == []


def quiet(seed: int = 1, **changes) -> Plan:
    """A seed in which nothing befalls anybody."""
    return replace(Plan(seed=seed, scene=Plan.of(seed).scene), **changes)


# ── a seed ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_same_seed_always_plays_the_same():
    def told(verdict):
        return [str(each) for each in verdict.trace]

    assert told(play(Plan.of(3))) == told(played_seed(3))
    assert told(played_seed(3)) != told(played_seed(4))


def test_a_seed_is_about_two_hours_at_most_and_many_things_happen_in_it():
    total = sum((played_seed(seed).figures for seed in range(5)), Counter())
    assert timedelta(hours=5) < timedelta(seconds=total["seconds"]) < timedelta(hours=11)
    assert total["incidents"] > 20
    assert total["faults"] > 20


def test_runs_overlap_and_alternate():
    """Between two lines of one run there is one of another, and the other way round."""
    for seed in range(20):
        runs = [each.who for each in played_seed(seed).trace if "-" in each.who]
        places = {who: [index for index, each in enumerate(runs) if each == who] for who in set(runs)}
        spans = [(min(found), max(found)) for found in places.values() if len(found) > 1]
        if any(a[0] < b[0] < a[1] < b[1] for a in spans for b in spans):
            return
    pytest.fail("no two runs overlapped")


def test_every_kind_of_incident_can_happen_and_every_kind_does_something():
    assert set(INCIDENTS) == set(WEIGHTS) | set(LATER)
    happened = Counter()
    for number, kind in enumerate(INCIDENTS):
        for seed in range(8):
            if happened[kind]:
                break
            here = staged_plan(Plan.of(seed))
            befall(here, Incident(number=number, after=0.0, kind=kind))
            here.world.advance(30)
            here.invocations.turns.end()
            happened[kind] += here.figures["incidents"]
    idle = [befalls for kind, befalls in INCIDENTS.items() if not happened[kind]]
    assert idle == [operator_actions.uncordons]  # nobody cordoned a node


def test_plans_differ_in_their_temper():
    plans = [Plan.of(seed) for seed in range(100)]
    for rate in fields(Rates):
        assert {getattr(plan.rates, rate.name) > 0 for plan in plans} == {True, False}
    for share in fields(Delivery):
        assert {getattr(plan.delivery, share.name) > 0 for plan in plans} == {True, False}
    assert {plan.skew for plan in plans} == {0.0, 2.0, 5.0, 15.0}


def test_several_processes_give_the_same_verdicts_in_order():
    alone = list(verdicts(range(2), jobs=1))
    together = list(verdicts(range(2), jobs=2))
    assert [(each.seed, each.figures) for each in together] == [(each.seed, each.figures) for each in alone]


# ── faults at calls ──────────────────────────────────────────────────────────────────────────────────────────────


def struck(**rates) -> Stage:
    return staged_plan(quiet(rates=Rates(**rates)))


@pytest.mark.parametrize(
    ("rates", "error", "woken"),
    [
        ({"fails_before": 1.0}, UnavailableError, 0),
        ({"throttled": 1.0}, ThrottledError, 0),
        ({"fails_after": 1.0}, UnavailableError, 1),
        ({"killed": 1.0}, KilledError, 0),
    ],
)
def test_a_call_fails_before_or_after_its_effect(rates, error, woken):
    here = struck(**rates)
    parts = here.world.parts("r", hooks=[here.strikes])
    with pytest.raises(error):
        parts.store.wake()
    assert (here.world.table.wake, here.figures["faults"]) == (woken, 1)


def test_a_slow_call_takes_its_time_and_half_of_them_time_out():
    here = struck(slow=1.0)
    parts = here.world.parts("r", hooks=[here.strikes], limit=timedelta(hours=2))
    failed = 0
    for _ in range(40):
        before = here.world.now
        try:
            parts.store.wake()
        except UnavailableError:
            failed += 1
        assert here.world.now - before > timedelta(seconds=4)
    assert 10 < failed < 30
    assert here.world.table.wake == 40 - failed


def test_even_a_good_call_takes_some_time_and_sleeping_takes_its_own():
    here = struck()
    parts = here.world.parts("r", hooks=[here.strikes])
    before = here.world.now
    parts.store.wake()
    assert timedelta(0) < here.world.now - before < timedelta(seconds=0.2)
    before = here.world.now
    parts.time.sleep(timedelta(seconds=7))
    assert here.world.now - before == timedelta(seconds=7)


def test_a_stale_list_shows_what_was_so():
    here = struck(stale=1.0)
    parts = here.world.parts("r", hooks=[here.strikes], limit=timedelta(hours=1))
    here.world.advance(300)
    machine = here.world.operator.launch(zone=here.world.zones[0])
    assert machine.id not in {each.id for each in parts.cloud.instances()}
    here.world.advance(300)
    here.world.ec2.stop(machine)
    assert {each.id: each.state for each in parts.cloud.instances()}[machine.id] is InstanceState.RUNNING


def test_a_stale_view_is_a_whole_one_of_earlier():
    here = struck(stale=1.0)
    parts = here.world.parts("r", hooks=[here.strikes])
    first = parts.cluster.view()
    here.world.advance(30)
    here.world.deploy("more", replicas=2)
    here.world.advance(5)
    assert parts.cluster.view() == first
    here.world.advance(61)
    assert len(parts.cluster.view().pods) > len(first.pods)


def test_a_lost_reading_is_missing_and_the_guard_knows():
    here = struck(stale=1.0)
    parts = here.world.parts("r", hooks=[here.strikes])
    policy = here.world.policy
    readings = parts.gauges.read(policy, here.world.now, policy.burst.every)
    (pool,) = here.world.runs["r"].unread
    assert isinstance(readings[pool].cpu, Missing)


def test_what_the_role_may_not_is_denied_and_nothing_happens():
    here = struck()
    here.strikes.denied = frozenset({"store.wake"})
    with pytest.raises(DeniedError):
        here.world.parts("r", hooks=[here.strikes]).store.wake()
    assert here.world.table.wake == 0


# ── at rest ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_how_soon_min_is_restored_is_a_sum_of_the_policys_numbers():
    policy = staged(quiet()).policy
    assert restored_within(policy, policy.pools[0]) == timedelta(seconds=130 + 600 + 600 + 360)


def at_rest(**changes) -> Stage:
    """Everything is calm, and has been for a while."""
    here = staged_plan(quiet(**changes))
    calm_down(here)
    return here


def unrest(here: Stage) -> str:
    return "; ".join(Rest(here)._unrest())


def test_what_is_left_over_is_noticed():
    here = at_rest(seed=2)
    for _ in range(12):
        here.invocations.tick()
        here.world.advance(120)
    assert unrest(here) == ""
    machine = here.world.ec2.live_workers()[0]
    node = here.world.node_of(machine)
    here.world.operator.cordon(node.name)
    assert_wording(unrest(here))
    here.world.operator.uncordon(node.name)
    here.world.ec2.end(machine)
    assert_wording(unrest(here))
    here.world.operator.delete_node(node.name)
    now = here.world.now
    here.world.parts("r").store.acquire("r", now, now + timedelta(minutes=1), timedelta(0))
    assert_wording(unrest(here))


def test_people_clear_away_only_what_they_were_told_of():
    here = at_rest(seed=2)
    machine = here.world.operator.launch(zone=here.world.zones[0])
    here.world.advance(200)
    here.world.operator.delete_node(here.world.node_of(machine).name)
    here.world.advance(800)
    rest = Rest(here)
    rest._person_helps()
    assert machine.live


@pytest.mark.parametrize(("removed", "broken"), [(0, [Rule.RESTLESS]), (1, [])])
def test_only_a_fleet_that_becomes_smaller_may_be_without_rest_for_long(removed, broken):
    here = at_rest(seed=2)
    for _ in range(4):
        here.invocations.tick()
        here.world.advance(120)
    rest = Rest(here)
    here.world.operator.cordon(here.world.ready_nodes("default")[0].name)
    here.world.advance(2000)
    for machine in here.world.ec2.live_workers()[:removed]:
        here.world.ec2.end(machine)
    assert not rest.reached()
    here.world.advance(600)
    rest.not_reached()
    assert [each.rule for each in here.world.violations if each.rule is Rule.RESTLESS][:1] == broken


ROTATING = {"rotation": {"max_age": "25h"}}


@pytest.mark.parametrize(("rules", "replaced", "end"), [(ROTATING, 1, "under way"), (ROTATING, 0, ""), ({}, 1, "")])
def test_so_may_one_that_replaces_its_old_workers(rules, replaced, end):
    """One by one: in a large fleet that takes longer than chaos waits. Each that goes leaves one less to go."""
    here = staged_plan(
        Plan(seed=1, scene=Scene(policy={"limits": {"min": 3, "max": 6}, **rules}, workers={"default": 3}))
    )
    rest = Rest(here)
    here.world.operator.cordon(here.world.ready_nodes("default")[0].name)
    here.world.advance(2000)
    for machine in here.world.ec2.live_workers()[:replaced]:
        here.world.ec2.end(machine)
        here.world.ec2.start(
            pool="default", zone=machine.zone, type_=machine.type, market=machine.market, by=machine.by
        )
    assert not rest.reached()
    here.world.advance(600)
    rest.not_reached()
    assert [name for name in ("under way", "to and fro", "awaited") if here.figures[name]] == [end] * bool(end)
    assert (Rule.RESTLESS in {each.rule for each in here.world.violations}) is not bool(end)


@pytest.mark.parametrize(("rested", "end"), [(0, "to and fro"), (1, "to and fro"), (3, "awaited")])
def test_flapping_is_told_from_rest_of_which_something_is_still_demanded(rested, end):
    here = staged_plan(Plan(seed=1, scene=Scene(policy={"limits": {"min": 3, "max": 6}}, workers={"default": 3})))
    rest = Rest(here)
    here.world.advance(3000)
    rest._last = here.world.now
    rest._restful = rested
    rest.not_reached()
    assert [name for name in ("under way", "to and fro", "awaited") if here.figures[name]] == [end]


def test_a_pool_that_stays_below_min_is_noticed_when_its_time_is_over():
    here = at_rest(seed=2)
    here.world.ec2.listeners.clear()  # no event of EC2 starts a run that restores it
    rest = Rest(here)
    for machine in here.world.ec2.live_workers():
        here.world.ec2.end(machine)
    rest._restore()
    assert here.world.violations == []
    here.world.advance(1691)
    rest._restore()
    assert [each.rule for each in here.world.violations] == [Rule.MIN]


def filled(*, full: int) -> tuple[Stage, Rest]:
    """Three nodes of one pool take all of fleet.max, so many of them with a pod that fits on no other; another pool
    lacks its min."""
    pools = [{"name": "default", "limits": {"min": 0, "max": 3}}, {"name": "batch", "limits": {"min": 1, "max": 2}}]
    scene = Scene(
        policy={"fleet": {"max": 3}, "pools": pools},
        zones=1,
        workers={"default": 3},
        workloads=({"name": "large", "replicas": full, "cpu": 1500},),
    )
    here = staged_plan(Plan(seed=1, scene=scene))
    calm_down(here)
    return here, Rest(here)


def min_is_missed(here: Stage, rest: Rest, *, ticks: bool) -> bool:
    for _ in range(16):
        if ticks:
            here.invocations.tick()
        here.world.advance(120)
        rest._restore()
    here.invocations.turns.end()
    return Rule.MIN in [each.rule for each in here.world.violations]


def test_a_pool_may_stay_below_min_while_full_nodes_of_others_take_all_of_fleet_max_and_operators_know():
    here, rest = filled(full=3)
    assert not min_is_missed(here, rest, ticks=True)
    assert not here.world.ready_nodes("batch")
    assert AlertKind.AT_MAX in {event.kind for event in here.world.table.events if event.pool == "batch"}


def test_one_of_which_nobody_was_told_may_not():
    here, rest = filled(full=3)
    assert min_is_missed(here, rest, ticks=False)


def test_an_empty_node_of_another_pool_gives_way():
    here, rest = filled(full=2)
    assert not min_is_missed(here, rest, ticks=True)
    assert here.world.ready_nodes("batch")


def test_one_that_does_not_is_noticed():
    here, rest = filled(full=2)
    event = Event(id="x", at=here.world.now, cluster="shop", kind=AlertKind.AT_MAX, pool="batch", text="")
    here.world.parts("r").store.tell(event)
    assert min_is_missed(here, rest, ticks=False)

"""What an hour used and cost."""

from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.engine.decide import decide
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Action, Decision, Event, PoolDecision
from nodefleet.model.fleet import Count
from nodefleet.model.inventory import InstanceState, InstanceType, Market, Resources, price_of
from nodefleet.model.snapshot import Missing
from nodefleet.model.state import Level, Memory, PoolUsage, Usage
from nodefleet.model.workload import PodPhase
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Limits, Pool
from nodefleet.reconcile.usage import count_usage
from support.builders import GIB, NOON, SMALL, after, instance, look, node, pod, waiting

POLICY = Policy()
CATALOG = (InstanceType(name="t3.small", resources=SMALL, hourly_usd=0.02, spot_usd=0.008),)


def count(before, seen, policy=POLICY, events=()):
    return count_usage(before, seen, decide(seen, Memory(), policy), events, policy)


def two_looks(gap=120.0, policy=POLICY, events=(), **scene):
    first = count(None, look(3, catalog=CATALOG, **scene), policy).running
    return count(first, look(3, at=after(gap), catalog=CATALOG, **scene), policy, events).running.pools["default"]


def test_the_first_look_counts_nothing_because_nothing_was_watched():
    used = count(None, look(3, catalog=CATALOG)).running.pools["default"]
    assert (used.watched_seconds, used.spot_seconds, used.usd) == (0, 0, 0)
    assert (used.most_nodes, used.fewest_nodes) == (3, 3)


def test_machines_are_paid_for_by_market_and_type():
    used = two_looks()
    assert (used.spot_seconds, used.on_demand_seconds, used.watched_seconds) == (240, 120, 120)
    assert used.usd == pytest.approx((2 * 0.008 + 0.02) * 120 / 3600)
    assert used.types == {"t3.small": 360}


def test_readings_are_weighed_by_time():
    used = two_looks(cpu=50.0, memory=60.0)
    assert (used.cpu_seconds / used.cpu_known, used.memory_seconds / used.memory_known) == (50, 60)


def test_what_could_not_be_read_is_not_zero():
    used = two_looks(cpu=Missing("timeout"))
    assert (used.cpu_seconds, used.cpu_known, used.memory_known) == (0, 0, 120)


@pytest.mark.parametrize(("gap", "watched"), [(240, 240), (241, 0), (7000, 0)])
def test_a_long_silence_counts_as_nothing(gap, watched):
    noon_minus = count(None, look(3, at=after(-3600), catalog=CATALOG)).running
    used = count(noon_minus, look(3, at=after(gap - 3600), catalog=CATALOG)).running.pools["default"]
    assert used.watched_seconds == watched


def test_an_hour_that_is_over_is_handed_on_and_the_next_begins_at_its_start():
    before = count(None, look(3, at=after(-60), catalog=CATALOG)).running
    after_hour = count(before, look(3, at=after(60), catalog=CATALOG))
    assert [usage.hour for usage in after_hour.over] == [NOON - timedelta(hours=1)]
    assert after_hour.running.hour == NOON
    assert after_hour.running.pools["default"].watched_seconds == 60
    (over,) = after_hour.over
    assert (over.last, over.pools["default"].watched_seconds) == (NOON, 60)


def test_a_clock_that_goes_back_counts_nothing():
    before = Usage(hour=NOON, last=after(600))
    assert count(before, look(3, at=after(300), catalog=CATALOG)).running.pools["default"].watched_seconds == 0


def test_requests_are_a_share_of_what_ready_nodes_have():
    pods = [pod("web-1", "w000", requests=Resources(cpu=1500, memory=3 * GIB)), waiting("web-2")]
    used = two_looks(pods=pods)
    assert used.requested_cpu_seconds / used.requested_known == pytest.approx(25)
    assert used.requested_memory_seconds / used.requested_known == pytest.approx(50)


def test_waiting_pods_are_counted_for_the_whole_cluster():
    first = count(None, look(3, pods=[waiting("web-2")])).running
    assert (
        count(first, look(3, at=after(120), pods=[waiting("web-2")])).running.pools["default"].waiting_pod_seconds
        == 120
    )


def test_time_at_max_is_counted():
    assert two_looks(policy=Policy(pools=(Pool(limits=Limits(min=1, max=3)),))).at_max_seconds == 120
    assert two_looks().at_max_seconds == 0


def test_events_are_counted_but_not_dry_ones():
    up = Event(id="1", at=NOON, cluster="default", kind=AlertKind.SCALE_UP, pool="default", text="x", change=2)
    down = replace(up, id="2", kind=AlertKind.SCALE_DOWN, change=-1)
    taken = replace(up, id="3", kind=AlertKind.INTERRUPTED)
    used = two_looks(events=[up, down, taken, replace(up, id="4", dry=True), replace(taken, id="5", pool="other")])
    assert (used.scale_ups, used.scale_downs, used.interruptions, used.join_failures) == (2, 1, 1, 0)


def test_time_in_which_ec2_does_not_answer_is_not_counted_as_a_fleet_of_none():
    first = count(None, look(3)).running
    blind = replace(look(3, at=after(120)), instances=Missing("throttled"))
    used = count(first, blind).running.pools["default"]
    assert (used.spot_seconds, used.watched_seconds) == (0, 0)


@pytest.mark.parametrize(
    ("name", "market", "price"),
    [
        ("t3.small", Market.SPOT, 0.008),
        ("t3.small", Market.ON_DEMAND, 0.02),
        ("m9.huge", Market.SPOT, None),
        ("dear", Market.SPOT, 0.5),
    ],
)
def test_spot_without_a_price_counts_as_on_demand_and_an_unknown_type_is_unknown(name, market, price):
    dear = InstanceType(name="dear", resources=SMALL, hourly_usd=0.5)
    assert price_of(name, market, {kind.name: kind for kind in (*CATALOG, dear)}) == price


# ── every figure at once ─────────────────────────────────────────────────────────────────────────────────────────


def minute(seen, count=None, policy=POLICY, before=None, events=()):
    """The pool's usage of a minute in which the fleet was as it is seen."""
    decided = Decision(
        at=seen.at,
        cluster="",
        level=Level.NORMAL,
        pools=(PoolDecision(pool="default", action=Action.HOLD, count=count or Count(), target=0, reason=""),),
        memory=Memory(),
    )
    before = before or Usage(hour=NOON, last=NOON)
    return count_usage(before, replace(seen, at=after(60)), decided, events, policy).running.pools["default"]


def test_every_figure_of_a_fleet_that_is_fully_seen():
    other = instance(8, pool="other")
    unknown = instance(9, type="m7g.large")
    seen = look(
        3,
        cpu=40.0,
        memory=55.0,
        catalog=CATALOG,
        instances=[other, unknown, instance(7, worker=False), instance(6, state=InstanceState.TERMINATED)],
        nodes=[node(5, ready=False), node(4, pool="other")],
        pods=[
            pod("web-1", "w000"),
            pod("web-2", "w001"),
            pod("done-1", "w001", phase=PodPhase.SUCCEEDED),
            pod("web-3", "w004"),
            pod("web-4", "w005"),
            waiting("web-5"),
            waiting("web-6"),
        ],
    )
    assert minute(seen, Count(ready=3, booting=1, occupied=10)) == PoolUsage(
        spot_seconds=3 * 60,
        on_demand_seconds=60,
        usd=pytest.approx((2 * 0.008 + 0.02) / 60),
        unpriced_seconds=60,
        types={"t3.small": 180, "m7g.large": 60},
        watched_seconds=60,
        cpu_seconds=40 * 60,
        cpu_known=60,
        memory_seconds=55 * 60,
        memory_known=60,
        requested_cpu_seconds=pytest.approx(100 * 1000 / (3 * SMALL.cpu) * 60),
        requested_memory_seconds=pytest.approx(100 * (GIB // 4) * 2 / (3 * SMALL.memory) * 60),
        requested_known=60,
        most_nodes=4,
        fewest_nodes=4,
        at_max_seconds=60,
        waiting_pod_seconds=120,
    )


@pytest.mark.parametrize("missing", [Missing("away"), None], ids=["no API server", "no pods"])
def test_what_is_not_known_adds_nothing(missing):
    seen = look(0, cpu=Missing("timeout"), memory=Missing("timeout"), catalog=CATALOG)
    view = missing or replace(seen.kubernetes, pods=None)
    assert minute(replace(seen, kubernetes=view)) == PoolUsage(watched_seconds=60, fewest_nodes=0)


@pytest.mark.parametrize(("occupied", "seconds"), [(9, 0), (10, 60), (11, 60)])
def test_a_pool_is_at_max_when_it_occupies_that_much(occupied, seconds):
    policy = Policy(pools=(Pool(limits=Limits(max=10)),))
    assert minute(look(0), Count(occupied=occupied), policy).at_max_seconds == seconds


def test_a_pool_that_the_policy_no_longer_has_is_never_at_max():
    assert minute(look(0), Count(occupied=99), Policy(pools=())).at_max_seconds == 0


def test_figures_add_up_over_looks():
    first = minute(look(3, cpu=40.0, catalog=CATALOG), Count(ready=3))
    before = Usage(hour=NOON, last=NOON, pools={"default": first})
    both = minute(look(1, cpu=10.0, catalog=CATALOG), Count(ready=1), before=before)
    assert (both.most_nodes, both.fewest_nodes) == (3, 1)
    assert both.types == {"t3.small": 240}
    assert (both.cpu_seconds, both.cpu_known, both.watched_seconds) == (50 * 60, 120, 120)
    assert (both.spot_seconds, both.on_demand_seconds) == (120, 120)


def happened(kind, change=0, pool="default", **changes):
    return Event(id="e", at=NOON, cluster="shop", kind=kind, pool=pool, text="", change=change, **changes)


def test_every_kind_of_event_counts_in_its_pool():
    events = [
        happened(AlertKind.SCALE_UP, 2),
        happened(AlertKind.SCALE_UP, 3),
        happened(AlertKind.SCALE_DOWN, -1),
        happened(AlertKind.INTERRUPTED),
        happened(AlertKind.JOIN_FAILED),
        happened(AlertKind.JOIN_FAILED),
        happened(AlertKind.DRAIN_BLOCKED),
        happened(AlertKind.NO_CAPACITY),
        happened(AlertKind.MARKET_RESTORED),
        happened(AlertKind.SCALE_DOWN, -1, subjects=("i-1", "rotated")),
        replace(happened(AlertKind.SCALE_DOWN, -1, subjects=("i-2", "consolidated")), usd_per_day=-0.5),
        happened(AlertKind.SCALE_DOWN, -1, subjects=("i-3", "consolidated")),
        happened(AlertKind.SCALE_UP, 7, pool="other"),
        happened(AlertKind.SCALE_UP, 7, dry=True),
    ]
    before = Usage(
        hour=NOON,
        last=NOON,
        pools={
            "default": PoolUsage(
                scale_ups=1,
                scale_downs=1,
                interruptions=1,
                join_failures=1,
                drain_failures=1,
                no_capacity=1,
                market_swaps=1,
                rotations=1,
            )
        },
    )
    used = minute(look(0), before=before, events=events)
    assert (used.scale_ups, used.scale_downs, used.interruptions) == (6, 5, 2)
    assert (used.join_failures, used.drain_failures, used.no_capacity, used.market_swaps) == (3, 2, 2, 2)
    assert (used.rotations, used.consolidations, used.consolidated_usd_per_day) == (2, 2, 0.5)


def test_an_hour_is_split_at_its_end():
    seen = look(1, at=after(3600 + 30), catalog=CATALOG)
    decided = decide(seen, Memory(), POLICY)
    found = count_usage(Usage(hour=NOON, last=after(3600 - 60)), seen, decided, (), POLICY)
    (over,) = found.over
    assert (over.hour, over.last, over.pools["default"].watched_seconds) == (NOON, after(3600), 60)
    assert (found.running.hour, found.running.last) == (after(3600), after(3600 + 30))
    assert found.running.pools["default"].watched_seconds == 30


# ── the autoscaler itself ────────────────────────────────────────────────────────────────────────────────────────


def own(before, seen, monthly=7.30):
    return count_usage(before, seen, decide(seen, Memory(), POLICY), (), POLICY, own_monthly_usd=monthly)


def test_the_autoscalers_own_cost_stands_in_the_hour_beside_the_machines():
    first = own(None, look(3, catalog=CATALOG)).running
    half = own(first, look(3, at=after(1800), catalog=CATALOG)).running
    assert half.own_usd == pytest.approx(0.005)
    assert half.pools["default"].usd == pytest.approx(first.pools["default"].usd)  # half an hour that nobody watched


def test_an_hour_that_is_over_has_all_of_it_however_often_somebody_looked():
    for last in (60, 1800, 3540):
        running = own(Usage(hour=NOON, last=NOON), look(3, at=after(last), catalog=CATALOG)).running
        done = own(running, look(3, at=after(3660), catalog=CATALOG))
        (hour,) = done.over
        assert hour.own_usd == pytest.approx(0.01)
        assert done.running.own_usd == pytest.approx(0.01 / 60)


def test_without_known_prices_nothing_is_made_up():
    assert own(None, look(3, at=after(1800), catalog=CATALOG), monthly=0.0).running.own_usd == 0

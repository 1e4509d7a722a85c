"""What an hour used and cost."""

from dataclasses import replace
from datetime import timedelta

import pytest

from builders import GIB, NOON, SMALL, after, look, pod, waiting
from nodefleet.decide.engine import decide
from nodefleet.domain.events import Event, EventKind
from nodefleet.domain.journal import Usage
from nodefleet.domain.machines import InstanceType, Market
from nodefleet.domain.memory import Memory
from nodefleet.domain.policy import Limits, Policy, Pool
from nodefleet.domain.readings import Missing
from nodefleet.domain.resources import Resources
from nodefleet.loop.usage import counted, price_of

POLICY = Policy()
CATALOG = (InstanceType(name="t3.small", resources=SMALL, hourly_usd=0.02, spot_usd=0.008),)


def count(before, seen, policy=POLICY, events=()):
    return counted(before, seen, decide(seen, Memory(), policy), events, policy)


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
    up = Event(id="1", at=NOON, cluster="default", kind=EventKind.SCALE_UP, pool="default", text="x", change=2)
    down = replace(up, id="2", kind=EventKind.SCALE_DOWN, change=-1)
    taken = replace(up, id="3", kind=EventKind.INTERRUPTED)
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

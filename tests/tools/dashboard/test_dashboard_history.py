"""Recorded decisions and money on the page: filters, replays, the what-if, and sums against fixed fleets."""

from datetime import UTC, datetime, timedelta

import pytest

from nodefleet.model.inventory import InstanceType, Resources
from nodefleet.model.serialization import ValidationError
from nodefleet.model.state import PoolUsage, Usage
from nodefleet.reporting.usage import Period
from nodefleet_tools.dashboard.decisions import Filter, UnknownDecisionError
from nodefleet_tools.dashboard.money import summed
from nodefleet_tools.replaying import NotReplayableError
from support.dashboards import WorldSource
from support.worlds import shop


@pytest.fixture(scope="module")
def source():
    cluster = shop()
    cluster.calm(3)
    cluster.world.deploy("big", replicas=3, cpu=1500)
    cluster.calm(4)
    return WorldSource(cluster.world)


def changes(source):
    return source.decisions(Filter(action="changes"))["rows"]


def test_changes_are_listed_newest_first_and_quiet_decisions_in_a_row_are_one(source):
    rows = source.decisions(Filter())["rows"]
    assert [row["at"] for row in rows] == sorted((row["at"] for row in rows), reverse=True)
    assert sum(row["count"] for row in rows) == len(source.connection.world.table.decisions)
    assert any(row["count"] > 1 for row in rows)
    assert all(pool["action"] != "hold" for row in changes(source) for pool in row["pools"])


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (Filter(action="grow"), True),
        (Filter(action="shrink"), False),
        (Filter(action="grow", pool="default"), True),
        (Filter(pool="other"), False),
        (Filter(action="grow", text="UNSCHEDULABLE"), True),
        (Filter(text="no such word"), False),
        (Filter(before=datetime(2020, 1, 1, tzinfo=UTC)), False),
    ],
)
def test_filters(source, wanted, found):
    assert bool(source.decisions(wanted)["rows"]) is found


def test_one_decision_shows_votes_bounds_and_what_it_saw(source):
    found = source.decision(changes(source)[0]["id"])
    (pool,) = found["pools"]
    assert pool["votes"]
    assert sum(bound["sets"] for bound in pool["bounds"]) == 1
    assert pool["plan"]
    assert found["saw"]["pending"]
    assert found["saw"]["everything"]["cluster"] == "shop"


def test_a_quiet_decision_kept_only_its_figures_and_says_so(source):
    quiet = source.decisions(Filter(action="hold"))["rows"][-1]
    found = source.decision(quiet["id"])
    assert found["saw"] is None
    assert found["not_replayable"]
    with pytest.raises(NotReplayableError):
        source.replay(quiet["id"], "")


def test_a_decision_is_decided_again_and_by_another_policy(source):
    identity = changes(source)[0]["id"]
    assert source.replay(identity, "")["same"]
    other = source.replay(identity, "limits: {min: 2, max: 3}\n")
    assert not other["same"]
    assert other["second"][0]["target"] <= 3
    with pytest.raises(ValidationError):
        source.replay(identity, "limits: {min: x}")


def test_an_unknown_decision_is_unknown(source):
    with pytest.raises(UnknownDecisionError):
        source.decision("2020-01-01")


def test_the_what_if_counts_what_would_have_been_different(source):
    same = source.what_if("limits: {min: 2, max: 6}\n")
    assert same["asked"] == same["archived"] == same["same"] > 0
    less = source.what_if("limits: {min: 2, max: 2}\n")
    assert less["fewer"] == len(less["different"]) > 0
    assert less["same"] + len(less["different"]) == less["asked"]


# ── money ────────────────────────────────────────────────────────────────────────────────────────────────────────────

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
OFFER = InstanceType(name="t3.small", resources=Resources(cpu=2000), hourly_usd=0.02, spot_usd=0.006)


def hour(number: int, spot: float, on_demand: float, most: int) -> Usage:
    used = PoolUsage(
        spot_seconds=3600 * spot,
        on_demand_seconds=3600 * on_demand,
        usd=0.006 * spot + 0.02 * on_demand,
        types={"t3.small": 3600 * (spot + on_demand)},
        watched_seconds=3600,
        most_nodes=most,
        interruptions=number,
    )
    start = NOON + timedelta(hours=number)
    return Usage(hour=start, last=start + timedelta(hours=1), pools={"default": used})


PERIOD = Period(start=NOON, end=NOON + timedelta(hours=2))
USAGE = (hour(0, spot=1, on_demand=1, most=2), hour(1, spot=3, on_demand=1, most=4))


def test_savings_add_up_by_cause_and_the_own_cost_counts():
    found = summed(USAGE, PERIOD, {"t3.small": OFFER}, 730.0)
    assert found["usd"] == pytest.approx(0.064)
    assert found["fixed_usd"] == pytest.approx(4 * 2 * 0.02)
    assert found["fixed_spot_usd"] == pytest.approx(4 * 2 * 0.006)
    assert found["own_usd"] == pytest.approx(2.0)
    assert found["saved_usd"] == pytest.approx(0.16 - 0.064 - 2.0)
    assert found["by_fewer_nodes"] + found["by_spot"] == pytest.approx(found["fixed_usd"] - found["usd"])
    assert found["spot_percent"] == pytest.approx(100 * 4 / 6)
    assert found["interruptions"] == 1


def test_without_prices_nothing_is_claimed():
    found = summed(USAGE, PERIOD, {}, None)
    assert found["usd"] == pytest.approx(0.064)
    assert (found["fixed_usd"], found["saved_usd"], found["own_usd"]) == (None, None, None)


def test_a_period_without_records_is_empty():
    found = summed((), PERIOD, {"t3.small": OFFER}, None)
    assert (found["node_hours"], found["nodes"], found["spot_percent"]) == (0, 0, None)


def test_money_of_a_running_cluster(source):
    found = source.money()
    assert found["periods"]["today"]["node_hours"] > 0
    assert found["hours"]

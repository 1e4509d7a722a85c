"""What a short question stands for."""

from datetime import UTC, datetime, timedelta

import pytest

from nodefleet.engine.decide import decide
from nodefleet.model.decision import Action
from nodefleet.model.fleet import Phase
from nodefleet.model.inventory import Market
from nodefleet.model.serialization import ValidationError, from_plain, to_plain
from nodefleet.model.snapshot import Missing, Reading
from nodefleet.model.state import Level
from nodefleet.phases import derive_workers
from nodefleet.policy.cluster import Policy
from nodefleet.policy.loading import load
from nodefleet_tools.shorthand import Question, expanded, shorthand_from
from support.builders import only
from support.wording import assert_wording

QUEUE = load(
    {
        "readings": {"orders": {"kind": "prometheus", "query": "x"}},
        "custom": [{"kind": "threshold", "name": "backlog", "reading": "orders", "limit": 100}],
    }
).policy
TWO_POOLS = load({"pools": [{"name": "web"}, {"name": "batch", "limits": {"min": 0}}]}).policy


def question(policy: Policy = Policy(), **short) -> Question:  # frozen
    return expanded(shorthand_from(short), policy)[0]


def decided(policy: Policy = Policy(), **short):  # frozen
    asked, rules = expanded(shorthand_from(short), policy)
    return decide(asked.observation, asked.memory, rules)


def problems(policy: Policy = Policy(), **short) -> dict[str, str]:  # frozen
    with pytest.raises(ValidationError) as refused:
        expanded(shorthand_from(short), policy)
    return {problem.path: f"{problem.wrong}; {problem.right}" for problem in refused.value.problems}


# ── the fleet ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_workers_are_spread_over_the_zones_and_the_first_is_on_demand():
    fleet = derive_workers(question(nodes=3, booting=1, zones=["x", "y"]).observation, Policy())
    assert [(worker.zone, worker.phase) for worker in fleet] == [
        ("x", Phase.READY),
        ("y", Phase.READY),
        ("x", Phase.READY),
        ("y", Phase.BOOTING),
    ]
    assert [worker.instance.market for worker in fleet] == [Market.ON_DEMAND] + [Market.SPOT] * 3
    assert {worker.instance.type for worker in fleet} == {"t3.small"}


def test_booting_workers_are_capacity_that_the_readings_do_not_cover():
    count = only(decided(nodes=3, booting=2, cpu=50, memory=60)).count
    assert (count.ready, count.booting) == (3, 2)


def test_it_can_launch_in_each_of_the_zones():
    assert question(nodes=1, zones=["x", "y"]).observation.targets[0].subnets == {"x": "subnet-x", "y": "subnet-y"}


def test_the_time_is_fixed_unless_it_is_given():
    assert question(nodes=1).observation.at == datetime(2026, 11, 16, 12, tzinfo=UTC)
    assert question(nodes=1, at="2026-11-16T20:04:00Z").observation.at.hour == 20


def test_no_pending_pods_means_no_pods_and_a_count_means_that_nothing_more_is_known():
    assert question(nodes=1).observation.kubernetes.pods == ()
    view = question(nodes=1, pending=3).observation.kubernetes
    assert (view.pods, view.unschedulable) == (None, {"default": 3})


def test_what_it_stands_for_survives_being_written_down():
    asked = question(nodes=3, booting=1, cpu=[60, None, 80], memory=40, pending=2, last_grow="2m")
    assert from_plain(Question, to_plain(asked)) == asked


# ── readings ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_reading_that_is_left_out_is_missing_and_not_zero():
    readings = question(nodes=1, cpu=20).observation.readings["default"]
    assert readings.cpu == Reading(20.0, datetime(2026, 11, 16, 12, tzinfo=UTC))
    assert readings.memory == Missing("not given")
    assert decided(nodes=5, cpu=[20] * 5).level is Level.DEGRADED
    assert only(decided(nodes=5, cpu=[20] * 5)).action is Action.HOLD


@pytest.mark.parametrize(
    ("cpu", "action", "target"),
    [
        (82, Action.HOLD, 3),
        ([82], Action.HOLD, 3),
        ([70, 82], Action.HOLD, 3),
        ([75, 82], Action.GROW, 4),
        ([75, 82, 85], Action.GROW, 4),  # nobody grew meanwhile
        ([75, 60, 82], Action.HOLD, 3),
        ([29, 29, 29, 29], Action.HOLD, 3),
        ([29, 29, 29, 29, 29], Action.SHRINK, 2),
        ([40, 29, 29, 29, 29], Action.HOLD, 3),
    ],
)
def test_earlier_readings_count_as_they_would_have(cpu, action, target):
    pool = only(decided(nodes=3, cpu=cpu, memory=40))
    assert (pool.action, pool.target) == (action, target)


def test_one_value_beside_a_list_held_all_the_time():
    held = only(decided(nodes=3, cpu=[28] * 5, memory=40)).votes
    assert_wording(held)
    fell = only(decided(nodes=3, cpu=[28] * 5, memory=[60, 60, 60, 60, 40])).votes
    assert_wording(fell)


def test_readings_are_an_interval_of_the_policy_apart():
    slow = load({"interval": "5m"}).policy
    times = question(slow, nodes=3, cpu=[80, 80, 80], memory=40).memory.pool("default").breaches["cpu:up"].times
    assert times[-1] - times[-2] == timedelta(minutes=5)
    assert question(slow, nodes=3).observation.at - times[-1] == timedelta(minutes=5)


def test_a_reading_that_went_missing_leaves_the_last_good_one():
    pool = only(decided(nodes=3, cpu=[80, 82, None], memory=40))
    assert pool.action is Action.GROW
    assert_wording(pool.reason)


def test_readings_that_come_back_are_a_recovery():
    assert decided(nodes=3, cpu=[None, 40], memory=40).level is Level.RECOVERY


def test_pods_wait_only_now_and_not_at_the_earlier_readings():
    pool = only(decided(nodes=3, cpu=[40, 40], memory=60, pending=1))
    assert (pool.action, pool.target) == (Action.GROW, 4)


def test_custom_readings_come_by_the_policy_s_names():
    assert only(decided(QUEUE, nodes=3, cpu=50, memory=60, custom={"orders": [150, 250]})).target == 4
    assert only(decided(QUEUE, nodes=3, cpu=50, memory=60, custom={"orders": 250})).target == 3
    assert_wording(only(decided(QUEUE, nodes=3, cpu=50, memory=60)).votes)


# ── memory and policy ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("ago", "action"), [("0s", Action.HOLD), ("299s", Action.HOLD), ("300s", Action.GROW), (None, Action.GROW)]
)
def test_the_last_growth_is_so_long_ago(ago, action):
    given = {} if ago is None else {"last_grow": ago}
    assert only(decided(nodes=3, cpu=[80, 80], memory=40, **given)).action is action


@pytest.mark.parametrize(("ago", "action"), [("599s", Action.HOLD), ("600s", Action.SHRINK)])
def test_the_last_shrink_is_so_long_ago(ago, action):
    assert only(decided(nodes=5, cpu=[20] * 5, memory=40, last_shrink=ago)).action is action


def test_windows_of_the_policy_are_open_at_their_time():
    window = {"name": "lunch", "cron": "0 12 * * *", "lasting": "1h", "min": 6}
    lunch = load({"windows": [window], "time_zone": "Asia/Tokyo"}).policy
    assert only(decided(lunch, nodes=3, cpu=50, memory=60, at="2026-11-16T03:30:00Z")).target == 6
    assert only(decided(lunch, nodes=3, cpu=50, memory=60, at="2026-11-16T12:30:00Z")).target == 3
    assert question(lunch, nodes=3).observation.utc_offset == timedelta(hours=9)


def test_one_of_several_pools_is_asked_about_alone():
    assert only(decided(TWO_POOLS, nodes=1, cpu=50, memory=60, pool="batch")).pool == "batch"
    assert only(decided(TWO_POOLS, nodes=1, cpu=50, memory=60, pool="web")).target == 2
    assert problems(TWO_POOLS, nodes=1) == {"pool": "is missing; write one of web, batch"}
    assert problems(TWO_POOLS, nodes=1, pool="wep") == {"pool": "is not a pool of the policy; did you mean web?"}
    assert problems(nodes=1, pool="x") == {"pool": "is not a pool of the policy; known are default"}


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["nodes", "booting", "pending"])
def test_counts_have_limits(name):
    assert problems(**{"nodes": 3, name: -1}) == {name: "is not a count; write 0 to 1000"}
    assert problems(**{"nodes": 3, name: 1001}) == {name: "is not a count; write 0 to 1000"}
    for count in (0, 1000):
        assert question(**{"nodes": 3, name: count})


@pytest.mark.parametrize("name", ["cpu", "memory"])
def test_percentages_have_limits(name):
    assert problems(nodes=3, **{name: 100.1}) == {name: "is not a percentage; write 0 to 100"}
    assert problems(nodes=3, **{name: -0.1}) == {name: "is not a percentage; write 0 to 100"}
    assert problems(nodes=3, **{name: [50, 101]}) == {f"{name}[1]": "is not a percentage; write 0 to 100"}
    assert question(nodes=3, **{name: [0, 100]})


@pytest.mark.parametrize("name", ["last_grow", "last_shrink"])
def test_nothing_was_scaled_in_the_future(name):
    assert problems(nodes=3, **{name: -1}) == {name: "lies in the future; write how long ago it was, for example 2m"}


@pytest.mark.parametrize("zones", [[], ["a", "a"]])
def test_zones_are_each_named_once(zones):
    assert problems(nodes=3, zones=zones) == {
        "zones": "has no zone or one twice; write each zone once, for example [a, b]"
    }


def test_lists_must_be_equally_long():
    told = "has 2 readings; write 3 readings, as for cpu, or one that held all the time"
    assert problems(nodes=3, cpu=[1, 2, 3], memory=[1, 2]) == {"memory": told}
    assert problems(nodes=3, cpu=[]) == {
        "cpu": "has no readings; write one reading or more, newest last; leave it out if there is none"
    }
    assert problems(QUEUE, nodes=3, cpu=[1, 2, 3], custom={"orders": [1, 2]}) == {"custom.orders": told}


def test_a_custom_reading_must_be_the_policy_s():
    assert problems(QUEUE, nodes=3, custom={"order": 3}) == {
        "custom.order": "is not a reading of the policy; did you mean orders?"
    }
    assert problems(nodes=3, custom={"order": 3}) == {
        "custom.order": "is not a reading of the policy; name one in a policy, and give it by --policy"
    }


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"cpu": "x"}, "cpu"),
        ({"cpu": ["x"]}, "cpu[0]"),
        ({"cpu": [1, "x"]}, "cpu[1]"),
        ({"memory": {"a": 1}}, "memory"),
        ({"custom": {"orders": "x"}}, "custom.orders"),
        ({"custom": {"orders": ["x"]}}, "custom.orders[0]"),
        ({"custom": 3}, "custom"),
        ({"zones": [1]}, "zones[0]"),
    ],
)
def test_a_wrong_type_is_told_where_it_was_written(given, place):
    assert list(problems(nodes=3, **given)) == [place]


def test_only_a_table_is_a_question():
    with pytest.raises(ValidationError) as caught:
        shorthand_from([1])
    assert_wording(str(caught.value))

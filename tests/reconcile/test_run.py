"""One run: its lease, its iterations, whom it hears, and when it stops."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from nodefleet.errors import LostLeaseError, UnavailableError
from nodefleet.model.inventory import Market
from nodefleet.model.names import Metric
from nodefleet.ports import Lease, LeaseHeld
from nodefleet.reconcile.run import run
from nodefleet_tools.sim.hooks import Call, Hook, Moment, at_call, raising, when
from nodefleet_tools.sim.kube import KubeSettings
from nodefleet_tools.sim.world import World
from support.wording import assert_wording
from support.worlds import QUICK, Cluster, empty, shop


def values(cluster: Cluster, metric: Metric) -> list[float]:
    return [value for measured, value in cluster.world.metrics if measured is metric]


def lines(cluster: Cluster) -> list[str]:
    return [line.message for line in cluster.world.lines]


# ── a quiet run ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_quiet_run_looks_once_and_makes_few_calls():
    cluster = shop()
    cluster.calm(1)
    ran = cluster.tick()
    assert (ran.iterations, ran.did, ran.held) == (1, (), None)
    assert cluster.calls == [
        "store.free_fence",
        "store.state",
        "store.acquire",
        "cloud.instances",
        "cloud.catalog",
        "cluster.view",
        "gauges.read",
        "store.commit",
        "store.release",
    ]


def test_a_quiet_run_leaves_a_decision_and_nothing_in_the_archive():
    cluster = shop()
    cluster.calm(2)
    world = cluster.world
    assert len(world.table.decisions) == 2
    assert world.archive.kept == {}
    assert list(world.table.events) == []
    assert world.table.lease is None or world.table.state().fence == 2


def test_a_run_without_trouble_counts_no_failure():
    """The critical alarm rings on the sum of this metric: it must be 0, in runs that act as in quiet ones."""
    cluster = empty()
    cluster.calm(4)
    assert len(cluster.world.workers()) == 2
    assert set(values(cluster, Metric.FAILURES)) == {0}


# ── the lease ────────────────────────────────────────────────────────────────────────────────────────────────────


def hold(cluster: Cluster, seconds: float) -> Lease:
    parts = cluster.world.parts("other", limit=timedelta(hours=1))
    now = cluster.world.now
    lease = parts.store.acquire("other", now, now + timedelta(seconds=seconds), timedelta(seconds=5))
    assert isinstance(lease, Lease)
    return lease


def test_a_run_that_finds_the_lease_held_leaves_quietly_with_a_metric():
    cluster = empty()
    hold(cluster, 600)
    ran = cluster.tick()
    assert isinstance(ran.held, LeaseHeld)
    assert (ran.iterations, cluster.world.workers()) == (0, [])
    assert values(cluster, Metric.LEASE_HELD) == [1]
    assert values(cluster, Metric.INVOCATIONS) == [1]


@pytest.mark.parametrize(("seconds", "taken"), [(116, False), (114, True)])
def test_an_expired_lease_is_taken_over_after_the_margin_for_clocks(seconds, taken):
    cluster = empty()
    hold(cluster, seconds)  # the next run comes 120 s later
    assert bool(cluster.tick().iterations) is taken


def test_a_lease_ends_soon_after_its_run_must():
    cluster = empty()
    seen = []
    cluster.tick(when("store.commit", Moment.BEFORE, lambda: seen.append(cluster.world.table.lease.expires)))
    (expires,) = seen[:1]
    assert expires - cluster.began - timedelta(seconds=120) == timedelta(seconds=125)


def test_a_run_that_lost_its_lease_acts_no_more():
    """Its clock stood still, say: another one took over while it was about to write its plan."""
    cluster = empty()

    def other_takes_over() -> None:
        cluster.world.table.lease = None
        hold(cluster, 600)

    with pytest.raises(LostLeaseError):
        cluster.tick(when("store.commit", Moment.BEFORE, other_takes_over))
    assert cluster.world.workers() == []
    assert cluster.world.table.lease.owner == "other"


@pytest.mark.parametrize("call", ["store.free_fence", "store.state", "store.acquire"])
def test_what_another_run_wrote_before_the_lease_is_seen(call):
    """It held the lease and released it between two calls of this one."""
    cluster = empty()
    moment = Moment.BEFORE if call == "store.acquire" else Moment.AFTER

    def other_works() -> None:
        run(cluster.world.parts("other", limit=timedelta(hours=1)), owner="other", requeues=False)

    parts = cluster.world.parts("me", limit=timedelta(hours=1), hooks=[when(call, moment, other_works)])
    ran = run(parts, owner="me", requeues=False)
    assert cluster.world.runs["me"].log[:4] == ["store.free_fence", "store.state", "store.acquire", "store.state"]
    assert len(cluster.world.workers()) == 2
    assert ran.decision is not None
    assert ran.decision.pools[0].count.booting == 2


def test_a_run_that_takes_over_an_expired_lease_reads_the_state_under_its_own():
    cluster = empty()
    hold(cluster, 100)  # the next run comes 120 s later
    cluster.tick()
    assert cluster.calls[:4] == ["store.free_fence", "store.state", "store.acquire", "store.state"]


def test_a_run_whose_lease_was_taken_over_while_it_waited_writes_nothing():
    cluster = empty()

    def other_takes_over() -> None:
        cluster.world.table.lease = None
        hold(cluster, 600)

    with pytest.raises(LostLeaseError):
        cluster.tick(when("store.acquire", Moment.AFTER, other_takes_over))
    assert cluster.world.workers() == []
    assert cluster.world.table.decisions == ()


def test_a_run_whose_lease_was_taken_over_does_not_even_observe():
    """The fence is compared with every state that is read, before anything is asked or decided."""
    cluster = empty()
    hold(cluster, 100)

    def other_takes_over() -> None:
        cluster.world.table.lease = None
        hold(cluster, 600)

    with pytest.raises(LostLeaseError, match="fence"):
        cluster.tick(when("store.acquire", Moment.AFTER, other_takes_over))
    assert cluster.calls == ["store.free_fence", "store.state", "store.acquire", "store.state"]


def test_a_run_whose_lease_was_taken_over_between_two_iterations_stops_there():
    cluster = shop(workers=2, replicas=12)

    def other_takes_over() -> None:
        cluster.world.table.lease = None
        hold(cluster, 600)

    with pytest.raises(LostLeaseError, match="fence"):
        cluster.tick(when("time.sleep", Moment.AFTER, other_takes_over))
    assert cluster.calls[-2:] == ["time.sleep", "store.state"]


def test_a_run_whose_lease_is_over_takes_no_step():
    cluster = empty(lease=115)
    late = when("store.commit", Moment.BEFORE, lambda: cluster.world.advance(120))
    parts = cluster.world.parts("slow", limit=timedelta(hours=1), hooks=[late])
    with pytest.raises(LostLeaseError, match="expired"):
        run(parts, owner="slow")
    assert cluster.world.workers() == []


def test_an_error_raises_after_the_lease_is_released():
    cluster = empty()
    with pytest.raises(ZeroDivisionError):
        cluster.tick(when("cluster.view", Moment.BEFORE, raising(ZeroDivisionError("a fault of ours"))))
    assert cluster.tick().iterations


def test_an_error_after_a_step_leaves_the_step_recorded():
    cluster = shop(workers=1)
    with pytest.raises(ZeroDivisionError):
        cluster.tick(when("archive.keep", Moment.BEFORE, raising(ZeroDivisionError("a fault of ours"))))
    (launch,) = cluster.operations
    assert launch.answered
    assert len(cluster.world.workers()) == 2


# ── burst ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_while_nodes_boot_for_waiting_pods_it_looks_every_ten_seconds_within_its_share_of_the_tick():
    cluster = empty()
    cluster.world.deploy("shop", replicas=2, cpu=500)
    ran = cluster.tick()
    assert ran.iterations > 3
    assert cluster.calls.count("time.sleep") == 5 * (
        ran.iterations - 1
    )  # with a check for urgent runs every two seconds
    assert cluster.calls.count("store.wakes") == 4 * (ran.iterations - 1)
    assert cluster.world.now - cluster.began <= timedelta(seconds=120 + 110)
    assert cluster.world.waiting_pods() == []


def test_a_run_ends_in_time_even_if_nothing_comes_of_waiting():
    cluster = empty(health={"join_limit": 3600})
    cluster.world.nodes.policy = cluster.world.policy
    cluster.world.deploy("shop", replicas=2, cpu=500)
    cluster.world.kube.settings = type(cluster.world.kube.settings)(joins_in=(600, 600))
    ran = cluster.tick()
    used = cluster.world.now - cluster.began - timedelta(seconds=120)
    assert ran.iterations > 5
    assert timedelta(seconds=90) < used <= timedelta(seconds=110)


def test_at_max_it_does_not_look_again_for_pods_that_cannot_be_helped():
    cluster = shop(workers=2, limits={"min": 2, "max": 2})
    cluster.calm(1)
    cluster.world.deploy("sale", replicas=6, cpu=1500)
    cluster.world.advance(30)
    assert cluster.tick().iterations == 1


def test_what_spot_lacked_is_bought_on_demand_in_the_same_run():
    cluster = empty()
    for zone in cluster.world.zones:
        cluster.world.shop.refuse(zone=zone, market=Market.SPOT)
    ran = cluster.tick()
    assert {machine.market.value for machine in cluster.world.workers()} == {"on-demand"}
    assert len(cluster.world.workers()) == 2
    assert ran.iterations >= 2


# ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_step_that_may_not_finish_is_not_begun():
    cluster = empty()
    cluster.world.advance(120)
    slow = when("gauges.read", Moment.AFTER, lambda: cluster.world.advance(106))
    assert cluster.run("late", slow).did == ()
    assert cluster.world.workers() == []
    assert_wording(lines(cluster))
    cluster.ticks = 2
    assert cluster.tick().did


# ── wake ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _wakes() -> list:
    cluster = shop()
    cluster.calm(1)
    cluster.tick()
    return [(number, moment) for number in range(1, len(cluster.calls) + 1) for moment in Moment]


@pytest.mark.parametrize(("number", "moment"), _wakes())
def test_a_wake_at_any_moment_of_a_run_is_followed_by_a_look(number, moment):
    """Either this run looks again, or it has let go and the one that woke it gets the lease."""
    cluster = shop()
    cluster.calm(1)
    came: list[object] = []

    def urgent() -> None:
        cluster.world.deploy("sale", replicas=6, cpu=1500)
        cluster.world.advance(2)
        came.append(cluster.run("urgent", urgent=True))

    cluster.tick(at_call(number, moment, urgent))
    (other,) = came
    assert len(cluster.world.workers()) > 3
    assert cluster.world.violations == []
    if other.held:
        assert any(decision.decision.pools[0].action.value == "grow" for decision in cluster.world.table.decisions)


def second_iteration_of(cluster: Cluster, *hooks: Hook) -> float:
    """Seconds from the first iteration of a run that requeues to its second."""
    cluster.world.deploy("shop", replicas=2, cpu=500)
    cluster.tick(*hooks)
    first, second, *_ = [line.fields["seconds"] for line in cluster.world.lines if "look" in line.fields]
    return second - first


def test_a_pausing_run_begins_its_next_iteration_within_seconds_of_an_urgent_one():
    cluster = empty()
    urgent = when("time.sleep", Moment.AFTER, lambda: cluster.run("urgent", urgent=True))
    assert second_iteration_of(cluster, urgent) == pytest.approx(2, abs=0.5)


def test_a_pausing_run_that_cannot_read_the_wake_ups_pauses_as_long_as_ever():
    cluster = empty()
    away = when("store.wakes", Moment.BEFORE, raising(UnavailableError("DynamoDB", "throttled")))
    assert second_iteration_of(cluster, away) == pytest.approx(10, abs=0.5)
    assert_wording([line.message for line in cluster.world.lines if line.warning])


def test_a_run_that_is_woken_when_its_time_is_up_says_so_and_lets_go():
    cluster = shop()
    cluster.calm(1)

    def late_wake() -> None:
        cluster.world.advance(108)
        cluster.world.parts("urgent").store.wake()

    ran = cluster.tick(when("store.release", Moment.BEFORE, late_wake))
    assert ran.awake
    assert cluster.tick().iterations == 1


def test_an_urgent_run_wakes_before_it_asks_for_the_lease():
    cluster = shop()
    cluster.run("urgent", urgent=True)
    assert cluster.world.runs["urgent"].log[0] == "store.wake"


# ── two at once ──────────────────────────────────────────────────────────────────────────────────────────────────


def _growing_calls() -> list:
    cluster = empty(burst={"every": 30})
    cluster.tick()
    return [(number, moment) for number in range(1, len(cluster.calls) + 1) for moment in Moment]


@pytest.mark.parametrize(("number", "moment"), _growing_calls())
def test_two_runs_at_the_same_time_launch_once(number, moment):
    cluster = empty(burst={"every": 30})
    cluster.tick(at_call(number, moment, lambda: cluster.run("second")))
    cluster.calm(3)
    assert len(cluster.world.workers()) == 2
    assert cluster.world.violations == []


# ── DynamoDB ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_without_the_table_nothing_is_scaled_and_the_alarm_can_fire():
    cluster = empty()
    cluster.world.away("store")
    with pytest.raises(UnavailableError, match="DynamoDB"):
        cluster.tick()
    assert cluster.world.workers() == []
    assert values(cluster, Metric.LEVEL) == [4]


# ── how long an iteration takes ──────────────────────────────────────────────────────────────────────────────────


def waiting() -> Cluster:
    """Pods wait for nodes that boot for a quarter of an hour: every run looks again for as long as it may."""
    policy = {**QUICK, "health": {"join_limit": "900s"}}
    world = World(seed=1, policy=policy, kubernetes=KubeSettings(joins_in=(880.0, 890.0)))
    world.add_workers(2)
    world.deploy("shop", replicas=8, cpu=900)
    world.settle()
    cluster = Cluster(world)
    cluster.calm(1)
    return cluster


def slow(cluster: Cluster, seconds: Callable[[], float]) -> Hook:
    def hook(call: Call) -> None:
        if call.name == "cluster.view" and call.moment is Moment.BEFORE:
            cluster.world.clock.wait(seconds())

    return hook


@pytest.mark.parametrize("seconds", [1, 5, 8, 16, 23, 24, 34, 38, 42, 55, 62, 70, 94])
def test_no_run_begins_an_iteration_that_may_not_finish(seconds):
    cluster = waiting()
    ran = [cluster.tick(slow(cluster, lambda: seconds)) for _ in range(3)]
    assert None not in ran  # killed
    assert all(each.iterations >= 1 for each in ran)


def test_quick_iterations_are_repeated_as_often_as_before():
    cluster = waiting()
    assert cluster.tick().iterations >= 9


def test_the_next_run_knows_how_long_the_iterations_of_the_last_one_took():
    """It looks quickly once, and then as slowly as the last one did: the second iteration would be killed."""
    cluster = waiting()
    cluster.tick(slow(cluster, lambda: 80))
    times = iter([2, *[115] * 9])
    ran = cluster.tick(slow(cluster, lambda: next(times)))
    assert ran is not None
    assert ran.iterations == 1


def test_one_slow_iteration_is_forgotten_after_some_quick_ones():
    cluster = waiting()
    cluster.tick(slow(cluster, lambda: 60))
    cluster.calm(cluster.world.policy.burst.remembered)
    assert cluster.tick().iterations >= 5


def test_a_run_that_is_begun_late_in_its_function_does_not_look_at_all():
    cluster = waiting()
    cluster.tick(slow(cluster, lambda: 60))
    ran = cluster.tick(slow(cluster, lambda: 60), limit=timedelta(seconds=50))
    assert ran is not None
    assert (ran.iterations, ran.awake) == (0, True)
    assert cluster.tick(slow(cluster, lambda: 60)).iterations == 1  # a whole run always looks once


# ── what alarms count ────────────────────────────────────────────────────────────────────────────────────────────


def test_only_runs_of_the_schedule_count_for_the_dead_mans_alarm():
    cluster = shop()
    for urgent, scheduled in ((True, False), (False, False), (False, True)):
        run(cluster.world.parts("one"), owner="one", urgent=urgent, scheduled=scheduled)
    assert len(values(cluster, Metric.INVOCATIONS)) == 3
    assert values(cluster, Metric.SCHEDULED_RUNS) == [1]


@pytest.mark.parametrize(("away", "counted"), [("cluster", (1, 0)), ("cloud", (0, 1)), ("gauges", (0, 0))])
def test_what_does_not_answer_is_counted_by_its_own_name(away, counted):
    cluster = shop()
    cluster.world.away(away)
    cluster.look()
    found = values(cluster, Metric.API_SERVER_AWAY), values(cluster, Metric.EC2_AWAY)
    assert tuple(each[-1] for each in found) == counted

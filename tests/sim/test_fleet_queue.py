"""Many clusters behind one queue: a slow, broken or dying one delays no other, and nobody is served twice at once."""

from datetime import timedelta

from nodefleet.handlers.reconcile import OLDEST_TICK
from nodefleet_infra.functions import HIDDEN_SECONDS
from nodefleet_tools.fleet import first_tick
from nodefleet_tools.sim.fleet_queue import QueueRules, SimulatedCluster, serve

HOURS = timedelta(hours=2)
EVERY = timedelta(minutes=2)
SHIPPED = QueueRules(slots=20, oldest=OLDEST_TICK.total_seconds(), hidden=float(HIDDEN_SECONDS))


def many(number, kind="healthy", *, seconds=2.0, dies=False):
    return {
        f"{kind}-{place}": SimulatedCluster(
            kind=kind,
            first=first_tick(f"{kind}-{place}", EVERY).total_seconds(),
            duration=lambda _: seconds,
            dies=dies,
        )
        for place in range(number)
    }


def ages(outcome, kind="healthy"):
    return [age for name, served in outcome.clusters.items() if name.startswith(kind) for age in served.ages]


def test_every_tick_of_a_healthy_fleet_runs_within_a_second():
    outcome = serve(many(200), SHIPPED, HOURS)
    assert len(ages(outcome)) == 200 * 60
    assert max(ages(outcome)) < 1


def test_slow_and_broken_clusters_take_a_slot_each_and_delay_no_other():
    clusters = {**many(200), **many(5, "slow", seconds=115), **many(5, "broken", seconds=25)}
    outcome = serve(clusters, SHIPPED, HOURS)
    assert max(ages(outcome)) < 1
    assert all(len(served.begun) == 60 for name, served in outcome.clusters.items() if name.startswith("healthy"))


def test_runs_that_die_cost_their_own_cluster_every_second_tick_and_no_other_any():
    outcome = serve({**many(200), **many(5, "dying", seconds=120, dies=True)}, SHIPPED, HOURS)
    assert max(ages(outcome)) < 1
    dying = [served for name, served in outcome.clusters.items() if name.startswith("dying")]
    assert all(served.dropped for served in dying)
    assert all(len(served.begun) >= 25 for served in dying)


def test_with_too_few_slots_stale_ticks_are_dropped_and_every_cluster_still_has_its_turn():
    outcome = serve(many(200, seconds=30), SHIPPED, HOURS)  # 20 slots do 80 of 200 ticks
    served = list(outcome.clusters.values())
    assert all(each.dropped for each in served)
    assert max(max(each.ages) for each in served) <= SHIPPED.oldest
    begun = [len(each.begun) for each in served]
    assert min(begun) > 0.2 * max(begun)  # oldest first and stale dropped: not equal, and nobody starves


def test_a_fleet_that_grows_all_at_once_is_served_in_time_because_late_runs_make_one_iteration():
    growing = {
        f"growing-{place}": SimulatedCluster(
            kind="growing", first=place * 120 / 200, duration=lambda _: 110.0, iteration=0.5
        )
        for place in range(200)
    }
    outcome = serve(growing, SHIPPED, HOURS)
    assert max(each.longest_gap for each in outcome.clusters.values()) < 2 * 120 + 15
    assert not any(each.dropped for each in outcome.clusters.values())


def test_a_cluster_has_one_run_at_a_time_however_many_alerts_come():
    busy = SimulatedCluster(kind="busy", first=0, duration=lambda _: 60, urgent=tuple(range(100, 700, 10)))
    outcome = serve({"busy": busy}, SHIPPED, HOURS)
    assert outcome.most_slots == 1

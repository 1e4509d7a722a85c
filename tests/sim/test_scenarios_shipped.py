"""The scenarios that are shipped come true; and where they would not, they say so."""

from dataclasses import replace

import pytest

from nodefleet.engine import decide as deciding
from nodefleet.engine.fleet_limits import share_new_nodes
from nodefleet.model.alerts import AlertKind
from nodefleet.scheduling.templates import TemplateSource
from nodefleet_tools.sim.playing import play
from nodefleet_tools.sim.scenario_result import MarkKind
from nodefleet_tools.sim.scenarios.reading import find, read, shipped
from support.played_days import shipped_day

LARGEST = 8  # nodes of the pool of tenant-shares


@pytest.mark.parametrize("name", sorted(shipped()))
def test_what_a_scenario_expects_comes_true(name):
    day = shipped_day(name)
    assert [check for check in day.checks if not check.holds] == []
    assert day.broken == ()
    assert day.holds


# ── the shop's day ───────────────────────────────────────────────────────────────────────────────────────────────


def test_the_shops_day_saves_forty_percent_with_no_more_violations_and_capacity_within_three_minutes():
    day = shipped_day("shop-day")
    five = day.against(5)
    assert five.saved_percent(day.figures.usd) >= 40
    assert day.figures.violation_minutes <= five.violation_minutes
    assert day.figures.decision_to_ready_seconds <= 180
    assert five.usd == pytest.approx(5 * 24 * 0.0208)


def test_the_shops_day_tells_its_story_in_order():
    day = shipped_day("shop-day")
    by_signal = [each.by for each in day.decided]
    assert by_signal[0] == "predictive"
    assert by_signal.index("replace") < by_signal.index("calm") < len(by_signal) - 1
    assert by_signal[-1] == "calm"
    told = [mark.text for mark in day.marks if mark.kind is MarkKind.HAPPENED]
    assert [text.split()[0] for text in told] == ["EC2", "The", "The"]
    assert day.told.count(AlertKind.DRAIN_BLOCKED) == 0


# ── the expectations bite ────────────────────────────────────────────────────────────────────────────────────────


def changed(name: str, **parts: object):
    return play(replace(read(find(name)).scenario, compare=(), **parts))


def failing(day) -> set[str]:
    return {check.what for check in day.checks if not check.holds}


def policy_of(name: str, **changes: object) -> dict:
    return {**read(find(name)).scenario.policy, **changes}


def test_without_its_announcement_the_release_storm_keeps_jobs_waiting():
    unannounced = policy_of("release-storm", adaptive={})
    assert {"success", "p99 wait"} <= failing(changed("release-storm", policy=unannounced))


def test_by_the_classic_rules_and_without_urgent_runs_the_morning_spike_keeps_jobs_waiting():
    classic = policy_of("morning-spike", strategy="classic")
    assert {"p99 wait", "violation"} <= failing(
        changed("morning-spike", policy=classic, history=None, urgent_runs=False)
    )


def test_by_the_classic_rules_without_headroom_and_urgent_runs_the_failover_keeps_jobs_waiting():
    scenario = read(find("region-failover")).scenario
    bare = policy_of("region-failover", strategy="classic", headroom={})
    few = replace(scenario.cluster, workers=5)
    assert "violation" in failing(changed("region-failover", policy=bare, cluster=few, urgent_runs=False))


def test_with_a_fleet_that_may_not_grow_the_flash_sale_fails():
    scenario = read(find("flash-sale")).scenario
    assert "violation" in failing(changed("flash-sale", policy={**scenario.policy, "limits": {"min": 2, "max": 3}}))


def test_headroom_takes_the_wait_away_and_costs_less_than_half_as_much_again():
    scenario = read(find("headroom")).scenario
    without = play(replace(scenario, policy={**scenario.policy, "headroom": {}}))
    kept = shipped_day("headroom").figures
    assert (kept.longest_pod_wait_seconds, without.figures.longest_pod_wait_seconds) == (0, 79)
    assert (round(kept.node_hours, 1), round(without.figures.node_hours, 1)) == (17.4, 12.8)


def test_warm_instances_halve_the_wait_for_a_node_and_cost_their_disks():
    scenario = read(find("warm-pool")).scenario
    without = play(replace(scenario, policy={**scenario.policy, "warm": {}}))
    kept = shipped_day("warm-pool").figures
    assert (kept.longest_pod_wait_seconds, without.figures.longest_pod_wait_seconds) == (49, 99)
    assert (kept.launched, without.figures.launched) == (0, 9)
    assert round(kept.node_hours, 1) == round(without.figures.node_hours, 1) == 17.3
    assert round(kept.warm_hours, 1) == 13.7


def test_without_it_all_nodes_that_consolidation_gives_back_stay_half_full():
    empty = policy_of("consolidation", consolidation={"mode": "empty"})
    day = changed("consolidation", policy=empty)
    assert {"final nodes", "shrinks", "node hours", "usd"} <= failing(day)
    assert round(day.figures.node_hours, 1) == 18.0


def test_by_the_prices_alone_jobs_wait_for_a_type_that_ec2_lacks(monkeypatch):
    """Broken on purpose: no type counts as short."""
    monkeypatch.setattr(TemplateSource, "_is_short", lambda *_: False)
    assert {"running pods of train at 10:00", "longest pod wait"} <= failing(changed("pool-choice"))


def test_one_node_at_a_time_no_region_is_drained_within_five_minutes():
    one_by_one = policy_of("failover-origin", budgets={"removals": 1})
    assert "ready workers at 15:11" in failing(changed("failover-origin", policy=one_by_one))


def test_by_the_order_of_the_pools_alone_pods_of_high_priority_wait(monkeypatch):
    """Broken on purpose: no pool's pods outrank those of another."""
    monkeypatch.setattr(deciding, "find_outranking", lambda *_: {})
    assert "running pods of checkout at 08:30" in failing(changed("pod-priorities"))


def test_without_shares_the_team_whose_pods_came_first_gets_nearly_all():
    day = changed("tenant-shares", policy=policy_of("tenant-shares", tenants={}))
    assert {"running pods of index at 10:45", "running pods of inbox at 10:45"} <= failing(day)


def test_a_share_that_is_not_lent_leaves_pods_waiting(monkeypatch):
    """Broken on purpose: each team gets nodes up to its share only, though the other asks for none."""

    def cut(contexts, *given):
        shares, tenants = share_new_nodes(contexts, *given), contexts[0].policy.tenants
        ((pool, pending),) = shares.pending.items()
        owners = [node.pods[0].namespace for node in pending.new]
        most = {name: LARGEST * tenants.share_of(name) / sum(tenants.shares.values()) for name in owners}
        new = tuple(node for at, node in enumerate(pending.new) if owners[:at].count(owners[at]) < most[owners[at]])
        return replace(shares, pending={pool: replace(pending, new=new)})

    monkeypatch.setattr(deciding, "share_new_nodes", cut)
    assert {"running pods of inbox at 08:30", "running pods of inbox at 13:15"} <= failing(changed("tenant-shares"))


def test_shares_that_are_turned_round_are_noticed():
    turned = policy_of("tenant-shares", tenants={"shares": {"search": 1, "mail": 3}})
    assert {"running pods of index at 10:45", "running pods of inbox at 10:45"} <= failing(
        changed("tenant-shares", policy=turned)
    )


def test_shares_that_hold_in_each_pool_only_leave_the_pool_that_comes_later_without_nodes(monkeypatch):
    """Broken on purpose: nothing is kept for the pools that are decided later."""
    monkeypatch.setattr(deciding, "share_new_nodes", lambda *given: replace(share_new_nodes(*given), kept={}))
    assert {"running pods of index at 10:45", "running pods of inbox at 10:45"} <= failing(changed("tenant-pools"))

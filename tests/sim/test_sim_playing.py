"""A scenario is played: what is measured is what happened in the world."""

from dataclasses import replace
from datetime import timedelta
from math import inf

import pytest

from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Action
from nodefleet.model.inventory import Market
from nodefleet_tools.sim.figures import figures
from nodefleet_tools.sim.playing import play
from nodefleet_tools.sim.recording import Recorder
from nodefleet_tools.sim.scenario_result import Fixed, MarkKind, Standing
from nodefleet_tools.sim.scenarios.staging import stage
from nodefleet_tools.sim.scenarios.tracing import with_trace
from nodefleet_tools.sim.traces import read_trace
from support.played_days import played, scenario
from support.wording import assert_wording

SPIKE = [{"kind": "stairs", "points": {"12:00": 100, "12:05": 300}}]


def web(load: list[object], **parts: object) -> list[dict[str, object]]:
    replicas = {"min": 6, "max": 24}
    return [{"workload": "web", "per_pod": 25, "replicas": replicas, "load": load, **parts}]


def test_a_calm_half_hour_costs_what_its_workers_cost(tmp_path):
    calm = played(tmp_path, compare=[3])
    assert calm.figures.node_hours == pytest.approx(1.5)
    assert calm.figures.usd == pytest.approx(0.5 * (0.0208 + 2 * 0.0063))
    on_demand, spot = (pytest.approx(0.5 * 3 * price) for price in (0.0208, 0.0063))
    assert calm.fixed == (Fixed(nodes=3, usd=on_demand, violation_minutes=0.0, room=300.0, spot_usd=spot),)
    assert (calm.figures.grows, calm.figures.shrinks, calm.figures.launched) == (0, 0, 0)
    assert calm.figures.violation_minutes == 0
    assert not calm.broken


def test_the_same_seed_plays_the_same_and_another_one_does_not(tmp_path):
    load = [*SPIKE, {"kind": "noise", "percent": 5}]
    found = scenario(tmp_path, services=web(load), compare=[3]).scenario
    assert play(found) == play(found)
    assert play(found).frames != play(replace(found, seed=2)).frames


def test_a_spike_is_met_with_nodes_and_every_figure_of_it_is_measured(tmp_path):
    spike = played(tmp_path, services=web(SPIKE), compare=[3, 6])
    (grown, *_) = spike.decided
    assert (grown.action, grown.before, grown.to, grown.by, grown.restoring) == (Action.GROW, 3, 5, "pods", False)
    ours, three, six = spike.figures, *spike.fixed
    assert 0 < ours.violation_minutes < 5
    assert three.violation_minutes > 20  # it never gets there
    assert six.violation_minutes <= ours.violation_minutes
    assert ours.launched == 2
    assert 40 < ours.decision_to_ready_seconds < 120
    assert ours.typical_to_ready_seconds <= ours.decision_to_ready_seconds
    ready = next(frame.at for frame in spike.frames if frame.ready == 5)
    assert (ready - grown.at).total_seconds() == pytest.approx(ours.decision_to_ready_seconds, abs=10)
    assert 60 < ours.longest_pod_wait_seconds < 300
    assert ours.most_nodes == 5
    assert ours.final_nodes == 5


def test_the_bill_is_what_each_machine_cost_while_it_ran(tmp_path):
    spike = played(tmp_path, services=web(SPIKE))
    half, rest = 0.5, (spike.ends - spike.decided[0].at).total_seconds() / 3600
    assert spike.figures.node_hours == pytest.approx(3 * half + 2 * rest)
    assert spike.frames[-1].usd == pytest.approx(spike.figures.usd)
    spot = sum(worker.market is Market.SPOT for worker in spike.frames[-1].workers)
    assert spike.figures.spot_percent == pytest.approx(100 * (2 * half + (spot - 2) * rest) / (3 * half + 2 * rest))


def test_what_waits_is_carried_and_its_wait_is_counted(tmp_path):
    load = [{"kind": "stairs", "points": {"12:00": 100, "12:05": 600, "12:10": 50}}]
    services = web(load, replicas=None, gives_up_after="2m")
    over = played(tmp_path, services=services, policy={"limits": {"min": 3, "max": 3}})
    highest = max(frame.backlog for frame in over.frames)
    assert highest == pytest.approx((600 - 150) * 300, rel=0.02)
    assert over.figures.p99_wait_seconds == pytest.approx(highest / 150, rel=0.05)
    came = 100 * 300 + 600 * 300 + 50 * 1200
    too_late = 100 * (1 - over.figures.success_percent / 100) * came / 100
    assert 0 < too_late < came
    assert over.frames[-1].violated


def test_without_a_service_there_is_nothing_to_wait_for(tmp_path):
    bare = played(tmp_path, services=[])
    assert (bare.figures.success_percent, bare.figures.p99_wait_seconds, bare.slo_ms) == (None, None, None)
    assert bare.frames[0].room is None


def test_the_days_before_teach_the_predictive_signal(tmp_path):
    load = [{"kind": "daily", "points": {"12:45": 90, "13:10": 260, "14:00": 260, "15:00": 90}}]
    parts = {"lasts": "30m", "starts": "2026-11-19T12:40:00Z", "services": web(load), "cluster": {"workers": 2}}
    known = played(tmp_path, **parts, history={"days": 3, "workers": 5})
    assert [(each.by, f"{each.at:%H:%M}") for each in known.decided[:1]] == [("predictive", "12:50")]
    assert "3 workdays" in known.decided[0].reason
    unknown = played(tmp_path, **parts)
    assert "predictive" not in {each.by for each in unknown.decided}


def test_an_interruption_heals_and_how_long_it_took_is_told(tmp_path):
    taken = played(tmp_path, events=[{"kind": "spot-interruption", "at": "12:10"}])
    assert 40 < taken.figures.healed_seconds <= 130
    assert taken.told.count(AlertKind.INTERRUPTED) == 1
    warned = [mark for mark in taken.marks if mark.kind is MarkKind.HAPPENED]
    assert_wording(warned[0].text)
    (replaced,) = taken.decided
    assert replaced.restoring
    assert (taken.figures.grows, taken.figures.launched, taken.figures.removed) == (0, 1, 0)


def test_what_never_heals_is_infinite_and_not_left_out(tmp_path):
    events = [
        {"kind": "capacity-missing", "at": "12:01", "lasting": "1h"},
        {"kind": "spot-interruption", "at": "12:10"},
    ]
    taken = played(tmp_path, events=events, policy={"limits": {"min": 3, "max": 6}})
    assert taken.figures.healed_seconds == inf
    assert taken.figures.final_nodes == 2


def test_a_drain_is_timed_from_its_decision_to_its_end(tmp_path):
    services = web([{"kind": "steady", "rate": 40}], replicas={"min": 3, "max": 9})
    calm = played(tmp_path, services=services)
    (shrunk,) = calm.decided
    removed = next(mark for mark in calm.marks if mark.kind is MarkKind.REMOVED)
    assert (shrunk.action, shrunk.by) == (Action.SHRINK, "calm")
    assert calm.figures.longest_drain_seconds == (removed.at - shrunk.at).total_seconds()
    assert_wording(removed.text)
    standings = [worker.standing for frame in calm.frames for worker in frame.workers]
    assert Standing.DRAINING in standings
    assert Standing.ENDING in standings


def test_marks_come_in_order_and_do_not_repeat_their_title(tmp_path):
    spike = played(tmp_path, services=web(SPIKE), events=[{"kind": "spot-interruption", "at": "12:20"}])
    assert [mark.at for mark in spike.marks] == sorted(mark.at for mark in spike.marks)
    grown = next(mark for mark in spike.marks if mark.kind is MarkKind.GROW)
    assert grown.title == "3 → 5"
    assert_wording(grown.text)
    assert "Growing" not in grown.text


def test_progress_ends_with_everything_played(tmp_path):
    told: dict[str, float] = {}
    found = scenario(tmp_path, compare=[2], history={"days": 1}).scenario
    play(found, progress=lambda what, done: told.update({what: done}))
    assert told == {"the days before": 1.0, "small": 1.0, "a fixed fleet of 2": 1.0}


def test_long_scenarios_have_a_frame_every_thirty_seconds(tmp_path):
    short, long = played(tmp_path), played(tmp_path, lasts="150m")
    assert short.frames[1].at - short.frames[0].at == timedelta(seconds=10)
    assert long.frames[1].at - long.frames[0].at == timedelta(seconds=30)
    assert (long.frames[0].at, long.frames[-1].at) == (long.starts, long.ends)


def test_a_short_violation_is_in_the_frame_after_it(tmp_path):
    load = [{"kind": "stairs", "points": {"12:00": 100, "12:05:05": 290, "12:05:15": 100}}]
    short = played(tmp_path, lasts="150m", services=web(load))
    assert short.figures.violation_minutes == pytest.approx(10 / 60)
    assert [f"{frame.at:%H:%M:%S}" for frame in short.frames if frame.violated] == ["12:05:30"]


def test_a_fixed_fleet_is_on_demand_and_has_only_what_happens_to_the_load(tmp_path):
    events = [
        {"kind": "spot-interruption", "at": "12:05"},
        {"kind": "workload-scaled", "at": "12:10", "workload": "exporter", "replicas": 1},
        {"kind": "person-scales", "at": "12:15", "nodes": 5, "lasting": "10m", "because": "a test"},
    ]
    both = played(tmp_path, events=events, compare=[3])
    assert both.fixed[0].usd == pytest.approx(0.5 * 3 * 0.0208)
    found = scenario(tmp_path).scenario
    scene = stage(found, fixed=4)
    assert {machine.market for machine in scene.world.workers()} == {Market.ON_DEMAND}
    recorder = Recorder(scene)
    scene.world.settle()
    scene.world.clock.advance_to(found.ends)
    assert figures(recorder).node_hours == pytest.approx(2.0)


# ── somebody's own load ──────────────────────────────────────────────────────────────────────────────────────────


def hourly(tmp_path, hours: int):
    path = tmp_path / "mine.csv"
    path.write_text("\n".join(f"{3600 * hour},{hour % 24}" for hour in range(hours + 1)))
    return read_trace(path)


def test_a_trace_takes_the_place_of_the_load_at_its_height(tmp_path):
    found = scenario(tmp_path, expect={"grows": {"at_most": 0}}, lasts="90m")
    traced = with_trace(found, "mine.csv", hourly(tmp_path, 1)).scenario
    assert traced.lasts == timedelta(hours=1)
    assert traced.services[0].load[0].peak == 100
    assert traced.expect.grows is None
    assert "mine.csv" in traced.about


def test_a_long_trace_brings_its_own_history(tmp_path):
    found = scenario(tmp_path, history={"days": 2}, lasts="12h")
    long = with_trace(found, "mine.csv", hourly(tmp_path, 60)).scenario
    assert (long.history.days, long.lasts) == (2, timedelta(hours=12))
    assert long.services[0].load[0].before == timedelta(days=2)
    short = with_trace(found, "mine.csv", hourly(tmp_path, 47)).scenario
    assert short.history is None


def test_what_happens_after_the_trace_does_not_happen(tmp_path):
    events = [{"kind": "spot-interruption", "at": clock} for clock in ("12:20", "13:20")]
    found = scenario(tmp_path, events=events, lasts="90m")
    assert [event.at for event in with_trace(found, "mine.csv", hourly(tmp_path, 1)).scenario.events] == ["12:20"]

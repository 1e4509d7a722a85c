"""The two sources: a simulated day paced by a wall clock, and a poll of the real thing while somebody watches."""

import json
import time

import pytest

from nodefleet.errors import UnavailableError
from nodefleet_tools.cli.environment import InputError
from nodefleet_tools.dashboard.decisions import Filter
from nodefleet_tools.dashboard.demo import DemoSource
from nodefleet_tools.dashboard.live import LiveSource
from support.played_days import scenario
from support.sim_connections import SimConnection
from support.wording import assert_wording
from support.worlds import shop

SLOW = 60  # seconds until a test gives up


def update(source, after=0):
    """The next update with a snapshot or an error, and its number."""
    ends = time.monotonic() + SLOW
    while time.monotonic() < ends:
        found = source.updates(after, 1)
        if found is None:
            continue
        after, content = found
        plain = json.loads(content)
        if "snapshot" in plain or "error" in plain:
            return after, plain
    raise AssertionError("no update")


@pytest.fixture
def demo(tmp_path):
    source = DemoSource(scenario(tmp_path), speed=300)
    yield source
    source.close()
    assert not source._thread.is_alive()


def test_the_simulated_day_goes_on_by_itself(demo):
    number, first = update(demo)
    _, second = update(demo, number)
    assert second["snapshot"]["at"] > first["snapshot"]["at"]
    assert second["demo"]["speed"] == 300


def test_it_can_stand_still_and_be_steered_meanwhile(demo):
    update(demo)
    demo.command({"kind": "speed", "speed": 0}, "ann")
    number, held = update(demo)
    assert demo.updates(number, 0.6) is None
    demo.command({"kind": "scale", "pool": "default", "nodes": 5, "minutes": 20, "reason": "try"}, "ann")
    demo.command({"kind": "speed", "speed": 300}, "ann")
    ends = time.monotonic() + SLOW
    while time.monotonic() < ends:
        number, found = update(demo, number)
        if found["snapshot"]["pools"][0]["capacity"] == 5:
            break
    assert found["snapshot"]["pools"][0]["capacity"] == 5
    assert found["snapshot"]["at"] - held["snapshot"]["at"] < 300  # by an urgent run, not by a later tick
    assert demo.decisions(Filter(action="grow"))["rows"]


def test_a_command_shows_at_once_though_the_simulation_stands_still(demo):
    update(demo)
    demo.command({"kind": "speed", "speed": 0}, "ann")
    number, held = update(demo)
    demo.command({"kind": "scale", "pool": "default", "nodes": 5, "minutes": 20, "reason": "try"}, "ann")
    number, found = update(demo, number)
    assert found["snapshot"]["at"] == held["snapshot"]["at"]
    assert [each["by"] for each in found["snapshot"]["commands"]] == ["ann"]


def test_skips_add_up_and_the_moment_they_lead_to_is_shown_even_if_it_stands_still(demo):
    number, first = update(demo)
    demo.command({"kind": "speed", "speed": 0}, "ann")
    for _ in range(2):
        demo.command({"kind": "skip", "minutes": 5}, "ann")
    ends = time.monotonic() + SLOW
    found = first
    while found["snapshot"]["at"] < first["snapshot"]["at"] + 600 and time.monotonic() < ends:
        number, found = update(demo, number)
    assert found["snapshot"]["at"] >= first["snapshot"]["at"] + 600


def test_the_autoscalers_own_cost_is_counted(demo):
    update(demo)
    assert demo.money()["periods"]["today"]["own_usd"] is not None


def test_a_node_is_protected_and_no_more(demo):
    number, found = update(demo)
    name = found["snapshot"]["nodes"][0]["name"]
    for on in (True, False):
        demo.command({"kind": "protect", "node": name, "on": on}, "ann")
        number, found = update(demo, number)
        number, found = update(demo, number)
        (node,) = [each for each in found["snapshot"]["nodes"] if each["name"] == name]
        assert node["protected"] is on
    with pytest.raises(InputError) as caught:
        demo.command({"kind": "protect", "node": "unknown", "on": True}, "ann")
    assert_wording(str(caught.value))


def test_it_can_be_skipped_and_it_ends(demo):
    update(demo)
    assert "minutes" in demo.command({"kind": "skip", "minutes": 60}, "ann")
    number = 0
    ends = time.monotonic() + SLOW
    found = {"demo": {"done": False}}
    while time.monotonic() < ends and not found["demo"]["done"]:
        number, found = update(demo, number)
    assert found["demo"]["done"]
    assert found["snapshot"]["at"] == pytest.approx(found["demo"]["ends"])


@pytest.mark.parametrize("given", [{"kind": "speed", "speed": 7}, {"kind": "skip", "minutes": 0}, {"kind": "skip"}])
def test_what_a_demo_cannot_do(demo, given):
    with pytest.raises(InputError):
        demo.command(given, "ann")


# ── the real thing ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_nothing_is_asked_while_nobody_watches():
    connection = SimConnection(shop().world)
    source = LiveSource(connection, every=0.05)
    time.sleep(0.3)
    assert connection.log == []
    _, found = update(source)
    assert found["snapshot"]["cluster"] == "shop"
    source.close()


def test_a_failure_is_shown_and_the_next_look_succeeds():
    world = shop().world
    connection = SimConnection(world)
    source = LiveSource(connection, every=0.05)
    world.away("store")
    number, found = update(source)
    assert "DynamoDB" in found["error"]
    world.back("store")
    while "error" in found:
        number, found = update(source, number)
    assert found["snapshot"]["nodes"]
    source.close()


def test_a_bug_does_not_end_the_poll(monkeypatch):
    source = LiveSource(SimConnection(shop().world), every=0.05)
    broken = [KeyError("oops"), UnavailableError("EC2", "away")]
    refresh = source.refresh
    monkeypatch.setattr(source, "refresh", lambda: (_ for _ in ()).throw(broken.pop()) if broken else refresh())
    _, found = update(source)
    while "error" in found:
        _, found = update(source, _)
    assert not broken
    source.close()

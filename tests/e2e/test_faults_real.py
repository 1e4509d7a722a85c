"""The rows of "When parts fail", with parts that really fail: stopped, hung or slow, and started again.

Nobody helps: what has to happen when a part returns is done by the schedule and by EC2's own events.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from e2e.parts.part import Part
from e2e.site.hardware import is_spot
from e2e.site.policy import compressed
from e2e.site.site import Site
from e2e.site.waiting import until
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Action, DecisionRecord
from nodefleet.model.names import LEAVING_TAINT, Metric
from nodefleet.model.state import Level
from nodefleet.reconcile.audit import MAJOR
from support.function_output import Printed
from support.lambda_runtime import FunctionError

HOLD = 30  # seconds without shrinking after a part has returned: time to grow meanwhile on a busy instance too
LOOKS = 3  # while a part is away; two calm readings are enough to shrink when none is
NOTICE = 600.0  # seconds: EC2 takes no node while a test lasts, so it does not matter how long that is
WEB, SALE = "web", "sale"


def fleet(least: int, gap: float = 4.0) -> dict[str, Any]:
    """`gap` intervals without an iteration are a silence."""
    return compressed(
        limits={"min": least, "max": 8},
        cooldown={"up": 4, "down": 2},
        sustain={"down": {"kind": "readings", "count": 2}},
        trust={"stale_after": 8, "recovery_hold": HOLD, "gap": gap},
        removal={"notice": NOTICE, "force_after": NOTICE - 10},
    )


@contextmanager
def away(part: Part) -> Iterator[None]:
    part.stop()
    try:
        yield
    finally:
        part.start()


@contextmanager
def hung(part: Part) -> Iterator[None]:
    part.pause()
    try:
        yield
    finally:
        part.resume()


def now() -> datetime:
    return datetime.now(UTC)


def at_level(site: Site, level: Level, since: datetime, looks: int = 1) -> list[DecisionRecord]:
    """So many looks at this level since then; waited for."""

    def found() -> list[DecisionRecord]:
        seen = [each for each in site.decisions() if each.at > since and each.decision.level is level]
        return seen if len(seen) >= looks else []

    return until(found, f"{looks} looks at level {level.value}")


def decided(site: Site, action: Action, since: datetime) -> list[DecisionRecord]:
    return [each for each in site.decisions() if each.at > since and each.decision.pools[0].action is action]


def machines(site: Site) -> set[str]:
    return {each["InstanceId"] for each in site.hardware.instances()}


def assert_people_hear(site: Site, kind: AlertKind, words: str, since: datetime) -> None:
    """In the table and in Slack."""
    events = [each for each in site.events() if each.at >= since and each.kind is kind]
    assert any(words in each.text for each in events), events
    until(lambda: any(words in said for said in site.told()), f"Slack hears that {words!r}")


def hosts(site: Site) -> list[str]:
    """The node of each web pod that runs and was not asked to go."""
    return [pod["spec"]["nodeName"] for pod in site.workloads.running(WEB)]


def spot_with_pods(site: Site) -> str:
    spot = {each["InstanceId"] for each in site.hardware.instances() if is_spot(each)}
    return next(node for node in hosts(site) if node in spot)


# ── degraded ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_without_prometheus_the_fleet_grows_for_waiting_pods_and_shrinks_only_long_after_its_return(site: Site) -> None:
    site.load.cpu(10)
    site.load.memory(20)
    site.begin(fleet(3))
    began = now()
    with site.schedule.going_on():
        with away(site.monitoring.prometheus.part):
            site.declare(fleet(2))  # one of three has nothing to do
            at_level(site, Level.DEGRADED, began, LOOKS)
            assert decided(site, Action.SHRINK, began) == []
            assert_people_hear(site, AlertKind.DEGRADED, "Level degraded", began)
            site.workloads.deploy(SALE, 4)
            until(lambda: len(site.workloads.running(SALE)) == 4, "a node is bought for the pod that waits")
            (grown,) = decided(site, Action.GROW, began)
            assert grown.decision.level is Level.DEGRADED
            returning = now()

        back = at_level(site, Level.RECOVERY, returning)[0]
        assert_people_hear(site, AlertKind.RECOVERED, "Everything is readable again", began)
        site.workloads.scale(SALE, 5)
        until(lambda: len(site.workloads.running(SALE)) == 5, "the next pod gets its node")
        grown = decided(site, Action.GROW, back.at)[0]
        assert grown.at - back.at < timedelta(seconds=HOLD), "growing waited too"
        site.workloads.scale(SALE, 0)
        shrunk = until(lambda: decided(site, Action.SHRINK, began), "a node is given back")[0]
    assert shrunk.at - back.at >= timedelta(seconds=HOLD)
    assert any(_would_shrink(each) for each in at_level(site, Level.RECOVERY, returning)), "nobody wanted to shrink"


def _would_shrink(record: DecisionRecord) -> bool:
    return {"calm", "recovery"} <= {bound.source for bound in record.decision.pools[0].bounds}


# ── partial ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_without_the_api_server_nothing_happens_and_all_is_made_up_for_when_it_returns(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site.hardware, "notice", NOTICE)
    site.begin(fleet(4))
    site.workloads.deploy(WEB, 6, cpu="500m")
    until(lambda: len(site.workloads.running(WEB)) == 6, "all pods run")
    before, doomed, calm = machines(site), spot_with_pods(site), now()
    lost = next(iter(before - {doomed}))
    with site.schedule.going_on():
        with away(site.parts["apiserver"]):
            began = now()
            site.hardware.terminate(lost)
            site.hardware.interrupt(doomed)
            at_level(site, Level.PARTIAL, began, LOOKS)
            assert_people_hear(site, AlertKind.DEGRADED, "Level partial: Kubernetes unknown", calm)
            assert machines(site) == before - {lost}

        grown = until(lambda: decided(site, Action.GROW, began), "it grows at once")[0]
        seen = [each for each in site.decisions() if began < each.at <= grown.at]
        assert [each.decision.level is Level.PARTIAL for each in seen] == [True] * (len(seen) - 1) + [False]
        assert [each.did for each in seen[:-1]] == [()] * (len(seen) - 1)
        assert grown.decision.pools[0].target == 4
        until(lambda: doomed not in hosts(site), "the interrupted node is drained")
        assert now() - began < timedelta(seconds=NOTICE), "EC2 was quicker"
        until(lambda: len(machines(site) - before) == 2, "both are replaced")
        new = machines(site) - before
        until(lambda: new <= set(site.ready()), "their replacements are ready")
    assert_people_hear(site, AlertKind.RECOVERED, "Everything is readable again", began)


# ── major ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_without_the_table_nothing_is_scaled_but_a_doomed_node_is_drained(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site.hardware, "notice", NOTICE)
    site.begin(fleet(3, gap=2.0))
    site.workloads.deploy(WEB, 6, cpu="600m")
    until(lambda: len(site.workloads.running(WEB)) == 6, "all pods run")
    assert Counter(Counter(hosts(site)).values()) == {2: 3}, "an empty node would hold what shall wait"
    before, doomed, table = machines(site), spot_with_pods(site), site.parts["dynamodb"]
    with hung(table):
        assert_fails_for_want_of_the_table(site)
    assert site.tick()["did"] == []  # it answers again, and nothing was to be done

    began = now()
    with away(table):
        site.workloads.deploy(SALE, 1)
        until(lambda: site.workloads.unschedulable(SALE), "a pod finds no node")
        assert_fails_for_want_of_the_table(site)
        site.hardware.interrupt(doomed)
        until(lambda: len(hosts(site)) == 6 and doomed not in hosts(site), "the interrupted node's pods run elsewhere")
        assert LEAVING_TAINT in {each["key"] for each in site.nodes()[doomed]["spec"]["taints"]}
        until(lambda: _failed(site, "interruption"), "the event's function fails, so that it comes again")
        assert machines(site) == before

    with site.schedule.going_on():
        grown = until(lambda: decided(site, Action.GROW, began), "it grows at once")[0]
        assert grown.id == next(each.id for each in site.decisions() if each.at > began)
        assert grown.decision.level is not Level.NORMAL, "nobody noticed the silence"
        until(lambda: len(site.workloads.running(SALE)) == 1, "the pod runs")
        until(lambda: len(set(site.ready()) - {doomed}) >= 3, "the interrupted node is replaced")
    assert_people_hear(site, AlertKind.INTERRUPTED, f"{doomed} (", began)


def assert_fails_for_want_of_the_table(site: Site) -> None:
    before = _alarms(site)
    with pytest.raises(FunctionError, match="DynamoDB"):
        site.tick()
    until(lambda: _alarms(site) > before, "the metric behind the alarm says so")


def _alarms(site: Site) -> int:
    """How often a run has said that the level is major."""
    lines = site.functions.log("reconcile").splitlines()  # and the runtime's own words about what was raised
    said = Printed("\n".join(line for line in lines if line.startswith("{")))
    return said.metrics.get(Metric.LEVEL.value, []).count(MAJOR)


def _failed(site: Site, function: str) -> bool:
    return any(each.function == function and "DynamoDB" in each.error for each in site.functions.made)


# ── slow ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_ec2_that_is_slow_is_not_asked_twice(site: Site) -> None:
    """A run takes longer than a tick then: the next ones find it at work and leave."""
    site.begin(fleet(2))
    began = now()
    with site.aws.slow(2.5, "ec2"), site.schedule.going_on():
        site.workloads.deploy(SALE, 4)
        until(lambda: len(site.workloads.running(SALE)) == 4, "all pods run")
    assert len(machines(site)) == 4
    asked = [did for each in site.decisions() if each.at > began for did in each.did if "asked EC2" in did]
    assert len(asked) == 2
    assert any(each.answer["runs"][0]["held"] for each in site.functions.made if each.function == "reconcile")
    assert [each.error for each in site.functions.made if each.error] == []

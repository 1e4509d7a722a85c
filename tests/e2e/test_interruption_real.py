"""The Spot interruption of the first description: four workers are the least, and EC2 takes one of them."""

import time

import pytest

from e2e.site.hardware import is_spot
from e2e.site.policy import compressed
from e2e.site.site import Site
from e2e.site.waiting import until
from nodefleet.model.decision import Action, DecisionRecord
from nodefleet.model.names import LEAVING_TAINT
from nodefleet.model.operations import Create, Launch, Purpose

WEB = "web"
NOTICE = 600.0  # seconds; the test takes the instance when the time has come, however long that was
PATIENT = {"notice": NOTICE, "force_after": NOTICE - 10}


def test_a_spot_worker_that_ec2_takes_is_drained_and_replaced_on_demand(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site.hardware, "notice", NOTICE)
    site.begin(compressed(limits={"min": 4, "max": 8}, removal=PATIENT))
    assert sum(is_spot(each) for each in site.hardware.instances()) == 3
    site.workloads.deploy(WEB, 6, cpu="600m")
    until(lambda: len(site.workloads.running(WEB)) == 6, "all pods run")
    site.tick()  # 10:00: normal operation
    assert site.decisions()[-1].decision.pools[0].action is Action.HOLD
    spot = {each["InstanceId"] for each in site.hardware.instances() if is_spot(each)}
    doomed = next(pod["spec"]["nodeName"] for pod in site.workloads.running(WEB) if pod["spec"]["nodeName"] in spot)

    began = time.monotonic()
    site.hardware.interrupt(doomed)  # without the schedule: the event alone starts everything

    until(lambda: LEAVING_TAINT in _taints(site, doomed), "the interrupted node is cordoned")
    decided = until(lambda: [each for each in site.decisions() if _launches(each)][1:], "a replacement is decided")[0]
    (launch,) = _launches(decided)
    assert "min is 4, 3 are there" in decided.decision.pools[0].reason
    assert (launch.count, launch.market.value, launch.purpose) == (1, "on-demand", Purpose.RESTORE)
    until(lambda: _elsewhere(site, doomed) == 6, "its pods run elsewhere")
    assert time.monotonic() - began < NOTICE, "EC2 was quicker"
    until(lambda: len(site.ready()) == 4, "four are back")
    assert sum(is_spot(each) for each in site.hardware.instances() if each["InstanceId"] != doomed) == 2

    site.hardware.terminate(doomed)  # unless we have, as soon as it was empty
    with site.schedule.going_on():
        until(lambda: doomed not in site.nodes(), "what is left of it is gone")
    assert len(site.ready()) == 4
    assert len(site.workloads.running(WEB)) == 6
    assert [each.kind.value for each in site.events()].count("interrupted") == 1
    until(lambda: any("EC2 takes a node away" in said for said in site.told()), "Slack hears of it")
    assert [each.error for each in site.functions.made if each.error] == []


def _launches(record: DecisionRecord) -> list[Launch]:
    opened = [step.operation for step in record.decision.pools[0].plan if isinstance(step, Create)]
    return [operation for operation in opened if isinstance(operation, Launch)]


def _taints(site: Site, node: str) -> set[str]:
    return {each["key"] for each in site.nodes()[node]["spec"].get("taints", ())}


def _elsewhere(site: Site, node: str) -> int:
    return sum(pod["spec"]["nodeName"] != node for pod in site.workloads.running(WEB))

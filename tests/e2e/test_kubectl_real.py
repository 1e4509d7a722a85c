"""What an operator sees with kubectl of what we did: workers that joined, one that leaves and why, and that it is
gone."""

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from e2e.parts.recipes import program
from e2e.site.policy import compressed
from e2e.site.site import Site
from e2e.site.waiting import LONGEST, until
from nodefleet.model.names import CAPACITY_LABEL, LEAVING_TAINT, POOL_LABEL, REASON_ANNOTATION
from nodefleet.model.workload import ZONE_LABEL

Kubectl = Callable[..., str]


@pytest.fixture
def kubectl(site: Site) -> Kubectl:
    def said(*words: str) -> str:
        command = [program("kubectl"), f"--kubeconfig={site.parts.kubeconfig}", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=LONGEST).stdout  # noqa: S603

    return said


def test_the_first_workers_are_seen_as_the_template_registers_them(site: Site, kubectl: Kubectl) -> None:
    site.begin()
    nodes = json.loads(kubectl("get", "nodes", "-l", POOL_LABEL, "-o", "json"))["items"]
    labels = [node["metadata"]["labels"] for node in nodes]
    assert len({each[ZONE_LABEL] for each in labels}) == 2
    assert sorted(each[CAPACITY_LABEL] for each in labels) == ["on-demand", "spot"]
    bought = {each["InstanceId"]: each for each in site.hardware.instances()}
    for node in nodes:
        machine = bought[node["metadata"]["name"]]
        where = f"aws:///{machine['Placement']['AvailabilityZone']}/{machine['InstanceId']}"
        assert node["spec"]["providerID"] == where
    told = kubectl("get", "nodes", "--no-headers").splitlines()
    assert sorted(line.split()[1:3] for line in told) == [["Ready", "<none>"]] * 2 + [["Ready", "control-plane,master"]]


def test_a_worker_that_leaves_says_why_until_it_is_gone(site: Site, kubectl: Kubectl) -> None:
    site.begin(compressed(limits={"min": 3}))
    site.workloads.deploy("web", 3, cpu="600m", annotations={"node-fleet.test/stops-after": "6s"})
    until(lambda: len(site.workloads.running("web")) == 3, "all pods run")
    site.declare(compressed(limits={"min": 2}))
    site.load.cpu(15)
    site.load.memory(30)
    with site.schedule.going_on():
        leaving = until(lambda: _cordoned(kubectl), "a node is cordoned")
        name = leaving["metadata"]["name"]
        _sees_why(kubectl, name, leaving)
        until(lambda: name not in kubectl("get", "nodes", "-o", "name"), "the node is gone")
    assert len(site.workloads.running("web")) == 3
    with pytest.raises(subprocess.CalledProcessError) as refused:
        kubectl("get", "node", name)
    assert "NotFound" in refused.value.stderr


def _cordoned(kubectl: Kubectl) -> dict[str, Any] | None:
    nodes = json.loads(kubectl("get", "nodes", "-l", POOL_LABEL, "-o", "json"))["items"]
    return next((node for node in nodes if node["spec"].get("unschedulable")), None)


def _sees_why(kubectl: Kubectl, name: str, node: dict[str, Any]) -> None:
    (taint,) = [each for each in node["spec"]["taints"] if each["key"] == LEAVING_TAINT]
    assert taint["effect"] == "NoSchedule"
    assert "CPU 1" in node["metadata"]["annotations"][REASON_ANNOTATION]
    assert "SchedulingDisabled" in kubectl("get", "node", name, "--no-headers")
    described = until(lambda: _described(kubectl, name), "its event is there")
    assert "Unschedulable:      true" in described
    assert f"{LEAVING_TAINT}={taint['value']}:NoSchedule" in described
    assert "leaves: " in described


def _described(kubectl: Kubectl, name: str) -> str:
    text = kubectl("describe", "node", name)
    return text if "NodeFleetLeaving" in text else ""

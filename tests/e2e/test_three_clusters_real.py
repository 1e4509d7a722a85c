"""One deployment, three real control planes: a cluster that hangs and one that is gone delay no other.

Each cluster has its own etcd and API server. The functions are processes, as many as messages are in work, as Lambda
starts them; the queue's batches are those that SQS would hand over. AWS is moto, over HTTP. One API server is stopped
in the middle of everything (SIGSTOP: connections are taken and never answered), another ends.
"""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from e2e.parts.needed import say
from e2e.parts.running import RunningParts, running
from e2e.site.functions import Functions, Settings, lambda_at
from nodefleet import settings
from nodefleet.adapters.aws.session import DUALSTACK_VARIABLE
from nodefleet.handlers import FUNCTION
from nodefleet.model.snapshot import RegisteredCluster
from support.deployed import Deployed, account, deployment
from support.ec2_fakes import REGION
from support.moto_over_http import moto_over_http
from support.real_cluster_world import Admin, narrow_token

__all__ = ["account"]

LIMIT = 60.0  # seconds of a function: a run that hangs ends itself before
MORE = 10.0  # seconds that a healthy cluster's run may take beyond its usual time: the machine has other work
POLICY = {"limits": {"min": 2, "max": 4}, "burst": {"every": 2, "budget": 5}}


@dataclass(frozen=True)
class Fleet:
    deployed: Deployed
    planes: dict[str, RunningParts]  # by cluster
    functions: Functions

    def tick(self, cluster: str) -> tuple[float, dict[str, Any]]:
        """A tick of the queue; how long it took, and the answer."""
        body = {"cluster": cluster, "scheduled": True, "tick": datetime.now(UTC).isoformat()}
        sent = str(int(time.time() * 1000))
        attributes = {"SentTimestamp": sent, "MessageGroupId": cluster}
        record = {"eventSource": "aws:sqs", "messageId": sent, "body": json.dumps(body), "attributes": attributes}
        began = time.monotonic()
        answer = self.functions.invoke("reconcile", {"Records": [record]})
        return time.monotonic() - began, dict(answer)

    def tick_all(self) -> dict[str, tuple[float, dict[str, Any]]]:
        """All at the same time, as many functions as clusters."""
        with ThreadPoolExecutor(len(self.planes)) as threads:
            return dict(zip(self.planes, threads.map(self.tick, self.planes), strict=True))

    def level(self, cluster: str) -> str:
        (last,) = self.deployed.history(cluster).decisions(1)
        return last.decision.level.value


@pytest.fixture
def fleet(account: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Fleet]:
    with ExitStack() as stack:
        deployed = stack.enter_context(deployment(monkeypatch, tmp_path, clusters=3))
        aws = stack.enter_context(moto_over_http())
        queue = deployed.client("sqs").create_queue(QueueName="three.fifo", Attributes={"FifoQueue": "true"})
        planes = {}
        for name, site in deployed.sites.items():
            parts = planes[name] = stack.enter_context(running("apiserver", folder=tmp_path / name))
            admin = Admin(str(parts.kubeconfig))
            login = {"server": admin.server, "token": narrow_token(str(parts.kubeconfig)), "ca": admin.ca}
            deployed.put_secret(f"node-fleet/{name}/kubernetes", login)
            deployed.deploy(replace(site, server=SimpleNamespace(url=admin.server)))
            deployed.declare(site, POLICY)
            FUNCTION.registry().put(RegisteredCluster(name=name, by="anna", at=deployed.clock()))
        environment = {
            settings.TABLE: deployed.table,
            settings.CLUSTERS: "*",
            settings.BUCKET: deployed.bucket,
            settings.QUEUE: queue["QueueUrl"],
            DUALSTACK_VARIABLE: "none",
            "AWS_ENDPOINT_URL": aws.address,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_LAMBDA_FUNCTION_NAME": "node-fleet-reconcile",
        }
        made = {"reconcile": Settings(environment=environment, limit=LIMIT)}
        functions = stack.enter_context(lambda_at(tmp_path / "functions", made))
        yield Fleet(deployed, planes, functions)
        for parts in planes.values():
            parts["apiserver"].resume()


def test_a_cluster_that_hangs_and_one_that_is_gone_delay_no_other(fleet: Fleet) -> None:
    well, hangs, gone = fleet.planes
    fleet.tick_all()  # cold starts
    usual = fleet.tick_all()
    assert {fleet.level(cluster) for cluster in fleet.planes} == {"normal"}
    assert [len(site.ids()) for site in fleet.deployed.sites.values()] == [2, 2, 2], "each has its min"

    fleet.planes[hangs]["apiserver"].pause()
    fleet.planes[gone]["apiserver"].stop()
    began = datetime.now(UTC)
    with ThreadPoolExecutor(2) as threads:
        troubled = [threads.submit(fleet.tick, cluster) for cluster in (hangs, gone)]
        ticks, longest = 0, 0.0
        while ticks < 2 or not all(each.done() for each in troubled):
            took, answer = fleet.tick(well)
            ticks, longest = ticks + 1, max(longest, took)
            assert took < usual[well][0] + MORE, f"its run took {took:.1f} s, {usual[well][0]:.1f} s before"
            assert answer["batchItemFailures"] == []
            assert answer["runs"][0]["cluster"] == well
        took_hanging, took_gone = (each.result()[0] for each in troubled)
    assert (fleet.level(well), fleet.level(hangs), fleet.level(gone)) == ("normal", "partial", "partial")
    assert took_hanging < LIMIT
    assert took_gone < LIMIT
    say(f"healthy {usual[well][0]:.1f} s before, at most {longest:.1f} s in {ticks} ticks")
    say(f"hanging {took_hanging:.1f} s, gone {took_gone:.1f} s")
    decided = [each.at for each in fleet.deployed.history(well).decisions(50) if each.at > began]
    assert len(decided) >= ticks, "every tick of the healthy cluster decided"

    fleet.planes[hangs]["apiserver"].resume()
    fleet.planes[gone]["apiserver"].start()
    fleet.tick_all()
    assert {fleet.level(cluster) for cluster in fleet.planes} <= {"normal", "recovery"}

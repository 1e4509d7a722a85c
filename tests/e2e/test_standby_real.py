"""A region fails and its standby takes over: two real control planes, of which one goes away.

Each region has its own etcd, API server and, here, scheduler, controllers and kubelets (KWOK). The shipped functions
run in this process on moto's AWS, and a pause moves the clock, so minutes of waiting take no time. How the other region
is tells a page that asks its control plane; page and control plane end together. Nothing else of it is asked.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from e2e.parts.kwok import ALIVE_LABEL
from e2e.parts.needed import say
from e2e.parts.part import LOOPBACK
from e2e.parts.running import RunningParts, running
from e2e.site.waiting import until
from e2e.site.workloads import Workloads
from nodefleet.adapters.kubernetes.resources import NODES
from nodefleet.adapters.prometheus import NEWEST
from nodefleet.adapters.sources.http_json import HttpDocuments
from nodefleet.model.alerts import AlertKind
from nodefleet.model.snapshot import AUTOSCALER, Scale
from nodefleet_tools.cli import main
from support import k8s_objects
from support.deployed import Deployed, account, deployment
from support.deployed_site import Site, name_of
from support.prometheus_stand_in import Http, one, vector
from support.real_cluster_world import Admin, narrow_token

__all__ = ["account"]

ITS_NODES, MIN, MAX = 3, 2, 8


class HealthPage:
    """Of a region: how many of its nodes are ready, by its own control plane."""

    def __init__(self, ready: Callable[[], int]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # the name that http.server calls
                body = json.dumps({"ready": ready()}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Nothing on the terminal."""

        self._server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        self.url = f"http://{LOOPBACK}:{self._server.server_port}/"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@dataclass(frozen=True)
class Region:
    deployed: Deployed
    site: Site
    parts: RunningParts
    admin: Admin

    def join(self) -> None:
        """Every instance that runs is a node of the control plane; KWOK is its kubelet."""
        there = {node["metadata"]["name"] for node in self.admin.items(NODES)}
        for instance in sorted(self.site.ids()):
            if name_of(instance) not in there:
                made = k8s_objects.node(name_of(instance), instance=instance, labels={ALIVE_LABEL: "yes"})
                del made["metadata"]["creationTimestamp"]
                self.admin.do(NODES.create(made))
                self.admin.set_status(f"/api/v1/nodes/{made['metadata']['name']}", made["status"])

    def ready(self) -> int:
        statuses = [node["status"].get("conditions", ()) for node in self.admin.items(NODES)]
        return sum(any(each["type"] == "Ready" and each["status"] == "True" for each in found) for found in statuses)

    def tick(self) -> None:
        """The next run of the schedule. What was launched has joined before the one after it."""
        self.site.clock.passes(seconds=30)
        answer = self.deployed.reconcile({"cluster": self.site.name})
        assert [each["cluster"] for each in answer["runs"]] == [self.site.name]
        self.join()

    def answer(self, query: str) -> Http:
        """As a Prometheus that scrapes this region's nodes."""
        names, now = [node["metadata"]["name"] for node in self.admin.items(NODES)], self.site.clock()
        if query == NEWEST:
            return one(3, at=now)
        if not names:
            return vector(at=now)
        if "by (node)" in query:
            return vector(*(({"node": name}, "50") for name in names), at=now)
        return one(len(names) if query.startswith("count(") else self.site.cpu, at=now)

    def orders(self) -> list[Scale]:
        return [each for each in self.deployed.store(self.site.name).state().commands if isinstance(each, Scale)]


@pytest.fixture
def regions(account: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[tuple[Region, Region]]:
    # A page on loopback is the function's own in Lambda, and refused there.
    monkeypatch.setattr("nodefleet.adapters.sources.read.HttpDocuments", partial(HttpDocuments, loopback=True))
    with ExitStack() as stack:
        deployed = stack.enter_context(deployment(monkeypatch, tmp_path, clusters=2))
        made: list[Region] = []
        for name, site in deployed.sites.items():
            needs = ("apiserver", "kwok") if not made else ("controller-manager", "scheduler", "kwok")
            parts = stack.enter_context(running(*needs, folder=tmp_path / name))
            admin = Admin(str(parts.kubeconfig))
            login = {"server": admin.server, "token": narrow_token(str(parts.kubeconfig)), "ca": admin.ca}
            deployed.put_secret(f"node-fleet/{name}/kubernetes", login)
            deployed.deploy(replace(site, server=SimpleNamespace(url=admin.server)))
            region = Region(deployed, site, parts, admin)
            site.prometheus.answer = region.answer
            made.append(region)
        yield made[0], made[1]


def policy(url: str, origin: str) -> dict[str, Any]:
    return {
        "limits": {"min": MIN, "max": MAX},
        "readings": {"other": {"kind": "http-json", "url": url, "value": "/ready"}},
        "standby": {"origin": origin, "reading": "other", "healthy": 1, "nodes": ITS_NODES},
    }


def test_the_standby_takes_over_by_itself_once_and_gives_back_by_command(regions: tuple[Region, Region]) -> None:
    eu, us = regions
    for _ in range(ITS_NODES):
        eu.site.machine()
    eu.join()
    until(lambda: eu.ready() == ITS_NODES, "the other region's nodes are ready")
    page = HealthPage(eu.ready)
    us.deployed.declare(us.site, policy(page.url, eu.site.name))
    shop = Workloads(us.admin)
    shop.deploy("shop", MIN)
    for _ in range(4):
        us.tick()
    until(lambda: len(shop.running("shop")) == MIN, "this region's own pods run")
    assert (us.ready(), us.orders()) == (MIN, [])

    page.close()
    for name in ("apiserver", "etcd"):
        eu.parts[name].stop()
    failed_at = us.site.clock()
    while not us.orders() and us.site.clock() - failed_at < timedelta(minutes=5):
        us.tick()
    (order,) = us.orders()
    ordered = us.site.clock() - failed_at
    assert (order.nodes, order.at_least, order.origin, order.by) == (MIN + ITS_NODES, True, eu.site.name, AUTOSCALER)
    us.tick()
    until(lambda: us.ready() == MIN + ITS_NODES, "its nodes are ready")
    ready = us.site.clock() - failed_at
    say(f"ordered {ordered.total_seconds():.0f} s after the failure, nodes ready after {ready.total_seconds():.0f} s")
    assert ready <= timedelta(minutes=5), "a tick, a minute of doubt and a node's start"

    shop.deploy("from-eu", ITS_NODES)
    until(lambda: len(shop.running("from-eu")) == ITS_NODES, "the pods of the other region have nodes")
    for _ in range(3):
        us.tick()
    assert (us.orders(), len(us.site.ids())) == ([order], MIN + ITS_NODES), "ordered once, and kept"
    events = us.deployed.events(us.site.name)
    assert events.count(AlertKind.FAILOVER.value) == 1

    given = ["failover", eu.site.name, us.site.name, "--back", "--by", "ann", "--table", us.deployed.table]
    done = CliRunner().invoke(main.app, given)
    assert done.exit_code == 0, done.output
    for _ in range(3):
        us.tick()
    assert us.orders() == [], "ended by the command, and not ordered again while the other region is still away"

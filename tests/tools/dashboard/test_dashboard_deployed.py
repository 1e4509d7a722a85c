"""The live dashboard through the real connection: moto's AWS, an API server over TLS, a Prometheus on loopback."""

import json
import os

import pytest

from nodefleet.adapters.credentials import Redactor
from nodefleet_tools.cli import connect
from nodefleet_tools.dashboard.decisions import Filter
from nodefleet_tools.dashboard.live import LiveSource
from support.deployed import account, deployed

__all__ = ["account", "deployed"]


@pytest.fixture
def source(deployed, monkeypatch):
    for name in ("NODEFLEET_CLUSTER", "NODEFLEET_RECONCILE_FUNCTION", "KUBECONFIG", "PROMETHEUS_URL"):
        monkeypatch.delenv(name, raising=False)
    deployed.tick()
    options = {"cluster": deployed.site.name, "table": os.environ["NODEFLEET_TABLE"], "bucket": deployed.bucket}
    made = LiveSource(connect.connection(**options, environment=os.environ, redact=Redactor()), every=60)
    yield made
    made.close()


def test_it_shows_steers_and_replays_what_the_function_did(deployed, source):
    source.refresh()
    found = json.loads(source.updates(0, 5)[1])["snapshot"]
    assert {node["id"] for node in found["nodes"]} == set(deployed.site.ids())
    assert {node["phase"] for node in found["nodes"]} == {"booting"}
    (row,) = source.decisions(Filter())["rows"]
    assert source.decision(row["id"])["saw"]["everything"]
    assert source.replay(row["id"], "")["same"]
    assert source.what_if("limits: {min: 3, max: 5}")["more"] == 1
    assert source.policy()["text"]
    source.command({"kind": "pause", "minutes": 30, "reason": "migration"}, "ann")
    (pause,) = deployed.store().state().commands
    assert (pause.by, pause.reason) == ("ann", "migration")

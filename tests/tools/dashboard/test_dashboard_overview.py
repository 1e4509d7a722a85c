"""All clusters on one page: their rows, the page of one of them, and what goes wrong."""

import json
from datetime import timedelta

import pytest

from nodefleet.errors import UnavailableError
from nodefleet.model.state import PoolUsage, Usage
from nodefleet_tools.cli.environment import InputError
from nodefleet_tools.dashboard.overview import HOME, OverviewSource
from nodefleet_tools.dashboard.server import Dashboard
from nodefleet_tools.fleet import ClusterRow, cost_of
from support.builders import NOON
from support.dashboards import Browser, WorldSource, overview_rows, serving
from support.worlds import shop


class Fleet:
    def __init__(self, rows):
        self.rows = rows
        self.connected = []
        self.worlds = {}
        self.source = OverviewSource(self._read, self._connect, lambda: NOON, by="ann", every=60)

    def _read(self):
        if isinstance(self.rows, Exception):
            raise self.rows
        return self.rows

    def _connect(self, name):
        self.connected.append(name)
        if name == "eu-broken":
            raise InputError("no login of eu-broken is stored")
        source = WorldSource(shop().world)
        source.refresh()
        return source

    def published(self):
        self.source.poll_once()
        return json.loads(self.source.publisher.wait(0, 0)[1])


@pytest.fixture
def fleet():
    made = Fleet(overview_rows())
    yield made
    made.source.close()


def test_a_row_says_how_a_cluster_is_and_the_troubled_come_first(fleet):
    found = fleet.published()
    assert [row["name"] for row in found["clusters"]] == ["eu-broken", "us-late", "eu-shop", "us-shop", "us-quiet"]
    (row,) = [row for row in found["clusters"] if row["name"] == "eu-shop"]
    assert row == {
        "name": "eu-shop",
        "region": "eu-west-1",
        "state": "normal",
        "troubled": False,
        "paused": False,
        "problem": "",
        "nodes": 4,
        "target": 6,
        "pending": 3,
        "age": 40.0,
        "usd": 1.25,
    }
    assert [row["state"] for row in found["clusters"]] == ["unreadable", "late", "normal", "normal", "paused"]


def test_a_registry_that_cannot_be_read_is_said_and_the_next_poll_may_succeed(fleet):
    fleet.rows = UnavailableError("DynamoDB", "timed out")
    assert "DynamoDB" in fleet.published()["error"]
    fleet.rows = overview_rows()
    assert len(fleet.published()["clusters"]) == 5


def test_the_server_gives_the_page_of_all_clusters_and_none_of_a_single_one(fleet):
    fleet.published()
    with serving(fleet.source, home=HOME) as page:
        browser = Browser(page).sign_in()
        _, content = browser.get("/")
        assert b"/clusters.js" in content
        assert browser.get("/api/timeline")[0].status == 404
        assert browser.post("/api/policy/check", {"text": ""})[0] == 404


def test_a_cluster_is_opened_on_a_server_of_its_own_once(fleet):
    fleet.published()
    with serving(fleet.source, home=HOME) as page:
        browser = Browser(page).sign_in()
        status, first = browser.post("/api/commands", {"kind": "open", "cluster": "eu-shop"})
        assert status == 200
        assert browser.post("/api/commands", {"kind": "open", "cluster": "eu-shop"})[1] == first
        assert fleet.connected == ["eu-shop"]
        (own,) = fleet.source._pages.values()
        assert isinstance(own, Dashboard)
        assert Browser(own).sign_in().json("/api/timeline")["t"]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"kind": "open", "cluster": "../other"}, "no cluster of this deployment"),
        ({"kind": "pause", "cluster": "eu-shop"}, "no cluster of this deployment"),
        ({"kind": "open", "cluster": "eu-broken"}, "no login of eu-broken"),
    ],
)
def test_what_cannot_be_opened_is_refused_with_its_reason(fleet, given, says):
    fleet.published()
    with serving(fleet.source, home=HOME) as page:
        status, answer = Browser(page).sign_in().post("/api/commands", given)
        assert (status, says in answer["error"]) == (400, True)


def test_the_cost_of_a_day_has_nodes_warm_instances_and_the_autoscaler():
    hours = [
        Usage(hour=NOON, last=NOON, pools={"a": PoolUsage(usd=0.5, warm_usd=0.1), "b": PoolUsage(usd=1)}, own_usd=0.02),
        Usage(hour=NOON + timedelta(hours=1), last=NOON, own_usd=0.02),
    ]
    assert cost_of(hours) == pytest.approx(1.64)
    assert ClusterRow(name="a", region="", paused=False, decided_at=None).usd_today is None

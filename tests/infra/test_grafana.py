"""Grafana's dashboards: whole, without overlaps, and asking only for what exists."""

import json
import shutil
import subprocess

import pytest
import yaml

from nodefleet.adapters.telemetry import DIMENSION, NAMESPACE
from nodefleet.model.names import METRIC_INFO, Metric
from nodefleet.policy.pool import Queries
from nodefleet_infra import manifests
from support.shipped_metrics import SITE, labels_of, problems_in

DASHBOARDS = {name: json.loads(text) for name, text in manifests.dashboards().items()}
PANELS = [(name, panel) for name, board in DASHBOARDS.items() for panel in board["panels"] if panel["type"] != "row"]
IDS = [f"{name}:{panel['title']}" for name, panel in PANELS]
EVERY_PANEL = pytest.mark.parametrize(("name", "panel"), PANELS, ids=IDS)
PROMTOOL = shutil.which("promtool")


def test_there_is_one_for_each_thing_that_people_ask_about():
    assert set(DASHBOARDS) == {"cluster.json", "autoscaler.json", "applications.json", "cost.json"}


@pytest.mark.parametrize("name", DASHBOARDS)
def test_a_dashboard_is_whole(name):
    board = DASHBOARDS[name]
    assert board["uid"] == f"node-fleet-{name.removesuffix('.json')}"
    assert len(board["uid"]) <= 40  # Grafana's limit
    assert board["title"]
    assert board["schemaVersion"] >= 39
    assert "id" not in board  # Grafana gives it one
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("name", DASHBOARDS)
def test_no_panel_lies_on_another(name):
    taken = {}
    for panel in DASHBOARDS[name]["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert taken.setdefault((x, y), panel["id"]) == panel["id"], panel["title"]


@pytest.fixture(scope="module")
def sources():
    (config,) = (
        each
        for each in yaml.safe_load_all(manifests.rendered(SITE)[manifests.file_of("grafana")])
        if each["kind"] == "ConfigMap" and each["metadata"]["name"] == "grafana"
    )
    return {each["uid"]: each["type"] for each in yaml.safe_load(config["data"]["datasources.yaml"])["datasources"]}


@EVERY_PANEL
def test_a_panel_asks_a_source_that_is_there(name, panel, sources):
    assert panel["targets"]
    for target in panel["targets"]:
        assert target["datasource"] == panel["datasource"]
        assert sources[target["datasource"]["uid"]] == target["datasource"]["type"]
    letters = [target["refId"] for target in panel["targets"]]
    assert len(letters) == len(set(letters))


@pytest.mark.parametrize("query", [Queries().cpu, Queries().memory, Queries().nodes])
def test_people_see_the_readings_that_are_decided_by(query):
    shown = [target["expr"] for name, panel in PANELS for target in panel["targets"] if name == "cluster.json"]
    assert query.replace('pool="$pool"', 'pool=~"$pool"') in shown


@EVERY_PANEL
def test_a_panel_asks_for_metrics_and_labels_that_exist(name, panel):
    for target in panel["targets"]:
        if target["datasource"]["type"] == "prometheus":
            assert not problems_in(target["expr"])
            assert {"$pool", "$namespace"} & _variables(target["expr"]) <= _defined(name)
        else:
            assert target["namespace"] == NAMESPACE
            assert target["metricName"] in {metric.value for metric in Metric}
            assert target["dimensions"] == {DIMENSION: "$cluster"}
            assert "$cluster" in _defined(name)


@EVERY_PANEL
def test_a_panel_of_a_metric_that_is_off_by_default_says_how_to_have_it(name, panel):
    named = [target.get("metricName") for target in panel["targets"]]
    optional = [metric for metric in Metric if METRIC_INFO[metric].opt_in and metric.value in named]
    always = {Metric.AT_MAX}  # an alarm needs it
    for metric in set(optional) - always:
        assert f"autoscaler.metrics: [{metric.value}]" in panel["description"]


@pytest.mark.parametrize("name", DASHBOARDS)
def test_variables_come_from_what_exists(name):
    for variable in DASHBOARDS[name]["templating"]["list"]:
        if variable["datasource"]["type"] == "prometheus":
            inside = variable["query"]["query"].removeprefix("label_values(").removesuffix(")")
            query, label = inside.rsplit(",", 1)
            assert not problems_in(query)
            assert label.strip() in labels_of(query.split("{")[0])
        else:
            assert variable["query"]["namespace"] == NAMESPACE
            assert variable["query"]["dimensionKey"] == DIMENSION


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is missing (Debian: prometheus): queries were NOT parsed")
def test_prometheus_understands_every_query(tmp_path):
    queries = [target["expr"] for _, panel in PANELS for target in panel["targets"] if "expr" in target]
    rules = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(queries)]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    ran = subprocess.run(  # noqa: S603
        [PROMTOOL, "check", "rules", "rules.yml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def _variables(text):
    return {word for word in ("$pool", "$namespace", "$cluster") if word in text}


def _defined(name):
    return {f"${variable['name']}" for variable in DASHBOARDS[name]["templating"]["list"]}

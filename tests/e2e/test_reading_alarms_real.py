"""The way of an alarm on a reading, from a real Prometheus by a real Alertmanager to what `notify` understands."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
import requests
import yaml

from e2e.parts.part import PartFailedError
from e2e.parts.prometheus import Alertmanager, Prometheus
from e2e.site.waiting import eventually
from nodefleet.adapters.aws.incoming import decode_alarms
from nodefleet.notifications.incoming import Alarm, AlarmState
from nodefleet_infra import manifests
from nodefleet_infra.names import Names
from nodefleet_infra.reading_rules import reading_rules
from nodefleet_infra.stack import stack_from
from support.shipped_metrics import SITE

TOPIC = "arn:aws:sns:ap-southeast-1:123456789012:node-fleet-dev-warning"
ODD = 'the "slow" \\ {{ one }}'
NAME = "node-fleet-dev-shop-default-0-latency-high"


def site(query: str) -> manifests.Site:
    """A cluster whose policy takes the latency from Prometheus. Its rule's name is as odd as it may be."""
    policy = {
        "readings": {"p95": {"kind": "prometheus", "query": query}},
        "custom": [{"kind": "threshold", "name": ODD, "reading": "p95", "quantity": "latency", "limit": 500}],
    }
    data: dict[str, Any] = {
        "network": {"zones": ["ap-southeast-1a", "ap-southeast-1b"]},
        "clusters": [{"name": "shop", "policy": policy}],
    }
    (cluster,) = stack_from("node-fleet", "dev", "ap-southeast-1", data).clusters
    rules = reading_rules(Names(project="node-fleet", stack="dev"), cluster)
    return replace(SITE, reading_rules=rules, warning_topic=TOPIC)


# ── parts ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Topic:
    heard: list[dict[str, list[str]]] = field(default_factory=list)

    @property
    def alarms(self) -> list[Alarm]:
        found = decode_alarms([{"Sns": {"Message": each["Message"][0]}} for each in self.heard])
        assert found.spoiled == ()
        return [each.told for each in found.news if isinstance(each.told, Alarm)]


@contextmanager
def topic() -> Iterator[tuple[Topic, str]]:
    """SNS as far as Alertmanager needs it."""
    made = Topic()

    class Sns(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            made.heard.append(parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode()))
            answer = b"<PublishResponse><PublishResult><MessageId>1</MessageId></PublishResult></PublishResponse>"
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Sns)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield made, f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def alertmanager(folder: Path, shipped: manifests.Site, sns: str) -> Iterator[str]:
    """As shipped, but for the address and the login of SNS, and with less patience."""
    config = yaml.safe_load(manifests.configuration("alertmanager", shipped))
    (people,) = (each for each in config["receivers"] if each["name"] == "people-warning")
    people["sns_configs"][0] |= {"api_url": sns}
    people["sns_configs"][0]["sigv4"] |= {"access_key": "test", "secret_key": "test"}
    config["route"]["routes"][-1]["group_interval"] = "1s"
    (folder / "alertmanager.yml").write_text(yaml.safe_dump(config))
    part = Alertmanager(folder, folder / "alertmanager.yml")
    try:
        part.part.start()
        yield part.endpoint
    finally:
        part.part.stop()


def prometheus(folder: Path, shipped: manifests.Site, alerts_to: str = "") -> Prometheus:
    """With the shipped rules on readings, which here need not last, and nothing to scrape but itself."""
    rules = yaml.safe_load(manifests.configuration("readings", shipped))
    for group in rules["groups"]:
        group["interval"] = "1s"
        for rule in group["rules"]:
            rule.pop("for", None)
    (folder / "readings.yml").write_text(yaml.safe_dump(rules))
    static = [{"targets": [alerts_to.removeprefix("http://")]}] if alerts_to else []
    config = {
        "global": {"external_labels": {"cluster": shipped.cluster}},
        "alerting": {"alertmanagers": [{"static_configs": static}]},
        "rule_files": [str(folder / "readings.yml")],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    return Prometheus(folder, folder / "prometheus.yml")


# ── the way ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_alarm_of_prometheus_reaches_notify_as_an_alarm(tmp_path: Path) -> None:
    shipped = site("scalar(vector(812))")
    with topic() as (heard, sns), alertmanager(tmp_path, shipped, sns) as address:
        measured = prometheus(tmp_path, shipped, address)
        try:
            measured.part.start()
            # An alert that is up before Alertmanager has been found is sent again after a minute.
            assert eventually(lambda: bool(heard.heard))
        finally:
            measured.part.stop()
    assert heard.heard[0]["TopicArn"] == [TOPIC]
    told = heard.alarms[0]
    assert (told.name, told.state, told.source) == (NAME, AlarmState.ALARM, "Prometheus")
    assert (told.cluster, told.pool) == ("dev-shop", "default")
    assert (told.rule, told.reason) == ("p95 > 750 within 3 min", "p95: 812")
    assert told.description.endswith(f"({ODD}, pool default)")


def test_its_end_is_told_once_and_each_alarm_for_itself(tmp_path: Path) -> None:
    shipped = site("vector(812)")
    labels = {"tell": "warning", "pool": "default", "cluster": "dev-shop"}
    said = {"says": "x", "reason": "p95: 812", "watched": "p95", "limit": "750.0", "seconds": "180"}
    alerts = [{"labels": {**labels, "alertname": name}, "annotations": said} for name in (NAME, f"{NAME}-too")]
    with topic() as (heard, sns), alertmanager(tmp_path, shipped, sns) as address:

        def send(ends: str | None) -> None:
            sent = [each | ({"endsAt": ends} if ends else {}) for each in alerts]
            assert requests.post(f"{address}/api/v2/alerts", json=sent, timeout=5).status_code == requests.codes.ok

        send(None)
        assert eventually(lambda: len(heard.heard) == 2)
        send(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
        assert eventually(lambda: len(heard.heard) == 4)
    told = heard.alarms
    assert {(each.name, each.state) for each in told} == {
        (name, state) for name in (NAME, f"{NAME}-too") for state in (AlarmState.ALARM, AlarmState.OK)
    }
    assert len({each.id for each in told}) == 4


def test_rules_that_stand_in_for_refused_ones_reach_notify_too(tmp_path: Path) -> None:
    shipped = site("vector(1)")
    (group,) = yaml.safe_load(manifests.configuration("refused", shipped))["groups"]
    (rule,) = group["rules"]
    alert = {"labels": {**rule["labels"], "alertname": rule["alert"]}, "annotations": rule["annotations"]}
    with topic() as (heard, sns), alertmanager(tmp_path, shipped, sns) as address:
        sent = requests.post(f"{address}/api/v2/alerts", json=[alert], timeout=5)
        assert sent.status_code == requests.codes.ok
        assert eventually(lambda: bool(heard.heard))
    (told,) = heard.alarms
    assert (told.name, told.pool) == ("dev-shop-refused-queries", "")
    assert "check-readings" in told.description


def test_prometheus_does_not_start_with_a_query_that_it_cannot_parse(tmp_path: Path) -> None:
    """That is why its rules are checked before it starts."""
    measured = prometheus(tmp_path, site("vector(1"))
    with pytest.raises(PartFailedError, match="prometheus ended by itself"):
        measured.part.start()
    measured.part.stop()

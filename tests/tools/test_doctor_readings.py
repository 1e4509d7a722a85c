"""The checks of what is measured: Prometheus, its labels, each reading, and whether the workers are counted alike."""

from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.errors import UnavailableError
from nodefleet.model.snapshot import ClusterView, Missing, PoolReadings, Reading
from nodefleet_tools.doctor.findings import UnknownError
from nodefleet_tools.doctor.readings import LABELLED, counts, prometheus, readings
from support.builders import NOON, node
from support.doctor_patients import AWAY, MASTER, Shop, series, signs
from support.wording import assert_wording

GOOD = {"role": "worker", "pool": "default", "node": "w000"}
SERVER = {"role": "server", "node": "server"}


def answering(*labels, **more) -> Shop:
    return Shop(answers={"vector(1)": series({}), LABELLED: series(*labels), **more})


def test_labels_that_the_queries_go_by_are_checked_on_what_is_scraped():
    assert_wording(answering(GOOD, SERVER).found(prometheus))


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ({"pool": "default", "node": "w000"}, "role (1 node)"),
        ({"role": "worker", "node": "w000"}, "pool (1 node)"),
        ({"role": "worker", "pool": "default"}, "node (1 node)"),
    ],
)
def test_a_missing_label_is_named(labels, words):
    lines = answering(GOOD, labels).found(prometheus)
    assert signs(lines) == "✓✗"
    assert words in lines[1]


def test_a_prometheus_without_node_exporter_says_so():
    lines = answering().found(prometheus)
    assert signs(lines) == "✓✗"
    assert "node_exporter" in lines[1]


def test_a_prometheus_that_is_away_or_nowhere_is_wrong():
    away = Shop(answers={"vector(1)": Missing("no connection within 2.0 s")})
    assert_wording(away.found(prometheus))
    assert signs(Shop(answers=None).found(prometheus)) == "✗"


def test_labels_that_cannot_be_read_are_a_hint():
    assert signs(answering(**{LABELLED: Missing("too many series")}).found(prometheus)) == "✓!"


# ── readings ─────────────────────────────────────────────────────────────────────────────────────────────────────

READ = PoolReadings(cpu=Reading(48.0, NOON), memory=Reading(60.0, NOON), nodes=Reading(3.0, NOON), idle={"w000": 50.0})
QUEUE = {"readings": {"queue": {"kind": "prometheus", "query": "sum(queue)"}}}


def read(**changes) -> Shop:
    return Shop(readings={"default": replace(READ, **changes)})


def test_every_reading_is_told_with_its_value():
    assert_wording(Shop().found(readings))


def test_a_missing_reading_is_told_with_its_cause():
    lines = read(memory=Missing("the query finds no data")).found(readings)
    assert_wording(lines[0])
    assert_wording(lines[1])


def test_a_custom_reading_is_mended_elsewhere():
    shop = read(custom={"queue": Missing("HTTP 400")}).with_policy(**QUEUE)
    assert_wording(shop.found(readings)[0])


def test_an_old_reading_is_no_reading():
    lines = read(cpu=Reading(48.0, NOON - timedelta(seconds=301))).found(readings)
    assert_wording(lines[0])


def test_how_idle_nodes_are_is_a_hint():
    assert signs(read(idle={}).found(readings)) == "✓!"


@pytest.mark.parametrize(
    ("strategy", "load", "found"),
    [
        ("adaptive", (), "✓!"),
        ("adaptive", (Reading(1.5, NOON),), "✓"),
        ("classic", (), "✓"),
    ],
)
def test_a_load_that_a_forecast_learns_from_and_that_cannot_be_read_is_a_hint(strategy, load, found):
    lines = read(load=load).with_policy(strategy=strategy).found(readings)
    assert signs(lines) == found
    for line in lines[1:]:
        assert_wording(line)


def test_a_pool_without_workers_has_nothing_to_measure():
    empty = Shop(view=ClusterView(nodes=(MASTER,)), readings={"default": PoolReadings(cpu=Missing("no data"))})
    lines = empty.found(readings)
    assert signs(lines) == "!"
    assert_wording(lines[0])


# ── counts ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_prometheus_and_kubernetes_must_see_the_same_workers():
    assert_wording(Shop().found(counts))
    (line,) = read(nodes=Reading(2.0, NOON)).found(counts)
    assert_wording(line)
    tolerant = read(nodes=Reading(2.0, NOON)).with_policy(trust={"count_tolerance": 1})
    assert signs(tolerant.found(counts)) == "✓"


def test_a_node_that_has_just_joined_need_not_be_seen_yet():
    young = node(3, ready_changed_at=NOON - timedelta(seconds=119))
    older = node(3, ready_changed_at=NOON - timedelta(seconds=121))
    for new, sign in ((young, "✓"), (older, "✗")):
        shop = Shop(view=ClusterView(nodes=(*map(node, range(3)), new, MASTER)))
        assert signs(shop.found(counts)) == sign


def test_only_ready_workers_count():
    shop = Shop(view=ClusterView(nodes=(node(0), node(1), node(2, ready=False), MASTER)))
    assert_wording(shop.found(counts)[0])


def test_what_is_not_known_is_not_compared():
    assert signs(read(nodes=Missing("no data")).found(counts)) == "!"
    with pytest.raises(UnknownError, match="Kubernetes"):
        Shop(view=UnavailableError("Kubernetes", "timed out")).found(counts)
    with pytest.raises(UnknownError, match="policy"):
        Shop(state=AWAY).found(counts)

"""The audit of a decision: small, complete enough to be asked again, and readable."""

import gzip
import json
from dataclasses import replace

import pytest

from builders import NOON, SMALL, instance, look, pod, waiting
from nodefleet.decide.engine import decide
from nodefleet.domain.machines import InstanceState, InstanceType
from nodefleet.domain.memory import Memory
from nodefleet.domain.plain import to_plain
from nodefleet.domain.policy import Policy
from nodefleet.domain.readings import Missing
from nodefleet.domain.records import Question
from nodefleet.loop.record import (
    LARGEST,
    bill,
    figures,
    is_eventful,
    mean,
    outcome,
    packed,
    recorded,
    sentence,
    shortened,
    unpacked,
)

POLICY = Policy()
PRICED = (InstanceType(name="t3.small", resources=SMALL, hourly_usd=0.02, spot_usd=0.008),)


def question(**scene):
    return Question(observation=look(**scene), memory=Memory(), policy=POLICY)


def asked(its):
    return decide(its.observation, its.memory, its.policy)


def test_an_archived_question_is_decided_the_same():
    """Also one that has everything in it: pods, budgets, readings that are missing."""
    its = question(pods=[pod("web-1", "w001"), waiting("web-2")], memory=Missing("timeout"))
    record, content = recorded(its, asked(its), fence=7, version=3, did=(), eventful=True)
    again = unpacked(content)
    assert again == its
    assert outcome(asked(again)) == record.outcome


def test_the_same_question_gives_the_same_bytes_and_another_one_others():
    assert packed(question()) == packed(question())
    assert packed(question()) != packed(question(cpu=51.0))


def test_an_uneventful_look_is_not_archived():
    its = question()
    record, content = recorded(its, asked(its), fence=7, version=3, did=(), eventful=False)
    assert (content, record.archived) == (None, "")
    assert record.figures["default.cpu"] == 50


def test_where_a_question_is_kept_follows_from_its_content():
    its = question()
    record, _ = recorded(its, asked(its), fence=7, version=3, did=("cordoned w1",), eventful=True)
    assert record.archived.startswith("default/2026/11/16/")
    assert record.archived.endswith(".json.gz")
    assert (record.id, record.fence, record.policy, record.did) == (
        "2026-11-16T12:00:00.000000Z-f7",
        7,
        3,
        ("cordoned w1",),
    )


@pytest.mark.parametrize(
    ("scene", "eventful"), [({}, False), ({"pending": 3}, True), ({"workers": 1}, True), ({"cpu": 99.0}, False)]
)
def test_something_is_eventful_when_more_is_decided_than_to_tell(scene, eventful):
    assert is_eventful(asked(question(**scene))) is eventful


def size(decision):
    return len(json.dumps(to_plain(decision), ensure_ascii=False, separators=(",", ":")).encode())


def test_a_short_decision_is_kept_whole_but_for_its_memory():
    decision = asked(question())
    short, cut = shortened(decision)
    assert not cut
    assert short == replace(decision, memory=Memory())


@pytest.mark.parametrize("workers", [400, 1000])
def test_a_long_decision_is_cut_to_what_a_record_holds(workers):
    pods = [pod(f"web-{number}", f"w{number:03}", owner=None) for number in range(workers)]
    decision = asked(question(workers=workers, pods=pods, cpu=5.0, memory=5.0))
    assert size(decision) > LARGEST
    short, cut = shortened(decision)
    assert cut
    assert size(short) <= LARGEST
    assert [pool.reason for pool in short.pools] == [pool.reason for pool in decision.pools]


def test_the_outcome_tells_decisions_apart():
    assert outcome(asked(question())) == outcome(asked(question()))
    assert outcome(asked(question())) != outcome(asked(question(pending=1)))


def test_the_bill_counts_by_market():
    seen = look(3, catalog=PRICED)
    costs = bill(seen)
    assert costs.hourly_usd == pytest.approx(0.036)
    assert costs.spot_percent == pytest.approx(200 / 3)
    assert bill(look(3)).unpriced == 3
    assert bill(replace(seen, instances=Missing("throttled"))) is None
    assert bill(look(0)) is None


def test_a_missing_reading_has_no_figure():
    its = question(cpu=Missing("timeout"))
    assert "default.cpu" not in figures(its.observation, asked(its))
    assert mean(its.observation, asked(its), "cpu") is None
    assert mean(its.observation, asked(its), "memory") == 60


def test_the_line_says_what_and_why():
    its = question(pending=3)
    said = sentence(asked(its))
    assert said.startswith("[default] default: grow 3 → 4. ")
    assert "3 pods" in said
    assert f"{NOON:%H}" not in said


def test_the_bytes_depend_neither_on_the_time_nor_on_the_order_of_names():
    content = packed(question())
    assert content[4:8] == bytes(4)  # gzip's own time
    plain = json.loads(gzip.decompress(content))
    assert list(plain) == sorted(plain)


def test_only_workers_that_run_or_start_are_paid_for():
    machines = (
        instance(0),
        instance(1, state=InstanceState.PENDING),
        instance(2, state=InstanceState.STOPPED),
        instance(3, worker=False),
    )
    costs = bill(look(0, instances=machines, catalog=PRICED))
    assert (costs.hourly_usd, costs.spot_percent, costs.unpriced) == (pytest.approx(0.028), 50, 0)


def test_figures_of_cost_are_rounded():
    priced = (replace(PRICED[0], hourly_usd=0.0123456, spot_usd=0.0),)
    its = question(workers=3, catalog=priced)
    found = figures(its.observation, asked(its))
    assert (found["hourly_usd"], found["spot_percent"]) == (0.0123, 66.7)

"""The audit of a decision: small, complete enough to be asked again, and readable."""

import gzip
import json
from collections.abc import Mapping
from dataclasses import MISSING, is_dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from types import NoneType, UnionType
from typing import Union, get_args, get_origin

import pytest

from nodefleet.engine.decide import decide
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import (
    Action,
    ActionKind,
    Bound,
    Decision,
    ExecutedAction,
    KeepReason,
    KeptNode,
    Overruled,
    PoolDecision,
    Rank,
    Side,
)
from nodefleet.model.fleet import Count, Phase
from nodefleet.model.inventory import Instance, InstanceState, InstanceType, Node
from nodefleet.model.names import Metric
from nodefleet.model.operations import Assign, SendAlert, Uncordon
from nodefleet.model.serialization import default_of, fields_of, to_plain
from nodefleet.model.snapshot import ClusterView, Missing, PoolReadings, Reading
from nodefleet.model.state import AdaptiveMemory, Level, Memory, PoolMemory
from nodefleet.model.workload import Pod
from nodefleet.policy.cluster import Policy
from nodefleet.reconcile.audit import (
    LARGEST,
    DecisionInput,
    bill,
    figures,
    forecast_metrics,
    is_eventful,
    make_record,
    mean,
    outcome,
    pack_input,
    read_input,
    sentence,
    shorten_decision,
    unpack_input,
)
from support.builders import NOON, SMALL, instance, look, pod, waiting
from support.wording import assert_wording

POLICY = Policy()
PRICED = (InstanceType(name="t3.small", resources=SMALL, hourly_usd=0.02, spot_usd=0.008),)


CORDONED = ExecutedAction(kind=ActionKind.CORDON, node="w1")


def question(**scene):
    return DecisionInput(observation=look(**scene), memory=Memory(), policy=POLICY)


def asked(its):
    return decide(its.observation, its.memory, its.policy)


def figures_of(observation, decision):
    return figures(observation, decision, bill(observation))


def recorded(its, decision, **changes):
    return make_record(its, decision, fence=7, version=3, values=figures_of(its.observation, decision), **changes)


def test_an_archived_question_is_decided_the_same():
    """Also one that has everything in it: pods, budgets, readings that are missing."""
    its = question(pods=[pod("web-1", "w001"), waiting("web-2")], memory=Missing("timeout"))
    record, content = recorded(its, asked(its), actions=(), eventful=True)
    again = unpack_input(content)
    assert again == its
    assert outcome(asked(again)) == record.outcome


def test_an_input_of_an_older_release_is_decided_the_same():
    """Releases up to 0.2 listed instances, nodes and pods one by one."""
    its = question(pods=[pod("web-1", "w001"), waiting("web-2")])
    older = gzip.compress(json.dumps(to_plain(its)).encode())
    assert unpack_input(older) == its
    assert unpack_input(pack_input(unpack_input(older))) == its


def filled(hint):
    """A value of a type, with every field away from its default."""
    if is_dataclass(hint):
        fields = fields_of(hint)
        return hint(**{it.name: not default_of(it) if kind is bool else filled(kind) for it, kind in fields})
    if get_origin(hint) in (Union, UnionType):
        (hint,) = (each for each in get_args(hint) if each is not NoneType)
        return filled(hint)
    if get_origin(hint) is tuple:
        return (filled(get_args(hint)[0]),)
    if get_origin(hint) is Mapping:
        return {"node-fleet.io/ä": filled(get_args(hint)[1])}
    if issubclass(hint, Enum):
        return list(hint)[-1]
    return {str: "größer", int: 12, datetime: NOON, timedelta: timedelta(seconds=1.5)}[hint]


def some_of(cls):
    """Five that share what they hold, one that shares nothing, and one with its defaults."""
    needed = {it.name: filled(kind) for it, kind in fields_of(cls) if default_of(it) is MISSING}
    return (*[filled(cls)] * 5, filled(cls), cls(**needed))


def test_an_archived_input_keeps_every_field_of_instances_nodes_and_pods():
    view = ClusterView(nodes=some_of(Node), pods=some_of(Pod))
    seen = replace(look(), instances=some_of(Instance), kubernetes=view)
    its = DecisionInput(observation=seen, memory=Memory(), policy=POLICY)
    assert unpack_input(pack_input(its)) == its


@pytest.mark.parametrize(
    "view",
    [Missing("timeout"), ClusterView(), ClusterView(pods=()), ClusterView(nodes=look(1).kubernetes.nodes, pods=())],
)
def test_an_archived_input_tells_no_pods_from_unknown_ones(view):
    its = DecisionInput(
        observation=replace(look(), instances=Missing("timeout"), kubernetes=view), memory=Memory(), policy=POLICY
    )
    assert unpack_input(pack_input(its)) == its


def test_pods_that_share_what_they_hold_are_archived_in_little_space():
    labels = {"app.kubernetes.io/name": "web", "app.kubernetes.io/part-of": "shop"}
    pods = tuple(replace(pod(f"web-{number}", "w001"), labels=labels) for number in range(500))
    its = question(pods=pods)
    written = gzip.decompress(pack_input(its))
    assert written.count(b"app.kubernetes.io/name") == 1
    assert unpack_input(pack_input(its)) == its


@pytest.mark.parametrize("broken", [[], {"pods": {"name": {}}}, {"pods": {"name": {"values": ["a"], "rows": [3]}}}])
def test_tables_that_do_not_fit_are_refused(broken):
    with pytest.raises(ValueError) as raised:  # noqa: PT011  # its words are compared below
        read_input({**to_plain(question()), "tables": broken})
    assert_wording(str(raised.value).partition(":")[0])  # what follows are words of Python


def test_the_same_question_gives_the_same_bytes_and_another_one_others():
    assert pack_input(question()) == pack_input(question())
    assert pack_input(question()) != pack_input(question(cpu=51.0))


def test_an_uneventful_look_is_not_archived():
    its = question()
    record, content = recorded(its, asked(its), actions=(), eventful=False)
    assert (content, record.archived) == (None, "")
    assert record.figures["default.cpu"] == 50


def test_where_a_question_is_kept_follows_from_its_content():
    its = question()
    record, _ = recorded(its, asked(its), actions=(CORDONED,), eventful=True)
    assert record.archived.startswith("default/2026/11/16/")
    assert record.archived.endswith(".json.gz")
    assert (record.id, record.fence, record.policy, record.did) == (
        "2026-11-16T12:00:00.000000Z-f7",
        7,
        3,
        (str(CORDONED),),
    )
    assert record.actions == (CORDONED,)


@pytest.mark.parametrize(
    ("scene", "eventful"), [({}, False), ({"pending": 3}, True), ({"workers": 1}, True), ({"cpu": 99.0}, False)]
)
def test_something_is_eventful_when_more_is_decided_than_to_tell(scene, eventful):
    assert is_eventful(asked(question(**scene))) is eventful


def size(decision):
    return len(json.dumps(to_plain(decision), ensure_ascii=False, separators=(",", ":")).encode())


def test_a_short_decision_is_kept_whole_but_for_its_memory():
    decision = asked(question())
    short, cut = shorten_decision(decision)
    assert not cut
    assert short == replace(decision, memory=Memory())


@pytest.mark.parametrize("workers", [400, 1000])
def test_a_long_decision_is_cut_to_what_a_record_holds(workers):
    pods = [pod(f"web-{number}", f"w{number:03}", owner=None) for number in range(workers)]
    decision = asked(question(workers=workers, pods=pods, cpu=5.0, memory=5.0))
    assert size(decision) > LARGEST
    short, cut = shorten_decision(decision)
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
    assert "default.cpu" not in figures_of(its.observation, asked(its))
    assert mean(its.observation, asked(its), "cpu") is None
    assert mean(its.observation, asked(its), "memory") == 60


def test_the_line_says_what_and_why():
    its = question(pending=3)
    said = sentence(asked(its))
    assert_wording(said)
    assert "3 pods" in said
    assert f"{NOON:%H}" not in said


def test_the_bytes_depend_neither_on_the_time_nor_on_the_order_of_names():
    content = pack_input(question())
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
    found = figures_of(its.observation, asked(its))
    assert (found["hourly_usd"], found["spot_percent"]) == (0.0123, 66.7)


# ── decisions that are given ─────────────────────────────────────────────────────────────────────────────────────

CALM = PoolDecision(pool="default", action=Action.HOLD, count=Count(ready=3), target=3, reason="calm")
TELL = SendAlert(alert=AlertKind.AT_MAX, pool="default", text="full")
ASSIGN = Assign(instance="i-1", pool="default", reason="its pool is gone")


def given(*pools, **changes):
    base = Decision(at=NOON, cluster="shop", level=Level.NORMAL, pools=pools or (CALM,), memory=Memory())
    return replace(base, **changes)


@pytest.mark.parametrize(
    ("decision", "eventful"),
    [
        (given(), False),
        (given(replace(CALM, plan=(TELL,)), plan=(TELL,), tells=(TELL,)), False),
        (given(CALM, replace(CALM, plan=(TELL, Uncordon("w1", "r1")))), True),
        (given(CALM, replace(CALM, action=Action.SHRINK)), True),
        (given(plan=(TELL, ASSIGN)), True),
    ],
    ids=["calm", "only told", "a step", "an action", "a worker that no pool owns"],
)
def test_whatever_is_more_than_telling_is_eventful(decision, eventful):
    assert is_eventful(decision) is eventful


def long_pool(words):
    """Everything in it is longer than what is kept of it."""
    bound = Bound(side=Side.FLOOR, nodes=9, rank=Rank.SIGNAL, source="cpu", sentence=words)
    stays = [KeptNode(worker=f"w{number:03}", phase=Phase.READY, reason=KeepReason.BUDGET) for number in range(50)]
    dull = [replace(stay, reason=reason) for stay in stays for reason in (KeepReason.NOT_ASKED, KeepReason.OUTRANKED)]
    return replace(
        CALM,
        stays=(*dull, *stays),
        plan=(TELL,) * 50,
        overruled=(Overruled(bound=bound, by="max"),) * 50,
        bounds=(bound,) * 50,
        votes=(words,) * 50,
    )


@pytest.mark.parametrize(("words", "kept"), [(10, 40), (300, 10), (1000, 0)])
def test_of_long_lists_as_many_are_kept_as_a_record_holds_and_always_a_few_reasons(words, kept):
    decision = given(long_pool("x" * words), tells=(TELL,) * 50, plan=(ASSIGN,) * 50)
    short, cut = shorten_decision(decision)
    assert cut
    (pool,) = short.pools
    assert (len(pool.stays), len(pool.plan), len(short.tells), len(short.plan)) == (kept,) * 4
    assert (len(pool.overruled), len(pool.bounds), len(pool.votes)) == (max(kept, 5),) * 3
    assert {stay.reason for stay in pool.stays} <= {KeepReason.BUDGET}
    assert size(short) <= LARGEST or not kept
    assert (pool.reason, pool.target, pool.count) == (CALM.reason, CALM.target, CALM.count)


@pytest.mark.parametrize(("over", "is_cut"), [(0, False), (1, True)])
def test_a_decision_of_just_the_right_length_is_kept_whole(over, is_cut):
    memory = Memory(level=Level.DEGRADED)  # what it holds does not count
    empty = given(replace(CALM, reason=""), memory=memory)
    length = LARGEST - size(replace(empty, memory=Memory())) + size(Memory()) - len("{}") + over
    decision = replace(empty, pools=(replace(CALM, reason="x" * length),))
    for plain in (None, to_plain(decision)):
        short, cut = shorten_decision(decision, plain)
        assert cut is is_cut
        assert short.memory == Memory()


def test_a_record_holds_the_digest_of_the_whole_decision_and_says_that_it_was_cut():
    decision = given(long_pool("x" * 10))
    record, _ = recorded(question(), decision, actions=(), eventful=False)
    assert record.cut
    assert record.outcome == outcome(decision) != outcome(record.decision)
    assert (record.at, record.cluster, record.decision) == (NOON, "shop", shorten_decision(decision)[0])


@pytest.mark.parametrize(("dry", "expected"), [((False, False), False), ((False, True), True)])
def test_a_record_is_dry_when_one_of_its_pools_is(dry, expected):
    pools = tuple(replace(CALM, dry_run=each) for each in dry)
    record, _ = recorded(question(), given(*pools), actions=(), eventful=False)
    assert record.dry is expected


def test_words_are_kept_as_they_are_written():
    content = pack_input(DecisionInput(observation=look(1, cluster="größer"), memory=Memory(), policy=POLICY))
    assert '"cluster":"größer",' in gzip.decompress(content).decode()


# ── figures ──────────────────────────────────────────────────────────────────────────────────────────────────────

WEB = replace(CALM, pool="web", count=Count(ready=1, booting=2, leaving=4), target=6)


def two_pools(**default):
    readings = {
        "default": PoolReadings(**{"cpu": Reading(40.125, NOON), "memory": Reading(60.0, NOON)} | default),
        "web": PoolReadings(
            cpu=Reading(80.0, NOON),
            memory=Missing("timeout"),
            custom={"queue": Reading(12.3456, NOON), "errors": Missing("timeout")},
        ),
    }
    return replace(look(3, pending=2, catalog=PRICED), readings=readings)


def test_every_figure_of_a_look_stands_under_its_own_name():
    assert figures_of(two_pools(), given(CALM, WEB, level=Level.DEGRADED)) == {
        "unschedulable_pods": 2,
        "level": 2,
        "default.ready": 3,
        "default.booting": 0,
        "default.leaving": 0,
        "default.target": 3,
        "default.cpu": 40.12,
        "default.memory": 60.0,
        "web.ready": 1,
        "web.booting": 2,
        "web.leaving": 4,
        "web.target": 6,
        "web.cpu": 80.0,
        "web.queue": 12.35,
        "hourly_usd": 0.036,
        "spot_percent": 66.7,
    }


def test_without_ec2_there_are_no_figures_of_cost():
    found = figures_of(replace(two_pools(), instances=Missing("away")), given(CALM))
    assert not {"hourly_usd", "spot_percent"} & set(found)


def test_a_pool_that_was_not_read_has_no_readings():
    found = figures_of(replace(two_pools(), readings={}), given(CALM))
    assert "default.ready" in found
    assert "default.cpu" not in found


@pytest.mark.parametrize(
    ("pools", "name", "expected"),
    [
        ((CALM, WEB), "cpu", (3 * 40.125 + 80) / 4),
        ((CALM, WEB), "memory", 60.0),
        ((WEB,), "memory", None),
        ((replace(CALM, count=Count(booting=3)), WEB), "cpu", 80.0),
        ((replace(CALM, pool="unread"), WEB), "cpu", 80.0),
        ((), "cpu", None),
    ],
    ids=["by nodes", "one is missing", "all are", "no ready node", "not read", "no pool"],
)
def test_a_reading_over_all_pools_weighs_each_by_its_ready_nodes(pools, name, expected):
    found = mean(two_pools(), replace(given(), pools=pools), name)
    assert found == (expected if expected is None else pytest.approx(expected))


def test_the_line_names_every_pool_and_says_which_is_dry():
    said = sentence(given(CALM, replace(WEB, dry_run=True, action=Action.GROW)))
    assert_wording(said)


@pytest.mark.parametrize(("catalog", "usd", "unpriced"), [((), 0, 3), (PRICED, pytest.approx(0.036), 0)])
def test_machines_without_a_price_are_counted_apart(catalog, usd, unpriced):
    costs = bill(look(3, catalog=catalog))
    assert (costs.hourly_usd, costs.unpriced) == (usd, unpriced)


# ── the grade of the forecast ────────────────────────────────────────────────────────────────────────────────────


def graded(**pools):
    memory = Memory(pools={name: PoolMemory(adaptive=each) for name, each in pools.items()})
    return replace(given(CALM, WEB), memory=memory)


def test_the_grade_of_the_forecasts_is_that_of_the_worst_and_promises_add_up():
    decision = graded(
        default=AdaptiveMemory(skill=30.0, promised=1.5, violated=2.0),
        web=AdaptiveMemory(skill=12.0, promised=0.5, violated=0.0),
    )
    assert dict(forecast_metrics(decision)) == {
        Metric.FORECAST_SKILL: 12.0,
        Metric.VIOLATIONS_PROMISED: 2.0,
        Metric.VIOLATIONS_SEEN: 2.0,
    }
    assert figures_of(two_pools(), decision)["default.forecast_skill"] == 30.0


def test_a_forecast_that_was_not_graded_yet_has_no_skill_and_the_classic_strategy_no_metric():
    assert Metric.FORECAST_SKILL not in dict(forecast_metrics(graded(web=AdaptiveMemory())))
    assert "web.forecast_skill" not in figures_of(two_pools(), graded(web=AdaptiveMemory()))
    assert dict(forecast_metrics(given(CALM, WEB))) == {}

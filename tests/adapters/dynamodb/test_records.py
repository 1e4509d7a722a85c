"""Each record as it stands in the table: its name, what an operator reads, when it is forgotten, how long it may be."""

import json
from dataclasses import replace
from hashlib import sha256

import pytest

from contracts.store_contract import event, journal, notice, record, version
from nodefleet.adapters.dynamodb import codec, records
from nodefleet.adapters.dynamodb.codec import body, with_tag
from nodefleet.errors import MalformedError
from nodefleet.model.decision import Action, ActionKind, ExecutedAction, PoolDecision
from nodefleet.model.fleet import Count
from nodefleet.model.serialization import to_plain
from nodefleet.model.snapshot import Adopt, Deployment, Drain, KnownPrices, Pause, Recycle, Scale
from nodefleet.model.state import AlertRecord, Level, LoopState, Memory, PoolUsage, Usage, compactions
from support.builders import NOON, after
from support.memory_builders import lived
from support.operation_builders import cleanup, launch, removal
from support.week_builders import TUNED
from support.wording import assert_wording

SECONDS = int(NOON.timestamp())
DAY = 86400


def shown(item):
    """What stands beside the body, as plain values, without what every record has."""
    assert item["format"] == {"N": "1"}
    assert item["cluster_id"] == {"S": "shop"}
    hidden = {"format", "cluster_id", "body"}
    return {name: _plain(held) for name, held in item.items() if name not in hidden}


def _plain(held):
    ((kind, value),) = held.items()
    return json.loads(value) if kind == "N" else value


# ── what an operator reads ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("operation", "kind", "target"),
    [
        (launch(), "launch", "2 × t3.small, t3a.small spot in a"),
        (removal(), "removal", "w1"),
        (removal(node=""), "removal", "i-1"),
        (cleanup(), "cleanup", "w1"),
    ],
)
def test_an_operation(operation, kind, target):
    item = records.operation_item("shop", operation)
    assert shown(item) == {
        "record": f"state#operation#{operation.id}",
        "kind": kind,
        "pool": "default",
        "target": target,
        "reason": operation.reason,
        "started": to_plain(operation.started),
        "deadline": to_plain(operation.deadline),
    }
    assert body(item) == with_tag(operation)


def test_a_notice():
    item = records.notice_item("shop", notice())
    assert shown(item) == {
        "record": "state#notice#i-1#spot-interruption#2026-11-16T12:00:00.000000Z",
        "instance": "i-1",
        "kind": "spot-interruption",
        "at": "2026-11-16T12:00:00Z",
        "ttl": SECONDS + DAY,
    }
    assert body(item) == to_plain(notice())


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (Pause(by="ann", reason="sale"), {"record": "state#order#pause#*", "kind": "pause"}),
        (
            Scale(pool="web", nodes=3, by="ann", reason="sale", until=after(60)),
            {"record": "state#order#scale#web", "kind": "scale", "pool": "web", "nodes": 3},
        ),
        (
            Adopt(instance="i-1", pool="web", at=NOON, by="ann", reason="sale", until=after(60)),
            {"record": "state#order#adopt#i-1", "kind": "adopt", "pool": "web", "instance": "i-1"},
        ),
        (
            Drain(instance="i-1", at=NOON, by="ann", reason="sale", until=after(60)),
            {"record": "state#order#drain#i-1", "kind": "drain", "instance": "i-1"},
        ),
        (
            Drain(instance="i-1", pool="web", at=NOON, by="ann", reason="sale", until=after(60)),
            {"record": "state#order#drain#i-1#web", "kind": "drain", "pool": "web", "instance": "i-1"},
        ),
        (
            Recycle(instance="i-1", at=NOON, by="ann", reason="sale", until=after(60)),
            {"record": "state#order#recycle#i-1", "kind": "recycle", "instance": "i-1"},
        ),
    ],
    ids=lambda value: value.get("kind") if isinstance(value, dict) else "",
)
def test_a_command(command, expected):
    item = records.order_item("shop", command)
    ends = {} if command.until is None else {"until": "2026-11-16T12:01:00Z", "ttl": SECONDS + 60 + DAY}
    named = {"by": "ann", "reason": "sale", "digest": records.digest(command)}
    assert shown(item) == expected | named | ends
    assert body(item) == with_tag(command)


def test_a_command_is_told_from_the_one_that_took_its_place():
    one = Scale(pool="web", nodes=3, until=after(60))
    assert records.digest(one) == records.digest(replace(one)) != records.digest(replace(one, nodes=4))
    assert records.digest(one) == sha256(json.dumps(with_tag(one), sort_keys=True).encode()).hexdigest()


@pytest.mark.parametrize("name", [codec.POLICY, codec.policy_key(3), codec.STACK_POLICY])
def test_a_policy(name):
    kept = replace(version(), number=3, source="ann", data={"limits": {"max": 7}}, digest="d3")
    item = records.policy_item("shop", kept, name)
    assert shown(item) == {"record": name, "number": 3, "source": "ann", "at": to_plain(kept.at), "digest": "d3"}
    assert body(item) == {"limits": {"max": 7}}
    assert records.declared_item("shop", kept) == records.policy_item("shop", kept, codec.STACK_POLICY)


def test_a_deployment():
    deployment = Deployment(cluster="shop", api_server="https://10.0.1.10:6443")
    item = records.deployment_item("shop", deployment)
    assert shown(item) == {"record": "state#stack#deployment", "api_server": "https://10.0.1.10:6443"}
    assert body(item) == to_plain(deployment)


def test_prices():
    prices = KnownPrices(region="us-east-1", at=NOON, on_demand={"t3.small": 0.0208})
    item = records.prices_item("shop", prices)
    assert shown(item) == {"record": codec.PRICES, "region": "us-east-1", "at": NOON.isoformat()}
    assert body(item) == to_plain(prices)


def test_what_tuning_found():
    item = records.tuning_item("shop", TUNED)
    expected = {
        "record": "state#tuning#default",
        "pool": "default",
        "at": TUNED.at.isoformat(),
        "settings": "price 40.0",
    }
    assert shown(item) == expected
    assert body(item) == to_plain(TUNED)


def test_what_is_not_there_is_left_out_of_an_event():
    assert shown(records.event_item("shop", event())) == {
        "record": "event#2026-11-16T12:00:00.000000Z#e1",
        "id": "e1",
        "at": "2026-11-16T12:00:00Z",
        "kind": "scale-up",
        "pool": "default",
        "text": "2 → 3: two pods wait",
        "change": 0,
        "level": "normal",
        "dry": False,
        "ttl": SECONDS + 30 * DAY,
    }


def test_the_id_of_an_event_stands_for_itself():
    assert records.told_item("shop", event()) == {
        "cluster_id": {"S": "shop"},
        "record": {"S": "told#e1"},
        "at": {"S": "2026-11-16T12:00:00Z"},
        "ttl": {"N": str(SECONDS + 30 * DAY)},
    }


def pool(name="web", **changes):
    base = PoolDecision(
        pool=name, action=Action.GROW, count=Count(ready=3, booting=1), target=5, reason="CPU 82 % > 70 %"
    )
    return replace(base, **changes)


def decided(*pools, **changes):
    base = record()
    return replace(base, **{"decision": replace(base.decision, pools=pools or (pool(),))} | changes)


def test_a_decision():
    made = decided(did=("cordoned w1", "launched 1"), archived="shop/abc.json.gz", fence=7, policy=3, dry=True)
    item = records.decision_item("shop", made)
    assert shown(item) == {
        "record": "decision#2026-11-16T12:00:00.000000Z#d001",
        "at": "2026-11-16T12:00:00Z",
        "fence": 7,
        "policy": 3,
        "action": "grow",
        "nodes": 4,
        "target": 5,
        "reason": "CPU 82 % > 70 %",
        "did": "cordoned w1; launched 1",
        "archived": "shop/abc.json.gz",
        "dry": True,
        "ttl": SECONDS + 30 * DAY,
    }
    assert body(item) == to_plain(made)


def test_a_decision_about_several_pools_names_them():
    made = decided(pool(), pool("batch", action=Action.HOLD, count=Count(ready=1), target=1, reason="calm"))
    found = shown(records.decision_item("shop", made))
    assert_wording(found["action"])
    assert_wording(found["reason"])
    assert (found["nodes"], found["target"]) == (5, 6)


def test_an_hour():
    pools = {
        "web": PoolUsage(usd=0.12344, spot_seconds=1800, on_demand_seconds=5400.5),
        "batch": PoolUsage(usd=0.1, spot_seconds=3600),
    }
    usage = Usage(hour=NOON, last=after(3600), pools=pools, own_usd=0.01028)
    item = records.usage_item("shop", usage)
    assert shown(item) == {
        "record": "usage#2026-11-16T12:00:00.000000Z",
        "hour": "2026-11-16T12:00:00Z",
        "node_hours": 3.0,
        "usd": 0.2234,
        "own_usd": 0.0103,
        "ttl": SECONDS + 35 * DAY,
    }
    assert body(item) == to_plain(usage)


def test_the_memory_shows_its_level_and_warns_of_nothing():
    warned = []
    memory = replace(journal(), memory=Memory(level=Level.PARTIAL))
    values = records.journal_values(memory, warned.append)
    assert (values["format"], values["level"], warned) == (1, "partial", [])
    assert json.loads(values["body"]) == to_plain(memory)


# ── how long it may be ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("length", "fits"), [(1024, True), (1025, False)])
def test_a_name_is_no_longer_than_dynamodb_takes(length, fits):
    """In bytes, not in characters."""
    name = "ü" + "x" * (length - 2)
    if fits:
        assert records.record_key("shop", name) == {"cluster_id": {"S": "shop"}, "record": {"S": name}}
        return
    with pytest.raises(MalformedError) as raised:
        records.record_key("shop", name)
    assert name[:80] in str(raised.value)
    assert name[:81] not in str(raised.value)
    assert "1024 bytes" in str(raised.value)


@pytest.mark.parametrize(("length", "kept"), [(1000, 1000), (1001, 1000)])
def test_a_text_beside_the_body_is_short_and_the_body_has_all_of_it(length, kept):
    item = records.operation_item("shop", launch(reason="x" * length))
    text = item["reason"]["S"]
    assert len(text) == kept
    assert text.endswith("…") is (length > kept)
    assert body(item)["reason"] == "x" * length


@pytest.mark.parametrize(("over", "fits"), [(0, True), (1, False)])
def test_what_a_stack_writes_is_text_up_to_what_a_record_holds(over, fits):
    empty = len(json.dumps({"a": ""}, separators=(",", ":")))
    kept = replace(version(), data={"a": "x" * (records.LARGEST_BODY - empty + over)})
    item = records.declared_item("shop", kept)
    assert ("S" in item["body"]) is fits


@pytest.mark.parametrize(("over", "fits"), [(0, True), (1, False)])
def test_a_record_that_does_not_fit_is_refused_by_its_name_with_both_figures(monkeypatch, over, fits):
    item = records.operation_item("shop", launch())
    length = len(item["body"]["S"].encode()) - over
    monkeypatch.setattr(records, "LARGEST_BODY", length)
    if fits:
        assert records.operation_item("shop", launch()) == item
        return
    with pytest.raises(MalformedError) as raised:
        records.operation_item("shop", launch())
    for figure in ("state#operation#l1", f"{length:,}", f"{length + 1:,}"):
        assert figure in str(raised.value)


def test_what_cannot_be_written_is_refused_by_the_records_name():
    with pytest.raises(MalformedError) as caught:
        records.operation_item("shop", launch(reason="\ud800"))
    assert_wording(str(caught.value))


def event_of(size):
    """One whose JSON has so many bytes."""
    base = event(text="")
    return replace(base, text="x" * (size - len(json.dumps(to_plain(base)))))


@pytest.mark.parametrize(("size", "whole"), [(50_000, True), (50_001, False)])
def test_an_event_is_shortened_only_when_it_is_too_long(size, whole):
    made = event_of(size)
    assert len(json.dumps(to_plain(made))) == size
    stored = records.event_in(records.event_item("shop", made))
    assert (stored == made) is whole
    assert len(stored.text) == (len(made.text) if whole else 1000)


@pytest.mark.parametrize(("number", "last"), [(40, None), (41, "… and 1 more"), (60, "… and 20 more")])
def test_of_the_details_of_a_long_event_a_few_are_kept(number, last):
    made = event(text="x" * 60_000, details=tuple(f"{index} " + "y" * 1200 for index in range(number)))
    stored = records.event_in(records.event_item("shop", made))
    kept, more = stored.details[:40], stored.details[40:]
    assert [len(each) for each in kept] == [1000] * 40
    assert more == (() if last is None else (last,))


def decision_of(size):
    long = decided(pool(votes=("",)))
    rest = size - len(json.dumps(to_plain(long)))
    return decided(pool(votes=("x" * rest,)))


@pytest.mark.parametrize(("size", "whole"), [(100_000, True), (100_001, False)])
def test_a_decision_is_cut_to_its_core_only_when_it_is_too_long(size, whole):
    made = decision_of(size)
    stored = body(records.decision_item("shop", made))
    assert (stored == to_plain(made)) is whole


def test_the_core_of_a_decision_has_all_that_it_comes_to():
    words = "y" * 1200
    made = decided(
        pool(votes=("x" * 100_000,), reason=words, dry_run=True),
        pool("batch"),
        did=(words,) * 50,
        actions=(ExecutedAction(kind=ActionKind.CORDON, node="w1"),),
        figures={"cpu": 1.0},
    )
    made = replace(made, decision=replace(made.decision, look_again=words, level=Level.DEGRADED))
    short = f"{words[:999]}…"
    core = replace(
        made.decision,
        pools=(pool(reason=short, dry_run=True), pool("batch")),
        memory=Memory(),
        look_again=short,
    )
    expected = replace(made, decision=core, did=(short,) * 40, actions=(), cut=True)
    assert body(records.decision_item("shop", made)) == to_plain(expected)


# ── the memory ───────────────────────────────────────────────────────────────────────────────────────────────────


def told(number):
    return {f"{index:064}": AlertRecord(told_at=NOON, seen_at=NOON) for index in range(number)}


def test_a_memory_is_kept_whole_up_to_its_limit_and_then_loses_what_can_be_learned_again(monkeypatch):
    memory, warned = LoopState(said=told(3000)), []
    whole = records.journal_values(memory, warned.append)["body"]
    monkeypatch.setattr(records, "LARGEST_MEMORY", len(whole))
    assert records.journal_values(memory, warned.append)["body"] == whole
    assert warned == []
    monkeypatch.setattr(records, "LARGEST_MEMORY", len(whole) - 1)
    assert len(records.journal_values(memory, warned.append)["body"]) < len(whole)
    (text,) = warned
    for figure in ("state#memory", f"{len(whole):,}", f"{len(whole) - 1:,}"):
        assert figure in text


def test_no_more_of_it_is_lost_than_has_to_be(monkeypatch):
    """What fits to the byte is taken, and not the next step, which loses more."""
    memory, warned = LoopState(memory=Memory(pools={"p": lived()})), []
    sizes = [len(codec.pack(to_plain(each.journal))) for each in compactions(memory)]
    monkeypatch.setattr(records, "LARGEST_MEMORY", sizes[1])
    assert sizes[2] < sizes[1] < sizes[0]
    assert len(records.journal_values(memory, warned.append)["body"]) == sizes[1]


def test_a_memory_that_is_too_large_even_so_is_kept_while_a_record_holds_it_and_refused_by_name_then(monkeypatch):
    memory, warned = LoopState(said=told(3000)), []
    monkeypatch.setattr(records, "LARGEST_MEMORY", 10)
    least = records.journal_values(memory, warned.append)["body"]
    assert len(warned) == 1
    monkeypatch.setattr(records, "LARGEST_BODY", len(least) - 1)
    with pytest.raises(MalformedError, match="state#memory"):
        records.journal_values(memory, warned.append)


# ── the stream ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("image", [None, {}, {"record": {"S": "state#lease"}}, {"record": "event#1"}])
def test_what_is_no_event_is_refused_with_the_filter_that_is_missing(image):
    with pytest.raises(MalformedError, match="event#") as raised:
        records.event_in(image)
    assert_wording(str(raised.value))

"""What a commit sends: in which order, in how many parts, and what happens when it dies in between."""

import random
from dataclasses import replace
from types import SimpleNamespace

import pytest

from contracts.store_contract import event, journal, notice, record, take, version
from nodefleet.adapters.dynamodb import codec, table
from nodefleet.adapters.dynamodb.codec import BODY, size
from nodefleet.adapters.dynamodb.records import LARGEST_BODY, journal_values
from nodefleet.adapters.dynamodb.store import DynamoStore
from nodefleet.errors import LostLeaseError, MalformedError
from nodefleet.model.decision import Action, PoolDecision
from nodefleet.model.fleet import Count
from nodefleet.model.snapshot import Pause, Scale
from nodefleet.model.state import AlertRecord, LoopState, Memory, PodGrant, PoolMemory, PoolUsage, Usage
from nodefleet.ports import Changes, Lease
from support.builders import NOON, after
from support.memory_builders import lived
from support.operation_builders import cleanup, launch, removal
from support.wording import assert_wording

CHANCE = random.Random(7)  # noqa: S311  # it makes text that does not compress
DAY = 86400


class DiedError(Exception):
    """The run was killed here."""


def noise(length):
    return CHANCE.randbytes(length // 2).hex()


def many(number, **changes):
    return tuple(launch(id=f"l{each:03}", **changes) for each in range(number))


def transactions(world):
    """What each transaction wrote, by the records' names; the lease's check is first in each."""
    return [
        [_record(action) for action in arguments["TransactItems"]]
        for name, arguments in world.client.calls
        if name == "transact_write_items"
    ]


def _record(action):
    (subject,) = action.values()
    return subject.get("Item", subject.get("Key"))["record"]["S"]


@pytest.fixture
def small_transactions(monkeypatch):
    """As if DynamoDB took ten actions."""
    monkeypatch.setattr(table, "MOST_ACTIONS", 10)


def sent(changes):
    """The transactions of a commit, to a DynamoDB that takes everything."""
    parts = []

    class Willing:
        def transact_write_items(self, TransactItems, **_):  # noqa: N803  # as boto3 spells it
            parts.append(TransactItems)

    DynamoStore(Willing(), "table", "shop", print).commit(Lease(owner="run-1", fence=1, expires=NOON), changes)
    return parts


# ── one transaction ──


def test_a_commit_is_one_transaction_on_condition_of_the_lease(table):
    store = table.store()
    lease = take(store)
    changes = Changes(
        journal=journal(),
        put=(launch(), removal()),
        drop=("c1",),
        events=(event(),),
        decision=record(),
        retire=(notice(),),
        usage=(Usage(hour=NOON, last=NOON),),
        policy=version(),
    )
    store.commit(lease, changes)
    assert transactions(table) == [
        [
            "state#lease",
            "state#operation#l1",
            "state#operation#r1",
            "state#operation#c1",
            "state#memory",
            "policy#00000001",
            "state#policy",
            "state#notice#i-1#spot-interruption#2026-11-16T12:00:00.000000Z",
            "told#e1",
            "event#2026-11-16T12:00:00.000000Z#e1",
            "decision#2026-11-16T12:00:00.000000Z#d001",
            "usage#2026-11-16T12:00:00.000000Z",
        ]
    ]


def test_no_changes_are_no_call(table):
    store = table.store()
    lease = take(store)
    table.client.calls.clear()
    store.commit(lease, Changes())
    assert table.client.calls == []


def test_a_commit_that_the_sdk_repeats_does_not_undo_what_came_after_it(on_local):
    """DynamoDB remembers the token, so the repetition has no effect."""
    store = on_local.store()
    lease = take(store)
    store.commit(lease, Changes(put=(launch(attempts=1),)))
    name, arguments = on_local.client.calls[-1]
    store.commit(lease, Changes(put=(launch(attempts=2),)))
    on_local.client.send(name, arguments)
    assert store.state().operations == (launch(attempts=2),)


def test_an_event_that_was_told_before_does_not_keep_the_rest_from_being_written(table):
    store = table.store()
    lease = take(store)
    store.tell(event())
    table.client.calls.clear()
    store.commit(lease, Changes(put=(launch(),), events=(event(at=after(9)), event("e2"))))
    first, second = transactions(table)
    assert len(first) == 6
    assert second == ["state#lease", "state#operation#l1", "told#e2", "event#2026-11-16T12:00:00.000000Z#e2"]


# ── several ──


def test_what_is_too_much_for_one_transaction_goes_into_several_under_the_same_lease():
    events = tuple(event(f"e{number:02}") for number in range(30))
    parts = sent(Changes(journal=journal(), put=many(120), events=events, decision=record()))
    assert [len(part) for part in parts] == [100, 83 + 1]
    assert all(_record(part[0]) == "state#lease" and "ConditionCheck" in part[0] for part in parts)
    assert len({_record(action) for part in parts for action in part[1:]}) == 120 + 1 + 60 + 1


def test_the_memory_goes_with_the_last_of_the_operations():
    """A lesson whose operation is stored and that is lost can be learned again; learned twice it would count twice."""
    parts = sent(Changes(journal=journal(), put=many(150), drop=("c1",), events=(event(),)))
    assert [_record(action) for action in parts[-1][-5:]] == [
        "state#operation#l149",
        "state#operation#c1",
        "state#memory",
        "told#e1",
        "event#2026-11-16T12:00:00.000000Z#e1",
    ]


def test_an_event_and_its_id_are_never_in_two_transactions():
    parts = sent(Changes(put=(launch(), removal()), events=tuple(event(f"e{number:02}") for number in range(55))))
    assert len(parts) == 2
    for part in parts:
        names = [_record(action) for action in part]
        told = [name.removeprefix("told#") for name in names if name.startswith(codec.TOLD)]
        assert told == [name.rpartition("#")[2] for name in names if name.startswith(codec.EVENTS)]


def test_a_run_that_dies_between_two_parts_leaves_a_beginning_that_makes_sense(table, small_transactions):
    store = table.store()
    lease = take(store)

    def die(*_):
        raise DiedError

    table.client.after = die
    with pytest.raises(DiedError):
        store.commit(lease, Changes(journal=journal(), put=many(12), events=(event(),), decision=record()))
    table.client.after = lambda *_: None
    state = store.state()
    assert state.operations == many(12)[:9]
    assert state.journal == LoopState()
    assert table.history().events(NOON, after(1)) == ()
    store.commit(lease, Changes(journal=journal(), put=many(12), events=(event(),), decision=record()))
    assert len(store.state().operations) == 12


@pytest.mark.parametrize("calls", range(2))
def test_a_run_that_dies_before_or_after_a_commits_effect_leaves_all_of_it_or_nothing(table, calls):
    store = table.store()
    lease = take(store)

    def die(*_):
        raise DiedError

    if calls:
        table.client.after = die
    else:
        table.client.before = die
    with pytest.raises(DiedError):
        store.commit(lease, Changes(journal=journal(), put=(launch(), removal()), events=(event(),), policy=version()))
    table.client.before = table.client.after = lambda *_: None
    state = store.state()
    told = len(table.history().events(NOON, after(1)))
    found = (len(state.operations), state.journal == journal(), state.policy == version(), told)
    assert found == ((2, True, True, 1) if calls else (0, False, False, 0))
    take(store, "next", now=after(400))


def test_a_run_that_loses_its_lease_between_two_parts_writes_no_further(table, small_transactions):
    store = table.store()
    lease = take(store, until=after(10))

    def lose(*_):
        table.client.after = lambda *_: None
        take(table.store(), "run-2", now=after(100))

    table.client.after = lose
    with pytest.raises(LostLeaseError):
        store.commit(lease, Changes(journal=journal(), put=many(12), events=(event(),)))
    assert len(store.state().operations) == 9
    assert store.state().journal == LoopState()


def test_megabytes_go_into_several_transactions(on_local):
    store = on_local.store()
    lease = take(store)
    operations = many(14, reason=noise(500_000))
    store.commit(lease, Changes(put=operations))
    assert len(transactions(on_local)) > 1
    assert store.state().operations == operations


def test_a_part_is_never_more_than_dynamodb_takes():
    put = many(120) + tuple(launch(id=f"big{number}", reason=noise(500_000)) for number in range(16))
    parts = sent(Changes(put=put, events=tuple(event(f"e{number}") for number in range(80))))
    assert len(parts) == 4
    assert all(len(part) <= table.MOST_ACTIONS for part in parts)
    assert all(sum(size(each["Put"]["Item"]) for each in part[1:]) < 4_000_000 for part in parts)
    assert sum(len(part) - 1 for part in parts) == 136 + 160


# ── too big ──


@pytest.mark.parametrize(
    "changes",
    [
        Changes(
            journal=LoopState(memory=Memory(pools={"default": PoolMemory(members=(noise(2 * LARGEST_BODY + 9000),))}))
        ),
        Changes(put=(launch(reason=noise(2 * LARGEST_BODY + 9000)),)),
        Changes(policy=version(data={"note": noise(2 * LARGEST_BODY + 9000)})),
    ],
    ids=["memory", "operation", "policy"],
)
def test_what_does_not_fit_into_a_record_is_refused_before_anything_is_written(on_moto, changes):
    store = on_moto.store()
    lease = take(store)
    on_moto.client.calls.clear()
    with pytest.raises(MalformedError) as caught:
        store.commit(lease, replace(changes, events=(event(),)))
    assert_wording(str(caught.value))
    assert on_moto.client.calls == []


def test_the_memory_of_a_huge_fleet_fits_into_its_record(on_moto):
    """20 pools with 28 days of load each, and 10,000 nodes: 550 KB as it is, and DynamoDB takes 400."""
    draw = random.Random(7)  # noqa: S311  # repeatable on purpose
    pools = {f"pool-{number}": lived(days=28, nodes=500, draw=draw) for number in range(20)}
    whole = LoopState(memory=Memory(pools=pools), adopted_policy="d")
    warned: list[str] = []
    values = journal_values(whole, warned.append)
    assert len(values[BODY]) <= 300_000
    store = on_moto.store()
    lease = take(store)
    store.commit(lease, Changes(journal=whole))
    stored = store.state().journal
    assert stored.adopted_policy == "d"
    assert all(stored.memory.pools[name].members == each.members for name, each in pools.items())
    assert all(len(each.profile) >= 24 * 14 for each in stored.memory.pools.values())


def test_what_is_dropped_from_the_memory_is_said():
    said = {noise(90): AlertRecord(told_at=NOON, seen_at=NOON) for _ in range(1000)}
    pools = {f"p{number}": PoolMemory(pod_grants=(PodGrant(uid=noise(50_000), at=NOON),)) for number in range(20)}
    warned: list[str] = []
    values = journal_values(LoopState(memory=Memory(pools=pools), said=said), warned.append)
    assert len(values[BODY]) <= 300_000
    assert len(warned) == 1
    assert_wording(warned[0])


def test_what_a_commit_drops_from_the_memory_is_said():
    pools = {f"p{number}": PoolMemory(pod_grants=(PodGrant(uid=noise(50_000), at=NOON),)) for number in range(20)}
    client, warned = SimpleNamespace(transact_write_items=lambda **_: None), []
    store = DynamoStore(client, "table", "shop", warned.append)
    store.commit(Lease(owner="run-1", fence=1, expires=NOON), Changes(journal=LoopState(memory=Memory(pools=pools))))
    assert len(warned) == 1


def test_the_biggest_record_fits_with_all_that_a_person_reads_beside_it(on_local):
    """Every readable text at its longest, in characters of three bytes."""
    store = on_local.store()
    lease = take(store)
    words = "節" * 5000
    operation = launch(reason=noise(2 * LARGEST_BODY - 130_000) + words, types=(words,), zone=words)
    store.commit(lease, Changes(put=(operation,)))
    assert store.state().operations == (operation,)


def test_a_decision_that_is_too_long_is_stored_as_its_core(on_moto):
    store = on_moto.store()
    lease = take(store)
    pool = PoolDecision(
        pool="default", action=Action.GROW, count=Count(ready=3), target=5, reason="two wait", votes=(noise(300_000),)
    )
    long = record(did=tuple(f"did {number}" for number in range(100)))
    long = replace(long, decision=replace(long.decision, pools=(pool,)))
    store.commit(lease, Changes(put=(launch(),), decision=long))
    (stored,) = on_moto.history().decisions(1)
    assert stored.cut
    assert stored.decision.pools == (replace(pool, votes=()),)
    assert stored.did == long.did[:40]
    assert stored.figures == long.figures


def test_an_event_that_is_too_long_is_shortened_and_says_so(on_moto):
    long = event(text="x" * 60_000, details=tuple(f"detail {number}" for number in range(60)))
    on_moto.store().tell(long)
    (stored,) = on_moto.history().events(NOON, after(1))
    assert len(stored.text) == 1000
    assert stored.text.endswith("…")
    assert stored.details == (*long.details[:40], "… and 20 more")


def test_a_figure_that_is_not_a_number_is_refused_with_the_records_name(on_moto):
    store = on_moto.store()
    lease = take(store)
    with pytest.raises(MalformedError, match="decision#2026-11-16"):
        store.commit(lease, Changes(decision=record(figures={"cpu": float("nan")})))


# ── what an operator reads


def test_the_seeds_attributes_are_on_the_memory_and_stay_there(table):
    store = table.store()
    lease = take(store)
    seed = {"last_scale_time": "2026-11-16T11:58:00+00:00", "last_scale_action": "scale_up", "node_count": 4}
    store.commit(lease, Changes(journal=journal(), seed=seed))
    store.commit(lease, Changes(journal=journal("later"), seed={"node_count": 5, "last_scale_action": None}))
    item = table.item(codec.MEMORY)
    assert item["last_scale_time"] == {"S": "2026-11-16T11:58:00+00:00"}
    assert item["last_scale_action"] == {"S": "scale_up"}
    assert item["node_count"] == {"N": "5"}
    assert item["level"] == {"S": "recovery"}
    assert store.state().journal == journal("later")


def test_the_seeds_attributes_alone_are_no_memory(table):
    store = table.store()
    lease = take(store)
    store.commit(lease, Changes(seed={"node_count": 3}))
    assert store.state().journal == LoopState()
    assert table.item(codec.MEMORY)["node_count"] == {"N": "3"}


def test_the_seed_cannot_overwrite_the_memory_itself(on_moto):
    store = on_moto.store()
    lease = take(store)
    with pytest.raises(MalformedError) as caught:
        store.commit(lease, Changes(seed={"body": "x", "node_count": 3, "digest": "y"}))
    assert_wording(str(caught.value))


@pytest.mark.parametrize(
    ("operation", "target"),
    [
        (launch(), "2 × t3.small, t3a.small spot in a"),
        (removal(), "w1"),
        (removal(node=""), "i-1"),
        (cleanup(), "w1"),
    ],
)
def test_an_operations_record_says_what_it_is_about(on_moto, operation, target):
    store = on_moto.store()
    store.commit(take(store), Changes(put=(operation,)))
    item = on_moto.item(codec.operation_key(operation.id))
    assert item["target"] == {"S": target}
    assert item["reason"] == {"S": operation.reason}
    assert item["started"] == {"S": "2026-11-16T12:00:00Z"}
    assert item["kind"]["S"] in ("launch", "removal", "cleanup")
    assert codec.TTL not in item


def test_a_decisions_record_says_what_and_why(on_moto):
    store = on_moto.store()
    pools = tuple(
        PoolDecision(pool=name, action=action, count=Count(ready=nodes), target=target, reason=reason)
        for name, action, nodes, target, reason in (
            ("web", Action.GROW, 3, 4, "CPU 82 % > 70 %"),
            ("batch", Action.HOLD, 1, 1, "nothing to do"),
        )
    )
    base = record(did=("launched 1",), archived="shop/2026/11/16/abc.json.gz")
    both = replace(base, decision=replace(base.decision, pools=pools))
    store.commit(take(store), Changes(decision=both))
    item = on_moto.item("decision#2026-11-16T12:00:00.000000Z#d001")
    assert item["action"] == {"S": "web: grow | batch: hold"}
    assert item["reason"] == {"S": "web: CPU 82 % > 70 % | batch: nothing to do"}
    assert (item["nodes"], item["target"], item["did"]) == ({"N": "4"}, {"N": "5"}, {"S": "launched 1"})
    assert item["archived"] == {"S": "shop/2026/11/16/abc.json.gz"}


def test_each_record_is_forgotten_in_its_time(on_moto):
    store = on_moto.store()
    lease = take(store)
    store.record(notice())
    store.order(Pause(pool="web"), event("e1"))
    store.order(Scale(pool="web", nodes=3, until=after(7200)), event("e2"))
    usage = Usage(hour=NOON, last=after(3600), pools={"default": PoolUsage(usd=0.123456, spot_seconds=5400)})
    store.commit(lease, Changes(journal=journal(), decision=record(), usage=(usage,), policy=version()))
    now = int(NOON.timestamp())
    expected = {
        "state#notice#i-1#spot-interruption#2026-11-16T12:00:00.000000Z": now + DAY,
        "state#order#scale#web": now + 7200 + DAY,
        "event#2026-11-16T12:00:00.000000Z#e1": now + 30 * DAY,
        "told#e1": now + 30 * DAY,
        "decision#2026-11-16T12:00:00.000000Z#d001": now + 30 * DAY,
        "usage#2026-11-16T12:00:00.000000Z": now + 35 * DAY,
    }
    assert {name: int(on_moto.item(name)[codec.TTL]["N"]) for name in expected} == expected
    for name in ("state#lease", "state#memory", "state#order#pause#web", "state#policy", "policy#00000001"):
        assert on_moto.item(name)
        assert codec.TTL not in on_moto.item(name)
    item = on_moto.item("usage#2026-11-16T12:00:00.000000Z")
    assert (item["usd"], item["node_hours"]) == ({"N": "0.1235"}, {"N": "1.5"})

"""Reading back what was recorded."""

import pytest
from botocore.exceptions import ClientError

from contracts.store_contract import event, record, take, version
from nodefleet.adapters.dynamodb import codec
from nodefleet.adapters.dynamodb.store import DynamoHistory
from nodefleet.adapters.dynamodb.table import Patience
from nodefleet.errors import ChangedError
from nodefleet.ports import Changes
from support.builders import NOON, after


def test_a_broken_record_does_not_hide_the_others(on_moto):
    store, history = on_moto.store(), on_moto.history()
    for number in range(3):
        store.tell(event(f"e{number}", at=after(number)))
        history.apply(version(number + 1), event(f"p{number}", at=after(100 + number)))
    on_moto.change(codec.event_key(after(1), "e1"), body={"S": "{"})
    on_moto.change(codec.policy_key(2), format={"N": "99"})
    assert [each.id for each in history.events(NOON, after(50))] == ["e2", "e0"]
    assert [each.number for each in history.policies()] == [3, 1]
    assert [name in warning for name, warning in zip(("e1", "policy#00000002"), on_moto.warnings, strict=True)] == [
        True,
        True,
    ]


def test_a_field_that_this_version_does_not_know_is_left_out_and_said(on_moto):
    store, history = on_moto.store(), on_moto.history()
    store.tell(event("e1"))
    item = on_moto.item(codec.event_key(NOON, "e1"))
    on_moto.write(item | {"body": {"S": item["body"]["S"].removesuffix("}") + ',"mood":"calm"}'}})
    assert [each.id for each in history.events(NOON, after(1))] == ["e1"]
    (warning,) = on_moto.warnings
    assert "mood" in warning


def test_a_broken_decision_does_not_count_against_the_limit(on_moto):
    store, history = on_moto.store(), on_moto.history()
    lease = take(store)
    for number in range(5):
        store.commit(lease, Changes(decision=record(number, at=after(number))))
    on_moto.change(codec.decision_key(after(3), "d003"), body={"S": "{"})
    assert [each.id for each in history.decisions(3)] == ["d004", "d002", "d001"]


def test_pages_are_followed(table):
    store, history = table.store(), table.history()
    lease = take(store)
    for number in range(7):
        store.commit(lease, Changes(decision=record(number, at=after(number))))
    table.change(codec.decision_key(after(6), "d006"), body={"S": "{"})
    table.client.calls.clear()
    assert len(history.decisions(6)) == 6
    assert table.client.names() == ["query", "query"]


def test_applying_a_policy_is_as_patient_as_it_is_told(on_moto):
    waits = []
    busy = iter([ClientError({"Error": {"Code": "TransactionConflictException"}}, "TransactWriteItems")])

    def meet(*_):
        for problem in busy:
            raise problem

    on_moto.client.before = meet
    patience = Patience(first=0.02, sleep=waits.append, luck=lambda: 0.5)
    history = DynamoHistory(on_moto.client, on_moto.table, "shop", print, patience=patience)
    history.apply(version(), event())
    assert waits == [0.01]


@pytest.mark.parametrize("limit", [0, -3])
def test_nothing_is_asked_for_nothing(on_moto, limit):
    assert on_moto.history().decisions(limit) == ()
    assert on_moto.client.calls == []


def test_an_empty_span_is_not_asked_for(on_moto):
    assert on_moto.history().events(after(1), after(1)) == ()
    assert on_moto.client.calls == []


def test_the_last_microsecond_of_a_span_is_in_it(table):
    table.store().tell(event(at=after(59.999999)))
    assert len(table.history().events(NOON, after(60))) == 1
    assert table.history().events(after(60), after(61)) == ()


def test_applying_a_policy_is_one_transaction(table):
    table.history().apply(version(), event())
    ((name, arguments),) = table.client.calls
    assert name == "transact_write_items"
    assert len(arguments["TransactItems"]) == 4


def test_an_event_that_was_told_before_does_not_keep_a_policy_from_coming_into_force(table):
    table.store().tell(event())
    table.history().apply(version(), event())
    assert table.store().state().policy == version()


def test_a_version_is_never_overwritten_even_if_none_is_in_force(on_moto):
    """Somebody deleted the one in force by hand."""
    on_moto.history().apply(version(1), event("e1"))
    on_moto.forget(codec.POLICY)
    with pytest.raises(ChangedError):
        on_moto.history().apply(version(1, "bob"), event("e2"))
    assert on_moto.history().policies() == (version(1),)
    on_moto.history().apply(version(1), event("e1"))
    assert on_moto.store().state().policy == version(1)

"""Calls that meet other calls, and calls that fail."""

from types import SimpleNamespace

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from contracts.store_contract import SKEW, event, notice, take, version
from nodefleet.adapters.dynamodb import table as table_module
from nodefleet.adapters.dynamodb.store import DynamoStore
from nodefleet.adapters.dynamodb.table import Patience, Table, Writer, unit, write
from nodefleet.errors import (
    DeniedError,
    LostLeaseError,
    MalformedError,
    MisconfiguredError,
    ThrottledError,
    UnavailableError,
)
from nodefleet.model.snapshot import Pause
from nodefleet.ports import Changes
from support.builders import after
from support.dynamo_tables import NO_WAITING
from support.operation_builders import launch
from support.wording import assert_wording


def refused(code, operation="UpdateItem", **others):
    return ClientError({"Error": {"Code": code, "Message": "said DynamoDB"}, **others}, operation)


def cancelled(*codes):
    reasons = [{"Code": code, "Message": f"because of {code}"} for code in codes]
    return refused("TransactionCanceledException", "TransactWriteItems", CancellationReasons=reasons)


def failing(world, error, times=10**6):
    """So many calls fail before they have an effect."""
    left = iter([error] * min(times, 100))

    def fail(*_):
        problem = next(left, None)
        if problem is not None:
            raise problem

    world.client.before = fail
    world.client.calls.clear()


CONFLICT = cancelled("TransactionConflict", "None")
SINGLE_CONFLICT = refused("TransactionConflictException")
IN_PROGRESS = refused("TransactionInProgressException", "TransactWriteItems")


# ── writes that meet ──


@pytest.mark.parametrize("problem", [CONFLICT, IN_PROGRESS, cancelled("None", "ThrottlingError")])
def test_a_commit_that_met_another_write_is_tried_again(on_moto, problem):
    store = on_moto.store()
    lease = take(store)
    failing(on_moto, problem, times=3)
    store.commit(lease, Changes(put=(launch(),)))
    assert on_moto.client.names() == ["transact_write_items"] * 4
    assert store.state().operations == (launch(),)


def test_the_tries_of_one_commit_have_one_token_and_two_commits_have_two(on_moto):
    """A try that seemed to fail may have had its effect."""
    store = on_moto.store()
    lease = take(store)
    failing(on_moto, CONFLICT, times=2)
    store.commit(lease, Changes(put=(launch(),)))
    store.commit(lease, Changes(put=(launch(),)))
    tokens = [arguments["ClientRequestToken"] for _, arguments in on_moto.client.calls]
    assert len(tokens) == 4
    assert len(set(tokens[:3])) == 1
    assert len(set(tokens)) == 2
    assert all(len(token) <= 36 for token in tokens)


def test_each_single_write_that_met_a_transaction_is_tried_again(on_moto):
    store = on_moto.store()
    failing(on_moto, SINGLE_CONFLICT, times=1)
    store.wake()
    failing(on_moto, SINGLE_CONFLICT, times=1)
    lease = take(store)
    failing(on_moto, SINGLE_CONFLICT, times=1)
    store.record(notice())
    failing(on_moto, SINGLE_CONFLICT, times=1)
    assert store.release(lease, 1)
    assert store.state().notices == (notice(),)


def test_trying_again_has_an_end(on_moto):
    store = on_moto.store()
    lease = take(store)
    failing(on_moto, CONFLICT)
    with pytest.raises(UnavailableError) as caught:
        store.commit(lease, Changes(put=(launch(),)))
    assert_wording(str(caught.value))
    assert len(on_moto.client.calls) == NO_WAITING.tries
    failing(on_moto, SINGLE_CONFLICT)
    with pytest.raises(UnavailableError):
        store.wake()


def test_throttled_transactions_end_as_throttled(on_moto):
    store = on_moto.store()
    lease = take(store)
    failing(on_moto, cancelled("None", "ProvisionedThroughputExceeded"))
    with pytest.raises(ThrottledError):
        store.commit(lease, Changes(put=(launch(),)))


def test_a_throttle_that_the_sdk_gave_up_on_is_not_tried_eight_times_more(on_moto):
    failing(on_moto, refused("ProvisionedThroughputExceededException"))
    with pytest.raises(ThrottledError):
        on_moto.store().wake()
    assert len(on_moto.client.calls) == 1


def test_waits_grow_at_random_up_to_a_limit_and_are_short_in_all(on_moto):
    slept = []
    patience = Patience(sleep=slept.append, luck=lambda: 1.0)
    store = DynamoStore(on_moto.client, on_moto.table, "shop", on_moto.warnings.append, patience=patience)
    failing(on_moto, SINGLE_CONFLICT)
    with pytest.raises(UnavailableError):
        store.wake()
    assert slept == [0.02, 0.04, 0.08, 0.16, 0.32, 0.4, 0.4]
    assert list(Patience(luck=lambda: 0.0).waits()) == [0.0] * 7


def test_a_lost_lease_is_said_at_once_though_something_else_was_busy(on_moto):
    store = on_moto.store()
    lease = take(store)
    failing(on_moto, cancelled("ConditionalCheckFailed", "TransactionConflict"))
    with pytest.raises(LostLeaseError) as caught:
        store.commit(lease, Changes(put=(launch(),)))
    assert_wording(str(caught.value))
    assert len(on_moto.client.calls) == 1


# ── what else can come ──


@pytest.mark.parametrize(
    ("problem", "error"),
    [
        (cancelled("None", "ValidationError"), MalformedError),
        (cancelled("None", "ItemCollectionSizeLimitExceeded"), MalformedError),
        (cancelled(), UnavailableError),
        (cancelled("None", "None"), UnavailableError),
        (refused("AccessDeniedException", "TransactWriteItems"), DeniedError),
        (refused("ResourceNotFoundException", "TransactWriteItems"), MisconfiguredError),
        (refused("InternalServerError", "TransactWriteItems"), UnavailableError),
        (EndpointConnectionError(endpoint_url="https://dynamodb"), UnavailableError),
    ],
)
def test_what_goes_wrong_is_said_in_our_own_words(on_moto, problem, error):
    store = on_moto.store()
    lease = take(store)
    failing(on_moto, problem)
    with pytest.raises(error) as raised:
        store.commit(lease, Changes(put=(launch(),)))
    assert_wording(str(raised.value))
    assert len(on_moto.client.calls) == 1


def test_a_table_that_is_not_there_is_named(on_moto):
    """AWS says only that a resource is missing."""
    failing(on_moto, refused("ResourceNotFoundException", "Query"))
    store = on_moto.store()
    with pytest.raises(MisconfiguredError, match=store._table.name):
        store.state()


def test_a_transaction_that_is_refused_for_no_condition_of_ours_does_not_go_on_for_ever(on_moto):
    store = on_moto.store()
    lease = take(store)
    failing(on_moto, cancelled("None", "None", "ConditionalCheckFailed"))
    with pytest.raises(UnavailableError) as caught:
        store.commit(lease, Changes(put=(launch(),)))
    assert_wording(str(caught.value))


@pytest.mark.parametrize(
    "call",
    [
        lambda world: world.store().state(),
        lambda world: world.store().wake(),
        lambda world: world.store().acquire("run-2", after(0), after(300), SKEW),
        lambda world: world.store().record(notice()),
        lambda world: world.store().order(Pause(), event()),
        lambda world: world.store().withdraw(Pause(), event()),
        lambda world: world.store().tell(event()),
        lambda world: world.history().decisions(5),
        lambda world: world.history().events(after(0), after(1)),
        lambda world: world.history().usage(after(0), after(1)),
        lambda world: world.history().policies(),
        lambda world: world.history().apply(version(), event()),
    ],
)
def test_every_call_says_when_dynamodb_is_away(on_moto, call):
    failing(on_moto, EndpointConnectionError(endpoint_url="https://dynamodb"))
    with pytest.raises(UnavailableError) as raised:
        call(on_moto)
    assert raised.value.part == "DynamoDB"


def test_a_page_that_fails_is_an_error_and_not_a_short_list(on_moto):
    pages = iter([{"Items": [], "LastEvaluatedKey": {"record": {"S": "state#m"}}}])

    class Paged:
        def query(self, **_):
            page = next(pages, None)
            if page is None:
                raise EndpointConnectionError(endpoint_url="https://dynamodb")
            return page

    with pytest.raises(UnavailableError):
        DynamoStore(Paged(), "table", "shop", print).state()


@pytest.mark.parametrize(("guarded", "parts"), [(False, [100, 1]), (True, [100, 3])])
def test_a_transaction_takes_a_hundred_actions_with_its_guard(guarded, parts):
    sent = []
    client = SimpleNamespace(transact_write_items=lambda **call: sent.append(len(call["TransactItems"])))
    table = Table(client, "fleet", "shop", NO_WAITING)
    units = [unit(Writer(table).delete(f"told#{number}")) for number in range(101)]
    write(table, units, unit(Writer(table).check("state#lease", "#owner = :owner", owner="me")) if guarded else None)
    assert sent == parts


@pytest.mark.parametrize(("over", "parts"), [(0, [2]), (1, [1, 1])])
def test_a_transaction_takes_so_many_bytes(monkeypatch, over, parts):
    sent = []
    client = SimpleNamespace(transact_write_items=lambda **call: sent.append(len(call["TransactItems"])))
    table = Table(client, "fleet", "shop", NO_WAITING)
    units = [unit(Writer(table).delete(f"told#{number}")) for number in range(2)]
    monkeypatch.setattr(table_module, "MOST_BYTES", 2 * units[0].bytes - over)
    write(table, units)
    assert sent == parts


def test_the_bytes_of_an_action_are_those_of_its_item_its_key_and_its_values():
    table = Table(None, "fleet", "shop")
    action = Writer(table).delete("told#1", "#owner = :owner", owner="ann")
    assert unit(action).bytes == len("cluster_idshop" + "recordtold#1" + ":ownerann")
    item = {"record": {"S": "told#1"}}
    assert unit(Writer(table).put(item), action).bytes == len("recordtold#1") + unit(action).bytes


def test_a_write_that_keeps_meeting_others_says_what_dynamodb_said(on_moto):
    failing(on_moto, SINGLE_CONFLICT)
    with pytest.raises(UnavailableError) as raised:
        on_moto.store().wake()
    assert str(raised.value).endswith(": TransactionConflictException")
    assert raised.value.part == "DynamoDB"

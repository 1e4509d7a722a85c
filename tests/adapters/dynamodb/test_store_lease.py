"""The lease's record, and what a lost answer does to it."""

from datetime import timedelta

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from contracts.store_contract import SKEW, take
from nodefleet.adapters.dynamodb import codec
from nodefleet.adapters.dynamodb.store import acquire
from nodefleet.adapters.dynamodb.table import Table
from nodefleet.errors import LostLeaseError, MalformedError, UnavailableError
from nodefleet.ports import Changes, Lease, LeaseHeld
from support.builders import NOON, after
from support.operation_builders import launch

TIMEOUT = ReadTimeoutError(endpoint_url="https://dynamodb.eu-west-1.amazonaws.com")


def sent_twice(client):
    """Each call is sent a second time, as the SDK does when the first one's answer is lost."""
    client.before = client.send


def silenced(client):
    """Each call has its effect, and nobody hears of it."""

    def silence(*_):
        raise TIMEOUT

    client.after = silence


def mended(client):
    client.before = client.after = lambda *_: None


# ── what an operator sees


def test_the_record_shows_who_acts_and_since_when(table):
    take(table.store(), "run-1", until=after(120))
    item = table.item(codec.LEASE)
    assert item["scaling_in_progress"] == {"BOOL": True}
    assert item["lock_acquired_at"] == {"S": "2026-11-16T12:00:00Z"}
    assert item["owner"] == {"S": "run-1"}
    assert item["expires"] == {"S": "2026-11-16T12:02:00Z"}
    assert item["expires_ms"] == {"N": str(int(after(120).timestamp() * 1000))}
    assert item["fence"] == {"N": "1"}


def test_a_released_lease_shows_that_nobody_acts_and_when_somebody_last_did(table):
    store = table.store()
    store.release(take(store), None)
    item = table.item(codec.LEASE)
    assert item["scaling_in_progress"] == {"BOOL": False}
    assert item["lock_acquired_at"] == {"S": "2026-11-16T12:00:00Z"}
    assert not {"owner", "claim", "expires", "expires_ms"} & item.keys()


def test_dynamodb_never_deletes_the_lease_by_itself(table):
    take(table.store())
    assert codec.TTL not in table.item(codec.LEASE)


def test_it_does_not_expire_a_moment_before_its_owner_believes(table):
    take(table.store(), until=after(100.0004))
    assert int(table.item(codec.LEASE)["expires_ms"]["N"]) == int(after(100).timestamp() * 1000) + 1


def test_each_call_is_one_request(table):
    store = table.store()
    lease = take(store)
    store.acquire("run-2", after(1), after(300), SKEW)
    store.wake()
    store.release(lease, 0)
    store.release(lease, 1)
    assert table.client.names() == ["update_item"] * 5


# ── answers that are lost ──


def test_an_acquire_that_the_sdk_repeats_gets_its_own_lease(table):
    sent_twice(table.client)
    lease = take(table.store())
    mended(table.client)
    assert lease == Lease(owner="run-1", fence=1, expires=after(300))
    table.store().commit(lease, Changes(put=(launch(),)))


def test_a_takeover_that_the_sdk_repeats_gets_its_own_lease(table):
    take(table.store(), "dead", until=after(10))
    sent_twice(table.client)
    lease = take(table.store(), "run-2", now=after(100))
    mended(table.client)
    assert lease.fence == 2
    table.store().commit(lease, Changes(put=(launch(),)))


def test_a_first_try_that_arrives_late_does_not_shut_its_own_caller_out(table):
    """The SDK gave the first try up, the second was answered, and then the first one gets through."""
    store = table.store()
    lease = take(store)
    ((name, arguments),) = table.client.calls
    with pytest.raises(ClientError) as refused:
        table.client.send(name, arguments)
    assert refused.value.response["Error"]["Code"] == "ConditionalCheckFailedException"
    store.commit(lease, Changes(put=(launch(),)))


def test_an_owner_that_never_heard_of_its_lease_can_ask_again(table):
    silenced(table.client)
    with pytest.raises(UnavailableError):
        take(table.store())
    mended(table.client)
    lease = take(table.store(), now=after(20))
    assert lease.fence == 2
    table.store().commit(lease, Changes(put=(launch(),)))


def test_nobody_else_gets_the_lease_of_an_owner_that_never_heard_of_it(table):
    silenced(table.client)
    with pytest.raises(UnavailableError):
        take(table.store(), until=after(100))
    mended(table.client)
    assert isinstance(table.store().acquire("run-2", after(50), after(300), SKEW), LeaseHeld)
    assert take(table.store(), "run-2", now=after(106)).fence == 2


def test_a_release_that_the_sdk_repeats_is_a_release(table):
    store = table.store()
    lease = take(store)
    sent_twice(table.client)
    assert store.release(lease, 0)


def test_a_wake_up_between_a_release_and_its_repetition_finds_the_lease_free(table):
    store = table.store()
    lease = take(store)

    def released_then_woken(name, arguments):
        mended(table.client)
        table.client.send(name, arguments)
        store.wake()

    table.client.before = released_then_woken
    assert store.release(lease, 0)
    take(store, "urgent", now=after(1))


def test_a_release_that_was_repeated_does_not_free_the_next_owners_lease(table):
    store = table.store()
    lease = take(store)

    def released_then_taken(name, arguments):
        mended(table.client)
        table.client.send(name, arguments)
        take(store, "run-2", now=after(1))

    table.client.before = released_then_taken
    assert store.release(lease, 0)
    assert isinstance(store.acquire("run-3", after(2), after(300), SKEW), LeaseHeld)


def test_a_wake_up_that_the_sdk_repeats_still_wakes(table):
    store = table.store()
    lease = take(store)
    sent_twice(table.client)
    store.wake()
    mended(table.client)
    assert not store.release(lease, 0)


# ── what is broken ──


def test_a_lease_that_makes_no_sense_is_said_so_and_not_taken(table):
    take(table.store())
    item = table.item(codec.LEASE)
    del item["expires_ms"]
    table.write(item)
    with pytest.raises(MalformedError, match="state#lease") as raised:
        table.store().acquire("run-2", after(9999), after(10299), SKEW)
    assert ": it says neither that it is free nor until when it is held. " in str(raised.value)


def test_two_calls_of_one_owner_are_two_claims(table):
    """Were they one, a run that is started again could act beside what is left of itself."""
    first = take(table.store())
    second = take(table.store())
    assert second.fence == first.fence + 1
    with pytest.raises(LostLeaseError):
        table.store().commit(first, Changes(put=(launch(),)))


def test_the_very_same_call_is_one_claim(table):
    asked = [
        acquire(Table(table.client, table.table, "shop"), "run-1", NOON, after(300), SKEW, claim=lambda: "call-1")
        for _ in range(2)
    ]
    assert asked == [Lease(owner="run-1", fence=1, expires=after(300))] * 2


def test_the_allowance_for_clocks_may_be_nothing(table):
    store = table.store()
    take(store, until=after(10))
    assert isinstance(store.acquire("run-2", after(10), after(99), timedelta(0)), LeaseHeld)
    assert isinstance(store.acquire("run-2", after(10.001), after(99), timedelta(0)), Lease)

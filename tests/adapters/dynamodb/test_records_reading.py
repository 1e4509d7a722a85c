"""An iteration's state, and what is done about records that cannot be read."""

import json
from dataclasses import replace

import pytest

from contracts.store_contract import event, journal, notice, take, version
from nodefleet.adapters.dynamodb import codec
from nodefleet.adapters.dynamodb.records import declared_item, deployment_item
from nodefleet.adapters.dynamodb.store import put_prices, put_tuning
from nodefleet.errors import MalformedError
from nodefleet.model.snapshot import Deployment, KnownPrices, Pause, Scale
from nodefleet.ports import Changes
from support.builders import NOON, after
from support.operation_builders import launch, removal
from support.week_builders import TUNED
from support.wording import assert_wording

BROKEN = {"body": {"S": "{"}}
NEWER = {"format": {"N": "99"}}


@pytest.fixture
def full(on_moto):
    """A table with one of everything."""
    store = on_moto.store()
    lease = take(store)
    store.commit(lease, Changes(journal=journal(), put=(launch(), removal()), policy=version()))
    store.record(notice())
    store.order(Pause(pool="web", by="ann"), event("e1"))
    store.order(Scale(pool="web", nodes=3, until=after(60)), event("e2"))
    on_moto.declare(version(0, "stack"), Deployment(cluster="shop"))
    return on_moto


def test_a_state_is_one_consistent_query(full):
    full.client.calls.clear()
    full.store().state()
    ((name, arguments),) = full.client.calls
    assert name == "query"
    assert arguments["ConsistentRead"]


PRICES = KnownPrices(region="us-east-1", at=NOON, on_demand={"t3.small": 0.0208}, spot={"t3.small": 0.007})


def test_prices_are_part_of_the_state(full):
    assert full.store().state().prices is None
    put_prices(full.client, full.table, "shop", PRICES)
    assert full.store().state().prices == PRICES


def test_prices_that_cannot_be_read_are_left_out_with_a_warning(full):
    put_prices(full.client, full.table, "shop", PRICES)
    full.change(codec.PRICES, **BROKEN)
    assert full.store().state().prices is None
    assert any(codec.PRICES in said for said in full.warnings)


def test_what_tuning_found_is_part_of_the_state_by_pool(full):
    assert full.store().state().tuned == ()
    for found in (TUNED, replace(TUNED, pool="jobs"), replace(TUNED, saving_pct=9.0)):
        put_tuning(full.client, full.table, "shop", found)
    assert full.store().state().tuned == (replace(TUNED, saving_pct=9.0), replace(TUNED, pool="jobs"))
    full.change(f"{codec.TUNINGS}jobs", **BROKEN)
    assert full.store().state().tuned == (replace(TUNED, saving_pct=9.0),)
    assert any(codec.TUNINGS in said for said in full.warnings)


def test_what_was_recorded_is_not_read_for_a_look(full):
    before = full.store().state()
    for number in range(20):
        full.store().tell(event(f"more-{number}"))
    assert full.store().state() == before


@pytest.mark.parametrize("damage", [BROKEN, NEWER])
@pytest.mark.parametrize("record", [codec.MEMORY, codec.operation_key("l1"), codec.POLICY, codec.STACK_DEPLOYMENT])
def test_a_broken_record_that_a_look_cannot_do_without_is_an_error_that_names_it(full, record, damage):
    full.change(record, **damage)
    with pytest.raises(MalformedError, match=record) as error:
        full.store().state()
    assert "docs/state.md" in str(error.value)


@pytest.mark.parametrize("lacks", ["at", "digest", "source"])
def test_a_policy_in_force_that_lacks_something_is_an_error(full, lacks):
    item = full.item(codec.POLICY)
    del item[lacks]
    full.write(item)
    with pytest.raises(MalformedError, match="state#policy") as raised:
        full.store().state()
    assert_wording(str(raised.value))


@pytest.mark.parametrize(
    ("record", "part"),
    [
        ("state#order#scale#web", "commands"),
        ("state#notice#i-1#spot-interruption#2026-11-16T12:00:00.000000Z", "notices"),
        (codec.STACK_POLICY, "declared"),
    ],
)
@pytest.mark.parametrize("damage", [BROKEN, NEWER])
def test_a_broken_record_that_a_look_can_do_without_is_left_out_and_said(full, record, part, damage):
    before = full.store().state()
    full.change(record, **damage)
    state = full.store().state()
    assert getattr(state, part) != getattr(before, part)
    assert state.operations == before.operations
    (warning,) = full.warnings
    assert record in warning


def test_a_pause_that_cannot_be_read_pauses_all_the_same(full):
    full.change("state#order#pause#web", **BROKEN)
    (pause,) = [each for each in full.store().state().commands if isinstance(each, Pause)]
    assert (pause.pool, pause.by, pause.until) == ("web", "ann", None)
    assert "state#order#pause#web" in full.warnings[0]
    assert_wording(pause.reason)
    full.change("state#order#pause#web", by={"S": ""}, **BROKEN)
    assert [each.by for each in full.store().state().commands if isinstance(each, Pause)] == ["unknown"]


def test_a_pause_of_everything_that_cannot_be_read_pauses_everything(on_moto):
    on_moto.store().order(Pause(), event())
    on_moto.change("state#order#pause#*", **NEWER)
    (pause,) = on_moto.store().state().commands
    assert isinstance(pause, Pause)
    assert pause.pool is None


def test_a_pause_that_cannot_be_read_can_be_resumed(full):
    full.change("state#order#pause#web", **BROKEN)
    (pause,) = [each for each in full.store().state().commands if isinstance(each, Pause)]
    full.store().withdraw(pause, event("resumed"))
    assert [type(each) for each in full.store().state().commands] == [Scale]


def test_an_unknown_kind_of_order_is_left_out_and_said(full):
    full.write(full.item("state#order#scale#web") | {"record": {"S": "state#order#freeze#web"}} | BROKEN)
    assert len(full.store().state().commands) == 2
    assert "state#order#freeze#web" in full.warnings[0]


def test_a_kind_of_record_that_this_version_does_not_know_is_left_out_and_said(full):
    before = full.store().state()
    full.write({"cluster_id": {"S": "shop"}, "record": {"S": "state#quota#web"}})
    assert full.store().state() == before
    assert "state#quota#web" in full.warnings[0]
    assert_wording(full.warnings)


def test_nothing_is_said_when_all_is_well(full):
    state = full.store().state()
    assert (len(state.commands), len(state.notices), len(state.operations)) == (2, 1, 2)
    assert full.warnings == []


def test_a_rolled_back_version_goes_on_with_what_the_newer_one_left(full):
    """It reads an operation with a field that it does not know, and writes it back without."""
    item = full.item(codec.operation_key("l1"))
    body = item["body"]["S"].removesuffix("}") + ',"placement_group":"pg-1"}'
    full.write(item | {"body": {"S": body}})
    store = full.store()
    assert store.state().operations == (launch(), removal())
    assert "placement_group" in full.warnings[0]
    store.commit(take(store), Changes(put=(launch(attempts=1),)))
    assert store.state().operations == (launch(attempts=1), removal())


def test_what_the_stack_writes_is_text_however_long(on_moto):
    """Its tool writes JSON, which has no bytes."""
    declared = version(0, "stack", data={"pools": [{"name": f"pool-{number}"} for number in range(1000)]})
    deployment = Deployment(cluster="shop", prices={f"t{number}.small": 0.02 for number in range(1000)})
    for item in (declared_item("shop", declared), deployment_item("shop", deployment)):
        assert len(item["body"]["S"]) > 10_000
        assert json.loads(json.dumps(item)) == item
    on_moto.declare(declared, deployment)
    state = on_moto.store().state()
    assert (state.declared, state.deployment) == (declared, deployment)

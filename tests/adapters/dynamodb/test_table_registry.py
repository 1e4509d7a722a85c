"""The registry of a deployment for many clusters: records that commands write and functions read."""

from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.adapters.dynamodb.codec import CLUSTERS, FLEET, PARTITION, SORT
from nodefleet.adapters.dynamodb.records import fleet_item, registered_item
from nodefleet.adapters.dynamodb.table import DynamoRegistry
from nodefleet.model.names import SHARED_PARTITION
from nodefleet.model.snapshot import FleetParts, RegisteredCluster
from support.builders import NOON
from support.dynamo_tables import NO_WAITING
from support.wording import assert_wording

SHOP = RegisteredCluster(name="shop", region="eu-west-1", by="anna", at=NOON)
BANK = RegisteredCluster(name="bank", paused=True, by="ben", at=NOON + timedelta(hours=1))
PARTS = FleetParts(
    name="fleet",
    prefix="dev-",
    queue="https://queue.example/runs.fifo",
    queue_arn="arn:aws:sqs:eu-west-1:123456789012:runs.fifo",
    schedule_group="fleet",
    schedule_role="arn:aws:iam::123456789012:role/ticks",
    every=timedelta(minutes=2),
    reconcile_function="reconcile",
)


@pytest.fixture
def registry(on_moto):
    return DynamoRegistry(on_moto.client, on_moto.table, on_moto.warnings.append, NO_WAITING)


def test_an_empty_table_has_no_clusters_and_no_parts(registry):
    assert registry.parts() is None
    assert registry.clusters() == ()
    assert registry.find("shop") is None
    assert (list(registry), len(registry), "shop" in registry) == ([], 0, False)


def test_clusters_come_back_as_they_were_put_by_name(registry):
    registry.put(SHOP)
    registry.put(BANK)
    assert registry.clusters() == (BANK, SHOP)
    assert (registry.find("shop"), registry.find("bank")) == (SHOP, BANK)
    assert (list(registry), len(registry)) == (["bank", "shop"], 2)
    assert "shop" in registry


def test_only_the_whole_name_is_found(registry):
    registry.put(SHOP)
    assert registry.find("sho") is None
    assert registry.find("shop-2") is None
    assert "" not in registry
    assert 7 not in registry


def test_one_that_is_put_again_takes_the_place_of_the_first(registry):
    registry.put(SHOP)
    registry.put(replace(SHOP, paused=True))
    assert registry.clusters() == (replace(SHOP, paused=True),)


def test_one_that_is_removed_is_gone_and_the_others_stay(registry):
    registry.put(SHOP)
    registry.put(BANK)
    registry.remove("shop")
    assert registry.clusters() == (BANK,)
    assert "shop" not in registry


def test_the_stack_says_what_it_has_for_all_of_them(on_moto, registry):
    on_moto.write(fleet_item(PARTS))
    registry.put(SHOP)
    assert registry.parts() == PARTS
    assert on_moto.item(FLEET, SHARED_PARTITION)["queue"] == {"S": PARTS.queue}
    assert registered_item(SHOP)["region"] == {"S": "eu-west-1"}
    assert registry.clusters() == (SHOP,)


def test_parts_of_a_newer_version_are_read_without_what_is_unknown(on_moto, registry):
    item = fleet_item(PARTS)
    on_moto.write(item | {"body": {"S": item["body"]["S"].removesuffix("}") + ',"mood":"calm"}'}})
    assert registry.parts() == PARTS
    (warning,) = on_moto.warnings
    assert "mood" in warning


def test_a_record_that_cannot_be_read_is_left_out_and_named(on_moto, registry):
    registry.put(SHOP)
    spoiled = registered_item(BANK)
    on_moto.write({PARTITION: spoiled[PARTITION], SORT: spoiled[SORT]})
    assert registry.clusters() == (SHOP,)
    (warning,) = on_moto.warnings
    assert f"{CLUSTERS}bank" in warning
    assert_wording(warning)


def test_finding_one_asks_for_one_record(on_moto, registry):
    registry.put(SHOP)
    on_moto.client.calls.clear()
    registry.find("shop")
    ((name, asked),) = on_moto.client.calls
    assert name == "query"
    values = [each["S"] for each in asked["ExpressionAttributeValues"].values()]
    assert values.count(f"{CLUSTERS}shop") == 2  # from this key up to this key

"""The request budget in the table: shared by all clusters, counted once, and drained by EC2's word."""

from datetime import timedelta

import pytest

from nodefleet.adapters.dynamodb.store import DynamoRequestBudget
from nodefleet.errors import UnavailableError
from nodefleet.policy.cluster import BucketRules, RequestKind
from support.builders import NOON, after
from support.dynamo_tables import NO_WAITING

RULES = BucketRules(size=2, per_second=1)
CHANGE, DESCRIBE = RequestKind.CHANGE, RequestKind.DESCRIBE
NOW = timedelta(0)


def budget(table):
    return DynamoRequestBudget(table.client, table.table, NO_WAITING)


def test_what_one_run_takes_another_has_no_more(table):
    one, other = budget(table), budget(table)
    assert [each.take(CHANGE, RULES, NOON) for each in (one, other, one)] == [NOW, NOW, timedelta(seconds=1)]
    assert other.take(CHANGE, RULES, after(1)) == NOW


def test_reads_and_changes_have_a_bucket_each(table):
    one = budget(table)
    assert [one.take(CHANGE, RULES, NOON) for _ in range(3)][-1]
    assert one.take(DESCRIBE, RULES, NOON) == NOW


def test_of_two_runs_that_want_the_last_request_one_gets_it(table):
    one, other, waits = budget(table), budget(table), []
    one.take(CHANGE, RULES, NOON)

    def quicker(name, _):
        if name == "update_item":
            table.client.before = lambda *_: None
            waits.append(other.take(CHANGE, RULES, NOON))

    table.client.before = quicker
    waits.append(one.take(CHANGE, RULES, NOON))
    assert waits == [NOW, timedelta(seconds=1)]


def test_the_first_two_runs_that_meet_both_count(table):
    one, other = budget(table), budget(table)

    def quicker(name, _):
        if name == "update_item":
            table.client.before = lambda *_: None
            other.take(CHANGE, RULES, NOON)

    table.client.before = quicker
    one.take(CHANGE, RULES, NOON)
    assert one.take(CHANGE, RULES, NOON) == timedelta(seconds=1)


def test_what_ec2_refuses_drains_it_for_all(table):
    one, other = budget(table), budget(table)
    one.drain(CHANGE, NOON)
    assert other.take(CHANGE, RULES, NOON) == timedelta(seconds=1)


def test_a_record_that_cannot_be_read_counts_as_full(table):
    one = budget(table)
    one.take(CHANGE, RULES, NOON)
    broken = table.item("requests#change", "@all") | {"tokens": {"S": "many"}}
    table.write(broken)
    assert one.take(CHANGE, RULES, NOON) == NOW


def test_runs_that_keep_meeting_give_up_and_say_so(table):
    one, number = budget(table), iter(range(1000))

    def others(name, arguments):
        if name == "update_item":
            item = {"cluster_id": {"S": "@all"}, "record": {"S": "requests#change"}}
            table.write(item | {"version": {"N": str(next(number) + 1)}, "tokens": {"S": "2"}})

    table.client.before = others
    with pytest.raises(UnavailableError) as refused:
        one.take(CHANGE, RULES, NOON)
    assert str(refused.value) == "DynamoDB: other runs keep changing the request budget"

"""A deployment for many clusters: runs go through a FIFO queue, and the registry in the table says whom it serves."""

import json
from contextlib import contextmanager
from datetime import timedelta

import pytest

from nodefleet import settings
from nodefleet.errors import UnavailableError
from nodefleet.handlers import FUNCTION
from nodefleet.handlers.reconcile import LATE, OLDEST_TICK, OLDEST_URGENT
from nodefleet.model.snapshot import RegisteredCluster
from support.deployed import account, environment, lukewarm, two_clusters
from support.function_output import Printed

__all__ = ["account", "two_clusters"]

SECOND = timedelta(seconds=1)


@pytest.fixture
def fleet(two_clusters, monkeypatch):
    """Both clusters are registered, and the queue is one of moto's."""
    environment(monkeypatch, ["*"], two_clusters.table, two_clusters.bucket)
    queue = two_clusters.client("sqs").create_queue(
        QueueName=f"{two_clusters.table}.fifo", Attributes={"FifoQueue": "true"}
    )
    monkeypatch.setenv(settings.QUEUE, queue["QueueUrl"])
    lukewarm()
    for name in two_clusters.sites:
        FUNCTION.registry().put(RegisteredCluster(name=name, by="anna", at=two_clusters.clock()))
    return two_clusters


def queued(fleet, *asked, age=timedelta(0)):
    """A batch as Lambda hands it over."""
    sent = str(int((fleet.clock() - age).timestamp() * 1000))
    return {
        "Records": [
            {
                "eventSource": "aws:sqs",
                "messageId": f"m{number}",
                "body": json.dumps(body),
                "attributes": {"SentTimestamp": sent, "MessageGroupId": str(body.get("cluster"))},
            }
            for number, body in enumerate(asked)
        ]
    }


def tick(cluster):
    return {"cluster": cluster, "scheduled": True, "tick": "2026-11-18T06:00:00Z"}


def waiting_in(fleet):
    answer = fleet.client("sqs").receive_message(
        QueueUrl=FUNCTION.settings.queue, MaxNumberOfMessages=10, AttributeNames=["MessageGroupId"]
    )
    return [(json.loads(each["Body"]), each["Attributes"]["MessageGroupId"]) for each in answer.get("Messages", [])]


@contextmanager
def broken(fleet, cluster):
    """Its policy cannot be read."""
    key = {"cluster_id": {"S": cluster}, "record": {"S": "state#policy"}}
    client = fleet.client("dynamodb")
    client.put_item(TableName=fleet.table, Item={**key, "body": {"S": "not JSON"}})
    yield
    client.delete_item(TableName=fleet.table, Key=key)


def test_a_tick_of_the_queue_runs_its_cluster_and_no_other(fleet):
    shop, blog = fleet.sites.values()
    answer = fleet.reconcile(queued(fleet, tick(shop.name)))
    assert [run["cluster"] for run in answer["runs"]] == [shop.name]
    assert answer["batchItemFailures"] == []
    assert (len(shop.ids()), blog.ids()) == (2, set())


def test_a_tick_that_waited_as_long_as_until_the_next_one_is_dropped(fleet):
    (shop, _) = fleet.sites
    assert fleet.reconcile(queued(fleet, tick(shop), age=OLDEST_TICK + SECOND))["runs"] == []
    assert len(fleet.reconcile(queued(fleet, tick(shop), age=OLDEST_TICK - SECOND))["runs"]) == 1


def test_a_tick_that_waited_for_a_place_makes_one_iteration_and_leaves_it_to_others(fleet):
    (shop, _) = fleet.sites
    fleet.reconcile(queued(fleet, tick(shop)))
    fleet.clock.passes(seconds=20)  # two nodes boot: a run that has time looks again and again
    (late,) = fleet.reconcile(queued(fleet, tick(shop), age=LATE + SECOND))["runs"]
    assert late["looks"] == 1


def test_an_urgent_message_is_kept_for_longer(fleet):
    (shop, _) = fleet.sites
    urgent = {"cluster": shop, "urgent": True}
    assert fleet.reconcile(queued(fleet, urgent, age=OLDEST_URGENT + SECOND))["runs"] == []
    assert len(fleet.reconcile(queued(fleet, urgent, age=OLDEST_URGENT - SECOND))["runs"]) == 1


def test_an_urgent_message_is_dropped_if_an_iteration_has_looked_since(fleet):
    (shop, _) = fleet.sites
    urgent = {"cluster": shop, "urgent": True}
    before = queued(fleet, urgent)
    fleet.clock.passes(seconds=20)
    fleet.reconcile(queued(fleet, tick(shop)))
    assert fleet.reconcile(before)["runs"] == []
    fleet.clock.passes(seconds=5)
    assert len(fleet.reconcile(queued(fleet, urgent))["runs"]) == 1


def test_a_broken_cluster_s_tick_fails_alone_and_does_not_come_again(fleet, capsys):
    shop, blog = fleet.sites
    with broken(fleet, shop):
        Printed.since(capsys)
        answer = fleet.reconcile(queued(fleet, tick(shop), tick(blog)))
    assert [run["cluster"] for run in answer["runs"]] == [blog]
    assert answer["batchItemFailures"] == []
    assert sorted(Printed.since(capsys).metrics["ScalingFailures"]) == [0, 1]


def test_a_broken_cluster_s_urgent_message_comes_again(fleet):
    shop, blog = fleet.sites
    urgent = [{"cluster": each, "urgent": True} for each in (shop, blog)]
    with broken(fleet, shop):
        answer = fleet.reconcile(queued(fleet, *urgent))
    assert [run["cluster"] for run in answer["runs"]] == [blog]
    assert answer["batchItemFailures"] == [{"itemIdentifier": "m0"}]


def test_what_asks_for_a_run_directly_is_put_into_the_queue_and_wakes_the_run_at_work(fleet):
    shop, blog = fleet.sites
    before = fleet.store(shop).wakes()
    alert = {"Sns": {"Message": "[FIRING:1]", "MessageAttributes": {"cluster": {"Value": shop}}}}
    assert fleet.reconcile({"Records": [alert, alert]}) == {"queued": [shop]}
    assert waiting_in(fleet) == [({"cluster": shop, "urgent": True}, shop)]
    assert fleet.store(shop).wakes() == before + 1
    assert fleet.store(blog).wakes() == 0


def test_a_cluster_that_is_not_registered_has_no_runs(fleet, capsys):
    shop, _ = fleet.sites
    FUNCTION.registry().remove(shop)
    Printed.since(capsys)
    assert fleet.reconcile(queued(fleet, tick(shop)))["runs"] == []
    assert "ignored" in fleet.reconcile({"cluster": shop})
    assert fleet.sites[shop].ids() == set()


def test_a_paused_cluster_has_no_runs_until_it_is_resumed(fleet):
    shop, _ = fleet.sites
    known = FUNCTION.registry().find(shop)
    FUNCTION.registry().put(RegisteredCluster(name=shop, paused=True, at=known.at))
    assert fleet.reconcile(queued(fleet, tick(shop)))["runs"] == []
    FUNCTION.registry().put(known)
    assert len(fleet.reconcile(queued(fleet, tick(shop)))["runs"]) == 1


def test_an_instance_s_event_reaches_the_registered_cluster_that_owns_it(fleet):
    shop, blog = fleet.sites
    fleet.reconcile(queued(fleet, tick(shop), tick(blog)))
    one = min(fleet.sites[blog].ids())
    assert FUNCTION.owners_of([one, "i-0123456789abcdef0"]) == {blog: frozenset({one})}
    FUNCTION.registry().remove(blog)
    assert FUNCTION.owners_of([one]) == {}


def test_while_ec2_does_not_say_whose_an_instance_is_the_event_comes_again(fleet, monkeypatch):
    """A thousand clusters cannot all look."""

    def away(*_):
        raise UnavailableError("EC2", "no answer")

    monkeypatch.setattr("nodefleet.adapters.aws.ec2.clusters_of", away)
    with pytest.raises(UnavailableError):
        FUNCTION.owners_of(["i-0123456789abcdef0"])


def test_a_warm_function_forgets_the_cluster_that_it_has_not_run_for_longest(fleet, monkeypatch):
    monkeypatch.setattr("nodefleet.bootstrap.KEPT_CLUSTERS", 1)
    shop, blog = fleet.sites
    fleet.reconcile(queued(fleet, tick(shop), tick(blog)))
    assert list(FUNCTION.clusters) == [blog]


def test_ec2_says_once_what_types_offer_to_all_clusters_of_a_region(fleet):
    asked = []
    FUNCTION._answers.clear()
    events, name = fleet.client("ec2").meta.events, "provide-client-params.ec2.DescribeInstanceTypes"
    events.register(name, lambda **_: asked.append(1), unique_id="types")
    fleet.reconcile(queued(fleet, *map(tick, fleet.sites)))
    events.unregister(name, unique_id="types")
    assert len(asked) == 1

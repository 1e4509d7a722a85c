"""What EC2 says of its instances, as EventBridge brings it, through the shipped wiring, on moto and loopback."""

import json
import socket
from contextlib import contextmanager
from datetime import timedelta

import pytest
from botocore.exceptions import ClientError

from nodefleet import settings
from nodefleet.adapters.aws import session
from nodefleet.adapters.aws.triggers import messages_in
from nodefleet.errors import MalformedError, UnavailableError
from nodefleet.handlers import FUNCTION, interruption
from nodefleet.model.inventory import NoticeKind
from nodefleet.model.names import CONTROL_PLANE_LABELS, REASON_ANNOTATION, TAG_ROLE
from support.deployed import account, deployed, dynamodb_at, environment, two_clusters
from support.deployed_site import Context, MovedClock, name_of, written
from support.function_output import Printed
from support.wording import assert_wording

__all__ = ["account", "deployed", "two_clusters"]

WARNING = "EC2 Spot Instance Interruption Warning"
REBALANCE = "EC2 Instance Rebalance Recommendation"
STATE = "EC2 Instance State-change Notification"


def said(deployed, kind, instance, **detail):
    """As EventBridge writes it, with the odd ARN."""
    return {
        "version": "0",
        "source": "aws.ec2",
        "detail-type": kind,
        "time": written(deployed.clock()),
        "resources": [f"arn:aws:ec2:us-east-1b:instance/{instance}"],
        "detail": {"instance-id": instance, **detail},
    }


def scheduled(deployed, *instances, starts=timedelta(minutes=1)):
    return {
        "source": "aws.health",
        "detail-type": "AWS Health Event",
        "time": written(deployed.clock()),
        "detail": {
            "service": "EC2",
            "eventTypeCategory": "scheduledChange",
            "startTime": (deployed.clock() + starts).strftime("%a, %d %b %Y %H:%M:%S GMT"),
            "affectedEntities": [{"entityValue": instance} for instance in instances],
        },
    }


def busy(deployed, site=None, workers=3):
    """Workers with a pod each that a run has seen before. A run that waits finds the world moved on."""
    site = site or deployed.site
    made = site.workers(workers)
    for instance in made:
        site.pod(f"web-{instance}", on=instance)
    deployed.reconcile({"cluster": site.name})
    site.server.asked.clear()
    deployed.clock.meanwhile = site.settle
    return made


def hold(deployed, seconds=300):
    now = deployed.clock()
    deployed.store().acquire("other", now, now + timedelta(seconds=seconds), timedelta(0))


@contextmanager
def without_the_table(*, hangs=False):
    """DynamoDB's address leads nowhere, for a function that has just started."""
    with socket.socket() as taken, pytest.MonkeyPatch.context() as patch:
        taken.bind(("127.0.0.1", 0))  # bound, but not listening: every connection is refused
        if hangs:
            taken.listen(64)  # connections are made, and nobody ever answers
            patch.setattr(session, "TABLE_READ_SECONDS", 0.01)
        with dynamodb_at(f"http://127.0.0.1:{taken.getsockname()[1]}"):
            yield


# ── a warning ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_warned_worker_is_drained_and_replaced_in_the_same_invocation(deployed):
    site = deployed.site
    victim, *others = busy(deployed)
    recorded = []
    site.server.on("create", "pods/eviction", lambda: recorded.append(deployed.store().state().notices))
    (ran,) = deployed.interruption(said(deployed, WARNING, victim))["runs"]
    assert [(notice.instance, notice.kind) for notice in recorded[0]] == [(victim, NoticeKind.SPOT_INTERRUPTION)]
    assert any(done.startswith("asked EC2 for 1 ") for done in ran["did"])
    assert len(site.ids() - {victim}) == 3
    assert site.cordoned() == {victim}
    cordon = next(each.body for each in site.server.asked if each.verb == "patch" and each.name == name_of(victim))
    assert "spot-interruption" in cordon["metadata"]["annotations"][REASON_ANNOTATION]
    assert site.pods() == {f"web-{instance}" for instance in others}
    assert deployed.events().count("interrupted") == 1
    evictions = [each.path for each in site.server.asked if each.resource == "pods/eviction"]
    assert {path.split("/")[-2] for path in evictions} == {f"web-{victim}"}


def test_while_another_run_has_the_lease_it_drains_all_the_same_and_launches_nothing(deployed):
    site = deployed.site
    victim, *others = busy(deployed)
    before = site.ids()
    hold(deployed)
    (ran,) = deployed.interruption(said(deployed, WARNING, victim))["runs"]
    assert (ran["held"], ran["looks"], ran["did"]) == (True, 0, [])
    assert site.cordoned() == {victim}
    assert site.pods() == {f"web-{instance}" for instance in others}
    assert site.ids() == before
    state = deployed.store().state()
    assert state.wake >= 1
    assert [notice.instance for notice in state.notices] == [victim]


def test_what_does_not_go_by_itself_is_deleted_by_force_ninety_seconds_after_the_notice(deployed):
    """While another run has the lease, and a budget allows nothing."""
    site = deployed.site
    victim, *_ = busy(deployed)
    hold(deployed)
    site.server.objects.put("poddisruptionbudgets", _forbids_everything())
    began = deployed.clock()
    deployed.interruption(said(deployed, WARNING, victim), limit=timedelta(seconds=150))
    assert f"web-{victim}" not in site.pods()
    assert f"delete pods web-{victim}" in site.writes()
    assert 85 < (deployed.clock() - began).total_seconds() < 115


def _forbids_everything():
    return {
        "metadata": {"name": "web", "namespace": "default", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": "100%"},
        "status": {"disruptionsAllowed": 0, "currentHealthy": 3, "desiredHealthy": 3, "observedGeneration": 1},
    }


def test_a_doubled_event_changes_nothing(deployed):
    site = deployed.site
    victim = busy(deployed)[0]
    event = said(deployed, WARNING, victim)
    deployed.interruption(event)
    after = site.ids()
    deployed.interruption(event)
    assert site.ids() == after
    assert deployed.items("state#notice#") == []  # the instance is gone, and with it what was said of it
    assert deployed.events().count("interrupted") == 1


# ── parts that are away ──────────────────────────────────────────────────────────────────────────────────────────


def test_without_the_table_a_cold_function_drains_the_node_and_then_fails(deployed, capsys):
    site = deployed.site
    victim, *others = busy(deployed)
    before = site.ids()
    with without_the_table(), pytest.raises(UnavailableError, match="DynamoDB"):
        deployed.interruption(said(deployed, WARNING, victim))
    assert site.cordoned() == {victim}
    assert site.pods() == {f"web-{instance}" for instance in others}
    assert site.ids() == before
    assert Printed.since(capsys).says("going by names")


def test_a_table_that_hangs_leaves_most_of_the_two_minutes_for_the_drain(deployed):
    site = deployed.site
    victim = busy(deployed)[0]
    before, sent = FUNCTION.shared.session.calls(), []
    site.server.on("patch", "nodes", lambda: sent.append(FUNCTION.shared.session.calls() - before))
    with without_the_table(hangs=True), pytest.raises(UnavailableError, match="DynamoDB"):
        deployed.interruption(said(deployed, WARNING, victim))
    assert site.cordoned() == {victim}
    in_vain = sent[0] - 2  # EC2 was asked whose it is, and Secrets Manager for the login
    assert 0 < in_vain * session.TABLE_READ_SECONDS <= 20


def test_a_node_drained_without_the_table_is_replaced_when_the_table_is_back(deployed, monkeypatch):
    """The event does not even come again: the node itself tells why it leaves."""
    site = deployed.site
    victim = busy(deployed)[0]
    away = UnavailableError("DynamoDB", "timed out")
    with monkeypatch.context() as patch:
        patch.setattr(FUNCTION, "store_of", lambda _: Away(away))
        with pytest.raises(UnavailableError) as caught:
            deployed.interruption(said(deployed, WARNING, victim))
        assert_wording(str(caught.value))
    assert site.cordoned() == {victim}
    deployed.tick()
    assert len(site.ids() - {victim}) == 3
    assert "interrupted" in deployed.events()
    assert "readmitted" not in deployed.events()


class Away:
    """A part that answers nothing."""

    def __init__(self, error):
        self._error = error

    def __getattr__(self, name):
        def call(*_, **__):
            raise self._error

        return call


def test_while_ec2_does_not_say_whose_it_is_every_cluster_looks_and_its_own_one_drains(two_clusters, monkeypatch):
    shop, blog = two_clusters.sites.values()
    victim = busy(two_clusters, shop)[0]
    two_clusters.clock.meanwhile = shop.end_pods
    error = ClientError({"Error": {"Code": "UnauthorizedOperation", "Message": "no"}}, "DescribeInstances")
    with monkeypatch.context() as patch:
        patch.setattr("botocore.client.BaseClient._make_api_call", _failing(error, "DescribeInstances"))
        ran = two_clusters.interruption(said(two_clusters, WARNING, victim))["runs"]
    assert [each["cluster"] for each in ran] == [shop.name, blog.name]
    assert shop.cordoned() == {victim}
    assert f"web-{victim}" not in shop.pods()
    assert blog.writes() == []


def _failing(error, operation):
    from botocore.client import BaseClient  # noqa: PLC0415

    real = BaseClient._make_api_call

    def call(self, name, arguments):
        if name == operation:
            raise error
        return real(self, name, arguments)

    return call


# ── the other events ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_recommendation_is_recorded_and_nothing_more(deployed):
    site = deployed.site
    victim = busy(deployed)[0]
    before = site.ids()
    (ran,) = deployed.interruption(said(deployed, REBALANCE, victim))["runs"]
    assert (ran["looks"], ran["did"]) == (1, [])
    assert (site.writes(), site.ids()) == ([], before)
    assert [notice.kind for notice in deployed.store().state().notices] == [NoticeKind.REBALANCE]


def test_a_worker_that_went_is_replaced_when_ec2_says_so_and_not_at_the_next_tick(deployed):
    site = deployed.site
    busy(deployed, workers=2)
    gone = min(site.ids())
    site.ec2.terminate_instances(InstanceIds=[gone])
    (ran,) = deployed.interruption(said(deployed, STATE, gone, state="terminated"))["runs"]
    assert ran["looks"] >= 1
    assert len(site.ids()) == 2
    assert deployed.store().state().notices == ()


def test_a_worker_that_starts_is_no_reason_to_run(deployed):
    (worker,) = deployed.site.workers(1)
    assert deployed.interruption(said(deployed, STATE, worker, state="running")) == {"runs": []}


def test_all_machines_of_a_scheduled_change_are_cordoned_before_the_first_pod_goes(deployed):
    site = deployed.site
    first, second, _ = busy(deployed)
    recorded = []
    site.server.on("create", "pods/eviction", lambda: recorded.append(deployed.store().state().notices))
    deployed.interruption(scheduled(deployed, first, second, "vol-0123"))
    assert {notice.kind for notice in recorded[0]} == {NoticeKind.SCHEDULED_CHANGE}
    assert site.cordoned() == {first, second}
    writes = site.writes()
    cordons = [place for place, write in enumerate(writes) if write.startswith("patch nodes")]
    assert cordons[1] < next(place for place, write in enumerate(writes) if "eviction" in write)
    assert deployed.store().state().notices == ()  # they are gone


# ── whose it is not ──────────────────────────────────────────────────────────────────────────────────────────────


def test_machines_that_are_nobody_s_or_unknown_are_acknowledged_and_left_alone(deployed):
    site = deployed.site
    foreign = site.ec2.run_instances(ImageId="ami-12345678", InstanceType="t3.small", MinCount=1, MaxCount=1)
    for instance in (foreign["Instances"][0]["InstanceId"], "i-0123456789abcdef0"):
        assert deployed.interruption(said(deployed, WARNING, instance)) == {"runs": []}
    assert site.server.asked == []
    assert deployed.items("state#notice#") == []


def test_another_cluster_s_machine_is_that_cluster_s_business(two_clusters):
    shop, blog = two_clusters.sites.values()
    victim = busy(two_clusters, blog)[0]
    ran = two_clusters.interruption(said(two_clusters, WARNING, victim))["runs"]
    assert [each["cluster"] for each in ran] == [blog.name]
    assert shop.server.asked == []
    assert blog.cordoned() == {victim}


def test_the_control_plane_is_never_touched_whatever_ec2_says(deployed):
    site = deployed.site
    site.workers(2)
    server = site.machine(role="server")
    site.put_node(server, **{CONTROL_PLANE_LABELS[0]: "true"})
    (ran,) = deployed.interruption(said(deployed, WARNING, server))["runs"]
    assert ran["did"] == []
    assert site.writes() == []
    assert {tag["Value"] for tag in site.machines("server")[0]["Tags"] if tag["Key"] == TAG_ROLE} == {"server"}


def test_what_is_about_something_else_is_acknowledged_without_a_call(deployed):
    assert deployed.interruption({"source": "aws.s3", "detail-type": "Object Created"}) == {"runs": []}


@pytest.mark.parametrize(
    "event",
    [
        None,
        {},
        {"source": "aws.ec2"},
        {"source": "aws.ec2", "detail-type": WARNING},
        {"source": "aws.ec2", "detail-type": WARNING, "detail": {"instance-id": "x"}},
        {"source": "aws.ec2", "detail-type": STATE, "detail": {"instance-id": "i-1", "state": "dreaming"}},
    ],
)
def test_what_cannot_be_understood_is_set_aside_with_a_metric_and_a_line(monkeypatch, capsys, event):
    environment(monkeypatch, ["shop"], "table")
    monkeypatch.setenv(settings.METRICS, "MalformedEvents")
    clock = MovedClock()
    assert "ignored" in interruption.handler(event, Context(clock, clock()))
    printed = Printed.since(capsys)
    assert printed.metrics == {"MalformedEvents": [1.0]}
    assert printed.says("Set aside: ")


# ── many at once, through the queue ──────────────────────────────────────────────────────────────────────────────


def batch(*events):
    """As Lambda gives messages of SQS."""
    return {
        "Records": [
            {
                "messageId": f"m{number}",
                "eventSource": "aws:sqs",
                "body": each if isinstance(each, str) else json.dumps(each),
            }
            for number, each in enumerate(events)
        ]
    }


def test_all_warnings_of_a_batch_are_handled_by_one_run(deployed):
    site = deployed.site
    first, second, _ = busy(deployed)
    answer = deployed.interruption(batch(said(deployed, WARNING, first), said(deployed, WARNING, second)))
    assert answer["batchItemFailures"] == []
    assert len(answer["runs"]) == 1
    assert site.cordoned() == {first, second}
    assert deployed.events().count("interrupted") == 2


def test_a_message_that_cannot_be_understood_is_set_aside_and_keeps_no_other(deployed):
    site = deployed.site
    victim, *_ = busy(deployed)
    odd = said(deployed, WARNING, "no instance")
    answer = deployed.interruption(batch("not JSON", odd, said(deployed, WARNING, victim)))
    assert answer["batchItemFailures"] == []
    assert site.cordoned() == {victim}


def test_what_concerns_nobody_is_done_with(deployed):
    busy(deployed)
    answer = deployed.interruption(batch({"source": "aws.s3", "detail-type": "Object Created"}, "[]"))
    assert answer == {"runs": [], "batchItemFailures": []}


def test_when_all_of_a_batch_fails_it_is_an_error_of_the_function(deployed):
    victim, *_ = busy(deployed)
    with without_the_table(), pytest.raises(UnavailableError, match="DynamoDB"):
        deployed.interruption(batch(said(deployed, WARNING, victim)))


def test_only_the_messages_of_the_cluster_that_failed_come_again(two_clusters, monkeypatch):
    shop, blog = two_clusters.sites.values()
    of_shop, of_blog = busy(two_clusters, shop)[0], busy(two_clusters, blog)[0]
    away = UnavailableError("DynamoDB", "timed out")
    real = FUNCTION.store_of
    monkeypatch.setattr(FUNCTION, "store_of", lambda name: Away(away) if name == blog.name else real(name))
    two_clusters.clock.meanwhile = lambda: (shop.settle(), blog.settle())
    events = [said(two_clusters, WARNING, each) for each in (of_shop, of_blog)]
    answer = two_clusters.interruption(batch(*events))
    assert answer["batchItemFailures"] == [{"itemIdentifier": "m1"}]
    assert [run["cluster"] for run in answer["runs"]] == [shop.name]
    assert {notice.instance for notice in real(shop.name).state().notices} <= {of_shop}
    assert (shop.cordoned(), blog.cordoned()) == ({of_shop}, {of_blog})


def test_a_record_that_is_no_message_is_refused():
    with pytest.raises(MalformedError):
        messages_in({"Records": [{"eventSource": "aws:sqs"}]})

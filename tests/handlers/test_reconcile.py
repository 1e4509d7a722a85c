"""One cluster's run as Lambda starts it, through the shipped wiring, on moto and an API server over TLS."""

import json
from base64 import b64encode
from contextlib import contextmanager
from time import monotonic

import pytest

from nodefleet import settings
from nodefleet.engine.decide import decide
from nodefleet.handlers import FUNCTION, reconcile
from nodefleet.model.names import METRIC_INFO, TAG_CLUSTER, TAG_OPERATION, TAG_POOL, TAG_ROLE
from nodefleet.model.operations import Launch
from nodefleet.reconcile.audit import outcome, unpack_input
from support.deployed import PASSWORD, account, cold, deployed, environment, lukewarm, two_clusters
from support.deployed_site import Context, MovedClock
from support.fake_api_server import TOKEN
from support.function_output import Printed
from support.prometheus_stand_in import Http
from support.wording import assert_wording

__all__ = ["account", "deployed", "two_clusters"]

TEN = {metric.value for metric, about in METRIC_INFO.items() if not about.opt_in}


@contextmanager
def fleets_asked_for(deployed):
    """The CreateFleet requests that are sent meanwhile."""
    sent = []
    events, name = deployed.client("ec2").meta.events, "provide-client-params.ec2.CreateFleet"
    events.register(name, lambda params, **_: sent.append(params), unique_id="asked")
    try:
        yield sent
    finally:
        events.unregister(name, unique_id="asked")


def tags_of(machine):
    return {tag["Key"]: tag["Value"] for tag in machine["Tags"]}


def sns(*messages):
    """As SNS calls a function: pairs of text and message attributes."""
    return {
        "Records": [
            {
                "EventSource": "aws:sns",
                "Sns": {
                    "Message": text,
                    "MessageAttributes": {key: {"Type": "String", "Value": value} for key, value in attributes.items()},
                },
            }
            for text, attributes in messages
        ]
    }


# ── from nothing to a fleet ──────────────────────────────────────────────────────────────────────────────────────


def test_an_empty_cluster_gets_its_first_workers_as_they_were_asked_for(deployed):
    site = deployed.site
    with fleets_asked_for(deployed) as sent:
        ran = deployed.tick()
    launches = [each for each in deployed.store().state().operations if isinstance(each, Launch)]
    by_id = {launch.id: launch for launch in launches}
    machines = site.machines()
    assert len(machines) == 2 == len(ran["did"])
    for machine in machines:
        tags = tags_of(machine)
        assert (tags[TAG_CLUSTER], tags[TAG_POOL], tags[TAG_ROLE]) == (site.name, "default", "worker")
        assert machine["InstanceId"] in by_id[tags[TAG_OPERATION]].instances
    assert {request["ClientToken"] for request in sent} == {launch.token for launch in launches}
    for request in sent:
        (config,) = request["LaunchTemplateConfigs"]
        assert config["LaunchTemplateSpecification"] == {"LaunchTemplateId": site.template, "Version": "1"}
        assert {override["SubnetId"] for override in config["Overrides"]} <= set(site.subnets.values())
    assert {machine["Placement"]["AvailabilityZone"] for machine in machines} == set(site.subnets)
    assert sorted(launch.market.value for launch in launches) == ["on-demand", "spot"]


def test_a_second_run_buys_nothing_more_while_the_first_nodes_boot(deployed):
    deployed.tick()
    before = deployed.site.ids()
    lukewarm()  # another function instance
    assert deployed.tick()["did"] == []
    assert deployed.site.ids() == before


def test_nodes_that_join_close_their_launches_and_their_time_is_measured(deployed, capsys):
    deployed.tick()
    assert len(deployed.store().state().operations) == 2
    deployed.clock.passes(seconds=75)
    deployed.site.join()
    Printed.since(capsys)
    deployed.tick()
    assert deployed.store().state().operations == ()
    latencies = Printed.since(capsys).metrics["NodeJoinLatency"]
    assert len(latencies) == 2
    assert all(70 < seconds < 80 for seconds in latencies)


def test_pods_that_find_no_node_buy_one_and_the_run_waits_for_it(deployed):
    site = deployed.site
    first = site.workers(2)
    deployed.tick()
    for number in range(2):
        for instance in first:
            site.pod(f"web-{instance}-{number}", on=instance, cpu="900m")
    site.pod("waiting", cpu="1")
    looks = []

    def node_joins_and_takes_the_pod():
        looks.append(site.ids())
        if len(looks) == 6:  # the first pause has five parts, after each of which an urgent run could end it
            site.join()
            (new,) = site.ids() - set(first)
            site.pod("waiting", on=new, cpu="1")

    deployed.clock.meanwhile = node_joins_and_takes_the_pod
    began = monotonic()
    ran = deployed.tick()
    spent = monotonic() - began  # really, by the three iterations; a pause is shorter by what its iteration took
    assert len(site.ids()) == 3
    assert ran["looks"] == 3
    assert 20 - spent - 1 <= sum(deployed.clock.pauses) <= 20 + 1
    assert deployed.store().state().operations == ()
    assert deployed.events().count("scale-up") == 1


def test_a_run_that_waits_in_vain_ends_in_time(deployed):
    site = deployed.site
    site.workers(2)
    site.pod("waiting", cpu="1500m")
    for number, instance in enumerate(sorted(site.ids())):
        site.pod(f"web-{number}", on=instance, cpu="1500m")
    before = deployed.clock()
    assert deployed.tick()["looks"] > 5
    assert 90 < (deployed.clock() - before).total_seconds() < 115
    assert len(site.ids()) == 3


# ── what it leaves behind ────────────────────────────────────────────────────────────────────────────────────────


def test_a_decision_is_recorded_told_and_archived_and_replays_to_the_same(deployed):
    deployed.tick()
    (record,) = deployed.history().decisions(10)
    assert record.did
    (kept,) = deployed.client("s3").list_objects_v2(Bucket=deployed.bucket)["Contents"]
    assert kept["Key"] == record.archived
    question = unpack_input(FUNCTION.archive().fetch(record.archived))
    assert outcome(decide(question.observation, question.memory, question.policy)) == record.outcome
    assert sorted(deployed.events()) == ["policy-changed", "scale-up"]
    lease, memory = deployed.items("state#lease")[0], deployed.items("state#memory")[0]
    assert lease["scaling_in_progress"] == {"BOOL": False}
    assert "owner" not in lease
    assert memory["node_count"] == {"N": "0"}  # as the iteration saw it


def test_a_quiet_run_archives_nothing_and_tells_nothing(deployed):
    deployed.site.workers(3)
    deployed.tick()
    events = deployed.events()
    assert deployed.tick()["did"] == []
    assert deployed.events() == events
    assert deployed.client("s3").list_objects_v2(Bucket=deployed.bucket)["KeyCount"] == 0


def test_the_log_is_json_with_the_ten_metrics_at_most_and_the_cluster_as_their_only_dimension(deployed, capsys):
    deployed.tick()
    deployed.site.join()
    deployed.tick()
    printed = Printed.since(capsys)
    assert set(printed.metrics) == TEN
    assert printed.metrics["ScaleUpEvents"] == [2.0, 0.0]
    assert printed.metrics["CurrentNodeCount"] == [0.0, 2.0]
    assert printed.metrics["AutoscalerInvocations"] == [1.0, 1.0]
    emf = [json.loads(line)["_aws"]["CloudWatchMetrics"][0] for line in printed.text.splitlines() if "_aws" in line]
    assert [each["Dimensions"] for each in emf] == [[["cluster"]]] * 2
    assert {line["cluster"] for line in printed.lines} == {deployed.site.name}


def test_metrics_beyond_the_ten_come_when_the_environment_asks_for_them(deployed, capsys, monkeypatch):
    monkeypatch.setenv(settings.METRICS, "ApiCalls,RunDuration")
    lukewarm()
    deployed.tick()
    found = Printed.since(capsys).metrics
    assert set(found) - TEN == {"ApiCalls", "RunDuration"}
    (calls,) = found["ApiCalls"]
    assert 10 <= calls <= 25


def test_no_secret_is_ever_printed_stored_or_raised(deployed, capsys):
    """Neither when all is well nor when every login is refused."""
    cold()
    site = deployed.site
    deployed.tick()
    deployed.put_api_secret(site, token="wrong-api-token")  # noqa: S106  # that is the point
    cold()
    site.prometheus.answer = lambda _: Http(401, b"who are you?")
    deployed.tick()
    printed = Printed.since(capsys).text
    stored = str(deployed.items())
    basic = b64encode(f"fleet:{PASSWORD}".encode()).decode()
    assert "Kubernetes" in printed
    for secret in (TOKEN, "wrong-api-token", PASSWORD, basic):
        assert secret not in printed
        assert secret not in stored


# ── who starts it ────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_schedule_an_alert_and_a_person_all_start_a_run_and_the_urgent_ones_wake_first(deployed):
    name = deployed.site.name
    started = [
        ({"cluster": name}, 0),
        ({"source": "aws.events", "detail-type": "Scheduled Event"}, 0),
        (sns(("[FIRING:1] HighLoad", {})), 1),
        (sns((json.dumps({"alerts": []}), {})), 2),
        (sns((json.dumps({"cluster": name}), {})), 3),
        (sns(("[FIRING:1]", {"cluster": name})), 4),
        ({"cluster": name, "urgent": True}, 5),
    ]
    for event, wake in started:
        (ran,) = deployed.reconcile(event)["runs"]
        assert (ran["cluster"], ran["looks"]) == (name, 1)
        assert deployed.store().state().wake == wake


def test_while_another_run_is_at_work_it_leaves_but_an_alert_is_not_lost(deployed, capsys):
    deployed.tick()
    now = deployed.clock()
    deployed.store().acquire("other", now, deployed.context().ends, now - now)
    Printed.since(capsys)
    (ran,) = deployed.reconcile(sns(("[FIRING:1]", {})))["runs"]
    assert (ran["held"], ran["looks"]) == (True, 0)
    assert deployed.store().state().wake == 1
    assert Printed.since(capsys).says("Another run is at work")


@pytest.mark.parametrize(
    "event",
    [
        None,
        [],
        "run",
        {},
        {"cluster": "nowhere"},
        {"cluster": None},
        {"cluster": ["shop"]},
        {"Records": []},
        {"Records": "x"},
        {"Records": [None]},
        {"Records": [{"Sns": {}}]},
        {"Records": [{"Sns": {"Message": json.dumps({"cluster": "nowhere"})}}]},
        {"source": "aws.ec2"},
    ],
)
def test_what_cannot_be_understood_is_acknowledged_with_a_metric_and_a_line(capsys, monkeypatch, event):
    """Without so much as a call to AWS."""
    before = FUNCTION.shared.session.calls()
    environment(monkeypatch, ["shop"], "table")
    monkeypatch.setenv(settings.METRICS, "MalformedEvents")
    clock = MovedClock()
    assert "ignored" in reconcile.handler(event, Context(clock, clock()))
    printed = Printed.since(capsys)
    assert printed.metrics == {"MalformedEvents": [1.0]}
    (line,) = printed.lines
    assert_wording(line["message"])
    assert line["level"] == "WARNING"
    assert FUNCTION.shared.session.calls() == before


# ── several clusters ─────────────────────────────────────────────────────────────────────────────────────────────


def test_two_clusters_of_one_deployment_do_not_touch_each_other(two_clusters):
    shop, blog = two_clusters.sites.values()
    before = two_clusters.items(cluster=blog.name)
    two_clusters.reconcile({"cluster": shop.name})
    assert (len(shop.ids()), blog.ids()) == (2, set())
    assert blog.server.asked == []
    assert blog.prometheus.asked == []
    assert two_clusters.items(cluster=blog.name) == before
    two_clusters.reconcile({"cluster": blog.name})
    assert (len(shop.ids()), len(blog.ids())) == (2, 2)
    assert not shop.ids() & blog.ids()


def test_with_several_clusters_an_alert_must_say_whose_it_is(two_clusters):
    shop, blog = two_clusters.sites
    assert "several" in two_clusters.reconcile(sns(("[FIRING:1]", {})))["ignored"]
    ran = two_clusters.reconcile(sns(("[FIRING:1]", {"cluster": blog}), ("again", {"cluster": blog})))["runs"]
    assert [each["cluster"] for each in ran] == [blog]
    assert two_clusters.items("state#lease", shop) == []


def test_one_cluster_s_trouble_does_not_keep_another_from_its_run(two_clusters):
    shop, blog = two_clusters.sites
    two_clusters.client("dynamodb").put_item(
        TableName=two_clusters.table,
        Item={"cluster_id": {"S": shop}, "record": {"S": "state#policy"}, "body": {"S": "not JSON"}},
    )
    with pytest.raises(Exception, match="state#policy"):
        two_clusters.reconcile(sns(("[FIRING:1]", {"cluster": shop}), ("[FIRING:1]", {"cluster": blog})))
    assert len(two_clusters.sites[blog].ids()) == 2
    assert two_clusters.sites[shop].ids() == set()

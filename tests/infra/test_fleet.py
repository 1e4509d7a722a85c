"""One deployment for many clusters: the queue, who feeds and reads it, and a role that is no longer for a thousand."""

import json
from dataclasses import replace
from functools import cache

import pytest

from nodefleet import settings
from nodefleet.adapters.aws.triggers import triggers_in
from nodefleet.adapters.dynamodb.codec import decode_body
from nodefleet.handlers.reconcile import OLDEST_TICK, OLDEST_URGENT
from nodefleet.model.names import TAG_CLUSTER, TAG_FLEET, TAG_ROLE
from nodefleet.model.snapshot import FleetParts, RegisteredCluster
from nodefleet_infra import iam
from nodefleet_infra.fleet import KEPT_SECONDS
from nodefleet_infra.functions import HIDDEN_SECONDS, RECONCILE
from nodefleet_infra.role_arns import FleetArns
from nodefleet_infra.statements import document
from nodefleet_tools import fleet as adding
from support.iam_evaluator import allows
from support.iam_requests import Template, World, requests_of
from support.iam_samples import PLACE, facts
from support.infra_mocks import ACCOUNT, REGION, declared

ELSEWHERE = "eu-west-1"
THERE = "us-east-1"  # the samples' own region is eu-west-1


@cache
def stack():
    return declared(
        {
            "aws:region": REGION,
            "node-fleet:network": {"zones": [f"{REGION}a", f"{REGION}b"]},
            "node-fleet:autoscaler": {"fleet": {"max_concurrency": 80, "regions": [ELSEWHERE]}},
            "node-fleet:clusters": [{"name": "shop"}],
        },
        "many",
    )


def runs():
    return stack().one("sqs/queue:Queue", "runs")


# ── the queue ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_each_cluster_is_a_message_group_and_a_doubled_tick_is_known_by_its_content():
    queue = runs().inputs
    assert queue["fifoQueue"]
    assert queue["contentBasedDeduplication"]
    assert (queue["deduplicationScope"], queue["fifoThroughputLimit"]) == ("messageGroup", "perMessageGroupId")
    assert queue["name"].endswith(".fifo")


def test_a_message_is_kept_no_longer_than_it_counts_and_hidden_for_as_long_as_a_run_lasts():
    queue = runs().inputs
    assert (
        queue["messageRetentionSeconds"] == KEPT_SECONDS == OLDEST_URGENT.total_seconds() >= OLDEST_TICK.total_seconds()
    )
    assert queue["visibilityTimeoutSeconds"] == HIDDEN_SECONDS > RECONCILE.timeout


def test_runs_that_wait_for_longer_than_one_cluster_can_make_them_are_an_alarm():
    """By name: CloudWatch knows a queue by it. A message that fails is hidden for HIDDEN_SECONDS, so one cluster's own
    are no older for five minutes on end; what waits longer than a tick counts is dropped."""
    alarm = stack().one("cloudwatch/metricAlarm:MetricAlarm", "runs-late").inputs
    assert (alarm["metricName"], alarm["dimensions"]) == (
        "ApproximateAgeOfOldestMessage",
        {"QueueName": runs().inputs["name"]},
    )
    assert (alarm["statistic"], alarm["period"], alarm["treatMissingData"]) == ("Minimum", 300, "notBreaching")
    assert OLDEST_TICK.total_seconds() <= HIDDEN_SECONDS <= alarm["threshold"] < KEPT_SECONDS
    assert alarm["alarmActions"] == [stack().one("sns/topic:Topic", "critical").outputs["arn"]]


def test_dead_letters_of_the_queue_are_an_alarm_too():
    dead = stack().one("sqs/queue:Queue", "failed-queued-runs").inputs["name"]
    alarm = stack().one("cloudwatch/metricAlarm:MetricAlarm", "failed-queued-runs-dead-letters").inputs
    assert alarm["dimensions"] == {"QueueName": dead}


def test_a_run_takes_one_message_so_that_a_slow_cluster_holds_up_no_other():
    mapping = stack().one("lambda/eventSourceMapping:EventSourceMapping", "runs").inputs
    assert mapping["batchSize"] == 1
    assert mapping["scalingConfig"] == {"maximumConcurrency": 80}
    assert mapping["functionResponseTypes"] == ["ReportBatchItemFailures"]


def test_the_stack_s_own_cluster_ticks_into_the_queue_in_its_own_group():
    tick = stack().one("scheduler/schedule:Schedule", "shop-tick").inputs["target"]
    assert tick["arn"] == runs().outputs["arn"]
    assert tick["sqsParameters"] == {"messageGroupId": "many-shop"}
    assert tick["input"] == adding.tick_input("many-shop")
    (asked,) = triggers_in(json.loads(tick["input"]), ["many-shop"])
    assert asked.scheduled


def test_reports_start_their_function_as_ever():
    report = stack().one("scheduler/schedule:Schedule", "shop-report").inputs["target"]
    assert "sqsParameters" not in report
    assert ":function:" in report["arn"]


def test_only_reconcile_is_told_of_the_queue_and_all_of_the_registry():
    told = {each.name: each.inputs["environment"]["variables"] for each in stack().of("lambda/function:Function")}
    assert {name for name, variables in told.items() if settings.QUEUE in variables} == {"reconcile"}
    assert {variables[settings.CLUSTERS] for variables in told.values()} == {"*"}


def test_the_table_says_how_a_cluster_is_added_and_which_the_stack_has():
    items = [json.loads(each.inputs["item"]) for each in stack().of("dynamodb/tableItem:TableItem")]
    shared = {item["record"]["S"]: item for item in items if item["cluster_id"]["S"] == "@all"}
    parts = decode_body(FleetParts, shared["state#stack#fleet"], print)
    assert (parts.name, parts.prefix, parts.queue_arn) == ("node-fleet-many", "many-", runs().outputs["arn"])
    own = decode_body(RegisteredCluster, shared["cluster#many-shop"], print)
    assert (own.region, own.by) == (REGION, "stack")


def test_ec2_events_of_another_region_are_brought_to_this_one_s_rules():
    rules = {each.name: each.inputs for each in stack().of("cloudwatch/eventRule:EventRule")}
    assert json.loads(rules["ec2-taken"]["eventPattern"])["region"] == [REGION, ELSEWHERE]
    assert rules[f"{ELSEWHERE}-taken"]["region"] == ELSEWHERE
    target = stack().one("cloudwatch/eventTarget:EventTarget", f"{ELSEWHERE}-taken").inputs
    assert (target["region"], target["arn"]) == (ELSEWHERE, f"arn:aws:events:{REGION}:{ACCOUNT}:event-bus/default")


def test_without_a_fleet_nothing_of_it_is_there():
    plain = declared(
        {
            "aws:region": REGION,
            "node-fleet:network": {"zones": [f"{REGION}a", f"{REGION}b"]},
            "node-fleet:clusters": [{"name": "shop"}],
        },
        "many",
    )
    assert not [each for each in plain.of("sqs/queue:Queue") if each.inputs.get("fifoQueue")]
    assert ":function:" in plain.one("scheduler/schedule:Schedule", "shop-tick").inputs["target"]["arn"]
    assert not any(TAG_FLEET in each.tags for each in plain.made)


# ── the role ─────────────────────────────────────────────────────────────────────────────────────────────────────

FLEET = FleetArns(
    name="node-fleet-many",
    prefix="many-",
    secrets="node-fleet-many",
    queue=f"arn:aws:sqs:{REGION}:{ACCOUNT}:node-fleet-many-runs.fifo",
    regions=(PLACE.region, THERE),
    worker_roles=("node-fleet-many-*-workers", "k3s-agents"),
    types=("t3.*", "m7i.*"),
    disk_gb=100,
)
WORKER = {TAG_CLUSTER: "many-shop-17", TAG_ROLE: "worker"}
OURS = {f"aws:ResourceTag/{TAG_FLEET}": ["node-fleet-many"]}


def role():
    return iam.reconcile(replace(facts(), fleet=FLEET))


def may_launch(cluster="many-shop-17", template=OURS, region=PLACE.region, worker_role="k3s-agents"):
    """A CreateFleet as the loop sends it, of a template, a subnet and a group with these tags."""
    place = replace(PLACE, region=region)
    tags = [{"Key": key, "Value": value} for key, value in {**WORKER, TAG_CLUSTER: cluster}.items()]
    sent = {
        "LaunchTemplateConfigs": [
            {
                "LaunchTemplateSpecification": {"LaunchTemplateId": "lt-0a", "Version": "1"},
                "Overrides": [{"InstanceType": "t3.small", "SubnetId": "subnet-0a"}],
            }
        ],
        "TagSpecifications": [{"ResourceType": kind, "Tags": tags} for kind in ("fleet", "instance", "volume")],
    }
    world = World(place=place, templates={"lt-0a": Template(role=worker_role)})
    asked = [
        replace(each, context={**each.context, **template})
        if any(f":{kind}/" in each.resource for kind in ("launch-template", "subnet", "security-group"))
        else each
        for each in requests_of("ec2", "CreateFleet", sent, world)
    ]
    return all(allows(role(), each) for each in asked)


def may_terminate(tags, region=PLACE.region):
    world = World(place=replace(PLACE, region=region), instances={"i-1": tags})
    asked = requests_of("ec2", "TerminateInstances", {"InstanceIds": ["i-1"]}, world)
    return all(allows(role(), each) for each in asked)


def test_its_policy_is_as_long_for_a_thousand_clusters_as_for_one():
    assert len(document(role())) < 6_500
    assert "many-shop" not in document(role())


def test_a_cluster_that_was_added_later_is_launched_with_what_carries_the_fleet_s_tag_here_and_elsewhere():
    assert may_launch()
    assert may_launch(region=THERE)


@pytest.mark.parametrize(
    "wrong",
    [
        {"template": {}},
        {"template": {f"aws:ResourceTag/{TAG_FLEET}": ["another"]}},
        {"cluster": "prod-shop"},
        {"region": "us-west-2"},
        {"worker_role": "admin"},
    ],
)
def test_nothing_of_others_is_launched(wrong):
    assert not may_launch(**wrong)


def test_only_workers_of_its_own_clusters_are_terminated():
    assert may_terminate(WORKER)
    assert may_terminate(WORKER, THERE)
    assert not may_terminate({**WORKER, TAG_CLUSTER: "prod-shop"})
    assert not may_terminate({**WORKER, TAG_ROLE: "server"})
    assert not may_terminate(WORKER, "us-west-2")
    assert not may_terminate({TAG_ROLE: "worker"})


def test_records_and_secrets_are_those_of_its_own_clusters():
    world = World(place=PLACE)
    sent = {
        "TableName": "node-fleet-dev-state",
        "Key": {"cluster_id": {"S": "many-blog"}, "record": {"S": "state#lease"}},
    }
    (own,) = requests_of("dynamodb", "UpdateItem", sent, world)
    statements = role()
    table = replace(own, resource=facts().table)
    assert allows(statements, table)
    other = {"dynamodb:LeadingKeys": ["prod-blog"]}
    assert not allows(statements, replace(table, context={**table.context, **other}))
    shared = {"dynamodb:LeadingKeys": ["@all"]}
    assert allows(statements, replace(table, context={**table.context, **shared}))

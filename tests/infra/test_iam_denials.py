"""What must not be is refused: other instances, the server, other templates, other tables, other secrets.

Each request differs in one thing from one that is allowed, so that it is this thing that refuses it.
"""

from dataclasses import replace

import pytest

from nodefleet.model.names import STATUS_JOIN_FAILED, TAG_CLUSTER, TAG_POOL, TAG_ROLE, TAG_STATUS
from nodefleet_infra import iam
from nodefleet_infra.interfaces import backup_prefix
from nodefleet_infra.statements import Statement
from support.aws_calls import LOOP
from support.iam_evaluator import Request, Verdict, allows, verdict
from support.iam_requests import Template, World, requests_of
from support.iam_samples import PLACE, cluster, everybody, facts, function_arn, granted_to

OUR_TEMPLATE, SUBNET = "lt-dev-shop-0", "subnet-a"
WORKER = {TAG_CLUSTER: "dev-shop", TAG_ROLE: "worker"}
SERVER = {TAG_CLUSTER: "dev-shop", TAG_ROLE: "server"}
TEMPLATE = Template(groups=("sg-dev-shop",), role="node-fleet-dev-dev-shop-worker")
WORLD = World(
    place=PLACE,
    templates={OUR_TEMPLATE: TEMPLATE, "lt-other": TEMPLATE},
    instances={
        "i-worker": WORKER,
        "i-server": SERVER,
        "i-bare": {},
        "i-other": {TAG_CLUSTER: "prod-shop", TAG_ROLE: "worker"},
        "i-half": {TAG_CLUSTER: "dev-shop"},
        "i-role": {TAG_ROLE: "worker"},
    },
)


def specified(tags, *kinds):
    listed = [{"Key": key, "Value": value} for key, value in tags.items()]
    return [{"ResourceType": kind, "Tags": listed} for kind in kinds]


def fleet(template=OUR_TEMPLATE, subnet=SUBNET, tags=WORKER, kinds=("fleet", "instance", "volume")):
    specification = {"LaunchTemplateId": template, "Version": "1"}
    overrides = [{"InstanceType": "t3.small", "SubnetId": subnet}]
    return {
        "LaunchTemplateConfigs": [{"LaunchTemplateSpecification": specification, "Overrides": overrides}],
        "TagSpecifications": specified(tags, *kinds),
    }


def run(template=OUR_TEMPLATE, tags=WORKER, **more):
    chosen = {"LaunchTemplate": {"LaunchTemplateId": template}} if template else {}
    return {**chosen, "SubnetId": SUBNET, "TagSpecifications": specified(tags, "instance", "volume"), **more}


def may(role, service, operation, parameters, world=WORLD):
    statements = everybody()[role]
    return all(allows(statements, each) for each in requests_of(service, operation, parameters, world))


@pytest.mark.parametrize("role", LOOP)
def test_a_worker_is_launched_from_our_template_with_our_tags(role):
    assert may(role, "ec2", "CreateFleet", fleet())


def test_a_template_may_tag_its_network_interfaces():
    world = World(place=PLACE, templates={OUR_TEMPLATE: replace(TEMPLATE, tags=WORKER)})
    assert may("reconcile", "ec2", "CreateFleet", fleet(), world)


@pytest.mark.parametrize("role", LOOP)
@pytest.mark.parametrize(
    ("operation", "parameters"),
    [
        ("CreateFleet", fleet(tags={})),
        ("CreateFleet", fleet(kinds=("fleet", "instance"))),
        ("CreateFleet", fleet(kinds=("instance", "volume"))),
        ("CreateFleet", fleet(kinds=("fleet", "volume"))),
        ("CreateFleet", fleet(tags={**WORKER, TAG_CLUSTER: "prod-shop"})),
        ("CreateFleet", fleet(tags=SERVER)),
        ("CreateFleet", fleet(tags={TAG_CLUSTER: "dev-shop"})),
        ("CreateFleet", fleet(template="lt-other")),
        ("CreateFleet", fleet(subnet="subnet-other")),
        ("RunInstances", run(template="")),
        ("RunInstances", run(template="lt-other")),
        ("RunInstances", run(tags={})),
        ("RunInstances", run(tags=SERVER)),
        ("RunInstances", run(ImageId="ami-other")),
    ],
)
def test_nothing_else_is_launched(role, operation, parameters):
    assert not may(role, "ec2", operation, parameters)


def test_a_launch_without_our_template_is_denied_whatever_else_the_role_is_given():
    broad = Statement(sid="Broad", actions=("ec2:*",), resources=("*",))
    statements = (*everybody()["reconcile"], broad)
    for parameters in (run(template=""), run(template="lt-other")):
        verdicts = {verdict(statements, each) for each in requests_of("ec2", "RunInstances", parameters, WORLD)}
        assert Verdict.DENIED in verdicts
    assert all(allows(statements, each) for each in requests_of("ec2", "RunInstances", run(), WORLD))


def disk(**ebs):
    return {"BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": ebs}]}


# What each denial is there for: the most expensive that a stolen role would otherwise launch.
TOO_DEAR = {
    "OnlyOurs": run(template="lt-other"),
    "Types": run(InstanceType="p5.48xlarge"),
    "Shared": run(Placement={"Tenancy": "dedicated"}),
    "DiskType": run(**disk(VolumeType="io2")),
    "DiskSize": run(**disk(VolumeSize=16_384)),
    "DiskIops": run(**disk(Iops=16_000)),
}


@pytest.mark.parametrize("role", LOOP)
def test_what_costs_more_than_the_policies_want_is_denied_whatever_else_the_role_is_given(role):
    broad = Statement(sid="Broad", actions=("ec2:*", "iam:PassRole"), resources=("*",))
    statements = (*everybody()[role], broad)
    bounds = [each for each in statements if each.effect == "Deny" and "ec2:RunInstances" in each.actions]
    assert {each.sid for each in bounds} == set(TOO_DEAR)
    for bound in bounds:
        asked = requests_of("ec2", "RunInstances", TOO_DEAR[bound.sid], WORLD)
        assert Verdict.DENIED in {verdict(statements, each) for each in asked}, bound.sid
        others = [each for each in statements if each is not bound]
        assert all(allows(others, each) for each in asked), f"{bound.sid} is not what denies it"
    for fine in (run(), run(InstanceType="t3a.small"), run(**disk(VolumeSize=20)), run(**disk(Iops=3000))):
        assert all(allows(statements, each) for each in requests_of("ec2", "RunInstances", fine, WORLD))


def test_a_fleet_of_types_that_no_policy_names_is_not_launched():
    parameters = fleet()
    parameters["LaunchTemplateConfigs"][0]["Overrides"][0]["InstanceType"] = "p5.48xlarge"
    assert not may("reconcile", "ec2", "CreateFleet", parameters)


def test_types_may_be_allowed_by_family():
    statements = iam.reconcile(facts(replace(cluster(), types=("t3.small", "m7i.*"))))
    for name, allowed in (("m7i.large", True), ("m7i-flex.large", False), ("t3.medium", False)):
        asked = requests_of("ec2", "RunInstances", run(InstanceType=name), WORLD)
        assert all(allows(statements, each) for each in asked) is allowed, name


@pytest.mark.parametrize(
    ("role_name", "service"),
    [("node-fleet-dev-dev-shop-master", "ec2"), ("node-fleet-dev-dev-shop-worker", "lambda"), ("Administrator", "ec2")],
)
def test_only_the_workers_role_is_passed_and_only_to_ec2(role_name, service):
    passed = {"iam:PassedToService": [f"{service}.amazonaws.com"]}
    assert not allows(everybody()["reconcile"], Request("iam:PassRole", WORLD.role(role_name), passed))
    right = {"iam:PassedToService": ["ec2.amazonaws.com"]}
    own = Request("iam:PassRole", WORLD.role("node-fleet-dev-dev-shop-worker"), right)
    assert allows(everybody()["reconcile"], own)


@pytest.mark.parametrize("role", LOOP)
@pytest.mark.parametrize("instance", WORLD.instances)
@pytest.mark.parametrize("operation", ["TerminateInstances", "StopInstances", "StartInstances"])
def test_only_our_own_workers_are_terminated_stopped_and_started(role, instance, operation):
    assert may(role, "ec2", operation, {"InstanceIds": [instance]}) is (instance == "i-worker")


def test_one_foreign_machine_in_a_call_refuses_all_of_it():
    assert not may("reconcile", "ec2", "TerminateInstances", {"InstanceIds": ["i-worker", "i-other"]})


def tagged(instance, **tags):
    listed = [{"Key": key, "Value": value} for key, value in tags.items()]
    return {"Resources": [instance], "Tags": listed}


FAILED = {TAG_STATUS: STATUS_JOIN_FAILED}


@pytest.mark.parametrize("role", LOOP)
@pytest.mark.parametrize("instance", WORLD.instances)
def test_only_our_own_workers_are_marked(role, instance):
    assert may(role, "ec2", "CreateTags", tagged(instance, **FAILED)) is (instance == "i-worker")


@pytest.mark.parametrize("role", LOOP)
@pytest.mark.parametrize("instance", WORLD.instances)
def test_only_our_own_workers_are_handed_to_a_pool(role, instance):
    assert may(role, "ec2", "CreateTags", tagged(instance, **{TAG_POOL: "web"})) is (instance == "i-worker")


@pytest.mark.parametrize(
    "tags",
    [
        {TAG_CLUSTER: "prod-shop"},
        {TAG_ROLE: "server"},
        {TAG_STATUS: "fine"},
        {**FAILED, TAG_ROLE: "server"},
        {**FAILED, "Name": "x"},
        {TAG_POOL: "web", TAG_CLUSTER: "prod-shop"},
        {TAG_POOL: "web", TAG_STATUS: "fine"},
        {},
        {"Name": "x"},
    ],
)
def test_a_mark_is_the_status_or_the_pool_and_nothing_along_with_it(tags):
    assert not may("reconcile", "ec2", "CreateTags", tagged("i-worker", **tags))


@pytest.mark.parametrize("role", LOOP)
@pytest.mark.parametrize("action", ["TerminateInstances", "StopInstances", "CreateTags", "ModifyInstanceAttribute"])
def test_a_server_is_spared_whatever_else_the_role_is_given(role, action):
    broad = Statement(sid="Broad", actions=("ec2:*",), resources=("*",))
    statements = (*everybody()[role], broad)
    for instance, expected in (("i-server", Verdict.DENIED), ("i-worker", Verdict.ALLOWED)):
        context = {f"aws:ResourceTag/{key}": [value] for key, value in WORLD.instances[instance].items()}
        assert verdict(statements, Request(f"ec2:{action}", WORLD.ec2(f"instance/{instance}"), context)) is expected


@pytest.mark.parametrize("role", [role for role in everybody() if role not in LOOP])
def test_a_machine_is_touched_by_the_loop_alone(role):
    assert not may(role, "ec2", "TerminateInstances", {"InstanceIds": ["i-worker"]})
    assert not may(role, "ec2", "CreateFleet", fleet())
    assert not may(role, "ec2", "CreateTags", tagged("i-worker", **FAILED))


# ── records, archives, secrets ───────────────────────────────────────────────────────────────────────────────────


def item(cluster="dev-shop", table="node-fleet-dev"):
    return {"TableName": table, "Item": {"cluster_id": {"S": cluster}, "record": {"S": "state#memory"}}}


@pytest.mark.parametrize("role", ["reconcile", "interruption", "report"])
def test_records_of_our_clusters_in_our_table_and_no_others(role):
    assert may(role, "dynamodb", "PutItem", item())
    assert not may(role, "dynamodb", "PutItem", item(cluster="prod-shop"))
    assert not may(role, "dynamodb", "PutItem", item(table="node-fleet-prod"))
    assert not may(role, "dynamodb", "Scan", item())
    assert not may(role, "dynamodb", "DeleteTable", item())


def test_a_transaction_that_touches_one_foreign_record_is_refused():
    ours, other = {"Put": item()}, {"Put": item(cluster="prod-shop")}
    assert may("reconcile", "dynamodb", "TransactWriteItems", {"TransactItems": [ours, ours]})
    assert not may("reconcile", "dynamodb", "TransactWriteItems", {"TransactItems": [ours, other]})


def test_the_messenger_notes_alarms_of_nobody_too_but_in_our_table_only():
    assert may("notify", "dynamodb", "PutItem", item(cluster="-"))
    assert not may("notify", "dynamodb", "PutItem", item(table="node-fleet-prod"))
    assert not may("notify", "dynamodb", "UpdateItem", item())


@pytest.mark.parametrize(
    ("bucket", "key", "allowed"),
    [
        ("node-fleet-dev-looks", "dev-shop/2026/11/16/x.json.gz", True),
        ("node-fleet-dev-looks", "prod-shop/2026/11/16/x.json.gz", False),
        ("node-fleet-dev-looks", "dev-shop-2/2026/11/16/x.json.gz", False),
        ("node-fleet-dev-backups", "etcd/dev-shop/x", False),
        ("other", "dev-shop/x", False),
    ],
)
def test_looks_are_archived_under_our_clusters_names_and_never_read_by_the_loop(bucket, key, allowed):
    assert may("reconcile", "s3", "PutObject", {"Bucket": bucket, "Key": key}) is allowed
    assert not may("reconcile", "s3", "GetObject", {"Bucket": bucket, "Key": key})


SECRET = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:node-fleet-dev"  # noqa: S105  # a name
READERS = {
    f"{SECRET}/dev-shop/kubernetes-AbCdEf": {"reconcile", "interruption"},
    f"{SECRET}/dev-shop/agent-token-AbCdEf": {"worker", "master"},
    f"{SECRET}/dev-shop/server-token-AbCdEf": {"master"},
    f"{SECRET}/slack-AbCdEf": {"notify"},
    f"{SECRET}/prod-shop/kubernetes-AbCdEf": set(),
    f"{SECRET}/dev-shop/kubernetes-AbCdEf-2": set(),
    "arn:aws:secretsmanager:eu-west-1:123456789012:secret:database-AbCdEf": set(),
}


@pytest.mark.parametrize("secret", READERS)
def test_who_reads_a_secret(secret):
    readers = {role for role in everybody() if may(role, "secretsmanager", "GetSecretValue", {"SecretId": secret})}
    assert readers == READERS[secret]


@pytest.mark.parametrize("secret", READERS)
def test_only_the_master_writes_secrets_and_only_its_cluster_s(secret):
    writers = {role for role in everybody() if may(role, "secretsmanager", "PutSecretValue", {"SecretId": secret})}
    assert writers == ({"master"} if "/dev-shop/" in secret and secret.endswith("AbCdEf") else set())


def in_backups(folder):
    return {"Bucket": "node-fleet-dev-backups", "Key": f"{folder}/one"}


def test_a_master_keeps_its_own_snapshots_and_cannot_touch_others():
    for operation in ("PutObject", "GetObject"):
        assert may("master", "s3", operation, in_backups(backup_prefix("dev-shop")))
        assert not may("master", "s3", operation, in_backups(backup_prefix("prod-shop")))
        assert not may("worker", "s3", operation, in_backups(backup_prefix("dev-shop")))


def test_a_master_reads_its_manifests_and_cannot_change_them():
    assert may("master", "s3", "GetObject", in_backups("manifests/dev-shop"))
    assert not may("master", "s3", "PutObject", in_backups("manifests/dev-shop"))
    assert not may("master", "s3", "GetObject", in_backups("manifests/prod-shop"))


# ── the network ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_network_interfaces_are_made_by_lambda_and_not_by_the_function_s_code():
    statements = everybody()["reconcile"]
    by_lambda = Request("ec2:DeleteNetworkInterface", WORLD.ec2("network-interface/eni-1"))
    assert allows(statements, by_lambda)
    by_code = Request(by_lambda.action, by_lambda.resource, {"lambda:SourceFunctionArn": [function_arn("reconcile")]})
    assert verdict(statements, by_code) is Verdict.DENIED
    look = {"lambda:SourceFunctionArn": [function_arn("reconcile")]}
    assert allows(statements, Request("ec2:DescribeInstances", "*", look))


def test_only_functions_in_the_vpc_may_have_interfaces():
    holders = {
        role
        for role, statements in everybody().items()
        if any("ec2:CreateNetworkInterface" in each.actions for each in statements)
    }
    assert holders == {"reconcile", "interruption", "report"}


def test_readings_that_no_policy_asks_for_are_not_granted():
    plain = {action for each in iam.reconcile(facts()) for action in each.actions}
    assert granted_to("reconcile") - plain == {"sqs:GetQueueAttributes", "cloudwatch:GetMetricData"}

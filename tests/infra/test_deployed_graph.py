"""What infra names and what the code reads cannot drift apart: the program is deployed into moto, the functions get the
environment that the program gives them, and the handlers run in it, through the shipped wiring.

Three things are not as in AWS. moto answers only at the ordinary addresses, so the dual-stack ones are switched off.
The master does not boot: what it would publish is put into its secret. And its address leads to a stand-in on this
instance.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
import yaml
from botocore.client import BaseClient
from moto import mock_aws

from nodefleet.handlers import FUNCTION
from nodefleet.model.names import TAG_CLUSTER, TAG_POOL, TAG_ROLE
from nodefleet_infra.alarms import JOIN_FAILED_TERM
from nodefleet_infra.teardown import Surroundings, sweep
from support.deployed_functions import Deployed, account_of_tests, functions_of
from support.fake_api_server import TOKEN
from support.infra_mocks import DEV, PRODUCTION, REGION, ROOT, declared
from support.infra_on_moto import MotoCloud


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MotoCloud]:
    """Both stacks lie in one account: moto takes seconds to start."""
    with account_of_tests(tmp_path_factory.mktemp("aws")), mock_aws():
        yield MotoCloud(REGION)


@pytest.fixture(scope="module", params=[DEV, PRODUCTION], ids=["dev", "production"])
def deployed(
    request: pytest.FixtureRequest, account: MotoCloud, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployed]:
    """Deployed once; the tests of this module run in it one after the other, as time goes by."""
    config = yaml.safe_load((ROOT / request.param).read_text())["config"]
    graph = declared(config, Path(request.param).stem.partition(".")[2], cloud=account)
    with functions_of(graph, account, tmp_path_factory.mktemp("master")) as made:
        yield made


# ── from the first tick on ───────────────────────────────────────────────────────────────────────────────────────


def test_everything_that_the_functions_touch_was_really_made(deployed):
    graph, client = deployed.graph, deployed.cloud.client
    table = client("dynamodb").describe_table(TableName=graph.exports["table"])["Table"]
    assert table["StreamSpecification"] == {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"}
    ttl = client("dynamodb").describe_time_to_live(TableName=graph.exports["table"])["TimeToLiveDescription"]
    assert ttl == {"TimeToLiveStatus": "ENABLED", "AttributeName": "ttl"}
    secrets = {each["Name"] for each in client("secretsmanager").list_secrets()["SecretList"]}
    assert {each.inputs["name"] for each in graph.of("secretsmanager/secret:Secret")} <= secrets
    topics = {each["TopicArn"] for each in client("sns").list_topics()["Topics"]}
    assert {each.outputs["arn"] for each in graph.of("sns/topic:Topic")} <= topics
    queues = client("sqs").list_queues(QueueNamePrefix=deployed.base)["QueueUrls"]
    assert {each.id for each in graph.of("sqs/queue:Queue")} == {*queues}
    buckets = {each["Name"] for each in client("s3").list_buckets()["Buckets"]}
    assert {each.id for each in graph.of("s3/bucket:Bucket")} <= buckets


def test_the_first_tick_launches_min_workers_from_the_declared_template(deployed):
    least = {"dev-shop": 2, "production-shop": 3}[deployed.cluster]
    sent = []
    with mock.patch.object(BaseClient, "_make_api_call", autospec=True, side_effect=_noting(sent)):
        did = deployed.tick()
    assert len(did) >= 2
    machines = deployed.workers()
    assert len(machines) == least
    template = deployed.graph.one("LaunchTemplate", "shop-services" if least == 3 else "shop-default")
    group = deployed.graph.one("ec2/securityGroup:SecurityGroup", "shop-workers")
    fleets = [request for operation, request in sent if operation == "CreateFleet"]
    for fleet in fleets:
        (config,) = fleet["LaunchTemplateConfigs"]
        assert config["LaunchTemplateSpecification"] == {"LaunchTemplateId": template.id, "Version": "1"}
    subnets = {each.id: each.inputs["availabilityZone"] for each in deployed.graph.of("ec2/subnet:Subnet")}
    for machine in machines:
        tags = {tag["Key"]: tag["Value"] for tag in machine["Tags"]}
        assert (tags[TAG_CLUSTER], tags[TAG_ROLE]) == (deployed.cluster, "worker")
        assert tags[TAG_POOL] == template.tags[TAG_POOL]
        assert subnets[machine["SubnetId"]] == machine["Placement"]["AvailabilityZone"]
        assert machine["ImageId"] == template.inputs["imageId"]
    assert len({machine["Placement"]["AvailabilityZone"] for machine in machines}) >= 2
    # moto's fleets leave out some of what the template says.
    (version,) = deployed.cloud.client("ec2").describe_launch_template_versions(LaunchTemplateId=template.id)[
        "LaunchTemplateVersions"
    ]
    data = version["LaunchTemplateData"]
    assert data["SecurityGroupIds"] == [group.id]
    assert data["IamInstanceProfile"]["Arn"].endswith(f"instance-profile/{deployed.base}-shop-workers")
    assert data["MetadataOptions"]["HttpTokens"] == "required"


def _noting(sent):
    real = BaseClient._make_api_call

    def call(client, operation, request):
        sent.append((operation, request))
        return real(client, operation, request)

    return call


def test_the_login_that_the_master_publishes_opens_the_api_server(deployed):
    assert deployed.server.asked
    assert {each.headers["authorization"] for each in deployed.server.asked} == {f"Bearer {TOKEN}"}


def test_the_policy_that_the_stack_declares_is_in_force(deployed):
    state = FUNCTION.store_of(deployed.cluster).state()
    assert state.policy is not None
    assert (state.policy.number, state.policy.source) == (1, "stack")
    assert state.declared is not None
    assert state.policy.data == state.declared.data


def test_the_look_lies_in_the_bucket_under_the_clusters_prefix(deployed):
    found = deployed.cloud.client("s3").list_objects_v2(Bucket=deployed.graph.exports["looks"])
    keys = [each["Key"] for each in found.get("Contents", [])]
    assert keys
    assert all(key.startswith(f"{deployed.cluster}/") for key in keys)


def test_news_reach_slack(deployed):
    event = deployed.stream()
    assert event["Records"]
    assert deployed.starts("notify", event) == {"batchItemFailures": []}
    assert deployed.slack.messages


def test_a_spot_warning_is_understood_and_its_machine_is_ours(deployed):
    machine = deployed.workers()[0]["InstanceId"]
    event = {
        "source": "aws.ec2",
        "detail-type": "EC2 Spot Instance Interruption Warning",
        "detail": {"instance-id": machine, "instance-action": "terminate"},
    }
    ran = deployed.starts("interruption", event)
    assert [each["cluster"] for each in ran["runs"]] == [deployed.cluster]
    foreign = event | {"detail": {"instance-id": "i-0123456789abcdef0", "instance-action": "terminate"}}
    assert deployed.starts("interruption", foreign) == {"runs": []}


def test_a_join_that_fails_is_in_the_log_as_the_alarm_counts_it(deployed, capsys):
    deployed.clock.passes(minutes=6)
    capsys.readouterr()
    deployed.tick()
    assert JOIN_FAILED_TERM in capsys.readouterr().out


def test_the_week_is_told(deployed):
    schedule = next(each for each in deployed.graph.of("scheduler/schedule:Schedule") if each.name.endswith("-report"))
    (told,) = deployed.starts("report", json.loads(schedule.inputs["target"]["input"]))["told"]
    assert told


def test_in_the_end_the_workers_are_swept_away_and_no_tick_brings_them_back(deployed):
    by = Surroundings(
        sts=deployed.cloud.client("sts"),
        ec2=deployed.cloud.client("ec2"),
        dynamodb=deployed.cloud.client("dynamodb"),
        now=deployed.clock,
        sleep=deployed.clock.pause,
        say=lambda _: None,
    )
    (swept,) = deployed.graph.of("teardown:Sweep")
    assert deployed.workers()
    sweep(swept.inputs["cluster"], swept.inputs["table"], swept.inputs["account"], by)
    assert deployed.workers() == []
    deployed.tick()
    assert deployed.workers() == []

"""What the site is made of, as far as it needs no parts."""

from base64 import b64decode
from types import SimpleNamespace

import boto3
import pytest
from moto import mock_aws

from e2e.parts.kwok import ALIVE_LABEL
from e2e.site.hardware import Hardware
from e2e.site.machine import Metadata, node, registered
from e2e.site.monitoring import quick_alertmanager
from e2e.site.patterns import matches
from e2e.site.policy import COMPRESSED, compressed
from e2e.site.waiting import Beside, until
from nodefleet.model.names import CAPACITY_LABEL, CONTROL_PLANE_LABELS, POOL_LABEL, ROLE_WORKER, TAG_CLUSTER, TAG_ROLE
from nodefleet.model.workload import TYPE_LABEL, ZONE_LABEL
from nodefleet.policy.loading import PolicyReader
from nodefleet_infra import manifests
from support.infra_mocks import DEV, deployed_stack
from support.shipped_metrics import SITE

MACHINE = Metadata(instance="i-1", zone="here-1a", type="t3.small", address="127.1.2.3", market="spot")
SIZE = {"cpus": 2, "memory_mib": 2048, "disk_gb": 20}


# ── patterns ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("pattern", "matching"),
    [
        ({"source": ["aws.ec2"]}, True),
        ({"source": ["aws.s3", "aws.ec2"]}, True),
        ({"source": ["aws.s3"]}, False),
        ({"nobody": ["aws.ec2"]}, False),
        ({"detail": {"state": ["stopped"]}}, True),
        ({"detail": {"state": ["running"]}}, False),
        ({"detail": {"state": [{"prefix": "sto"}]}}, True),
        ({"detail": {"state": [{"prefix": "run"}]}}, False),
        ({"source": ["aws.ec2"], "detail": {"state": ["running"]}}, False),
    ],
)
def test_a_pattern_matches_when_every_field_has_one_of_its_values(pattern, matching):
    assert matches(pattern, {"source": "aws.ec2", "detail": {"state": "stopped"}}) is matching


def test_a_pattern_that_is_not_understood_is_an_error():
    with pytest.raises(AssertionError, match="numeric"):
        matches({"size": [{"numeric": [">", 1]}]}, {"size": 2})


# ── instances ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_worker_registers_what_its_templates_user_data_says():
    (template,) = deployed_stack(DEV).of("LaunchTemplate")
    made = node(registered(MACHINE, b64decode(template.inputs["userData"]).decode()), **SIZE)
    labels = made["metadata"]["labels"]
    assert (made["metadata"]["name"], made["spec"]["providerID"]) == ("i-1", "aws:///here-1a/i-1")
    assert (labels[ZONE_LABEL], labels[TYPE_LABEL], labels[CAPACITY_LABEL]) == ("here-1a", "t3.small", "spot")
    assert (labels[POOL_LABEL], labels[ALIVE_LABEL]) == ("default", "true")
    assert not {*labels} & {*CONTROL_PLANE_LABELS}
    assert {"type": "InternalIP", "address": "127.1.2.3"} in made["status"]["addresses"]


def test_the_master_registers_as_control_plane_that_takes_no_pods():
    """By the program that its user data fetches."""
    objects = [each.inputs for each in deployed_stack(DEV).of("BucketObjectv2")]
    (program,) = [each["content"] for each in objects if each.get("contentType") == "text/x-shellscript"]
    made = node(registered(MACHINE, program), **SIZE)
    assert {*CONTROL_PLANE_LABELS} <= {*made["metadata"]["labels"]}
    assert POOL_LABEL not in made["metadata"]["labels"]
    assert [taint["effect"] for taint in made["spec"]["taints"]] == ["NoSchedule"]


# ── compressed time ──────────────────────────────────────────────────────────────────────────────────────────────


def test_the_compressed_policy_is_a_policy():
    policy = PolicyReader().read(compressed(limits={"min": 4}))
    (pool,) = policy.pools
    assert (pool.limits.min, pool.limits.max) == (4, COMPRESSED["limits"]["max"])
    assert "[5m]" not in pool.queries.cpu
    assert "[2m]" not in pool.queries.cpu


def test_alertmanager_keeps_what_it_says_and_to_whom():
    shipped = manifests.configuration("alertmanager", SITE)
    made = quick_alertmanager(shipped, sns="http://127.0.0.1:1")
    (sns,) = made["receivers"][1]["sns_configs"]
    assert (sns["topic_arn"], sns["api_url"]) == (SITE.wake_topic, "http://127.0.0.1:1")
    assert sns["message"] in shipped


def test_what_goes_on_beside_a_test_outlives_its_own_errors():
    done = []

    def fails_once():
        done.append(1)
        if len(done) == 1:
            raise LookupError("not yet")

    beside = Beside("counting", 0.01, fails_once)
    with beside.going_on():
        until(lambda: len(done) > 2, "it goes on")
    assert beside.troubles == ["counting: LookupError('not yet')"]
    assert not beside.on


def test_no_instance_is_missed_when_ec2_answers_in_pages():
    """moto answers with a hundred reservations at most, those of instances that have ended among them."""
    with mock_aws():
        ec2 = boto3.client("ec2", region_name="eu-west-1")
        (image,) = ec2.describe_images(Owners=["amazon"])["Images"][:1]
        tags = [{"Key": TAG_CLUSTER, "Value": "shop"}, {"Key": TAG_ROLE, "Value": ROLE_WORKER}]
        for _ in range(101):
            ec2.run_instances(
                ImageId=image["ImageId"],
                MinCount=1,
                MaxCount=1,
                TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
            )
        stack = SimpleNamespace(cluster="shop", cloud=SimpleNamespace(client=lambda _: ec2))
        hardware = Hardware(stack, None, None, None, boots_in=0, notice=0)
        assert len(hardware.instances()) == 101

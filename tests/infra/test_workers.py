"""The launch templates: what a worker is before the autoscaler says where, on which market and of which type."""

import base64
import re

import pytest

from nodefleet.adapters.aws.create_fleet import TAGGED
from nodefleet.model.names import ROLE_WORKER, TAG_CLUSTER, TAG_POOL, TAG_ROLE
from nodefleet_infra import k3s
from nodefleet_infra.iam_ec2 import TAGGED_AT_LAUNCH
from support.infra_mocks import DEV, PRODUCTION, declared, deployed_stack
from support.wording import assert_wording

TEMPLATE = "ec2/launchTemplate:LaunchTemplate"
TEMPLATES = [(DEV, "default"), (PRODUCTION, "services"), (PRODUCTION, "builds")]
EVERY = pytest.mark.parametrize(("file", "pool"), TEMPLATES)


def template(file, pool):
    return deployed_stack(file).one(TEMPLATE, f"shop-{pool}")


def script_of(made):
    return base64.b64decode(made.inputs["userData"]).decode()


def told(made):
    return dict(re.findall(r"^readonly ([A-Z0-9_]+)='?([^'\n]*)", script_of(made), re.MULTILINE))


def test_there_is_one_for_each_pool():
    assert [each.name for each in deployed_stack(DEV).of(TEMPLATE)] == ["shop-default"]
    assert {each.name for each in deployed_stack(PRODUCTION).of(TEMPLATE)} == {"shop-services", "shop-builds"}


@EVERY
def test_the_disk_is_encrypted_gp3_and_goes_with_its_machine(file, pool):
    (device,) = template(file, pool).inputs["blockDeviceMappings"]
    assert device["deviceName"] == "/dev/xvda"
    disk = device["ebs"]
    assert (disk["volumeType"], disk["encrypted"], disk["deleteOnTermination"]) == ("gp3", "true", "true")
    assert disk["volumeSize"] == (80 if pool == "builds" else 20)


@EVERY
def test_the_metadata_service_wants_a_token_and_answers_no_pod(file, pool):
    options = template(file, pool).inputs["metadataOptions"]
    assert options["httpTokens"] == "required"
    assert options["httpPutResponseHopLimit"] == 1


@EVERY
def test_what_each_launch_decides_is_not_in_the_template(file, pool):
    inputs = template(file, pool).inputs
    assert not {"instanceMarketOptions", "networkInterfaces", "placement", "keyName"} & set(inputs)


@EVERY
def test_the_type_is_one_of_the_pools(file, pool):
    types = {"default": "t3.small", "services": "t3.medium", "builds": "c6i.xlarge"}
    assert template(file, pool).inputs["instanceType"] == types[pool]


@EVERY
def test_it_is_in_the_workers_group_with_the_workers_role(file, pool):
    graph, inputs = deployed_stack(file), template(file, pool).inputs
    groups = [each.id for each in graph.of("ec2/securityGroup:SecurityGroup") if each.name.endswith("-workers")]
    assert inputs["vpcSecurityGroupIds"] == groups
    profile = graph.one("iam/instanceProfile:InstanceProfile", "shop-workers")
    assert inputs["iamInstanceProfile"] == {"arn": profile.outputs["arn"]}


@EVERY
def test_what_it_tags_is_what_the_role_may_tag(file, pool):
    """A template's tags are asked for in the launch: one kind too many and every launch is refused."""
    specifications = template(file, pool).inputs["tagSpecifications"]
    kinds = {each["resourceType"] for each in specifications}
    assert kinds <= set(TAGGED_AT_LAUNCH)
    assert kinds >= set(TAGGED) - {"fleet"}
    for each in specifications:
        tags = each["tags"]
        assert (tags[TAG_ROLE], tags[TAG_POOL]) == (ROLE_WORKER, pool)
        assert tags[TAG_CLUSTER] in deployed_stack(file).exports["clusters"]


@EVERY
def test_user_data_is_told_the_stacks_names_and_nothing_secret(file, pool):
    graph, values = deployed_stack(file), told(template(file, pool))
    assert values["AGENT_TOKEN_SECRET"] in {each.inputs["name"] for each in graph.of("secretsmanager/secret:Secret")}
    assert values["SERVER"] in graph.exports["apiServers"].values()
    assert values["BINARY_SHA256"] == k3s.RELEASE.sha256["x86_64"]
    assert "K10" not in script_of(template(file, pool)).replace("K10*", "")


def test_labels_and_taints_come_from_the_policy():
    script = script_of(template(PRODUCTION, "builds"))
    assert '- "example.com/work=builds"' in script
    assert '- "node-fleet.io/pool=builds"' in script
    assert '- "example.com/builds=:NoSchedule"' in script
    assert "example.com" not in script_of(template(PRODUCTION, "services"))


def test_a_pool_of_another_processor_gets_its_binary():
    config = {
        "aws:region": "ap-southeast-1",
        "node-fleet:network": {"zones": ["ap-southeast-1a", "ap-southeast-1b"]},
        "node-fleet:clusters": [{"name": "shop", "policy": {"market": {"types": ["t4g.small"]}}}],
    }
    values = told(declared(config, "arm").one(TEMPLATE, "shop-default"))
    assert values["BINARY_URL"].endswith("/k3s-arm64")
    assert values["BINARY_SHA256"] == k3s.RELEASE.sha256["arm64"]


def test_a_release_that_is_not_pinned_for_a_processor_is_refused():
    with pytest.raises(ValueError, match="arm64") as refused:
        k3s.checksum(k3s.K3s(version="v1.36.4+k3s1", sha256={"x86_64": "a" * 64}), "arm64")
    assert_wording(str(refused.value))


def test_the_functions_are_told_the_templates_number():
    """Never $Latest: a launch that is sent again must be the same launch."""
    graph = deployed_stack(PRODUCTION)
    (item,) = (each.inputs["item"] for each in graph.of("TableItem") if "deployment" in each.name)
    for each in graph.of(TEMPLATE):
        assert each.id in item
    assert "$Latest" not in item

"""A key of somebody's own for the disks: who may use it, how far, and where it stands."""

import json
from dataclasses import replace

import pytest

from nodefleet.model.serialization import ValidationError
from nodefleet_infra import iam
from nodefleet_infra.stack import stack_from
from support.iam_evaluator import Request, allows
from support.iam_samples import PLACE, reading_everything
from support.infra_mocks import DEV, declared, deployed_stack

KEY = "arn:aws:kms:ap-southeast-1:123456789012:key/0f8fad5b-d9cb-469f-a165-70867728950e"
ZONES = {"zones": ["ap-southeast-1a", "ap-southeast-1b"]}


def with_key():
    return declared(
        {
            "aws:region": "ap-southeast-1",
            "node-fleet:network": ZONES,
            "node-fleet:clusters": [{"name": "shop", "disk_key": KEY}],
        },
        "dev",
    )


def sids(graph, role):
    policy = json.loads(graph.one("iam/rolePolicy:RolePolicy", role).inputs["policy"])
    return {each["Sid"] for each in policy["Statement"]}


def test_all_disks_are_encrypted_with_it():
    graph = with_key()
    (master,) = graph.of("ec2/instance:Instance")
    (template,) = graph.of("LaunchTemplate")
    assert master.inputs["rootBlockDevice"]["kmsKeyId"] == KEY
    (disk,) = template.inputs["blockDeviceMappings"]
    assert (disk["ebs"]["kmsKeyId"], disk["ebs"]["encrypted"]) == (KEY, "true")


def test_those_who_launch_may_use_it_and_nobody_else():
    graph = with_key()
    users = {
        role
        for role in ("reconcile", "interruption", "notify", "report", "shop-master", "shop-workers")
        if {"DiskKey", "DiskKeyGrant"} & sids(graph, role)
    }
    assert users == {"reconcile", "interruption"}
    grants = {each.inputs["granteePrincipal"].rpartition("/")[2] for each in graph.of("kms/grant:Grant")}
    assert grants == {"AWSServiceRoleForEC2Spot", "AWSServiceRoleForEC2Fleet"}


def test_without_one_nothing_is_granted():
    graph = deployed_stack(DEV)
    assert graph.of("kms/grant:Grant") == []
    assert not {"DiskKey", "DiskKeyGrant"} & sids(graph, "reconcile")


def test_it_is_used_through_ec2_alone_and_granted_to_aws_alone():
    facts = reading_everything()
    statements = iam.reconcile(replace(facts, clusters=tuple(replace(each, disk_key=KEY) for each in facts.clusters)))
    ec2 = {"kms:ViaService": [f"ec2.{PLACE.region}.amazonaws.com"]}
    for_aws = {**ec2, "kms:GrantIsForAWSResource": ["true"]}
    assert allows(statements, Request("kms:Decrypt", KEY, ec2))
    assert allows(statements, Request("kms:CreateGrant", KEY, for_aws))
    assert not allows(statements, Request("kms:Decrypt", KEY, {}))
    assert not allows(statements, Request("kms:CreateGrant", KEY, ec2))
    assert not allows(statements, Request("kms:Decrypt", KEY + "0", ec2))


@pytest.mark.parametrize("given", ["alias/disks", "0f8fad5b-d9cb-469f-a165-70867728950e"])
def test_what_is_no_keys_arn_is_refused(given):
    data = {"network": ZONES, "clusters": [{"name": "shop", "disk_key": given}]}
    with pytest.raises(ValidationError) as refused:
        stack_from("node-fleet", "dev", "ap-southeast-1", data)
    assert [each.path for each in refused.value.problems] == ["clusters[0].disk_key"]

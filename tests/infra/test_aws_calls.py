"""What notes the calls must itself hear the right ones, and complain of the right ones."""

import pytest

from support.aws_calls import USERS, Call, aws_calls, every_aws_call_is_granted, ungranted
from support.deployed import account, deployed
from support.wording import assert_wording

__all__ = ["account", "aws_calls", "deployed", "every_aws_call_is_granted"]


def heard(recorder):
    return {(call.role, call.adapter, call.operation) for call in recorder.take()}


def test_what_an_adapter_does_is_heard_and_what_a_test_does_is_not(deployed, aws_calls):
    aws_calls.take()
    deployed.client("dynamodb").scan(TableName=deployed.table)
    deployed.site.ids()
    assert heard(aws_calls) == set()
    deployed.store().state()
    assert heard(aws_calls) == {("", "dynamodb.table", "Query")}


def test_a_handler_s_calls_are_its_role_s_also_those_of_its_threads(deployed, aws_calls):
    aws_calls.take()
    deployed.tick()
    calls = heard(aws_calls)
    assert {role for role, _, _ in calls} == {"reconcile"}
    assert {
        ("reconcile", "dynamodb.table", "TransactWriteItems"),
        ("reconcile", "ec2", "CreateFleet"),
        ("reconcile", "archive", "PutObject"),
        ("reconcile", "secrets", "GetSecretValue"),
        ("reconcile", "instance_types", "DescribeInstanceTypes"),
    } <= calls


@pytest.mark.parametrize(
    ("call", "problems"),
    [
        (Call("ec2", "StopInstances", {}, "notify", "ec2"), {"ec2:StopInstances (notify, ec2)"}),
        (Call("ec2", "TerminateInstances", {}, "report", "ec2"), {"ec2:TerminateInstances (report, ec2)"}),
        (Call("ec2", "TerminateInstances", {}, "", "ec2"), set()),
        (Call("ec2", "RebootInstances", {}, "", "ec2"), {"ec2:RebootInstances (reconcile/interruption, ec2)"}),
        (Call("dynamodb", "UpdateItem", {}, "", "dynamodb.table"), set()),
        (
            Call("dynamodb", "UpdateItem", {}, "notify", "dynamodb.table"),
            {"dynamodb:UpdateItem (notify, dynamodb.table)"},
        ),
        (Call("dynamodb", "TransactWriteItems", {"TransactItems": [{"Put": {}}]}, "report", "dynamodb.table"), set()),
        (
            Call(
                "dynamodb",
                "TransactWriteItems",
                {"TransactItems": [{"Put": {}}, {"Delete": {}}]},
                "report",
                "dynamodb.table",
            ),
            {"dynamodb:DeleteItem (report, dynamodb.table)"},
        ),
        (Call("s3", "GetObject", {}, "", "archive"), set()),
    ],
)
def test_what_nobody_may_do_is_a_problem(call, problems):
    assert ungranted(call) == problems


def test_an_adapter_that_nobody_is_known_to_use_is_a_problem():
    assert "route53" not in USERS
    (problem,) = ungranted(Call("route53", "ListHostedZones", {}, "", "route53"))
    assert_wording(problem)

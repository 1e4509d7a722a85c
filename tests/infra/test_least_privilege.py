"""Least privilege, both ways: what the functions do is allowed to them, and what they are allowed they do.

The calls are those of whole runs on moto, through the shipped wiring and adapters, each held against the role of the
function that made it with everything that it touches.
"""

import boto3  # type: ignore[import-untyped]
import pytest

from nodefleet.adapters.aws.secrets import Secrets
from nodefleet.adapters.credentials import SlackHook
from nodefleet_infra import iam
from support.aws_calls import aws_calls, every_aws_call_is_granted
from support.deployed import account
from support.iam_evaluator import Request, allows, verdict
from support.iam_requests import World, actions_of, requests_of
from support.iam_samples import PLACE, facts, granted_to, lean, machines
from support.lived import lived as living

__all__ = ["account", "aws_calls", "every_aws_call_is_granted"]

# What a function's role is granted for Lambda, which uses it around the function.
BY_LAMBDA = {
    "logs:CreateLogStream": "writes the log",
    "logs:PutLogEvents": "writes the log",
    "sqs:SendMessage": "sets aside what the function could not take",
    "sqs:DeleteMessage": "takes what EC2 says from its queue",
    "sqs:ReceiveMessage": "takes what EC2 says from its queue",
    "dynamodb:DescribeStream": "reads the stream",
    "dynamodb:GetRecords": "reads the stream",
    "dynamodb:GetShardIterator": "reads the stream",
    "dynamodb:ListStreams": "reads the stream",
}


@pytest.fixture(scope="module")
def lived(account, aws_calls, tmp_path_factory):
    with living(aws_calls, tmp_path_factory.mktemp("lived")) as made:
        yield made


# ── what is done is allowed ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("role", iam.FUNCTIONS)
def test_every_call_of_a_function_is_allowed_to_its_role(lived, role):
    statements = iam.FUNCTIONS[role](lived.facts)
    calls = [call for call in lived.calls if call.role == role]
    assert calls
    refused = {
        str(request): verdict(statements, request)
        for call in calls
        for request in requests_of(call.service, call.operation, call.parameters, lived.world)
        if not allows(statements, request)
    }
    assert refused == {}


def test_every_call_was_made_in_some_role(lived):
    assert {call.role for call in lived.calls} == set(iam.FUNCTIONS)


# ── what is allowed is done ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("role", iam.FUNCTIONS)
def test_no_function_is_granted_an_action_that_it_does_not_use(lived, role):
    used = {
        action
        for call in lived.calls
        if call.role == role
        for action in actions_of(call.service, call.operation, call.parameters)
    }
    assert granted_to(role) - set(BY_LAMBDA) == used


def asked(lived, role):
    calls = (call for call in lived.calls if call.role == role)
    return [each for call in calls for each in requests_of(call.service, call.operation, call.parameters, lived.world)]


@pytest.mark.parametrize("role", iam.FUNCTIONS)
def test_every_statement_is_needed_by_some_call(lived, role):
    statements, requests = iam.FUNCTIONS[role](lived.facts), asked(lived, role)
    for statement in statements:
        by_lambda = set(BY_LAMBDA) | ({"sqs:GetQueueAttributes"} if statement.sid == "Events" else set())
        if statement.effect == "Allow" and not set(statement.actions) <= by_lambda:
            others = [each for each in statements if each is not statement]
            assert not all(allows(others, request) for request in requests), f"{statement.sid} is not needed"


@pytest.mark.parametrize("role", ["reconcile", "notify"])
def test_every_secret_that_a_role_may_read_is_read(lived, role):
    """One by one: logins to Kubernetes of each cluster, to demand sources, to Slack. `interruption` has the loop's
    statements, and events of one cluster only."""
    granted = {arn for each in iam.FUNCTIONS[role](lived.facts) if each.sid == "Secrets" for arn in each.resources}
    used = {each.resource for each in asked(lived, role) if each.action == "secretsmanager:GetSecretValue"}
    assert used == granted


PULLING = {
    "ecr:GetAuthorizationToken": "the kubelet's credential provider, node-fleet-ecr",
    "ecr:BatchCheckLayerAvailability": "containerd, to pull",
    "ecr:BatchGetImage": "containerd, to pull",
    "ecr:GetDownloadUrlForLayer": "containerd, to pull",
}

# What the instances do is in their scripts and in programs that are not ours.
BY_MACHINES = {
    "worker": {
        "secretsmanager:GetSecretValue": "its user data fetches the token to join with",
        **PULLING,
        "ssm:UpdateInstanceInformation": "Session Manager's agent",
        "ssmmessages:CreateControlChannel": "Session Manager's agent",
        "ssmmessages:CreateDataChannel": "Session Manager's agent",
        "ssmmessages:OpenControlChannel": "Session Manager's agent",
        "ssmmessages:OpenDataChannel": "Session Manager's agent",
    },
    "master": {
        "secretsmanager:PutSecretValue": "publishes the autoscaler's login and the tokens",
        "secretsmanager:GetSecretValue": "a replaced master goes on with the tokens of the old one",
        "s3:PutObject": "K3s keeps a snapshot",
        "s3:AbortMultipartUpload": "K3s gives up a snapshot",
        "s3:GetObject": "K3s restores one",
        "s3:DeleteObject": "K3s forgets old ones",
        "s3:ListBucket": "K3s counts them, and looks whether the bucket is there",
        "sns:Publish": "the watcher and Alertmanager wake the autoscaler; Alertmanager tells operators of readings",
        "kms:Decrypt": "SNS, to encrypt what it is told of readings",
        "kms:GenerateDataKey": "SNS, to encrypt what it is told of readings",
        "cloudwatch:GetMetricData": "Grafana's panels",
        "cloudwatch:ListMetrics": "Grafana's list of clusters",
        **PULLING,
        "ssm:UpdateInstanceInformation": "Session Manager's agent",
        "ssmmessages:CreateControlChannel": "Session Manager's agent",
        "ssmmessages:CreateDataChannel": "Session Manager's agent",
        "ssmmessages:OpenControlChannel": "Session Manager's agent",
        "ssmmessages:OpenDataChannel": "Session Manager's agent",
    },
    "scheduler": {
        "lambda:InvokeFunction": "a tick",
        "sqs:SendMessage": "a start that could not be delivered",
    },
}


@pytest.mark.parametrize("role", BY_MACHINES)
def test_every_action_of_a_machine_has_its_reason(role):
    granted = {action for each in machines()[role] if each.effect == "Allow" for action in each.actions}
    assert granted == set(BY_MACHINES[role])


# ── with `autoscaler.lean` ───────────────────────────────────────────────────────────────────────────────────────


def test_the_webhook_in_parameter_store_is_read_by_notify_and_needs_no_other_right(account, aws_calls):
    """Both ways for the statement that `lean` puts in the place of the one on Slack's secret."""
    name = "/node-fleet-dev/slack"
    boto3.client("ssm").put_parameter(Name=name, Type="SecureString", Value='{"url": "http://127.0.0.1:1/x"}')
    aws_calls.take()
    Secrets(boto3.client).login(name, SlackHook)
    made = aws_calls.take()
    world = World(place=PLACE)
    asked_for = [each for call in made for each in requests_of(call.service, call.operation, call.parameters, world)]
    statements = iam.notify(lean())
    (parameter,) = (each for each in statements if each.sid == "Parameter")
    assert {each.action for each in asked_for} == set(parameter.actions)
    assert {each.resource for each in asked_for} == set(parameter.resources)
    assert all(allows(statements, each) for each in asked_for)
    assert not any(allows([each for each in statements if each is not parameter], request) for request in asked_for)
    (slack,) = parameter.resources
    for other in (
        Request("ssm:GetParameter", slack.replace("slack", "other")),
        Request("ssm:PutParameter", slack),
        Request("secretsmanager:GetSecretValue", facts().slack_secret),
    ):
        assert not allows(statements, other)

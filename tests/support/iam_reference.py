"""What AWS says of the actions that we use: the resources that each can be limited to, and the keys that it knows.

From the Service Authorization Reference, as of November 2026. A condition on a key that an action does not know for a
resource is never met, and IAM says nothing about it: the statement just does not work. So every statement is held
against this table.
"""

from collections.abc import Mapping
from dataclasses import dataclass

REQUEST_TAGS = frozenset({"aws:RequestTag", "aws:TagKeys"})
RESOURCE_TAGS = frozenset({"aws:ResourceTag", "ec2:ResourceTag"})
TEMPLATE = frozenset({"ec2:LaunchTemplate", "ec2:IsLaunchTemplateResource"})
NEW = REQUEST_TAGS | TEMPLATE
COST = frozenset({"ec2:InstanceType", "ec2:Tenancy"})
DISK = frozenset({"ec2:VolumeType", "ec2:VolumeSize", "ec2:VolumeIops"})
OLD = RESOURCE_TAGS | TEMPLATE
TAGGED = REQUEST_TAGS | RESOURCE_TAGS | {"ec2:CreateAction"}
ITEM = frozenset({"dynamodb:LeadingKeys"})
KEY = frozenset({"kms:ViaService"})
NOTHING: frozenset[str] = frozenset()

# Known to every action that a function calls.
GLOBAL = frozenset({"lambda:SourceFunctionArn"})


@dataclass(frozen=True)
class Known:
    """By kind of resource, the condition keys. No kinds: the action cannot be limited to a resource."""

    kinds: Mapping[str, frozenset[str]]

    @property
    def needs_star(self) -> bool:
        return not self.kinds


ARNS = {
    "bucket": "arn:*:s3:::*",
    "fleet": "arn:*:ec2:*:*:fleet/*",
    "function": "arn:*:lambda:*:*:function:*",
    "image": "arn:*:ec2:*::image/*",
    "instance": "arn:*:ec2:*:*:instance/*",
    "key": "arn:*:kms:*:*:key/*",
    "launch-template": "arn:*:ec2:*:*:launch-template/*",
    "log-stream": "arn:*:logs:*:*:log-group:*:*",
    "network-interface": "arn:*:ec2:*:*:network-interface/*",
    "object": "arn:*:s3:::*/*",
    "parameter": "arn:*:ssm:*:*:parameter/*",
    "queue": "arn:*:sqs:*:*:*",
    "repository": "arn:*:ecr:*:*:repository/*",
    "role": "arn:*:iam::*:role/*",
    "secret": "arn:*:secretsmanager:*:*:secret:*",
    "security-group": "arn:*:ec2:*:*:security-group/*",
    "stream": "arn:*:dynamodb:*:*:table/*/stream/*",
    "subnet": "arn:*:ec2:*:*:subnet/*",
    "table": "arn:*:dynamodb:*:*:table/*",
    "topic": "arn:*:sns:*:*:*",
    "volume": "arn:*:ec2:*:*:volume/*",
}

ACTIONS: Mapping[str, Known] = {
    # EC2
    "ec2:CreateFleet": Known(
        {
            "fleet": REQUEST_TAGS,
            "instance": REQUEST_TAGS,
            "volume": REQUEST_TAGS,
            "image": RESOURCE_TAGS,
            "launch-template": RESOURCE_TAGS,
            "subnet": RESOURCE_TAGS,
        }
    ),
    "ec2:RunInstances": Known(
        {
            "instance": NEW | COST,
            "volume": NEW | DISK,
            "network-interface": NEW,
            "image": OLD,
            "launch-template": OLD,
            "security-group": OLD,
            "subnet": OLD,
        }
    ),
    "ec2:CreateTags": Known(dict.fromkeys(("fleet", "instance", "volume", "network-interface"), TAGGED)),
    "ec2:DeleteTags": Known({"instance": TAGGED}),
    "ec2:ModifyInstanceAttribute": Known({"instance": RESOURCE_TAGS}),
    "ec2:RebootInstances": Known({"instance": RESOURCE_TAGS}),
    "ec2:StartInstances": Known({"instance": RESOURCE_TAGS}),
    "ec2:StopInstances": Known({"instance": RESOURCE_TAGS}),
    "ec2:TerminateInstances": Known({"instance": RESOURCE_TAGS}),
    "ec2:CreateNetworkInterface": Known(
        {"network-interface": REQUEST_TAGS, "subnet": RESOURCE_TAGS, "security-group": RESOURCE_TAGS}
    ),
    "ec2:DeleteNetworkInterface": Known({"network-interface": RESOURCE_TAGS}),
    "ec2:AssignPrivateIpAddresses": Known({"network-interface": RESOURCE_TAGS}),
    "ec2:UnassignPrivateIpAddresses": Known({"network-interface": RESOURCE_TAGS}),
    "ec2:DescribeInstances": Known({}),
    "ec2:DescribeInstanceTypes": Known({}),
    "ec2:DescribeNetworkInterfaces": Known({}),
    "ec2:DescribeSpotPriceHistory": Known({}),
    "ec2:DescribeSubnets": Known({}),
    "iam:PassRole": Known({"role": frozenset({"iam:PassedToService"})}),
    # state
    "dynamodb:ConditionCheckItem": Known({"table": ITEM}),
    "dynamodb:DeleteItem": Known({"table": ITEM}),
    "dynamodb:PutItem": Known({"table": ITEM}),
    "dynamodb:Query": Known({"table": ITEM}),
    "dynamodb:UpdateItem": Known({"table": ITEM}),
    "dynamodb:DescribeStream": Known({"stream": NOTHING}),
    "dynamodb:GetRecords": Known({"stream": NOTHING}),
    "dynamodb:GetShardIterator": Known({"stream": NOTHING}),
    "dynamodb:ListStreams": Known({}),
    "s3:AbortMultipartUpload": Known({"object": NOTHING}),
    "s3:DeleteObject": Known({"object": NOTHING}),
    "s3:GetObject": Known({"object": NOTHING}),
    "s3:ListBucket": Known({"bucket": frozenset({"s3:prefix"})}),
    "s3:PutObject": Known({"object": NOTHING}),
    "ssm:GetParameter": Known({"parameter": NOTHING}),
    "secretsmanager:GetSecretValue": Known({"secret": NOTHING}),
    "secretsmanager:PutSecretValue": Known({"secret": NOTHING}),
    # the rest
    "cloudwatch:GetMetricData": Known({}),
    "cloudwatch:ListMetrics": Known({}),
    "ecr:BatchCheckLayerAvailability": Known({"repository": NOTHING}),
    "ecr:BatchGetImage": Known({"repository": NOTHING}),
    "ecr:GetAuthorizationToken": Known({}),
    "ecr:GetDownloadUrlForLayer": Known({"repository": NOTHING}),
    "kms:Decrypt": Known({"key": KEY}),
    "kms:GenerateDataKey": Known({"key": KEY}),
    "lambda:InvokeFunction": Known({"function": NOTHING}),
    "logs:CreateLogStream": Known({"log-stream": NOTHING}),
    "logs:PutLogEvents": Known({"log-stream": NOTHING}),
    "sns:Publish": Known({"topic": NOTHING}),
    "sqs:DeleteMessage": Known({"queue": NOTHING}),
    "sqs:GetQueueAttributes": Known({"queue": NOTHING}),
    "sqs:ReceiveMessage": Known({"queue": NOTHING}),
    "sqs:SendMessage": Known({"queue": NOTHING}),
    "ssm:UpdateInstanceInformation": Known({"instance": NOTHING}),
    "ssmmessages:CreateControlChannel": Known({}),
    "ssmmessages:CreateDataChannel": Known({}),
    "ssmmessages:OpenControlChannel": Known({}),
    "ssmmessages:OpenDataChannel": Known({}),
}

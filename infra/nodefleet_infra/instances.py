"""Settings that the server and the workers share: image, disk, metadata service, role."""

from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_aws as aws

from nodefleet_infra.config import Arch
from nodefleet_infra.interfaces import Text
from nodefleet_infra.statements import trust

# Without a way for a hop more, no pod but those on the host's network reaches the instance's role.
METADATA: Mapping[str, Any] = {
    "http_endpoint": "enabled",
    "http_tokens": "required",
    "http_put_response_hop_limit": 1,
    "instance_metadata_tags": "disabled",
}
ROOT_DEVICE = "/dev/xvda"  # of Amazon Linux
_IMAGES = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default"


def image(given: str, arch: Arch) -> Text:
    """An AMI: the one that is given, or the newest Amazon Linux 2023."""
    if given:
        return pulumi.Output.from_input(given)
    found = aws.ssm.get_parameter_output(name=f"{_IMAGES}-{arch}").value
    return pulumi.Output.unsecret(found)  # Pulumi takes every parameter for a secret; this one is public


def profile(
    name: str, full: str, says: str, policy: pulumi.Input[str], tags: Mapping[str, str], opts: pulumi.ResourceOptions
) -> tuple[aws.iam.Role, aws.iam.RolePolicy, aws.iam.InstanceProfile]:
    """A role for instances, with its one policy, and the profile by which an instance gets it."""
    role = aws.iam.Role(name, name=full, description=says, assume_role_policy=trust("ec2"), tags=dict(tags), opts=opts)
    allowed = aws.iam.RolePolicy(name, role=role.id, policy=policy, opts=opts)
    return role, allowed, aws.iam.InstanceProfile(name, name=full, role=role.name, tags=dict(tags), opts=opts)

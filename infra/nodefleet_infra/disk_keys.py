"""A key of your own for the disks of server and workers.

EC2 makes a disk with the rights of the principal that launches. An On-Demand worker is launched in the autoscaler's
name: its role has the statement below. A Spot worker is launched by AWS's own roles for Spot and fleets, which only a
grant on the key lets in; without one the instance ends at once with Client.InternalError.
"""

from collections.abc import Sequence

import pulumi
import pulumi_aws as aws

from nodefleet_infra.interfaces import Place
from nodefleet_infra.statements import Statement

_LINKED = {"spot.amazonaws.com": "AWSServiceRoleForEC2Spot", "ec2fleet.amazonaws.com": "AWSServiceRoleForEC2Fleet"}
_GRANTED = (
    "CreateGrant",
    "Decrypt",
    "DescribeKey",
    "Encrypt",
    "GenerateDataKey",
    "GenerateDataKeyWithoutPlaintext",
    "ReEncryptFrom",
    "ReEncryptTo",
)
_USED = ("kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKeyWithoutPlaintext", "kms:ReEncrypt*")


class DiskKeys(pulumi.ComponentResource):
    """Grants on the keys, each once."""

    def __init__(
        self,
        name: str,
        place: Place,
        keys: Sequence[str],
        roles: Sequence[pulumi.Resource],  # AWS's own, made or found
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("node-fleet:machines:DiskKeys", name, None, opts)
        for key in dict.fromkeys(keys):
            for service, role in _LINKED.items():
                aws.kms.Grant(
                    f"{key.rpartition('/')[2]}-{service.split('.')[0]}",
                    key_id=key,
                    grantee_principal=(
                        f"arn:{place.partition}:iam::{place.account}:role/aws-service-role/{service}/{role}"
                    ),
                    operations=list(_GRANTED),
                    opts=pulumi.ResourceOptions(parent=self, depends_on=list(roles)),
                )
        self.register_outputs({})


def using(place: Place, disk_keys: Sequence[str]) -> tuple[Statement, ...]:
    """Through EC2 only, and grants only for what EC2 itself does with them."""
    keys = tuple(dict.fromkeys(disk_keys))
    if not keys:
        return ()
    by_ec2 = {"StringEquals": {"kms:ViaService": (f"ec2.{place.region}.{place.suffix}",)}}
    for_aws = {"Bool": {"kms:GrantIsForAWSResource": ("true",)}}
    return (
        Statement(sid="DiskKey", actions=_USED, resources=keys, conditions=by_ec2),
        Statement(sid="DiskKeyGrant", actions=("kms:CreateGrant",), resources=keys, conditions=by_ec2 | for_aws),
    )

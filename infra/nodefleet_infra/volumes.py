"""What the EBS CSI driver may do in EC2, with `clusters[].persistent_volumes`.

Its controller runs on the server and has the server's role. Every volume that it makes carries the cluster's tag; what
lacks it is out of its reach, and so are the server's own disks and other clusters' workers.
"""

from nodefleet.model.names import ROLE_WORKER, TAG_CLUSTER, TAG_ROLE
from nodefleet_infra import disk_keys
from nodefleet_infra.interfaces import Place
from nodefleet_infra.statements import Statement

DRIVER_TAG = "ebs.csi.aws.com/cluster"  # the driver itself puts it on every volume, with the value "true"
VOLUME_TYPE = "gp3"


def provisioning(place: Place, cluster: str, disk_key: str = "") -> tuple[Statement, ...]:
    """gp3 and encrypted alone: a StorageClass that asks for anything else gets no volume. How large one may be is for
    quotas in the cluster to say (ResourceQuota, `requests.storage`)."""
    volumes = (f"arn:{place.partition}:ec2:{place.region}:{place.account}:volume/*",)
    instances = (f"arn:{place.partition}:ec2:{place.region}:{place.account}:instance/*",)
    requested = {f"aws:RequestTag/{TAG_CLUSTER}": (cluster,), f"aws:RequestTag/{DRIVER_TAG}": ("true",)}
    made = {f"aws:ResourceTag/{TAG_CLUSTER}": (cluster,), f"aws:ResourceTag/{DRIVER_TAG}": ("true",)}
    workers = {f"aws:ResourceTag/{TAG_CLUSTER}": (cluster,), f"aws:ResourceTag/{TAG_ROLE}": (ROLE_WORKER,)}
    attach = ("ec2:AttachVolume", "ec2:DetachVolume")
    return (
        Statement(
            sid="VolumesSee",
            actions=("ec2:DescribeAvailabilityZones", "ec2:DescribeInstances", "ec2:DescribeVolumes"),
            resources=("*",),
        ),
        Statement(
            sid="VolumesMake",
            actions=("ec2:CreateVolume",),
            resources=volumes,
            conditions={
                "StringEquals": {**requested, "ec2:VolumeType": (VOLUME_TYPE,)},
                "Bool": {"ec2:Encrypted": ("true",)},
            },
        ),
        Statement(
            sid="VolumesTag",
            actions=("ec2:CreateTags",),
            resources=volumes,
            conditions={"StringEquals": {"ec2:CreateAction": ("CreateVolume",), **requested}},
        ),
        Statement(sid="VolumesAttach", actions=attach, resources=volumes, conditions={"StringEquals": made}),
        Statement(sid="VolumesAttachTo", actions=attach, resources=instances, conditions={"StringEquals": workers}),
        Statement(
            sid="VolumesDelete", actions=("ec2:DeleteVolume",), resources=volumes, conditions={"StringEquals": made}
        ),
        *disk_keys.using(place, [disk_key] if disk_key else []),
    )

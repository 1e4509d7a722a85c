"""What the autoscaler may do in EC2: launch workers from our templates, mark, stop, start and terminate them.

EC2 asks about each resource that a call touches, and each must be allowed. One CreateFleet is therefore many questions:
about the fleet itself, and, as RunInstances in our name, about what it launches.

    template, subnets, groups, interfaces     which they are
    image                                     the template's own, not one that the call put in its place
    fleet, instances, volumes                 the tags that they will have
    instances                                 from which template they come, of which types, on shared hardware
    volumes                                   how large and of which kind
    tags                                      only while something is made (ec2:CreateAction)
    the workers' role                         only for EC2

That a server is never touched is said twice: it lacks the tag that workers have, and a denial outweighs whatever an
operator may add to the role later. So it is with launches: one without a template of ours is denied, and so is whatever
would cost more than what the policies want. A call may put other values in the place of a template's, and IAM bounds
each of them that costs money but one: how many. Nor does it know user data (docs/security.md).
"""

from collections.abc import Mapping, Sequence

from nodefleet.model.names import (
    ROLE_SERVER,
    ROLE_WORKER,
    STATUS_JOIN_FAILED,
    STATUS_STARTED,
    STATUS_WARM,
    TAG_CLUSTER,
    TAG_FLEET,
    TAG_POOL,
    TAG_ROLE,
    TAG_STATUS,
)
from nodefleet_infra.role_arns import ClusterArns, FleetArns, Place
from nodefleet_infra.statements import Statement

# What a launch may tag. CreateFleet tags the first three; network interfaces only a template can tag. Spot requests are
# not among them: EC2 would then ask for RunInstances on the request, and an instant fleet's request is gone at once.
TAGGED_AT_LAUNCH = ("fleet", "instance", "volume", "network-interface")

# What the templates ask for. EC2 makes gp3 volumes of this performance unless it is told to make them faster.
VOLUME_TYPE, VOLUME_IOPS = "gp3", "3000"

_LAUNCH = ("ec2:CreateFleet", "ec2:RunInstances")

# What must never happen to a server, whatever else the role is given.
_HARM = (
    "ec2:CreateTags",
    "ec2:DeleteTags",
    "ec2:ModifyInstanceAttribute",
    "ec2:RebootInstances",
    "ec2:StopInstances",
    "ec2:TerminateInstances",
)

# Lambda makes a function's network interfaces with the function's own role.
_INTERFACES = (
    "ec2:AssignPrivateIpAddresses",
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:UnassignPrivateIpAddresses",
)
_INTERFACES_SEEN = ("ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets")


def seeing(*, machines: bool = True) -> Statement:
    """EC2 does not limit which instances a principal sees. What types offer and cost is no secret anyway."""
    types = ("ec2:DescribeInstanceTypes", "ec2:DescribeSpotPriceHistory")
    actions = ("ec2:DescribeInstances", *types) if machines else types
    return Statement(sid="See", actions=actions, resources=("*",))


def launching(place: Place, clusters: Sequence[ClusterArns]) -> tuple[Statement, ...]:
    """Lists of ARNs stand here once each: they are what makes a policy long."""
    templates = tuple(arn for cluster in clusters for arn in cluster.templates)
    subnets = tuple(arn for cluster in clusters for arn in cluster.subnets)
    groups = tuple(arn for cluster in clusters for arn in cluster.groups)
    from_ours = Statement(
        sid="From", actions=_LAUNCH, resources=(*templates, *subnets, *groups, *_any(place, "network-interface"))
    )
    return (
        from_ours,
        *_launching(
            place,
            clusters=tuple(cluster.cluster for cluster in clusters),
            templates=tuple(f"arn:*:*:*:*:*/{_id(arn)}" for arn in templates),
            types=tuple(name for cluster in clusters for name in cluster.types),
            disk_gb=max((cluster.disk_gb for cluster in clusters), default=0),
            roles=tuple(cluster.worker_role for cluster in clusters),
        ),
    )


def launching_by_tag(place: Place, fleet: FleetArns) -> tuple[Statement, ...]:
    """The same for all clusters whose ids begin alike: templates, subnets and groups are the fleet's by their tag."""
    own = {"StringEquals": {f"aws:ResourceTag/{TAG_FLEET}": (fleet.name,)}}
    parts = _any(place, "launch-template", "subnet", "security-group", regions=fleet.regions)
    interfaces = _any(place, "network-interface", regions=fleet.regions)
    return (
        Statement(sid="From", actions=_LAUNCH, resources=parts, conditions=own),
        Statement(sid="Interfaces", actions=_LAUNCH, resources=interfaces),
        *_launching(
            place,
            clusters=(f"{fleet.prefix}*",),
            templates=("arn:*:*:*:*:*/lt-*",),  # which of them, the tag says: here only that there is one
            types=fleet.types,
            disk_gb=fleet.disk_gb,
            roles=tuple(f"arn:{place.partition}:iam::{place.account}:role/{name}" for name in fleet.worker_roles),
            regions=fleet.regions,
        ),
    )


def _launching(
    place: Place,
    *,
    clusters: Sequence[str],  # ids
    templates: Sequence[str],
    types: Sequence[str],
    disk_gb: int,
    roles: Sequence[str],
    regions: Sequence[str] = (),  # empty: the stack's own
) -> tuple[Statement, ...]:
    image = tuple(f"arn:{place.partition}:ec2:{region}::image/*" for region in regions or (place.region,))
    tagged = _tagged("RequestTag", clusters)
    return (
        Statement(sid="FleetAmi", actions=("ec2:CreateFleet",), resources=image),
        Statement(
            sid="Image",
            actions=("ec2:RunInstances",),
            resources=image,
            conditions={"Bool": {"ec2:IsLaunchTemplateResource": ("true",)}},
        ),
        Statement(
            sid="Tagged",
            actions=_LAUNCH,
            resources=_any(place, "fleet", "instance", "volume", regions=regions),
            conditions=tagged,
        ),
        Statement(
            sid="OnlyOurs",
            effect="Deny",
            actions=("ec2:RunInstances",),
            resources=_every("instance"),
            # Also holds for a launch without one. The id is the only part of the ARN that tells templates apart.
            conditions={"ArnNotLike": {"ec2:LaunchTemplate": tuple(templates)}},
        ),
        *_affordable(types, disk_gb),
        Statement(
            sid="Tag",
            actions=("ec2:CreateTags",),
            resources=_any(place, *TAGGED_AT_LAUNCH, regions=regions),
            conditions=_tagged("RequestTag", clusters, {"ec2:CreateAction": ("CreateFleet", "RunInstances")}),
        ),
        Statement(
            sid="PassRole",
            actions=("iam:PassRole",),
            resources=tuple(roles),
            conditions={"StringEquals": {"iam:PassedToService": ("ec2.amazonaws.com",)}},
        ),
    )


def _affordable(types: Sequence[str], disk_gb: int) -> tuple[Statement, ...]:
    """Bounds of what a launch may cost. A statement each, because conditions of one must all hold for it to deny."""
    largest = str(disk_gb)
    denied: tuple[tuple[str, str, str, str, tuple[str, ...]], ...] = (
        ("Types", "instance", "StringNotLike", "ec2:InstanceType", tuple(types)),
        ("Shared", "instance", "StringEquals", "ec2:Tenancy", ("dedicated", "host")),
        ("DiskType", "volume", "StringNotEquals", "ec2:VolumeType", (VOLUME_TYPE,)),
        ("DiskSize", "volume", "NumericGreaterThan", "ec2:VolumeSize", (largest,)),
        ("DiskIops", "volume", "NumericGreaterThan", "ec2:VolumeIops", (VOLUME_IOPS,)),
    )
    return tuple(
        Statement(
            sid=sid,
            effect="Deny",
            actions=("ec2:RunInstances",),
            resources=_every(kind),
            conditions={operator: {key: values}},
        )
        for sid, kind, operator, key, values in denied
    )


def keeping(place: Place, clusters: Sequence[str], regions: Sequence[str] = ()) -> tuple[Statement, ...]:
    """What may happen to instances that run; `clusters` are ids."""
    instances = _any(place, "instance", regions=regions)
    own_workers = _tagged("ResourceTag", clusters)
    status = {f"aws:RequestTag/{TAG_STATUS}": (STATUS_JOIN_FAILED, STATUS_STARTED, STATUS_WARM)}
    return (
        Statement(
            sid="Mark",
            actions=("ec2:CreateTags",),
            resources=instances,
            conditions={
                **own_workers,
                "StringEqualsIfExists": status,
                "ForAllValues:StringEquals": {"aws:TagKeys": (TAG_POOL, TAG_STATUS)},  # and no other key along with it
                "Null": {"aws:TagKeys": ("false",)},
            },
        ),
        Statement(
            sid="Workers",
            actions=("ec2:StartInstances", "ec2:StopInstances", "ec2:TerminateInstances"),
            resources=instances,
            conditions=own_workers,
        ),
        Statement(
            sid="Spare",
            effect="Deny",
            actions=_HARM,
            resources=_every("instance"),
            conditions={"StringEquals": {f"aws:ResourceTag/{TAG_ROLE}": (ROLE_SERVER,)}},
        ),
    )


def attached_to_vpc(place: Place, function: str) -> tuple[Statement, ...]:
    """For a function (its ARN without a version) in a VPC. What Lambda may do with the role the function's own code may
    not: calls from within a function say which one it is. Lambda wants to delete interfaces whatever they are called,
    and checks that when the function is made."""
    anything = (f"arn:{place.partition}:ec2:{place.region}:{place.account}:*/*",)
    return (
        Statement(sid="VpcSee", actions=_INTERFACES_SEEN, resources=("*",)),
        Statement(sid="Attach", actions=_INTERFACES, resources=anything),
        Statement(
            sid="NoCode",
            effect="Deny",
            actions=(*_INTERFACES, *_INTERFACES_SEEN),
            resources=("*",),
            conditions={"ArnEquals": {"lambda:SourceFunctionArn": (function,)}},
        ),
    )


def _every(kind: str) -> tuple[str, ...]:
    """Wherever it is: for denials, in which every character counts and none is too broad."""
    return (f"arn:*:ec2:*:*:{kind}/*",)


def _id(arn: str) -> str:
    return arn.rpartition("/")[2]


def _any(place: Place, *kinds: str, regions: Sequence[str] = ()) -> tuple[str, ...]:
    return tuple(
        f"arn:{place.partition}:ec2:{region}:{place.account}:{kind}/*"
        for region in regions or (place.region,)
        for kind in kinds
    )


def _tagged(
    key: str, clusters: Sequence[str], more: Mapping[str, tuple[str, ...]] | None = None
) -> dict[str, dict[str, tuple[str, ...]]]:
    """A worker of one of these clusters, in which * stands for any."""
    exact = {**(more or {}), f"aws:{key}/{TAG_ROLE}": (ROLE_WORKER,)}
    ids = {f"aws:{key}/{TAG_CLUSTER}": tuple(clusters)}
    if any("*" in cluster for cluster in clusters):
        return {"StringEquals": exact, "StringLike": ids}
    return {"StringEquals": {**(more or {}), **ids, f"aws:{key}/{TAG_ROLE}": (ROLE_WORKER,)}}

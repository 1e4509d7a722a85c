"""A frozen launch as a CreateFleet request, and EC2's answer as the loop's.

The request is made of nothing but the launch's own frozen fields and the cluster's name: EC2 knows a request that is
sent again by its token, and refuses the token if so much as a tag differs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, assert_never

from nodefleet.adapters.aws.errors import DENIALS, THROTTLES, action, from_code
from nodefleet.errors import UnavailableError
from nodefleet.model.inventory import Market
from nodefleet.model.names import ROLE_WORKER, TAG_CAPACITY, TAG_CLUSTER, TAG_OPERATION, TAG_POOL, TAG_ROLE
from nodefleet.model.operations import Launch, Refusal, RefusalKind
from nodefleet.ports import LaunchResult

# ── launch errors ────────────────────────────────────────────────────────────────────────────────────────────────────
# Why EC2 did not give an instance, sorted by who can do something about it.
#
# EC2 has hundreds of codes and makes new ones, so families are told by their names where the name is clear. A code that
# we do not know counts as lacking capacity when EC2 gives it for one type: that is remembered for minutes and tried
# again by itself, while "invalid" would send operators to fix a template that may be right. Its words are passed on to
# them.


CAPACITY, QUOTA = RefusalKind.CAPACITY, RefusalKind.QUOTA
PERMISSION, INVALID = RefusalKind.PERMISSION, RefusalKind.INVALID

NO_SPOT_ROLE = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"

_KINDS = {
    "InsufficientFreeAddressesInSubnet": CAPACITY,  # another zone's subnet may have some
    "ReservationCapacityExceeded": CAPACITY,
    "SpotMaxPriceTooLow": CAPACITY,
    "UnfulfillableCapacity": CAPACITY,
    "Unsupported": CAPACITY,  # not offered in this zone; another zone or type may
    "MaxFleetCountExceeded": QUOTA,
    "MaxSpotInstanceCountExceeded": QUOTA,
    "ResourceCountExceeded": QUOTA,
    "VcpuLimitExceeded": QUOTA,
    "VolumeIOPSLimit": QUOTA,
    "AuthFailure": PERMISSION,
    "Blocked": PERMISSION,
    "OptInRequired": PERMISSION,
    "PendingVerification": PERMISSION,
    "FleetNotInModifiableState": INVALID,
    "TagLimitExceeded": INVALID,
    "VPCIdNotSpecified": INVALID,
    "VPCResourceNotSpecified": INVALID,
    "ValidationError": INVALID,
}
_BEGINNINGS = {
    "Insufficient": CAPACITY,
    "AuthFailure.": PERMISSION,
    "Invalid": INVALID,
    "Malformed": INVALID,
    "Missing": INVALID,
    "Unknown": INVALID,
    "Unsupported": INVALID,
}
_ENDINGS = {
    "LimitExceeded": QUOTA,
    "CountExceeded": QUOTA,
    "QuotaExceeded": QUOTA,
}
# The credentials are at fault, not the launch: with others the same request may work.
_NOT_THE_LAUNCH = frozenset({"InvalidClientTokenId", "InvalidSecurity", "MissingAuthenticationToken"})
# EC2 failed to say. The same request sent again may be answered.
_UNSURE = THROTTLES | {
    "InternalError",
    "InternalFailure",
    "RequestTimeout",
    "ServiceUnavailable",
    "Unavailable",
}

_SPOT_ROLE_REMEDY = (
    "Make the account's Spot role once: aws iam create-service-linked-role --aws-service-name spot.amazonaws.com"
)
_REMEDIES = {
    "Unsupported": "The zone may not offer the type, or the AMI not fit it: take the type or the zone out of the pool",
    "MaxFleetCountExceeded": "Delete EC2 Fleets that are not needed, or ask AWS for a higher quota of fleets",
    "MaxSpotInstanceCountExceeded": "Ask AWS for a higher quota of Spot vCPUs, or lower limits.max or spot_percent",
    "VcpuLimitExceeded": "Ask AWS for a higher quota of On-Demand vCPUs, or lower limits.max",
    "Blocked": "AWS has blocked the account: look at its messages from AWS",
    "OptInRequired": "The account has not signed up for EC2: finish that in the AWS console",
    "PendingVerification": "AWS still verifies the account: wait for its mail, or ask AWS Support",
    "AuthFailure": "Check the credentials, and that the account may use the template's AMI",
    NO_SPOT_ROLE: _SPOT_ROLE_REMEDY,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetError:
    """EC2's own words for one thing that it did not do."""

    code: str
    message: str = ""
    type: str = ""  # empty: for the whole request


def refusal_kind(code: str) -> RefusalKind | None:
    """Why EC2 refuses for good; none if the code does not tell."""
    if code in _KINDS:
        return _KINDS[code]
    if code in _UNSURE or code in _NOT_THE_LAUNCH:
        return None
    if code in DENIALS:
        return PERMISSION
    for beginning, kind in _BEGINNINGS.items():
        if code.startswith(beginning):
            return kind
    return next((kind for ending, kind in _ENDINGS.items() if code.endswith(ending)), None)


def is_unsure(said: FleetError) -> bool:
    """EC2 could not tell at that moment: it was asked too often, or failed itself."""
    return said.code in _UNSURE


def launch_refusal(type_: str, said: FleetError, launch: Launch) -> Refusal:
    kind = refusal_kind(said.code) or CAPACITY
    return Refusal(type=type_, kind=kind, code=said.code, remedy=_remedy(said, kind, launch))


def _remedy(said: FleetError, kind: RefusalKind, launch: Launch) -> str:
    """What an operator can do; empty where the general advice for the kind is as good."""
    match said.code:
        case "InsufficientFreeAddressesInSubnet":
            return f"{launch.subnet} has no free addresses: give {launch.zone} a larger subnet"
        case "SpotMaxPriceTooLow" if launch.market is Market.SPOT and launch.max_price_usd is not None:
            return f"Spot costs more than market.max_price_usd ({launch.max_price_usd:g}) there: raise it, or wait"
        case code if code in _REMEDIES:
            return _REMEDIES[code]
        case code if code in DENIALS:
            return f"Allow {action('EC2', said.message, 'CreateFleet')} to the autoscaler's role"
        case code if kind is INVALID:
            return f"EC2 says: {_sentence(said.message)}. Look at the launch template, its subnet and the pool's types"
        case code if refusal_kind(code) is None and said.message:
            return f"EC2 says: {_sentence(said.message)}"
        case _:
            return ""


def _sentence(message: str) -> str:
    return message.rstrip(". ") or "nothing more"


# ── request and result ───────────────────────────────────────────────────────────────────────────────────────────────


# What an instant fleet makes: itself, instances, and their volumes, which cost money of their own.
TAGGED = ("fleet", "instance", "volume")

# A type with several refusals tells the one that most needs an operator.
_GRAVITY = (RefusalKind.PERMISSION, RefusalKind.INVALID, RefusalKind.QUOTA, RefusalKind.CAPACITY)


def fleet_request(launch: Launch, cluster: str) -> dict[str, Any]:
    """CreateFleet's parameters: the same for the same launch, whatever has become of it meanwhile."""
    template = {"LaunchTemplateId": launch.template, "Version": launch.template_version}
    return {
        "Type": "instant",
        "ClientToken": launch.token,
        "LaunchTemplateConfigs": [{"LaunchTemplateSpecification": template, "Overrides": _overrides(launch)}],
        "TargetCapacitySpecification": {
            "TotalTargetCapacity": launch.count,
            "DefaultTargetCapacityType": launch.market.value,
        },
        **_market_options(launch.market),
        "TagSpecifications": [{"ResourceType": kind, "Tags": _tags(launch, cluster)} for kind in TAGGED],
    }


def launch_result(launch: Launch, response: Mapping[str, Any]) -> LaunchResult:
    """What EC2 gave and what it refused. An error if it could not tell and gave nothing."""
    given = response.get("Instances") or []
    instances = tuple(dict.fromkeys(identity for group in given for identity in group.get("InstanceIds") or []))
    said = [_fleet_error(error) for error in response.get("Errors") or []]
    unsure = next((one for one in said if is_unsure(one)), None)
    if unsure and not instances:
        raise from_code("EC2", unsure.code, unsure.message, "CreateFleet")
    return LaunchResult(instances=instances, refusals=_refusals(launch, [one for one in said if not is_unsure(one)]))


def refused_launch(launch: Launch, code: str, message: str) -> LaunchResult | None:
    """The answer that an error to the whole call stands for, if it is one: then EC2 launched nothing, for certain."""
    if code == "IdempotentParameterMismatch":
        # An earlier request with this token was taken, and was another one: what it launched shows by its tag.
        raise UnavailableError("EC2", f"CreateFleet: {code}: this launch was sent before with other parameters")
    if refusal_kind(code) is None:
        return None
    return LaunchResult(refusals=_refusals(launch, [FleetError(code=code, message=message)]))


def _overrides(launch: Launch) -> list[dict[str, str]]:
    price = {}
    if launch.market is Market.SPOT and launch.max_price_usd is not None:
        price = {"MaxPrice": f"{Decimal(repr(launch.max_price_usd)):f}"}
    return [{"InstanceType": name, "SubnetId": launch.subnet, **price} for name in dict.fromkeys(launch.types)]


def _market_options(market: Market) -> dict[str, Any]:
    """An instant fleet's Spot requests are one-time by themselves."""
    match market:
        case Market.SPOT:
            options = {"AllocationStrategy": "price-capacity-optimized", "InstanceInterruptionBehavior": "terminate"}
            return {"SpotOptions": options}
        case Market.ON_DEMAND:
            return {"OnDemandOptions": {"AllocationStrategy": "lowest-price"}}
        case _:
            assert_never(market)


def _tags(launch: Launch, cluster: str) -> list[dict[str, str]]:
    tags = {
        TAG_CLUSTER: cluster,
        TAG_POOL: launch.pool,
        TAG_ROLE: ROLE_WORKER,
        TAG_OPERATION: launch.id,
        TAG_CAPACITY: launch.market.value,
        "Project": "node-fleet",
        "ManagedBy": "node-fleet",
        "Name": f"{cluster}-{launch.pool}",
    }
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def _fleet_error(error: Mapping[str, Any]) -> FleetError:
    overrides = (error.get("LaunchTemplateAndOverrides") or {}).get("Overrides") or {}
    return FleetError(
        code=str(error.get("ErrorCode") or ""),
        message=str(error.get("ErrorMessage") or ""),
        type=str(overrides.get("InstanceType") or ""),
    )


def _refusals(launch: Launch, said: Iterable[FleetError]) -> tuple[Refusal, ...]:
    """At most one for each type, in the launch's order. What is said of no known type is said of all."""
    types = tuple(dict.fromkeys(launch.types))
    found: dict[str, Refusal] = {}
    for one in said:
        for name in (one.type,) if one.type in types else types:
            new = launch_refusal(name, one, launch)
            if name not in found or _GRAVITY.index(new.kind) < _GRAVITY.index(found[name].kind):
                found[name] = new
    return tuple(found[name] for name in types if name in found)

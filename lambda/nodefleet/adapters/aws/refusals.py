"""Why EC2 did not give a machine, sorted by who can do something about it.

EC2 has hundreds of codes and makes new ones, so families are told by their names where the name is clear. A code that
nobody knows counts as lacking capacity when EC2 gives it for one type: that is remembered for minutes and tried again
by itself, while "invalid" would send people to mend a template that may be right. Its words are passed on to them.
"""

from dataclasses import dataclass

from nodefleet.adapters.aws.failures import DENIALS, THROTTLES, action
from nodefleet.domain.machines import Market
from nodefleet.domain.operations import Launch, Refusal, RefusalKind

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
class Said:
    """EC2's own words for one thing that it did not do."""

    code: str
    message: str = ""
    type: str = ""  # empty: for the whole request


def kind_of(code: str) -> RefusalKind | None:
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


def is_unsure(said: Said) -> bool:
    """EC2 could not tell at that moment: it was asked too often, or failed itself."""
    return said.code in _UNSURE


def refusal(type_: str, said: Said, launch: Launch) -> Refusal:
    kind = kind_of(said.code) or CAPACITY
    return Refusal(type=type_, kind=kind, code=said.code, remedy=_remedy(said, kind, launch))


def _remedy(said: Said, kind: RefusalKind, launch: Launch) -> str:
    """What a person can do; empty where the general advice for the kind is as good."""
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
        case code if kind_of(code) is None and said.message:
            return f"EC2 says: {_sentence(said.message)}"
        case _:
            return ""


def _sentence(message: str) -> str:
    return message.rstrip(". ") or "nothing more"

"""How the functions reach AWS from subnets without a NAT gateway, which would cost more than all functions together.

    gateway      DynamoDB and S3: an entry in the route table, free
    dual-stack   the service has an address with IPv6, and the egress-only gateway is free
    interface    neither: an endpoint of our own, by the hour and zone; only where a region lacks the second way

Which regions have dual-stack addresses changes. The table is what botocore's endpoint data say; a test compares the
two, so an update of botocore shows what was added.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from nodefleet.model.names import pluralize
from nodefleet.policy.cluster import Policy
from nodefleet.policy.sources import CloudWatch, Sqs

AS_OF = "November 2026, botocore 1.44"
INTERFACE_USD_PER_HOUR = 0.013  # for each zone; 0.010 in us-east-1, 0.013 in ap-southeast-1, data extra
HOURS_A_MONTH = 730

_SINCE_EARLY = frozenset(
    {
        *("af-south-1", "ap-east-1", "ap-northeast-1", "ap-northeast-2", "ap-south-1", "ap-southeast-1"),
        *("ap-southeast-2", "ca-central-1", "eu-central-1", "eu-north-1", "eu-south-1", "eu-west-1", "eu-west-2"),
        *("eu-west-3", "me-south-1", "sa-east-1", "us-east-1", "us-east-2", "us-west-1", "us-west-2"),
    }
)
_NEARLY_ALL = _SINCE_EARLY | {
    *("ap-northeast-3", "ap-south-2", "ap-southeast-3", "ap-southeast-4", "ap-southeast-5", "ap-southeast-7"),
    *("ca-west-1", "eu-central-2", "eu-south-2", "il-central-1", "me-central-1", "mx-central-1"),
}

# By botocore's name of the service, as NODEFLEET_DUALSTACK has it.
DUALSTACK_REGIONS = {
    "ec2": _SINCE_EARLY,
    "secretsmanager": _NEARLY_ALL,
    "sqs": _NEARLY_ALL,
}
_ORDINARY_NAME = frozenset({"sqs"})  # its everyday address answers by IPv6 too: nothing to switch on
_ENDPOINT_NAMES = {"cloudwatch": "monitoring"}  # where an endpoint's name is not botocore's


class Way(Enum):
    GATEWAY = "gateway"
    DUALSTACK = "dual-stack"
    INTERFACE = "interface"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    service: str
    way: Way

    @property
    def endpoint(self) -> str:
        """The last part of the endpoint service's name: com.amazonaws.<region>.<this>."""
        return _ENDPOINT_NAMES.get(self.service, self.service)


def services_of(policies: Iterable[Policy]) -> tuple[str, ...]:
    """What the functions in the VPC call: always the same four, and what a policy's own readings come from."""
    sources = [source for policy in policies for pool in policy.pools for source in pool.readings.values()]
    own = {"sqs": Sqs, "cloudwatch": CloudWatch}
    read = [service for service, kind in own.items() if any(isinstance(source, kind) for source in sources)]
    return ("dynamodb", "s3", "ec2", "secretsmanager", *read)


def routes(services: Sequence[str], region: str) -> tuple[Route, ...]:
    return tuple(Route(service=service, way=_way(service, region)) for service in services)


def _way(service: str, region: str) -> Way:
    if service in ("dynamodb", "s3"):
        return Way.GATEWAY
    return Way.DUALSTACK if region in DUALSTACK_REGIONS.get(service, ()) else Way.INTERFACE


def dualstack(chosen: Sequence[Route]) -> tuple[str, ...]:
    """The services whose dual-stack address the functions must use."""
    return tuple(
        route.service for route in chosen if route.way is Way.DUALSTACK and route.service not in _ORDINARY_NAME
    )


def price(zones: int) -> float:
    """USD a month of one interface endpoint, in so many zones."""
    return INTERFACE_USD_PER_HOUR * HOURS_A_MONTH * zones


def told(route: Route, region: str, zones: int) -> str:
    return (
        f"{route.service} has no dual-stack address in {region} (as of {AS_OF}): an interface endpoint is made for it,"
        f" about {price(zones):.0f} USD a month in {pluralize(zones, 'zone', 'zones')}"
    )

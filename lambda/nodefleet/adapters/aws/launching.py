"""A frozen launch as a CreateFleet request, and EC2's answer as the loop's.

The request is made of nothing but the launch's own frozen fields and the cluster's name: EC2 knows a request that is
sent again by its token, and refuses the token if so much as a tag differs.
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, assert_never

from nodefleet.adapters.aws.failures import from_code
from nodefleet.adapters.aws.refusals import Said, is_unsure, kind_of, refusal
from nodefleet.domain.machines import Market
from nodefleet.domain.names import ROLE_WORKER, TAG_CAPACITY, TAG_CLUSTER, TAG_OPERATION, TAG_POOL, TAG_ROLE
from nodefleet.domain.operations import Launch, Refusal, RefusalKind
from nodefleet.errors import UnavailableError
from nodefleet.ports import Answer

# What an instant fleet makes: itself, instances, and their volumes, which cost money of their own.
TAGGED = ("fleet", "instance", "volume")

# A type with several refusals tells the one that most needs a person.
_GRAVITY = (RefusalKind.PERMISSION, RefusalKind.INVALID, RefusalKind.QUOTA, RefusalKind.CAPACITY)


def request(launch: Launch, cluster: str) -> dict[str, Any]:
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
        **_market(launch.market),
        "TagSpecifications": [{"ResourceType": kind, "Tags": _tags(launch, cluster)} for kind in TAGGED],
    }


def answer(launch: Launch, response: Mapping[str, Any]) -> Answer:
    """What EC2 gave and what it refused. An error if it could not tell and gave nothing."""
    given = response.get("Instances") or []
    instances = tuple(dict.fromkeys(identity for group in given for identity in group.get("InstanceIds") or []))
    said = [_said(error) for error in response.get("Errors") or []]
    unsure = next((one for one in said if is_unsure(one)), None)
    if unsure and not instances:
        raise from_code("EC2", unsure.code, unsure.message, "CreateFleet")
    return Answer(instances=instances, refusals=_refusals(launch, [one for one in said if not is_unsure(one)]))


def refused(launch: Launch, code: str, message: str) -> Answer | None:
    """The answer that an error to the whole call stands for, if it is one: then EC2 launched nothing, for certain."""
    if code == "IdempotentParameterMismatch":
        # An earlier request with this token was taken, and was another one: what it launched shows by its tag.
        raise UnavailableError("EC2", f"CreateFleet: {code}: this launch was sent before with other parameters")
    if kind_of(code) is None:
        return None
    return Answer(refusals=_refusals(launch, [Said(code=code, message=message)]))


def _overrides(launch: Launch) -> list[dict[str, str]]:
    price = {}
    if launch.market is Market.SPOT and launch.max_price_usd is not None:
        price = {"MaxPrice": format(Decimal(repr(launch.max_price_usd)), "f")}
    return [{"InstanceType": name, "SubnetId": launch.subnet, **price} for name in dict.fromkeys(launch.types)]


def _market(market: Market) -> dict[str, Any]:
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


def _said(error: Mapping[str, Any]) -> Said:
    overrides = (error.get("LaunchTemplateAndOverrides") or {}).get("Overrides") or {}
    return Said(
        code=str(error.get("ErrorCode") or ""),
        message=str(error.get("ErrorMessage") or ""),
        type=str(overrides.get("InstanceType") or ""),
    )


def _refusals(launch: Launch, said: Iterable[Said]) -> tuple[Refusal, ...]:
    """At most one for each type, in the launch's order. What is said of no known type is said of all."""
    types = tuple(dict.fromkeys(launch.types))
    found: dict[str, Refusal] = {}
    for one in said:
        for name in (one.type,) if one.type in types else types:
            new = refusal(name, one, launch)
            if name not in found or _GRAVITY.index(new.kind) < _GRAVITY.index(found[name].kind):
                found[name] = new
    return tuple(found[name] for name in types if name in found)

"""EC2: whether the templates, subnets and instance types that we would launch with exist where we want them."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from botocore.exceptions import ClientError  # type: ignore[import-untyped]

from nodefleet.adapters.aws.errors import calling, code_of, said_in
from nodefleet.model.names import pluralize, some
from nodefleet.model.snapshot import LaunchTarget
from nodefleet.policy.pool import Pool
from nodefleet_tools.doctor.context import DoctorContext
from nodefleet_tools.doctor.findings import Finding, fine, hint, wrong
from nodefleet_tools.doctor.targets import targets

_FEW_ADDRESSES = 16
_PRICES_OF = timedelta(days=7)


def templates(ctx: DoctorContext) -> Iterator[Finding]:
    client = ctx.client("ec2")
    for pool, target in targets(ctx):
        yield _template(client, pool, target)


def _template(client: Any, pool: Pool, target: LaunchTarget) -> Finding:
    name = f"{target.template} version {target.template_version}"
    with calling("EC2"):
        try:
            answer = client.describe_launch_template_versions(
                LaunchTemplateId=target.template, Versions=[target.template_version]
            )
        except ClientError as problem:
            if not code_of(problem).startswith("InvalidLaunchTemplate"):
                raise
            return wrong(f"pool {pool.name}: {said_in(problem).rstrip('.')}", "Deploy the stack again")
    if not answer.get("LaunchTemplateVersions"):
        return wrong(f"pool {pool.name}: there is no {name}", "Deploy the stack again")
    return fine(f"pool {pool.name}: {name} exists")


def subnets(ctx: DoctorContext) -> Iterator[Finding]:
    client = ctx.client("ec2")
    for pool, target in targets(ctx):
        with calling("EC2"):
            try:
                answer = client.describe_subnets(SubnetIds=sorted(target.subnets.values()))
            except ClientError as problem:
                if not code_of(problem).startswith("InvalidSubnetID"):
                    raise
                yield wrong(f"pool {pool.name}: {said_in(problem).rstrip('.')}", "Deploy the stack again")
                continue
        yield from _placed(pool, target, {each["SubnetId"]: each for each in answer["Subnets"]})


def _placed(pool: Pool, target: LaunchTarget, found: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    elsewhere = [
        f"{subnet} is in {found[subnet]['AvailabilityZone']}, not in {zone}"
        for zone, subnet in target.subnets.items()
        if found[subnet]["AvailabilityZone"] != zone
    ]
    if elsewhere:
        yield wrong(f"pool {pool.name}: {some(elsewhere, '; ')}", "Deploy the stack again")
        return
    free = {zone: int(found[subnet]["AvailableIpAddressCount"]) for zone, subnet in target.subnets.items()}
    short = [f"{number} in {zone}" for zone, number in free.items() if number < min(_FEW_ADDRESSES, pool.limits.max)]
    if short:
        fix = "Free addresses, or give the pool a larger subnet"
        yield hint(f"pool {pool.name}: few free addresses: {some(short)}", fix)
    else:
        zones = pluralize(len(free), "zone", "zones")
        yield fine(f"pool {pool.name}: {zones}, {sum(free.values()):,} free addresses")


def offers(ctx: DoctorContext) -> Iterator[Finding]:
    client = ctx.client("ec2")
    for pool, target in targets(ctx):
        offered = _offered(client, pool)
        nowhere = [name for name in pool.market.types if not any(name in held for held in offered.values())]
        empty = [zone for zone in target.subnets if not offered.get(zone)]
        partly = [
            f"{name} in {zone}"
            for zone in target.subnets
            for name in pool.market.types
            if name not in nowhere and zone not in empty and name not in offered[zone]
        ]
        if empty:
            fix = "Add a type that these zones have, or take their subnets out of the stack"
            yield wrong(f"pool {pool.name}: none of its types is offered in {some(empty)}", fix)
        if nowhere:
            yield hint(f"pool {pool.name}: this region does not have {some(nowhere)}", "Take them out of the policy")
        if partly:
            yield hint(f"pool {pool.name}: not offered: {some(partly)}", "The other types have to do there")
        if not (empty or nowhere or partly):
            yield fine(f"pool {pool.name}: {some(pool.market.types)} in {some(target.subnets)}")


def spot_prices(ctx: DoctorContext) -> Iterator[Finding]:
    """A type that cost more than the cap all week is not bought as Spot: EC2 refuses, and another type has to do."""
    client, now = ctx.client("ec2"), ctx.parts.now()
    for pool, _ in targets(ctx):
        market = pool.market
        if not market.spot_percent:
            continue
        lowest = _lowest_spot(client, pool, now)
        costly = [f"{name} ({lowest[name]:.3g})" for name in market.types if lowest.get(name, 0) > market.max_price_usd]
        said = f"pool {pool.name}: above market.max_price_usd ({market.max_price_usd:g} USD/h) all week: {some(costly)}"
        if costly and len(costly) == len(lowest):
            yield wrong(f"{said}: no Spot node can be bought", "Raise it, name cheaper types, or set spot_percent: 0")
        elif costly:
            yield hint(said, "Raise it, or take these types out of the policy")
        elif lowest:
            yield fine(f"pool {pool.name}: {pluralize(len(lowest), 'type', 'types')} below the cap")
        else:
            yield hint(f"pool {pool.name}: Spot prices of its types are not known")


def _lowest_spot(client: Any, pool: Pool, now: datetime) -> Mapping[str, float]:
    """The lowest price in any zone of the last week, by type."""
    found: dict[str, float] = {}
    with calling("EC2"):
        pages = client.get_paginator("describe_spot_price_history").paginate(
            InstanceTypes=list(pool.market.types), ProductDescriptions=["Linux/UNIX"], StartTime=now - _PRICES_OF
        )
        for page in pages:
            for entry in page.get("SpotPriceHistory") or []:
                name, price = entry["InstanceType"], float(entry["SpotPrice"])
                found[name] = min(price, found.get(name, price))
    return found


def _offered(client: Any, pool: Pool) -> Mapping[str, set[str]]:
    """Types by zone."""
    found: dict[str, set[str]] = {}
    with calling("EC2"):
        pages = client.get_paginator("describe_instance_type_offerings").paginate(
            LocationType="availability-zone",
            Filters=[{"Name": "instance-type", "Values": list(pool.market.types)}],
        )
        for page in pages:
            for offer in page.get("InstanceTypeOfferings") or []:
                found.setdefault(offer["Location"], set()).add(offer["InstanceType"])
    return found

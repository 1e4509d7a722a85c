"""EC2: whether we may do what growing and shrinking need, and whether what we would ask for exists.

EC2 answers a dry run with whether the call would be allowed, and does nothing. That says nothing of capacity, and a
instance is needed to ask whether it may be terminated.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from botocore.exceptions import ClientError  # type: ignore[import-untyped]

from nodefleet.adapters.aws import create_fleet
from nodefleet.adapters.aws.errors import calling, code_of
from nodefleet.errors import DeniedError, NodeFleetError, UnavailableError
from nodefleet.model.inventory import Instance, InstanceState, Market
from nodefleet.model.names import STATUS_JOIN_FAILED, TAG_CLUSTER, TAG_STATUS, pluralize
from nodefleet.model.operations import Launch
from nodefleet.model.snapshot import LaunchTarget
from nodefleet.policy.pool import Pool
from nodefleet_tools.doctor.context import DoctorContext
from nodefleet_tools.doctor.findings import Finding, fine, hint, wrong
from nodefleet_tools.doctor.targets import targets

_WOULD_WORK = "DryRunOperation"
_LIVING = (InstanceState.PENDING, InstanceState.RUNNING)
_TAGGED = ("instance", "volume")


def instances(ctx: DoctorContext) -> Iterator[Finding]:
    found = ctx.instances.found()
    living = [machine for machine in found if machine.state in _LIVING]
    workers = sum(machine.worker for machine in living)
    servers = len(living) - workers
    said = f"{pluralize(workers, 'worker', 'workers')} and {pluralize(servers, 'other instance', 'other instances')}"
    if not living:
        fix = f"Tag the control plane {TAG_CLUSTER}={ctx.parts.cluster}, or check the cluster's name and the region"
        yield hint(f"no running instance carries {TAG_CLUSTER}={ctx.parts.cluster}", fix)
    else:
        yield fine(f"{said} run with {TAG_CLUSTER}={ctx.parts.cluster}")


# ── what we may do ───────────────────────────────────────────────────────────────────────────────────────────────


def launches(ctx: DoctorContext) -> Iterator[Finding]:
    client = ctx.client("ec2")
    for pool, target in targets(ctx):
        asked = {market: _request(pool, target, market, ctx) for market in _markets(pool)}
        for market, request in asked.items():
            yield _tried(f"launching {market.value} workers of pool {pool.name}", client.create_fleet, request)
        run = _run(asked[Market.ON_DEMAND])
        yield _tried(f"running pool {pool.name}'s template, which that includes,", client.run_instances, run)


def removals(ctx: DoctorContext) -> Iterator[Finding]:
    client, found = ctx.client("ec2"), ctx.instances.needed()
    worker = next((machine for machine in found if machine.worker and machine.state in _LIVING), None)
    if worker is None:
        yield hint("whether workers may be terminated and tagged is not known: there is none to ask it of")
    else:
        yield _tried(f"terminating {worker.id}", client.terminate_instances, {"InstanceIds": [worker.id]})
        tag = {"Key": TAG_STATUS, "Value": STATUS_JOIN_FAILED}
        yield _tried(f"tagging {worker.id}", client.create_tags, {"Resources": [worker.id], "Tags": [tag]})
    server = next((machine for machine in found if not machine.worker and machine.state in _LIVING), None)
    if server and not _is_denied(client, server):
        yield hint(
            f"these credentials may terminate {server.id}, which is no worker",
            "Fine for an operator; the functions' role should not be allowed to",
        )


def _is_denied(client: Any, machine: Instance) -> bool:
    try:
        _dry(client.terminate_instances, {"InstanceIds": [machine.id]})
    except NodeFleetError:
        return True
    return False


def _tried(what: str, call: Callable[..., Any], request: Mapping[str, Any]) -> Finding:
    try:
        _dry(call, request)
    except DeniedError as problem:
        return wrong(f"{what} is not allowed: {problem.cause}", problem.remedy)
    except UnavailableError as problem:
        return wrong(f"{what} would fail: {problem.cause}", "Fix what EC2 names, or ask again")
    return fine(f"{what} would be allowed")


def _dry(call: Callable[..., Any], request: Mapping[str, Any]) -> None:
    with calling("EC2"):
        try:
            call(DryRun=True, **request)
        except ClientError as problem:
            if code_of(problem) != _WOULD_WORK:
                raise


def _request(pool: Pool, target: LaunchTarget, market: Market, ctx: DoctorContext) -> dict[str, Any]:
    """As the loop would ask for one node; the name makes EC2's token another one than any real launch's."""
    zone, subnet = next(iter(target.subnets.items()))
    now = ctx.parts.now()
    launch = Launch(
        id=f"doctor/{pool.name}/{market.value}",
        pool=pool.name,
        zone=zone,
        market=market,
        types=pool.market.types,
        count=1,
        template=target.template,
        template_version=target.template_version,
        subnet=subnet,
        max_price_usd=pool.market.max_price_usd if market is Market.SPOT else None,
        reason="doctor",
        started=now,
        deadline=now + timedelta(minutes=1),
    )
    return create_fleet.fleet_request(launch, ctx.parts.cluster)


def _run(fleet: Mapping[str, Any]) -> dict[str, Any]:
    """RunInstances with the same template, place and tags: an instant fleet needs the permission for that too."""
    config = fleet["LaunchTemplateConfigs"][0]
    override = config["Overrides"][0]
    return {
        "LaunchTemplate": config["LaunchTemplateSpecification"],
        "InstanceType": override["InstanceType"],
        "SubnetId": override["SubnetId"],
        "MinCount": 1,
        "MaxCount": 1,
        "TagSpecifications": [each for each in fleet["TagSpecifications"] if each["ResourceType"] in _TAGGED],
    }


def _markets(pool: Pool) -> Sequence[Market]:
    return (Market.SPOT, Market.ON_DEMAND) if pool.market.spot_percent else (Market.ON_DEMAND,)

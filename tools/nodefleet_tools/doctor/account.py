"""The AWS account: who we are to it, whether its clock is ours, and what it lets us have."""

from collections.abc import Iterator, Mapping

from botocore.exceptions import ClientError  # type: ignore[import-untyped]

from nodefleet.adapters.aws.errors import calling, code_of
from nodefleet.policy.cluster import Policy
from nodefleet_tools.doctor.clock import compared
from nodefleet_tools.doctor.context import DoctorContext
from nodefleet_tools.doctor.findings import Finding, fine, hint, wrong

SPOT_ROLE = "AWSServiceRoleForEC2Spot"
_MAKE_SPOT_ROLE = "Make it once: aws iam create-service-linked-role --aws-service-name spot.amazonaws.com"

# AWS's own codes for the quotas of vCPUs, and the families that they are about.
_QUOTAS = {"L-1216C47A": "On-Demand", "L-34B43A08": "Spot"}
_STANDARD = frozenset("acdhimrtz")
_MILLICORES = 1000


def credentials(ctx: DoctorContext) -> Iterator[Finding]:
    with calling("STS"):
        client = ctx.client("sts")
        who = client.get_caller_identity()
    yield fine(f"{who['Arn']} in account {who['Account']}, region {client.meta.region_name}")


def clock(ctx: DoctorContext) -> Iterator[Finding]:
    with calling("STS"):
        ctx.client("sts").get_caller_identity()
    skew = ctx.parts.session.skew()
    if skew is None:
        yield hint("AWS's answer says no time, so our clock cannot be compared with it")
    else:
        yield compared("AWS", skew, ctx.policy.or_else(Policy()).trust.clock_skew)


def spot_role(ctx: DoctorContext) -> Iterator[Finding]:
    policy = ctx.policy.needed()
    if not any(pool.market.spot_percent for pool in policy.pools):
        yield fine("not needed: the policy buys no Spot")
        return
    with calling("IAM"):
        try:
            ctx.client("iam").get_role(RoleName=SPOT_ROLE)
        except ClientError as problem:
            if code_of(problem) != "NoSuchEntity":
                raise
            yield wrong(f"the account has no role {SPOT_ROLE}, so EC2 refuses every Spot request", _MAKE_SPOT_ROLE)
            return
    yield fine(f"{SPOT_ROLE} exists")


def quotas(ctx: DoctorContext) -> Iterator[Finding]:
    """Enough vCPUs for max, whichever market they come from: what Spot does not give is bought On-Demand."""
    policy = ctx.policy.needed()
    most = _most_cores(ctx, policy)
    if not most:
        yield hint("not checked: the policy's instance types have quotas of their own")
        return
    allowed = dict(_allowed(ctx))
    short = {market: cores for market, cores in allowed.items() if cores < most and _is_bought(market, policy)}
    said = ", ".join(f"{cores:g} {market}" for market, cores in allowed.items())
    if short:
        which = " and ".join(short)
        fix = f"Ask AWS for a higher quota of {which} vCPUs, or lower limits.max"
        yield hint(f"the account may run {said} vCPUs, and max may need {most:g}", fix)
    else:
        yield fine(f"the account may run {said} vCPUs, and max needs {most:g} at most")


def _most_cores(ctx: DoctorContext, policy: Policy) -> float:
    names = sorted({name for pool in policy.pools for name in pool.market.types})
    offers = ctx.parts.cloud().catalog(names)
    cores: Mapping[str, float] = {
        offer.name: offer.resources.cpu / _MILLICORES for offer in offers if offer.name[:1] in _STANDARD
    }
    return sum(
        pool.limits.max * max((cores[name] for name in pool.market.types if name in cores), default=0.0)
        for pool in policy.pools
    )


def _allowed(ctx: DoctorContext) -> Iterator[tuple[str, float]]:
    client = ctx.client("service-quotas")
    for code, market in _QUOTAS.items():
        with calling("Service Quotas"):
            answer = client.get_service_quota(ServiceCode="ec2", QuotaCode=code)
        yield market, float(answer["Quota"]["Value"])


def _is_bought(market: str, policy: Policy) -> bool:
    return market == "On-Demand" or any(pool.market.spot_percent for pool in policy.pools)

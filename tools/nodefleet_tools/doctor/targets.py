"""What the pools are launched with."""

from collections.abc import Iterator

from nodefleet.model.snapshot import LaunchTarget
from nodefleet.policy.pool import Pool
from nodefleet_tools.doctor.context import DoctorContext


def targets(ctx: DoctorContext) -> Iterator[tuple[Pool, LaunchTarget]]:
    """Of the pools that can be launched at all. What the others lack is said of the deployment."""
    policy, deployment = ctx.policy.needed(), ctx.deployment()
    for target in deployment.targets:
        pool = policy.pool(target.pool)
        if pool and target.template and target.subnets:
            yield pool, target

"""Which checks there are, in the order in which an operator would fix things: what comes later needs what is before."""

from collections.abc import Callable, Iterator
from functools import partial

from nodefleet_tools.doctor import (
    account,
    api_server,
    bucket,
    clock,
    configuration,
    ec2_permissions,
    messages,
    nodes,
    readings,
    storage,
    supply,
    system_pods,
    versions,
)
from nodefleet_tools.doctor.context import DoctorContext
from nodefleet_tools.doctor.findings import Check, Finding


def checks(ctx: DoctorContext) -> tuple[Check, ...]:
    def check(name: str, look: Callable[[DoctorContext], Iterator[Finding]], *, needed: bool = True) -> Check:
        return Check(name=name, look=partial(look, ctx), needed=needed)

    return (
        Check(name="Versions", look=versions.versions),
        check("AWS credentials", account.credentials),
        check("Clock, AWS", account.clock),
        check("Table", storage.table, needed=False),
        check("Table's upkeep", storage.upkeep, needed=False),
        check("Lease", storage.lease),
        check("Runs", storage.runs),
        check("Bucket", bucket.bucket),
        check("Policy", configuration.policy),
        check("Deployment", configuration.deployment),
        check("EC2 instances", ec2_permissions.instances),
        check("EC2 launches", ec2_permissions.launches),
        check("EC2 removals", ec2_permissions.removals),
        check("Launch templates", supply.templates, needed=False),
        check("Subnets", supply.subnets, needed=False),
        check("Instance types", supply.offers, needed=False),
        check("Spot prices", supply.spot_prices, needed=False),
        check("Spot role", account.spot_role, needed=False),
        check("Quotas", account.quotas, needed=False),
        check("Kubernetes", api_server.version),
        check("Clock, Kubernetes", clock.api_server),
        check("Kubernetes role", api_server.role),
        check("Nodes", nodes.nodes),
        check("System pods", system_pods.system_pods),
        check("Prometheus", readings.prometheus),
        check("Readings", readings.readings),
        check("Worker counts", readings.counts),
        check("Slack", messages.slack),
    )

"""The two records that the stack writes into its table for each cluster, in the code's own form.

They are JSON of a TableItem, so that `pulumi preview` shows what would change.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime

from nodefleet.adapters.dynamodb.records import declared_item, deployment_item
from nodefleet.model.decision import STACK, PolicyVersion
from nodefleet.model.snapshot import Deployment, LaunchTarget
from nodefleet.policy.loading import digest_of
from nodefleet_infra.config import Cluster

# When the policy was declared is not what counts (the run that takes it up notes the time), and a clock here would make
# every preview differ from the last.
NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)


def declared(cluster: Cluster) -> str:
    data = cluster.policy_data
    version = PolicyVersion(number=0, source=STACK, at=NO_TIME, data=data, digest=digest_of(data))
    return json.dumps(declared_item(cluster.id, version), sort_keys=True)


def deployed(
    cluster: Cluster,
    *,
    api_server: str,
    api_secret: str,
    prometheus: str,
    templates: Mapping[str, tuple[str, str]],  # pool → id and version
    subnets: Mapping[str, str],  # zone → subnet
    prices: Mapping[str, float],
    own_usd: Mapping[str, float],
    reconcile: str,  # the function that an order of an operator starts
    dashboard: str,
    logs: str,
) -> str:
    disks = {pool.name: pool.disk_gb for pool in cluster.pools}
    targets = tuple(
        LaunchTarget(
            pool=pool,
            template=template,
            template_version=version,
            subnets=dict(subnets),
            disk_gb=disks.get(pool, 0),
        )
        for pool, (template, version) in templates.items()
    )
    deployment = Deployment(
        cluster=cluster.id,
        api_server=api_server,
        api_secret=api_secret,
        prometheus=prometheus,
        targets=targets,
        prices=dict(prices),
        own_usd=dict(own_usd),
        reconcile_function=reconcile,
        dashboard=dashboard,
        logs=logs,
    )
    return json.dumps(deployment_item(cluster.id, deployment), sort_keys=True)

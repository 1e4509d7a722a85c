"""The plain facts that statements are made of, as soon as AWS has said all of them."""

import json
from collections.abc import Mapping, Sequence
from urllib.parse import urlparse

import pulumi

from nodefleet.policy.cluster import Policy
from nodefleet.policy.sources import CloudWatch, Sqs
from nodefleet_infra.autoscaler import QUEUE_OF, log_group
from nodefleet_infra.config import Cluster, FleetConfig
from nodefleet_infra.functions import FUNCTIONS
from nodefleet_infra.interfaces import (
    ClusterArns,
    Facts,
    FleetArns,
    NetworkFacts,
    Place,
    StateFacts,
    Text,
    WorkersFacts,
)
from nodefleet_infra.names import Names
from nodefleet_infra.sources import source_secrets


def facts_of(
    names: Names,
    place: Place,
    clusters: Sequence[Cluster],
    *,
    network: NetworkFacts,
    state: StateFacts,
    workers: Mapping[str, WorkersFacts],  # by cluster id
    queues: Mapping[str, Text],
    events: Text,  # the queue with what EC2 says
    launchable: Sequence[str] = (),  # instance types beside those of the policies
    fleet: FleetConfig | None = None,
    runs: Text | None = None,  # the queue that runs of a fleet go through
) -> pulumi.Output[Facts]:
    waiting = {
        "table": state.table_arn,
        "stream": state.stream_arn,
        "looks": state.looks.arn,
        "slack": state.slack.arn,
        "queues": dict(queues),
        "events": events,
        "runs": runs,
        "subnets": list(network.workers.values()),
        "clusters": {
            cluster.id: {
                "secret": state.secrets[cluster.id].api.arn,
                "role": workers[cluster.id].role_arn,
                "group": network.groups[cluster.id].workers,
                "templates": [template.arn for template in workers[cluster.id].templates.values()],
            }
            for cluster in clusters
        },
    }

    def ec2(kind: str, identity: str) -> str:
        return f"arn:{place.partition}:ec2:{place.region}:{place.account}:{kind}/{identity}"

    def made(text: str) -> Facts:
        said = json.loads(text)
        return Facts(
            place=place,
            table=said["table"],
            stream=said["stream"],
            looks=said["looks"],
            slack_secret=said["slack"],
            queues={function: said["queues"][queue] for function, queue in QUEUE_OF.items()},
            events=said["events"],
            log_groups={each.name: log_arn(place, names.of(each.name)) for each in FUNCTIONS},
            clusters=tuple(
                ClusterArns(
                    cluster=cluster.id,
                    api_secret=said["clusters"][cluster.id]["secret"],
                    templates=tuple(said["clusters"][cluster.id]["templates"]),
                    worker_role=said["clusters"][cluster.id]["role"],
                    subnets=tuple(ec2("subnet", subnet) for subnet in said["subnets"]),
                    groups=(ec2("security-group", said["clusters"][cluster.id]["group"]),),
                    types=tuple(dict.fromkeys([*(name for pool in cluster.pools for name in pool.types), *launchable])),
                    disk_gb=max(pool.disk_gb for pool in cluster.pools),
                    queues=queues_read(cluster.policy, place),
                    metrics=reads_metrics(cluster.policy),
                    source_secrets=source_secrets(cluster.policy, place, f"{names.secrets}/{cluster.id}"),
                    disk_key=cluster.disk_key,
                )
                for cluster in clusters
            ),
            fleet=_fleet_arns(fleet, names, place, clusters, said["runs"], launchable) if fleet else None,
        )

    return pulumi.Output.json_dumps(waiting).apply(made)


def _fleet_arns(
    fleet: FleetConfig,
    names: Names,
    place: Place,
    clusters: Sequence[Cluster],
    queue: str,
    launchable: Sequence[str],
) -> FleetArns:
    types = [name for cluster in clusters for pool in cluster.pools for name in pool.types]
    return FleetArns(
        name=names.base,
        prefix=names.cluster(""),
        secrets=names.secrets,
        queue=queue,
        regions=tuple(dict.fromkeys((place.region, *fleet.regions))),
        worker_roles=(names.of("*", "workers"), *fleet.worker_roles),
        types=tuple(dict.fromkeys([*types, *launchable])),
        disk_gb=max((fleet.disk_gb, *(pool.disk_gb for cluster in clusters for pool in cluster.pools))),
    )


def log_arn(place: Place, function: str) -> str:
    return f"arn:{place.partition}:logs:{place.region}:{place.account}:log-group:{log_group(function)}"


def queues_read(policy: Policy, place: Place) -> tuple[str, ...]:
    """ARNs of the queues that a policy reads: https://sqs.<region>.amazonaws.com/<account>/<queue>."""
    found = []
    for source in _sources(policy):
        if isinstance(source, Sqs):
            url = urlparse(source.queue_url)
            account, queue = url.path.strip("/").rsplit("/", 1)
            region = url.netloc.split(".")[1] if url.netloc.startswith("sqs.") else place.region
            found.append(f"arn:{place.partition}:sqs:{region}:{account}:{queue}")
    return tuple(dict.fromkeys(found))


def reads_metrics(policy: Policy) -> bool:
    return any(isinstance(source, CloudWatch) for source in _sources(policy))


def _sources(policy: Policy) -> list[object]:
    return [source for pool in policy.pools for source in pool.readings.values()]

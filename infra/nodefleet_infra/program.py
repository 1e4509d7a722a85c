"""How the parts fit together. What depends on what also decides what `destroy` does first: see teardown."""

from dataclasses import dataclass, replace

import pulumi

from nodefleet.model.names import TAG_FLEET
from nodefleet_infra import records
from nodefleet_infra.alarms import LEAN_METRICS, METRICS
from nodefleet_infra.arns import facts_of
from nodefleet_infra.artefacts import Artefacts
from nodefleet_infra.autoscaler import Autoscaler, AutoscalerNeeds
from nodefleet_infra.bill import own_usd
from nodefleet_infra.budget import Budget
from nodefleet_infra.config import Cluster, Stack
from nodefleet_infra.disk_keys import DiskKeys
from nodefleet_infra.fleet import FleetQueue, ForwardedEvents, listen, record
from nodefleet_infra.functions import INTERRUPTION, LIVE, NOTIFY, RECONCILE, REPORT, TICK, URGENT
from nodefleet_infra.ingress import Ingress, IngressNeeds
from nodefleet_infra.interfaces import (
    MasterFacts,
    MasterNeeds,
    NetworkFacts,
    Place,
    StateFacts,
    Text,
    WarningTopic,
    WorkersFacts,
    WorkersNeeds,
)
from nodefleet_infra.master import Master
from nodefleet_infra.messaging import UNDELIVERED, WAKE, Messaging
from nodefleet_infra.monitoring import Monitoring, dashboard_link, logs_link
from nodefleet_infra.names import Names
from nodefleet_infra.network import Network
from nodefleet_infra.schedules import EC2_EVENTS, Schedules, Starts
from nodefleet_infra.service_roles import SERVICES, ServiceRole
from nodefleet_infra.state import State
from nodefleet_infra.teardown import Sweep
from nodefleet_infra.workers import Workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One cluster's instances."""

    cluster: Cluster
    master: MasterFacts
    workers: WorkersFacts
    parts: tuple[pulumi.Resource, ...]


def declare(
    stack: Stack,
    place: Place,
    artefacts: Artefacts,
    *,
    webhook: pulumi.Output[str] | None = None,
) -> dict[str, pulumi.Input[object]]:
    """Declares everything and gives what an operator wants to know of it. Nothing of that is secret."""
    config, ids = stack.config, stack.cluster_ids()
    names = Names(project=stack.project, stack=stack.name, extra=config.tags)
    if config.autoscaler.fleet:  # by which its role knows the templates, subnets and groups that it may launch with
        names = replace(names, extra={**config.tags, TAG_FLEET: names.base})
    needed = LEAN_METRICS if config.autoscaler.lean else METRICS
    metrics = tuple(dict.fromkeys((*needed, *config.autoscaler.metrics)))
    linked = [
        ServiceRole(service.split(".")[0], service=service, region=place.region, account=place.account)
        for service in SERVICES
    ]
    if keys := [cluster.disk_key for cluster in stack.clusters if cluster.disk_key]:
        DiskKeys("disk-keys", place, keys, linked)
    network = Network("network", names, place, config.network, stack.clusters)
    state = State(
        "state", names, place, ids, production=config.production, lean=config.autoscaler.lean, webhook=webhook
    )
    if config.budget:
        Budget("budget", names, config.budget, config.messages.emails)
    messaging = Messaging("messaging", names, place, config.messages.emails, own_key=not config.autoscaler.lean)
    warnings = messaging.warnings if config.autoscaler.enabled else None
    sites = [
        _site(
            each,
            names,
            place,
            network.gives,
            state.gives,
            wake=messaging.topics[WAKE],
            warnings=warnings,
            production=config.production,
            lean=config.autoscaler.lean,
        )
        for each in stack.clusters
    ]
    fleet = config.autoscaler.fleet
    runs = FleetQueue("fleet", names) if fleet else None
    doors = {site.cluster.id: _way_in(site, names, network.gives, production=config.production) for site in sites}
    facts = facts_of(
        names,
        place,
        stack.clusters,
        network=network.gives,
        state=state.gives,
        workers={site.cluster.id: site.workers for site in sites},
        queues=messaging.queues,
        events=messaging.events,
        launchable=config.autoscaler.launchable_types,
        fleet=fleet,
        runs=runs.arn if runs else None,
    )
    autoscaler = Autoscaler(
        "autoscaler",
        AutoscalerNeeds(
            names=names,
            place=place,
            config=config.autoscaler,
            artefacts=artefacts,
            clusters=ids,
            metrics=metrics,
            slack=config.messages.slack,
            approvers=config.messages.approvers,
            network=network.gives,
            state=state.gives,
            facts=facts,
            topics=messaging.topics,
            queues=messaging.queues,
            runs=runs.url if runs else None,
        ),
    )
    sweeps: dict[str, pulumi.Resource] = {}
    for site in sites:
        cluster = site.cluster
        written = _records(state, site, network.gives, stack, names)
        sweeps[cluster.id] = Sweep(
            cluster.name,
            cluster=cluster.id,
            region=place.region,
            account=place.account,
            table=state.gives.table,
            opts=pulumi.ResourceOptions(
                depends_on=[network, state, autoscaler, *written, *site.parts], protect=config.production
            ),
        )
    schedules = Schedules(
        "schedules",
        names,
        place,
        stack.clusters,
        config.autoscaler,
        Starts(
            tick=autoscaler.aliases[RECONCILE.name, TICK],
            urgent=autoscaler.aliases[RECONCILE.name, URGENT],
            report=autoscaler.aliases[REPORT.name, LIVE],
            interruption=autoscaler.aliases[INTERRUPTION.name, URGENT],
            events=messaging.events,
            wake=messaging.topics[WAKE],
            undelivered=messaging.queues[UNDELIVERED],
            runs=runs.arn if runs else None,
            approvals=autoscaler.aliases[NOTIFY.name, LIVE] if config.messages.approvers else None,
        ),
        sweeps,
    )
    if fleet and runs:
        listen(names, fleet, runs, autoscaler.aliases[RECONCILE.name, TICK], enabled=config.autoscaler.enabled)
        record(state, names, runs, stack.clusters, config.autoscaler.schedule, place.region, schedules.role)
        for region in fleet.regions:
            ForwardedEvents(region, names, place, EC2_EVENTS)
    Monitoring(
        "monitoring",
        names,
        place,
        stack.clusters,
        config.autoscaler,
        metrics=metrics,
        topics=messaging.topics,
        logs=autoscaler.logs,
        masters={site.cluster.id: site.master.instance for site in sites},
    )
    return {
        "clusters": list(ids),
        "table": state.gives.table,
        "looks": state.gives.looks.name,
        "backups": state.gives.backups.name,
        "wakeTopic": messaging.topics[WAKE],
        "slackSecret": state.gives.slack.name,
        "functions": {name: function.name for name, function in autoscaler.functions.items()},
        "workerGroups": {cluster: groups.workers for cluster, groups in network.gives.groups.items()},
        "apiServers": {site.cluster.id: site.master.api_server for site in sites},
        "ingress": {cluster: door for cluster, door in doors.items() if door is not None},
        "k3s": {site.cluster.id: site.master.release.apply(lambda release: release.version) for site in sites},
        "dashboard": "" if config.autoscaler.lean else dashboard_link(names, place.region),
    }


def _site(
    cluster: Cluster,
    names: Names,
    place: Place,
    network: NetworkFacts,
    state: StateFacts,
    *,
    wake: Text,
    warnings: WarningTopic | None,
    production: bool,
    lean: bool,
) -> Site:
    groups, secrets = network.groups[cluster.id], state.secrets[cluster.id]
    zone = cluster.master.zone or next(iter(network.workers))
    master = Master(
        f"{cluster.name}-master",
        MasterNeeds(
            names=names,
            place=place,
            cluster=cluster,
            zone=zone,
            subnet=network.workers[zone],
            group=groups.master,
            secrets=secrets,
            backups=state.backups,
            wake_topic=wake,
            warnings=warnings,
            ready=network.ready,
            public=network.public,
            production=production,
            watches_utilisation=lean,
        ),
    )
    workers = Workers(
        f"{cluster.name}-workers",
        WorkersNeeds(
            names=names,
            place=place,
            cluster=cluster,
            group=groups.workers,
            api_server=master.gives.api_server,
            agent_token=secrets.agent_token,
            release=master.gives.release,
        ),
    )
    return Site(cluster=cluster, master=master.gives, workers=workers.gives, parts=(master, workers))


def _way_in(site: Site, names: Names, network: NetworkFacts, *, production: bool) -> Text | None:
    """The load balancer's name in the DNS, if there is to be one. In the server's zone, if that has a public subnet."""
    cluster, config = site.cluster, site.cluster.ingress
    if config is None:
        return None
    subnets = network.workers if config.internal else network.reachable
    zone = cluster.master.zone or next(iter(network.workers))
    made = Ingress(
        f"{cluster.name}-ingress",
        IngressNeeds(
            names=names,
            cluster=cluster,
            config=config,
            vpc=network.vpc,
            subnet=subnets.get(zone, next(iter(subnets.values()))),
            master=site.master.address,
            master_group=network.groups[cluster.id].master,
            ready=network.ready,
            production=production,
        ),
    )
    return made.address


def _records(state: State, site: Site, network: NetworkFacts, stack: Stack, names: Names) -> list[pulumi.Resource]:
    """What the functions find of the cluster in the table."""
    cluster, region = site.cluster, stack.region
    said = pulumi.Output.all(
        api_server=site.master.api_server,
        prometheus=site.master.prometheus,
        templates={pool: [each.id, each.version] for pool, each in site.workers.templates.items()},
        subnets=dict(network.workers),
    )
    deployed = said.apply(
        lambda made: records.deployed(
            cluster,
            api_server=made["api_server"],
            api_secret=names.api_secret(cluster.id),
            prometheus=made["prometheus"],
            templates={pool: (template, version) for pool, (template, version) in made["templates"].items()},
            subnets=made["subnets"],
            prices=stack.config.prices,
            own_usd=own_usd(stack),
            reconcile=f"{names.of(RECONCILE.name)}:{URGENT}",
            dashboard="" if stack.config.autoscaler.lean else dashboard_link(names, region),
            logs=logs_link(names, region),
        )
    )
    return [
        state.record(cluster.id, "deployment", deployed),
        state.record(cluster.id, "policy", records.declared(cluster)),
    ]

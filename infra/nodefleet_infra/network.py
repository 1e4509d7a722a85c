"""The network: a VPC, who may talk to whom in it, and how the functions reach AWS.

Nothing here lets traffic in from outside.
"""

import pulumi

from nodefleet_infra import endpoints, vpc
from nodefleet_infra.config import Cluster, NetworkConfig
from nodefleet_infra.endpoint_resources import Endpoints
from nodefleet_infra.interfaces import NetworkFacts, Place
from nodefleet_infra.names import Names
from nodefleet_infra.security_groups import Groups
from nodefleet_infra.sources import source_ports


class Network(pulumi.ComponentResource):
    gives: NetworkFacts

    def __init__(
        self,
        name: str,
        names: Names,
        place: Place,
        config: NetworkConfig,
        clusters: tuple[Cluster, ...],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("node-fleet:network:Network", name, None, opts)
        own = pulumi.ResourceOptions(parent=self)
        layout = vpc.found(config.existing) if config.existing else vpc.OwnVpc("vpc", names, config, own).gives
        routes = endpoints.routes(endpoints.services_of(each.policy for each in clusters), place.region)
        if not layout.ipv6:  # by NAT everything is reached at its ordinary address
            routes = tuple(route for route in routes if route.way is endpoints.Way.GATEWAY)
        groups = Groups("groups", names, layout.vpc, clusters, own)
        ways = Endpoints("endpoints", names, place, layout, routes, groups.functions, own)
        groups.let_functions_out(ways.prefix_lists, ways.group, ipv6=layout.ipv6)
        groups.let_functions_read({port for cluster in clusters for port in source_ports(cluster.policy)})
        self.gives = NetworkFacts(
            vpc=layout.vpc,
            workers=layout.workers,
            functions=layout.functions,
            functions_group=groups.functions,
            groups=groups.clusters,
            dualstack=endpoints.dualstack(routes),
            reachable=layout.public,
            ready=(*layout.ready, *groups.rules, *ways.made),
            public=config.existing.public if config.existing else config.workers == "public",
        )
        self.register_outputs({})

"""What groups and endpoints stand in: a VPC of our own, or one that is there already.

subnets       for                        IPv4 out                      IPv6 out
workers       masters and workers        their own address, or NAT     gateway, or egress-only
functions     the functions              nothing but gateway           egress-only
                                         endpoints
nat           NAT gateways, if workers   their own address             –
              are private
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import pulumi
import pulumi_aws as aws

from nodefleet_infra import addresses
from nodefleet_infra.config import ExistingVpc, NetworkConfig
from nodefleet_infra.interfaces import Text
from nodefleet_infra.names import Names

_Gateway: TypeAlias = aws.ec2.InternetGateway | aws.ec2.EgressOnlyInternetGateway | aws.ec2.NatGateway

_NAT6, _FUNCTIONS6 = 16, 32  # numbers of the first /64; the workers' begin at 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    vpc: Text
    workers: Mapping[str, Text]  # zone → subnet
    functions: tuple[Text, ...]  # subnets
    function_tables: tuple[Text, ...]  # route tables
    worker_tables: tuple[Text, ...] = ()  # … of private workers
    public: Mapping[str, Text]  # zone → subnet that the internet can reach; empty: none that is known
    ipv6: bool = True
    ready: tuple[pulumi.Resource, ...] = ()


def found(existing: ExistingVpc) -> Layout:
    return Layout(
        vpc=pulumi.Output.from_input(existing.vpc),
        workers={zone: pulumi.Output.from_input(subnet) for zone, subnet in existing.workers.items()},
        public={zone: pulumi.Output.from_input(subnet) for zone, subnet in existing.workers.items() if existing.public},
        functions=tuple(map(pulumi.Output.from_input, existing.functions)),
        function_tables=tuple(map(pulumi.Output.from_input, existing.route_tables)),
        ipv6=existing.ipv6,
    )


class OwnVpc(pulumi.ComponentResource):
    gives: Layout

    def __init__(
        self, name: str, names: Names, config: NetworkConfig, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("node-fleet:network:OwnVpc", name, None, opts)
        self._names, self._config = names, config
        self._own = pulumi.ResourceOptions(parent=self)
        self._ready: list[pulumi.Resource] = []
        self._nat: dict[str, Text] = {}  # zone → subnet of its NAT gateway
        self._vpc = aws.ec2.Vpc(
            "vpc",
            cidr_block=config.cidr,
            assign_generated_ipv6_cidr_block=True,
            enable_dns_support=True,
            enable_dns_hostnames=True,
            tags=names.tags(names.base),
            opts=self._own,
        )
        # The default for resources that name no group: it must not allow anything.
        aws.ec2.DefaultSecurityGroup(
            "default-group", vpc_id=self._vpc.id, tags=names.tags(names.of("default")), opts=self._own
        )
        both = aws.ec2.InternetGateway(
            "internet", vpc_id=self._vpc.id, tags=names.tags(names.of("internet")), opts=self._own
        )
        outward = aws.ec2.EgressOnlyInternetGateway(
            "egress", vpc_id=self._vpc.id, tags=names.tags(names.of("egress")), opts=self._own
        )
        public = self._table("public", ipv4=both, ipv6=both)
        private = config.workers == "private"
        worker_tables = self._behind_nat(public, both, outward) if private else [public] * len(config.zones)
        function_table = self._table("functions", ipv4=None, ipv6=outward)
        workers, functions = {}, []
        for index, zone in enumerate(config.zones):
            block = addresses.worker_block(config.cidr, index)
            workers[zone] = self._subnet("workers", zone, block, index, worker_tables[index], public=not private)
            block = addresses.function_block(config.cidr, index)
            functions.append(self._subnet("functions", zone, block, _FUNCTIONS6 + index, function_table))
        self.gives = Layout(
            vpc=self._vpc.id,
            workers=workers,
            public=self._nat if private else workers,
            functions=tuple(functions),
            function_tables=(function_table.id,),
            worker_tables=tuple(table.id for table in dict.fromkeys(worker_tables)) if private else (),
            ready=tuple(self._ready),
        )
        self.register_outputs({})

    def _behind_nat(
        self, public: aws.ec2.RouteTable, both: aws.ec2.InternetGateway, outward: aws.ec2.EgressOnlyInternetGateway
    ) -> list[aws.ec2.RouteTable]:
        """A route table for each zone; with one gateway they all share its table. AWS refuses a public address while
        the network has no internet gateway, and an internet gateway to leave while one is in use."""
        config, names = self._config, self._names
        after = pulumi.ResourceOptions.merge(self._own, pulumi.ResourceOptions(depends_on=[both]))
        shared = config.nat == "one"
        tables = []
        for index, zone in enumerate(config.zones[:1] if shared else config.zones):
            block = addresses.nat_block(config.cidr, index)
            subnet = self._subnet("nat", zone, block, _NAT6 + index, public, public=True)
            self._nat[zone] = subnet
            tags = names.tags(names.of("nat", zone))
            address = aws.ec2.Eip(f"nat-{zone}", domain="vpc", tags=tags, opts=after)
            gateway = aws.ec2.NatGateway(
                f"nat-{zone}", allocation_id=address.allocation_id, subnet_id=subnet, tags=tags, opts=after
            )
            tables.append(self._table(f"workers-{zone}", ipv4=gateway, ipv6=outward))
        return tables * len(config.zones) if shared else tables

    def _subnet(
        self, kind: str, zone: str, block: str, number: int, table: aws.ec2.RouteTable, *, public: bool = False
    ) -> Text:
        name = f"{kind}-{zone}"
        subnet = aws.ec2.Subnet(
            name,
            vpc_id=self._vpc.id,
            availability_zone=zone,
            cidr_block=block,
            ipv6_cidr_block=self._vpc.ipv6_cidr_block.apply(lambda given: addresses.ipv6_block(given, number)),
            assign_ipv6_address_on_creation=True,
            map_public_ip_on_launch=public,
            tags=self._names.tags(self._names.of(name)),
            opts=self._own,
        )
        self._ready.append(
            aws.ec2.RouteTableAssociation(name, subnet_id=subnet.id, route_table_id=table.id, opts=self._own)
        )
        return subnet.id

    def _table(self, name: str, *, ipv4: _Gateway | None, ipv6: _Gateway) -> aws.ec2.RouteTable:
        table = aws.ec2.RouteTable(
            name, vpc_id=self._vpc.id, tags=self._names.tags(self._names.of(name)), opts=self._own
        )
        ways = {"ipv6": ipv6} if ipv4 is None else {"ipv4": ipv4, "ipv6": ipv6}
        for family, gateway in ways.items():
            route = aws.ec2.Route(
                f"{name}-{family}",
                route_table_id=table.id,
                destination_cidr_block="0.0.0.0/0" if family == "ipv4" else None,
                destination_ipv6_cidr_block="::/0" if family == "ipv6" else None,
                gateway_id=gateway.id if isinstance(gateway, aws.ec2.InternetGateway) else None,
                egress_only_gateway_id=gateway.id if isinstance(gateway, aws.ec2.EgressOnlyInternetGateway) else None,
                nat_gateway_id=gateway.id if isinstance(gateway, aws.ec2.NatGateway) else None,
                opts=self._own,
            )
            self._ready.append(route)
        return table

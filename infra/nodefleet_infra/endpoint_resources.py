"""The endpoints that `endpoints` finds needed."""

from collections.abc import Sequence

import pulumi
import pulumi_aws as aws

from nodefleet_infra import endpoints
from nodefleet_infra.endpoints import Route, Way
from nodefleet_infra.interfaces import Place, Text
from nodefleet_infra.names import Names
from nodefleet_infra.vpc import Layout


class Endpoints(pulumi.ComponentResource):
    prefix_lists: list[tuple[str, Text]]  # of gateway endpoints: what the functions' group must let out to
    group: Text | None  # of interface endpoints, if there are any
    made: list[pulumi.Resource]

    def __init__(
        self,
        name: str,
        names: Names,
        place: Place,
        layout: Layout,
        routes: Sequence[Route],
        functions_group: Text,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("node-fleet:network:Endpoints", name, None, opts)
        self._names, self._place, self._vpc = names, place, layout.vpc
        self._own = pulumi.ResourceOptions(parent=self)
        self.prefix_lists, self.made, self.group = [], [], None
        for route in routes:
            if route.way is Way.GATEWAY and layout.function_tables:
                endpoint = self._gateway(f"functions-{route.service}", route, layout.function_tables)
                self.prefix_lists.append((route.service, endpoint.prefix_list_id))
            # The layers of ECR's images come from S3: past the NAT gateway, which charges for every byte.
            if route.service == "s3" and layout.worker_tables:
                self._gateway("workers-s3", route, layout.worker_tables)
        costly = [route for route in routes if route.way is Way.INTERFACE]
        if costly:
            self.group = self._group(functions_group)
        for route in costly:
            pulumi.log.warn(endpoints.told(route, place.region, len(layout.functions)))
            self._interface(route, layout.functions)
        self.register_outputs({})

    def _service(self, route: Route) -> str:
        return f"com.amazonaws.{self._place.region}.{route.endpoint}"

    def _gateway(self, name: str, route: Route, tables: Sequence[Text]) -> aws.ec2.VpcEndpoint:
        endpoint = aws.ec2.VpcEndpoint(
            name,
            vpc_id=self._vpc,
            service_name=self._service(route),
            vpc_endpoint_type="Gateway",
            route_table_ids=list(tables),
            tags=self._names.tags(self._names.of(name)),
            opts=self._own,
        )
        self.made.append(endpoint)
        return endpoint

    def _interface(self, route: Route, subnets: Sequence[Text]) -> None:
        endpoint = aws.ec2.VpcEndpoint(
            f"functions-{route.service}",
            vpc_id=self._vpc,
            service_name=self._service(route),
            vpc_endpoint_type="Interface",
            subnet_ids=list(subnets),
            security_group_ids=[self.group] if self.group is not None else [],
            private_dns_enabled=True,
            tags=self._names.tags(self._names.of("functions", route.service)),
            opts=self._own,
        )
        self.made.append(endpoint)

    def _group(self, functions: Text) -> Text:
        group = aws.ec2.SecurityGroup(
            "endpoints",
            name=self._names.of("endpoints"),
            description="Interface endpoints of AWS services",
            vpc_id=self._vpc,
            tags=self._names.tags(self._names.of("endpoints")),
            opts=self._own,
        )
        rule = aws.vpc.SecurityGroupIngressRule(
            "endpoints-from-functions",
            security_group_id=group.id,
            referenced_security_group_id=functions,
            ip_protocol="tcp",
            from_port=443,
            to_port=443,
            description="the functions",
            tags=self._names.tags(self._names.of("endpoints-from-functions")),
            opts=self._own,
        )
        self.made.append(rule)
        return group.id

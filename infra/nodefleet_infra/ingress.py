"""An optional way in from outside: a Network Load Balancer in front of Traefik.

It leads to the server's address, where K3s's own load balancer listens on 80 and 443 as on every node, and from there
to Traefik wherever that runs. So nothing has to be registered when workers come and go, no role may change a target,
and the address stays when the server is replaced. Why not to the workers: docs/decisions/018-ingress-by-the-server.md.
"""

from dataclasses import dataclass
from ipaddress import IPv6Network, ip_network

import pulumi
import pulumi_aws as aws

from nodefleet_infra.config import Cluster, IngressConfig
from nodefleet_infra.interfaces import Text
from nodefleet_infra.names import Names

PORTS = (80, 443)
_CHECK_SECONDS, _CHECKS = 10, 2  # a target is out after two failed checks, and in again after two good ones


@dataclass(frozen=True, slots=True, kw_only=True)
class IngressNeeds:
    """Of one cluster."""

    names: Names
    cluster: Cluster
    config: IngressConfig
    vpc: Text
    subnet: Text  # where the load balancer has its address
    master: Text  # the server's address
    master_group: Text
    ready: tuple[pulumi.Resource, ...]  # the way to the internet
    production: bool


class Ingress(pulumi.ComponentResource):
    address: Text  # its name in the DNS

    def __init__(self, name: str, needs: IngressNeeds, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("node-fleet:network:Ingress", name, None, opts)
        self._name, self._needs = name, needs
        self._own = pulumi.ResourceOptions(parent=self)
        self._tags = needs.names.tags(needs.names.of(name), cluster=needs.cluster.id)
        group = aws.ec2.SecurityGroup(
            name,
            name=needs.names.of(name),
            description="The way in from outside",
            vpc_id=needs.vpc,
            revoke_rules_on_delete=True,
            tags=self._tags,
            opts=self._own,
        )
        rules = [rule for port in PORTS for rule in self._rules(group.id, port)]
        balancer = aws.lb.LoadBalancer(
            name,
            name=needs.names.short(name),
            load_balancer_type="network",
            internal=needs.config.internal,
            security_groups=[group.id],
            subnets=[needs.subnet],
            enable_cross_zone_load_balancing=True,  # the server may be in another zone than the public subnet
            enable_deletion_protection=needs.production,
            tags=self._tags,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[*rules, *needs.ready]),
        )
        for port in PORTS:
            self._forward(balancer.arn, port)
        self.address = balancer.dns_name
        self.register_outputs({})

    def _rules(self, group: Text, port: int) -> list[pulumi.Resource]:
        names, own = self._needs.names, self._own
        rules: list[pulumi.Resource] = []
        for cidr in self._needs.config.cidrs:
            block = ip_network(cidr)
            six = isinstance(block, IPv6Network)
            label = f"{self._name}-{port}-from-{cidr}"
            rules.append(
                aws.vpc.SecurityGroupIngressRule(
                    label,
                    security_group_id=group,
                    cidr_ipv4=None if six else cidr,
                    cidr_ipv6=cidr if six else None,
                    ip_protocol="tcp",
                    from_port=port,
                    to_port=port,
                    description="Whom the configuration lets in (ingress.cidrs)",
                    tags=names.tags(names.of(label), cluster=self._needs.cluster.id),
                    opts=own,
                )
            )
        why = "Traefik, by the server"
        tags = names.tags(names.of(f"{self._name}-{port}"), cluster=self._needs.cluster.id)
        rules.append(
            aws.vpc.SecurityGroupEgressRule(
                f"{self._name}-{port}-out",
                security_group_id=group,
                referenced_security_group_id=self._needs.master_group,
                ip_protocol="tcp",
                from_port=port,
                to_port=port,
                description=why,
                tags=tags,
                opts=own,
            )
        )
        rules.append(
            aws.vpc.SecurityGroupIngressRule(
                f"{self._name}-{port}-in",
                security_group_id=self._needs.master_group,
                referenced_security_group_id=group,
                ip_protocol="tcp",
                from_port=port,
                to_port=port,
                description=why,
                tags=tags,
                opts=own,
            )
        )
        return rules

    def _forward(self, balancer: Text, port: int) -> None:
        needs, label = self._needs, f"{self._name}-{port}"
        targets = aws.lb.TargetGroup(
            label,
            name=needs.names.short(label),
            vpc_id=needs.vpc,
            protocol="TCP",
            port=port,
            target_type="ip",  # an instance's id would not outlive the server's replacement
            health_check={
                "protocol": "TCP",
                "interval": _CHECK_SECONDS,
                "healthy_threshold": _CHECKS,
                "unhealthy_threshold": _CHECKS,
            },
            tags=self._tags,
            opts=self._own,
        )
        aws.lb.TargetGroupAttachment(
            label, target_group_arn=targets.arn, target_id=needs.master, port=port, opts=self._own
        )
        aws.lb.Listener(
            label,
            load_balancer_arn=balancer,
            port=port,
            protocol="TCP",
            default_actions=[{"type": "forward", "target_group_arn": targets.arn}],
            tags=self._tags,
            opts=self._own,
        )

"""Security groups. Rules name groups, never addresses, so they hold for instances that come and go.

Nothing is open to the internet: no SSH (Session Manager needs no open port), no API server, no Prometheus.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import pulumi
import pulumi_aws as aws

from nodefleet_infra.config import Cluster
from nodefleet_infra.interfaces import ClusterGroups, Text
from nodefleet_infra.names import Names

API_SERVER, PROMETHEUS = 6443, 9090
KUBELET, NODE_EXPORTER, FLANNEL, HTTPS = 10250, 9100, 8472, 443
PRIVATE = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """Within one cluster, and from the functions into it."""

    source: Literal["functions", "master", "workers"]
    target: Literal["master", "workers"]
    port: int
    protocol: Literal["tcp", "udp"] = "tcp"
    why: str


ALLOWED: tuple[Allowed, ...] = (
    Allowed(source="functions", target="master", port=API_SERVER, why="nodes and pods are read, cordoned, evicted"),
    Allowed(source="functions", target="master", port=PROMETHEUS, why="readings"),
    Allowed(source="workers", target="master", port=API_SERVER, why="agents join and stay"),
    Allowed(source="workers", target="master", port=PROMETHEUS, why="adapters and dashboards that run on workers"),
    Allowed(source="workers", target="master", port=FLANNEL, protocol="udp", why="pods reach pods"),
    Allowed(source="master", target="workers", port=FLANNEL, protocol="udp", why="pods reach pods"),
    Allowed(source="workers", target="workers", port=FLANNEL, protocol="udp", why="pods reach pods"),
    Allowed(source="workers", target="master", port=KUBELET, why="metrics-server, wherever it runs"),
    Allowed(source="master", target="workers", port=KUBELET, why="metrics and logs"),
    Allowed(source="workers", target="workers", port=KUBELET, why="metrics-server, wherever it runs"),
    Allowed(source="master", target="workers", port=NODE_EXPORTER, why="Prometheus scrapes"),
)


class Groups(pulumi.ComponentResource):
    functions: Text
    clusters: dict[str, ClusterGroups]
    rules: list[pulumi.Resource]

    def __init__(
        self,
        name: str,
        names: Names,
        vpc: Text,
        clusters: Sequence[Cluster],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("node-fleet:network:Groups", name, None, opts)
        self._names, self._vpc = names, vpc
        self._own = pulumi.ResourceOptions(parent=self)
        self.rules = []
        self.functions = self._group("functions", "The autoscaler's functions. They call out; nobody calls them")
        self.clusters = {cluster.id: self._cluster(cluster) for cluster in clusters}
        self.register_outputs({})

    def _cluster(self, cluster: Cluster) -> ClusterGroups:
        groups = {
            "functions": self.functions,
            "master": self._group(f"{cluster.name}-master", "K3s server", cluster.id),
            "workers": self._group(f"{cluster.name}-workers", "K3s agents", cluster.id),
        }
        for rule in ALLOWED:
            name = f"{cluster.name}-{rule.target}-{rule.port}-from-{rule.source}"
            self._let_in(name, groups[rule.target], groups[rule.source], rule, cluster.id)
            if rule.source == "functions":  # instances may call out anyway, see below
                self._let_out(f"{name}-out", self.functions, rule.port, group=groups[rule.target], why=rule.why)
        for machines in ("master", "workers"):
            # Image registries and package mirrors have no fixed addresses.
            why = "images, packages, AWS"
            self._let_out(f"{cluster.name}-{machines}-out", groups[machines], None, cidr="0.0.0.0/0", why=why)
            self._let_out(f"{cluster.name}-{machines}-out-ipv6", groups[machines], None, cidr6="::/0", why=why)
        return ClusterGroups(master=groups["master"], workers=groups["workers"])

    def let_functions_out(
        self, prefix_lists: Sequence[tuple[str, Text]], endpoint_group: Text | None, *, ipv6: bool
    ) -> None:
        """To AWS: by our gateway endpoints, by interface endpoints, and by IPv6. An existing network may have endpoints
        of its own, or NAT: their addresses are not known here."""
        for service, prefix_list in prefix_lists:
            self._let_out(f"functions-{service}", self.functions, HTTPS, prefix_list=prefix_list, why=service)
        if endpoint_group is not None:
            self._let_out("functions-endpoints", self.functions, HTTPS, group=endpoint_group, why="interface endpoints")
        if ipv6:
            self._let_out("functions-ipv6", self.functions, HTTPS, cidr6="::/0", why="dual-stack addresses of AWS")
        if not ipv6 or not prefix_lists:
            self._let_out("functions-ipv4", self.functions, HTTPS, cidr="0.0.0.0/0", why="AWS, by what the network has")

    def let_functions_read(self, ports: Iterable[int]) -> None:
        """To the demand sources of the policies, at private addresses only: Redis, RabbitMQ, an HTTP server."""
        for port in sorted(ports):
            for index, cidr in enumerate(PRIVATE):
                self._let_out(f"functions-source-{port}-{index}", self.functions, port, cidr=cidr, why="demand source")

    def _group(self, name: str, description: str, cluster: str = "") -> Text:
        group = aws.ec2.SecurityGroup(
            name,
            name=self._names.of(name),
            description=description,
            vpc_id=self._vpc,
            revoke_rules_on_delete=True,  # groups that name each other could not be deleted otherwise
            tags=self._names.tags(self._names.of(name), cluster=cluster),
            opts=self._own,
        )
        return group.id

    def _let_in(self, name: str, target: Text, source: Text, rule: Allowed, cluster: str) -> None:
        self.rules.append(
            aws.vpc.SecurityGroupIngressRule(
                name,
                security_group_id=target,
                referenced_security_group_id=source,
                ip_protocol=rule.protocol,
                from_port=rule.port,
                to_port=rule.port,
                description=rule.why,
                tags=self._names.tags(self._names.of(name), cluster=cluster),
                opts=self._own,
            )
        )

    def _let_out(
        self,
        name: str,
        source: Text,
        port: int | None,
        *,
        why: str,
        group: Text | None = None,
        prefix_list: Text | None = None,
        cidr: str | None = None,
        cidr6: str | None = None,
    ) -> None:
        self.rules.append(
            aws.vpc.SecurityGroupEgressRule(
                name,
                security_group_id=source,
                referenced_security_group_id=group,
                prefix_list_id=prefix_list,
                cidr_ipv4=cidr,
                cidr_ipv6=cidr6,
                ip_protocol="-1" if port is None else "tcp",
                from_port=port,
                to_port=port,
                description=why,
                tags=self._names.tags(self._names.of(name)),
                opts=self._own,
            )
        )

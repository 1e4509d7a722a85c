"""The K3s server of one cluster.

Its address belongs to a network interface of its own, so that it stays when the machine is replaced: workers and
functions never learn that there was another one. What the machine knows lies in S3 and Secrets Manager; a new one takes
up the newest snapshot (docs/deploy.md). Manifests lie in S3 too and are fetched every few minutes: changing them does
not replace the machine, changing its user data does.
"""

from typing import Any

import pulumi
import pulumi_aws as aws

from nodefleet_infra import iam, k3s, manifests, userdata
from nodefleet_infra.facts import MasterFacts, MasterNeeds, Text, backup_prefix
from nodefleet_infra.groups import API_SERVER, PROMETHEUS
from nodefleet_infra.machines import METADATA, image, profile
from nodefleet_infra.reading_rules import reading_rules
from nodefleet_infra.server_rules import server_rules
from nodefleet_infra.statements import document


def manifests_folder(cluster: str) -> str:
    """Apart from the snapshots: the master may not write here, and K3s takes all of its folder for snapshots."""
    return f"manifests/{cluster}"


class Master(pulumi.ComponentResource):
    gives: MasterFacts

    def __init__(self, name: str, needs: MasterNeeds, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("node-fleet:machines:Master", name, None, opts)
        self._name, self._needs, self._names, self._cluster = name, needs, needs.names, needs.cluster
        self._full = self._names.master(self._cluster.name)
        self._tags = self._names.server_tags(self._cluster.id, self._full)
        self._own = pulumi.ResourceOptions(parent=self)
        told = needs.warnings is not None
        self._rules = reading_rules(self._names, self._cluster) if told else ()
        self._server_rules = server_rules(self._names, self._cluster) if told else ()
        role, allowed, machine_profile = profile(
            name,
            self._full,
            "K3s server",
            self._policy(),
            self._names.tags(self._full, cluster=self._cluster.id),
            self._own,
        )
        interface = self._interface()
        way_out = self._way_out(interface)
        needed = [allowed, *self._manifests(), *way_out, *needs.ready]
        machine = self._machine(interface, machine_profile, needed)
        self.gives = MasterFacts(
            api_server=interface.private_ip.apply(lambda address: f"https://{address}:{API_SERVER}"),
            prometheus=interface.private_ip.apply(lambda address: f"http://{address}:{PROMETHEUS}"),
            instance=machine.id,
            role_arn=role.arn,
        )
        self.register_outputs({})

    def _machine(
        self,
        interface: aws.ec2.NetworkInterface,
        machine_profile: aws.iam.InstanceProfile,
        needed: list[pulumi.Resource],
    ) -> aws.ec2.Instance:
        config = self._cluster.master
        return aws.ec2.Instance(
            self._name,
            ami=image(config.image, self._cluster.master_arch),
            instance_type=config.type,
            iam_instance_profile=machine_profile.name,
            primary_network_interface={"network_interface_id": interface.id},
            metadata_options=aws.ec2.InstanceMetadataOptionsArgs(**METADATA),
            root_block_device=aws.ec2.InstanceRootBlockDeviceArgs(
                volume_type="gp3",
                volume_size=config.disk_gb,
                encrypted=True,
                delete_on_termination=True,
                tags=self._tags,
            ),
            user_data=self._user_data(),
            user_data_replace_on_change=True,
            tags=self._tags,
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=needed,
                delete_before_replace=True,  # the interface can be in one machine only
                protect=self._needs.production and not config.allow_replacement,
                # That AWS has a newer image is no reason to replace a server that runs.
                ignore_changes=[] if config.image else ["ami"],
            ),
        )

    # ── the address ──────────────────────────────────────────────────────────────────────────────────────────────

    def _interface(self) -> aws.ec2.NetworkInterface:
        return aws.ec2.NetworkInterface(
            self._name,
            description=f"The address of {self._cluster.id}'s K3s server",
            subnet_id=self._needs.subnet,
            security_groups=[self._needs.group],
            tags=self._tags,
            opts=pulumi.ResourceOptions(parent=self, protect=self._needs.production),  # every worker knows the address
        )

    def _way_out(self, interface: aws.ec2.NetworkInterface) -> list[pulumi.Resource]:
        """EC2 gives a public address only to interfaces that it makes itself. It refuses one while the network has no
        internet gateway: `ready` holds the routes to it."""
        if not self._needs.public:
            return []
        after = pulumi.ResourceOptions(parent=self, depends_on=list(self._needs.ready))
        return [
            aws.ec2.Eip(self._name, domain="vpc", network_interface=interface.id, tags=self._tags, opts=after),
        ]

    # ── what it may, and what it runs ────────────────────────────────────────────────────────────────────────────

    def _policy(self) -> Text:
        needs, secrets = self._needs, self._needs.secrets
        said = pulumi.Output.all(
            api_secret=secrets.api.arn,
            agent_token=secrets.agent_token.arn,
            server_token=secrets.server_token.arn,
            backups=needs.backups.arn,
            wake_topic=needs.wake_topic,
            warning_topic=needs.warnings.arn if needs.warnings else "",
            critical_topic=needs.warnings.critical if needs.warnings else "",
            warning_key=needs.warnings.key if needs.warnings else "",
        )
        shows = needs.cluster.master.grafana

        def allowed(arns: dict[str, str]) -> str:
            folder = manifests_folder(needs.cluster.id)
            facts = iam.MasterArns(
                place=needs.place, cluster=needs.cluster.id, manifests=folder, reads_metrics=shows, **arns
            )
            return document(iam.master(facts))

        return said.apply(allowed)

    def _manifests(self) -> list[pulumi.Resource]:
        """One object for each file. Which files there are does not depend on anything that AWS decides."""
        folder = manifests_folder(self._cluster.id)

        def site(wake: str, warning: str, critical: str) -> manifests.Site:
            return manifests.Site(
                cluster=self._cluster.id,
                region=self._needs.place.region,
                wake_topic=wake,
                grafana=self._cluster.master.grafana,
                reading_rules=self._rules,
                server_rules=self._server_rules,
                warning_topic=warning,
                critical_topic=critical,
            )

        warnings = self._needs.warnings
        topics = pulumi.Output.all(
            self._needs.wake_topic, warnings.arn if warnings else "", warnings.critical if warnings else ""
        )

        def content(file: str) -> Text:
            return topics.apply(lambda arns: manifests.rendered(site(*arns))[file])

        return [
            aws.s3.BucketObjectv2(
                f"{self._name}-{file}",
                bucket=self._needs.backups.name,
                key=f"{folder}/{file}",
                content=content(file),
                content_type="application/yaml",
                tags=self._names.tags(cluster=self._cluster.id),
                opts=self._own,
            )
            for file in manifests.rendered(site("", "", ""))
        ]

    def _user_data(self) -> Text:
        needs, cluster = self._needs, self._cluster
        release, arch = k3s.release_of(cluster), cluster.master_arch
        known: dict[str, Any] = {
            "region": needs.place.region,
            "registry": needs.place.registry,
            "binary": userdata.Binary(url=k3s.binary_url(release, arch), sha256=k3s.checksum(release, arch)),
            "account": manifests.ACCOUNT,
            "api_secret": needs.secrets.api.name,
            "agent_token_secret": needs.secrets.agent_token.name,
            "server_token_secret": needs.secrets.server_token.name,
            "snapshots": backup_prefix(cluster.id),
            "manifests": manifests_folder(cluster.id),
            "s3_endpoint": f"s3.{needs.place.region}.{needs.place.suffix}",
            "snapshot_cron": cluster.master.snapshot_cron,
            "snapshots_kept": cluster.master.snapshots,
            "restore": cluster.master.restore,
            "updates": cluster.master.updates,
        }
        return needs.backups.name.apply(lambda bucket: userdata.server(userdata.Server(bucket=bucket, **known)))

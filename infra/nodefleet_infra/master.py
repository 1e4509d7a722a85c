"""The K3s server of one cluster.

Its address belongs to a network interface of its own, so that it stays when the instance is replaced: workers and
functions never learn that there was another one. What the instance knows lies in S3 and Secrets Manager; a new one
takes up the newest snapshot (docs/deploy.md). Manifests and the instance's own program lie in S3 too and are fetched
every few minutes: changing them does not replace the instance. Changing its user data does, which therefore is a small
bootstrap that stays the same from release to release. Which release of K3s a cluster has is remembered there as well,
so that another version of this program does not bring another one along.
"""

import json
from hashlib import sha256
from typing import Any

import pulumi
import pulumi_aws as aws

from nodefleet_infra import iam, k3s, manifests, userdata
from nodefleet_infra.config import K3s
from nodefleet_infra.instances import METADATA, image, profile
from nodefleet_infra.interfaces import MasterFacts, MasterNeeds, Text, backup_prefix
from nodefleet_infra.reading_rules import reading_rules
from nodefleet_infra.security_groups import API_SERVER, PROMETHEUS
from nodefleet_infra.server_rules import server_rules
from nodefleet_infra.statements import document


def manifests_folder(cluster: str) -> str:
    """Apart from the snapshots: the master may not write here, and K3s takes all of its folder for snapshots."""
    return f"manifests/{cluster}"


def programs_folder(cluster: str) -> str:
    """The server's program by its checksum, `current` with the checksum of the one to run, and the release of K3s."""
    return f"server/{cluster}"


class Master(pulumi.ComponentResource):
    gives: MasterFacts

    def __init__(self, name: str, needs: MasterNeeds, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("node-fleet:machines:Master", name, None, opts)
        self._name, self._needs, self._names, self._cluster = name, needs, needs.names, needs.cluster
        self._full = self._names.master(self._cluster.name)
        self._tags = self._names.server_tags(self._cluster.id, self._full)
        self._own = pulumi.ResourceOptions(parent=self)
        told = needs.warnings is not None
        self._rules = reading_rules(self._names, self._cluster, utilisation=needs.watches_utilisation) if told else ()
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
        release = self._release()
        needed = [allowed, *self._manifests(), *self._program(release), *way_out, *needs.ready]
        machine = self._machine(interface, machine_profile, needed)
        self._tell_of_replacement(interface, machine)
        self.gives = MasterFacts(
            address=interface.private_ip,
            api_server=interface.private_ip.apply(lambda address: f"https://{address}:{API_SERVER}"),
            prometheus=interface.private_ip.apply(lambda address: f"http://{address}:{PROMETHEUS}"),
            instance=machine.id,
            role_arn=role.arn,
            release=release,
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
                kms_key_id=self._cluster.disk_key or None,
                delete_on_termination=True,
                tags=self._tags,
            ),
            user_data=self._user_data(),
            user_data_replace_on_change=True,
            tags=self._tags,
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=needed,
                delete_before_replace=True,  # the interface can be in one instance only
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
            warning_key="" if needs.warnings is None or needs.warnings.key is None else needs.warnings.key,
        )
        shows = needs.cluster.master.grafana

        def allowed(arns: dict[str, str]) -> str:
            folder = manifests_folder(needs.cluster.id)
            facts = iam.MasterArns(
                place=needs.place,
                cluster=needs.cluster.id,
                manifests=folder,
                programs=programs_folder(needs.cluster.id),
                reads_metrics=shows,
                makes_volumes=needs.cluster.persistent_volumes,
                disk_key=needs.cluster.disk_key,
                **arns,
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
                persistent_volumes=self._cluster.persistent_volumes,
                disk_key=self._cluster.disk_key,
                reading_rules=self._rules,
                server_rules=self._server_rules,
                warning_topic=warning,
                critical_topic=critical,
            )

        warnings = self._needs.warnings
        topics = pulumi.Output.all(
            self._needs.wake_topic, warnings.arn if warnings else "", warnings.critical if warnings else ""
        )
        written = topics.apply(lambda arns: manifests.rendered(site(*arns)))

        def content(file: str) -> Text:
            return written.apply(lambda files: files[file])

        return [
            self._object(f"{self._name}-{file}", f"{folder}/{file}", content(file), "application/yaml")
            for file in manifests.rendered(site("", "", ""))
        ]

    # ── its program ──────────────────────────────────────────────────────────────────────────────────────────────

    def _release(self) -> pulumi.Output[K3s]:
        """The one that the configuration names; else the one that the cluster began with. What an earlier `up` wrote
        counts, because a change of it is ignored: the object's content is then still the old one."""
        given = self._cluster.k3s
        wanted = given or k3s.RELEASE
        kept = self._object(
            f"{self._name}-k3s",
            f"{programs_folder(self._cluster.id)}/k3s.json",
            json.dumps({"version": wanted.version, "sha256": dict(wanted.sha256)}, sort_keys=True),
            "application/json",
            pulumi.ResourceOptions(ignore_changes=[] if given else ["content"]),
        )

        def read(content: str | None) -> K3s:
            release = K3s(**json.loads(content)) if content else wanted
            if not given and release.version != k3s.RELEASE.version:
                pulumi.log.info(
                    f"{self._cluster.id} stays with K3s {release.version}; this version of node-fleet was tested with"
                    f" {k3s.RELEASE.version}. To upgrade set k3s.version and k3s.sha256 of the cluster"
                )
            return release

        return kept.content.apply(read)

    def _program(self, release: pulumi.Output[K3s]) -> list[pulumi.Resource]:
        """By its checksum, so that no instance ever gets half of one and half of another: first the new one is there,
        then `current` names it, then the old one goes."""
        folder = programs_folder(self._cluster.id)
        known = pulumi.Output.all(self._needs.backups.name, release, self._needs.wake_topic)
        text = known.apply(lambda facts: self._program_text(*facts))
        digest = text.apply(lambda program: sha256(program.encode()).hexdigest())
        name = digest.apply(lambda checksum: f"{folder}/{checksum}")
        program = self._object(f"{self._name}-program", name, text, "text/x-shellscript")
        after = pulumi.ResourceOptions(depends_on=[program])
        return [program, self._object(f"{self._name}-current", f"{folder}/current", digest, "text/plain", after)]

    def _object(
        self,
        name: str,
        key: pulumi.Input[str],
        content: pulumi.Input[str],
        kind: str,
        opts: pulumi.ResourceOptions | None = None,
    ) -> aws.s3.BucketObjectv2:
        return aws.s3.BucketObjectv2(
            name,
            bucket=self._needs.backups.name,
            key=key,
            content=content,
            content_type=kind,
            tags=self._names.tags(cluster=self._cluster.id),
            opts=pulumi.ResourceOptions.merge(self._own, opts or pulumi.ResourceOptions()),
        )

    def _program_text(self, bucket: str, release: K3s, wake_topic: str) -> str:
        needs, cluster, arch = self._needs, self._cluster, self._cluster.master_arch
        return userdata.server(
            userdata.Server(
                region=needs.place.region,
                registry=needs.place.registry,
                binary=userdata.Binary(url=k3s.binary_url(release, arch), sha256=k3s.checksum(release, arch)),
                account=manifests.ACCOUNT,
                api_secret=needs.secrets.api.name,
                agent_token_secret=needs.secrets.agent_token.name,
                server_token_secret=needs.secrets.server_token.name,
                bucket=bucket,
                snapshots=backup_prefix(cluster.id),
                manifests=manifests_folder(cluster.id),
                programs=programs_folder(cluster.id),
                s3_endpoint=f"s3.{needs.place.region}.{needs.place.suffix}",
                snapshot_cron=cluster.master.snapshot_cron,
                snapshots_kept=cluster.master.snapshots,
                updates=cluster.master.updates,
                scheduling=cluster.master.scheduling,
                cluster=cluster.id,
                wake_topic=wake_topic,
                watcher=manifests.WATCHER,
            )
        )

    def _user_data(self) -> Text:
        known: dict[str, Any] = {
            "region": self._needs.place.region,
            "programs": programs_folder(self._cluster.id),
            "restore": self._cluster.master.restore,
        }
        return self._needs.backups.name.apply(
            lambda bucket: userdata.bootstrap(userdata.Bootstrap(bucket=bucket, **known))
        )

    # ── what an operator must know before a replacement ──────────────────────────────────────────────────────────────

    def _tell_of_replacement(self, interface: aws.ec2.NetworkInterface, machine: aws.ec2.Instance) -> None:
        """A preview knows the id of what stays, and not of what is to be made. So an instance without an id at an
        address that has one is another instance for a cluster that is there already."""
        if not pulumi.runtime.is_dry_run():
            return

        async def tell() -> bool:
            replaced = await interface.id.is_known() and not await machine.id.is_known()
            if replaced:
                pulumi.log.warn(
                    f"The K3s server of {self._cluster.id} WILL BE REPLACED by this update. While it is away, for some"
                    " minutes, pods go on running, but nothing is scheduled, launched or drained. The new one takes up"
                    f" the snapshot `{self._cluster.master.restore}` (restore); Prometheus's readings are lost. Take a"
                    " fresh snapshot first: docs/deploy.md, The master",
                    self,
                )
            return replaced

        telling: pulumi.Input[bool] = tell()
        pulumi.Output.from_input(telling)  # Pulumi waits for its outputs

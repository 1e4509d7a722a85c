"""The workers of one cluster: a launch template for each pool, from which the autoscaler launches them.

What differs between launches is not in a template: subnet and market stand in the request. The type does too; that of
the template is only for an operator who launches one by hand.
"""

import base64

import pulumi
import pulumi_aws as aws

from nodefleet_infra import iam, iam_ec2, k3s, userdata
from nodefleet_infra.config import K3s, Pool
from nodefleet_infra.instances import METADATA, ROOT_DEVICE, image, profile
from nodefleet_infra.interfaces import TemplateRef, WorkersFacts, WorkersNeeds
from nodefleet_infra.statements import document

_TAGGED = ("instance", "volume", "network-interface")


class Workers(pulumi.ComponentResource):
    gives: WorkersFacts

    def __init__(self, name: str, needs: WorkersNeeds, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("node-fleet:machines:Workers", name, None, opts)
        self._needs, self._names, self._cluster = needs, needs.names, needs.cluster
        self._own = pulumi.ResourceOptions(parent=self)
        full = self._names.workers(self._cluster.name)
        policy = needs.agent_token.arn.apply(
            lambda arn: document(iam.worker(iam.WorkerArns(place=needs.place, agent_token=arn)))
        )
        tags = self._names.tags(full, cluster=self._cluster.id)
        role, _, self._profile = profile(name, full, "K3s agents", policy, tags, self._own)
        self.gives = WorkersFacts(
            templates={pool.name: self._template(pool) for pool in self._cluster.pools}, role_arn=role.arn
        )
        self.register_outputs({})

    def _template(self, pool: Pool) -> TemplateRef:
        names, cluster = self._names, self._cluster
        full = names.pool(cluster.name, pool.name)
        tags = names.worker_tags(cluster.id, pool.name, full)
        template = aws.ec2.LaunchTemplate(
            f"{cluster.name}-{pool.name}",
            name=full,
            description=f"Workers of {cluster.id}, pool {pool.name}",
            image_id=image(pool.image, pool.arch),
            instance_type=pool.types[0],
            iam_instance_profile={"arn": self._profile.arn},
            vpc_security_group_ids=[self._needs.group],
            block_device_mappings=[
                aws.ec2.LaunchTemplateBlockDeviceMappingArgs(
                    device_name=ROOT_DEVICE,
                    ebs=aws.ec2.LaunchTemplateBlockDeviceMappingEbsArgs(
                        volume_type=iam_ec2.VOLUME_TYPE,
                        volume_size=pool.disk_gb,
                        encrypted="true",
                        kms_key_id=cluster.disk_key or None,
                        delete_on_termination="true",
                    ),
                )
            ],
            metadata_options=aws.ec2.LaunchTemplateMetadataOptionsArgs(**METADATA),
            instance_initiated_shutdown_behavior="terminate",
            update_default_version=True,
            user_data=pulumi.Output.all(self._needs.api_server, self._needs.release).apply(
                lambda known: self._user_data(pool, *known)
            ),
            tag_specifications=[
                aws.ec2.LaunchTemplateTagSpecificationArgs(resource_type=kind, tags=tags) for kind in _TAGGED
            ],
            tags=tags,
            opts=self._own,
        )
        return TemplateRef(
            id=template.id, arn=template.arn, version=template.latest_version.apply(lambda number: str(int(number)))
        )

    def _user_data(self, pool: Pool, server: str, release: K3s) -> str:
        settings = userdata.Agent(
            region=self._needs.place.region,
            registry=self._needs.place.registry,
            binary=userdata.Binary(url=k3s.binary_url(release, pool.arch), sha256=k3s.checksum(release, pool.arch)),
            server=server,
            agent_token_secret=self._needs.agent_token.name,
            pool=pool.name,
            labels=pool.labels,
            taints=pool.taints,
        )
        return base64.b64encode(userdata.agent(settings).encode()).decode()

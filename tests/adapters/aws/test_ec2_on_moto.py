"""The adapter behaves as every cloud does, on moto."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import pytest
from moto import mock_aws

from contracts.cloud_contract import KNOWN, CloudContract, Lacks
from nodefleet.adapters.aws.ec2 import Ec2
from nodefleet.adapters.aws.session import Session
from nodefleet.model.inventory import Market
from nodefleet.model.names import TAG_CLUSTER, TAG_ROLE
from nodefleet.model.operations import Launch
from support.ec2_fakes import Clock, shared_session
from support.operation_builders import launch

__all__ = ["shared_session"]

IMAGE = "ami-12345678"  # moto takes any


class MotoWorld:
    """A cluster of its own in the one account that all tests share: a new moto takes more than a second to start."""

    lacks = frozenset(Lacks)
    _clusters = count(1)

    def __init__(self, session: Session) -> None:
        self.client = session.client("ec2")
        self.cluster = f"shop-{next(self._clusters)}"
        self.cloud = Ec2(session, self.cluster, {}, Clock())
        template = self.client.create_launch_template(
            LaunchTemplateName=self.cluster, LaunchTemplateData={"ImageId": IMAGE}
        )
        self.template = template["LaunchTemplate"]["LaunchTemplateId"]
        self.subnet = self.client.describe_subnets()["Subnets"][1]

    def launch(self, **changes: object) -> Launch:
        base = launch(
            zone=self.subnet["AvailabilityZone"],
            subnet=self.subnet["SubnetId"],
            template=self.template,
            template_version="1",
            market=Market.ON_DEMAND,
            types=(KNOWN,),
        )
        return replace(base, **changes)

    def machine(self, cluster: str, role: str | None) -> str:
        tags = {TAG_CLUSTER: cluster} | ({TAG_ROLE: role} if role else {})
        specification = [{"Key": key, "Value": value} for key, value in tags.items()]
        made = self.client.run_instances(
            ImageId=IMAGE,
            InstanceType=KNOWN,
            MinCount=1,
            MaxCount=1,
            TagSpecifications=[{"ResourceType": "instance", "Tags": specification}],
        )
        return made["Instances"][0]["InstanceId"]

    def is_up(self, identity: str) -> bool:
        (reservation,) = self.client.describe_instances(InstanceIds=[identity])["Reservations"]
        return reservation["Instances"][0]["State"]["Name"] == "running"

    def exhaust(self, type_: str, market: Market) -> None:
        raise NotImplementedError(Lacks.CAPACITY.value)

    def settle(self) -> None:
        """moto shows everything at once."""


@pytest.fixture(scope="module")
def moto_session(shared_session: Session) -> Iterator[Session]:
    with mock_aws():
        yield shared_session


class TestEc2OnMoto(CloudContract):
    @pytest.fixture
    def world(self, moto_session: Session) -> MotoWorld:
        return MotoWorld(moto_session)

    def test_all_pages_are_read(self, world: MotoWorld, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr("nodefleet.adapters.aws.ec2.PAGE", 5)
        servers = {world.machine(world.cluster, "server") for _ in range(12)}
        assert {machine.id for machine in world.cloud.instances()} == servers

    def test_a_stopped_machine_says_so(self, world: MotoWorld):
        (identity, _) = world.cloud.launch(world.launch()).instances
        world.client.stop_instances(InstanceIds=[identity])
        assert world.cloud.instance(identity).state.value == "stopped"

    def test_the_fleet_is_tagged_too(self, world: MotoWorld):
        world.cloud.launch(world.launch())
        fleets = world.client.describe_fleets()["Fleets"]
        assert [fleet for fleet in fleets if {"Key": TAG_CLUSTER, "Value": world.cluster} in fleet["Tags"]]

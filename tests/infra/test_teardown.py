"""What a destroy does, and in which order: nobody starts a run, nothing can launch, the workers go, then the rest."""

import base64
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import boto3
import dill
import pytest
from moto import mock_aws

from nodefleet.adapters.dynamodb.store import acquire
from nodefleet.adapters.dynamodb.table import Table
from nodefleet.errors import DeniedError, UnavailableError
from nodefleet.model.names import ROLE_SERVER, ROLE_WORKER, TAG_CLUSTER, TAG_POOL, TAG_ROLE
from nodefleet.ports import Lease, LeaseHeld
from nodefleet_infra import teardown
from nodefleet_infra.credentials import CredentialsError
from nodefleet_infra.service_roles import ServiceRoleProvider, made_or_found
from nodefleet_infra.teardown import (
    KEEP_LEASE,
    LONGEST_RUN,
    OWNER,
    Surroundings,
    SweepProvider,
    TeardownError,
    hold,
    sweep,
    terminate,
)
from support.dynamo_tables import Client, dynamodb, table_on
from support.ec2_fakes import isolate
from support.infra_mocks import ACCOUNT, DEV, PRODUCTION, deployed_stack, unusual_stack
from support.wording import assert_wording

OURS = "123456789012"  # moto's account
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


# ── the order, as dependencies ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def graph(request):
    return {
        "dev": lambda: deployed_stack(DEV),
        "production": lambda: deployed_stack(PRODUCTION),
        "unusual": unusual_stack,
    }[request.param]()


def urns(graph, *kinds):
    return {each.urn for kind in kinds for each in graph.of(kind)}


@pytest.mark.parametrize("graph", ["dev", "production", "unusual"], indirect=True)
def test_whatever_starts_a_run_goes_before_the_workers_do(graph):
    """In a destroy a resource goes before everything that it depends on."""
    sweeps = urns(graph, "teardown:Sweep")
    assert len(sweeps) == len(graph.exports["clusters"])
    starters = [
        *graph.of("scheduler/schedule:Schedule"),
        *graph.of("EventRule"),
        *graph.of("EventTarget"),
        *[each for each in graph.of("EventSourceMapping") if each.name == "ec2-events"],
        *[each for each in graph.of("TopicSubscription") if each.name == "reconcile-wake"],
    ]
    for each in starters:
        cluster = each.name.rpartition("-")[0]
        own = [urn for urn in sweeps if urn.endswith(f"::{cluster}")] or sweeps
        assert graph.before(each.urn) >= set(own), each.name


@pytest.mark.parametrize("graph", ["dev", "production", "unusual"], indirect=True)
def test_the_workers_go_before_everything_that_they_stand_on(graph):
    for urn in urns(graph, "teardown:Sweep"):
        outlives = graph.before(urn)
        needed = urns(
            graph,
            *("ec2/vpc:Vpc", "ec2/subnet:Subnet", "ec2/securityGroup:SecurityGroup", "ec2/route:Route"),
            *("dynamodb/table:Table", "TableItem", "lambda/function:Function"),
        )
        name = urn.rpartition("::")[2]
        needed |= {each.urn for each in graph.of("LaunchTemplate") if each.name.startswith(f"{name}-")}
        needed |= {each.urn for each in graph.of("ec2/instance:Instance") if each.name.startswith(f"{name}-")}
        needed |= {each.urn for each in graph.of("InstanceProfile") if each.name.startswith(f"{name}-")}
        assert needed <= outlives


def test_every_cluster_is_swept_by_its_own_name():
    swept = {each.name: each.inputs for each in unusual_stack().of("teardown:Sweep")}
    assert {name: each["cluster"] for name, each in swept.items()} == {"shop": "odd-shop", "blog": "odd-blog"}
    for each in swept.values():
        assert (each["table"], each["region"], each["account"]) == ("node-fleet-odd-state", "eu-central-2", ACCOUNT)
        assert set(each) == {"cluster", "region", "account", "table", "__provider"}  # no credentials in the state


def test_only_production_refuses_to_be_swept():
    assert all(each.protected for each in deployed_stack(PRODUCTION).of("teardown:Sweep"))
    assert not any(each.protected for each in deployed_stack(DEV).of("teardown:Sweep"))


def test_pulumi_finds_the_code_again_when_it_destroys():
    """By its module's name, not by a copy of the code: a destroy long after the last `up` runs today's code."""
    (swept,) = deployed_stack(DEV).of("teardown:Sweep")
    pickled = base64.b64decode(swept.inputs["__provider"])
    assert b"nodefleet_infra.teardown" in pickled
    assert isinstance(dill.loads(pickled), SweepProvider)  # noqa: S301  # our own
    assert "__provider" not in swept.secret


# ── holding ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class World:
    """moto, and a clock that moves when somebody sleeps."""

    ec2: object
    dynamodb: object
    now: datetime = NOON
    said: list[str] = field(default_factory=list)
    meanwhile: object = None
    sts: object = None

    def around(self) -> Surroundings:
        return Surroundings(
            sts=self.sts,
            ec2=self.ec2,
            dynamodb=self.dynamodb,
            now=lambda: self.now,
            sleep=self.sleep,
            say=self.said.append,
        )

    def sleep(self, seconds):
        self.now += timedelta(seconds=seconds)
        if self.meanwhile:
            self.meanwhile()


@pytest.fixture(scope="module")
def account(tmp_path_factory):
    with pytest.MonkeyPatch.context() as monkeypatch:
        isolate(monkeypatch, tmp_path_factory.mktemp("aws"))
        with mock_aws():
            yield boto3.client("ec2")


@pytest.fixture
def table(account):
    with table_on(Client(dynamodb(), one_at_a_time=True)) as world:
        yield world


@pytest.fixture
def world(account, table):
    return World(ec2=account, dynamodb=table.client, sts=boto3.client("sts"))


def taken(world, table, owner, *, until):
    return acquire(Table(world.dynamodb, table.table, "shop"), owner, world.now, until, timedelta(seconds=5))


def test_a_run_that_is_still_going_is_waited_for_and_none_can_begin_afterwards(world, table):
    assert isinstance(taken(world, table, "run", until=NOON + timedelta(seconds=40)), Lease)
    hold("shop", table.table, world.around())
    assert timedelta(seconds=40) <= world.now - NOON <= timedelta(seconds=60)
    assert_wording(world.said[0])
    other = taken(world, table, "another", until=world.now + timedelta(seconds=60))
    assert isinstance(other, LeaseHeld)
    assert (other.owner, other.expires) == (OWNER, world.now + KEEP_LEASE)


def test_a_destroy_that_was_interrupted_takes_its_own_lease_again(world, table):
    hold("shop", table.table, world.around())
    world.now += timedelta(seconds=30)
    hold("shop", table.table, world.around())
    assert world.said == []


def test_a_lease_that_never_ends_is_for_a_person(world, table):
    def goes_on():
        taken(world, table, "run", until=world.now + timedelta(minutes=5))

    goes_on()
    world.meanwhile = goes_on
    with pytest.raises(TeardownError) as caught:
        hold("shop", table.table, world.around())
    assert_wording(str(caught.value))
    assert world.now - NOON < LONGEST_RUN + timedelta(minutes=1)


def test_without_a_table_nothing_can_launch_so_nothing_is_held(world):
    hold("shop", "gone", world.around())
    assert_wording(world.said[0])


def test_a_lease_that_may_not_be_taken_stops_the_destroy(world, monkeypatch):
    """Going on without it, a run that is still going could launch workers behind the sweep."""

    def denied(*_):
        raise DeniedError("DynamoDB", "AccessDeniedException", "Allow dynamodb:UpdateItem")

    monkeypatch.setattr(teardown, "acquire", denied)
    with pytest.raises(DeniedError):
        hold("shop", "any", world.around())


def test_a_table_that_does_not_answer_is_asked_again_for_a_while(world, table, monkeypatch):
    answers = [UnavailableError("DynamoDB", "timeout")] * 3

    def at_last(*arguments):
        if answers:
            raise answers.pop()
        return acquire(*arguments)

    monkeypatch.setattr(teardown, "acquire", at_last)
    hold("shop", table.table, world.around())
    assert len(world.said) == 3
    answers += [UnavailableError("DynamoDB", "timeout")] * 1000
    with pytest.raises(UnavailableError):
        hold("shop", table.table, world.around())


# ── terminating ──────────────────────────────────────────────────────────────────────────────────────────────────


def launched(ec2, number=1, *, cluster, role=ROLE_WORKER):
    tags = {TAG_CLUSTER: cluster, TAG_ROLE: role, TAG_POOL: "default"}
    made = ec2.run_instances(
        ImageId="ami-12345678",
        MinCount=number,
        MaxCount=number,
        TagSpecifications=[
            {"ResourceType": "instance", "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}
        ],
    )
    return {instance["InstanceId"] for instance in made["Instances"]}


def states(ec2, identities):
    found = ec2.describe_instances(InstanceIds=list(identities))["Reservations"]
    return {instance["State"]["Name"] for each in found for instance in each["Instances"]}


def test_the_clusters_workers_go_and_nobody_else(world, table):
    ours = launched(world.ec2, 3, cluster="shop")
    master = launched(world.ec2, cluster="shop", role=ROLE_SERVER)
    others = launched(world.ec2, cluster="shop-2") | launched(world.ec2, cluster="sho")
    sweep("shop", table.table, OURS, world.around())
    assert states(world.ec2, ours) == {"terminated"}
    assert states(world.ec2, master | others) == {"running"}
    world.ec2.terminate_instances(InstanceIds=[*master, *others])


def test_a_name_with_wildcards_takes_only_its_own(world):
    others = launched(world.ec2, cluster="blog")
    terminate("b*", world.around())
    assert states(world.ec2, others) == {"running"}
    world.ec2.terminate_instances(InstanceIds=[*others])


def test_a_fleet_too_big_for_one_call_is_terminated_all_the_same(world, monkeypatch):
    monkeypatch.setattr(teardown, "BATCH", 2)
    ours = launched(world.ec2, 5, cluster="big")
    terminate("big", world.around())
    assert states(world.ec2, ours) == {"terminated"}


def test_workers_that_do_not_go_are_for_a_person():
    class Stubborn:
        def get_paginator(self, _):
            return self

        def paginate(self, **_):
            tags = [{"Key": TAG_CLUSTER, "Value": "shop"}]
            return [
                {"Reservations": [{"Instances": [{"InstanceId": "i-1", "State": {"Name": "running"}, "Tags": tags}]}]}
            ]

        def terminate_instances(self, InstanceIds):  # noqa: N803  # boto3's name
            assert InstanceIds == ["i-1"]

    world = World(ec2=Stubborn(), dynamodb=None)
    with pytest.raises(TeardownError) as caught:
        terminate("shop", world.around())
    assert_wording(str(caught.value))


@pytest.mark.parametrize("stored", ["999999999999", None, ""])
def test_in_another_account_nothing_is_swept_and_the_destroy_stops(world, table, stored):
    """Finding no workers there would pass for having none, and those of the stack would run on."""
    ours = launched(world.ec2, 2, cluster="shop")
    with pytest.raises(CredentialsError):
        sweep("shop", table.table, stored, world.around())
    assert states(world.ec2, ours) == {"running"}
    assert isinstance(taken(world, table, "run", until=NOON + timedelta(seconds=40)), Lease)
    world.ec2.terminate_instances(InstanceIds=[*ours])


# ── as a resource ────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_resource_does_nothing_until_it_is_deleted(account, table, monkeypatch):
    ours = launched(account, 2, cluster="shop")
    provider = SweepProvider()
    props = {"cluster": "shop", "region": "us-east-1", "account": OURS, "table": table.table, "__provider": "…"}
    made = provider.create(props)
    assert (made.id, made.outs) == ("shop", {key: props[key] for key in ("cluster", "region", "account", "table")})
    assert not provider.diff("shop", made.outs, props).changes
    assert provider.diff("shop", made.outs, props | {"table": "other"}).changes
    assert provider.diff("shop", made.outs, props | {"cluster": "blog"}).replaces == ["cluster"]
    assert provider.update("shop", made.outs, props | {"table": "other"}).outs["table"] == "other"
    assert states(account, ours) == {"running"}
    monkeypatch.setattr(teardown.time, "sleep", lambda _: None)
    provider.delete("shop", props)
    assert states(account, ours) == {"terminated"}


def test_a_role_of_aws_is_not_made_in_another_account(account):
    props = {"service": "ec2fleet.amazonaws.com", "region": "us-east-1", "account": "999999999999"}
    with pytest.raises(CredentialsError, match="999999999999"):
        ServiceRoleProvider().create(props)


def test_a_role_of_aws_is_made_once_and_found_ever_after(account):
    iam = boto3.client("iam")
    assert made_or_found(iam, "spot.amazonaws.com") == "made"
    assert made_or_found(iam, "spot.amazonaws.com") == "found"
    made = ServiceRoleProvider().create({"service": "ec2fleet.amazonaws.com", "region": "us-east-1", "account": OURS})
    assert (made.id, made.outs["how"]) == ("ec2fleet.amazonaws.com", "made")

    class TakenError(Exception):
        pass

    class Iam:
        class exceptions:  # noqa: N801  # boto3's name
            InvalidInputException = TakenError

        def create_service_linked_role(self, **_):
            raise TakenError("Service role name AWSServiceRoleForEC2Spot has been taken in this account")

    assert made_or_found(Iam(), "spot.amazonaws.com") == "found"
    assert not ServiceRoleProvider().diff("spot", {"service": "spot", "how": "made"}, {"service": "spot"}).changes

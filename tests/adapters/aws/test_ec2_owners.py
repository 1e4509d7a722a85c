"""Whose instances are, by their tags."""

from collections.abc import Iterator

import pytest
from moto import mock_aws

from nodefleet.adapters.aws.ec2 import clusters_of
from nodefleet.adapters.aws.session import Session
from nodefleet.errors import DeniedError, UnavailableError
from nodefleet.model.names import TAG_CLUSTER
from support.ec2_fakes import Clock, Reply, aws_environment, ec2_error, shared_session, wired

__all__ = ["aws_environment", "shared_session"]


@pytest.fixture(scope="module")
def moto_session(shared_session: Session) -> Iterator[Session]:
    with mock_aws():
        yield shared_session


@pytest.fixture
def session(aws_environment: pytest.MonkeyPatch) -> Session:
    """One that answers as it is told."""
    return Session(Clock())


def machine(session: Session, **tags: str) -> str:
    """Tags by their names, with the cluster's as `cluster`."""
    named = [{"Key": TAG_CLUSTER if key == "cluster" else key, "Value": value} for key, value in tags.items()]
    made = session.client("ec2").run_instances(
        ImageId="ami-12345678",
        MinCount=1,
        MaxCount=1,
        **({"TagSpecifications": [{"ResourceType": "instance", "Tags": named}]} if named else {}),
    )
    return made["Instances"][0]["InstanceId"]


def test_the_clusters_of_several_machines_are_found_at_one_go(moto_session):
    machines = [machine(moto_session, cluster="shop"), machine(moto_session, cluster="blog", Name="x")]
    before = moto_session.calls()
    assert clusters_of(moto_session, machines) == dict(zip(machines, ("shop", "blog"), strict=True))
    assert moto_session.calls() == before + 1


def test_a_machine_without_our_tag_is_nobody_s(moto_session):
    assert clusters_of(moto_session, [machine(moto_session, Name="x"), machine(moto_session)]) == {}


def test_an_unknown_machine_does_not_spoil_the_question(moto_session):
    known = machine(moto_session, cluster="shop")
    assert clusters_of(moto_session, [known, "i-0123456789abcdef0"]) == {known: "shop"}


def test_a_machine_that_ended_a_while_ago_still_says_whose_it_was(moto_session):
    ended = machine(moto_session, cluster="shop")
    moto_session.client("ec2").terminate_instances(InstanceIds=[ended])
    assert clusters_of(moto_session, [ended]) == {ended: "shop"}


def test_nobody_is_asked_about_nothing(moto_session):
    before = moto_session.calls()
    assert clusters_of(moto_session, []) == {}
    assert moto_session.calls() == before


PAGE = """<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><reservationSet><item>
<instancesSet><item><instanceId>{id}</instanceId><tagSet><item><key>{key}</key><value>{value}</value></item></tagSet>
</item></instancesSet></item></reservationSet>{more}</DescribeInstancesResponse>"""


def test_all_pages_are_read(session):
    more = PAGE.format(id="i-1", key=TAG_CLUSTER, value="shop", more="<nextToken>more</nextToken>")
    last = PAGE.format(id="i-2", key=TAG_CLUSTER, value="blog", more="")
    wired(session, "ec2", Reply(200, more), Reply(200, last))
    assert clusters_of(session, ["i-1", "i-2"]) == {"i-1": "shop", "i-2": "blog"}


def test_a_filter_takes_two_hundred_values_at_most(moto_session):
    first, last_of_one, first_of_next = (machine(moto_session, cluster=name) for name in ("shop", "blog", "mail"))
    machines = [first, *(f"i-{number:017}" for number in range(198)), last_of_one, first_of_next]
    before = moto_session.calls()
    assert clusters_of(moto_session, machines) == {first: "shop", last_of_one: "blog", first_of_next: "mail"}
    assert moto_session.calls() == before + 2


@pytest.mark.parametrize(
    ("code", "error"), [("UnauthorizedOperation", DeniedError), ("InvalidParameterValue", UnavailableError)]
)
def test_an_ec2_that_does_not_say_is_an_error(session, code, error):
    wired(session, "ec2", ec2_error(code))
    with pytest.raises(error, match=code):
        clusters_of(session, ["i-1"])

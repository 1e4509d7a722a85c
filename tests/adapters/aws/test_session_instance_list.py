"""A list of instances is the same as botocore would give it, in the fields that somebody reads."""

from datetime import UTC, datetime

import pytest
from botocore.exceptions import ClientError
from botocore.parsers import ResponseParserError, create_parser

from nodefleet.adapters.aws.ec2 import Ec2
from nodefleet.adapters.aws.session import Session
from support.ec2_fakes import CLUSTER, Clock, Reply, Wire, ec2_error, shared_session, wired

__all__ = ["shared_session"]

READ = {"Instances", "InstanceId", "InstanceType", "InstanceLifecycle", "LaunchTime", "Tags", "Key", "Value"}
READ |= {"State", "Name", "Placement", "AvailabilityZone", "BlockDeviceMappings", "Ebs", "AttachTime"}
SPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"
SPOT = """<item>
  <instanceId>i-1</instanceId><imageId>ami-1</imageId>
  <instanceState><code>16</code><name>running</name></instanceState>
  <instanceType>t3.small</instanceType><launchTime>2026-11-16T11:02:03.000Z</launchTime>
  <placement><availabilityZone>eu-west-1a</availabilityZone><groupName/><tenancy>default</tenancy></placement>
  <instanceLifecycle>spot</instanceLifecycle>
  <blockDeviceMapping>
    <item><deviceName>/dev/xvda</deviceName><ebs><volumeId>vol-1</volumeId><status>attached</status>
      <attachTime>2026-11-02T09:00:00.000Z</attachTime><deleteOnTermination>true</deleteOnTermination></ebs></item>
    <item><deviceName>/dev/xvdb</deviceName><ebs><volumeId>vol-2</volumeId></ebs></item>
    <item><deviceName>/dev/xvdc</deviceName></item>
  </blockDeviceMapping>
  <networkInterfaceSet><item><networkInterfaceId>eni-1</networkInterfaceId></item></networkInterfaceSet>
  <tagSet>
    <item><key>node-fleet:cluster</key><value>shop &amp; more</value></item>
    <item><key>empty</key><value/></item>
  </tagSet>
</item>"""
BARE = "<item><instanceId>i-2</instanceId><tagSet/></item>"


def answer(*reservations: str, more: str = "", space: str = f' xmlns="{SPACE}"') -> str:
    items = "".join(f"<item><instancesSet>{machines}</instancesSet></item>" for machines in reservations)
    token = f"<nextToken>{more}</nextToken>" if more else ""
    listed = f"<requestId>r-1</requestId><reservationSet>{items}</reservationSet>{token}"
    return f"<DescribeInstancesResponse{space}>{listed}</DescribeInstancesResponse>"


@pytest.fixture(scope="module")
def wire(shared_session: Session) -> Wire:
    return wired(shared_session, "ec2")


@pytest.fixture(scope="module")
def asked(shared_session: Session, wire: Wire):
    """What a list is when EC2 answers with this."""

    def ask(body: str | Reply):
        wire.replies.append(body if isinstance(body, Reply) else Reply(200, body))
        return shared_session.client("ec2").describe_instances()

    return ask


@pytest.fixture(scope="module")
def by_botocore(shared_session: Session):
    """What botocore alone makes of it."""
    shape = shared_session.client("ec2").meta.service_model.operation_model("DescribeInstances").output_shape
    return lambda body: create_parser("ec2").parse({"status_code": 200, "headers": {}, "body": body.encode()}, shape)


def read(found):
    """Only what somebody reads."""
    match found:
        case list():
            return [read(each) for each in found]
        case dict():
            return {key: read(each) for key, each in found.items() if key in READ}
        case _:
            return found


@pytest.mark.parametrize(
    "body",
    [
        answer(SPOT, more="next"),
        answer(SPOT + BARE, BARE),
        answer(BARE, ""),
        answer(),
        answer(SPOT, space=' xmlns="http://ec2.amazonaws.com/doc/2013-10-15/"'),
        answer(SPOT, space=""),
    ],
)
def test_what_is_read_is_what_botocore_reads(asked, by_botocore, body):
    ours, theirs = asked(body), by_botocore(body)
    assert read(ours["Reservations"]) == read(theirs["Reservations"])
    assert ours.get("NextToken") == theirs.get("NextToken")
    assert ours["ResponseMetadata"]["RequestId"] == theirs["ResponseMetadata"]["RequestId"]


def test_an_instance_that_was_started_again_is_as_old_as_its_disk(shared_session, wire):
    wire.replies.append(Reply(200, answer(SPOT.replace("shop &amp; more", CLUSTER))))
    (instance,) = Ec2(shared_session, CLUSTER, {}, Clock()).instances()
    assert instance.first_launched_at == datetime(2026, 11, 2, 9, tzinfo=UTC)
    assert instance.launched_at == datetime(2026, 11, 16, 11, 2, 3, tzinfo=UTC)


def test_a_time_has_its_zone(asked):
    ((machine,),) = [each["Instances"] for each in asked(answer(SPOT))["Reservations"]]
    assert machine["LaunchTime"] == datetime(2026, 11, 16, 11, 2, 3, tzinfo=UTC)


def test_what_nobody_reads_is_left_out(asked):
    ((machine,),) = [each["Instances"] for each in asked(answer(SPOT))["Reservations"]]
    assert machine == read(machine)
    assert "State" in machine


def test_a_refusal_is_still_one(asked):
    with pytest.raises(ClientError, match="UnauthorizedOperation"):
        asked(ec2_error("UnauthorizedOperation"))


@pytest.mark.parametrize("body", ["<DescribeInstancesResponse", ""])
def test_what_is_no_answer_is_botocore_s_to_refuse(asked, body):
    with pytest.raises(ResponseParserError):
        asked(body)


def test_an_answer_without_a_list_has_none(asked, by_botocore):
    body = f'<DescribeInstancesResponse xmlns="{SPACE}"><requestId>r-1</requestId></DescribeInstancesResponse>'
    assert "Reservations" not in asked(body)
    assert "Reservations" not in by_botocore(body)


def test_a_time_in_another_form_leaves_the_whole_list_to_botocore(asked, by_botocore):
    body = answer(SPOT.replace("2026-11-16T11:02:03.000Z", "Mon, 16 Nov 2026 11:02:03 GMT"))
    assert asked(body)["Reservations"] == by_botocore(body)["Reservations"]

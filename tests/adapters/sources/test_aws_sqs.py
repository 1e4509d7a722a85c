import boto3
import pytest
from botocore.stub import Stubber
from moto import mock_aws

from nodefleet.adapters.sources.aws import SqsQueues
from nodefleet.errors import MisconfiguredError
from nodefleet.model.snapshot import Missing, Reading
from nodefleet.policy.sources import Sqs
from support.builders import NOON
from support.ec2_fakes import aws_environment
from support.source_doubles import moment

__all__ = ["aws_environment"]
pytestmark = pytest.mark.usefixtures("aws_environment")

URL = "https://sqs.us-east-1.amazonaws.com/123456789012/orders"
WAITING, RUNNING = "ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"


@pytest.fixture
def stubbed():
    client = boto3.client("sqs")
    with Stubber(client) as stub:
        yield SqsQueues(lambda: client), stub


def test_a_queue_tells_how_many_messages_wait_and_run():
    with mock_aws():
        client = boto3.client("sqs")
        url = client.create_queue(QueueName="orders")["QueueUrl"]
        for number in range(3):
            client.send_message(QueueUrl=url, MessageBody=str(number))
        client.receive_message(QueueUrl=url)
        got = SqsQueues(lambda: client).read(url, [WAITING, RUNNING], NOON)
    assert got == {WAITING: Reading(2, NOON), RUNNING: Reading(1, NOON)}


def test_a_queue_that_is_not_there_says_what_to_check():
    with mock_aws():
        got = SqsQueues(lambda: boto3.client("sqs")).read(URL, [WAITING], NOON)
    assert got == {
        WAITING: Missing("SQS has no queue orders in our region and account: check its queue_url in the policy")
    }


def test_one_call_for_all_attributes_and_a_wrong_name_spoils_only_itself(stubbed):
    queues, stub = stubbed
    stub.add_response(
        "get_queue_attributes",
        {"Attributes": {WAITING: "5", RUNNING: "0", "QueueArn": "arn:aws:sqs:x"}},
        {"QueueUrl": URL, "AttributeNames": ["All"]},
    )
    got = queues.read(URL, [WAITING, "Messages", "QueueArn"], NOON)
    assert got == {
        WAITING: Reading(5, NOON),
        "Messages": Missing(f"the queue has no attribute Messages: use one of {WAITING}, {RUNNING}"),
        "QueueArn": Missing("the queue's attribute QueueArn is no number"),
    }


def test_an_answer_without_attributes_is_missing(stubbed):
    queues, stub = stubbed
    stub.add_response("get_queue_attributes", {})
    assert queues.read(URL, [WAITING], NOON) == {WAITING: Missing(f"the queue has no attribute {WAITING}: use one of ")}


def test_each_queue_is_one_call_and_is_named(stubbed):
    queues, stub = stubbed
    stub.add_response("get_queue_attributes", {"Attributes": {WAITING: "5", RUNNING: "1"}})
    entries = [Sqs(queue_url=URL, attribute=name) for name in (RUNNING, WAITING)]
    (call,) = queues.calls(entries, moment())
    assert (call.service, call.entries, call.read()) == ("SQS", tuple(entries), [Reading(1, NOON), Reading(5, NOON)])


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("AccessDenied", "Allow sqs:GetQueueAttributes to the autoscaler's role"),
        ("RequestThrottled", "SQS: GetQueueAttributes: RequestThrottled"),
        ("InternalError", "SQS: GetQueueAttributes: InternalError"),
        ("QueueDoesNotExist", "check its queue_url in the policy"),
    ],
)
def test_a_refusal_is_missing_with_what_to_do(stubbed, code, told):
    queues, stub = stubbed
    stub.add_client_error("get_queue_attributes", code)
    got = queues.read(URL, [WAITING, RUNNING], NOON)
    assert got[WAITING] == got[RUNNING]
    assert isinstance(got[WAITING], Missing)
    assert told in got[WAITING].cause


def test_a_client_that_cannot_be_made_is_missing():
    def unmade():
        raise MisconfiguredError("SQS: no region")

    assert SqsQueues(unmade).read(URL, [WAITING], NOON) == {WAITING: Missing("SQS: no region")}

"""Marks in the table: of several runs one tells, and none tells again."""

from datetime import UTC, datetime, timedelta

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from moto import mock_aws

from nodefleet.adapters.aws.session import Session
from nodefleet.adapters.dynamodb.delivery_log import DynamoApprovals, DynamoDeliveryLog, DynamoThreads
from nodefleet.errors import MisconfiguredError, UnavailableError
from nodefleet.notifications.approvals import Approval
from nodefleet.notifications.delivery import Busy, DeliveryClaim
from support.message_examples import AT, alarm, event

TABLE = "nodefleet-test"
MINUTE = timedelta(minutes=1)
TOLD = event(id="abc")


@pytest.fixture
def session(monkeypatch):
    for name, value in {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_SESSION_TOKEN": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    with mock_aws():
        made = Session(lambda: datetime.now(UTC), region="us-east-1")
        made.client("dynamodb").create_table(
            TableName=TABLE,
            KeySchema=[
                {"AttributeName": "cluster_id", "KeyType": "HASH"},
                {"AttributeName": "record", "KeyType": "RANGE"},
            ],
            AttributeDefinitions=[
                {"AttributeName": "cluster_id", "AttributeType": "S"},
                {"AttributeName": "record", "AttributeType": "S"},
            ],
            BillingMode="PAY_PER_REQUEST",
        )
        yield made


def marks(session, owner="one", table=TABLE):
    return DynamoDeliveryLog(session, table, owner)


def item(session, told=TOLD, cluster="shop"):
    key = {"cluster_id": {"S": cluster}, "record": {"S": f"sent#{told.id}"}}
    return session.client("dynamodb").get_item(TableName=TABLE, Key=key).get("Item")


def test_the_first_to_ask_has_it(session):
    assert marks(session).claim(TOLD, AT, AT + MINUTE) is DeliveryClaim.MINE


def test_of_many_runs_one_has_it(session):
    claims = [marks(session, f"run {number}").claim(TOLD, AT, AT + MINUTE) for number in range(20)]
    assert claims == [DeliveryClaim.MINE] + [Busy(until=AT + MINUTE)] * 19


def test_a_mark_says_who_made_it_and_is_forgotten_in_its_time(session):
    marks(session).claim(TOLD, AT, AT + MINUTE)
    until = AT + MINUTE
    key = {"cluster_id": {"S": "shop"}, "record": {"S": "sent#abc"}}
    claimed = item(session)
    assert int(claimed.pop("ttl")["N"]) == (until + timedelta(days=1)).timestamp()
    assert claimed == {
        **key,
        "stage": {"S": "sending"},
        "owner": {"S": "one"},
        "until": {"N": str(int(until.timestamp() * 1000))},
    }
    marks(session).mark_sent(TOLD, AT + timedelta(days=7))
    forgotten = str(int((AT + timedelta(days=7)).timestamp()))
    assert item(session) == {**key, "stage": {"S": "sent"}, "owner": {"S": "one"}, "ttl": {"N": forgotten}}


def test_what_was_told_is_told(session):
    marks(session).claim(TOLD, AT, AT + MINUTE)
    marks(session).mark_sent(TOLD, AT + timedelta(days=7))
    assert marks(session, "two").claim(TOLD, AT + timedelta(hours=5), AT + timedelta(hours=6)) is DeliveryClaim.TOLD
    assert marks(session, "one").claim(TOLD, AT, AT + MINUTE) is DeliveryClaim.TOLD


def test_a_claim_that_has_ended_can_be_taken(session):
    marks(session).claim(TOLD, AT, AT + MINUTE)
    assert marks(session, "two").claim(TOLD, AT + MINUTE, AT + 2 * MINUTE) == Busy(until=AT + MINUTE)
    later = AT + MINUTE + timedelta(milliseconds=1)
    assert marks(session, "two").claim(TOLD, later, AT + 2 * MINUTE) is DeliveryClaim.MINE
    assert marks(session, "three").claim(TOLD, later, AT + 3 * MINUTE) == Busy(until=AT + 2 * MINUTE)


def test_a_claim_whose_answer_was_lost_is_still_ours(session):
    """botocore sends a request again when its answer was lost."""
    marks(session).claim(TOLD, AT, AT + MINUTE)
    assert marks(session).claim(TOLD, AT, AT + MINUTE) is DeliveryClaim.MINE


def test_a_claim_that_is_given_back_can_be_taken_at_once(session):
    marks(session).claim(TOLD, AT, AT + MINUTE)
    marks(session).release(TOLD)
    assert marks(session, "two").claim(TOLD, AT, AT + MINUTE) is DeliveryClaim.MINE


def test_another_s_claim_is_not_given_back(session):
    marks(session, "two").claim(TOLD, AT, AT + MINUTE)
    marks(session).release(TOLD)
    assert marks(session, "three").claim(TOLD, AT, AT + MINUTE) == Busy(until=AT + MINUTE)


def test_what_was_told_cannot_be_given_back(session):
    marks(session).mark_sent(TOLD, AT + timedelta(days=7))
    marks(session).release(TOLD)
    assert marks(session, "two").claim(TOLD, AT, AT + MINUTE) is DeliveryClaim.TOLD


def test_giving_back_what_nobody_has_does_nothing(session):
    marks(session).release(TOLD)
    assert item(session) is None


def test_a_slow_run_that_lost_its_claim_still_notes_that_it_told(session):
    marks(session).claim(TOLD, AT, AT + MINUTE)
    marks(session, "two").claim(TOLD, AT + 2 * MINUTE, AT + 3 * MINUTE)
    marks(session).mark_sent(TOLD, AT + timedelta(days=7))
    assert marks(session, "three").claim(TOLD, AT + 9 * MINUTE, AT + 10 * MINUTE) is DeliveryClaim.TOLD


def test_marks_are_forgotten_by_the_table_itself(session):
    marks(session).claim(TOLD, AT, AT + MINUTE)
    claimed = int(item(session)["ttl"]["N"])
    assert claimed > (AT + MINUTE).timestamp()
    marks(session).mark_sent(TOLD, AT + timedelta(days=7))
    assert item(session)["ttl"] == {"N": str(int((AT + timedelta(days=7)).timestamp()))}


def test_the_same_id_in_another_cluster_is_another_event(session):
    marks(session).claim(TOLD, AT, AT + MINUTE)
    assert marks(session, "two").claim(event(id="abc", cluster="blog"), AT, AT + MINUTE) is DeliveryClaim.MINE


def test_an_alarm_of_no_cluster_is_remembered_too(session):
    told = alarm(cluster="")
    marks(session).claim(told, AT, AT + MINUTE)
    marks(session).mark_sent(told, AT + timedelta(days=7))
    assert item(session, told, cluster="-") is not None
    assert marks(session, "two").claim(told, AT, AT + MINUTE) is DeliveryClaim.TOLD


@pytest.mark.parametrize(
    "call",
    [
        lambda marks: marks.claim(TOLD, AT, AT + MINUTE),
        lambda marks: marks.release(TOLD),
        lambda marks: marks.mark_sent(TOLD, AT),
    ],
)
def test_a_table_that_is_not_there_is_an_error_of_ours(session, call):
    with pytest.raises(MisconfiguredError):
        call(marks(session, table="no-such-table"))


class Refusing:
    """A session whose DynamoDB answers every call with this."""

    def __init__(self, problem):
        self.problem = problem

    def client(self, service):
        assert service == "dynamodb"
        return self

    def __getattr__(self, name):
        def refuse(**_):
            raise self.problem

        return refuse


QUESTION = Approval(id="e1", cluster="shop", instances=("i-1",), message="7.1", asked=AT, until=AT + MINUTE)


@pytest.mark.parametrize(
    "call",
    [
        lambda session: DynamoDeliveryLog(session, TABLE, "one").claim(TOLD, AT, AT + MINUTE),
        lambda session: DynamoDeliveryLog(session, TABLE, "one").release(TOLD),
        lambda session: DynamoDeliveryLog(session, TABLE, "one").mark_sent(TOLD, AT),
        lambda session: DynamoThreads(session, TABLE).find("shop", "alarm/x", AT),
        lambda session: DynamoThreads(session, TABLE).keep("shop", "alarm/x", "7.1", AT),
        lambda session: DynamoThreads(session, TABLE).drop("shop", "alarm/x"),
        lambda session: DynamoApprovals(session, TABLE).keep(QUESTION),
        lambda session: DynamoApprovals(session, TABLE).all(),
        lambda session: DynamoApprovals(session, TABLE).drop(QUESTION),
    ],
)
def test_every_call_says_when_dynamodb_is_away(call):
    with pytest.raises(UnavailableError) as raised:
        call(Refusing(EndpointConnectionError(endpoint_url="https://dynamodb")))
    assert raised.value.part == "DynamoDB"


@pytest.mark.parametrize("item", [None, {}, {"stage": {"S": "sending"}}, {"owner": {"S": "two"}}])
def test_a_claim_that_does_not_say_until_when_it_stands_may_stand_as_long_as_ours(item):
    held = {} if item is None else {"Item": item}
    answer = {"Error": {"Code": "ConditionalCheckFailedException"}, **held}
    refusing = Refusing(ClientError(answer, "PutItem"))
    assert DynamoDeliveryLog(refusing, TABLE, "one").claim(TOLD, AT, AT + MINUTE) == Busy(until=AT + MINUTE)


# ── threads ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_thread_is_remembered_until_it_is_over_or_old(session):
    threads, until = DynamoThreads(session, TABLE), AT + timedelta(days=2)
    assert threads.find("shop", "alarm/x", AT) == ""
    threads.keep("shop", "alarm/x", "7.1", until)
    assert threads.find("shop", "alarm/x", AT) == "7.1"
    assert threads.find("shop", "alarm/y", AT) == ""
    assert threads.find("blog", "alarm/x", AT) == ""
    assert threads.find("shop", "alarm/x", until - timedelta(seconds=1)) == "7.1"
    assert threads.find("shop", "alarm/x", until) == "", "TTL is lazy"
    threads.drop("shop", "alarm/x")
    assert threads.find("shop", "alarm/x", AT) == ""


def test_an_incident_of_no_cluster_has_a_thread_too(session):
    threads = DynamoThreads(session, TABLE)
    threads.keep("", "alarm/x", "7.1", AT + MINUTE)
    assert threads.find("", "alarm/x", AT) == "7.1"


# ── approvals ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_questions_of_all_clusters_stand_until_they_are_dropped(session):
    approvals = DynamoApprovals(session, TABLE)
    assert approvals.all() == ()
    made = [
        Approval(id="e1", cluster=cluster, instances=("i-1", "i-2"), message="7.1", asked=AT, until=AT + MINUTE)
        for cluster in ("blog", "shop")
    ]
    for each in (*made, *made):
        approvals.keep(each)
    DynamoThreads(session, TABLE).keep("shop", "alarm/x", "7.1", AT + MINUTE)
    assert list(approvals.all()) == made
    key = {"cluster_id": {"S": "@all"}, "record": {"S": "approval#shop#e1"}}
    stored = session.client("dynamodb").get_item(TableName=TABLE, Key=key)["Item"]
    assert stored["ttl"] == {"N": str(int((AT + MINUTE + timedelta(days=1)).timestamp()))}
    sent = []
    session.client("dynamodb").meta.events.register("before-parameter-build", lambda params, **_: sent.append(params))
    approvals.all()
    assert sent[0]["ConsistentRead"] is True
    approvals.drop(made[0])
    assert list(approvals.all()) == made[1:]

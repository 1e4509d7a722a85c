"""What was told, in the table: one small item for each event, deleted by TTL some days later.

    none                     may be claimed
    sending, until …         a sender works on it, or died: may be claimed once that time has passed
    sent                     done

The claim is a conditional put, so of two runs at the same instant one has it. TTL is lazy: nothing here waits for it.
"""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.exceptions import ClientError  # type: ignore[import-untyped]

from nodefleet.adapters.aws.errors import calling, code_of
from nodefleet.adapters.aws.session import Session
from nodefleet.adapters.dynamodb.codec import PARTITION, SORT, TTL
from nodefleet.model.names import SHARED_PARTITION
from nodefleet.model.serialization import from_plain, to_plain
from nodefleet.notifications.approvals import Approval
from nodefleet.notifications.delivery import Busy, Claimed, DeliveryClaim
from nodefleet.notifications.incoming import Notifiable

_NOBODY = "-"  # an alarm may belong to no cluster, and a key must not be empty
_PREFIX = "sent#"
_THREAD = "thread#"
_APPROVAL = "approval#"
_SENDING = "sending"
_SENT = "sent"
_FREE = "attribute_not_exists(#record) OR (#stage = :sending AND #until < :now)"
_OURS = "#stage = :sending AND #owner = :owner"
_NAMES = {"#record": SORT, "#stage": "stage", "#until": "until"}
_FORGET_CLAIM = timedelta(days=1)
_CONDITION = "ConditionalCheckFailedException"


class DynamoDeliveryLog:
    def __init__(self, session: Session, table: str, owner: str) -> None:
        self._session = session
        self._table = table
        self._owner = owner  # this run, unlike any other: Lambda's request id comes again with a redelivery

    def claim(self, told: Notifiable, now: datetime, until: datetime) -> Claimed:
        item = {
            **_key(told),
            "stage": {"S": _SENDING},
            "owner": {"S": self._owner},
            "until": _number(_milliseconds(until)),
            TTL: _number(_seconds(until + _FORGET_CLAIM)),
        }
        with calling("DynamoDB"):
            try:
                self._client.put_item(
                    TableName=self._table,
                    Item=item,
                    ConditionExpression=_FREE,
                    ExpressionAttributeNames=_NAMES,
                    ExpressionAttributeValues={":sending": {"S": _SENDING}, ":now": _number(_milliseconds(now))},
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
            except ClientError as problem:
                if code_of(problem) != _CONDITION:
                    raise
                return self._decode_claim(problem.response.get("Item", {}), until)
        return DeliveryClaim.MINE

    def _decode_claim(self, item: dict[str, Any], until: datetime) -> Claimed:
        """What stands there instead. Our own claim is ours: its answer was lost and the client asked again."""
        if item.get("stage", {}).get("S") == _SENT:
            return DeliveryClaim.TOLD
        if item.get("owner", {}).get("S") == self._owner:
            return DeliveryClaim.MINE
        claimed = item.get("until", {}).get("N")
        return Busy(until=datetime.fromtimestamp(int(claimed) / 1000, UTC) if claimed else until)

    def release(self, told: Notifiable) -> None:
        with calling("DynamoDB"):
            try:
                self._client.delete_item(
                    TableName=self._table,
                    Key=_key(told),
                    ConditionExpression=_OURS,
                    ExpressionAttributeNames={"#stage": "stage", "#owner": "owner"},
                    ExpressionAttributeValues={":sending": {"S": _SENDING}, ":owner": {"S": self._owner}},
                )
            except ClientError as problem:
                if code_of(problem) != _CONDITION:
                    raise

    def mark_sent(self, told: Notifiable, forget: datetime) -> None:
        item = {**_key(told), "stage": {"S": _SENT}, "owner": {"S": self._owner}, TTL: _number(_seconds(forget))}
        with calling("DynamoDB"):
            self._client.put_item(TableName=self._table, Item=item)

    @property
    def _client(self) -> Any:
        return self._session.client("dynamodb")


class DynamoThreads:
    """The first Slack message of each open incident: `thread#<incident>`, deleted by TTL."""

    def __init__(self, session: Session, table: str) -> None:
        self._session = session
        self._table = table

    def find(self, cluster: str, incident: str, now: datetime) -> str:
        key = _thread_key(cluster, incident)
        with calling("DynamoDB"):
            found = self._session.client("dynamodb").query(
                TableName=self._table,
                KeyConditionExpression=f"#{PARTITION} = :cluster AND #{SORT} = :record",
                ExpressionAttributeNames={f"#{PARTITION}": PARTITION, f"#{SORT}": SORT},
                ExpressionAttributeValues={":cluster": key[PARTITION], ":record": key[SORT]},
            )["Items"]
        # TTL is lazy: what should be gone may still be there.
        current = (each for each in found if int(each[TTL]["N"]) > _seconds(now))
        return next((str(each["message"]["S"]) for each in current), "")

    def keep(self, cluster: str, incident: str, message: str, until: datetime) -> None:
        item = {**_thread_key(cluster, incident), "message": {"S": message}, TTL: _number(_seconds(until))}
        with calling("DynamoDB"):
            self._session.client("dynamodb").put_item(TableName=self._table, Item=item)

    def drop(self, cluster: str, incident: str) -> None:
        with calling("DynamoDB"):
            self._session.client("dynamodb").delete_item(TableName=self._table, Key=_thread_key(cluster, incident))


class DynamoApprovals:
    """Questions that stand, of all clusters: `approval#<cluster>#<event>` of the shared partition, so that reading them
    is one query; deleted by TTL some time after their end."""

    def __init__(self, session: Session, table: str) -> None:
        self._session = session
        self._table = table

    def keep(self, approval: Approval) -> None:
        item = {
            **_approval_key(approval),
            "question": {"S": json.dumps(to_plain(approval))},
            TTL: _number(_seconds(approval.until + _FORGET_CLAIM)),
        }
        with calling("DynamoDB"):
            self._session.client("dynamodb").put_item(TableName=self._table, Item=item)

    def all(self) -> tuple[Approval, ...]:
        with calling("DynamoDB"):
            found = self._session.client("dynamodb").query(
                TableName=self._table,
                KeyConditionExpression=f"#{PARTITION} = :shared AND begins_with(#{SORT}, :prefix)",
                ExpressionAttributeNames={f"#{PARTITION}": PARTITION, f"#{SORT}": SORT},
                ExpressionAttributeValues={":shared": {"S": SHARED_PARTITION}, ":prefix": {"S": _APPROVAL}},
                ConsistentRead=True,
            )["Items"]
        return tuple(from_plain(Approval, json.loads(each["question"]["S"])) for each in found)

    def drop(self, approval: Approval) -> None:
        with calling("DynamoDB"):
            self._session.client("dynamodb").delete_item(TableName=self._table, Key=_approval_key(approval))


def _approval_key(approval: Approval) -> dict[str, Any]:
    return {PARTITION: {"S": SHARED_PARTITION}, SORT: {"S": f"{_APPROVAL}{approval.cluster}#{approval.id}"}}


def _thread_key(cluster: str, incident: str) -> dict[str, Any]:
    return {PARTITION: {"S": cluster or _NOBODY}, SORT: {"S": f"{_THREAD}{incident}"}}


def _key(told: Notifiable) -> dict[str, Any]:
    return {PARTITION: {"S": told.cluster or _NOBODY}, SORT: {"S": f"{_PREFIX}{told.id}"}}


def _number(value: int) -> dict[str, str]:
    return {"N": str(value)}


def _milliseconds(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def _seconds(at: datetime) -> int:
    return int(at.timestamp())

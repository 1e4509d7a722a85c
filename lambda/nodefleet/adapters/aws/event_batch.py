"""Events that come through a queue: Lambda gives several of them at once, each as the body of a message.

What comes again is named by its message, so that one cluster's trouble does not bring back what others have done.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from nodefleet.errors import MalformedError

_SOURCE = "aws:sqs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    id: str
    body: str

    def event(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError:
            raise MalformedError("the body of a message is not JSON") from None


def messages_in(event: Any) -> tuple[Message, ...] | None:
    """The messages of a batch; none if the event did not come through a queue."""
    match event:
        case {"Records": [{"eventSource": source}, *_] as records} if source == _SOURCE:
            return tuple(_message(record) for record in records)
        case _:
            return None


def come_again(messages: Iterable[Message]) -> list[dict[str, str]]:
    """As Lambda wants them named (ReportBatchItemFailures)."""
    return [{"itemIdentifier": message.id} for message in messages]


def _message(record: Any) -> Message:
    match record:
        case {"messageId": str(identity), "body": str(body)}:
            return Message(id=identity, body=body)
        case _:
            raise MalformedError("a record is not a message of SQS")

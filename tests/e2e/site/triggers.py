"""What starts the functions: the schedule, EventBridge's rules, topics, and the table's stream."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from e2e.site.functions import Functions
from e2e.site.patterns import matches
from e2e.site.stack import Stack
from e2e.site.waiting import Beside
from e2e.streams import Mapped, StreamPump

_LOOK_EVERY = 0.5  # seconds; of queue and stream


class Bus:
    """EventBridge: an event that matches a rule of the stack goes to its queue, and from there to a function.

    Each message is a batch of its own here, and one that fails comes again at once rather than when it is visible
    again; how batches are put together is tried in the simulation.
    """

    def __init__(self, stack: Stack, functions: Functions) -> None:
        self._stack, self._functions = stack, functions

    def put(self, event: dict[str, Any]) -> None:
        for pattern, queue in self._stack.rules:
            if matches(pattern, event):
                name = self._stack.function(self._stack.listener(queue).split(":")[0])
                message = {"messageId": str(uuid4()), "eventSource": "aws:sqs", "body": json.dumps(event)}
                self._functions.start(name, {"Records": [message]}, retries=self._stack.receives(queue) - 1)


class Schedule(Beside):
    """Off until it is started."""

    def __init__(self, stack: Stack, functions: Functions, every: float) -> None:
        super().__init__("schedule", every, lambda: functions.start("reconcile", stack.tick))


class Topics(Beside):
    """SNS → functions: the message that moto's SNS put into a queue, wrapped as SNS wraps it for Lambda."""

    def __init__(self, stack: Stack, functions: Functions) -> None:
        super().__init__("topics", _LOOK_EVERY, self._deliver)
        self._stack, self._functions = stack, functions

    def forget(self) -> None:
        """What was published meanwhile reaches nobody."""
        while list(self._taken()):
            pass

    def _deliver(self) -> None:
        for told in self._taken():
            record = {"EventSource": "aws:sns", "EventVersion": "1.0", "Sns": told}
            start(self._stack, self._functions, self._stack.cloud.subscribed[told["TopicArn"]], {"Records": [record]})

    def _taken(self) -> Iterator[dict[str, Any]]:
        sqs, url = self._stack.cloud.client("sqs"), self._stack.cloud.queue
        for message in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", ()):
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            yield json.loads(message["Body"])


class Stream(Beside):
    """The table's stream → `notify`."""

    def __init__(self, stack: Stack, functions: Functions) -> None:
        streams, arn = stack.cloud.client("dynamodbstreams"), stack.mapping.inputs["eventSourceArn"]
        self.pump = StreamPump(
            streams, arn, Mapped.declared(stack.graph), lambda event: functions.invoke("notify", event)
        )
        super().__init__("stream", _LOOK_EVERY, self.pump.pump)


def start(stack: Stack, functions: Functions, target: str, event: Any) -> None:
    """By the target's function and alias, which says how often an error is tried again."""
    full, alias = target.split(":")
    name = stack.function(full)
    functions.start(name, event, retries=stack.retries(name, alias))

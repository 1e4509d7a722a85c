"""SQS: an attribute of a queue. One call for a queue, however many of its attributes the policy reads.

SQS counts approximately and gives no time: the counts are those of the moment of asking, as far as it knows.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from botocore.exceptions import ClientError  # type: ignore[import-untyped]

from nodefleet.adapters.aws.errors import calling, code_of
from nodefleet.adapters.sources.port import Moment, SourceCall, group
from nodefleet.errors import NodeFleetError
from nodefleet.model.readings import Missing, Reading, Sample
from nodefleet.policy.demand import Sqs

_NO_QUEUE = frozenset(
    {"AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist", "InvalidAddress", "QueueDeletedRecently"}
)


class SqsQueues:
    def __init__(self, client: Callable[[], Any]) -> None:
        """`client` gives boto3's sqs client when it is needed."""
        self._client = client

    def calls(self, entries: Sequence[Sqs], moment: Moment) -> Iterator[SourceCall]:
        for url, alike in group(entries, lambda entry: entry.queue_url).items():
            yield SourceCall("SQS", alike, partial(self._read, url, alike, moment.now))

    def _read(self, url: str, entries: Sequence[Sqs], now: datetime) -> list[Sample]:
        found = self.read(url, [entry.attribute for entry in entries], now)
        return [found[entry.attribute] for entry in entries]

    def read(self, queue_url: str, attributes: Sequence[str], now: datetime) -> Mapping[str, Sample]:
        try:
            # All of them: a name that SQS does not know would make it refuse the call, and with it the good names.
            with calling("SQS"):
                found = self._attributes(queue_url)
        except NodeFleetError as problem:
            return dict.fromkeys(attributes, Missing(str(problem)))
        if found is None:
            name = queue_url.rsplit("/", maxsplit=1)[-1]
            cause = f"SQS has no queue {name} in our region and account: check its queue_url in the policy"
            return dict.fromkeys(attributes, Missing(cause))
        return {name: _sample(name, found, now) for name in attributes}

    def _attributes(self, queue_url: str) -> Mapping[str, str] | None:
        """None if there is no such queue."""
        try:
            answer = self._client().get_queue_attributes(QueueUrl=queue_url, AttributeNames=["All"])
        except ClientError as problem:
            if code_of(problem) in _NO_QUEUE:
                return None
            raise
        attributes: Mapping[str, str] = answer.get("Attributes", {})
        return attributes


def _sample(name: str, found: Mapping[str, str], now: datetime) -> Sample:
    text = found.get(name)
    if text is None:
        counts = ", ".join(sorted(each for each in found if each.startswith("Approximate")))
        return Missing(f"the queue has no attribute {name}: use one of {counts}")
    if not text.isdecimal():
        return Missing(f"the queue's attribute {name} is no number")
    return Reading(float(text), now)

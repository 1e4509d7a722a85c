"""CloudWatch and SQS.

Of a CloudWatch metric the last full period counts. One GetMetricData reads all entries of an iteration.

The period that has just ended does not count while parts of it may still arrive (up to one more period, a minute at
most): a sum over half of them would look like half the load. A reading has the time of the end of its period. A gap is
a gap, not a zero.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from math import isfinite, lcm
from typing import Any

from botocore.exceptions import ClientError  # type: ignore[import-untyped]

from nodefleet.adapters.aws.errors import calling, code_of
from nodefleet.adapters.sources.port import Moment, SourceCall, group
from nodefleet.errors import NodeFleetError
from nodefleet.model.snapshot import Missing, Reading, Sample
from nodefleet.policy.sources import CloudWatch, Sqs

SETTLES_WITHIN = timedelta(minutes=1)
_MOST_AT_ONCE = 500  # of GetMetricData
_MOST_PAGES = 10
_SECOND = timedelta(seconds=1)
_PERCENTILE = r"(p|tm|wm|tc|ts)(100|\d{1,2})(\.\d{1,10})?"
_TRIMMED = r"(PR|TM|WM|TC|TS)\(\d*\.?\d*%?:\d*\.?\d*%?\)"
_STATISTIC = re.compile(rf"SampleCount|Average|Sum|Minimum|Maximum|IQM|{_PERCENTILE}|{_TRIMMED}")


class CloudWatchMetrics:
    def __init__(self, client: Callable[[], Any]) -> None:
        """`client` gives boto3's cloudwatch client when it is needed."""
        self._client = client

    def calls(self, entries: Sequence[CloudWatch], moment: Moment) -> Iterator[SourceCall]:
        yield SourceCall("CloudWatch", tuple(entries), partial(self.read, entries, moment.now, moment.stale_after))

    def read(self, sources: Sequence[CloudWatch], now: datetime, back: timedelta) -> list[Sample]:
        """The newest full period of each, in order, if there is one within the last `back`."""
        # CloudWatch refuses the whole call for one wrong statistic.
        asked = [place for place, source in enumerate(sources) if _STATISTIC.fullmatch(source.statistic)]
        samples: list[Sample] = [Missing(f"CloudWatch has no statistic {source.statistic}") for source in sources]
        for start in range(0, len(asked), _MOST_AT_ONCE):
            places = asked[start : start + _MOST_AT_ONCE]
            found = self._batch([sources[place] for place in places], now, back)
            for place, sample in zip(places, found, strict=True):
                samples[place] = sample
        return samples

    def _batch(self, sources: Sequence[CloudWatch], now: datetime, back: timedelta) -> list[Sample]:
        request = {
            "MetricDataQueries": [_query(place, source) for place, source in enumerate(sources)],
            "StartTime": _start(sources, now, back),
            "EndTime": now,
            "ScanBy": "TimestampDescending",
        }
        try:
            with calling("CloudWatch"):
                results = list(self._results(request))
        except NodeFleetError as problem:
            return [Missing(str(problem)) for _ in sources]
        return [
            _newest(source, [each for each in results if each.get("Id") == _id(place)], now, back)
            for place, source in enumerate(sources)
        ]

    def _results(self, request: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
        token: Mapping[str, str] = {}
        for _ in range(_MOST_PAGES):  # the newest come first: pages beyond these hold only older periods
            answer = self._client().get_metric_data(**request, **token)
            yield from answer.get("MetricDataResults", ())
            if not answer.get("NextToken"):
                return
            token = {"NextToken": answer["NextToken"]}


def _id(place: int) -> str:
    return f"m{place}"


def _query(place: int, source: CloudWatch) -> Mapping[str, Any]:
    dimensions = [{"Name": name, "Value": value} for name, value in source.dimensions.items()]
    metric = {"Namespace": source.namespace, "MetricName": source.metric, "Dimensions": dimensions}
    stat = {"Metric": metric, "Period": source.period // _SECOND, "Stat": source.statistic}
    return {"Id": _id(place), "MetricStat": stat}


def _start(sources: Sequence[CloudWatch], now: datetime, back: timedelta) -> datetime:
    """Early enough for the oldest period that may count, and on a boundary of every period: otherwise CloudWatch
    would cut its periods elsewhere."""
    longest = max(source.period for source in sources)
    step = lcm(*(source.period // _SECOND for source in sources))
    earliest = int((now - back - longest).timestamp())
    return datetime.fromtimestamp(earliest - earliest % step, UTC)


def _newest(source: CloudWatch, results: Iterable[Mapping[str, Any]], now: datetime, back: timedelta) -> Sample:
    settled = now - min(source.period, SETTLES_WITHIN)
    points: dict[datetime, float] = {}
    said, answered = [], False
    for result in results:
        answered = True
        if result.get("StatusCode") in ("InternalError", "Forbidden"):
            said.append(str(result["StatusCode"]))
        said += [str(message.get("Value", "")) for message in result.get("Messages", ())]
        for begins, value in zip(result.get("Timestamps", ()), result.get("Values", ()), strict=False):
            points[begins + source.period] = float(value)
    ended = [end for end in points if now - back <= end <= settled and isfinite(points[end])]
    if ended:
        return Reading(points[max(ended)], max(ended))
    dimensions = ", ".join(f"{name}={value}" for name, value in source.dimensions.items()) or "none"
    told = f" ({'; '.join(said)})" if said else ""
    return Missing(
        f"CloudWatch has no {source.namespace} {source.metric} of the last {back.total_seconds():.0f} s{told}: "
        f"check its name and its dimensions ({dimensions}), all of which must be given",
        empty_at=now if answered and not said and not points else None,
    )


# ── SQS ──────────────────────────────────────────────────────────────────────────────────────────────────────────────
# SQS: an attribute of a queue. One call for a queue, however many of its attributes the policy reads.
#
# SQS counts approximately and gives no time: the counts are those of the moment of asking, as far as it knows.


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

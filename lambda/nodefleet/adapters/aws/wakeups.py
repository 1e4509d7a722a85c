"""Who starts a run, and for which cluster: the schedule, Alertmanager or a person through SNS, or a manual call.

{"cluster": "shop", "scheduled": true}                     the schedule's constant input
{"cluster": "shop"}                                        by hand, as the schedule would
{"cluster": "shop", "urgent": true}                        by hand
{"Records": [{"EventSource": "aws:sns", "Sns": {…}}]}      urgent; the cluster is a message attribute or in the text
{"source": "aws.events", …}                                a schedule without input: the only cluster there is
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nodefleet.errors import MalformedError

_LONGEST = 64  # characters of a value that are repeated in an error


@dataclass(frozen=True, slots=True, kw_only=True)
class Wakeup:
    cluster: str
    urgent: bool = False
    scheduled: bool = False  # the schedule itself asks: these runs are counted


def wakeups(event: Any, clusters: Sequence[str]) -> tuple[Wakeup, ...]:
    """The runs that an event asks for, each cluster once."""
    if not isinstance(event, dict):
        raise MalformedError("the event is not an object")
    if "Records" in event:
        found = [_from_sns(record, clusters) for record in _list(event["Records"])]
    elif "cluster" in event:
        urgent, scheduled = event.get("urgent") is True, event.get("scheduled") is True
        found = [Wakeup(cluster=_known(event["cluster"], clusters), urgent=urgent, scheduled=scheduled)]
    elif event.get("source") == "aws.events":
        found = [Wakeup(cluster=_only(clusters), scheduled=True)]
    else:
        raise MalformedError('the event names no cluster: send {"cluster": "<name>"}')
    return tuple(dict.fromkeys(found))


def _from_sns(record: Any, clusters: Sequence[str]) -> Wakeup:
    match record:
        case {"Sns": {"MessageAttributes": {"cluster": {"Value": str(name)}}}}:
            return Wakeup(cluster=_known(name, clusters), urgent=True)
        case {"Sns": {"Message": str(text)}}:
            return Wakeup(cluster=_in_text(text, clusters), urgent=True)
        case _:
            raise MalformedError("a record is not an SNS message")


def _in_text(text: str, clusters: Sequence[str]) -> str:
    try:
        content = json.loads(text)
    except ValueError:
        return _only(clusters)
    name = content.get("cluster") if isinstance(content, dict) else None
    return _known(name, clusters) if name is not None else _only(clusters)


def _known(name: Any, clusters: Sequence[str]) -> str:
    if name not in clusters:
        raise MalformedError(f"no cluster {str(name)[:_LONGEST]!r} here: known are {', '.join(clusters)}")
    return str(name)


def _only(clusters: Sequence[str]) -> str:
    if len(clusters) != 1:
        raise MalformedError(f"the event names no cluster, and there are several: {', '.join(clusters)}")
    return clusters[0]


def _list(records: Any) -> list[Any]:
    if not isinstance(records, list) or not records:
        raise MalformedError("Records is not a list of messages")
    return records

"""Events as the table's stream brings them to Lambda.

The mapping is filtered to new event records; whatever else comes is passed over. A record that cannot be read is set
aside, because the stream would bring it again and again and nothing after it would ever be told.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from nodefleet.adapters.aws.state import keys
from nodefleet.domain.events import Event
from nodefleet.errors import MalformedError
from nodefleet.notifying.news import Arrived, News, Spoiled

SOURCE = "aws:dynamodb"
_NEW = "INSERT"

Reader: TypeAlias = Callable[[Mapping[str, Any]], Event]  # of a record's image, as the stream has it


def arrived(records: Sequence[Any], event_in: Reader) -> Arrived:
    news: list[News] = []
    spoiled: list[Spoiled] = []
    for record in records:
        match record:
            case {
                "eventName": str(name),
                "dynamodb": {"SequenceNumber": str(receipt), "Keys": {keys.SORT: {"S": str(key)}} as named} as change,
            } if receipt:
                if name != _NEW or not key.startswith(keys.EVENTS):
                    continue
                try:
                    news.append(News(receipt=receipt, told=event_in(change["NewImage"])))
                # RefusedError is a ValueError; the others are what a reader stumbles over.
                except (MalformedError, ValueError, LookupError, TypeError, AttributeError) as error:
                    spoiled.append(Spoiled(key=f"{_text(named.get(keys.PARTITION))} {key}", cause=_words(error)))
            case _:
                spoiled.append(Spoiled(key=str(record)[:200], cause="not a record of a DynamoDB stream"))
    return Arrived(news=tuple(news), spoiled=tuple(spoiled))


def failures(left: Sequence[News]) -> dict[str, Any]:
    """What Lambda is answered: it brings these again, and with them all that came after the first of them."""
    return {"batchItemFailures": [{"itemIdentifier": each.receipt} for each in left]}


def _text(attribute: Any) -> str:
    return str(attribute.get("S", "?")) if isinstance(attribute, Mapping) else "?"


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:500]

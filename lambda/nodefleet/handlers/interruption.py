"""What EC2 says of its instances: warnings are acted upon at once, whoever holds the lease.

They come through a queue in batches, so that one function handles all warnings of a moment.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

from nodefleet import wiring
from nodefleet.adapters.aws import ec2_events
from nodefleet.adapters.aws.ec2_events import Told
from nodefleet.adapters.aws.event_batch import Message, come_again, messages_in
from nodefleet.errors import MalformedError
from nodefleet.loop.doomed import interrupted
from nodefleet.loop.run import Ran


def handler(event: Any, context: Any) -> dict[str, Any]:
    batch = messages_in(event)
    if batch is None:
        return _single(event, context)
    understood = {message: told for message in batch if (told := _read(message, context)) is not None}
    owners = _owners(understood.values())
    runs, errors = wiring.each_of(
        {cluster: partial(_ran, cluster, own, understood.values(), context) for cluster, own in owners.items()}
    )
    failed_instances = frozenset().union(*(owners[cluster] for cluster in errors))
    failed = [message for message, told in understood.items() if not failed_instances.isdisjoint(told.instances)]
    if len(failed) == len(batch):
        wiring.raise_all(errors.values())
    if errors:
        wiring.some_failed(errors, len(failed), context)
    return {"runs": runs, "batchItemFailures": come_again(failed)}


def _single(event: Any, context: Any) -> dict[str, Any]:
    """As EventBridge writes it, by hand."""
    try:
        told = ec2_events.read(event, wiring.now())
    except MalformedError as error:
        return wiring.set_aside(event, error, context)
    owners = _owners([told])
    return wiring.all_of({cluster: partial(_ran, cluster, own, [told], context) for cluster, own in owners.items()})


def _read(message: Message, context: Any) -> Told | None:
    """What a message says. One that cannot be understood is set aside, and is the trouble of no other."""
    try:
        return ec2_events.read(message.event(), wiring.now())
    except MalformedError as error:
        wiring.set_aside(message.body, error, context)
        return None


def _owners(told: Iterable[Told]) -> dict[str, frozenset[str]]:
    """By cluster: its instances that something is said of that matters now."""
    concerned = dict.fromkeys(each for one in told if one.urgent or one.notices for each in one.instances)
    return dict(wiring.owners_of(tuple(concerned))) if concerned else {}


def _ran(cluster: str, own: frozenset[str], told: Iterable[Told], context: Any) -> Ran:
    notices = tuple(dict.fromkeys(notice for each in told for notice in each.notices if notice.instance in own))
    with wiring.parts(cluster, context) as parts:
        return interrupted(parts, notices, owner=wiring.owner(context))

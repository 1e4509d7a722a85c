"""EC2 events about instances. A warning is acted upon at once, even while another run holds the lease.

They come through a queue in batches, so that one function handles all warnings of a moment.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

from nodefleet import bootstrap
from nodefleet.adapters.aws import triggers
from nodefleet.adapters.aws.triggers import InstanceEvents, Message, come_again, messages_in
from nodefleet.errors import MalformedError
from nodefleet.handlers import FUNCTION
from nodefleet.ports import RunResult
from nodefleet.reconcile.emergency_drain import drain_interrupted
from nodefleet.reconcile.run import run


def handler(event: Any, context: Any) -> dict[str, Any]:
    batch = messages_in(event)
    if batch is None:
        return _single(event, context)
    understood = {message: told for message in batch if (told := _read(message, context)) is not None}
    owners = _owners(understood.values())
    runs, errors = bootstrap.each_of(
        {cluster: partial(_ran, cluster, own, understood.values(), context) for cluster, own in owners.items()}
    )
    failed_instances = frozenset().union(*(owners[cluster] for cluster in errors))
    failed = [message for message, told in understood.items() if not failed_instances.isdisjoint(told.instances)]
    if len(failed) == len(batch):
        bootstrap.raise_all(errors.values())
    if errors:
        FUNCTION.some_failed(errors, len(failed), context)
    return {"runs": runs, "batchItemFailures": come_again(failed)}


def _single(event: Any, context: Any) -> dict[str, Any]:
    """As EventBridge writes it, by hand."""
    try:
        told = triggers.read_events(event, bootstrap.now())
    except MalformedError as error:
        return FUNCTION.set_aside(event, error, context)
    owners = _owners([told])
    return bootstrap.all_of({cluster: partial(_ran, cluster, own, [told], context) for cluster, own in owners.items()})


def _read(message: Message, context: Any) -> InstanceEvents | None:
    """What a message says. One that cannot be understood is set aside, and is the trouble of no other."""
    try:
        return triggers.read_events(message.event(), bootstrap.now())
    except MalformedError as error:
        FUNCTION.set_aside(message.body, error, context)
        return None


def _owners(told: Iterable[InstanceEvents]) -> dict[str, frozenset[str]]:
    """By cluster: its instances that something is said of that matters now."""
    regions: dict[str, dict[str, None]] = {}
    for one in told:
        if one.urgent or one.notices:
            regions.setdefault(one.region, {}).update(dict.fromkeys(one.instances))
    owners: dict[str, frozenset[str]] = {}
    for region, concerned in regions.items():
        for cluster, own in FUNCTION.owners_of(tuple(concerned), region).items():
            owners[cluster] = owners.get(cluster, frozenset()) | own
    return owners


def _ran(cluster: str, own: frozenset[str], told: Iterable[InstanceEvents], context: Any) -> RunResult:
    notices = tuple(dict.fromkeys(notice for each in told for notice in each.notices if notice.instance in own))
    with FUNCTION.runtime(cluster, context) as runtime:
        return drain_interrupted(runtime, notices, partial(run, runtime, owner=bootstrap.owner(context)))

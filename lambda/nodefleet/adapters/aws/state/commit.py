"""What a look leaves behind, in the order in which it is written should it not fit into one transaction.

operations            first: each is stored before its effect
memory                with the last of them. A lesson whose operation is stored and that is itself lost can be
                      learned again; one that is stored twice would count twice
policy, retired notices, commands that ended
events, decision, usage
"""

from collections.abc import Iterator, Mapping
from typing import Any

from nodefleet.adapters.aws.state import items, keys
from nodefleet.adapters.aws.state.attributes import Scalar
from nodefleet.adapters.aws.state.codec import Warn
from nodefleet.adapters.aws.state.writing import Refused, Unit, Writer, unit
from nodefleet.domain.events import Event
from nodefleet.domain.observation import Command
from nodefleet.domain.records import PolicyVersion
from nodefleet.errors import MalformedError
from nodefleet.ports import Changes

_NEW = f"attribute_not_exists(#{keys.SORT})"


def units_of(changes: Changes, writer: Writer, warn: Warn) -> list[Unit]:
    """A record that is named twice is written once: DynamoDB takes no two actions on one."""
    cluster = writer.table.cluster
    gone = dict.fromkeys(changes.drop)
    put = {operation.id: operation for operation in changes.put if operation.id not in gone}
    return [
        *(unit(writer.put(items.operation_item(cluster, operation))) for operation in put.values()),
        *(unit(writer.delete(keys.operation_key(identity))) for identity in gone),
        *_memory(changes, writer, warn),
        *([policy_unit(changes.policy, writer)] if changes.policy else []),
        *(unit(writer.delete(key)) for key in dict.fromkeys(map(keys.notice_key, changes.retire))),
        *(_expired(command, writer) for command in {keys.order_key(it): it for it in changes.expired}.values()),
        *(event_unit(event, writer) for event in {event.id: event for event in changes.events}.values()),
        *([unit(writer.put(items.decision_item(cluster, changes.decision)))] if changes.decision else []),
        *(unit(writer.put(items.usage_item(cluster, hour))) for hour in {it.hour: it for it in changes.usage}.values()),
    ]


def event_unit(event: Event, writer: Writer) -> Unit:
    """Stored once by its id, whenever it comes again. The record itself is named by its time, so that people can ask
    for a day; its id therefore has a record of its own, and who cannot make that one comes second."""
    cluster = writer.table.cluster
    return unit(writer.put(items.told_item(cluster, event), _NEW), writer.put(items.event_item(cluster, event)))


def policy_unit(version: PolicyVersion, writer: Writer) -> Unit:
    """A version and its being in force. The same one again is no change."""
    cluster, key = writer.table.cluster, keys.policy_key(version.number)
    values: dict[str, Scalar] = {
        "number": version.number,
        "digest": version.digest,
        "source": version.source,
        "at": version.at,
    }
    same = "(#number = :number AND #digest = :digest AND #source = :source AND #at = :at)"
    return unit(
        writer.put(items.policy_item(cluster, version, key), f"{_NEW} OR {same}", **values),
        writer.put(
            items.policy_item(cluster, version, keys.POLICY), f"{_NEW} OR #number < :number OR {same}", **values
        ),
        refused=Refused.CHANGED,
        otherwise=f"somebody else put policy version {version.number} or a later one in force meanwhile: look again",
    )


def _memory(changes: Changes, writer: Writer, warn: Warn) -> Iterator[Unit]:
    values = {} if changes.journal is None else items.journal_values(changes.journal, warn)
    values |= _seed(changes.seed)
    if values:
        update = "SET " + ", ".join(f"#{name} = :{name}" for name in values)
        yield unit(writer.update(keys.MEMORY, update, **values))


def _seed(seed: Mapping[str, Any]) -> dict[str, Scalar]:
    unknown = [name for name in seed if name not in items.SEED]
    if unknown:
        raise MalformedError(
            f"the memory's record has no attribute {', '.join(unknown)}; it has {', '.join(items.SEED)}"
        )
    return {name: value for name, value in seed.items() if value is not None}


def _expired(command: Command, writer: Writer) -> Unit:
    """Unless another order has taken its place."""
    condition = f"{_NEW} OR #digest = :digest"
    return unit(writer.delete(keys.order_key(command), condition, digest=items.digest(command)))

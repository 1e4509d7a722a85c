"""What a look needs, as it stands in the table: the whole of it, and beside that what a person wants to read there."""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from typing import TypeAlias, assert_never

from nodefleet.adapters.aws.state import keys
from nodefleet.adapters.aws.state.attributes import Item, Scalar, attributes
from nodefleet.adapters.aws.state.codec import BODY, FORMAT, VERSION, packed, tagged
from nodefleet.domain.deployment import Deployment
from nodefleet.domain.journal import Journal
from nodefleet.domain.machines import Notice
from nodefleet.domain.observation import Pause, Scale
from nodefleet.domain.operations import Cleanup, Launch, Operation, Removal
from nodefleet.domain.plain import Plain, kind_of, to_plain
from nodefleet.domain.records import PolicyVersion
from nodefleet.errors import MalformedError

KEEP_OVER = timedelta(days=1)  # notices, and commands that have ended

LARGEST_BODY = 350_000  # bytes; DynamoDB takes 400 KB for a record, and a person wants to read some of it
LONGEST_KEY = 1024  # bytes
_LONGEST_TEXT = 1_000  # characters of a readable attribute; the whole text is in the body

Readable: TypeAlias = Mapping[str, Scalar | None]

SEED = ("last_scale_time", "last_scale_action", "node_count")  # the names that the first description gave


def keyed(cluster: str, record: str) -> Item:
    if len(record.encode()) > LONGEST_KEY:
        raise MalformedError(f"the name {record[:80]}… is longer than the {LONGEST_KEY} bytes that DynamoDB takes")
    return {keys.PARTITION: {"S": cluster}, keys.SORT: {"S": record}}


def made(cluster: str, record: str, plain: Plain, readable: Readable, forget: datetime | None = None) -> Item:
    """A record: the whole of it, what a person reads, and when DynamoDB may delete it."""
    shown = {name: short(value) if isinstance(value, str) else value for name, value in readable.items()}
    whole = {BODY: _packed(record, plain), VERSION: FORMAT, keys.TTL: forget and int(forget.timestamp())}
    return {**attributes({**shown, **whole}), **keyed(cluster, record)}


def _packed(record: str, plain: Plain) -> str | bytes:
    """A stack writes its records as JSON, which has no bytes: those are text, however long."""
    try:
        body = packed(plain, LARGEST_BODY) if record.startswith(keys.STACK) else packed(plain)
    except MalformedError as problem:
        raise MalformedError(f"the record {record}: {problem}") from problem
    if len(body) > LARGEST_BODY:
        raise MalformedError(f"the record {record} has {len(body):,} bytes, and only {LARGEST_BODY:,} fit into one")
    return body


def short(words: str) -> str:
    return words if len(words) <= _LONGEST_TEXT else f"{words[: _LONGEST_TEXT - 1]}…"


# ── what a look needs ────────────────────────────────────────────────────────────────────────────────────────────


def journal_values(journal: Journal) -> dict[str, Scalar]:
    """The attributes of the memory's record. It is changed in place, so that the seed's attributes beside it stay."""
    return {
        BODY: _packed(keys.MEMORY, to_plain(journal)),
        VERSION: FORMAT,
        "level": journal.memory.level.value,
    }


def operation_item(cluster: str, operation: Operation) -> Item:
    match operation:
        case Launch():
            target = f"{operation.count} × {', '.join(operation.types)} {operation.market.value} in {operation.zone}"
        case Removal():
            target = operation.node or operation.instance
        case Cleanup():
            target = operation.target
        case _:
            assert_never(operation)
    readable: Readable = {
        "kind": kind_of(type(operation)),
        "pool": operation.pool,
        "target": target,
        "reason": operation.reason,
        "started": operation.started,
        "deadline": operation.deadline,
    }
    return made(cluster, keys.operation_key(operation.id), tagged(operation), readable)


def notice_item(cluster: str, notice: Notice) -> Item:
    readable: Readable = {"instance": notice.instance, "kind": notice.kind.value, "at": notice.at}
    return made(cluster, keys.notice_key(notice), to_plain(notice), readable, notice.at + KEEP_OVER)


def order_item(cluster: str, command: Pause | Scale) -> Item:
    readable: Readable = {
        "kind": kind_of(type(command)),
        "pool": command.pool,
        "nodes": command.nodes if isinstance(command, Scale) else None,
        "by": command.by,
        "reason": command.reason,
        "until": command.until,
        "digest": digest(command),
    }
    forget = None if command.until is None else command.until + KEEP_OVER
    return made(cluster, keys.order_key(command), tagged(command), readable, forget)


def digest(command: Pause | Scale) -> str:
    """Tells a command from the one that took its place."""
    return sha256(json.dumps(tagged(command), sort_keys=True).encode()).hexdigest()


def policy_item(cluster: str, version: PolicyVersion, record: str) -> Item:
    """The version in force, one of the earlier ones or the declared one: the record's name says which."""
    readable: Readable = {
        "number": version.number,
        "source": version.source,
        "at": version.at,
        "digest": version.digest,
    }
    return made(cluster, record, version.data, readable)


def declared_item(cluster: str, version: PolicyVersion) -> Item:
    """What the stack writes to declare a policy."""
    return policy_item(cluster, version, keys.STACK_POLICY)


def deployment_item(cluster: str, deployment: Deployment) -> Item:
    """What the stack writes to say where the cluster's parts are."""
    return made(cluster, keys.STACK_DEPLOYMENT, to_plain(deployment), {"api_server": deployment.api_server})

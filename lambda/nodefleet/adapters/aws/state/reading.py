"""Everything that a look needs, of one query.

What is broken is not left out in silence, and it does not always stop everything:

    lease, memory, operation, policy in force, deployment    an error: an operation that is overlooked is a leaked
                                                             machine, a policy that is overlooked is a wrong size
    pause                                                    it pauses: who stopped scaling had a reason
    other command, notice, declared policy, unknown record   left out, with a warning
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from nodefleet.adapters.aws.state import keys
from nodefleet.adapters.aws.state.attributes import Item, number, text
from nodefleet.adapters.aws.state.codec import BODY, Warn, body, held, unreadable
from nodefleet.domain.deployment import Deployment
from nodefleet.domain.journal import Journal
from nodefleet.domain.machines import Notice
from nodefleet.domain.observation import Command, Pause
from nodefleet.domain.operations import Operation
from nodefleet.domain.plain import from_plain
from nodefleet.domain.records import PolicyVersion
from nodefleet.errors import MalformedError
from nodefleet.ports import State


@dataclass(slots=True)
class _Found:
    fence: int = 0
    wake: int = 0
    journal: Journal = field(default_factory=Journal)
    operations: list[Operation] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    policy: PolicyVersion | None = None
    declared: PolicyVersion | None = None
    deployment: Deployment | None = None


def state_in(items: Iterable[Item], warn: Warn) -> State:
    found = _Found()
    for item in items:
        _note(found, text(item, keys.SORT), item, warn)
    return State(
        fence=found.fence,
        wake=found.wake,
        journal=found.journal,
        operations=tuple(found.operations),
        notices=tuple(found.notices),
        commands=tuple(found.commands),
        policy=found.policy,
        declared=found.declared,
        deployment=found.deployment,
    )


def _note(found: _Found, record: str, item: Item, warn: Warn) -> None:
    if record == keys.LEASE:
        found.fence, found.wake = number(item, "fence"), number(item, "wake")
    elif record == keys.MEMORY:
        found.journal = held(Journal, item, warn) if BODY in item else Journal()
    elif record.startswith(keys.OPERATIONS):
        found.operations.append(held(Operation, item, warn))
    elif record == keys.POLICY:
        found.policy = version_in(item)
    elif record == keys.STACK_DEPLOYMENT:
        found.deployment = held(Deployment, item, warn)
    else:
        try:
            _note_what_may_lack(found, record, item, warn)
        except MalformedError as problem:
            warn(f"left out: {problem}")


def _note_what_may_lack(found: _Found, record: str, item: Item, warn: Warn) -> None:
    if record.startswith(keys.PAUSES):
        found.commands.append(_pause(record, item, warn))
    elif record.startswith(keys.ORDERS):
        found.commands.append(held(Command, item, warn))
    elif record.startswith(keys.NOTICES):
        found.notices.append(held(Notice, item, warn))
    elif record == keys.STACK_POLICY:
        found.declared = version_in(item)
    else:
        raise unreadable(item, "this version knows no such record")


def _pause(record: str, item: Item, warn: Warn) -> Pause:
    try:
        pause: Pause = held(Pause, item, warn)
    except MalformedError as problem:
        warn(f"taken for a pause without an end: {problem}")
        return Pause(
            pool=keys.pool_of(record),
            by=text(item, "by") or "unknown",
            reason="the order cannot be read, so scaling stays paused; resume it to end this",
        )
    return pause


def version_in(item: Item) -> PolicyVersion:
    source, digest = text(item, "source"), text(item, "digest")
    if not source or not digest:
        raise unreadable(item, "it does not say whose it is, or lacks its digest")
    try:
        at, version = from_plain(datetime, text(item, "at")), number(item, "number")
    except ValueError as problem:
        raise unreadable(item, str(problem)) from problem
    return PolicyVersion(number=version, source=source, at=at, data=body(item), digest=digest)

"""The Store and History ports over the table, with true conditions and transactions."""

import json
from collections.abc import Iterable
from datetime import datetime, timedelta

from nodefleet.errors import ChangedError, LostLeaseError
from nodefleet.model.decision import DecisionRecord, Event, PolicyVersion
from nodefleet.model.inventory import Notice
from nodefleet.model.serialization import from_plain, kind_of
from nodefleet.model.snapshot import Adopt, Command, Drain, Recycle
from nodefleet.model.state import Usage
from nodefleet.ports import Changes, Lease, LeaseHeld, State
from nodefleet_tools.sim.hooks import Run
from nodefleet_tools.sim.invariants import Guard
from nodefleet_tools.sim.rules import Rule
from nodefleet_tools.sim.table import Table, stamp

_MOST_BYTES = 400 * 1024  # in one item, compressed


class SimStore:
    """Store and History, as one run uses them."""

    def __init__(self, table: Table, guard: Guard, run: Run) -> None:
        self._table = table
        self._guard = guard
        self._run = run

    # ── the lease ────────────────────────────────────────────────────────────────────────────────────────────────

    def wake(self) -> None:
        self._table.wake += 1

    def wakes(self) -> int:
        return self._table.wake

    def free_fence(self) -> int | None:
        return self._table.fence if self._table.lease is None else None

    def acquire(self, owner: str, now: datetime, until: datetime, skew: timedelta) -> Lease | LeaseHeld:
        held = self._table.lease
        if held is not None and held.owner != owner and now <= held.expires + skew:
            return LeaseHeld(owner=held.owner, expires=held.expires)
        self._table.fence += 1
        self._table.lease = Lease(owner=owner, fence=self._table.fence, expires=until)
        self._run.fence = self._table.fence
        self._guard.accounts.acquired(self._run)
        self._guard.did(self._run.name, f"lease {self._table.fence} until {until:%H:%M:%S}")
        return self._table.lease

    def release(self, lease: Lease, wake: int | None) -> bool:
        if not self._holds(lease):
            return True  # there is nothing to let go of
        if wake is not None and wake != self._table.wake:
            return False
        self._guard.accounts.released(self._run, lease)
        self._table.lease = None
        self._run.fence = None
        self._guard.did(self._run.name, f"lease {lease.fence} released")
        return True

    def _holds(self, lease: Lease) -> bool:
        held = self._table.lease
        return held is not None and (held.owner, held.fence) == (lease.owner, lease.fence)

    def _check_fence(self, lease: Lease) -> None:
        held = self._table.lease
        if held is None or (held.owner, held.fence) != (lease.owner, lease.fence):
            raise LostLeaseError(f"{lease.owner} has lost lease {lease.fence}")

    # ── the loop ─────────────────────────────────────────────────────────────────────────────────────────────────

    def state(self) -> State:
        self._guard.accounts.looked(self._run)
        return self._table.state()

    def commit(self, lease: Lease, changes: Changes) -> None:
        if changes == Changes():
            return
        self._check_fence(lease)
        self._check_policy(changes.policy)
        self._guard.accounts.wrote(self._run, changes)
        table, sizes = self._table, [0]
        if changes.journal is not None:
            sizes.append(table.put("journal", "", changes.journal))
        table.seed |= dict(changes.seed)
        sizes += [table.put("operation", each.id, each, type_=kind_of(type(each))) for each in changes.put]
        for identity in changes.drop:
            table.drop("operation", identity)
        for notice in changes.retire:
            table.drop("notice", _notice_key(notice))
        for command in changes.expired:
            self._clear_away(command)
        for command in changes.ordered:
            if not table.has("command", _command_key(command)):
                table.put("command", _command_key(command), command, type_=kind_of(type(command)))
        sizes += [self._told(event) for event in changes.events]
        sizes += [table.put("usage", stamp(usage.hour), usage) for usage in changes.usage]
        if changes.decision is not None:
            key = f"{stamp(changes.decision.at)}#{changes.decision.id}"
            sizes.append(table.put("decision", key, changes.decision))
        if changes.policy is not None:
            sizes.append(table.put_policy(changes.policy))
        if max(sizes) > _MOST_BYTES:
            self._guard.broken(self._run.name, Rule.TABLE, f"an item of {max(sizes)} bytes, {_MOST_BYTES} are allowed")

    def record(self, notice: Notice) -> None:
        self._table.put("notice", _notice_key(notice), notice)
        self._run.recorded.add(notice.instance)

    def order(self, command: Command, event: Event) -> None:
        self._table.put("command", _command_key(command), command, type_=kind_of(type(command)))
        self._told(event)

    def withdraw(self, command: Command, event: Event) -> None:
        self._table.drop("command", _command_key(command))
        self._told(event)

    def tell(self, event: Event) -> None:
        self._told(event)

    # ── for operators ────────────────────────────────────────────────────────────────────────────────────────────

    def decisions(self, limit: int, before: datetime | None = None) -> tuple[DecisionRecord, ...]:
        found = [each for each in self._table.decisions if before is None or each.at < before]
        return tuple(found[::-1][:limit])

    def events(self, since: datetime, until: datetime) -> tuple[Event, ...]:
        return _newest_first(each for each in self._table.events if since <= each.at < until)

    def usage(self, since: datetime, until: datetime) -> tuple[Usage, ...]:
        found = [each for each in self._table.all("usage", Usage) if since <= each.hour < until]
        return tuple(found[::-1])

    def policies(self) -> tuple[PolicyVersion, ...]:
        return tuple(self._table.policies[::-1])

    def apply(self, version: PolicyVersion, event: Event) -> None:
        self._check_policy(version)
        self._table.put_policy(version)
        self._told(event)

    # ── details ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _told(self, event: Event) -> int:
        """Once, by its id."""
        return 0 if self._table.has("event", event.id) else self._table.put("event", event.id, event)

    def _clear_away(self, command: Command) -> None:
        """Unless an operator has given another one in its place."""
        key, kind = _command_key(command), type(command)
        stored = self._table.items["command"].get(key)
        if stored is not None and from_plain(kind, json.loads(stored.text)["value"]) == command:
            self._table.drop("command", key)

    def _check_policy(self, version: PolicyVersion | None) -> None:
        """A number is made once, and numbers only grow. The very same version again is no other."""
        newest = next(reversed(self._table.policies), None)
        if version is None or newest is None or version == newest:
            return
        if version.number <= newest.number:
            raise ChangedError(f"policy version {newest.number} is in force already")


def _notice_key(notice: Notice) -> str:
    told = f"#{stamp(notice.told_at)}" if notice.told_at else ""
    return f"{notice.instance}#{notice.kind.value}#{stamp(notice.at)}{told}"


def _command_key(command: Command) -> str:
    subject = command.instance if isinstance(command, Adopt | Drain | Recycle) else command.pool
    if isinstance(command, Drain) and command.pool:
        subject = f"{command.instance}#{command.pool}"
    return f"{kind_of(type(command))}#{subject or ''}"


def _newest_first(events: Iterable[Event]) -> tuple[Event, ...]:
    return tuple(sorted(events, key=lambda event: (event.at, event.id), reverse=True))

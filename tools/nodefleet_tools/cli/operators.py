"""Operator commands as the command line and the page give them: the author, the checks, the record with its event, and
the wording of times and durations."""

import getpass
import os
import socket
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import typer

from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Event
from nodefleet.model.inventory import Instance, InstanceState
from nodefleet.model.names import pluralize
from nodefleet.model.serialization import ValidationError, from_plain
from nodefleet.model.snapshot import Adopt, Drain, Pause, Recycle, Scale
from nodefleet.model.workload import SCALE_DOWN_DISABLED
from nodefleet.policy.pool import Pool
from nodefleet.ports import State
from nodefleet.reconcile.unit_of_work import event_id, key_of
from nodefleet_tools.cli.connections import Connection
from nodefleet_tools.cli.environment import InputError, NotFoundError
from nodefleet_tools.cli.outcome import Status, fail, is_json

ALL_POOLS = "all pools"
NEVER_SHRINKS = "a pause of the scale-down needs an end, such as --for 8h: a fleet that never shrinks is a bill"


_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_LONGEST = timedelta(days=366)


def someone(given: str = "") -> str:
    """The name that was given, else user@host. A container may know neither."""
    if given.strip():
        return given.strip()
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"uid {os.getuid()}"
    return f"{user}@{socket.gethostname() or 'unknown host'}"


def confirm_destructive(question: str, *, yes: bool) -> None:
    """Ask at a terminal; a script must say --yes."""
    if not yes and not is_at_terminal():
        raise InputError(f"{question} There is no terminal to ask at: say --yes")
    confirm(question, yes=yes)


def confirm(question: str, *, yes: bool) -> None:
    """Ask at a terminal only."""
    if not yes and is_at_terminal():
        typer.confirm(question, abort=True, err=is_json())


def is_at_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def event(connection: Connection, kind: AlertKind, text: str, *, pool: str = "", details: Iterable[str] = ()) -> Event:
    """What an operator did just now, for the others."""
    cluster, at = connection.cluster_id, connection.clock()
    identity = event_id(cluster, key_of(kind.value, pool, text), at)
    return Event(id=identity, at=at, cluster=cluster, kind=kind, pool=pool, text=text, details=tuple(details))


def pause_event(connection: Connection, order: Pause) -> Event:
    still = "Pools still grow, and lost nodes are replaced." if order.scale_down_only else "Min is still kept."
    ended_by = f"nodefleet resume{f' {order.pool}' if order.pool else ''}"
    text = (
        f"{order.by} paused {what_is_paused(order)} {pause_end(order)}{because(order.reason)}. {still}"
        f" `{ended_by}` ends it."
    )
    return event(connection, AlertKind.PAUSED, text, pool=order.pool or "")


def resume_event(connection: Connection, order: Pause, by: str) -> Event:
    text = f"{by} resumed {what_is_paused(order)}, which {order.by} had paused{because(order.reason)}."
    return event(connection, AlertKind.RESUMED, text, pool=order.pool or "")


def what_is_paused(order: Pause) -> str:
    pools = order.pool or ALL_POOLS
    return f"the scale-down of {pools}" if order.scale_down_only else pools


def pause_end(order: Pause) -> str:
    return f"until {worded_time(order.until)}" if order.until else "until an operator resumes it"


def known_state(connection: Connection) -> State:
    """The cluster's state. The command ends if no run, no stack and no operator has ever written anything of it: a
    mistyped name must not read like a fleet without nodes."""
    state = connection.store.state()
    if replace(state, wake=0, commands=()) == State():
        table = connection.settings.table
        fail(f"table {table} knows no cluster {connection.cluster_id}: check --cluster and --table", Status.NOTHING)
    return state


def workers_of(connection: Connection) -> dict[str, Instance]:
    """The cluster's workers that are not on their way out, by id."""
    over = (InstanceState.SHUTTING_DOWN, InstanceState.TERMINATED)
    return {each.id: each for each in connection.cloud.instances() if each.worker and each.state not in over}


def order_scale(connection: Connection, order: Scale, rules: Pool) -> str:
    """Store the command if the pool's limits allow it. Returns the sentence that says what holds from now on."""
    least, most = rules.limits.min, rules.limits.max
    if not least <= order.nodes <= most:
        raise InputError(
            f"{order.pool} has limits from {least} to {pluralize(most, 'node', 'nodes')}, and {order.nodes} is outside:"
            f" change limits.{'min' if order.nodes < least else 'max'} with `nodefleet policy apply`"
        )
    size = pluralize(order.nodes, "node", "nodes")
    text = (
        f"{order.by} asked for {size} in {order.pool} until {worded_time(order.until)}{because(order.reason)}."
        f" `nodefleet scale {order.pool} --cancel` ends it."
    )
    connection.store.order(order, event(connection, AlertKind.SCALED_BY_OPERATOR, text, pool=order.pool))
    return f"{order.pool} is kept at {size} until {worded_time(order.until)}."


def cancel_scales(connection: Connection, pool: str, by: str) -> Iterator[Scale]:
    """The pool's scale commands, each when it is ended."""
    for order in [it for it in connection.store.state().commands if isinstance(it, Scale) and it.pool == pool]:
        text = f"{by} ended the scale command for {pool} ({order.nodes}, by {order.by}{because(order.reason)})."
        connection.store.withdraw(order, event(connection, AlertKind.SCALED_BY_OPERATOR, text, pool=pool))
        yield order


def order_recycle(connection: Connection, order: Recycle, pool: str) -> None:
    text = (
        f"{order.by} asked for a new worker in the place of {order.instance}{because(order.reason)}."
        f" The next run begins; it is given up at {worded_time(order.until)}."
    )
    connection.store.order(order, event(connection, AlertKind.RECYCLED, text, pool=pool))


def order_disposal(connection: Connection, order: Adopt | Drain) -> str:
    """Store the command for a worker that no pool owns. Returns what becomes of the worker."""
    what = f"handed to pool {order.pool}" if isinstance(order, Adopt) else "drained and removed"
    text = (
        f"{order.by} asked for {order.instance} to be {what}{because(order.reason)}."
        f" The next run begins; it is given up at {worded_time(order.until)}."
    )
    told = event(connection, AlertKind.HANDED_OVER, text, pool=order.pool if isinstance(order, Adopt) else "")
    connection.store.order(order, told)
    return what


def order_drain(connection: Connection, order: Drain) -> str:
    """Store the command for a worker of a pool, or for one that no pool owns. Returns what becomes of the worker."""
    if not order.pool:
        return order_disposal(connection, order)
    text = (
        f"{order.by} asked for {order.instance} of pool {order.pool} to be drained and removed{because(order.reason)}."
        f" If the pool cannot spare it, a new worker comes first. The next run begins; it is given up at"
        f" {worded_time(order.until)}."
    )
    connection.store.order(order, event(connection, AlertKind.DRAINED, text, pool=order.pool))
    return f"drained and removed; if {order.pool} cannot spare it, a new worker comes first"


def withdraw_commands(
    connection: Connection, kind: type[Drain | Recycle], instances: Iterable[str], by: str
) -> list[str]:
    """End the commands for these workers. Returns the workers that had one."""
    wanted, ended = set(instances), []
    for order in connection.store.state().commands:
        if not isinstance(order, kind) or order.instance not in wanted:
            continue
        what = "drain" if isinstance(order, Drain) else "replacement"
        text = f"{by} withdrew the {what} of {order.instance} that {order.by} had asked for{because(order.reason)}."
        told = AlertKind.RECYCLED if isinstance(order, Recycle) else AlertKind.DRAINED
        connection.store.withdraw(order, event(connection, told, text, pool=getattr(order, "pool", "")))
        ended.append(order.instance)
    return list(dict.fromkeys(ended))


def protect_node(connection: Connection, name: str, *, on: bool, by: str, reason: str = "") -> tuple[str, ...]:
    """Annotate the node with the operator's own Kubernetes credentials. Returns what protects it besides."""
    kubernetes, (annotation, *foreign) = connection.kubernetes(), SCALE_DOWN_DISABLED
    found = kubernetes.node(name)
    if found is None:
        raise NotFoundError(f"there is no node {name}: `nodefleet nodes` lists them")
    kubernetes.annotate(name, {annotation: "true" if on else None})
    text = f"{by} {'protected' if on else 'ended the protection of'} {name}{because(reason)}."
    if on:
        text += f" `nodefleet protect {name} --off` ends it."
    connection.store.tell(event(connection, AlertKind.PROTECTED, text))
    return tuple(other for other in foreign if found.annotations.get(other) == "true")


def because(reason: str) -> str:
    return f": {reason.rstrip('.')}" if reason else ""


def span(text: str, option: str) -> timedelta:
    """A duration as the policy writes it: 90s, 5m, 2h, 7d."""
    right = f"{option}: {text!r} is not a duration; write for example 90s, 5m, 2h or 7d"
    try:
        found = from_plain(timedelta, text.strip())
    except ValidationError:
        raise InputError(right) from None
    if not timedelta(0) < found <= _LONGEST:
        raise InputError(f"{option}: {text} is not between a moment and {_LONGEST.days} days")
    return found


def worded_span(length: timedelta) -> str:
    """2 h 30 min: the two largest units are enough."""
    left = max(0, round(length.total_seconds()))
    parts = []
    for seconds, unit in _UNITS:
        count, left = divmod(left, seconds)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 s"


def worded_time(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"

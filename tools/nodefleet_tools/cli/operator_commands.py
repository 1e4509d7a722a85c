"""`nodefleet pause`, `resume`, `scale`, `adopt`, `drain`, `recycle` and `commands`: what an operator wants.

An order is a record in the table, with an event that tells the others. It takes effect with the next run, which is
woken.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from rich.console import Console
from rich.table import Table
from rich.text import Text

from nodefleet.model.inventory import Instance
from nodefleet.model.names import pluralize, some
from nodefleet.model.serialization import kind_of, nearest, to_plain
from nodefleet.model.snapshot import Adopt, Command, Drain, Pause, Recycle, Scale
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Pool
from nodefleet_tools.cli import connect
from nodefleet_tools.cli.connections import Connection
from nodefleet_tools.cli.environment import InputError, NotFoundError
from nodefleet_tools.cli.operators import (
    ALL_POOLS,
    NEVER_SHRINKS,
    cancel_scales,
    confirm_destructive,
    known_state,
    order_disposal,
    order_drain,
    order_recycle,
    order_scale,
    pause_end,
    pause_event,
    resume_event,
    someone,
    span,
    what_is_paused,
    withdraw_commands,
    worded_span,
    worded_time,
    workers_of,
)
from nodefleet_tools.cli.outcome import note_change, print_json
from nodefleet_tools.cli.urgent_run import woken


def pause(
    *, pool: str, scale_down_only: bool, lasting: str, reason: str, by: str, as_json: bool, cluster: str, table: str
) -> None:
    with connect.connected(cluster=cluster, table=table) as connection:
        if scale_down_only and not lasting:
            raise InputError(NEVER_SHRINKS)
        until = connection.clock() + span(lasting, "--for") if lasting else None
        policy = _policy(connection, pool)
        order = Pause(
            pool=pool or None, by=someone(by), reason=reason.strip(), until=until, scale_down_only=scale_down_only
        )
        connection.store.order(order, pause_event(connection, order))
        done = f"Paused {what_is_paused(order)} {pause_end(order)}."
        note_change(done)
        _answer(connection, f"{done} {woken(connection, policy.interval)}", as_json=as_json)


def resume(*, pool: str, by: str, as_json: bool, cluster: str, table: str) -> None:
    with connect.connected(cluster=cluster, table=table) as connection:
        found = [it for it in known_state(connection).commands if isinstance(it, Pause) and it.pool == (pool or None)]
        if not found:
            _policy(connection, pool)
        for order in found:
            connection.store.withdraw(order, resume_event(connection, order, someone(by)))
            note_change(f"Resumed {what_is_paused(order)}.")
        message = (
            f"Resumed {' and '.join(map(what_is_paused, found))}. {woken(connection)}"
            if found
            else f"{pool or ALL_POOLS}: there is no such pause."
        )
        _answer(connection, message, as_json=as_json)


def scale(
    *,
    pool: str,
    nodes: int | None,
    lasting: str,
    reason: str,
    cancel: bool,
    by: str,
    as_json: bool,
    cluster: str,
    table: str,
) -> None:
    with connect.connected(cluster=cluster, table=table) as connection:
        if cancel:
            known_state(connection)
            message = _cancel(connection, pool, someone(by))
        else:
            message = _scale(connection, pool, _order(connection, pool, nodes, lasting, reason, someone(by)))
        _answer(connection, message, as_json=as_json)


def adopt(
    *,
    instances: list[str] | None,
    pool: str,
    everything: bool,
    lasting: str,
    reason: str,
    by: str,
    as_json: bool,
    cluster: str,
    table: str,
) -> None:
    with connect.connected(cluster=cluster, table=table) as connection:
        policy = _policy(connection, pool)
        now, who = connection.clock(), someone(by)
        until = now + span(lasting, "--for")
        chosen = _unowned(connection, policy, instances or [], everything=everything)
        orders = [
            Adopt(instance=each.id, pool=pool, at=now, by=who, reason=reason.strip(), until=until) for each in chosen
        ]
        rules = policy.pool(pool) or Pool(name=pool)
        if rules.dry_run:
            connection.warn(f"{pool} is a dry pool: nothing is handed to it before it is not")
        _dispose(connection, policy, orders, f"handed to pool {pool}", as_json=as_json)


def drain(
    *,
    instances: list[str] | None,
    everything: bool,
    lasting: str,
    reason: str,
    cancel: bool,
    yes: bool,
    by: str,
    as_json: bool,
    cluster: str,
    table: str,
) -> None:
    with connect.connected(cluster=cluster, table=table) as connection:
        if cancel:
            _withdraw(connection, Drain, instances or [], someone(by), as_json=as_json)
            return
        policy = _policy(connection, "", needed=True)
        now, who = connection.clock(), someone(by)
        until = now + span(lasting, "--for")
        if everything:
            chosen = _unowned(connection, policy, instances or [], everything=True)
        else:
            chosen = _workers(connection, instances or [])
        owners = {each.id: each.pool if policy.pool(each.pool) else "" for each in chosen}
        orders = [
            Drain(instance=each.id, pool=owners[each.id], at=now, by=who, reason=reason.strip(), until=until)
            for each in chosen
        ]
        if orders:
            confirm_destructive(f"Drain and remove {some(map(_with_owner, orders))}?", yes=yes)
        for sentence in _cannot_spare(connection, policy, orders):
            connection.warn(sentence)
        _drain(connection, policy, orders, as_json=as_json)


def recycle(
    *,
    instances: list[str] | None,
    pool: str,
    lasting: str,
    reason: str,
    cancel: bool,
    yes: bool,
    by: str,
    as_json: bool,
    cluster: str,
    table: str,
) -> None:
    with connect.connected(cluster=cluster, table=table) as connection:
        if cancel:
            _withdraw(connection, Recycle, instances or [], someone(by), as_json=as_json)
            return
        policy = _policy(connection, pool, needed=True)
        now, who = connection.clock(), someone(by)
        until = now + span(lasting, "--for")
        chosen = _owned(connection, policy, instances or [], pool)
        if not chosen:
            _answer(connection, f"{pool} has no worker: there is nothing to replace.", as_json=as_json)
            return
        confirm_destructive(f"Replace {some(each.id for each in chosen)}?", yes=yes)
        for each in chosen:
            order = Recycle(instance=each.id, at=now, by=who, reason=reason.strip(), until=until)
            order_recycle(connection, order, each.pool)
            note_change(f"The replacement of {each.id} is ordered.")
        number = pluralize(len(chosen), "worker is", "workers are")
        message = f"{number} replaced, budgets.removals at a time. {woken(connection, policy.interval)}"
        if any(rules.dry_run for each in chosen if (rules := policy.pool(each.pool))):
            connection.warn("a dry pool: it is decided, and nothing is done")
        _answer(connection, message, as_json=as_json)


def commands(*, as_json: bool, cluster: str, table: str) -> None:
    with connect.connected(cluster=cluster, table=table) as connection:
        known_state(connection)
        if as_json:
            print_json(_plain_commands(connection))
        else:
            _show(connection)


# ── scaling ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _order(connection: Connection, pool: str, nodes: int | None, lasting: str, reason: str, by: str) -> Scale:
    """What was asked for, or an InputError with everything that is missing."""
    missing = [
        *([] if nodes is not None else ["how many nodes: nodefleet scale POOL N"]),
        *([] if lasting else ["--for, such as --for 2h: a size without an end is a bill"]),
        *([] if reason.strip() else ["--reason, for the others who wonder"]),
    ]
    if nodes is None or missing:
        raise InputError("\n".join(["Something is missing:", *(f"  - {each}" for each in missing)]))
    until = connection.clock() + span(lasting, "--for")
    return Scale(pool=pool, nodes=nodes, by=by, reason=reason.strip(), until=until)


def _scale(connection: Connection, pool: str, order: Scale) -> str:
    policy = _policy(connection, pool)
    rules = policy.pool(pool) or Pool(name=pool)
    kept = order_scale(connection, order, rules)
    note_change(kept)
    message = f"{kept} {woken(connection, policy.interval)}"
    if rules.dry_run:
        connection.warn(f"{pool} is a dry pool: it is decided, and nothing is done")
    for it in _in_force(connection):
        if isinstance(it, Pause) and it.pool in (None, pool):
            what, held = ("its scale-down", "removed") if it.scale_down_only else (pool, "scaled")
            connection.warn(f"{what} is paused, which outranks this: nothing is {held} before `nodefleet resume`")
    return message


def _cancel(connection: Connection, pool: str, by: str) -> str:
    message = f"{pool} follows its signals again."
    ended = []
    for order in cancel_scales(connection, pool, by):
        note_change(message)
        ended.append(order)
    if not ended:
        _policy(connection, pool)
    return f"{message} {woken(connection)}" if ended else f"{pool}: there is no scale command."


# ── workers that no pool owns ────────────────────────────────────────────────────────────────────────────────────


def _unowned(connection: Connection, policy: Policy, named: list[str], *, everything: bool) -> list[Instance]:
    """The instances that are meant. Each must be a worker of the cluster, and no pool's."""
    if everything == bool(named):
        raise InputError("name the workers, or say --all for every worker that no pool owns")
    workers = workers_of(connection)
    if everything:
        return [each for each in workers.values() if policy.pool(each.pool) is None]
    named = _instance_ids(connection, workers, named)
    owned = [
        f"{name} belongs to pool {workers[name].pool} already"
        for name in named
        if name in workers and policy.pool(workers[name].pool)
    ]
    _refuse("Only workers that no pool of the policy owns can be handed over:", workers, named, owned)
    return [workers[name] for name in dict.fromkeys(named)]


def _workers(connection: Connection, named: list[str]) -> list[Instance]:
    """The instances that are meant, of a pool or of none."""
    if not named:
        raise InputError("name the workers, or say --all for every worker that no pool owns")
    workers = workers_of(connection)
    named = list(dict.fromkeys(_instance_ids(connection, workers, named)))
    _refuse("Only workers can be drained (`nodefleet nodes` lists them):", workers, named)
    return [workers[name] for name in named]


def _owned(connection: Connection, policy: Policy, named: list[str], pool: str) -> list[Instance]:
    """The instances that are meant. Each must be a worker of a pool of the policy."""
    if bool(pool) == bool(named):
        raise InputError("name the workers, or say --pool for every worker of a pool")
    workers = workers_of(connection)
    if pool:
        return [each for each in workers.values() if each.pool == pool]
    named = _instance_ids(connection, workers, named)
    unowned = [
        f"{name} belongs to no pool of the policy: hand it to one with `nodefleet adopt`, or `nodefleet drain` it"
        for name in named
        if name in workers and policy.pool(workers[name].pool) is None
    ]
    _refuse("Only workers of a pool can be replaced:", workers, named, unowned)
    return [workers[name] for name in dict.fromkeys(named)]


def _refuse(heading: str, workers: Mapping[str, Instance], named: Sequence[str], unfit: Sequence[str] = ()) -> None:
    """End if a name is no worker's, or a worker is unfit for the command, with all of them."""
    unknown = [f"{name} is no worker of this cluster" for name in named if name not in workers]
    if unknown or unfit:
        message = "\n".join([heading, *(f"  - {each}" for each in (*unknown, *unfit))])
        raise InputError(message) if unfit else NotFoundError(message)


def _instance_ids(connection: Connection, workers: Mapping[str, Instance], named: list[str]) -> list[str]:
    """The ids of workers that are named by instance or by node. Kubernetes is asked for names only."""
    if all(name in workers or name.startswith("i-") for name in named):
        return named
    by_name = {node.name: node.instance for node in connection.cluster.nodes() if node.instance in workers}
    return [by_name.get(name, name) for name in named]


def _dispose(connection: Connection, policy: Policy, orders: Sequence[Adopt], what: str, *, as_json: bool) -> None:
    if not orders:
        _answer(connection, _ALL_OWNED, as_json=as_json)
        return
    for order in orders:
        order_disposal(connection, order)
        note_change(f"{order.instance} is {what} by the next run.")
    number = pluralize(len(orders), "worker is", "workers are")
    _answer(connection, f"{number} {what} by the next run. {woken(connection, policy.interval)}", as_json=as_json)


# ── workers that leave ───────────────────────────────────────────────────────────────────────────────────────────


_ALL_OWNED = "Every worker belongs to a pool of the policy: there is nothing to do."


def _drain(connection: Connection, policy: Policy, orders: Sequence[Drain], *, as_json: bool) -> None:
    if not orders:
        _answer(connection, _ALL_OWNED, as_json=as_json)
        return
    for order in orders:
        order_drain(connection, order)
        note_change(f"The drain of {order.instance} is ordered.")
    number = pluralize(len(orders), "worker is", "workers are")
    pools = list(dict.fromkeys(order.pool for order in orders if order.pool))
    first = f" Where {some(pools)} cannot spare one, a new worker comes first." if pools else ""
    if any(rules.dry_run for each in pools if (rules := policy.pool(each))):
        connection.warn("a dry pool: it is decided, and nothing is done")
    message = f"{number} drained and removed, budgets.removals at a time.{first} {woken(connection, policy.interval)}"
    _answer(connection, message, as_json=as_json)


def _with_owner(order: Drain) -> str:
    return f"{order.instance} of pool {order.pool}" if order.pool else order.instance


def _cannot_spare(connection: Connection, policy: Policy, orders: Sequence[Drain]) -> list[str]:
    """Pools that have no more workers than their min: it is not undercut."""
    there = Counter(each.pool for each in workers_of(connection).values())
    leaving = Counter(order.pool for order in orders if order.pool)
    return [
        f"{name} has {pluralize(there[name], 'worker', 'workers')}, and min is {rules.limits.min}:"
        " a new worker comes before one leaves"
        for name, number in leaving.items()
        if (rules := policy.pool(name)) and there[name] - number < rules.limits.min
    ]


def _withdraw(connection: Connection, kind: type[Drain | Recycle], named: list[str], by: str, *, as_json: bool) -> None:
    known_state(connection)
    if not named:
        raise InputError("name the workers whose command is to end; `nodefleet commands` lists them")
    ended = withdraw_commands(connection, kind, _instance_ids(connection, workers_of(connection), named), by)
    for each in ended:
        note_change(f"The command for {each} is withdrawn.")
    what = "drain" if kind is Drain else "recycle"
    message = (
        f"Withdrew the {what} of {some(ended)}. A drain that is under way goes on."
        if ended
        else f"{some(named)}: there is no {what} command."
    )
    _answer(connection, message, as_json=as_json)


# ── what all of them need ────────────────────────────────────────────────────────────────────────────────────────


def _policy(connection: Connection, pool: str, *, needed: bool = False) -> Policy:
    """The policy in force, which must know the pool. To pause everything no policy is needed, not even a good one."""
    known_state(connection)
    if not (pool or needed):
        return Policy()
    governing = connection.governing()
    if needed and governing.hold:
        raise InputError(f"{governing.hold}: the pools are not known, so no worker can be drained or replaced")
    policy = governing.policy
    if pool and policy.pool(pool) is None:
        known = [each.name for each in policy.pools]
        raise InputError(f"there is no pool {pool} in the policy in force: {nearest(pool, known)}")
    return policy


def _answer(connection: Connection, message: str, *, as_json: bool) -> None:
    """What was done, and the commands in force after it."""
    if as_json:
        print_json({"message": message, "commands": _plain_commands(connection)})
    else:
        print(message)
        _show(connection)


def _plain_commands(connection: Connection) -> list[dict[str, Any]]:
    return [{"kind": kind_of(type(each)), **to_plain(each, full=True)} for each in _in_force(connection)]


def _in_force(connection: Connection) -> list[Command]:
    now = connection.clock()
    return [it for it in connection.store.state().commands if it.until is None or it.until > now]


def _worded(order: Command) -> tuple[str, str]:
    """What it asks for, and of which pool."""
    match order:
        case Scale():
            size = f"{order.nodes} or more" if order.at_least else f"{order.nodes}"
            return f"scale to {size}{f' for {order.origin}' if order.origin else ''}", order.pool
        case Pause():
            return "pause scale-down" if order.scale_down_only else "pause", order.pool or ALL_POOLS
        case Adopt():
            return f"adopt {order.instance}", order.pool
        case Drain():
            return f"drain {order.instance}", order.pool
        case Recycle():
            return f"recycle {order.instance}", ""
        case _:
            assert_never(order)


def _show(connection: Connection) -> None:
    now = connection.clock()
    found = _in_force(connection)
    if not found:
        print("No commands are in force: the pools follow their policy.")
        return
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for column in ("command", "pool", "until", "left", "by", "reason"):
        table.add_column(column, header_style="dim", overflow="fold")
    for order in found:
        what, pool = _worded(order)
        until = worded_time(order.until) if order.until else "resumed"
        left = worded_span(order.until - now) if order.until else ""
        table.add_row(*map(Text, (what, pool, until, left, order.by, order.reason)))
    Console(highlight=False).print(table)

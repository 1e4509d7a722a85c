"""`nodefleet failover FROM TO`: a region's demand becomes a floor of the standby cluster, and goes back by command.

    nodefleet failover FROM TO              TO is kept at its own size and FROM's, until --for is over
    nodefleet failover FROM TO --planned    the same, and FROM is held at its min: its nodes are drained by every rule
                                            of a voluntary removal (drain_timeout, 300 s)
    nodefleet failover FROM TO --back       both end

The floor is a number in TO's own records. With `--nodes` nothing of FROM is asked for, so a region that is gone keeps
nobody from moving; without it FROM's last decision says how many nodes it had. Where requests go is not decided here.
"""

from collections.abc import Mapping

import typer

from nodefleet.errors import NodeFleetError
from nodefleet.model.alerts import AlertKind
from nodefleet.model.names import pluralize
from nodefleet.model.snapshot import Scale
from nodefleet.model.state import Level
from nodefleet.policy.cluster import Policy
from nodefleet_tools.cli import connect
from nodefleet_tools.cli.connections import Connection
from nodefleet_tools.cli.environment import InputError, NotFoundError
from nodefleet_tools.cli.operators import because, event, someone, span, worded_time
from nodefleet_tools.cli.outcome import note_change, print_json
from nodefleet_tools.cli.urgent_run import woken

_LOOKED_AT = (1, 20, 200, 1000)  # decisions: the last one will mostly do, and a region may have failed for a day


def failover(
    *,
    origin: str,
    standby: str,
    planned: bool,
    back: bool,
    nodes: list[str] | None,
    lasting: str,
    reason: str,
    by: str,
    as_json: bool,
    table: str,
    from_table: str,
) -> None:
    if origin == standby:
        raise typer.BadParameter("FROM and TO are the same cluster")
    who, source = someone(by), from_table or table
    if back:
        said = _end(origin, standby, who, table, source)
    else:
        given = _given(nodes or [])
        demand = given or _demand_of(origin, source)
        said = _begin(origin, standby, demand, who, reason.strip(), lasting, table, given=bool(given))
        if planned:
            said += _hold_at_min(origin, standby, demand, who, reason.strip(), lasting, source)
    if as_json:
        print_json({"messages": said})
    else:
        print("\n".join(said))


# ── what moves ───────────────────────────────────────────────────────────────────────────────────────────────────


def _given(nodes: list[str]) -> dict[str, int]:
    found = {}
    for each in nodes:
        pool, _, number = each.partition("=")
        if not pool or not number.isdecimal():
            raise typer.BadParameter(f"--nodes: {each!r} is not POOL=N")
        found[pool] = int(number)
    return found


def _demand_of(origin: str, table: str) -> dict[str, int]:
    with connect.connected(cluster=origin, table=table) as connection:
        try:
            sizes = _sizes(connection)
        except NodeFleetError as error:
            raise InputError(f"{origin} cannot be asked for its size: {error}\nSay --nodes POOL=N") from error
        if not sizes:
            raise NotFoundError(
                f"{origin} has no recorded decision that saw its nodes: say how many move with --nodes POOL=N"
            )
        return sizes


def _sizes(connection: Connection) -> dict[str, int]:
    """The size of each pool at the last decision that saw it: while EC2 or Kubernetes cannot be read, as when a region
    fails, hardly a node counts. Nodes that are lost and to be replaced belong to it."""
    before = None
    for most in _LOOKED_AT:
        records = connection.history.decisions(most, before)
        for record in records:
            if record.decision.level is not Level.PARTIAL:
                return {pool.pool: max(pool.count.capacity, pool.target) for pool in record.decision.pools}
        if len(records) < most:
            break
        before = records[-1].decision.at
    return {}


# ── both clusters ────────────────────────────────────────────────────────────────────────────────────────────────


def _begin(
    origin: str,
    standby: str,
    demand: Mapping[str, int],
    by: str,
    reason: str,
    lasting: str,
    table: str,
    *,
    given: bool,
) -> list[str]:
    said = []
    with connect.connected(cluster=standby, table=table) as connection:
        policy = _policy(connection)
        sizes = _sizes(connection)
        now = connection.clock()
        until = now + span(lasting, "--for")
        floors = {each.pool: each for each in _failovers(connection) if each.at_least and now < each.until}
        for pool, asked in demand.items():
            rules = policy.pool(pool)
            if rules is None:
                connection.warn(f"{standby} has no pool {pool}: its {pluralize(asked, 'node', 'nodes')} do not move")
                continue
            before = floors.get(pool)
            own, number = _own_size(sizes.get(pool, 0), before, origin), asked
            if before and before.origin == origin and not given:
                number = max(asked, before.moved)  # it may have given nodes back since
            elif before and before.origin != origin:
                connection.warn(f"the failover of {before.origin} becomes part of this one: --back ends both")
            wanted = own + number
            most = rules.limits.max
            if wanted > most:
                needs = f"{pool} needs {pluralize(wanted, 'node', 'nodes')}"
                connection.warn(f"{needs} and limits.max is {most}: raise it with `policy apply`")
            order = Scale(
                pool=pool,
                nodes=min(wanted, most),
                at_least=True,
                origin=origin,
                moved=max(0, min(wanted, most) - own),
                by=by,
                reason=reason,
                until=until,
            )
            text = (
                f"{by} moved {pluralize(number, 'node', 'nodes')} of {origin} to pool {pool}{because(reason)}."
                f" It is kept at {order.nodes} or more until {worded_time(until)}."
                f" `nodefleet failover {origin} {standby} --back` ends it."
            )
            connection.store.order(order, event(connection, AlertKind.SCALED_BY_OPERATOR, text, pool=pool))
            note_change(f"{pool} of {standby} is kept at {order.nodes} or more.")
            said.append(f"{standby}: {pool} is kept at {order.nodes} or more until {worded_time(until)}.")
        if not said:
            raise InputError(f"{standby} has none of the pools {', '.join(demand)}: nothing moves")
        said[-1] += f" {woken(connection, policy.interval)}"
    return said


def _own_size(capacity: int, before: Scale | None, origin: str) -> int:
    """What the standby has for its own demand. Of the nodes of a floor that stands already those for the same cluster
    are not its own, and those for another cluster are, though they may not be there yet."""
    if before is None:
        return capacity
    if before.origin != origin:
        return max(capacity, before.nodes)
    return before.nodes - before.moved + max(0, capacity - before.nodes)


def _hold_at_min(
    origin: str, standby: str, demand: Mapping[str, int], by: str, reason: str, lasting: str, table: str
) -> list[str]:
    """FROM gives its nodes back as its pods leave: no node goes whose pods fit nowhere else."""
    said = []
    with connect.connected(cluster=origin, table=table) as connection:
        policy = _policy(connection)
        until = connection.clock() + span(lasting, "--for")
        for pool in demand:
            rules = policy.pool(pool)
            if rules is None:
                continue
            order = Scale(pool=pool, nodes=rules.limits.min, origin=origin, by=by, reason=reason, until=until)
            text = (
                f"{by} moved pool {pool} to {standby}{because(reason)}. It is held at its min of {order.nodes} until"
                f" {worded_time(until)}. `nodefleet failover {origin} {standby} --back` ends it."
            )
            connection.store.order(order, event(connection, AlertKind.SCALED_BY_OPERATOR, text, pool=pool))
            note_change(f"{pool} of {origin} is held at {order.nodes}.")
            said.append(f"{origin}: {pool} is held at its min of {order.nodes} until {worded_time(until)}.")
        if said:
            said[-1] += f" {woken(connection, policy.interval)}"
    return said


def _end(origin: str, standby: str, by: str, table: str, source: str) -> list[str]:
    """TO first; that FROM cannot be reached is said, and its own command ends by its time."""
    said = _withdraw(origin, standby, by, table)
    try:
        with connect.connected(cluster=origin, table=source) as connection:
            connection.store.state()
    except (NodeFleetError, typer.Exit):
        return [*said, f"{origin} cannot be reached: what holds it at its min ends by its time."]
    return said + _withdraw(origin, origin, by, source)


def _withdraw(origin: str, cluster: str, by: str, table: str) -> list[str]:
    with connect.connected(cluster=cluster, table=table) as connection:
        moved = _failovers(connection)
        found = [each for each in moved if each.origin == origin]
        for order in found:
            text = f"{by} ended the failover of {origin}: pool {order.pool} follows its signals again."
            connection.store.withdraw(order, event(connection, AlertKind.SCALED_BY_OPERATOR, text, pool=order.pool))
            note_change(f"{order.pool} of {cluster} follows its signals again.")
        if not found:
            others = ", ".join(sorted({each.origin for each in moved}))
            return [f"{cluster}: there is no failover of {origin}{f', but of {others}' if others else ''}."]
        pools = ", ".join(order.pool for order in found)
        again = "follows its signals" if len(found) == 1 else "follow their signals"
        return [f"{cluster}: {pools} {again} again. {woken(connection)}"]


def _failovers(connection: Connection) -> list[Scale]:
    return [each for each in connection.store.state().commands if isinstance(each, Scale) and each.origin]


def _policy(connection: Connection) -> Policy:
    governing = connection.governing()
    if governing.hold:
        raise InputError(f"{governing.hold}: it is not known which pools {connection.cluster_id} has")
    return governing.policy

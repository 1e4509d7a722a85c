"""`nodefleet clusters`: the clusters that one deployment for many of them serves (docs/clusters.md)."""

from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any

from rich.table import Table
from rich.text import Text

from nodefleet.adapters.dynamodb.store import DynamoHistory
from nodefleet.adapters.dynamodb.table import DynamoRegistry
from nodefleet.model.alerts import AlertKind
from nodefleet.model.names import SHARED_PARTITION, pluralize
from nodefleet.model.snapshot import Deployment, FleetParts, RegisteredCluster
from nodefleet_tools import fleet
from nodefleet_tools.cli.connect import connected
from nodefleet_tools.cli.connections import Connection
from nodefleet_tools.cli.environment import InputError
from nodefleet_tools.cli.operators import confirm_destructive, event, someone
from nodefleet_tools.cli.outcome import note_change, print_json
from nodefleet_tools.cli.show_record import page_console
from nodefleet_tools.durations import ago
from nodefleet_tools.fleet import ClusterRow, state_of

_USUAL = timedelta(minutes=2)


def list_clusters(*, troubled: bool, as_json: bool, table: str) -> None:
    with connected(cluster=SHARED_PARTITION, table=table) as connection:
        listed = cluster_rows(connection)
        shown = [each for each in listed if each.troubled or not troubled]
        if as_json:
            print_json([plain_row(each) for each in shown])
        elif not listed:
            print("No cluster is registered: `nodefleet clusters add CLUSTER` adds one.")
        else:
            _show(shown, listed, connection)


def add(*, name: str, region: str, by: str, as_json: bool, table: str) -> None:
    with connected(cluster=name, table=table) as connection:
        parts, deployment = _parts(connection), connection.deployment
        if not name.startswith(parts.prefix):
            raise InputError(
                f"the ids of this deployment's clusters begin with {parts.prefix}: its role acts on no others"
            )
        if deployment is None:
            raise InputError(
                f"no deployment of {name} is stored: `nodefleet init --cluster {name}` or `deployment put`"
            )
        deployed = replace(deployment, region=region or deployment.region, reconcile_function=parts.reconcile_function)
        if deployed != deployment:
            connection.put_deployment(deployed)
            note_change(f"The deployment of {name} is stored.")
        tagged = _tag(connection, parts, deployed)
        registered = RegisteredCluster(name=name, region=deployed.region, by=someone(by), at=connection.clock())
        said = _store(connection, parts, registered, "added it to the deployment")
        if as_json:
            print_json({"cluster": name, "region": deployed.region, "tagged": list(tagged)})
        else:
            print(f"{said} {pluralize(len(tagged), 'launch part is', 'launch parts are')} tagged. {_first_tick(parts)}")


def remove(*, name: str, yes: bool, by: str, as_json: bool, table: str) -> None:
    with connected(cluster=name, table=table) as connection:
        parts, _ = _parts(connection), _registered(connection)
        confirm_destructive(f"Stop scaling {name}? Its nodes stay as they are.", yes=yes)
        fleet.delete_schedule(connection.session.client("scheduler"), parts, name)
        registry(connection).remove(name)
        text = f"{someone(by)} took {name} out of the deployment. Nothing scales it any more."
        connection.store.tell(event(connection, AlertKind.PAUSED, text))
        note_change(f"{name} is no longer served.")
        _answer(f"{name} is no longer served. Its nodes and its records stay.", name, as_json=as_json)


def pause(*, name: str, by: str, as_json: bool, table: str) -> None:
    _switch(name, by, table, as_json=as_json, paused=True)


def resume(*, name: str, by: str, as_json: bool, table: str) -> None:
    _switch(name, by, table, as_json=as_json, paused=False)


def _switch(name: str, by: str, table: str, *, as_json: bool, paused: bool) -> None:
    with connected(cluster=name, table=table) as connection:
        parts, known = _parts(connection), _registered(connection)
        done = "took it out of service" if paused else "put it into service again"
        _answer(_store(connection, parts, replace(known, paused=paused), done, by), name, as_json=as_json)


def _store(connection: Connection, parts: FleetParts, cluster: RegisteredCluster, done: str, by: str = "") -> str:
    """The record first: a tick of a cluster that is not registered would be set aside."""
    registry(connection).put(cluster)
    fleet.put_schedule(connection.session.client("scheduler"), parts, cluster, connection.clock())
    kind = AlertKind.PAUSED if cluster.paused else AlertKind.RESUMED
    connection.store.tell(event(connection, kind, f"{someone(by) if by else cluster.by} {done}."))
    said = f"{cluster.name} is {'paused' if cluster.paused else 'served'}."
    note_change(said)
    return said


def _tag(connection: Connection, parts: FleetParts, deployment: Deployment) -> tuple[str, ...]:
    return fleet.tag_launch_parts(connection.session_in(deployment.region).client("ec2"), parts, deployment)


def _first_tick(parts: FleetParts) -> str:
    return f"Its first run is within {int(parts.every.total_seconds())} seconds."


def _answer(said: str, name: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"cluster": name, "message": said})
    else:
        print(said)


# ── what the table says ──────────────────────────────────────────────────────────────────────────────────────────────


def registry(connection: Connection) -> DynamoRegistry:
    return DynamoRegistry(connection.session.client("dynamodb"), connection.settings.table, connection.warn)


def _parts(connection: Connection) -> FleetParts:
    parts = registry(connection).parts()
    if parts is None:
        raise InputError(
            f"table {connection.settings.table} belongs to no deployment for many clusters:"
            " set `autoscaler.fleet` in its stack and deploy it (docs/clusters.md)"
        )
    return parts


def _registered(connection: Connection) -> RegisteredCluster:
    known = registry(connection).find(connection.cluster_id)
    if known is None:
        raise InputError(f"{connection.cluster_id} is not registered: `nodefleet clusters list` shows those that are")
    return known


def cluster_rows(connection: Connection, *, costs: bool = False) -> list[ClusterRow]:
    found, client = registry(connection), connection.session.client("dynamodb")
    parts = found.parts()

    def history_of(cluster: str) -> DynamoHistory:
        return DynamoHistory(client, connection.settings.table, cluster, connection.warn)

    every = parts.every if parts else _USUAL
    return list(fleet.rows(history_of, found.clusters(), every, connection.clock(), costs=costs))


def plain_row(row: ClusterRow) -> dict[str, Any]:
    at = row.decided_at
    unknown = {} if row.is_known else dict.fromkeys(("nodes", "target", "pending"))
    return {**asdict(row), **unknown, "decided_at": at.isoformat() if at else None, "troubled": row.troubled}


def _show(shown: list[ClusterRow], listed: list[ClusterRow], connection: Connection) -> None:
    console, now = page_console(), connection.clock()
    table = Table("cluster", "region", "state", "decided", "nodes", "pending", box=None, pad_edge=False)
    for row in shown:
        nodes = (
            "-" if not row.is_known else str(row.nodes) if row.nodes == row.target else f"{row.nodes} → {row.target}"
        )
        decided = ago(now - row.decided_at) if row.decided_at else "-" if row.problem else "never"
        style = "bold red" if row.troubled else "dim" if row.paused else ""
        cells = (row.name, row.region or "-", state_of(row), decided, nodes, str(row.pending) if row.is_known else "-")
        table.add_row(*(Text(cell, style) for cell in cells))
    console.print(table)
    console.print(Text(summary(listed), "bold"))


def summary(listed: list[ClusterRow]) -> str:
    nodes, pending = sum(row.nodes for row in listed), sum(row.pending for row in listed)
    troubled, paused = sum(row.troubled for row in listed), sum(row.paused for row in listed)
    return (
        f"{pluralize(len(listed), 'cluster', 'clusters')}, {pluralize(nodes, 'node', 'nodes')}; {troubled} in trouble,"
        f" {paused} paused, {pluralize(pending, 'pod', 'pods')} pending"
    )

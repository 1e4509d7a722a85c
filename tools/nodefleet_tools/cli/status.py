"""`nodefleet status`, `nodes` and `cost`: the fleet now and its cost, the same data as on the page."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from nodefleet.model.fleet import Phase
from nodefleet.model.names import pluralize
from nodefleet.model.serialization import nearest
from nodefleet_tools.cli.connect import connected
from nodefleet_tools.cli.connections import Connection
from nodefleet_tools.cli.environment import InputError
from nodefleet_tools.cli.operators import known_state
from nodefleet_tools.cli.outcome import Status, fail, print_json
from nodefleet_tools.cli.show_record import page_console
from nodefleet_tools.dashboard import money
from nodefleet_tools.dashboard.seen import observe_cluster
from nodefleet_tools.dashboard.snapshot import UNKNOWN, Json, snapshot
from nodefleet_tools.dashboard.source import runtime_of
from nodefleet_tools.durations import ago, lasting

_WIDE = 120  # columns that the table of nodes needs with names as EC2 gives them
_MOST = 8  # pods, operations and alarms in the overview; `--json` has all


def status(*, as_json: bool, cluster: str, table: str) -> None:
    with connected(cluster=cluster, table=table) as connection:
        found = seen(connection)
        if as_json:
            print_json(found)
        else:
            _show_status(found, page_console())


def nodes(*, pool: str, phase: str, as_json: bool, cluster: str, table: str) -> None:
    with connected(cluster=cluster, table=table) as connection:
        found = seen(connection)
        for each in found["problems"]:  # a phase that was derived without a part would be taken for the truth
            connection.warn(f"{each['part']}: {each['cause']}")
        if any(each["part"] == "EC2" for each in found["problems"]):
            fail("EC2 cannot be read, so it is not known which workers there are.", Status.FAILED)
        pools = {each["name"] for each in found["pools"]} | {each["pool"] for each in found["nodes"]}
        _require_known("--pool", pool, pools)
        _require_known("--phase", phase, {*(each.value for each in Phase), UNKNOWN})
        listed = [each for each in found["nodes"] if pool in ("", each["pool"]) and phase in ("", each["phase"])]
        if as_json:
            print_json(listed)
        elif listed:
            _show_nodes(listed, found["at"], page_console())
        else:
            print("No worker is there." if not found["nodes"] else "No worker is like that.")


def _require_known(option: str, given: str, known: Collection[str]) -> None:
    if given and given not in known:
        raise InputError(f"{option}: there is no {given}: {nearest(given, [each for each in known if each])}")


def cost(*, as_json: bool, cluster: str, table: str) -> None:
    with connected(cluster=cluster, table=table) as connection:
        state, policy = connection.store.state(), connection.governing().policy
        found = money.money(connection.history, connection.cloud, state, policy, connection.clock())
        if not any(period["watched_hours"] for period in found["periods"].values()):
            fail(f"No hour of {connection.cluster_id} is recorded yet.", Status.NOTHING)
        if as_json:
            print_json(found)
        else:
            _show_cost(found, page_console())


def seen(connection: Connection) -> Json:
    """The cluster now, read with the operator's credentials. Parts that do not answer are in `problems`."""
    known_state(connection)
    return snapshot(observe_cluster(runtime_of(connection)))


# ── on a page ────────────────────────────────────────────────────────────────────────────────────────────────────


def _show_status(found: Json, console: Console) -> None:
    last = found["last"]
    policy = f"policy version {found['policy']['version']}" if found["policy"]["version"] else "the default policy"
    ran = (
        f"{found['level']}; {policy}; last decision {ago(_age(found, last['at']))}" if last else f"no run yet; {policy}"
    )
    console.print(Text(f"{found['cluster']}: {ran}; {_price(found['cost'])}", "bold"))
    for each in found["problems"]:
        console.print(Text(f"! {each['part']}: {each['cause']}", "bold red"))
    reasons = {each["pool"]: each["reason"] for each in last["pools"]} if last else {}
    for pool in found["pools"]:
        console.print(Text(_pool_line(pool)))
        if pool["name"] in reasons:
            console.print(Text(f"  {reasons[pool['name']]}", "dim"))
    _list(console, "Pending pods", _pending_lines(found))
    _list(console, "Under way", [_operation_line(each) for each in found["operations"]])
    _list(console, "Alarms", [f"{each['headline']}: {each['text']}" for each in found["alarms"] if each["active"]])
    _list(console, "Commands in force", [_command_line(each) for each in found["commands"]])


def _pool_line(pool: Json) -> str:
    load = [_reading_text(name, pool[name]) for name in ("cpu", "memory")]
    dry = "; dry run" if pool["dry_run"] else ""
    known = pool["ready"] is not None
    target = f", target {pool['target']}" if pool["target"] not in (None, pool["capacity"]) else ""
    ready = f"{pool['ready']} ready of {pluralize(pool['capacity'], 'node', 'nodes')}" if known else "nodes unknown"
    return f"{pool['name']}: {ready}{target} (limits {pool['min']} to {pool['max']}); {', '.join(load)}{dry}"


def _reading_text(name: str, reading: Json) -> str:
    label = "CPU" if name == "cpu" else name
    return f"{label} unknown" if reading["value"] is None else f"{label} {reading['value']:.0f} %"


def _pending_lines(found: Json) -> list[str]:
    pending = found["pending"]
    if pending["count"] is None:
        return ["unknown"]
    lines = [_pod_line(found, each) for each in pending["pods"]]
    return lines or ([f"{pending['count']}, names unknown"] if pending["count"] else [])


def _pod_line(found: Json, pod: Json) -> str:
    since = f" for {lasting(_age(found, pod['since']))}" if pod["since"] is not None else ""
    return f"{pod['name']}{since}: {pod['message'] or 'the scheduler finds no node'}"


def _operation_line(operation: Json) -> str:
    left = operation.get("left") or []
    waits = [f"{each['pod']} ({each['why'] or 'is being evicted'})" for each in left[:3]]
    pods = f"; {pluralize(operation['total'], 'pod', 'pods')} left: {', '.join(waits)}" if waits else ""
    return f"{operation['kind']} of {operation['subject']}, {operation['step']}: {operation['reason']}{pods}"


def _command_line(command: Json) -> str:
    until = f" until {_time(command['until']):%Y-%m-%d %H:%M} UTC" if command["until"] else ""
    reason = f": {command['reason']}" if command["reason"] else ""
    return f"{command['kind']} {command['subject']}{until}, by {command['by']}{reason}"


def _list(console: Console, heading: str, lines: list[str]) -> None:
    if not lines:
        return
    console.print(Text(heading, "bold"))
    for line in lines[:_MOST]:
        console.print(Text(f"  {line}"))
    if len(lines) > _MOST:
        console.print(Text(f"  … and {len(lines) - _MOST} more", "dim"))


def _price(cost: Json) -> str:
    spot = f", {cost['spot_percent']:.0f} % Spot" if cost["spot_percent"] is not None else ""
    unpriced = f" (without {cost['unpriced']} of unknown price)" if cost["unpriced"] else ""
    return "cost unknown" if cost["hourly_usd"] is None else f"{cost['hourly_usd']:.3f} USD/h{unpriced}{spot}"


def _show_nodes(listed: list[Json], at: Any, console: Console) -> None:
    if console.width < _WIDE:
        for each in listed:
            console.print(Text.assemble((each["name"], "bold"), f"  {each['phase']}", overflow="fold"))
            for line in _node_lines(each, at):
                console.print(Padding(Text(line, "dim"), (0, 0, 0, 2)))
        return
    table = _table("name", "pool", "phase", "type", "market", "zone", "age", "pods", "CPU", "USD/h", "why")
    for each in listed:
        age = lasting(_time(at) - _time(each["since"])) if each["since"] is not None else ""
        cpu = "" if each["cpu"] is None else f"{each['cpu']:.0f} %"
        usd = "" if each["usd"] is None else f"{each['usd']:.4f}"
        pods = "" if each["pods"] is None else str(each["pods"])
        cells = (each["name"], each["pool"], each["phase"], each["type"], each["market"], each["zone"])
        table.add_row(*map(Text, (*cells, age, pods, cpu, usd, each["why"])))
    console.print(table)


def _node_lines(each: Json, at: Any) -> list[str]:
    """What a row of the table says, for a terminal that would break its columns."""
    load = [] if each["cpu"] is None else [f"CPU {each['cpu']:.0f} %"]
    pods = [] if each["pods"] is None else [pluralize(each["pods"], "pod", "pods")]
    age = [lasting(_time(at) - _time(each["since"]))] if each["since"] is not None else []
    price = [] if each["usd"] is None else [f"{each['usd']:.4f} USD/h"]
    place = [each["pool"], each["type"], each["market"], each["zone"]]
    return [", ".join(filter(None, [*place, *age, *pods, *load, *price])), *([each["why"]] if each["why"] else [])]


def _show_cost(found: Json, console: Console) -> None:
    table = _table("", "USD", "node-hours", "fixed fleet", "saved", "own cost", "Spot", "interruptions")
    for name, each in found["periods"].items():
        figures = [_usd(each["usd"]), f"{each['node_hours']:.1f}", _usd(each["fixed_usd"]), _usd(each["saved_usd"])]
        spot = "–" if each["spot_percent"] is None else f"{each['spot_percent']:.0f} %"
        table.add_row(*map(Text, (name, *figures, _usd(each["own_usd"]), spot, str(each["interruptions"]))))
    console.print(table)
    console.print(Text("A fixed fleet has as many nodes as the busiest moment of the period, all the time.", "dim"))


def _usd(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for column in columns:
        table.add_column(column, header_style="dim", overflow="fold")
    return table


def _age(found: Json, at: Any) -> timedelta:
    return _time(found["at"]) - _time(at)


def _time(at: Any) -> datetime:
    return datetime.fromtimestamp(at, UTC) if isinstance(at, int | float) else datetime.fromisoformat(at)

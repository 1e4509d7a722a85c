"""Options and help of the commands that only read; commands_set_up says why they are apart."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from nodefleet_tools.cli.lazy import runs
from nodefleet_tools.cli.options import BucketOption, ByOption, ClusterOption, TableOption, Week
from nodefleet_tools.cli.outcome import JsonOption

KindOption = Annotated[str, typer.Option("--kind", help="Only this kind, such as scale-up.", show_default=False)]
# The names of model/decision.py, which is not imported for them; a test compares.
ActionName = Literal["grow", "shrink", "hold"]


@runs("status:status")
def status(as_json: JsonOption = False, cluster: ClusterOption = "", table: TableOption = "") -> None:
    """Show the fleet now: pools, pending pods, operations, alarms."""


@runs("status:nodes")
def nodes(
    pool: Annotated[str, typer.Option(help="Only this pool.", show_default=False)] = "",
    phase: Annotated[str, typer.Option(help="Only this phase, such as ready or draining.", show_default=False)] = "",
    as_json: JsonOption = False,
    cluster: ClusterOption = "",
    table: TableOption = "",
) -> None:
    """List the workers: phase, type, market, load, price, reason."""


@runs("status:cost")
def cost(as_json: JsonOption = False, cluster: ClusterOption = "", table: TableOption = "") -> None:
    """Show the cost of today, week and month against a fixed fleet."""


@runs("events:events")
def events(
    since: Annotated[str, typer.Option(help="How far back: 90s, 30m, 2h, 7d.")] = "1d",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new ones until Ctrl-C.")] = False,
    kind: KindOption = "",
    as_json: JsonOption = False,
    cluster: ClusterOption = "",
    table: TableOption = "",
) -> None:
    """List what happened: launches, removals, alerts, commands."""


@runs("events:decisions")
def decisions(
    last: Annotated[int, typer.Option(min=1, help="How many, unless --since says otherwise.")] = 20,
    since: Annotated[str, typer.Option(help="All of this time: 90s, 30m, 2h, 7d.", show_default=False)] = "",
    pool: Annotated[str, typer.Option(help="Only this pool.", show_default=False)] = "",
    action: Annotated[ActionName | None, typer.Option(help="Only those that did this.", show_default=False)] = None,
    as_json: JsonOption = False,
    cluster: ClusterOption = "",
    table: TableOption = "",
) -> None:
    """List the decisions, newest first: action, size, reason."""


@runs("dashboard:dashboard")
def dashboard(
    *,
    demo: Annotated[bool, typer.Option("--demo", help="Over a simulated cluster: no AWS, no network.")] = False,
    every_cluster: Annotated[
        bool, typer.Option("--all", help="All clusters of a deployment for many, and the page of each.")
    ] = False,
    scenario: Annotated[str, typer.Option(help="The day that --demo plays (see simulate --list).")] = "shop-day",
    port: Annotated[int, typer.Option(help="On 127.0.0.1; 0 takes a free one.", min=0, max=65535)] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")] = True,
    every: Annotated[float, typer.Option(help="Seconds between two looks at the cluster.", min=2)] = 10.0,
    as_json: JsonOption = False,
    by: ByOption = "",
    cluster: ClusterOption = "",
    table: TableOption = "",
    bucket: BucketOption = "",
) -> None:
    """Open the page: the fleet now, why, what it costs, and controls.

    It listens on 127.0.0.1 only and reads with your own AWS and Kubernetes credentials. Ctrl-C ends it.

    \b
      nodefleet dashboard --demo
      nodefleet dashboard --cluster shop --table node-fleet
      nodefleet dashboard --all --table node-fleet-many-state
    """


@runs("explain:explain")
def explain(
    node: Annotated[
        str, typer.Argument(metavar="NODE|POD", help="A node: why it stays or leaves. A pod: why it waits.")
    ] = "",
    last: Annotated[int | None, typer.Option(min=1, help="So many of the last decisions, a line each.")] = None,
    since: Annotated[str, typer.Option(help="How far to look back: 90s, 30m, 2h, 7d.", show_default=False)] = "",
    as_json: JsonOption = False,
    cluster: ClusterOption = "",
    table: TableOption = "",
) -> None:
    """Say why it decided so, why a node stays, why a pod waits.

    Without arguments: the last decision, with everything that had a say in it."""


@runs("replay:replay")
def replay(
    *,
    identity: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="A decision's id or time; without one, the newest that was kept whole.",
            show_default=False,
        ),
    ] = "",
    last: Annotated[
        int | None, typer.Option(min=1, help="So many of the last decisions that were kept whole, a line each.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option(help="A decision input as the archive keeps it, instead of one from there.")
    ] = None,
    policy: Annotated[Path | None, typer.Option(help="What would this policy have decided?")] = None,
    save: Annotated[
        Path | None, typer.Option(help="Write the decision input as a file for `nodefleet decide`.")
    ] = None,
    as_json: JsonOption = False,
    cluster: ClusterOption = "",
    table: TableOption = "",
    bucket: BucketOption = "",
) -> None:
    """Decide again what was decided, and compare.

    nodefleet replay --last 50

    nodefleet replay --last 50 --policy new.yaml

    Exit status 0: the same; 1: otherwise; 2: it cannot be asked again. With --last and --policy it counts what a
    decision comes to, not how it is explained."""


@runs("report:report")
def report(
    week: Annotated[Week, typer.Option(help="The last one that is over, or the one that is running.")] = Week.LAST,
    html: Annotated[
        Path | None, typer.Option(help="Write it as an HTML file with curves.", show_default=False, metavar="FILE")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All clusters of a deployment for many (see `nodefleet clusters`).")
    ] = False,
    as_json: JsonOption = False,
    cluster: ClusterOption = "",
    table: TableOption = "",
) -> None:
    """Show a week in figures, with recommendations.

    Node-hours, cost, savings and failures, as operators hear of them on Mondays. It is sent nowhere."""


@runs("health:health")
def health(
    file: Annotated[
        Path | None, typer.Option(help="The file that `run --loop --heartbeat` touches, instead of the table.")
    ] = None,
    within: Annotated[int, typer.Option(help="With --file: its greatest age in seconds.", min=1)] = 600,
    as_json: JsonOption = False,
    cluster: ClusterOption = "",
    table: TableOption = "",
) -> None:
    """Say whether runs happen: for probes and monitors.

    Status 0 if the last decision (or the heartbeat file) is young enough, 1 if it is old, 3 if there is none.
    """

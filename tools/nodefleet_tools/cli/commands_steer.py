"""Options and help of the commands that steer a cluster or run it; commands_set_up says why they are apart."""

from pathlib import Path
from typing import Annotated

import typer

from nodefleet_tools.cli.lazy import runs
from nodefleet_tools.cli.options import BucketOption, ByOption, ClusterOption, ReasonOption, TableOption, YesOption
from nodefleet_tools.cli.outcome import JsonOption

_A_DAY = "1d"  # a command that was not possible by then is dropped, and the workers raise their alert again

InstancesArgument = Annotated[
    list[str] | None,
    typer.Argument(help="Names of nodes, or ids of instances.", metavar="NODE", show_default=False),
]
AllOption = Annotated[bool, typer.Option("--all", help="Every worker that no pool owns now.")]
CancelOption = Annotated[bool, typer.Option("--cancel", help="Withdraw the command for these workers instead.")]
GiveUpOption = Annotated[str, typer.Option("--for", help="Give up after: 90s, 5m, 2h, 7d.", metavar="TIME")]
ForOption = Annotated[str, typer.Option("--for", help="How long: 90s, 5m, 2h, 7d.", show_default=False, metavar="TIME")]


@runs("operator_commands:pause")
def pause(
    *,
    pool: Annotated[str, typer.Argument(help="Only this pool; else all.", show_default=False)] = "",
    scale_down_only: Annotated[
        bool, typer.Option("--scale-down-only", help="Nothing is removed; pools still grow. Needs --for.")
    ] = False,
    lasting: ForOption = "",
    reason: ReasonOption = "",
    by: ByOption = "",
    as_json: JsonOption = False,
    cluster: ClusterOption = "",
    table: TableOption = "",
) -> None:
    """Stop scaling for a while, or until `nodefleet resume`.

    Min is still kept. A pause replaces the one that the pool, or all pools, had before.

    \b
      nodefleet pause --for 2h --reason "database migration"
      nodefleet pause web
      nodefleet pause --scale-down-only --for 8h --reason "long batch jobs"
    """


@runs("operator_commands:resume")
def resume(
    *,
    pool: Annotated[
        str, typer.Argument(help="The pool whose pause ends; else the pause of all.", show_default=False)
    ] = "",
    by: ByOption = "",
    as_json: JsonOption = False,
    cluster: ClusterOption = "",
    table: TableOption = "",
) -> None:
    """End a pause.

    \b
      nodefleet resume
      nodefleet resume web
    """


@runs("operator_commands:scale")
def scale(
    *,
    pool: Annotated[str, typer.Argument(help="The pool.")],
    nodes: Annotated[int | None, typer.Argument(help="How many workers it shall have.", min=0)] = None,
    lasting: ForOption = "",
    reason: ReasonOption = "",
    cancel: Annotated[bool, typer.Option("--cancel", help="End the pool's scale command instead.")] = False,
    by: ByOption = "",
    as_json: JsonOption = False,
    cluster: ClusterOption = "",
    table: TableOption = "",
) -> None:
    """Keep a pool at a size for a while, within min and max.

    \b
      nodefleet scale web 8 --for 2h --reason "sale at noon"
      nodefleet scale web --cancel
    """


@runs("operator_commands:adopt")
def adopt(
    *,
    instances: InstancesArgument = None,
    pool: Annotated[str, typer.Option("--pool", help="The pool that gets them.", metavar="NAME")],
    everything: AllOption = False,
    lasting: GiveUpOption = _A_DAY,
    reason: ReasonOption = "",
    by: ByOption = "",
    as_json: JsonOption = False,
    cluster: ClusterOption = "",
    table: TableOption = "",
) -> None:
    """Hand workers that no pool owns to a pool.

    They are left over when a pool was renamed or removed.

    \b
      nodefleet adopt --pool web i-0abc i-0def
      nodefleet adopt --pool web --all
    """


@runs("operator_commands:drain")
def drain(
    *,
    instances: InstancesArgument = None,
    everything: AllOption = False,
    lasting: GiveUpOption = _A_DAY,
    reason: ReasonOption = "",
    cancel: CancelOption = False,
    yes: YesOption = False,
    by: ByOption = "",
    as_json: JsonOption = False,
    cluster: ClusterOption = "",
    table: TableOption = "",
) -> None:
    """Drain and remove workers, of a pool or of none.

    A few at a time (budgets.removals), as PodDisruptionBudgets and protections allow. A pool's worker leaves without a
    successor if the pool can spare it; else (min, load, pods without room) a new one comes first.

    \b
      nodefleet drain ip-10-0-1-17 --reason "noisy disk"
      nodefleet drain ip-10-0-1-17 --cancel
      nodefleet drain --all --reason "pool batch is retired"
    """


@runs("operator_commands:recycle")
def recycle(
    *,
    instances: InstancesArgument = None,
    pool: Annotated[str, typer.Option("--pool", help="Every worker of this pool.", metavar="NAME")] = "",
    lasting: GiveUpOption = _A_DAY,
    reason: ReasonOption = "",
    cancel: CancelOption = False,
    yes: YesOption = False,
    by: ByOption = "",
    as_json: JsonOption = False,
    cluster: ClusterOption = "",
    table: TableOption = "",
) -> None:
    """Replace workers by new ones, which come first.

    The old ones are drained when the new ones are ready, by the rules of rotation and of every voluntary removal.

    \b
      nodefleet recycle i-0abc i-0def --reason "kernel update"
      nodefleet recycle --pool web --for 3d
      nodefleet recycle i-0abc --cancel
    """


@runs("operator_commands:commands")
def commands(
    *,
    as_json: JsonOption = False,
    cluster: ClusterOption = "",
    table: TableOption = "",
) -> None:
    """Show the operator commands in force, with their ends."""


@runs("failover:failover")
def failover(
    *,
    origin: Annotated[str, typer.Argument(metavar="FROM", help="The cluster whose demand moves.")],
    standby: Annotated[str, typer.Argument(metavar="TO", help="The cluster that takes it over.")],
    planned: Annotated[bool, typer.Option("--planned", help="FROM is there: hold it at its min meanwhile.")] = False,
    back: Annotated[bool, typer.Option("--back", help="End the failover from FROM to TO.")] = False,
    nodes: Annotated[
        list[str] | None,
        typer.Option("--nodes", help="POOL=N, for each pool: FROM is not asked.", show_default=False, metavar="POOL=N"),
    ] = None,
    lasting: Annotated[str, typer.Option("--for", help="How long: 90s, 5m, 2h, 7d.", metavar="TIME")] = "24h",
    reason: ReasonOption = "",
    by: ByOption = "",
    as_json: JsonOption = False,
    table: TableOption = "",
    from_table: Annotated[str, typer.Option("--from-table", help="FROM's table; else TO's.", metavar="NAME")] = "",
) -> None:
    """Move a region's demand to a standby cluster, and back.

    \b
      nodefleet failover eu-shop us-shop --nodes default=12 --reason "eu-west-1 is down"
      nodefleet failover eu-shop us-shop --planned --for 8h --reason "maintenance"
      nodefleet failover eu-shop us-shop --back
    """


@runs("protect:protect")
def protect(
    node: Annotated[str, typer.Argument(help="The node's name.")],
    off: Annotated[bool, typer.Option("--off", help="End the protection.")] = False,
    reason: ReasonOption = "",
    by: ByOption = "",
    as_json: JsonOption = False,
    cluster: ClusterOption = "",
    table: TableOption = "",
) -> None:
    """Keep a node from being removed, or end that.

    It is annotated with your own Kubernetes credentials. Interruptions by EC2 and unhealthy nodes are handled all the
    same: it only stops scale-down, consolidation, rotation and recycling.

    \b
      nodefleet protect worker-1
      nodefleet protect worker-1 --off
    """


@runs("run:run")
def run(
    *,
    once: Annotated[bool, typer.Option("--once", help="One run, then end.")] = False,
    loop: Annotated[bool, typer.Option("--loop", help="Run again and again until stopped.")] = False,
    interval: Annotated[
        str, typer.Option(help="With --loop: from run to run; without it, as the policy says (120s).", metavar="TIME")
    ] = "",
    policy: Annotated[Path | None, typer.Option(help="Go by this policy file instead of the table's.")] = None,
    deployment: Annotated[
        Path | None, typer.Option(help="Where the cluster's parts are, instead of the table's record.")
    ] = None,
    heartbeat: Annotated[
        Path | None, typer.Option(help="With --loop: touch this file after each run (see nodefleet health).")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write and change nothing anywhere.")] = False,
    as_json: JsonOption = False,
    cluster: ClusterOption = "",
    table: TableOption = "",
    bucket: BucketOption = "",
) -> None:
    """Run the autoscaler here, as the Lambda function does.

    It needs the state table (a dry run can do without), AWS credentials,
    KUBECONFIG or the cluster's secret, and PROMETHEUS_URL or the deployment's
    address. Runs here and in Lambda keep out of each other's way by the lease.

    \b
    What would happen now; nothing is written anywhere:
      nodefleet run --once --dry-run
    Try a policy on the living cluster:
      nodefleet run --once --dry-run --policy new.yaml
    For real, every two minutes until Ctrl-C:
      nodefleet run --loop
    For instances:
      nodefleet run --loop --interval 60s --json
    """

"""`nodefleet protect`: keep a node from voluntary removal, by the annotation that the engine honours."""

from typing import Annotated

import typer

from nodefleet.model.workload import SCALE_DOWN_DISABLED
from nodefleet_tools.cli.connect import ClusterOption, TableOption, connected
from nodefleet_tools.cli.operators import ByOption, ReasonOption, protect_node, someone
from nodefleet_tools.cli.outcome import JsonOption, note_change, print_json


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
    annotation = SCALE_DOWN_DISABLED[0]
    with connected(cluster=cluster, table=table) as connection:
        others = protect_node(connection, node, on=not off, by=someone(by), reason=reason)
        done = f"{node} is protected no more." if off else f"{node} is protected ({annotation}=true)."
        note_change(done)
        if off and others:
            connection.warn(f"{node} is still protected by {', '.join(others)}")
        if as_json:
            print_json({"message": done, "node": node, "protected": not off or bool(others)})
        else:
            print(done)

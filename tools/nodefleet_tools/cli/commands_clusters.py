"""Options and help of `nodefleet clusters …`; commands_set_up says why they are apart."""

from typing import Annotated

import typer

from nodefleet_tools.cli.lazy import runs
from nodefleet_tools.cli.options import ByOption, TableOption, YesOption
from nodefleet_tools.cli.outcome import JsonOption

NameArgument = Annotated[str, typer.Argument(metavar="CLUSTER", help="Its id, as its instances' tags have it.")]


@runs("clusters:list_clusters")
def list_clusters(
    troubled: Annotated[bool, typer.Option("--troubled", help="Only those that are late or not normal.")] = False,
    as_json: JsonOption = False,
    table: TableOption = "",
) -> None:
    """List the clusters of a deployment: last decision, nodes, pending pods."""


@runs("clusters:add")
def add(
    name: NameArgument,
    region: Annotated[str, typer.Option(help="Of its instances; else the deployment's own.", metavar="REGION")] = "",
    by: ByOption = "",
    as_json: JsonOption = False,
    table: TableOption = "",
) -> None:
    """Have the deployment serve a cluster whose record is in the table.

    \b
      nodefleet init --cluster eu-shop --table node-fleet-fleet-state --apply
      nodefleet clusters add eu-shop --region eu-west-1
    """


@runs("clusters:remove")
def remove(
    name: NameArgument, yes: YesOption = False, by: ByOption = "", as_json: JsonOption = False, table: TableOption = ""
) -> None:
    """End serving a cluster. Its nodes and its records stay as they are."""


@runs("clusters:pause")
def pause(name: NameArgument, by: ByOption = "", as_json: JsonOption = False, table: TableOption = "") -> None:
    """Run nothing for a cluster until `clusters resume`: not even min is kept.

    `nodefleet pause` stops scaling and keeps min. Nodes that EC2 takes are drained either way.
    """


@runs("clusters:resume")
def resume(name: NameArgument, by: ByOption = "", as_json: JsonOption = False, table: TableOption = "") -> None:
    """End a pause of `clusters pause`."""

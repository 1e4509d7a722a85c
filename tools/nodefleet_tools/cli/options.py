"""Options that several commands share, and the values that some of them take."""

from enum import Enum, StrEnum
from typing import Annotated

import typer

from nodefleet.settings import BUCKET, TABLE

CLUSTER = "NODEFLEET_CLUSTER"

ClusterOption = Annotated[
    str, typer.Option("--cluster", envvar=CLUSTER, help="The cluster's name.", show_default=False, metavar="NAME")
]
TableOption = Annotated[
    str, typer.Option("--table", envvar=TABLE, help="The state table.", show_default=False, metavar="NAME")
]
BucketOption = Annotated[
    str,
    typer.Option(
        "--bucket",
        envvar=BUCKET,
        help="The archive of decision inputs.",
        show_default=False,
        metavar="NAME",
    ),
]
ByOption = Annotated[str, typer.Option("--by", help="Who gives the order; else user@host.", show_default=False)]
ReasonOption = Annotated[str, typer.Option("--reason", help="Why, for the others.", show_default=False)]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


class Strategy(StrEnum):
    """The strategies of a policy that `init` writes."""

    ADAPTIVE = "adaptive"
    CLASSIC = "classic"


class Week(Enum):
    """The weeks that `report` knows."""

    LAST = "last"
    CURRENT = "current"

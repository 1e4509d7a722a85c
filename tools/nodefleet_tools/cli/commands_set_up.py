"""Options and help of the commands that set a cluster up. `runs` names the function that does the work.

Declared apart from that function, because its module loads the model and the policy: help, a wrong option and
completion do without them, and `make bench-cli` holds every command to its budget.
"""

from pathlib import Path
from typing import Annotated

import typer

from nodefleet_tools.cli.lazy import runs
from nodefleet_tools.cli.options import BucketOption, ByOption, ClusterOption, Strategy, TableOption, YesOption
from nodefleet_tools.cli.outcome import JsonOption


@runs("init:init")
def init(
    *,
    worker: Annotated[
        str, typer.Option(help="The worker that new ones shall be like; else one of the nodes.", metavar="INSTANCE-ID")
    ] = "",
    pool: Annotated[str, typer.Option(help="The pool's name.")] = "default",
    least: Annotated[int, typer.Option("--min", help="The smallest fleet.", min=0)] = 1,
    most: Annotated[int | None, typer.Option("--max", help="The largest; else twice the workers.", min=1)] = None,
    strategy: Annotated[
        Strategy, typer.Option(help="Size by a forecast of the load, or by fixed steps.")
    ] = Strategy.ADAPTIVE,
    prometheus: Annotated[str, typer.Option(help="Its address, such as http://10.0.1.10:9090.", metavar="URL")] = "",
    subnet: Annotated[
        list[str] | None, typer.Option(help="Where to launch, one per zone; else where workers are.", metavar="ID")
    ] = None,
    manage_existing: Annotated[
        bool, typer.Option("--manage-existing", help="Also scale the workers that run already.")
    ] = False,
    out: Annotated[Path, typer.Option(help="The folder for the files.", file_okay=False)] = Path("node-fleet"),
    apply: Annotated[bool, typer.Option("--apply", help="Create what is listed; else only write files.")] = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
    cluster: ClusterOption = "",
    table: TableOption = "",
) -> None:
    """Adopt a cluster that exists: write its files, create its parts.

    Reads the account and the cluster with your own credentials (AWS_PROFILE, KUBECONFIG), and writes a policy, a
    deployment record, the table's definition, a launch template like a worker that runs, an IAM policy and RBAC
    manifests. Nothing is created without --apply, and the policy that it stores is a dry run.

    \b
      nodefleet init --cluster shop --prometheus http://10.0.1.10:9090
      nodefleet init --cluster shop --prometheus http://10.0.1.10:9090 --apply
    """


@runs("doctor:doctor")
def doctor(
    as_json: JsonOption = False,
    cluster: ClusterOption = "",
    table: TableOption = "",
    bucket: BucketOption = "",
) -> None:
    """Check everything that is needed, and say what to fix.

    Credentials, permissions, reachability, clocks, labels, metrics, the policy. Nothing is changed."""


@runs("policy_store:apply")
def apply(
    *,
    file: Annotated[Path, typer.Argument(help="A policy file, YAML or JSON; - reads standard input.")],
    yes: YesOption = False,
    by: ByOption = "",
    as_json: JsonOption = False,
    cluster: ClusterOption = "",
    table: TableOption = "",
) -> None:
    """Check a policy, show what it changes, and put it in force.

    \b
      nodefleet policy apply policy.yaml
      nodefleet policy apply policy.yaml --yes --by ci
    """


@runs("policy_store:rollback")
def rollback(
    *,
    number: Annotated[int, typer.Argument(help="The version to go back to.", min=1)],
    yes: YesOption = False,
    by: ByOption = "",
    as_json: JsonOption = False,
    cluster: ClusterOption = "",
    table: TableOption = "",
) -> None:
    """Put an earlier version in force again, under a new number.

    \b
      nodefleet policy rollback 3
    """


@runs("policy_store:get")
def get(
    *,
    number: Annotated[
        int | None, typer.Argument(help="The version; else the one that is in force.", min=1, show_default=False)
    ] = None,
    as_json: JsonOption = False,
    cluster: ClusterOption = "",
    table: TableOption = "",
) -> None:
    """Print the policy in force, or a version, as a file to edit and apply.

    nodefleet policy get > policy.yaml"""


@runs("policy_store:versions")
def versions(
    *,
    last: Annotated[int, typer.Option(help="How many, the newest first.", min=1)] = 20,
    as_json: JsonOption = False,
    cluster: ClusterOption = "",
    table: TableOption = "",
) -> None:
    """List the policy versions: number, time, author, and what changed."""


@runs("deployment:show")
def show(
    *,
    as_json: JsonOption = False,
    cluster: ClusterOption = "",
    table: TableOption = "",
) -> None:
    """Print the stored record as YAML.

    `nodefleet deployment put` takes it as it is. It holds no secrets, only their names.
    """


@runs("deployment:put")
def put(
    *,
    file: Annotated[Path, typer.Argument(help="A deployment file, YAML or JSON; - reads standard input.")],
    yes: YesOption = False,
    as_json: JsonOption = False,
    cluster: ClusterOption = "",
    table: TableOption = "",
) -> None:
    """Check a deployment, show what it changes, and store it.

    A stack that is deployed later writes its own record again.

    \b
      targets:
        - pool: default
          template: lt-0123456789abcdef0
          template_version: "3"
          subnets: {eu-west-1a: subnet-0aa, eu-west-1b: subnet-0bb}
      prices: {t3.small: 0.0228}
      prometheus: http://10.0.1.10:9090
    """


@runs("prices:prices")
def prices(
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Ask AWS (Price List API, Spot price history), and keep it in the table.")
    ] = False,
    as_json: JsonOption = False,
    cluster: ClusterOption = "",
    table: TableOption = "",
) -> None:
    """Show what the policy's instance types cost, and who says so.

    A price of the deployment record comes first, then what AWS said last, then a bundled list of us-east-1.
    """

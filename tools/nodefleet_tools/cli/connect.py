"""What a command needs of the world: table, AWS, Kubernetes and Prometheus, as options and the environment name them.

    --cluster, NODEFLEET_CLUSTER     which cluster; needless where NODEFLEET_CLUSTERS names just one
    --table, NODEFLEET_TABLE         the state table
    --bucket, NODEFLEET_BUCKET       where looks are archived, if anywhere
    AWS_…                            as boto3 reads them: AWS_PROFILE, AWS_REGION, AWS_ENDPOINT_URL, …
    KUBECONFIG                       how to reach the API server; without it by the deployment's secret, as Lambda does
    PROMETHEUS_URL                   instead of the deployment's; PROMETHEUS_USERNAME and _PASSWORD, or _TOKEN

A command asks for a connection (see connections) and uses what it needs of it:

    with connected(cluster=cluster, table=table) as connection:
        connection.store.state()

What can be expected to go wrong ends in one message and an exit status, never in a traceback: 2 for what was asked
wrongly, 1 for what the world refused.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated

import typer

from nodefleet.adapters.redaction import Redactor
from nodefleet.errors import NodeFleetError
from nodefleet.model.serialization import ValidationError
from nodefleet.model.snapshot import Deployment
from nodefleet.settings import BUCKET, SECRETS, TABLE, Settings
from nodefleet_tools.cli.connections import Connection
from nodefleet_tools.cli.policy_file import REFUSED, problem_list
from nodefleet_tools.cli.surroundings import CLUSTER, InputError, checked, the_cluster

FAILED = 1  # the exit status

ClusterOption = Annotated[
    str, typer.Option("--cluster", envvar=CLUSTER, help="The cluster's name.", show_default=False, metavar="NAME")
]
TableOption = Annotated[
    str, typer.Option("--table", envvar=TABLE, help="The state table.", show_default=False, metavar="NAME")
]
BucketOption = Annotated[
    str,
    typer.Option(
        "--bucket", envvar=BUCKET, help="Where looks are archived, if anywhere.", show_default=False, metavar="NAME"
    ),
]


@contextmanager
def connected(
    *,
    cluster: str = "",
    table: str = "",
    bucket: str = "",
    deployment: Deployment | None = None,
    needs_table: bool = True,
) -> Iterator[Connection]:
    """A connection, and clear words for what goes wrong while it is used. A given deployment replaces the table's."""
    redact = Redactor()
    with clear_errors(redact):
        yield connection(
            cluster=cluster,
            table=table,
            bucket=bucket,
            deployment=deployment,
            needs_table=needs_table,
            environment=os.environ,
            redact=redact,
        )


@contextmanager
def clear_errors(redact: Redactor) -> Iterator[None]:
    """Expected errors become one message on stderr and an exit status."""
    try:
        yield
    except InputError as error:
        message, status = str(error), REFUSED
    except ValidationError as error:
        message, status = problem_list("input", error.problems), REFUSED
    except NodeFleetError as error:
        message, status = str(error), FAILED
    else:
        return
    print(redact(message), file=sys.stderr)
    raise typer.Exit(status)


def connection(
    *,
    cluster: str = "",
    table: str = "",
    bucket: str = "",
    deployment: Deployment | None = None,
    needs_table: bool = True,
    environment: Mapping[str, str],
    redact: Redactor,
) -> Connection:
    """The connection that options and environment name, or an InputError with everything that they lack."""
    name = the_cluster(cluster or (deployment.cluster if deployment else ""), environment)
    checked(name, table, environment, needs_table=needs_table)
    settings = Settings(table=table, clusters=(name,), bucket=bucket)
    if prefix := environment.get(SECRETS, "").strip():
        settings = replace(settings, secrets=prefix)
    return Connection(settings, environment, redact, deployment)

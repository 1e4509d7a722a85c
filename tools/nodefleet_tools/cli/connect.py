"""What a command needs of the world: table, AWS, Kubernetes and Prometheus, as options and the environment name them.

    --cluster, NODEFLEET_CLUSTER     which cluster; needless where NODEFLEET_CLUSTERS names just one
    --table, NODEFLEET_TABLE         the state table
    --bucket, NODEFLEET_BUCKET       where decision inputs are archived, if anywhere
    AWS_…                            as boto3 reads them: AWS_PROFILE, AWS_REGION, AWS_ENDPOINT_URL, …
    KUBECONFIG                       how to reach the API server; without it by the deployment's secret, as Lambda does
    PROMETHEUS_URL                   instead of the deployment's; PROMETHEUS_USERNAME and _PASSWORD, or _TOKEN

A command asks for a connection (see connections) and uses what it needs of it:

    with connected(cluster=cluster, table=table) as connection:
        connection.store.state()

Expected errors end in one message and an exit status (see outcome), never in a traceback.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from nodefleet.adapters.credentials import Redactor
from nodefleet.errors import NodeFleetError, UnavailableError
from nodefleet.model.serialization import ValidationError
from nodefleet.model.snapshot import Deployment
from nodefleet.settings import SECRETS, Settings
from nodefleet_tools.cli.connections import Connection
from nodefleet_tools.cli.environment import InputError, NotFoundError, checked, the_cluster
from nodefleet_tools.cli.outcome import Status, fail, issue_list, issue_plain

_ADVICE = "See that it can be reached from here, and try again; `nodefleet doctor` looks at every part."


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
        fail(redact(str(error)), Status.NOTHING if isinstance(error, NotFoundError) else Status.REFUSED)
    except ValidationError as error:
        fail(redact(issue_list("input", error.problems)), issues=[issue_plain(each) for each in error.problems])
    except UnavailableError as error:
        fail(f"{redact(str(error)).rstrip('.')}. {_ADVICE}", Status.FAILED, kind=type(error).__name__)
    except NodeFleetError as error:
        fail(redact(str(error)), Status.FAILED, kind=type(error).__name__)


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

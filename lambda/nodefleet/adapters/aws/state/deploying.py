"""Where a cluster's parts are, written by a person: for those who have no stack that writes it."""

from typing import Any

from nodefleet.adapters.aws.state.items import deployment_item
from nodefleet.adapters.aws.state.table import Patience, Table
from nodefleet.domain.deployment import Deployment


def put_deployment(client: Any, table: str, deployment: Deployment, *, patience: Patience | None = None) -> None:
    """Whatever stood there is replaced. A stack that is deployed later writes its own again."""
    cluster = deployment.cluster
    Table(client, table, cluster, patience).put(deployment_item(cluster, deployment))

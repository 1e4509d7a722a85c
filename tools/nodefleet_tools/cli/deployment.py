"""`nodefleet deployment`: where a cluster's parts are, for those who have no stack that writes it down."""

import os
from pathlib import Path

import yaml
from rich.console import Console

from nodefleet.errors import NodeFleetError
from nodefleet.model.serialization import to_plain
from nodefleet_tools.cli import changes, connect
from nodefleet_tools.cli.deployment_file import deployment_or_exit, warn_of_homeless
from nodefleet_tools.cli.environment import the_cluster
from nodefleet_tools.cli.operators import confirm
from nodefleet_tools.cli.outcome import Status, fail, note_change, print_json
from nodefleet_tools.cli.urgent_run import woken


def show(*, as_json: bool, cluster: str, table: str) -> None:
    with connect.connected(cluster=cluster, table=table) as connection:
        found = connection.store.state().deployment
        if found is None:
            message = f"No deployment of {connection.cluster_id} is stored: see `nodefleet deployment put`."
            fail(message, Status.NOTHING)
        said = {name: value for name, value in to_plain(found, full=True).items() if value}
        if as_json:
            print_json(said)
            return
        print(connection.redact(yaml.safe_dump(said, sort_keys=False, allow_unicode=True)), end="")


def put(*, file: Path, yes: bool, as_json: bool, cluster: str, table: str) -> None:
    deployment = deployment_or_exit(file, the_cluster(cluster, os.environ))
    with connect.connected(cluster=deployment.cluster, table=table) as connection:
        state = connection.store.state()
        changed = changes.deployment_changes(state.deployment, deployment)
        if not changed and state.deployment:
            _answer("Nothing changes: the record says the same.", [], as_json=as_json)
            return
        if not as_json:
            changes.show(changed, Console(highlight=False))
        confirm("Store it?", yes=yes)
        connection.put_deployment(deployment)
        stored = f"The deployment of {deployment.cluster} is stored."
        note_change(stored)
        _answer(f"{stored} {woken(connection)}", changed, as_json=as_json)
        if deployment.prometheus_secret:
            connection.warn(
                f"the functions must be allowed to read the secret {deployment.prometheus_secret}: the roles that"
                " `pulumi up` makes are not, because the Prometheus of a stack asks for no login"
            )
        try:
            warn_of_homeless(connection, connection.governing().policy, deployment)
        except NodeFleetError as error:
            connection.warn(str(error))


def _answer(message: str, changed: list[changes.Change], *, as_json: bool) -> None:
    if as_json:
        print_json({"message": message, "changes": changes.as_plain(changed)})
    else:
        print(message)

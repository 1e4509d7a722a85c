"""Notifying the autoscaler that an operator waits for it. The order is in the table already: this only hastens it."""

import json
from datetime import timedelta

from nodefleet.errors import NodeFleetError
from nodefleet.policy.cluster import Policy
from nodefleet_tools.cli.connections import Connection
from nodefleet_tools.cli.operators import worded_span

FUNCTION = "NODEFLEET_RECONCILE_FUNCTION"  # the name or ARN of the function that runs the loop
_USUAL = Policy().interval


def woken(connection: Connection, interval: timedelta = _USUAL) -> str:
    """Wake the run that is at work, start one if it is known how, and say when the order is seen."""
    later = f"The next run sees it, within {worded_span(interval)}."
    try:
        connection.store.wake()
        deployment = connection.deployment
        function = connection.variable(FUNCTION) or (deployment.reconcile_function if deployment else "")
        if not function:
            return f"{later} (To start one at once, set {FUNCTION}.)"
        _start(connection, function)
    except NodeFleetError as error:
        connection.warn(f"no run could be started at once: {error}")
        return later
    return f"A run was started at once ({function})."


def _start(connection: Connection, function: str) -> None:
    """An urgent run, without waiting for it."""
    from nodefleet.adapters.aws.errors import calling  # noqa: PLC0415  # loads botocore

    payload = json.dumps({"cluster": connection.cluster_id, "urgent": True}).encode()
    with calling("Lambda"):
        connection.session.client("lambda").invoke(FunctionName=function, InvocationType="Event", Payload=payload)

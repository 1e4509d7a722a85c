"""`nodefleet protect`: keep a node from voluntary removal, by the annotation that the engine honours."""

from nodefleet.model.workload import SCALE_DOWN_DISABLED
from nodefleet_tools.cli.connect import connected
from nodefleet_tools.cli.operators import protect_node, someone
from nodefleet_tools.cli.outcome import note_change, print_json


def protect(*, node: str, off: bool, reason: str, by: str, as_json: bool, cluster: str, table: str) -> None:
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

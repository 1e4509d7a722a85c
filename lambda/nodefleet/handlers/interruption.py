"""What EC2 says of its instances: warnings are acted upon at once, whoever holds the lease."""

from typing import Any

from nodefleet import wiring
from nodefleet.adapters.aws import ec2_events
from nodefleet.errors import MalformedError
from nodefleet.loop.doomed import interrupted


def handler(event: Any, context: Any) -> dict[str, Any]:
    try:
        told = ec2_events.read(event, wiring.now())
    except MalformedError as error:
        return wiring.set_aside(event, error, context)
    said = []
    for cluster in wiring.owners_of(told.instances) if told.urgent or told.notices else ():
        with wiring.parts(cluster, context) as parts:
            ran = interrupted(parts, told.notices, owner=wiring.owner(context))
        said.append({"cluster": cluster, "held": bool(ran.held), "looks": ran.looks, "did": list(ran.did)})
    return {"runs": said}

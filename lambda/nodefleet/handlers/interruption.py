"""What EC2 says of its instances: warnings are acted upon at once, whoever holds the lease."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from nodefleet import wiring
from nodefleet.adapters.aws import ec2_events
from nodefleet.domain.machines import Notice
from nodefleet.errors import MalformedError
from nodefleet.loop.doomed import interrupted
from nodefleet.loop.run import Ran


def handler(event: Any, context: Any) -> dict[str, Any]:
    try:
        told = ec2_events.read(event, wiring.now())
    except MalformedError as error:
        return wiring.set_aside(event, error, context)
    clusters = wiring.owners_of(told.instances) if told.urgent or told.notices else ()
    return wiring.all_of({cluster: partial(_ran, cluster, told.notices, context) for cluster in clusters})


def _ran(cluster: str, notices: Sequence[Notice], context: Any) -> Ran:
    with wiring.parts(cluster, context) as parts:
        return interrupted(parts, notices, owner=wiring.owner(context))

"""One cluster's run: by the schedule, by an alert, or by hand."""

from functools import partial
from typing import Any

from nodefleet import wiring
from nodefleet.adapters.aws.wakeups import Wakeup, wakeups
from nodefleet.errors import MalformedError
from nodefleet.loop.run import Ran, run


def handler(event: Any, context: Any) -> dict[str, Any]:
    settings = wiring.settings()
    try:
        asked = wakeups(event, settings.clusters)
    except MalformedError as error:
        return wiring.set_aside(event, error, context)
    return wiring.all_of({wakeup.cluster: partial(_ran, wakeup, context) for wakeup in asked})


def _ran(wakeup: Wakeup, context: Any) -> Ran:
    with wiring.parts(wakeup.cluster, context) as parts:
        return run(parts, owner=wiring.owner(context), urgent=wakeup.urgent, scheduled=wakeup.scheduled)

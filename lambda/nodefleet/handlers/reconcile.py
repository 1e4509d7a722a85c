"""One cluster's run: by the schedule, by an alert, or by hand."""

from typing import Any

from nodefleet import wiring
from nodefleet.adapters.aws.wakeups import wakeups
from nodefleet.errors import MalformedError
from nodefleet.loop.run import run


def handler(event: Any, context: Any) -> dict[str, Any]:
    settings = wiring.settings()
    try:
        asked = wakeups(event, settings.clusters)
    except MalformedError as error:
        return wiring.set_aside(event, error, context)
    said = []
    for wakeup in asked:
        with wiring.parts(wakeup.cluster, context) as parts:
            ran = run(parts, owner=wiring.owner(context), urgent=wakeup.urgent)
        said.append({"cluster": wakeup.cluster, "held": bool(ran.held), "looks": ran.looks, "did": list(ran.did)})
    return {"runs": said}

"""One cluster's run: by the schedule, by an alert, or by hand."""

from functools import partial
from typing import Any

from nodefleet import bootstrap
from nodefleet.adapters.aws.triggers import Trigger, triggers_in
from nodefleet.errors import MalformedError
from nodefleet.handlers import FUNCTION
from nodefleet.ports import RunResult
from nodefleet.reconcile.run import run


def handler(event: Any, context: Any) -> dict[str, Any]:
    try:
        asked = triggers_in(event, FUNCTION.settings.clusters)
    except MalformedError as error:
        return FUNCTION.set_aside(event, error, context)
    return bootstrap.all_of({wakeup.cluster: partial(_ran, wakeup, context) for wakeup in asked})


def _ran(wakeup: Trigger, context: Any) -> RunResult:
    with FUNCTION.runtime(wakeup.cluster, context) as runtime:
        return run(runtime, owner=bootstrap.owner(context), urgent=wakeup.urgent, scheduled=wakeup.scheduled)

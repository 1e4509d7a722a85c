"""One cluster's run: by the schedule, by an alert, or by hand.

In a fleet of clusters every run goes through a queue in which each cluster has its own turn (docs/clusters.md): what
asks for a run directly is put there, and a batch of the queue is run. A tick that waited too long is dropped, because
the next one is as good; for the same reason one that failed does not come again. An urgent message does.
"""

from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from nodefleet import bootstrap
from nodefleet.adapters.aws.triggers import Message, Trigger, come_again, messages_in, triggers_in
from nodefleet.errors import MalformedError
from nodefleet.handlers import FUNCTION
from nodefleet.ports import RunResult
from nodefleet.reconcile.run import run

OLDEST_TICK = timedelta(minutes=2)  # as old as it gets before the next one
OLDEST_URGENT = timedelta(minutes=5)  # by then two ticks have looked
LATE = timedelta(seconds=15)  # a tick that waited for longer makes one iteration: its place is wanted by others


def handler(event: Any, context: Any) -> dict[str, Any]:
    batch = messages_in(event)
    if batch is not None:
        return _run_queued(batch, context)
    try:
        asked = triggers_in(event, FUNCTION.served)
    except MalformedError as error:
        return FUNCTION.set_aside(event, error, context)
    if FUNCTION.settings.queue:
        return {"queued": [FUNCTION.queue_run(cluster) for cluster in dict.fromkeys(each.cluster for each in asked)]}
    return bootstrap.all_of({wakeup.cluster: partial(_ran, wakeup, context) for wakeup in asked})


def _run_queued(batch: tuple[Message, ...], context: Any) -> dict[str, Any]:
    read = {message: asked for message in batch if (asked := _read(message, context)) is not None}
    runs, errors = bootstrap.each_of({each.cluster: partial(_ran, each, context) for each in read.values()})
    failed = [message for message, asked in read.items() if asked.cluster in errors and asked.urgent]
    if errors:
        FUNCTION.some_failed(errors, len(failed), context)
    return {"runs": runs, "batchItemFailures": come_again(failed)}


def _read(message: Message, context: Any) -> Trigger | None:
    """The run that a message asks for; none if it cannot be understood, is stale, or has been seen to."""
    try:
        (asked,) = triggers_in(message.event(), FUNCTION.served)
    except MalformedError as error:
        FUNCTION.set_aside(message.body, error, context)
        return None
    sent, now = message.sent_at or bootstrap.now(), bootstrap.now()
    stale = now - sent > (OLDEST_URGENT if asked.urgent else OLDEST_TICK)
    if stale or (asked.urgent and FUNCTION.looked_since(asked.cluster, sent)) or FUNCTION.is_paused(asked.cluster):
        return None
    return replace(asked, late=now - sent > LATE and not asked.urgent)


def _ran(wakeup: Trigger, context: Any) -> RunResult:
    with FUNCTION.runtime(wakeup.cluster, context) as runtime:
        return run(
            runtime,
            owner=bootstrap.owner(context),
            urgent=wakeup.urgent,
            scheduled=wakeup.scheduled,
            requeues=not wakeup.late,
        )

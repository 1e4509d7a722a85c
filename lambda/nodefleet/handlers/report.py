"""The week in figures, every Monday; and if wanted yesterday in a line. Days are the policy's: in its time zone."""

from typing import Any
from zoneinfo import ZoneInfo

from nodefleet.adapters.aws.triggers import triggers_in
from nodefleet.errors import MalformedError
from nodefleet.handlers import FUNCTION
from nodefleet.reporting.usage import last_day, last_week
from nodefleet.reporting.weekly import weekly_report
from nodefleet.reporting.weekly_text import daily_event, report_event


def handler(event: Any, context: Any) -> dict[str, Any]:
    try:
        asked = triggers_in(event, FUNCTION.served)
    except MalformedError as error:
        return FUNCTION.set_aside(event, error, context)
    return {"told": [_report(trigger.cluster, context, daily=trigger.daily) for trigger in asked]}


def _report(cluster: str, context: Any, *, daily: bool) -> str:
    with FUNCTION.reporter(cluster, context) as by:
        period = (last_day if daily else last_week)(by.now, ZoneInfo(by.policy.time_zone))
        usage, events = by.history.usage(period.start, period.end), by.history.events(period.start, period.end)
        found = weekly_report(
            cluster,
            period,
            usage,
            events,
            by.policy,
            by.catalog,
            own_monthly_usd=by.own_usd,
            memory=by.memory,
            tuned=by.tuned,
        )
        told = (daily_event if daily else report_event)(found, by.now)
        by.store.tell(told)
        by.telemetry.line(told.text, report=told.id, details=list(told.details))
    return told.id

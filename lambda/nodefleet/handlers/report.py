"""The week in figures, every Monday. The week is the policy's: in its time zone."""

from typing import Any
from zoneinfo import ZoneInfo

from nodefleet import bootstrap
from nodefleet.adapters.aws.triggers import triggers_in
from nodefleet.errors import MalformedError
from nodefleet.reporting.usage import last_week
from nodefleet.reporting.weekly import weekly_report
from nodefleet.reporting.weekly_text import report_event


def handler(event: Any, context: Any) -> dict[str, Any]:
    try:
        asked = triggers_in(event, bootstrap.settings().clusters)
    except MalformedError as error:
        return bootstrap.set_aside(event, error, context)
    return {"told": [_report(wakeup.cluster, context) for wakeup in asked]}


def _report(cluster: str, context: Any) -> str:
    with bootstrap.reporter(cluster, context) as by:
        week = last_week(by.now, ZoneInfo(by.policy.time_zone))
        usage, events = by.history.usage(week.start, week.end), by.history.events(week.start, week.end)
        found = weekly_report(cluster, week, usage, events, by.policy, by.catalog, own_monthly_usd=by.own_usd)
        told = report_event(found, by.now)
        by.store.tell(told)
        by.telemetry.line(told.text, report=told.id, details=list(told.details))
    return told.id

"""The week in figures, every Monday; and if wanted yesterday in a line. Days are the policy's: in its time zone."""

from typing import Any
from zoneinfo import ZoneInfo

from nodefleet import bootstrap
from nodefleet.adapters.aws.ec2 import Ec2
from nodefleet.adapters.aws.triggers import triggers_in
from nodefleet.errors import MalformedError, NodeFleetError
from nodefleet.handlers import FUNCTION
from nodefleet.model.inventory import InstanceType
from nodefleet.model.snapshot import Deployment
from nodefleet.policy.cluster import Policy
from nodefleet.ports import State
from nodefleet.reconcile.observe import resolve_policy
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
    with FUNCTION.telemetry(cluster, context) as telemetry:
        store, history, now = FUNCTION.store_of(cluster), FUNCTION.history_of(cluster), bootstrap.now()
        state = store.state()
        deployment = state.deployment or Deployment(cluster=cluster)
        policy = resolve_policy(state, FUNCTION.shared.policies, now).policy
        period = (last_day if daily else last_week)(now, ZoneInfo(policy.time_zone))
        found = weekly_report(
            cluster,
            period,
            history.usage(period.start, period.end),
            history.events(period.start, period.end),
            policy,
            _catalog(deployment, state, policy),
            own_monthly_usd=deployment.own_usd,
            memory=state.journal.memory,
            tuned=state.tuned,
        )
        told = (daily_event if daily else report_event)(found, now)
        store.tell(told)
        telemetry.line(told.text, report=told.id, details=list(told.details))
    return told.id


def _catalog(deployment: Deployment, state: State, policy: Policy) -> tuple[InstanceType, ...]:
    warn, session = FUNCTION.shared.present.warn, FUNCTION.session_in(deployment.region)
    types = tuple(dict.fromkeys(name for pool in policy.pools for name in pool.market.types))
    try:
        return Ec2(session, deployment.cluster, deployment.prices, bootstrap.now, warn, state.prices).catalog(types)
    except NodeFleetError as error:
        warn(f"Without what types offer the report advises less: {error}")
        return ()

"""Events and alarms to Slack, and the answers to what they ask.

Fed by the table's stream, by SNS and by a schedule, so that no run ever waits for a messenger.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from nodefleet import bootstrap
from nodefleet.adapters.credentials import SlackHook
from nodefleet.adapters.dynamodb.delivery_log import DynamoApprovals, DynamoDeliveryLog, DynamoThreads
from nodefleet.adapters.dynamodb.records import event_in
from nodefleet.adapters.slack.message import Links
from nodefleet.errors import MisconfiguredError
from nodefleet.handlers import FUNCTION
from nodefleet.notifications.approvals import READ_APPROVALS, Approver
from nodefleet.notifications.incoming import DeliveryLimits
from nodefleet.settings import SLACK

if TYPE_CHECKING:
    from nodefleet.adapters.slack.webhook import Notifier


def handler(event: Any, context: Any) -> dict[str, Any]:
    if event == READ_APPROVALS:
        with _approver(context) as approver:
            return approver.poll(bootstrap.now())
    with _notifier(context) as notifier:
        return notifier.handle(event)


@contextmanager
def _notifier(context: Any) -> Iterator["Notifier"]:
    from nodefleet.adapters.slack import webhook as slack  # noqa: PLC0415  # loads requests

    settings, common = FUNCTION.settings, FUNCTION.shared
    if not settings.slack_secret:
        raise MisconfiguredError(f"{SLACK} is not set: name the secret that holds Slack's webhook")
    with FUNCTION.telemetry("", context) as telemetry:
        yield slack.notifier(
            hook=common.secrets.login(settings.slack_secret, SlackHook),
            # A retry comes with the same request id, and must not take back the claim of one that still runs.
            sent=DynamoDeliveryLog(common.session, settings.table, f"{bootstrap.owner(context)}-{uuid4().hex}"),
            event_in=event_in,
            links=lambda cluster: Links.of(FUNCTION.store_of(cluster).state().deployment),
            time=bootstrap.time_of(context),
            telemetry=telemetry,
            threads=DynamoThreads(common.session, settings.table),
            approvals=DynamoApprovals(common.session, settings.table) if settings.approvers else None,
        )


@contextmanager
def _approver(context: Any) -> Iterator[Approver]:
    from nodefleet.adapters.slack.web_api import SlackReactions  # noqa: PLC0415  # loads requests

    settings, common = FUNCTION.settings, FUNCTION.shared
    hook = common.secrets.login(settings.slack_secret, SlackHook)
    if hook.url:
        raise MisconfiguredError("Approvals need a bot token: put token and channel into Slack's secret, and no url")
    limits = DeliveryLimits()
    with FUNCTION.telemetry("", context) as telemetry:
        yield Approver(
            approvals=DynamoApprovals(common.session, settings.table),
            reactions=SlackReactions(hook, bootstrap.time_of(context), limits),
            orders=FUNCTION.store_of,
            approvers=settings.approvers,
            limits=limits,
            telemetry=telemetry,
        )

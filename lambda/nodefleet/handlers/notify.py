"""Events and alarms to Slack, and the answers to what they ask.

Fed by the table's stream, by SNS and by a schedule, so that no run ever waits for a messenger.
"""

from typing import Any

from nodefleet import bootstrap
from nodefleet.handlers import FUNCTION
from nodefleet.notifications.approvals import READ_APPROVALS


def handler(event: Any, context: Any) -> dict[str, Any]:
    if event == READ_APPROVALS:
        with FUNCTION.approver(context) as approver:
            return approver.poll(bootstrap.now())
    with FUNCTION.notifier(context) as notifier:
        return notifier.handle(event)

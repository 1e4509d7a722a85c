"""Events and alarms to Slack. Fed by the table's stream and by SNS, so that no run ever waits for a messenger."""

from typing import Any

from nodefleet.handlers import FUNCTION


def handler(event: Any, context: Any) -> dict[str, Any]:
    with FUNCTION.notifier(context) as notifier:
        return notifier.handle(event)

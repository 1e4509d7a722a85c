"""Events and alarms to Slack. Fed by the table's stream and by SNS, so that no run ever waits for a messenger."""

from typing import Any

from nodefleet import wiring


def handler(event: Any, context: Any) -> dict[str, Any]:
    with wiring.notifier(context) as notifier:
        return notifier.handle(event)

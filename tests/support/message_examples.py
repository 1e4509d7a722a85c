"""One example of each message, as docs/messages.md shows it.

Those of ours were sent in simulated situations (`message_situations`, `make messages`). CloudWatch's are alarms of the
deployment, as they arrive; that of Prometheus and an alarm of another writer's are examples of their form.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from nodefleet.adapters.aws.incoming import decode_alarms
from nodefleet.adapters.slack.message import Links
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Event
from nodefleet.model.serialization import from_plain
from nodefleet.notifications.incoming import Alarm, AlarmState, IncomingItem, Notifiable, Notification, NotificationForm

_ALARMS = "alarms"  # what CloudWatch sends, by example; all else are events of ours
PRODUCED = Path(__file__).parent / "messages.json"
AT = datetime(2026, 11, 16, 3, 12, 5, tzinfo=UTC)
LINKS = Links(
    dashboard="https://us-east-1.console.aws.amazon.com/cloudwatch/home?region=us-east-1#dashboards/dashboard/shop",
    logs="https://us-east-1.console.aws.amazon.com/cloudwatch/home?region=us-east-1#logsV2:log-groups",
)


def event(kind: AlertKind = AlertKind.SCALE_UP, text: str = "Growing 3 → 4", **changes: object) -> Event:
    values: dict = {"id": kind.value, "at": AT, "cluster": "shop", "pool": "default", "kind": kind, "text": text}
    return Event(**{**values, **changes})


def alarm(name: str = "node-fleet-prod-no-invocation", **changes: object) -> Alarm:
    values: dict = {
        "id": f"alarm-{name}",
        "at": AT,
        "cluster": "shop",
        "name": name,
        "state": AlarmState.ALARM,
        "reason": "Threshold Crossed: no datapoints were received for 1 period and 1 missing datapoint was treated as"
        " [Breaching].",
        "rule": "Sum of AutoscalerInvocations < 1 within 10 min",
        "console": "https://us-east-1.console.aws.amazon.com/cloudwatch/home?region=us-east-1#alarmsV2:alarm/" + name,
    }
    return Alarm(**{**values, **changes})


def news(*told: Notifiable) -> tuple[IncomingItem, ...]:
    return tuple(IncomingItem(receipt=f"r-{each.id}", told=each) for each in told)


def single(told: Notifiable) -> Notification:
    return Notification(form=NotificationForm.SINGLE, news=news(told))


def several(form: NotificationForm, *told: Notifiable) -> Notification:
    return Notification(form=form, news=news(*told))


def later(minutes: float) -> datetime:
    return AT + timedelta(minutes=minutes)


def _produced() -> dict[str, tuple[Event, ...]]:
    stored = json.loads(PRODUCED.read_text())
    return {
        name: tuple(from_plain(Event, each) for each in events) for name, events in stored.items() if name != _ALARMS
    }


def _sent_by_cloudwatch(name: str) -> Alarm:
    """An alarm of the deployment, as it arrives through SNS."""
    message = json.dumps(json.loads(PRODUCED.read_text())[_ALARMS][name])
    (found,) = decode_alarms([{"Sns": {"MessageId": name, "Message": message}}]).news
    assert isinstance(found.told, Alarm)
    return found.told


_PRODUCED = _produced()
OF_A_KIND: Mapping[AlertKind, Event] = {
    kind: _PRODUCED[kind.value][0] for kind in AlertKind if kind.value in _PRODUCED
}  # all but alarms: they are not ours


def _copies(kind: AlertKind, number: int, minutes: float) -> list[Event]:
    shown = OF_A_KIND[kind]
    return [
        replace(shown, id=f"{kind.value}-{count}", at=shown.at + timedelta(minutes=minutes * count))
        for count in range(number)
    ]


SPECIAL: Mapping[str, Notification] = {
    "alarm": single(_sent_by_cloudwatch("alarm")),
    "alarm over": single(_sent_by_cloudwatch("alarm over")),
    "an alarm of Prometheus": single(
        alarm(
            "node-fleet-prod-shop-web-0-queue-growing",
            pool="web",
            source="Prometheus",
            reason="growth of orders in a second: 31.4",
            rule="growth of orders in a second > 5 within 2 min",
            console="",
        )
    ),
    "an alarm of your own": single(
        alarm(
            "checkout-errors",
            cluster="",
            description="More than 2 % of the checkouts fail. Runbook: https://wiki.example.com/checkout",
            reason="Threshold Crossed: 2 out of the last 2 datapoints [3.1 (16/11/26 03:10:00), 2.7 (16/11/26"
            " 03:05:00)] were greater than the threshold (2.0).",
            rule="Average of CheckoutErrors > 2 within 10 min",
        )
    ),
    "dry run": single(*_PRODUCED["dry run"]),
    "many of a kind": several(NotificationForm.MANY, *_PRODUCED["many of a kind"]),
    "much at once": several(
        NotificationForm.MIXED, *_copies(AlertKind.SCALE_UP, 3, 0.1), *_copies(AlertKind.NO_CAPACITY, 5, 0.1)
    ),
    "older events": several(NotificationForm.OLD, *_copies(AlertKind.SCALE_UP, 4, 1), OF_A_KIND[AlertKind.INTERRUPTED]),
}

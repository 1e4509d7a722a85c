"""From what Lambda brings to messages, and what Lambda is answered."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nodefleet.adapters.aws import alarms, stream
from nodefleet.adapters.logins import SlackHook
from nodefleet.adapters.slack.messenger import SlackMessenger
from nodefleet.adapters.slack.sheets import Links
from nodefleet.adapters.slack.webhook import Webhook
from nodefleet.domain.metrics import Metric
from nodefleet.notifying.delivery import Delivered, deliver
from nodefleet.notifying.limits import Limits
from nodefleet.notifying.news import Arrived, Spoiled
from nodefleet.notifying.parts import Parts, Sent
from nodefleet.ports import Telemetry, Time


@dataclass(frozen=True, slots=True, kw_only=True)
class Notifier:
    parts: Parts
    event_in: stream.Reader

    def handle(self, event: Any) -> dict[str, Any]:
        """A batch of the table's stream, or an alarm. What could not be told comes again: of a batch only from there
        on, an alarm because an error is raised."""
        match event:
            case {"Records": [{"eventSource": stream.SOURCE}, *_] as records}:
                return stream.failures(self._told(stream.arrived(records, self.event_in)).left)
            case {"Records": [{"EventSource": alarms.SOURCE}, *_] as records}:
                delivered = self._told(alarms.arrived(records))
                if delivered.error:
                    raise delivered.error
            case _:
                self._set_aside(Spoiled(key=str(event)[:200], cause="neither the table's stream nor SNS"))
        return {}

    def _told(self, arrived: Arrived) -> Delivered:
        for spoiled in arrived.spoiled:
            self._set_aside(spoiled)
        delivered = deliver(arrived.news, self.parts)
        if delivered.error:
            self.parts.telemetry.warn(
                "not everything could be told", left=len(delivered.left), cause=str(delivered.error)
            )
        self.parts.telemetry.line("told people", news=len(arrived.news), messages=delivered.messages)
        return delivered

    def _set_aside(self, spoiled: Spoiled) -> None:
        self.parts.telemetry.metric(Metric.MALFORMED, 1)
        self.parts.telemetry.warn("set aside: it cannot be understood", key=spoiled.key, cause=spoiled.cause)


def notifier(
    *,
    hook: SlackHook,
    sent: Sent,
    event_in: stream.Reader,
    links: Callable[[str], Links],
    time: Time,
    telemetry: Telemetry,
    limits: Limits | None = None,
) -> Notifier:
    """All of it, wired. `links` gives where a cluster can be looked at, by the cluster's name."""
    limits = limits or Limits()
    messenger = SlackMessenger(Webhook(hook, time, limits), links, telemetry, limits)
    parts = Parts(sent=sent, messenger=messenger, time=time, telemetry=telemetry, limits=limits)
    return Notifier(parts=parts, event_in=event_in)

"""Sends messages to Slack, by an incoming webhook or a bot token, and answers Lambda for what could not be sent."""

import logging
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any, Protocol

import requests

from nodefleet.adapters.aws import incoming
from nodefleet.adapters.clock import utc_now
from nodefleet.adapters.credentials import SlackHook
from nodefleet.adapters.slack.message import Links, build_message, payload, plain
from nodefleet.adapters.slack.web_api import SLACK, WebApi, asked_to_wait, post_with_retries
from nodefleet.errors import DeniedError, MalformedError, NodeFleetError, UnavailableError
from nodefleet.model.names import Metric
from nodefleet.notifications.approvals import OpenApprovals, ask, instances_to_approve, question
from nodefleet.notifications.delivery import DeliveryLog, DeliveryResult, DeliveryRuntime, deliver
from nodefleet.notifications.incoming import (
    DeliveryLimits,
    Incident,
    IncomingBatch,
    MalformedItem,
    Notification,
    incident_of,
)
from nodefleet.ports import Telemetry, Time

# ── webhook ──────────────────────────────────────────────────────────────────────────────────────────────────────────
# Sends to Slack, and says what its answers mean.
#
#     answer                       means
#     2xx                          delivered
#     429                          waited for as long as Slack asks, a few times; then it is throttled
#     5xx, no answer, 408, 425     Slack is away
#     400, 413                     this message is never taken
#     every other                  the webhook itself no longer works: an operator has to fix it
#
# The address is the only secret that posting needs. It stands in no log line, no error and no representation; what
# `requests` raises has it in its text, so none of that is passed on.


_CODE = re.compile(r"[a-z][a-z0-9_]{0,59}")  # Slack answers with one word
_NEVER = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE})
_AWAY = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY})

_NEW_ONE = "Make a new incoming webhook in Slack and put its URL into the secret"
REMEDIES = {
    "channel_is_archived": "Unarchive the channel, or make a webhook for another one and put its URL into the secret",
    "channel_not_found": _NEW_ONE,
    "action_prohibited": "A Slack admin has restricted posting there: ask for the right, or take another channel",
    "posting_to_general_channel_denied": "Only some may post to that channel: make a webhook for another one",
    "invalid_token": _NEW_ONE,
    "no_service": f"The webhook was removed or switched off. {_NEW_ONE}",
    "team_disabled": "The Slack workspace is switched off: make a webhook in another one",
}


class Webhook:
    def __init__(self, hook: SlackHook, time: Time, limits: DeliveryLimits) -> None:
        self._hook = hook
        self._time = time
        self._limits = limits
        self._session = requests.Session()
        logging.getLogger("urllib3").setLevel(logging.INFO)  # its debug lines have the address in them

    def post(self, payload: Mapping[str, Any], thread: str = "", *, in_channel: bool = False) -> str:  # noqa: ARG002
        """Nothing: a webhook says no id, and so it has no threads. UnavailableError: not now. DeniedError: the webhook
        is broken. MalformedError: this message never works."""
        post_with_retries(lambda: self._try_post(payload), self._time, self._limits)
        return ""

    def _try_post(self, payload: Mapping[str, Any]) -> timedelta | None:
        """None when it was delivered, or how long to wait before the next try."""
        timeout = (self._limits.connect.total_seconds(), self._limits.answer.total_seconds())
        try:
            with self._session.post(
                self._hook.url, json=payload, timeout=timeout, allow_redirects=False, stream=True
            ) as response:
                return _judge_response(response)
        except requests.RequestException as problem:
            cause = f"no answer ({type(problem).__name__})"
        raise UnavailableError(SLACK, cause)  # outside the handler: the cause's text has the address in it


def _judge_response(response: requests.Response) -> timedelta | None:
    status = response.status_code
    body = ""
    with suppress(requests.RequestException):  # the status says enough
        body = next(response.iter_content(200), b"").decode(errors="replace").strip()
    code = body if _CODE.fullmatch(body) else f"HTTP {status}"
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return None
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return asked_to_wait(response)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _AWAY:
        raise UnavailableError(SLACK, code)
    if status in _NEVER and code not in REMEDIES:
        raise MalformedError(f"Slack does not take this message: {code}")
    raise DeniedError(SLACK, code, REMEDIES.get(code, f"Check the webhook. {_NEW_ONE}"))


# ── messenger ────────────────────────────────────────────────────────────────────────────────────────────────────────
# Letters become messages. Slack gets the plain text of a message whose blocks it does not take, so that a fault in
# the form never keeps the content from operators.


class SlackClient(Protocol):
    def post(self, payload: Mapping[str, Any], thread: str = "", *, in_channel: bool = False) -> str:
        """The message's id, if Slack says one. UnavailableError, DeniedError, MalformedError."""
        ...


class IncidentThreads(Protocol):
    """The first message of each open incident. Any NodeFleetError may come of it."""

    def find(self, cluster: str, incident: str, now: datetime) -> str:
        """Its id; empty if there is none, or it is too old to be continued."""
        ...

    def keep(self, cluster: str, incident: str, message: str, until: datetime) -> None: ...

    def drop(self, cluster: str, incident: str) -> None: ...


class SlackMessenger:
    def __init__(
        self,
        client: SlackClient,
        links: Callable[[str], Links],
        telemetry: Telemetry,
        limits: DeliveryLimits,
        *,
        threads: IncidentThreads | None = None,
        approvals: OpenApprovals | None = None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """Without `threads` every message goes to the channel; without `approvals` none asks."""
        self._client = client
        self._links = links
        self._telemetry = telemetry
        self._limits = limits
        self._threads = threads
        self._approvals = approvals
        self._now = now
        self._known: dict[str, Links] = {}

    def send(self, notification: Notification) -> None:
        incident = incident_of(notification.told) if self._threads else None
        thread = self._find(notification.first.cluster, incident)
        sent = self._post(notification, thread, in_channel=incident is not None and incident.in_channel)
        if self._approvals and sent and instances_to_approve(notification, self._limits):
            self._ask(notification, sent, self._approvals)
        if incident:
            self._remember(notification.first.cluster, incident, thread or sent)

    def _ask(self, notification: Notification, message: str, approvals: OpenApprovals) -> None:
        try:
            approvals.keep(ask(notification, message, self._now(), self._limits))
        except NodeFleetError as error:
            self._telemetry.warn("a question in Slack is not stored: no reaction to it counts", cause=str(error))

    def _post(self, notification: Notification, thread: str, *, in_channel: bool) -> str:
        written = build_message(notification, self._links_of(notification.first.cluster), self._limits)
        if self._approvals and (asked := instances_to_approve(notification, self._limits)):
            asks = question(asked, self._now() + self._limits.approval)
            written = replace(written, todo=f"{written.todo} {asks}")
        try:
            return self._client.post(payload(written), thread, in_channel=in_channel)
        except MalformedError as refused:
            self._telemetry.warn("Slack does not take a message's blocks: only its text is sent", cause=str(refused))
            return self._client.post(plain(written), thread, in_channel=in_channel)

    def _find(self, cluster: str, incident: Incident | None) -> str:
        """A message outside its thread is better than none."""
        if incident is None or self._threads is None:
            return ""
        try:
            return self._threads.find(cluster, incident.key, self._now())
        except NodeFleetError as error:
            self._telemetry.warn("a message goes without its thread", cluster=cluster, cause=str(error))
            return ""

    def _remember(self, cluster: str, incident: Incident, message: str) -> None:
        if self._threads is None or not message:
            return
        try:
            if incident.over:
                self._threads.drop(cluster, incident.key)
            else:
                self._threads.keep(cluster, incident.key, message, self._now() + self._limits.thread)
        except NodeFleetError as error:
            self._telemetry.warn("an incident's thread is not remembered", cluster=cluster, cause=str(error))

    def _links_of(self, cluster: str) -> Links:
        """A message without links is better than none."""
        if cluster and cluster not in self._known:
            try:
                self._known[cluster] = self._links(cluster)
            except NodeFleetError as error:
                self._telemetry.warn("a message goes without links", cluster=cluster, cause=str(error))
                self._known[cluster] = Links()
        return self._known.get(cluster, Links())


# ── notifier ─────────────────────────────────────────────────────────────────────────────────────────────────────────
# From what Lambda brings to messages, and what Lambda is answered.


@dataclass(frozen=True, slots=True, kw_only=True)
class Notifier:
    parts: DeliveryRuntime
    event_in: incoming.Reader

    def handle(self, event: Any) -> dict[str, Any]:
        """A batch of the table's stream, or an alarm. What could not be told comes again: of a batch only from there
        on, an alarm because an error is raised."""
        match event:
            case {"Records": [{"eventSource": incoming.STREAM_SOURCE}, *_] as records}:
                return incoming.stream_failures(self._deliver(incoming.decode_stream(records, self.event_in)).left)
            case {"Records": [{"EventSource": incoming.ALARM_SOURCE}, *_] as records}:
                delivered = self._deliver(incoming.decode_alarms(records))
                if delivered.error:
                    raise delivered.error
            case _:
                self._set_aside(MalformedItem(key=str(event)[:200], cause="neither the table's stream nor SNS"))
        return {}

    def _deliver(self, arrived: IncomingBatch) -> DeliveryResult:
        for spoiled in arrived.spoiled:
            self._set_aside(spoiled)
        delivered = deliver(arrived.news, self.parts)
        if delivered.error:
            self.parts.telemetry.warn(
                "not everything could be told", left=len(delivered.left), cause=str(delivered.error)
            )
        self.parts.telemetry.line("told operators", news=len(arrived.news), messages=delivered.messages)
        return delivered

    def _set_aside(self, spoiled: MalformedItem) -> None:
        self.parts.telemetry.metric(Metric.MALFORMED, 1)
        self.parts.telemetry.warn("set aside: it cannot be understood", key=spoiled.key, cause=spoiled.cause)


def notifier(
    *,
    hook: SlackHook,
    sent: DeliveryLog,
    event_in: incoming.Reader,
    links: Callable[[str], Links],
    time: Time,
    telemetry: Telemetry,
    limits: DeliveryLimits | None = None,
    threads: IncidentThreads | None = None,
    approvals: OpenApprovals | None = None,
) -> Notifier:
    """All of it, wired. `links` gives where a cluster can be looked at, by its name. `threads` and `approvals`
    count with a bot token alone."""
    limits = limits or DeliveryLimits()
    if not hook.url:
        client: SlackClient = WebApi(hook, time, limits)
    else:
        client, threads, approvals = Webhook(hook, time, limits), None, None
    messenger = SlackMessenger(client, links, telemetry, limits, threads=threads, approvals=approvals, now=time.now)
    parts = DeliveryRuntime(sent=sent, messenger=messenger, time=time, telemetry=telemetry, limits=limits)
    return Notifier(parts=parts, event_in=event_in)

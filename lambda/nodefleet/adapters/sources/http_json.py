"""HTTP JSON: one number in a document, found by a JSON pointer (RFC 6901); and RabbitMQ, by its management API."""

from collections.abc import Iterator, Sequence
from functools import partial
from http import HTTPStatus
from ipaddress import ip_address
from math import isfinite
from urllib.parse import quote, urlsplit

from nodefleet.adapters import http
from nodefleet.adapters.sources.port import Moment, SourceCall, SourceLogins, get_json, missing_for_status, read_each
from nodefleet.model.snapshot import Missing, Reading, Sample
from nodefleet.policy.sources import HttpJson, Rabbitmq

SERVICE = "the HTTP source"


class HttpDocuments:
    def __init__(self, logins: SourceLogins, *, loopback: bool = False) -> None:
        """`loopback`: documents of this host may be read. In Lambda its runtime listens there."""
        self._logins = logins
        self._loopback = loopback

    def calls(self, entries: Sequence[HttpJson], moment: Moment) -> Iterator[SourceCall]:
        for entry in entries:
            yield SourceCall(SERVICE, (entry,), read_each(partial(self._read, entry, moment)))

    def _read(self, entry: HttpJson, moment: Moment) -> Sample:
        wrong = http.address_problem(entry.url, SERVICE) or self._forbidden(entry.url)
        if wrong:
            return Missing(wrong)
        request = http.HttpRequest(service=SERVICE, url=entry.url, headers={"Accept": "application/json"})
        answer = get_json(request, self._logins, entry.secret, moment.deadline)
        if isinstance(answer, Missing):
            return answer
        status, document = answer
        if status != HTTPStatus.OK:
            return missing_for_status(request.where, status)
        return _number(document, entry.value, moment)

    def _forbidden(self, url: str) -> str:
        host = urlsplit(url).hostname or ""
        try:
            address = ip_address(host)
        except ValueError:
            inner = host == "localhost" or host.endswith(".localhost")
        else:
            inner = address.is_loopback or address.is_link_local or address.is_unspecified
        if inner and not self._loopback:
            return "the HTTP source is an address of the function itself: name a server of your network"
        return ""


def _number(document: object, pointer: str, moment: Moment) -> Sample:
    found = document
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        match found:
            case dict() if key in found:
                found = found[key]
            case list() if key.isdecimal() and int(key) < len(found):
                found = found[int(key)]
            case _:
                return Missing(f"the document has nothing at {pointer}: {part!r} is not there")
    match found:
        case None:
            return Missing(f"the document has null at {pointer}", empty_at=moment.now)
        case bool():
            pass
        case int() | float() if isfinite(found):
            return Reading(float(found), moment.now)
        case _:
            pass
    return Missing(f"the document has no number at {pointer}, but {type(found).__name__}")


# ── RabbitMQ ─────────────────────────────────────────────────────────────────────────────────────────────────────────
# RabbitMQ: how many messages a queue holds, by the management API. Its figures are some seconds old at most.


_RABBITMQ = "RabbitMQ"
_FIELDS = {"ready": "messages_ready", "unacked": "messages_unacknowledged", "all": "messages"}


class RabbitmqQueues:
    def __init__(self, logins: SourceLogins) -> None:
        self._logins = logins

    def calls(self, entries: Sequence[Rabbitmq], moment: Moment) -> Iterator[SourceCall]:
        for entry in entries:
            yield SourceCall(_RABBITMQ, (entry,), read_each(partial(self._read, entry, moment)))

    def _read(self, entry: Rabbitmq, moment: Moment) -> Sample:
        wrong = http.address_problem(entry.url, _RABBITMQ)
        if wrong:
            return Missing(wrong)
        path = f"/api/queues/{quote(entry.vhost, safe='')}/{quote(entry.queue, safe='')}"
        request = http.HttpRequest(service=_RABBITMQ, url=entry.url.rstrip("/") + path)
        answer = get_json(request, self._logins, entry.secret, moment.deadline)
        if isinstance(answer, Missing):
            return answer
        status, document = answer
        if status == HTTPStatus.NOT_FOUND:
            return Missing(f"RabbitMQ has no queue {entry.queue} in virtual host {entry.vhost}: check both names")
        if status != HTTPStatus.OK:
            return missing_for_status(_RABBITMQ, status)
        return _messages(document, entry, moment)


def _messages(document: object, entry: Rabbitmq, moment: Moment) -> Sample:
    found = document if isinstance(document, dict) else {}
    count = found.get(_FIELDS[entry.counts])
    state = found.get("state") or "running"
    if count is None and found.get("name") == entry.queue and state != "running":
        return Missing(f"RabbitMQ's queue {entry.queue} is {state}, so its messages cannot be counted")
    if count is None and found.get("name") == entry.queue:
        # A queue that was just declared has neither figures nor a state yet.
        return Missing(f"RabbitMQ has no figures of queue {entry.queue} yet", empty_at=moment.now)
    if count is None:
        return Missing(f"RabbitMQ's answer is no queue {entry.queue}: is this the address of its management API?")
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        return Missing(f"RabbitMQ's count of {entry.queue} is {count!r}, no number of messages")
    return Reading(float(count), moment.now)

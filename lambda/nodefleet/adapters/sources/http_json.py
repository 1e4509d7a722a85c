"""HTTP JSON: one number in a document, found by a JSON pointer (RFC 6901)."""

from collections.abc import Iterator, Sequence
from functools import partial
from http import HTTPStatus
from ipaddress import ip_address
from math import isfinite
from urllib.parse import urlsplit

from nodefleet.adapters import http
from nodefleet.adapters.sources.logins import SourceLogins, get_json, missing_for_status, read_each
from nodefleet.adapters.sources.port import Moment, SourceCall
from nodefleet.model.readings import Missing, Reading, Sample
from nodefleet.policy.demand import HttpJson

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

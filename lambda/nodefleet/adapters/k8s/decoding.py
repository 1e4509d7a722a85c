"""From bytes to shapes, and lists page by page: complete or an error, never a short list.

A list that is paged for too long loses its place (410): then it is read anew from the start, a few times at most.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from http import HTTPStatus
from typing import Any, Generic, TypeVar

import msgspec

from nodefleet.adapters.k8s.calls import Api
from nodefleet.adapters.k8s.refusals import PART, refusal
from nodefleet.adapters.k8s.resources import Request
from nodefleet.errors import DeniedError, LoginRefusedError, UnavailableError

_LOG = logging.getLogger(__name__)

S = TypeVar("S")
D = TypeVar("D")

PAGE = 1000  # objects; ten thousand pods come in ten pages of some megabytes
_MOST_PAGES = 1000
_STARTS = 3


class _ListMeta(msgspec.Struct, rename={"token": "continue"}):
    token: str = ""  # for the next page


class _Page(msgspec.Struct, Generic[S]):
    items: list[S] | None
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)


class _LostPlaceError(Exception):
    """The server no longer knows where the next page begins."""


def decoded(request: Request, body: bytes, shape: type[S]) -> S:
    """What the answer to a request holds."""
    kind: Any = shape
    try:
        found: S = _decoder(kind).decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnavailableError(PART, f"{request}: the answer cannot be read: {error}") from error
    return found


def listed(api: Api, request: Request, shape: type[S]) -> list[S]:
    """All objects of a list."""
    return digested(api, request, shape, lambda item: item)


def listed_if_allowed(api: Api, request: Request, shape: type[S]) -> list[S] | None:
    """The same; none if our role may not list them. For what a role of an older release lacks, and the fleet can do
    without: the log and `doctor` name the permission."""
    try:
        return listed(api, request, shape)
    except LoginRefusedError:
        raise
    except DeniedError as error:
        _LOG.warning("%s", error)
        return None


def digested(api: Api, request: Request, shape: type[S], digest: Callable[[S], D]) -> list[D]:
    """What `digest` makes of every object of a list. A page is let go before the next one comes."""
    for _ in range(_STARTS):
        try:
            return [digest(item) for page in _pages(api, request, shape) for item in page]
        except _LostPlaceError:
            continue
    raise UnavailableError(PART, f"{request}: the list changes faster than it can be read")


def _pages(api: Api, request: Request, shape: type[S]) -> Iterator[list[S]]:
    token = ""
    for _ in range(_MOST_PAGES):
        place = (("continue", token),) if token else ()
        answer = api.ask(replace(request, query=(*request.query, ("limit", str(PAGE)), *place)))
        if answer.status == HTTPStatus.GONE and token:
            raise _LostPlaceError
        if not answer.fine:
            raise refusal(request, answer.status, answer.body)
        page: _Page[S] = decoded(request, answer.body, _page_of(shape))
        yield page.items or []
        token = page.metadata.token
        if not token:
            return
    raise UnavailableError(PART, f"{request}: there is no end to its pages")


@cache
def _decoder(shape: Any) -> Any:
    return msgspec.json.Decoder(shape)


def _page_of(shape: Any) -> Any:
    return _Page[shape]

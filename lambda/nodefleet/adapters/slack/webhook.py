"""Sends to Slack, and says what its answers mean.

    answer                       means
    2xx                          delivered
    429                          waited for as long as Slack asks, a few times; then it is throttled
    5xx, no answer, 408, 425     Slack is away
    400, 413                     this message is never taken
    every other                  the webhook itself no longer works: a person has to mend it

The address is the only secret that posting needs. It stands in no log line, no error and no representation; what
`requests` raises has it in its text, so none of that is passed on.
"""

import logging
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from http import HTTPStatus
from typing import Any

import requests

from nodefleet.adapters.logins import SlackHook
from nodefleet.errors import DeniedError, MalformedError, ThrottledError, UnavailableError
from nodefleet.notifying.limits import Limits
from nodefleet.ports import Time

SLACK = "Slack"
_CODE = re.compile(r"[a-z][a-z0-9_]{0,59}")  # Slack answers with one word
_SECONDS = re.compile(r"[0-9]{1,5}")
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
    def __init__(self, hook: SlackHook, time: Time, limits: Limits) -> None:
        self._hook = hook
        self._time = time
        self._limits = limits
        self._session = requests.Session()
        logging.getLogger("urllib3").setLevel(logging.INFO)  # its debug lines have the address in them

    def post(self, payload: Mapping[str, Any]) -> None:
        """UnavailableError: not now. DeniedError: the webhook is broken. MalformedError: this message never works."""
        for left in reversed(range(self._limits.tries)):
            wait = self._tried(payload)
            if wait is None:
                return
            too_long = wait > self._limits.longest_wait or self._time.left() - wait < self._limits.reserve
            if too_long or not left:
                raise ThrottledError(SLACK, f"asks to wait {wait.total_seconds():.0f} s")
            self._time.sleep(wait)

    def _tried(self, payload: Mapping[str, Any]) -> timedelta | None:
        """None when it was delivered, or how long to wait before the next try."""
        timeout = (self._limits.connect.total_seconds(), self._limits.answer.total_seconds())
        try:
            with self._session.post(
                self._hook.url, json=payload, timeout=timeout, allow_redirects=False, stream=True
            ) as response:
                return _judged(response)
        except requests.RequestException as problem:
            cause = f"no answer ({type(problem).__name__})"
        raise UnavailableError(SLACK, cause)  # outside the handler: the cause's text has the address in it


def _judged(response: requests.Response) -> timedelta | None:
    status = response.status_code
    body = ""
    with suppress(requests.RequestException):  # the status says enough
        body = next(response.iter_content(200), b"").decode(errors="replace").strip()
    code = body if _CODE.fullmatch(body) else f"HTTP {status}"
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return None
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return _asked_to_wait(response)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _AWAY:
        raise UnavailableError(SLACK, code)
    if status in _NEVER and code not in REMEDIES:
        raise MalformedError(f"Slack does not take this message: {code}")
    raise DeniedError(SLACK, code, REMEDIES.get(code, f"Check the webhook. {_NEW_ONE}"))


def _asked_to_wait(response: requests.Response) -> timedelta:
    asked = response.headers.get("Retry-After", "").strip()
    return timedelta(seconds=int(asked)) if _SECONDS.fullmatch(asked) else timedelta(seconds=1)

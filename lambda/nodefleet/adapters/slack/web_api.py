"""Slack's Web API with a bot token, as an alternative to the webhook: it answers with a message's id, so that later
messages of an incident go into its thread.

    answer                                         means
    {"ok": true, "ts": …}                          delivered
    429, "ratelimited"                             waited for as long as Slack asks, a few times; then throttled
    5xx, no answer, "internal_error", …            Slack is unavailable
    "invalid_blocks", "msg_too_long", …            this message is never accepted
    "thread_not_found", …                          the thread is gone: the message goes to the channel
    every other error                              the token or the channel does not work: an operator has to fix it

The token is the only secret. It is sent in a header alone and stands in no log line, error or representation.
"""

import logging
from collections.abc import Mapping
from datetime import timedelta
from http import HTTPStatus
from typing import Any

import requests

from nodefleet.adapters.credentials import SlackHook
from nodefleet.adapters.slack.webhook import SLACK, asked_to_wait, post_with_retries
from nodefleet.errors import DeniedError, MalformedError, UnavailableError
from nodefleet.notifications.incoming import DeliveryLimits
from nodefleet.ports import Time

_NEVER = frozenset(
    {
        "block_mismatch",
        "invalid_blocks",
        "invalid_blocks_format",
        "msg_blocks_too_long",
        "msg_too_long",
        "no_text",
        "too_many_attachments",
    }
)
_AWAY = frozenset({"fatal_error", "internal_error", "request_timeout", "service_unavailable", "team_added_to_org"})
_NO_THREAD = frozenset({"cannot_reply_to_message", "message_not_found", "thread_not_found"})
_NEW_TOKEN = "Install the app again and put its bot token into the secret"  # noqa: S105
REMEDIES = {
    "account_inactive": _NEW_TOKEN,
    "channel_not_found": "Put the channel's id (C…) into the secret, and invite the app to a private channel",
    "invalid_auth": _NEW_TOKEN,
    "is_archived": "Unarchive the channel, or put another one's id into the secret",
    "missing_scope": "Give the app the scope chat:write and install it again",
    "not_in_channel": "Invite the app to the channel",
    "restricted_action": "A Slack admin has restricted posting there: ask for the right, or take another channel",
    "token_expired": _NEW_TOKEN,
    "token_revoked": _NEW_TOKEN,
}


class WebApi:
    def __init__(self, hook: SlackHook, time: Time, limits: DeliveryLimits) -> None:
        self._hook = hook
        self._time = time
        self._limits = limits
        self._session = requests.Session()
        logging.getLogger("urllib3").setLevel(logging.INFO)

    def post(self, payload: Mapping[str, Any], thread: str = "", *, in_channel: bool = False) -> str:
        """The message's id. `thread`: the id of the message that it answers; `in_channel`: shown there as well.
        UnavailableError: not now. DeniedError: an operator has to fix something. MalformedError: never."""
        sent: list[str] = []

        def attempt(thread: str) -> timedelta | None:
            answer = self._try_post({**payload, "channel": self._hook.channel, **_place(thread, in_channel)})
            if isinstance(answer, timedelta):
                return answer
            sent.append(answer)
            return None

        try:
            post_with_retries(lambda: attempt(thread), self._time, self._limits)
        except _ThreadGoneError:
            post_with_retries(lambda: attempt(""), self._time, self._limits)
        return sent[-1]

    def _try_post(self, body: Mapping[str, Any]) -> str | timedelta:
        timeout = (self._limits.connect.total_seconds(), self._limits.answer.total_seconds())
        headers = {"Authorization": f"Bearer {self._hook.token}"}
        url = f"{self._hook.api}/chat.postMessage"
        try:
            response = self._session.post(url, json=body, headers=headers, timeout=timeout, allow_redirects=False)
            return _judge(response, bool(body.get("thread_ts")))
        except requests.RequestException as problem:
            cause = f"no answer ({type(problem).__name__})"
        raise UnavailableError(SLACK, cause)


class _ThreadGoneError(Exception):
    """The message that was to be answered does not exist any more."""


def _place(thread: str, in_channel: bool) -> dict[str, Any]:  # noqa: FBT001
    return {"thread_ts": thread, "reply_broadcast": in_channel} if thread else {}


def _judge(response: requests.Response, in_thread: bool) -> str | timedelta:  # noqa: FBT001
    status = response.status_code
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return asked_to_wait(response)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise UnavailableError(SLACK, f"HTTP {status}")
    try:
        answer = response.json()
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise UnavailableError(SLACK, f"HTTP {status} without an answer that Slack gives")
    if answer.get("ok") is True and isinstance(answer.get("ts"), str):
        return str(answer["ts"])
    error = str(answer.get("error", f"HTTP {status}"))[:60]
    if error == "ratelimited":
        return asked_to_wait(response)
    if error in _AWAY:
        raise UnavailableError(SLACK, error)
    if error in _NEVER:
        raise MalformedError(f"Slack does not take this message: {error}")
    if error in _NO_THREAD and in_thread:
        raise _ThreadGoneError
    raise DeniedError(SLACK, error, REMEDIES.get(error, "Check the token and the channel in the secret"))

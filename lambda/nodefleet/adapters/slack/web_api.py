"""Slack's Web API with a bot token: messages in threads, and reactions to them. Nothing is opened."""

import logging
import re
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from http import HTTPStatus
from typing import Any

import requests

from nodefleet.adapters.credentials import SlackHook
from nodefleet.errors import DeniedError, MalformedError, NodeFleetError, ThrottledError, UnavailableError
from nodefleet.notifications.incoming import DeliveryLimits
from nodefleet.ports import Time

SLACK = "Slack"
_SECONDS = re.compile(r"[0-9]{1,5}")


def post_with_retries(attempt: Callable[[], timedelta | None], time: Time, limits: DeliveryLimits) -> None:
    """`attempt` gives nothing when the message was delivered, or how long Slack asks to wait before the next one."""
    for left in reversed(range(limits.tries)):
        wait = attempt()
        if wait is None:
            return
        too_long = wait > limits.longest_wait or time.remaining() - wait < limits.reserve
        if too_long or not left:
            raise ThrottledError(SLACK, f"asks to wait {wait.total_seconds():.0f} s")
        time.sleep(wait)


def asked_to_wait(response: requests.Response) -> timedelta:
    asked = response.headers.get("Retry-After", "").strip()
    return timedelta(seconds=int(asked)) if _SECONDS.fullmatch(asked) else timedelta(seconds=1)


# ── messages ─────────────────────────────────────────────────────────────────────────────────────────────────────────
# Slack's Web API with a bot token, as an alternative to the webhook: it answers with a message's id, so that later
# messages of an incident go into its thread.
#
#     answer                                         means
#     {"ok": true, "ts": …}                          delivered
#     429, "ratelimited"                             waited for as long as Slack asks, a few times; then throttled
#     5xx, no answer, "internal_error", …            Slack is unavailable
#     "invalid_blocks", "msg_too_long", …            this message is never accepted
#     "thread_not_found", …                          the thread is gone: the message goes to the channel
#     every other error                              the token or the channel does not work: an operator has to fix it
#
# The token is the only secret. It is sent in a header alone and stands in no log line, error or representation.


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
API_REMEDIES = {
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
            place = {"thread_ts": thread, "reply_broadcast": in_channel} if thread else {}
            answer = self._try_post({**payload, "channel": self._hook.channel, **place})
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


def read_answer(response: requests.Response) -> dict[str, Any] | timedelta:
    """What the Web API answers, or how long it asks to wait. UnavailableError: Slack is away."""
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
    return asked_to_wait(response) if answer.get("error") == "ratelimited" else answer


def _judge(response: requests.Response, in_thread: bool) -> str | timedelta:  # noqa: FBT001
    answer = read_answer(response)
    if isinstance(answer, timedelta):
        return answer
    if answer.get("ok") is True and isinstance(answer.get("ts"), str):
        return str(answer["ts"])
    error = str(answer.get("error", f"HTTP {response.status_code}"))[:60]
    if error in _NEVER:
        raise MalformedError(f"Slack does not take this message: {error}")
    if error in _NO_THREAD and in_thread:
        raise _ThreadGoneError
    raise _refusal(error, API_REMEDIES)


def _refusal(error: str, remedies: Mapping[str, str]) -> NodeFleetError:
    if error in _AWAY:
        return UnavailableError(SLACK, error)
    return DeniedError(SLACK, error, remedies.get(error, "Check the token and the channel in the secret"))


# ── reactions ────────────────────────────────────────────────────────────────────────────────────────────────────────
# Reactions to messages need the scope `reactions:read` beside `chat:write`.


_GONE = "message_not_found"
_REACTION_REMEDIES = {**API_REMEDIES, "missing_scope": "Give the app the scope reactions:read and install it again"}


class SlackReactions:
    """notifications.approvals.Reactions by a bot token."""

    def __init__(self, hook: SlackHook, time: Time, limits: DeliveryLimits) -> None:
        self._hook = hook
        self._limits = limits
        self._api = WebApi(hook, time, limits)
        self._session = requests.Session()

    def of(self, message: str) -> Mapping[str, Collection[str]] | None:
        answer = self._get(message)
        if answer.get("ok") is not True:
            error = str(answer.get("error", ""))[:60]
            if error == _GONE:
                return None
            raise _refusal(error, _REACTION_REMEDIES)
        found = answer.get("message")
        listed = found.get("reactions", []) if isinstance(found, dict) else None
        if not isinstance(listed, list):
            raise UnavailableError(SLACK, "the answer about a message's reactions has none of their form")
        return {
            str(each["name"]): tuple(map(str, each["users"]))
            for each in listed
            if isinstance(each, dict) and isinstance(each.get("users"), list) and "name" in each
        }

    def reply(self, message: str, text: str) -> None:
        self._api.post({"text": text}, message)

    def _get(self, message: str) -> dict[str, Any]:
        timeout = (self._limits.connect.total_seconds(), self._limits.answer.total_seconds())
        try:
            response = self._session.get(
                f"{self._hook.api}/reactions.get",
                # full: all users of a reaction; else Slack may leave out an approver among many
                params={"channel": self._hook.channel, "timestamp": message, "full": "true"},
                headers={"Authorization": f"Bearer {self._hook.token}"},
                timeout=timeout,
                allow_redirects=False,
            )
            answer = read_answer(response)
        except requests.RequestException as problem:
            cause = f"no answer ({type(problem).__name__})"
        else:
            if isinstance(answer, timedelta):
                raise ThrottledError(SLACK, f"asks to wait {answer.total_seconds():.0f} s")
            return answer
        raise UnavailableError(SLACK, cause)  # outside the handler: the cause's text has the request in it

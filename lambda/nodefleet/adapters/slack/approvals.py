"""Reactions to messages, asked of Slack's Web API: scope `reactions:read` beside `chat:write`. Nothing is opened."""

from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import Any

import requests

from nodefleet.adapters.credentials import SlackHook
from nodefleet.adapters.slack.webhook import API_AWAY, API_REMEDIES, SLACK, WebApi, asked_to_wait
from nodefleet.errors import DeniedError, NodeFleetError, ThrottledError, UnavailableError
from nodefleet.notifications.incoming import DeliveryLimits
from nodefleet.ports import Time

_GONE = "message_not_found"
_REMEDIES = {**API_REMEDIES, "missing_scope": "Give the app the scope reactions:read and install it again"}


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
            raise _refusal(error)
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
            return _read(response)
        except requests.RequestException as problem:
            cause = f"no answer ({type(problem).__name__})"
        raise UnavailableError(SLACK, cause)  # outside the handler: the cause's text has the request in it


def _refusal(error: str) -> NodeFleetError:
    if error in API_AWAY:
        return UnavailableError(SLACK, error)
    return DeniedError(SLACK, error, _REMEDIES.get(error, "Check the token and the channel in the secret"))


def _read(response: requests.Response) -> dict[str, Any]:
    status = response.status_code
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        raise ThrottledError(SLACK, f"asks to wait {asked_to_wait(response).total_seconds():.0f} s")
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise UnavailableError(SLACK, f"HTTP {status}")
    try:
        answer = response.json()
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise UnavailableError(SLACK, f"HTTP {status} without an answer that Slack gives")
    if answer.get("error") == "ratelimited":
        raise ThrottledError(SLACK, f"asks to wait {asked_to_wait(response).total_seconds():.0f} s")
    return answer

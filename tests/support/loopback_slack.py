"""A stand-in for Slack on this machine, its webhook and its Web API: answers as it is told and keeps what it got."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from nodefleet.adapters.credentials import SlackHook
from support.loopback_server import LoopbackHandler, loopback_server

SECRET = "services/T0/B0/very-secret"  # noqa: S105
BOT_TOKEN = "xoxb-1-very-secret"  # noqa: S105
CHANNEL = "C0123456789"
_POST = "/api/chat.postMessage"


@dataclass(frozen=True)
class Answer:
    status: int = 200
    body: str = "ok"
    headers: dict[str, str] = field(default_factory=dict)
    hangs: bool = False  # says nothing at all
    cut: bool = False  # hangs up within the body


def refusal(error: str, **more: Any) -> Answer:
    """The Web API refuses with status 200."""
    return Answer(body=json.dumps({"ok": False, "error": error}), **more)


@dataclass
class LoopbackSlack:
    answers: list[Answer] = field(default_factory=list)  # taken one by one; then always ok
    messages: list[dict[str, Any]] = field(default_factory=list)  # the ones that were taken
    tries: int = 0
    tokens: list[str] = field(default_factory=list)  # of requests to the Web API, as their headers have them
    asked: list[str] = field(default_factory=list)  # paths of GET requests
    port: int = 0
    over: Event = field(default_factory=Event)

    @property
    def hook(self) -> SlackHook:
        return SlackHook(url=f"http://127.0.0.1:{self.port}/{SECRET}")

    @property
    def bot(self) -> SlackHook:
        return SlackHook(token=BOT_TOKEN, channel=CHANNEL, api=f"http://127.0.0.1:{self.port}/api")


def _accepted(path: str, number: int) -> str:
    return json.dumps({"ok": True, "ts": f"{number}.000100"}) if path == _POST else "ok"


@contextmanager
def loopback_slack(*answers: Answer) -> Iterator[LoopbackSlack]:
    slack = LoopbackSlack(answers=list(answers))

    class Handler(LoopbackHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:  # noqa: N802  # as http.server names it
            slack.tries += 1
            answer = slack.answers.pop(0) if slack.answers else Answer(body=_accepted(self.path, slack.tries))
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if answer.hangs:
                slack.over.wait(5)
                self.close_connection = True
                return
            if self.path == _POST:
                slack.tokens.append(self.headers["Authorization"])
            if answer.status == 200 and '"ok": false' not in answer.body:
                slack.messages.append(message)
            self.reply(answer.status, answer.headers, answer.body.encode(), lacking=100 if answer.cut else 0)
            self.close_connection = answer.cut

        def do_GET(self) -> None:  # noqa: N802  # as http.server names it
            slack.asked.append(self.path)
            slack.tokens.append(self.headers["Authorization"])
            answer = slack.answers.pop(0)
            if answer.hangs:
                slack.over.wait(5)
                self.close_connection = True
                return
            self.reply(answer.status, answer.headers, answer.body.encode())

    with loopback_server(Handler) as server:
        slack.port = server.server_port
        try:
            yield slack
        finally:
            slack.over.set()

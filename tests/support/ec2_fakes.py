"""AWS without AWS: credentials that open nothing, a clock that stands, and a wire that answers as it is told."""

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse

from nodefleet.adapters.aws.session import DUALSTACK_VARIABLE, Session
from support.builders import NOON

REGION = "us-east-1"
CLUSTER = "shop"


def isolate(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Fake credentials, and nothing of this machine's own settings."""
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_EC2", "AWS_USE_DUALSTACK_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv(DUALSTACK_VARIABLE, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "fake")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "fake")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "fake")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(folder / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(folder / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)  # retries need not wait here


@pytest.fixture
def aws_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    isolate(monkeypatch, tmp_path)
    return monkeypatch


@pytest.fixture(scope="module")
def shared_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """One for all tests of a module: EC2's client takes a third of a second to make."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        isolate(monkeypatch, tmp_path_factory.mktemp("aws"))
        monkeypatch.setenv(DUALSTACK_VARIABLE, "none")  # moto answers at the ordinary addresses only
        yield Session(Clock())


@dataclass
class Clock:
    now: datetime = NOON

    def __call__(self) -> datetime:
        return self.now

    def passes(self, **duration: float) -> None:
        self.now += timedelta(**duration)


@dataclass(frozen=True)
class Reply:
    status: int = 200
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    hook: Callable[[], None] = lambda: None  # what happens while the answer is awaited


@dataclass
class Wire:
    """Takes the place of the network: gives the replies in turn, and keeps what was sent."""

    replies: list[Reply | Exception]
    sent: list[Any] = field(default_factory=list)

    def __call__(self, request: Any, **_: Any) -> AWSResponse:
        self.sent.append(request)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        reply.hook()
        return AWSResponse(request.url, reply.status, reply.headers, _Raw(reply.body.encode()))


class _Raw(io.BytesIO):
    def stream(self, *_: Any, **__: Any):
        yield self.read()


def wired(session: Session, service: str, *replies: Reply | Exception) -> Wire:
    """The session's client of this service answers with these."""
    wire = Wire(list(replies))
    session.client(service).meta.events.register_last("before-send", wire)
    return wire


def ec2_error(code: str, message: str = "no", status: int = 400) -> Reply:
    body = (
        '<?xml version="1.0" encoding="UTF-8"?>'
        f"<Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error></Errors>"
        "<RequestID>r</RequestID></Response>"
    )
    return Reply(status, body)

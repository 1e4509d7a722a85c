"""Who we are to the API server, to Prometheus and to Slack, and how secrets stay out of what is written. They never
show in a repr.

What is wrong with a login is found when it is made, and told without showing it. Otherwise the first to complain is
the HTTP library, which quotes the header it was given.
"""

import json
import logging
import re
from base64 import b64encode
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias
from urllib.parse import quote

from nodefleet.errors import MisconfiguredError

_HEADER = re.compile(r"[\x21-\x7e]+")  # what may stand in a header: no spaces, no line ends
_CERTIFICATE = "-----BEGIN CERTIFICATE-----"
_SLACK = re.compile(r"https://hooks\.slack(-gov)?\.com/[\x21-\x7e]+")
_SLACK_API = re.compile(r"https://slack(-gov)?\.com/api")
_BOT = re.compile(r"xoxb-[0-9A-Za-z-]+")
_CHANNEL = re.compile(r"[CG][0-9A-Z]{6,20}")
_LOOPBACK = re.compile(r"http://(127\.0\.0\.1|localhost|\[::1\])(:\d+)?(/[\x21-\x7e]*)?")  # for tests


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsLogin:
    """Basic or bearer, as the server wants it; and its certificate authority, if that is one of its network."""

    SHAPE: ClassVar[str] = '{"username": "…", "password": "…"} or {"token": "…"}, and "ca" if needed'

    username: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    ca: str = field(default="", repr=False)  # PEM; alone it is enough for a server that wants no login

    def __post_init__(self) -> None:
        if self.token and (self.username or self.password):
            raise MisconfiguredError("token and username are both there: only one can be used")
        _check_authority(self.ca)
        if self.token:
            _require_header(self.token, "token")
        elif self.ca and not (self.username or self.password):
            return
        elif not self.username or not self.password:
            lacking = "username" if self.password else "password" if self.username else "token"
            raise MisconfiguredError(f"{lacking} is missing")
        elif ":" in self.username:
            raise MisconfiguredError("username has a colon, which basic authentication cannot carry")

    def header(self) -> str:
        """For Authorization; empty without a login."""
        if self.token:
            return f"Bearer {self.token}"
        return f"Basic {self._basic()}" if self.username else ""

    def secrets(self) -> tuple[str, ...]:
        if self.token:
            return (self.token,)
        return (self.password, self._basic()) if self.username else ()

    def _basic(self) -> str:
        return b64encode(f"{self.username}:{self.password}".encode()).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiLogin:
    """A ServiceAccount's token, and the certificate authority that the API server must be known to. The address is
    there for when the deployment's record cannot be read: an interrupted node is drained even then. The login to the
    cluster's own Prometheus comes with it: the same server makes both, and one secret costs half of two."""

    SHAPE: ClassVar[str] = '{"server": "https://…:6443", "token": "…", "ca": "-----BEGIN CERTIFICATE-----…"}'

    token: str = field(repr=False)
    ca: str = field(repr=False)
    server: str = ""
    metrics_username: str = ""
    metrics_password: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        _require_header(self.token, "token")
        if _CERTIFICATE not in self.ca:
            raise MisconfiguredError("ca is not a certificate in PEM form")

    @property
    def metrics(self) -> MetricsLogin | None:
        """None: the cluster's Prometheus asks for no login. MisconfiguredError for half of one."""
        if not self.metrics_username and not self.metrics_password:
            return None
        return MetricsLogin(username=self.metrics_username, password=self.metrics_password)

    def secrets(self) -> tuple[str, ...]:
        whole = self.metrics_username and self.metrics_password
        found = self.metrics.secrets() if whole and self.metrics else (self.metrics_password,)
        return (self.token, *filter(None, found))


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackHook:
    """An incoming webhook, whose address is enough to write into its channel; or a bot token and a channel, with which
    the messages of an incident share a thread."""

    SHAPE: ClassVar[str] = (
        '{"url": "https://hooks.slack.com/services/…"} or {"token": "xoxb-…", "channel": "C0123456789"}'
    )

    url: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    channel: str = ""
    api: str = "https://slack.com/api"

    def __post_init__(self) -> None:
        if self.token and not self.url:
            self._check_token()
        elif not _SLACK.fullmatch(self.url) and not _LOOPBACK.fullmatch(self.url):
            raise MisconfiguredError("url is not an incoming webhook of Slack (https://hooks.slack.com/…)")

    def _check_token(self) -> None:
        if not _BOT.fullmatch(self.token):
            raise MisconfiguredError("token is not a bot token of Slack (xoxb-…)")
        if not _CHANNEL.fullmatch(self.channel):
            raise MisconfiguredError("channel is not a channel's id (C…, in the channel's details)")
        if not _SLACK_API.fullmatch(self.api) and not _LOOPBACK.fullmatch(self.api):
            raise MisconfiguredError("api is not an address of Slack")

    def secrets(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.url, self.token)))


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisLogin:
    """For AUTH. A certificate authority of one's own for `rediss://`, in PEM form; alone for a server without AUTH."""

    SHAPE: ClassVar[str] = '{"password": "…"} and, if needed, "username" and "ca"'

    password: str = field(default="", repr=False)
    username: str = ""
    ca: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if not self.password and (self.username or not self.ca):
            raise MisconfiguredError("password is empty")
        _check_authority(self.ca)

    def secrets(self) -> tuple[str, ...]:
        return (self.password,) if self.password else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GithubLogin:
    """A token, or the key of a GitHub App that gets itself a token for an hour; and the certificate authority of a
    GitHub Enterprise, if that is one of its network."""

    SHAPE: ClassVar[str] = (
        '{"token": "…"} or {"app_id": "…", "installation_id": "…", "private_key": "…"}, and "ca" if needed'
    )

    token: str = field(default="", repr=False)
    app_id: str = ""
    installation_id: str = ""
    private_key: str = field(default="", repr=False)  # PEM
    ca: str = field(default="", repr=False)  # PEM

    def __post_init__(self) -> None:
        app = {"app_id": self.app_id, "installation_id": self.installation_id, "private_key": self.private_key}
        if self.token and any(app.values()):
            raise MisconfiguredError("token and a GitHub App are both there: only one can be used")
        _check_authority(self.ca)
        if self.token:
            _require_header(self.token, "token")
            return
        lacking = [name for name, value in app.items() if not value]
        if lacking:
            raise MisconfiguredError(f"{' and '.join(lacking)} missing")
        if not self.installation_id.isdecimal():
            raise MisconfiguredError("installation_id is no number")

    def secrets(self) -> tuple[str, ...]:
        return (self.token,) if self.token else (self.private_key,)


Login: TypeAlias = ApiLogin | MetricsLogin | SlackHook | RedisLogin | GithubLogin


def _check_authority(ca: str) -> None:
    if ca and _CERTIFICATE not in ca:
        raise MisconfiguredError("ca is not a certificate in PEM form")


def _require_header(value: str, name: str) -> None:
    if not _HEADER.fullmatch(value):
        what = "has characters that no HTTP header can carry" if value else "is empty"
        raise MisconfiguredError(f"{name} {what}")


# ── redaction ────────────────────────────────────────────────────────────────────────────────────────────────────────
# Keeps secrets out of everything that is written for operators.
#
# Two nets. Values that are known to be secret are replaced wherever they turn up. What merely looks like a secret is
# replaced by its shape: an Authorization header, a token, a webhook's address, a login inside an address.


HIDDEN = "***"
_SHORTEST = 4  # a shorter one would make every line unreadable
_WORD = r"[^\s\"'\\,;&<>{}()]+"  # ends before whatever could end it in a header, an address, JSON or a sentence

_SHAPES = tuple(
    (re.compile(shape), f"{kept}{HIDDEN}")
    for shape, kept in (
        (rf"(?i)(\bauthorization\\?[\"']?\s*[:=]\s*\\?[\"']?(?:(?:basic|bearer|token)\s+)?){_WORD}", r"\1"),
        (rf"(?i)(\bbearer\s+)(?=\S{{16}}){_WORD}", r"\1"),
        (rf"(https://hooks\.slack(?:-gov)?\.com/){_WORD}", r"\1"),
        (r"\bxox[a-z]-[\w-]{6,}", ""),  # Slack: a token
        (r"(://)[^/\s:@\"'\\]+:[^/\s@\"'\\]+(?=@)", r"\1"),
        (rf"\bK10[0-9a-f]{{16,}}::{_WORD}", ""),  # K3s: the token of a server or agent
        (r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*", ""),  # a JSON web token, such as a ServiceAccount's
        (rf"(?i)(\bx-amz-(?:signature|security-token|credential)=){_WORD}", r"\1"),
        (rf"(?i)(\b(?:password|passwd|token|secret|api_?key)=){_WORD}", r"\1"),
        (r"(?i)(\\?\"(?:password|passwd|token|secret|api_?key)\\?\"\s*:\s*\\?\")[^\"\\]+", r"\1"),
    )
)


class Redactor:
    """Call it with a text. It is also a filter for the log handlers of others."""

    def __init__(self, *known: str) -> None:
        self._known: frozenset[str] = frozenset()
        self.learn(*known)

    def learn(self, *values: str) -> None:
        """These are secret from now on, also as they stand in JSON and in addresses."""
        long_enough = [value for value in values if len(value) >= _SHORTEST]
        forms = {form for value in long_enough for form in (value, json.dumps(value)[1:-1], quote(value, safe=""))}
        forms |= {json.dumps(value, ensure_ascii=False)[1:-1] for value in long_enough}
        self._known |= forms

    def __call__(self, text: str) -> str:
        for known in sorted(self._known, key=len, reverse=True):  # one secret may begin with another
            text = text.replace(known, HIDDEN)
        for shape, replacement in _SHAPES:
            text = shape.sub(replacement, text)
        return text

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrites what a library logs, such as the address it could not reach."""
        record.msg, record.args = self(record.getMessage()), None
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = self(record.exc_text)
        return True

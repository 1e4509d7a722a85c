"""GitHub Actions: jobs that wait for self-hosted runners or run on them.

GitHub has no figure for it, so the runs that are queued or in progress are listed and then their jobs. An ETag makes an
unchanged answer free of the rate limit. Once that limit is used up nothing is asked until it is renewed.
"""

import json
import time
from base64 import b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from http import HTTPStatus
from threading import Lock
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from nodefleet.adapters import http
from nodefleet.adapters.concurrency import Threads
from nodefleet.adapters.credentials import GithubLogin
from nodefleet.adapters.sources.port import Moment, SourceCall, SourceLogins
from nodefleet.errors import MisconfiguredError, NodeFleetError
from nodefleet.model.snapshot import Missing, Reading, Sample
from nodefleet.policy.sources import Github

# ── GitHub App ───────────────────────────────────────────────────────────────────────────────────────────────────────
# The token of a GitHub App: a signed statement of who we are (a JWT with RS256), exchanged for a token of an hour.
#
# The signature is RSASSA-PKCS1-v1_5 with SHA-256 (RFC 8017), which is one modular power of the key's own numbers. A
# library for it would weigh more than all other code that ships; tests compare the result with one.


LASTS = timedelta(minutes=9)  # GitHub takes ten at most
_SKEW = timedelta(seconds=60)  # GitHub's advice: clocks differ
_DIGEST_INFO = bytes.fromhex("3031300d060960864801650304020105000420")  # of SHA-256, in DER
_INTEGER, _OCTETS, _SEQUENCE = 0x02, 0x04, 0x30
_PKCS1_NUMBERS = 9  # version, n, e, d, p, q, …
_NOT_A_KEY = "private_key is no RSA key in PEM form: store the file that GitHub gave, line ends as \\n"


def app_token(app_id: str, private_key: str, now: datetime) -> str:
    """The JWT that proves to GitHub that we hold the App's key."""
    claims = {"iat": int((now - _SKEW).timestamp()), "exp": int((now + LASTS).timestamp()), "iss": app_id}
    signed = b".".join(_encode(json.dumps(part).encode()) for part in ({"alg": "RS256", "typ": "JWT"}, claims))
    return (signed + b"." + _encode(_sign(signed, *_numbers(private_key)))).decode()


def _encode(content: bytes) -> bytes:
    return urlsafe_b64encode(content).rstrip(b"=")


def _sign(content: bytes, modulus: int, exponent: int) -> bytes:
    size = (modulus.bit_length() + 7) // 8
    digest = _DIGEST_INFO + sha256(content).digest()
    padded = b"\x00\x01" + b"\xff" * (size - len(digest) - 3) + b"\x00" + digest
    return pow(int.from_bytes(padded, "big"), exponent, modulus).to_bytes(size, "big")


def _numbers(pem: str) -> tuple[int, int]:
    """Modulus and private exponent, of PKCS#1 (as GitHub gives it) or PKCS#8."""
    lines = [line for line in pem.replace("\\n", "\n").splitlines() if line and not line.startswith("-----")]
    try:
        ((_, key),) = _parts(b64decode("".join(lines), validate=True))
        fields = list(_parts(key))
        inner = next((content for tag, content in fields if tag == _OCTETS), None)
        if inner is not None:
            ((_, key),) = _parts(inner)
            fields = list(_parts(key))
    except (Base64Error, ValueError, IndexError):
        raise MisconfiguredError(_NOT_A_KEY) from None
    numbers = [int.from_bytes(content) for tag, content in fields if tag == _INTEGER]
    if len(numbers) < _PKCS1_NUMBERS:
        raise MisconfiguredError(_NOT_A_KEY)
    return numbers[1], numbers[3]


def _parts(der: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and content of each element."""
    at = 0
    while at < len(der):
        tag, length, at = der[at], der[at + 1], at + 2
        if length & 0x80:
            size = length & 0x7F
            length, at = int.from_bytes(der[at : at + size], "big"), at + size
        if at + length > len(der) or tag not in (_INTEGER, _OCTETS, _SEQUENCE):
            raise ValueError("not DER")
        yield tag, der[at : at + length]
        at += length


SERVICE = "GitHub"
_AT_ONCE = 8
_PAGE = 100
_MOST_PAGES = 10
_MOST_CACHED = 2000  # answers that are kept for their ETag
_FIELDS = (
    "id",
    "name",
    "url",
    "status",
    "labels",
    "runner_name",
    "busy",
)  # of runs, jobs and runners: the rest is large
_RENEW_BEFORE = timedelta(minutes=5)
_PAUSE_SECONDS = 60  # GitHub's advice where a limit does not say when it ends
_LONGEST_PAUSE = 3600  # seconds: GitHub renews its limits each hour
_HEADERS = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28", "User-Agent": "node-fleet"}
_RUN_STATES = ("queued", "in_progress")
_STATES = {"queued": frozenset({"queued"}), "running": frozenset({"in_progress"}), "all": frozenset(_RUN_STATES)}


@dataclass(frozen=True, slots=True)
class _CachedAnswer:
    etag: str
    document: Any
    next_page: str


@dataclass(slots=True)
class _Account:
    """What is known of one login between iterations."""

    token: str = ""
    token_until: datetime = datetime.min.replace(tzinfo=UTC)
    asks_again_at: float = 0.0  # epoch seconds, by GitHub's clock: the rate limit is used up until then
    answers: dict[str, _CachedAnswer] = field(default_factory=dict)  # by URL
    offline_since: dict[tuple[str, int], datetime] = field(default_factory=dict)  # by repository and runner
    lock: Lock = field(default_factory=Lock)


class _GithubError(Exception):
    """The reading is Missing, and why."""


class GithubJobs:
    def __init__(
        self,
        logins: SourceLogins,
        *,
        warn: Callable[[str], None],
        may_change: bool = False,
        threads: Threads | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`may_change`: offline runners may be deleted where the policy asks for it. `clock`: epoch seconds."""
        self._logins = logins
        self._warn = warn
        self._may_change = may_change
        self._threads = threads or Threads(_AT_ONCE)
        self._clock = clock
        self._accounts: dict[tuple[str, str], _Account] = {}  # by API and secret

    def calls(self, entries: Sequence[Github], moment: Moment) -> Iterator[SourceCall]:
        for entry in entries:
            yield SourceCall(SERVICE, (entry,), partial(self._read, entry, moment))

    def _read(self, entry: Github, moment: Moment) -> list[Sample]:
        account = self._accounts.setdefault((entry.api, entry.secret), _Account())
        client = _Client(entry, account, self._logins, moment, self._clock)
        try:
            jobs = self._jobs(entry, client, moment)
            if entry.remove_offline_after and self._may_change and moment.may_change:
                self._remove_offline(entry, client, moment)
        except (_GithubError, http.UnusableError, NodeFleetError) as problem:
            return [Missing(str(problem))]
        return [Reading(float(sum(_counts(entry, job) for job in jobs)), moment.now)]

    def _jobs(self, entry: Github, client: "_Client", moment: Moment) -> list[Mapping[str, Any]]:
        listed = [
            partial(
                client.list_all, f"/repos/{repository}/actions/runs?status={state}&per_page={_PAGE}", "workflow_runs"
            )
            for repository in entry.repositories
            for state in _RUN_STATES
        ]
        # A run may leave one list and enter the other between the two requests: it counts once.
        runs = {run.get("id"): run for found in self._all(listed, moment) for run in found}
        paths = [f"{_path(run)}/jobs?filter=latest&per_page={_PAGE}" for run in runs.values()]
        found = self._all([partial(client.list_all, path, "jobs") for path in paths], moment)
        client.forget_others()
        return [job for jobs in found for job in jobs]

    def _all(
        self, calls: Sequence[Callable[[], list[Mapping[str, Any]]]], moment: Moment
    ) -> list[list[Mapping[str, Any]]]:
        results = self._threads.within(moment.left, calls)
        for result in results:
            if isinstance(result, Exception):
                raise result
        return cast("list[list[Mapping[str, Any]]]", results)

    def _remove_offline(self, entry: Github, client: "_Client", moment: Moment) -> None:
        """A failure is only a warning: the reading is good, and the next iteration tries again."""
        try:
            for repository in entry.repositories:
                for runner in client.list_all(f"/repos/{repository}/actions/runners?per_page={_PAGE}", "runners"):
                    if client.has_been_offline(repository, runner, entry, moment.now):
                        client.delete(f"/repos/{repository}/actions/runners/{runner['id']}")
                        self._warn(f"GitHub runner {runner['name']} of {repository} was offline and is removed")
        except (_GithubError, http.UnusableError, NodeFleetError, TimeoutError) as problem:
            self._warn(f"offline GitHub runners are not removed: {str(problem) or 'no time left'}")


def _counts(entry: Github, job: Mapping[str, Any]) -> bool:
    status = job.get("status")
    if status not in _STATES[entry.counts]:
        return False
    if status == "in_progress" and entry.runner_prefix:
        return str(job.get("runner_name") or "").startswith(entry.runner_prefix)
    asked = {str(label).lower() for label in job.get("labels") or ()}
    return bool(asked) and asked <= {label.lower() for label in entry.labels}


def _path(run: Mapping[str, Any]) -> str:
    """Of a run, below the API's own path: /repos/owner/name/actions/runs/1."""
    _, found, rest = urlsplit(str(run.get("url", ""))).path.partition("/repos/")
    if not found:
        raise _GithubError("GitHub's answer has a run without an address")
    return found + rest


class _Client:
    """Requests of one iteration with one login."""

    def __init__(
        self, entry: Github, account: _Account, logins: SourceLogins, moment: Moment, clock: Callable[[], float]
    ) -> None:
        self._api = entry.api.rstrip("/")
        self._secret = entry.secret
        self._account = account
        self._logins = logins
        self._moment = moment
        self._clock = clock
        self._used: set[str] = set()

    def list_all(self, path: str, key: str) -> list[Mapping[str, Any]]:
        """All pages of a list. More pages than that are no count that a pool could be sized by."""
        url, found = self._api + path, list[Mapping[str, Any]]()
        for _ in range(_MOST_PAGES):
            document, url = self._get(url)
            entries = document.get(key)
            if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
                raise _GithubError(f"GitHub's answer has no list {key}: is this the address of its API?")
            found += entries
            if not url:
                return found
        raise _GithubError(f"GitHub lists more than {_MOST_PAGES * _PAGE} entries at {path.partition('?')[0]}")

    def delete(self, path: str) -> None:
        answer = self._send(http.HttpRequest(service=SERVICE, method="DELETE", url=self._api + path, headers=_HEADERS))
        if answer.status not in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_FOUND):
            raise _GithubError(f"GitHub answered HTTP {answer.status} to the removal of a runner")

    def has_been_offline(self, repository: str, runner: Mapping[str, Any], entry: Github, now: datetime) -> bool:
        """Seen offline and idle in two iterations that are far enough apart, and in none between."""
        number = runner.get("id")
        if not isinstance(number, int):
            raise _GithubError("GitHub's answer has a runner without an id")
        key = (repository, number)
        ours = bool(entry.runner_prefix) and str(runner.get("name", "")).startswith(entry.runner_prefix or "")
        if not ours:
            return False  # another entry with this login may count its time
        if runner.get("status") != "offline" or runner.get("busy"):
            self._account.offline_since.pop(key, None)
            return False
        since = self._account.offline_since.setdefault(key, now)
        return entry.remove_offline_after is not None and now - since >= entry.remove_offline_after

    def forget_others(self) -> None:
        """Answers that this iteration did not ask for belong to runs that are over."""
        answers = self._account.answers
        if len(answers) > _MOST_CACHED:
            for url in [each for each in answers if each not in self._used]:
                del answers[url]

    def _get(self, url: str) -> tuple[Mapping[str, Any], str]:
        """The document, and the URL of the next page."""
        self._used.add(url)
        known = self._account.answers.get(url)
        headers = {**_HEADERS, http.IF_NONE_MATCH: known.etag} if known else _HEADERS
        answer = self._send(http.HttpRequest(service=SERVICE, url=url, headers=headers))
        if answer.status == HTTPStatus.NOT_MODIFIED and known:
            return known.document, known.next_page
        if answer.status == HTTPStatus.NOT_FOUND:
            raise _GithubError(
                f"GitHub has no {urlsplit(url).path}, or does not show it to us: check the repository's name, and that "
                "the token may read Actions"
            )
        if answer.status != HTTPStatus.OK:
            raise _GithubError(
                f"GitHub answered HTTP {answer.status}: {http.excerpt(answer.body.decode(errors='replace'))}"
            )
        try:
            document = _trim(msgspec.json.decode(answer.body, type=dict[str, Any]))
        except msgspec.DecodeError as problem:
            raise _GithubError(f"GitHub's answer cannot be read: {problem}") from problem
        following = _next_page(answer.headers.get("link", ""), self._api)
        if etag := answer.headers.get("etag"):
            self._account.answers[url] = _CachedAnswer(etag, document, following)
        return document, following

    def _send(self, request: http.HttpRequest) -> http.HttpAnswer:
        self._refuse_until_renewed()
        answer = self._send_logged_in(request)
        if answer.status == HTTPStatus.UNAUTHORIZED:
            self._account.token = ""
            self._logins.refresh(self._secret)
            answer = self._send_logged_in(request)
        if answer.status == HTTPStatus.UNAUTHORIZED:
            raise _GithubError(f"GitHub refuses the login (HTTP 401): check what secret sources/{self._secret} holds")
        self._note_limit(answer)
        return answer

    def _send_logged_in(self, request: http.HttpRequest) -> http.HttpAnswer:
        login = self._logins.login(self._secret, GithubLogin)
        authorization = f"Bearer {self._token(login)}"
        return http.send(replace(request, authorization=authorization, ca=login.ca), self._moment.deadline)

    def _note_limit(self, answer: http.HttpAnswer, advice: str = "let this login read Actions and metadata") -> None:
        refused = answer.status in (HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS)
        wait, left = answer.headers.get("retry-after", ""), answer.headers.get("x-ratelimit-remaining", "")
        reset = answer.headers.get("x-ratelimit-reset", "")
        latest = self._clock() + _LONGEST_PAUSE
        if refused and wait.isdecimal():
            self._account.asks_again_at = min(self._clock() + float(wait), latest)
        elif left == "0" and reset.isdecimal():
            self._account.asks_again_at = min(float(reset), latest)
        elif answer.status == HTTPStatus.TOO_MANY_REQUESTS or (refused and b"rate limit" in answer.body):
            self._account.asks_again_at = self._clock() + _PAUSE_SECONDS
        if refused:
            self._refuse_until_renewed()
            raise _GithubError(f"GitHub forbids it (HTTP {answer.status}): {advice}")

    def _refuse_until_renewed(self) -> None:
        if self._clock() < self._account.asks_again_at:
            until = datetime.fromtimestamp(self._account.asks_again_at, UTC)
            raise _GithubError(f"GitHub's rate limit is used up until {until:%H:%M:%S} UTC: nothing is asked before")

    def _token(self, login: GithubLogin) -> str:
        if login.token:
            return login.token
        account = self._account
        with account.lock:  # requests of several threads get one token
            if not account.token or self._moment.now >= account.token_until - _RENEW_BEFORE:
                account.token, account.token_until = self._installation_token(login)
            return account.token

    def _installation_token(self, login: GithubLogin) -> tuple[str, datetime]:
        proof = app_token(login.app_id, login.private_key, datetime.fromtimestamp(self._clock(), UTC))
        request = http.HttpRequest(
            service=SERVICE,
            method="POST",
            url=f"{self._api}/app/installations/{login.installation_id}/access_tokens",
            headers=_HEADERS,
            authorization=f"Bearer {proof}",
            ca=login.ca,
        )
        answer = http.send(request, self._moment.deadline)
        self._note_limit(answer, "check that the App is not suspended")
        if answer.status != HTTPStatus.CREATED:
            raise _GithubError(
                f"GitHub gives the App no token (HTTP {answer.status}): check app_id, installation_id and private_key "
                f"in secret sources/{self._secret}"
            )
        document = msgspec.json.decode(answer.body, type=dict[str, Any])
        return str(document["token"]), datetime.fromisoformat(str(document["expires_at"]))


def _trim(document: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Its lists, with what is needed of each entry."""
    return {
        key: [
            {name: each[name] for name in _FIELDS if name in each} if isinstance(each, dict) else each for each in held
        ]
        for key, held in document.items()
        if isinstance(held, list)
    }


def _next_page(link: str, api: str) -> str:
    """Of a Link header. Another host would get our token, and the first page alone is no count."""
    for part in link.split(","):
        url, _, relation = part.partition(";")
        if 'rel="next"' in relation:
            found = url.strip().strip("<>")
            if not found.startswith(f"{api}/"):
                raise _GithubError(f"GitHub's next page is not below {api}: give the address that its own links have")
            return found
    return ""

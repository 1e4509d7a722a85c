"""Where readings come from: the entry of each source in a policy, the forms of its texts, and the server it names.

A new source touches four files: its entry here, its adapter in `adapters/sources/`, its line in `read.py` there, and
an example in `docs/policy.md`. The schema (`make schema`) follows from the entry. Logins and ports of the deployment
follow from `secret` and from the address that the entry names (`server_of`); a test names what is missing. A service of
AWS also needs its permission in `infra/`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import Literal, TypeAlias

from nodefleet.model.serialization import IssueCode
from nodefleet.policy.fields import SECONDS, describe, setting


class WhenMissing(Enum):
    """What a reading counts as while its source answers and has no data: often that is the idle state, not a fault.

    A source that cannot be asked is another matter: that always forbids to shrink.
    """

    VETO = "veto"  # no shrinking until there is data
    ZERO = "zero"  # nothing waits, fails or is asked for
    LAST = "last"  # the last value that there was, however old; a rule that has a minimum begins with that
    IGNORE = "ignore"  # the rule does without it, or has no say


def _when_missing() -> WhenMissing | None:
    why = "veto, zero, last or ignore while the source has no data; none takes what fits the rule"
    return setting(None, "", why)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prometheus:
    """One number by PromQL."""

    query: str = field(metadata=describe("PromQL that gives one number"))
    when_missing: WhenMissing | None = _when_missing()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sqs:
    """An attribute of an SQS queue."""

    queue_url: str = field(metadata=describe("https://sqs.<region>.amazonaws.com/<account>/<queue>"))
    attribute: str = setting("ApproximateNumberOfMessages", "", "the messages that wait")
    when_missing: WhenMissing | None = _when_missing()


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudWatch:
    """The last full period of a CloudWatch metric."""

    namespace: str = field(metadata=describe("AWS/ApplicationELB, for example"))
    metric: str = field(metadata=describe("TargetResponseTime, for example"))
    dimensions: Mapping[str, str] = field(default_factory=dict, metadata=describe("all that the metric has, by name"))
    statistic: str = setting("Average", "", "or Sum, Maximum, p95, …")
    period: timedelta = setting(timedelta(seconds=60), SECONDS, "the shortest that standard metrics have", above=0)
    when_missing: WhenMissing | None = _when_missing()


_KEPT_IN = "Secrets Manager: <prefix>/<cluster>/sources/<this name>, which holds "
_AUTHORITY = ', and "ca" (PEM) if a certificate authority of your own signed the server'


@dataclass(frozen=True, slots=True, kw_only=True)
class Redis:
    """The length of a Redis list, stream, sorted set, set or hash. A key that does not exist is no data."""

    address: str = field(metadata=describe("redis://host:6379/0, or rediss://host:6379/0 with TLS"))
    key: str = field(metadata=describe("the key; its type decides what is counted"))
    group: str | None = setting(
        None, "", "of a stream: count what this consumer group has not acknowledged or read yet, not all entries"
    )
    secret: str | None = setting(None, "", _KEPT_IN + 'the login: {"password": "…"}, and "username", "ca" if needed')
    when_missing: WhenMissing | None = _when_missing()


@dataclass(frozen=True, slots=True, kw_only=True)
class Celery:
    """Tasks of Celery queues on a Redis broker. For a RabbitMQ broker read its queues with `kind: rabbitmq`."""

    address: str = field(metadata=describe("the broker: redis://host:6379/0, or rediss://host:6379/0 with TLS"))
    queues: tuple[str, ...] = setting(("celery",), "", "Celery's queues; those of each priority are included")
    counts: Literal["waiting", "reserved", "all"] = setting(
        "all",
        "",
        "waiting in these queues, reserved by workers (of all queues of this broker's database), or both: with both, "
        "a pool does not shrink while tasks run",
    )
    secret: str | None = setting(None, "", _KEPT_IN + 'the login: {"password": "…"}, and "username", "ca" if needed')
    when_missing: WhenMissing | None = _when_missing()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rabbitmq:
    """Messages of a RabbitMQ queue, by the management API."""

    url: str = field(metadata=describe("of the management API: https://rabbit.internal:15671"))
    queue: str = field(metadata=describe("its name"))
    vhost: str = setting("/", "", "its virtual host")
    counts: Literal["ready", "unacked", "all"] = setting(
        "all", "", "messages that wait, that consumers hold, or both: with both, a pool does not shrink while they work"
    )
    secret: str | None = setting(None, "", _KEPT_IN + 'the login: {"username": "…", "password": "…"}' + _AUTHORITY)
    when_missing: WhenMissing | None = _when_missing()


@dataclass(frozen=True, slots=True, kw_only=True)
class Github:
    """Jobs of GitHub Actions that wait for, or run on, self-hosted runners."""

    repositories: tuple[str, ...] = field(metadata=describe("owner/name of each"))
    labels: tuple[str, ...] = setting(
        ("self-hosted",), "", "of your runners: a queued job counts if they have all labels that it asks for"
    )
    runner_prefix: str | None = setting(
        None, "", "a running job counts if its runner's name begins so; none: by its labels"
    )
    counts: Literal["queued", "running", "all"] = setting("all", "", "as the job-demand rule needs it: both")
    api: str = setting("https://api.github.com", "", "of GitHub Enterprise: https://host/api/v3")
    secret: str = field(
        metadata=describe(
            _KEPT_IN
            + '{"token": "…"}, or {"app_id": "…", "installation_id": "…", "private_key": "…"} of a GitHub App'
            + _AUTHORITY
        )
    )
    remove_offline_after: timedelta | None = setting(
        None,
        SECONDS,
        "delete idle runners named by runner_prefix that have been offline so long: they crashed without deregistering",
        at_least=60,
    )
    when_missing: WhenMissing | None = _when_missing()


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpJson:
    """A number in a JSON document that an HTTP server gives. `null` there is no data."""

    url: str = field(metadata=describe("http:// or https://, answers GET with JSON"))
    value: str = field(metadata=describe("JSON pointer to the number: /queues/0/length"))
    secret: str | None = setting(
        None, "", _KEPT_IN + 'the login: {"token": "…"} or {"username": "…", "password": "…"}' + _AUTHORITY
    )
    when_missing: WhenMissing | None = _when_missing()


Source: TypeAlias = Prometheus | Sqs | CloudWatch | Redis | Celery | Rabbitmq | Github | HttpJson


# ── servers ──────────────────────────────────────────────────────────────────────────────────────────────────────────


DEFAULT_PORTS: Mapping[str, int] = {"http": 80, "https": 443, "redis": 6379, "rediss": 6379}  # by scheme


def when_missing(field: str, source: Source | None) -> WhenMissing:
    """What a reading counts as when its source has no data: what the policy says of it, else what fits the rule's
    field. A queue, a rate or a latency without data is an idle one; the mean time of a job is best guessed by the last
    one; and a rule can do without a peak or a pattern of its own."""
    if source is not None and source.when_missing is not None:
        return source.when_missing
    return _FITTING.get(field, WhenMissing.ZERO)


_FITTING: Mapping[str, WhenMissing] = {
    "job_seconds": WhenMissing.LAST,
    "peak": WhenMissing.IGNORE,
    "multiplier": WhenMissing.IGNORE,
}


def server_of(source: Source) -> str | None:
    """The address that an entry names; none: it is asked at AWS, or at the cluster's Prometheus."""
    return next((getattr(source, name) for name in ("address", "url", "api") if hasattr(source, name)), None)


# ── forms ────────────────────────────────────────────────────────────────────────────────────────────────────────────
# Texts of an entry with which its source could never be asked: addresses, pointers, names.


_REDIS = (
    r"rediss?://[^\s/@?#]+(/\d*)?",
    "write redis://host:6379/0, or rediss:// with TLS; a login goes into a secret",
)
_HTTP = (
    r"https?://[^\s@/?#]+([/?][^\s@#]*)?",
    "write http://host:port or https://host/path; a login goes into a secret",
)
_HTTP_ROOT = (r"https?://[^\s@/?#]+(/[^\s@?#]*)?", "write https://host:port; a login goes into a secret")
_POINTER = (r"(/([^~]|~[01])*)?", "write a JSON pointer, such as /queues/0/length")
_SECRET_NAME = (r"[A-Za-z0-9_.+=-]{1,100}", "write the last part of its name: letters, digits, _ . + = -")
_REPOSITORY = (r"[A-Za-z0-9-]+/[A-Za-z0-9._-]+", "write owner/name")

_FORMS: Mapping[type[Source], Mapping[str, tuple[str, str]]] = {
    Redis: {"address": _REDIS},
    Celery: {"address": _REDIS},
    Rabbitmq: {"url": _HTTP_ROOT},
    Github: {"api": _HTTP_ROOT},
    HttpJson: {"url": _HTTP, "value": _POINTER},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceProblem:
    keys: tuple[str | int, ...]  # below the source
    value: object
    wrong: str
    right: str
    code: IssueCode = IssueCode.INVALID
    by_interval: bool = False  # another interval, or trust.gap, would make it right


def source_problems(source: Source, longest: timedelta) -> Iterator[SourceProblem]:
    """`longest`: readings that are further apart never last."""
    if isinstance(source, CloudWatch):
        yield from _period_problems(source.period, longest)
    for name, form in _FORMS.get(type(source), {}).items():
        yield from _check_form((name,), getattr(source, name), form)
    secret = getattr(source, "secret", None)
    if secret is not None:
        yield from _check_form(("secret",), secret, _SECRET_NAME)
    for name in ("repositories", "labels", "queues"):
        if getattr(source, name, None) == ():
            yield SourceProblem(
                keys=(name,), value=[], wrong="names nothing", right="name one at least", code=IssueCode.EMPTY
            )
    if isinstance(source, Github):
        for index, repository in enumerate(source.repositories):
            yield from _check_form(("repositories", index), repository, _REPOSITORY)
        if source.remove_offline_after and not source.runner_prefix:
            yield SourceProblem(
                keys=("remove_offline_after",),
                value=source.remove_offline_after,
                wrong="removes nothing without runner_prefix",
                right="write the prefix of your runners' names: the runners of others must stay",
                code=IssueCode.WITHOUT_EFFECT,
            )


def _check_form(keys: tuple[str | int, ...], text: str, form: tuple[str, str]) -> Iterator[SourceProblem]:
    pattern, right = form
    if not re.fullmatch(pattern, text):
        # A login in an address is not repeated: problems are shown, logged and stored.
        shown = "…" if "@" in text else text
        yield SourceProblem(keys=keys, value=shown, wrong="is not of the form that is asked for", right=right)


_MINUTE = timedelta(minutes=1)
_SHORT_PERIODS = tuple(timedelta(seconds=seconds) for seconds in (1, 5, 10, 20, 30))


def _period_problems(period: timedelta, longest: timedelta) -> Iterator[SourceProblem]:
    limit = f"{longest.total_seconds():g} s"
    if period % _MINUTE and period not in _SHORT_PERIODS:
        yield SourceProblem(
            keys=("period",),
            value=period,
            wrong="is not a period that CloudWatch has",
            right="write a multiple of 60 s, or 1, 5, 10, 20 or 30 s for high-resolution metrics",
            code=IssueCode.NOT_A_CHOICE,
        )
    if period > longest:
        yield SourceProblem(
            keys=("period",),
            value=period,
            wrong=f"puts readings further apart than {limit} (trust.gap × interval): none ever lasts",
            right=f"write {limit} or less, or a longer interval",
            code=IssueCode.WITHOUT_EFFECT,
            by_interval=True,
        )

"""Texts of a demand source that could never be asked: addresses, pointers, names."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from nodefleet.model.serialization import IssueCode
from nodefleet.policy.demand import Celery, Github, HttpJson, Rabbitmq, Redis, Source

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


def source_problems(source: Source) -> Iterator[SourceProblem]:
    for field, form in _FORMS.get(type(source), {}).items():
        yield from _check_form((field,), getattr(source, field), form)
    secret = getattr(source, "secret", None)
    if secret is not None:
        yield from _check_form(("secret",), secret, _SECRET_NAME)
    for field in ("repositories", "labels", "queues"):
        if getattr(source, field, None) == ():
            yield SourceProblem(
                keys=(field,), value=[], wrong="names nothing", right="name one at least", code=IssueCode.EMPTY
            )
    if isinstance(source, Github):
        for index, name in enumerate(source.repositories):
            yield from _check_form(("repositories", index), name, _REPOSITORY)
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

"""Credentials from Secrets Manager, or from Parameter Store: a name with a slash in front is a SecureString parameter,
which costs nothing. They are cached for some minutes, so that a warm function does not fetch them in each run.

A rotated secret is found in two ways: the cached one expires, and a client whose login was refused calls `refresh`.
While the service is unavailable the expired login stays in use: it is most likely still valid, and if not, the refusal
says so.
"""

import json
import time
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from datetime import timedelta
from threading import Lock
from typing import Any, TypeVar

from botocore.exceptions import ClientError  # type: ignore[import-untyped]

from nodefleet.adapters.aws.errors import calling, code_of
from nodefleet.adapters.credentials import ApiLogin, GithubLogin, Login, MetricsLogin, RedisLogin, SlackHook
from nodefleet.errors import DeniedError, MisconfiguredError, NodeFleetError, UnavailableError

PART, PARAMETERS = "Secrets Manager", "Parameter Store"
KEPT_FOR = timedelta(minutes=5)
ASK_AGAIN_AFTER = timedelta(seconds=30)  # a wrong login must not make every query of every iteration fetch it again

L = TypeVar("L", ApiLogin, MetricsLogin, SlackHook, RedisLogin, GithubLogin)


@dataclass(frozen=True, slots=True)
class _Kept:
    login: Login
    fetched: float  # by the monotonic clock


def _keep_to_itself(*_: str) -> None:
    """No listener: secrets that were read are not reported."""


class Secrets:
    def __init__(
        self,
        client: Callable[[str], Any],
        *,
        learn: Callable[..., None] = _keep_to_itself,
        kept_for: timedelta = KEPT_FOR,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        """`client` gives boto3's client of a service ("secretsmanager", "ssm") when it is needed; `learn` receives
        every secret value, so that it can be kept out of logs."""
        self._client = client
        self._learn = learn
        self._kept_for = kept_for.total_seconds()
        self._ticks = ticks
        self._kept: dict[tuple[str, type[Login]], _Kept] = {}
        self._refused: set[str] = set()  # do not use what is kept of these
        self._lock = Lock()  # several threads that need a login at once fetch it once

    def login(self, secret: str, kind: type[L]) -> L:
        """The login that `secret` (its name or ARN) holds. MisconfiguredError or DeniedError say what to do."""
        with self._lock:
            kept = self._kept.get((secret, kind))
            login = kept.login if kept else None
            if kept and isinstance(login, kind) and secret not in self._refused and self._age(kept) < self._kept_for:
                return login
            try:
                fresh = _decode_login(secret, kind, self._text(secret))
            except UnavailableError:
                if isinstance(login, kind) and secret not in self._refused:
                    return login
                raise
            self._learn(*fresh.secrets())
            self._kept[secret, kind] = _Kept(fresh, self._ticks())
            self._refused.discard(secret)
            return fresh

    def metrics_login(
        self, secret: str, api_secret: str
    ) -> tuple[Callable[[], MetricsLogin | None], Callable[[], None]]:
        """How to log in to Prometheus, and how to say that the login was refused. Without a secret of its own its login
        stands beside the one to Kubernetes."""
        if secret:
            return lambda: self.login(secret, MetricsLogin), lambda: self.refresh(secret)
        return lambda: self.login(api_secret, ApiLogin).metrics, lambda: self.refresh(api_secret)

    def refresh(self, secret: str) -> None:
        """A login was refused: the next one is fetched again, unless it was just now."""
        with self._lock:
            kept = [each for (name, _), each in self._kept.items() if name == secret]
            if all(self._age(each) >= ASK_AGAIN_AFTER.total_seconds() for each in kept):
                self._refused.add(secret)

    def _age(self, kept: _Kept) -> float:
        return self._ticks() - kept.fetched

    def _text(self, secret: str) -> str:
        part = service_of(secret)
        with calling(part):
            try:
                text = self._parameter(secret) if part == PARAMETERS else self._secret(secret)
            except ClientError as problem:
                explained = _explain_error(part, secret, problem)
                if explained is None:
                    raise
                raise explained from problem
        if not isinstance(text, str):
            raise MisconfiguredError(f"{part}: {secret} is binary. Store it as text")
        return text

    def _secret(self, name: str) -> Any:
        return self._client("secretsmanager").get_secret_value(SecretId=name).get("SecretString")

    def _parameter(self, name: str) -> Any:
        return self._client("ssm").get_parameter(Name=name, WithDecryption=True)["Parameter"]["Value"]


def service_of(secret: str) -> str:
    """Where a secret of this name is stored."""
    return PARAMETERS if secret.startswith("/") else PART


def _explain_error(part: str, secret: str, problem: ClientError) -> NodeFleetError | None:
    """What a code means for a secret; none where `calling` says it as well."""
    match code_of(problem):
        case "ResourceNotFoundException" | "ParameterNotFound":
            return MisconfiguredError(
                f"{part}: there is no secret {secret} in this region, or it has no value yet. "
                "Create it, or correct its name in the deployment"
            )
        case "InvalidRequestException" | "InvalidParameterException":
            return MisconfiguredError(
                f"{PART}: secret {secret} cannot be read now. If it is marked for deletion, restore it"
            )
        case "DecryptionFailure":
            return DeniedError(
                PART, f"secret {secret} cannot be decrypted", "Allow kms:Decrypt on its key to the autoscaler's role"
            )
        case _:
            return None


def _decode_login(secret: str, kind: type[L], text: str) -> L:
    try:
        return _login(kind, text)
    except MisconfiguredError as problem:
        # Neither the text nor the decoder's complaint is shown: both could hold the secret.
        raise MisconfiguredError(f"{service_of(secret)}: secret {secret}: {problem}. Store {kind.SHAPE}") from None


def _login(kind: type[L], text: str) -> L:
    try:
        data = json.loads(text)
    except ValueError:
        raise MisconfiguredError("it is not JSON") from None
    if not isinstance(data, dict):
        raise MisconfiguredError("it is not a JSON object")
    known = fields(kind)
    absent = [each.name for each in known if each.default is MISSING and each.name not in data]
    if absent:
        raise MisconfiguredError(f"{' and '.join(absent)} missing")
    given = {each.name: data[each.name] for each in known if each.name in data}
    wrong = [name for name, value in given.items() if not isinstance(value, str)]
    if wrong:
        raise MisconfiguredError(f"{' and '.join(wrong)} must be text")
    # A line end after a pasted value is the most common slip, and never meant.
    return kind(**{name: value.strip("\r\n") for name, value in given.items()})

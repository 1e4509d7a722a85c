"""Which AWS calls the code makes, in whose name: noted by a hook in botocore, for as long as the tests run.

Two things are made of it. Every call that any test makes through the adapters must be granted to a role that uses the
adapter (`every_aws_call_is_granted`, for the whole suite). And the calls of whole runs are held against their role with
all that they touch (`tests/infra/test_least_privilege.py`).

Whose a call is: the handler's that is at work; for an adapter on its own, whoever uses that adapter. What tests do by
themselves (to set a scene, to look) and what an operator's command does is nobody's.
"""

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import pytest

LOOP = ("reconcile", "interruption")
ALL = (*LOOP, "notify", "report")

# Below nodefleet.adapters.aws: whose calls a module makes.
USERS: Mapping[str, Sequence[str]] = {
    "archive": LOOP,
    "dynamodb.delivery_log": ("notify",),
    "dynamodb.table": ALL,
    "ec2": LOOP,
    "instance_types": (*LOOP, "report"),
    "secrets": (*LOOP, "notify"),
    "session": LOOP,
    "sources.aws": LOOP,
}

# Only operators ask for what was archived: with rights of their own.
BY_PEOPLE = frozenset({"s3:GetObject"})

_ADAPTERS = ("nodefleet.adapters.aws.", "nodefleet.adapters.dynamodb.", "nodefleet.adapters.sources.")
_PASSED_THROUGH = (
    "botocore.",
    "boto3.",
    "contextlib",
    "functools",
    "support.dynamo_tables",
    "nodefleet.adapters.aws.errors",
)
_PEOPLE = "nodefleet_tools."


@dataclass(frozen=True)
class Call:
    service: str  # as botocore calls it
    operation: str
    parameters: Mapping[str, Any]
    role: str  # the function at work; empty: none
    adapter: str  # below nodefleet.adapters, without aws


@dataclass
class Recorder:
    calls: list[Call] = field(default_factory=list)
    at_once: list[str] = field(default_factory=list)  # the functions at work: several when a test starts many
    _noting: Any = field(default_factory=Lock)

    @property
    def role(self) -> str:
        return self.at_once[-1] if self.at_once else ""

    def __call__(self, params: Mapping[str, Any], model: Any, **_: Any) -> None:
        adapter = _adapter()
        if adapter:
            call = Call(model.service_model.service_name, model.name, dict(params), self.role, adapter)
            with self._noting:
                self.calls.append(call)

    @contextmanager
    def at_work(self, role: str) -> Iterator[None]:
        with self._noting:
            self.at_once.append(role)
        try:
            yield
        finally:
            with self._noting:
                self.at_once.remove(role)

    def take(self) -> list[Call]:
        """The calls since it was last asked."""
        with self._noting:
            taken, self.calls = self.calls, []
        return taken


def _adapter() -> str:
    """The adapter that makes the call under way; empty if a test makes it, or an operator's command."""
    adapter, frame = "", sys._getframe(2)
    while frame:
        module = frame.f_globals.get("__name__", "")
        if module.startswith(_PEOPLE):
            return ""
        if not adapter and not module.startswith(_PASSED_THROUGH):
            if not module.startswith(_ADAPTERS):
                return ""
            adapter = module.removeprefix("nodefleet.adapters.").removeprefix("aws.")
        frame = frame.f_back  # type: ignore[assignment]
    return adapter


# ── for the whole suite ──────────────────────────────────────────────────────────────────────────────────────────

_RECORDER = Recorder()
_HOOK = ("provide-client-params", _RECORDER)


@pytest.fixture(scope="session", autouse=True)
def aws_calls() -> Iterator[Recorder]:
    """Notes from now on: clients that were made before are not heard."""
    from botocore.handlers import BUILTIN_HANDLERS  # noqa: PLC0415  # most test runs need none of this

    if _HOOK in BUILTIN_HANDLERS:  # somebody listens already, for the whole suite
        yield _RECORDER
        return
    BUILTIN_HANDLERS.append(_HOOK)
    with pytest.MonkeyPatch.context() as patch:
        for role in ALL:
            module = importlib.import_module(f"nodefleet.handlers.{role}")
            patch.setattr(module, "handler", _as_role(role, module.handler))
        yield _RECORDER
    BUILTIN_HANDLERS.remove(_HOOK)


@pytest.fixture(autouse=True)
def every_aws_call_is_granted(aws_calls: Recorder) -> Iterator[None]:
    """To whoever makes it. By action alone: names in a test are its own."""
    aws_calls.take()
    yield
    problems = {problem for call in aws_calls.take() for problem in ungranted(call)}
    assert not problems, f"no role may do this: {sorted(problems)}"


def ungranted(call: Call) -> set[str]:
    """What of a call nobody may do who could make it."""
    from support.iam_requests import actions_of  # noqa: PLC0415  # loads Pulumi
    from support.iam_samples import granted_to  # noqa: PLC0415

    if not call.role and call.adapter not in USERS:
        return {f"nobody is known to use the adapter {call.adapter}: add it to USERS in tests/support/aws_calls.py"}
    roles = (call.role,) if call.role else USERS[call.adapter]
    needed = actions_of(call.service, call.operation, call.parameters) - BY_PEOPLE
    lacking = [needed - granted_to(role) - granted_to(role, with_lean=True) for role in roles]
    return {f"{action} ({'/'.join(roles)}, {call.adapter})" for action in min(lacking, key=len)}


def _as_role(role: str, handler: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def noted(event: Any, context: Any) -> Any:
        with _RECORDER.at_work(role):
            return handler(event, context)

    return noted

"""All checks at once. Each is given the same time, and what they found is told in their order, as soon as it can be."""

import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TypeAlias

from nodefleet_tools.doctor.findings import Check, Checked, Finding, failure, hint

LIMIT = timedelta(seconds=30)

_Answer: TypeAlias = SimpleQueue[tuple[Finding, ...]]


def examine(checks: Sequence[Check], limit: timedelta = LIMIT) -> Iterator[Checked]:
    """Whatever a check does, the others go on. One that takes too long is not waited for."""
    deadline = time.monotonic() + limit.total_seconds()
    answers = [_begun(check) for check in checks]
    for check, answer in zip(checks, answers, strict=True):
        try:
            findings = answer.get(timeout=max(0.0, deadline - time.monotonic()))
        except Empty:
            late = TimeoutError(f"no answer within {limit.total_seconds():g} s")
            findings = (failure(check, late),)
        yield Checked(name=check.name, findings=findings)


def _begun(check: Check) -> _Answer:
    answer: _Answer = SimpleQueue()
    Thread(target=lambda: answer.put(_made(check)), name=check.name, daemon=True).start()
    return answer


def _made(check: Check) -> tuple[Finding, ...]:
    """What was found before a check failed counts too."""
    findings: list[Finding] = []
    try:
        findings.extend(check.look())
    except Exception as problem:  # noqa: BLE001  # a broken check is a finding like any other
        findings.append(failure(check, problem))
    return tuple(findings) or (hint("there was nothing to check"),)

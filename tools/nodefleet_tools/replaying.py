"""A recorded decision, asked again: its question from the archive, decided with the code at hand."""

import json
import zlib
from dataclasses import replace
from pathlib import Path

from nodefleet.engine.decide import decide
from nodefleet.errors import ChangedError
from nodefleet.model.decision import Decision, DecisionRecord
from nodefleet.model.serialization import Plain, ValidationError, to_plain
from nodefleet.policy.cluster import Policy
from nodefleet.policy.loading import active_windows, utc_offset
from nodefleet.ports import Archive
from nodefleet.reconcile.audit import DecisionInput, outcome, read_input, unpack_input
from nodefleet_tools.audit import NOT_KEPT

GZIP = b"\x1f\x8b"


class NotReplayableError(Exception):
    """It cannot be asked again, and why."""


def question_of(record: DecisionRecord, archive: Archive) -> DecisionInput:
    if not record.archived:
        raise NotReplayableError(NOT_KEPT)
    try:
        content = archive.fetch(record.archived)
    except ChangedError as error:
        raise NotReplayableError(f"the archive has forgotten it: {error}") from error
    return question_in(content)


def question_in(content: bytes) -> DecisionInput:
    """The question as the archive keeps it, or as plain JSON."""
    try:
        if content.startswith(GZIP):
            return unpack_input(content)
        return read_input(json.loads(content))
    except ValidationError as error:
        first = error.problems[0]
        unclear = f"{first.path} {first.wrong}"
        raise NotReplayableError(
            f"this version does not understand what was archived ({unclear}): use the one that wrote it"
        ) from error
    except (ValueError, EOFError, OSError, zlib.error) as error:
        raise NotReplayableError(f"what was archived is broken: {error}") from error


def decided(question: DecisionInput) -> Decision:
    return decide(question.observation, question.memory, question.policy)


def by_another(question: DecisionInput, policy: Policy) -> DecisionInput:
    """The same iteration and memory under another policy: its own windows and time zone hold then."""
    seen = question.observation
    fitting = replace(seen, windows=active_windows(policy, seen.at), utc_offset=utc_offset(policy, seen.at))
    return DecisionInput(observation=fitting, memory=question.memory, policy=policy)


def is_same(record: DecisionRecord, again: Decision) -> bool:
    return outcome(again) == record.outcome


def save_question(question: DecisionInput, file: Path) -> Path:
    """As `nodefleet decide` takes it: the iteration with its memory, and the policy in a file beside it, which is
    named."""
    policy = file.with_name(f"{file.stem}.policy.json")
    asked = {"observation": to_plain(question.observation), "memory": to_plain(question.memory)}
    file.write_text(_json(asked), encoding="utf-8")
    policy.write_text(_json(to_plain(question.policy, full=True)), encoding="utf-8")
    return policy


def _json(plain: Plain) -> str:
    return json.dumps(plain, indent=2, ensure_ascii=False) + "\n"

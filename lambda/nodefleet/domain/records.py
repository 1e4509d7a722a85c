"""What is kept in the table beside the working state: policy versions and the audit of decisions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from nodefleet.domain.actions import ExecutedAction
from nodefleet.domain.decision import Decision
from nodefleet.domain.memory import Memory
from nodefleet.domain.observation import Observation
from nodefleet.domain.policy import Policy

STACK = "stack"  # the source of a policy that the deployment declares
BUILT_IN = "built-in defaults"  # … of the one that begins an empty cluster for which nobody wrote any


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyVersion:
    """A policy as somebody wrote it."""

    number: int  # 1, 2, …; 0: the stack declared it and it has not been taken up yet
    source: str  # "stack" or who applied it
    at: datetime
    data: Any  # plain, as a policy file holds it
    digest: str  # of the data


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """All that a decision rests on: asked again, it is decided the same."""

    observation: Observation
    memory: Memory
    policy: Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRecord:
    """One look's decision, small enough to be kept for each. With the archived question it replays."""

    id: str  # sorts by time
    at: datetime
    cluster: str
    fence: int
    policy: int  # version number
    archived: str = ""  # where the question is kept; empty: nothing came of it, and `figures` are all there is
    decision: Decision  # without its memory; shortened when it is long, which `cut` says
    cut: bool = False
    outcome: str = ""  # digest of the whole decision: a replay must give the same
    did: tuple[str, ...] = ()  # what was done in this look, a sentence each, for people
    actions: tuple[ExecutedAction, ...] = ()  # the same as records; none of before they were kept
    figures: Mapping[str, float] = field(default_factory=dict)
    dry: bool = False

"""Which policy is in force. One that does not validate changes nothing but that people are told, once."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from nodefleet.domain.events import EventKind
from nodefleet.domain.journal import Journal
from nodefleet.domain.policy import Policy
from nodefleet.domain.problems import RefusedError
from nodefleet.domain.records import STACK, PolicyVersion
from nodefleet.errors import MisconfiguredError
from nodefleet.ports import History, Policies, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Governing:
    policy: Policy
    version: int  # 0: nobody has written one, the defaults hold
    adopted: PolicyVersion | None = None  # a declared policy that is taken up now
    refused: PolicyVersion | None = None  # one that is not
    news: tuple[tuple[EventKind, str], ...] = ()


def governing(state: State, policies: Policies, history: History, now: datetime) -> Governing:
    """The declared policy if it is new and good, else the version in force, else the last one that still is good."""
    declared = state.declared
    refused = None
    news: list[tuple[EventKind, str]] = []
    if declared and _is_new(declared, state.journal):
        number = state.policy.number + 1 if state.policy else 1
        try:
            policy = policies.read(declared.data)
        except RefusedError as error:
            refused = declared
            news.append((EventKind.POLICY_REFUSED, _refusal("the policy that the stack declares", error)))
        else:
            version = PolicyVersion(number=number, source=STACK, at=now, data=declared.data, digest=declared.digest)
            text = f"Policy version {number}, declared by the stack, is in force."
            return Governing(policy=policy, version=number, adopted=version, news=((EventKind.POLICY_CHANGED, text),))
    for version in _candidates(state, history):
        try:
            policy = policies.read(version.data)
        except RefusedError as error:
            news.append((EventKind.POLICY_REFUSED, _refusal(f"policy version {version.number}", error)))
            continue
        return Governing(policy=policy, version=version.number, refused=refused, news=tuple(news))
    if state.policy:
        raise MisconfiguredError(
            "no policy version in the table is valid any more: check one with `nodefleet policy check FILE`"
            " and put it in force with `nodefleet policy apply FILE`"
        )
    return Governing(policy=Policy(), version=0, refused=refused, news=tuple(news))


def _is_new(declared: PolicyVersion, journal: Journal) -> bool:
    return declared.digest not in (journal.adopted_policy, journal.refused_policy)


def _candidates(state: State, history: History) -> Iterator[PolicyVersion]:
    """The one in force; earlier ones are only fetched when it is not good."""
    if state.policy is None:
        return
    yield state.policy
    yield from (version for version in history.policies() if version.number < state.policy.number)


def _refusal(what: str, error: RefusedError) -> str:
    first, *others = error.problems
    more = f" (and {len(others)} more)" if others else ""
    return (
        f"Refused: {what}. {first.path} {first.wrong}: {first.right}{more}."
        " The last good policy stays in force. Check the file with `nodefleet policy check`."
    )

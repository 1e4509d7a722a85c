"""Resolution of the active policy.

A declared policy that fails validation is ignored, with one alert. If this release refuses the policy in force, or
that policy is lost, the fleet is held: no node is removed, lost nodes are replaced and min is kept, as far as the
policy can still be read. An earlier version does not take its place, because it was written for another fleet.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import BUILT_IN, STACK, PolicyVersion
from nodefleet.model.readings import Missing
from nodefleet.model.serialization import ValidationError
from nodefleet.model.snapshot import Observation
from nodefleet.model.state import LoopState
from nodefleet.policy.cluster import Policy
from nodefleet.ports import Policies, State

_NOT_RECORDED = "none"
_APPLY = "Check a file with `nodefleet policy check FILE` and put it in force with `nodefleet policy apply FILE`."


@dataclass(frozen=True, slots=True)
class PolicyNews:
    """An alert about the policy. It is sent once for each subject."""

    kind: AlertKind
    subject: str  # a version number, or the digest of the declared policy
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivePolicy:
    policy: Policy
    version: int  # 0: none is recorded
    adopted: PolicyVersion | None = None  # the declared or built-in policy that comes into force now
    refused: PolicyVersion | None = None  # the declared policy, if it fails validation
    hold: str = ""  # why the fleet is held; empty: it is not held
    news: tuple[PolicyNews, ...] = ()


def resolve_policy(state: State, policies: Policies, now: datetime) -> ActivePolicy:
    """The declared policy if it is new and valid; otherwise the version in force, with a hold if it is invalid.

    If no policy is recorded, `with_fleet` decides whether the built-in defaults apply.
    """
    declared, refused = state.declared, None
    news: list[PolicyNews] = []
    if declared and _is_new(declared, state.journal):
        number = state.policy.number + 1 if state.policy else 1
        try:
            policy = policies.read(declared.data)
        except ValidationError as error:
            refused = declared
            text = f"Refused: the policy that the stack declares. {_first(error)} {_stays(state)}"
            news.append(PolicyNews(AlertKind.POLICY_REFUSED, declared.digest, text))
        else:
            version = PolicyVersion(number=number, source=STACK, at=now, data=declared.data, digest=declared.digest)
            text = f"Policy version {number}, declared by the stack, is in force."
            changed = PolicyNews(AlertKind.POLICY_CHANGED, str(number), text)
            return ActivePolicy(policy=policy, version=number, adopted=version, news=(changed,))
    if state.policy is None:
        return ActivePolicy(policy=Policy(), version=0, refused=refused, news=tuple(news))
    number = state.policy.number
    try:
        policy = policies.read(state.policy.data)
    except ValidationError as error:
        hold = f"this release refuses policy version {number}, which is in force"
        text = f"The fleet is held: {hold}. {_first(error)} Nothing is removed and nothing grows beyond min. {_APPLY}"
        alert = PolicyNews(AlertKind.POLICY_UNUSABLE, str(number), text)
        salvaged = policies.salvage(state.policy.data)
        return ActivePolicy(policy=salvaged, version=number, refused=refused, hold=hold, news=(*news, alert))
    return ActivePolicy(policy=policy, version=number, refused=refused, news=tuple(news))


def with_fleet(rules: ActivePolicy, state: State, observation: Observation, now: datetime) -> ActivePolicy:
    """Without a recorded policy, an empty cluster starts with the built-in defaults as version 1. An existing fleet was
    built for a policy that is lost, so it is held."""
    if state.policy is not None or rules.adopted:
        return rules
    exists = isinstance(observation.instances, Missing) or any(instance.worker for instance in observation.instances)
    if not (exists or state.declared):
        version = PolicyVersion(number=1, source=BUILT_IN, at=now, data={}, digest="built-in")
        text = "No policy is declared or applied: the built-in defaults are in force as policy version 1."
        return replace(
            rules,
            version=1,
            adopted=version,
            news=(*rules.news, PolicyNews(AlertKind.POLICY_CHANGED, str(version.number), text)),
        )
    hold = "no policy is recorded" + ("" if state.declared is None else ", and the declared one is refused")
    text = f"The fleet is held: {hold}. Nothing is launched or removed. {_APPLY}"
    alert = PolicyNews(AlertKind.POLICY_UNUSABLE, state.declared.digest if state.declared else _NOT_RECORDED, text)
    return replace(rules, policy=replace(rules.policy, pools=()), hold=hold, news=(*rules.news, alert))


def _is_new(declared: PolicyVersion, journal: LoopState) -> bool:
    return declared.digest not in (journal.adopted_policy, journal.refused_policy)


def _stays(state: State) -> str:
    if state.policy is None:
        return "Check the file with `nodefleet policy check`."
    return f"Version {state.policy.number} stays in force. Check the file with `nodefleet policy check`."


def _first(error: ValidationError) -> str:
    first, *others = error.problems
    more = f" (and {len(others)} more)" if others else ""
    return f"{first.path} {first.wrong}: {first.right.rstrip('.?')}{more}."

"""What an iteration starts from: the observation, the active policy, and which notices and commands have ended.

The observation comes from concurrent queries. A failed source is Missing with its cause, never empty.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeVar

from nodefleet.errors import NodeFleetError
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import BUILT_IN, STACK, PolicyVersion
from nodefleet.model.inventory import Instance, InstanceState, InstanceType, Node, Notice
from nodefleet.model.operations import Operation, Removal
from nodefleet.model.serialization import ValidationError
from nodefleet.model.snapshot import Adopt, ClusterView, Command, Drain, Missing, Observation, Recycle, notice_in
from nodefleet.model.state import LoopState
from nodefleet.phases import in_force, is_false_alarm
from nodefleet.policy.cluster import Policy, RequestKind
from nodefleet.policy.pool import Pool
from nodefleet.ports import Policies, Runtime, State
from nodefleet.reconcile.preconditions import note_throttling, reserve_request

T = TypeVar("T")


def observe(runtime: Runtime, state: State, policy: Policy, run: str, within: timedelta) -> Observation:
    """Query all sources and build the observation. `within` is the time limit of the metric queries."""
    now = runtime.time.now()
    types = tuple(dict.fromkeys(name for pool in policy.pools for name in pool.market.types))
    instances, offers, view, readings = runtime.together(
        lambda: _list_instances(runtime, policy),
        lambda: runtime.cloud.catalog(types),
        runtime.cluster.view,
        lambda: runtime.gauges.read(policy, now, within, _load_known(state, policy)),
    )
    note_throttling(runtime, RequestKind.DESCRIBE, instances if isinstance(instances, Exception) else None)
    catalog: tuple[InstanceType, ...] | Missing = _or_missing(offers)
    kubernetes: ClusterView | Missing = _or_missing(view)
    instances = _reject_empty_list(_or_missing(instances), kubernetes)
    if isinstance(readings, Exception):
        raise readings  # metric sources return Missing instead of raising, so this is a bug
    return Observation(
        at=now,
        cluster=runtime.cluster_id,
        run=run,
        instances=instances,
        kubernetes=kubernetes,
        readings=readings,
        operations=state.operations,
        notices=_notices(state.notices, kubernetes),
        commands=state.commands,
        windows=runtime.policies.windows(policy, now),
        targets=state.deployment.targets if state.deployment else (),
        catalog=_catalog(runtime, catalog),
        utc_offset=runtime.policies.utc_offset(policy, now),
    )


def _list_instances(runtime: Runtime, policy: Policy) -> tuple[Instance, ...]:
    reserve_request(runtime, RequestKind.DESCRIBE, policy.requests)
    return runtime.cloud.instances()


def _load_known(state: State, policy: Policy) -> dict[str, datetime]:
    """For each pool with a trained forecaster, the time of the last load sample that it learned from."""
    pools = {pool.name: state.journal.memory.pool(pool.name).adaptive for pool in policy.pools}
    stored = {name: kept.forecaster for name, kept in pools.items() if kept and kept.forecaster}
    return {name: each.last for name, each in stored.items()}


def _or_missing(got: T | Exception) -> T | Missing:
    match got:
        case NodeFleetError():
            return Missing(str(got))
        case Exception():
            raise got
        case _:
            return got


def _reject_empty_list(
    instances: tuple[Instance, ...] | Missing, kubernetes: ClusterView | Missing
) -> tuple[Instance, ...] | Missing:
    """An empty instance list counts as Missing while a ready worker names its instance: a wrong region, role or tag
    also gives an empty list."""
    if instances or isinstance(instances, Missing) or isinstance(kubernetes, Missing):
        return instances
    ready = sum(node.ready and bool(node.instance) and node.pool is not None for node in kubernetes.nodes)
    if not ready:
        return instances
    said = "a ready worker runs on one" if ready == 1 else f"{ready} ready workers run on some"
    return Missing(f"it lists no instance of this cluster, but {said}. Look at the region, the cluster's tag, the role")


def _catalog(runtime: Runtime, found: tuple[InstanceType, ...] | Missing) -> tuple[InstanceType, ...]:
    """The catalog, or none with a warning: joined nodes still show the capacity of their types, and min is restored."""
    if isinstance(found, Missing):
        runtime.telemetry.warn(f"What instance types offer is not known: {found.cause}")
        return ()
    return found


def _notices(recorded: Iterable[Notice], kubernetes: ClusterView | Missing) -> tuple[Notice, ...]:
    """EC2's notices. A node that was drained while the table was unavailable carries its notice itself. A record of the
    same notice takes precedence, because it also holds the event id and whether the notice was withdrawn."""
    nodes: tuple[Node, ...] = () if isinstance(kubernetes, Missing) else kubernetes.nodes
    on_nodes = [notice for node in nodes if (notice := notice_in(node.removal))]
    notices = tuple(recorded)
    recorded_keys = {(notice.instance, notice.kind, notice.at) for notice in notices}
    unrecorded = [notice for notice in on_nodes if (notice.instance, notice.kind, notice.at) not in recorded_keys]
    return tuple(sorted(dict.fromkeys((*unrecorded, *notices)), key=_order))


def _order(notice: Notice) -> tuple[str, datetime, str, datetime, str, bool]:
    """A total order of notices: the first of two similar notices takes effect, so their order must not vary."""
    told_at = notice.told_at or notice.at
    return notice.instance, notice.at, notice.kind.value, told_at, notice.event, notice.withdrawn


# ── the active policy ────────────────────────────────────────────────────────────────────────────────────────────────
# Resolution of the active policy.
#
# A declared policy that fails validation is ignored, with one alert. If this release refuses the policy in force, or
# that policy is lost, the fleet is held: no node is removed, lost nodes are replaced and min is kept, as far as the
# policy can still be read. An earlier version does not take its place, because it was written for another fleet.

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


# ── expiry ───────────────────────────────────────────────────────────────────────────────────────────────────────────
# Notices of instances that are gone and commands that have ended are removed from the table.


def stale_notices(observation: Observation, operations: Iterable[Operation], policy: Policy) -> list[Notice]:
    """Notices that no longer apply. The notice of an instance with an open removal is kept."""
    open_on = {each.instance for each in operations if isinstance(each, Removal)}
    # A withdrawal is kept until the time that it names: EC2 may deliver the withdrawn notice once more.
    kept = {*in_force(observation.notices), *(notice for notice in observation.notices if notice.withdrawn)}
    return [
        notice
        for notice in observation.notices
        if notice.instance not in open_on and (notice not in kept or _is_over(notice, observation, policy))
    ]


def ended_commands(observation: Observation, policy: Policy) -> list[Command]:
    return [command for command in observation.commands if _has_ended(command, observation, policy)]


def _has_ended(command: Command, observation: Observation, policy: Policy) -> bool:
    """Whether the command has passed its end time or has been carried out."""
    if command.until is not None and command.until <= observation.at:
        return True
    if not isinstance(command, Adopt | Drain | Recycle) or isinstance(observation.instances, Missing):
        return False
    instance = next((each for each in observation.instances if each.id == command.instance), None)
    if instance is None:
        return False  # EC2's list is eventually consistent and may not show the instance yet
    owner = instance.pool if policy.pool(instance.pool) is not None else ""
    if instance.state is InstanceState.TERMINATED or isinstance(command, Recycle):
        return instance.state is InstanceState.TERMINATED
    meant_for = command.pool if isinstance(command, Drain) else ""  # only what no pool owns is adopted
    return owner != meant_for and not (meant_for and observation.hold)  # which pools there are is not known then


def _is_over(notice: Notice, observation: Observation, policy: Policy) -> bool:
    """Whether the notice's instance is gone, or every pool's rules treat the notice as a false alarm."""
    if all(is_false_alarm(notice, rules, observation.at) for rules in (*policy.pools, Pool())):
        return True
    instances = () if isinstance(observation.instances, Missing) else observation.instances
    ended = (each.id for each in instances if each.state is InstanceState.TERMINATED)
    return notice.instance in ended

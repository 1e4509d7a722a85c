"""What EC2 takes does not wait for the lease.

The notice is recorded and whoever holds the lease is woken; meanwhile the nodes are cordoned, all of them before the
first pod is evicted, and drained. That is safe to do twice, so it may happen beside the holder of the lease and even
while nothing can be recorded. Launching the replacement does wait for the lease: this run takes it if it can.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from nodefleet.domain.fleet import is_false_alarm
from nodefleet.domain.machines import Node, Notice, NoticeKind
from nodefleet.domain.memory import Level
from nodefleet.domain.names import emergency, notice_in
from nodefleet.domain.observation import ClusterView, Observation
from nodefleet.domain.operations import Cordon, Evict, ForceDelete, Removal, Step, Why
from nodefleet.domain.policy import Policy, Pool
from nodefleet.domain.readings import Missing
from nodefleet.errors import ChangedError, DeniedError, MisconfiguredError, NodeFleetError, UnavailableError
from nodefleet.loop.aftermath import aftermath
from nodefleet.loop.carry_out import note
from nodefleet.loop.governing import governing
from nodefleet.loop.parts import Parts
from nodefleet.loop.run import Ran, run
from nodefleet.operations.advance import advance

_NOT_ASKED = Missing("not asked: EC2 takes these anyway")


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """How far the doomed nodes are."""

    nodes: tuple[str, ...] = ()  # of the cluster, among those that were named
    left: int = 0  # pods that still have to go

    @property
    def done(self) -> bool:
        return self.left == 0


def interrupted(parts: Parts, notices: Sequence[Notice], *, owner: str) -> Ran:
    """All that can be done about these notices. Raises if they could not even be recorded, so that they come again."""
    policy = _policy(parts)
    urgent = [notice for notice in notices if _is_urgent(notice)]
    while True:
        away = _recorded(parts, notices)
        drained = _tried(parts, urgent, policy)
        ran, away = (None, away) if away else _ran(parts, owner)
        if ran and (drained.done or _goes_on(ran)):
            return ran  # otherwise whoever holds the lease was woken, and this goes on beside it
        pause = policy.burst.every
        if (away and drained.done) or parts.time.left() < pause + policy.burst.reserve:
            break
        parts.time.sleep(pause)
    if away:
        raise away
    return Ran()


def _goes_on(ran: Ran) -> bool:
    """It had the lease and could see: then it drains too. One that misses EC2 or Kubernetes does nothing."""
    return ran.decision is not None and ran.decision.level is not Level.PARTIAL


def _ran(parts: Parts, owner: str) -> tuple[Ran | None, NodeFleetError | None]:
    """The run, or why it could not be: then draining goes on alone."""
    try:
        return run(parts, owner=owner), None
    except UnavailableError as error:
        return None, error


def _recorded(parts: Parts, notices: Sequence[Notice]) -> NodeFleetError | None:
    """Record, then wake: whoever looks after the wake sees what was recorded."""
    try:
        for notice in notices:
            parts.store.record(notice)
        parts.store.wake()
    except (UnavailableError, DeniedError, MisconfiguredError) as error:
        parts.telemetry.warn(f"The notice could not be recorded, draining all the same: {error}")
        return error
    return None


def _policy(parts: Parts) -> Policy:
    try:
        return governing(parts.store.state(), parts.policies, parts.history, parts.time.now()).policy
    except NodeFleetError:
        return Policy()  # the defaults say how to drain


def _is_urgent(notice: Notice) -> bool:
    """A recommendation may be followed by nothing: the run decides about it."""
    return notice.kind is not NoticeKind.REBALANCE


def _tried(parts: Parts, notices: Sequence[Notice], policy: Policy) -> Drained:
    if not notices:
        return Drained()
    try:
        return drain_doomed(parts, notices, policy)
    except (UnavailableError, DeniedError, MisconfiguredError) as error:
        parts.telemetry.warn(f"The doomed nodes could not be drained yet: {error}")
        return Drained(left=1)


def drain_doomed(parts: Parts, notices: Sequence[Notice], policy: Policy) -> Drained:
    """Cordon all nodes of these notices, then evict what may go from each. Once."""
    view = parts.cluster.view()
    now = parts.time.now()
    doomed = _removals(view, notices, policy, now)
    seen = Observation(
        at=now,
        cluster=parts.cluster_id,
        instances=_NOT_ASKED,
        kubernetes=view,
        operations=tuple(doomed),
        notices=tuple(notices),
    )
    for removal in doomed:  # every cordon before the first eviction
        for step in advance(removal, seen, policy).steps:
            if isinstance(step, Cordon) and _took(parts, removal, step):
                seen = aftermath(seen, step)
    left = 0
    for removal in doomed:
        for step in advance(removal, seen, policy).steps:
            if isinstance(step, Evict | ForceDelete):
                _took(parts, removal, step)
        left += sum(pod.node == removal.node and pod.movable for pod in view.pods or ())
    return Drained(nodes=tuple(removal.node for removal in doomed), left=left)


def _removals(view: ClusterView, notices: Sequence[Notice], policy: Policy, now: datetime) -> list[Removal]:
    by_instance = {node.instance: node for node in view.nodes if node.instance}
    found = []
    for notice in notices:
        node = by_instance.get(notice.instance)
        if node is None or node.pool is None or node.control_plane:
            continue
        rules = policy.pool(node.pool) or Pool(name=node.pool)
        if not (rules.dry_run or is_false_alarm(notice, rules, now)):
            found.append(_removal(node, notice, rules, now))
    return found


def _removal(node: Node, notice: Notice, rules: Pool, now: datetime) -> Removal:
    """Under the id that the node carries already, if the holder of the lease was quicker."""
    begun = node.removal if node.removal and not notice_in(node.removal) else ""
    return Removal(
        id=begun or emergency(notice),
        pool=rules.name,
        instance=notice.instance,
        node=node.name,
        why=Why.INTERRUPTED,
        reason=f"EC2 takes it: {notice.kind.value} at {notice.at:%H:%M:%S}",
        started=now,
        deadline=notice.at + rules.removal.notice,
        force_from=notice.at + rules.removal.force_after,
        forced=True,  # the run that has the lease tells people
    )


def _took(parts: Parts, removal: Removal, step: Step) -> bool:
    try:
        match step:
            case Cordon():
                parts.cluster.cordon(step, removal.instance)
                note(parts, step.node, "NodeFleetLeaving", f"leaves: {step.reason}", warning=True)
            case Evict():
                for pod in step.pods:
                    parts.cluster.evict(pod)
            case ForceDelete():
                for pod in step.pods:
                    parts.cluster.delete_pod(pod)
            case _:
                return False
    except ChangedError as error:
        parts.telemetry.line(f"Left alone: {error}", node=removal.node)
        return False
    return True

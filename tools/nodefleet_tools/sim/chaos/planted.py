"""Bugs put into the shipped code or its wiring on purpose, one at a time: a harness that finds none of these is blind.

Each breaks one rule of the design in the way that a hurried change would. Which seed finds it first is written in the
tests.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias
from unittest.mock import patch

from nodefleet import capacity
from nodefleet.engine import cluster_context, context, decide, standby
from nodefleet.engine.context import PoolContext, SignalInput
from nodefleet.engine.data_quality import Inconsistencies, find_inconsistencies
from nodefleet.engine.disruption import candidates, consolidation, interruption, orphans, rotation, unhealthy
from nodefleet.engine.signals import pending_pods
from nodefleet.engine.signals.vote import SignalVote
from nodefleet.eviction import drain
from nodefleet.model import fleet
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Bound, Event, Rank, floor
from nodefleet.model.fleet import Count, Phase, Worker
from nodefleet.model.operations import Launch, Operation, PodRef, Removal, SendLaunch, Step, Uncordon
from nodefleet.model.snapshot import Missing, Reading, Sample
from nodefleet.model.state import PendingClass
from nodefleet.model.workload import Budget, Pod
from nodefleet.operations import launch as launch_operation
from nodefleet.operations import removal as removal_operation
from nodefleet.operations.draining import DrainingNode
from nodefleet.operations.progress import Progress
from nodefleet.policy.cluster import Trust
from nodefleet.policy.pool import Benefit, Pool
from nodefleet.ports import Eviction, EvictionOutcome, Lease
from nodefleet.reconcile import emergency_drain
from nodefleet.reconcile.executor import Executor
from nodefleet.reconcile.unit_of_work import AlertDeduplicator, key_of
from nodefleet_tools.sim import cluster
from nodefleet_tools.sim.budgets import Ruling
from nodefleet_tools.sim.store import SimStore

Planted: TypeAlias = Callable[[], Any]  # a context manager: inside it the bug is there


def _no_fence_check() -> Any:
    """A write does not ask whether the lease is still ours."""
    return patch.object(SimStore, "_check_fence", lambda _, __: None)


def _release_without_owner() -> Any:
    """Letting go does not ask whose lease it is."""
    return patch.object(SimStore, "_holds", lambda store, _: store._table.lease is not None)  # noqa: SLF001


def _wake_dropped() -> Any:
    """A run releases the lease although an urgent run came meanwhile."""
    release = SimStore.release

    def deaf(store: SimStore, lease: Lease, wake: int | None) -> bool:  # noqa: ARG001  # that is the bug
        return release(store, lease, None)

    return patch.object(SimStore, "release", deaf)


@contextmanager
def _token_not_stored_first() -> Iterator[None]:
    """The request is sent before it is written down."""
    execute = Executor.execute

    def hasty(executor: Executor, operation: Operation | None, step: Step) -> bool:
        if not isinstance(step, SendLaunch):
            return execute(executor, operation, step)
        with patch.object(executor._uow, "flush", lambda: None):  # noqa: SLF001
            return execute(executor, operation, step)

    with patch.object(Executor, "execute", hasty):
        yield


def _new_token_each_time() -> Any:
    """What is sent again has another token, so EC2 takes it for another request."""
    return patch.object(Launch, "token", property(lambda launch: f"{launch.id}-{launch.attempts}"))


@contextmanager
def _budgets_forgotten() -> Iterator[None]:
    """Pods are deleted instead of evicted, and the budgets are not asked before."""

    def everything(leaving: DrainingNode) -> tuple[PodRef, ...]:
        return leaving.plan.to_evict if leaving.node is not None else ()

    def always(_: Pod, __: Sequence[Budget], ___: Sequence[Pod]) -> Ruling:
        return Ruling(answer=EvictionOutcome(result=Eviction.EVICTED))

    with patch.object(DrainingNode, "may_go", property(everything)), patch.object(cluster, "ruling", always):
        yield


@contextmanager
def _max_ignored() -> Iterator[None]:
    """Neither who decides nor who sends looks at max."""

    def only_min(pool: Pool, count: Count) -> list[Bound]:  # noqa: ARG001  # as the real one
        return [floor(pool.limits.min, "min", Rank.LIMIT, f"min is {pool.limits.min}")]

    def always(*_: object) -> bool:
        return True

    with patch.object(decide, "limit_bounds", only_min), patch.object(launch_operation, "_has_room", always):
        yield


def _orphans_at_first_sight() -> Any:
    """What seems orphaned counts as seen long ago."""
    ages_ago = datetime(2000, 1, 1, tzinfo=UTC)

    def known(left: Sequence[orphans.Orphan], *_: object) -> dict[str, datetime]:
        return {each.suspicion: ages_ago for each in left}

    return patch.object(orphans, "track_first_seen", known)


def _missing_is_zero() -> Any:
    fresh = context.usable_reading

    def zero(sample: Sample, cached: Reading | None, trust: Trust, now: datetime) -> SignalInput:
        return (
            Reading(0.0, now - timedelta(seconds=1))
            if isinstance(sample, Missing)
            else fresh(sample, cached, trust, now)
        )

    return patch.object(context, "usable_reading", zero)


@contextmanager
def _interrupted_counts() -> Iterator[None]:
    """A node that EC2 takes is capacity until it is gone."""
    with (
        patch.object(fleet, "COUNTS_AS_CAPACITY", (*fleet.COUNTS_AS_CAPACITY, Phase.INTERRUPTED)),
        patch.object(capacity, "READY_OR_NEARLY", (*fleet.READY_OR_NEARLY, Phase.INTERRUPTED)),
    ):
        yield


@contextmanager
def _cordons_are_all_ours() -> Iterator[None]:
    """A cordon without an operation is taken off, an operator's too."""

    def forgotten(workers: Sequence[Worker], _: Pool) -> list[Step]:
        left = [worker.node for worker in workers if worker.operation is None and worker.node and worker.node.cordoned]
        return [Uncordon(node.name, node.removal) for node in left]

    with patch.object(unhealthy, "uncordon_stale", forgotten), patch.object(cluster, "is_of", lambda _, __: True):
        yield


def _alerts_by_text() -> Any:
    """An alert is another one when its words are."""

    def by_text(
        saying: AlertDeduplicator, kind: AlertKind, pool: str, text: str, *_: object, **__: object
    ) -> Event | None:
        return saying.make_event(kind, pool, text) if saying.is_news(key_of(kind.value, pool, text)) else None

    return patch.object(AlertDeduplicator, "event", by_text)


def _capacity_for_named_pods() -> Any:
    """Pods that still wait when what was bought for them is there are believed to be stuck."""

    def there(this: PoolContext, _: Pod, each: PendingClass, __: object) -> str | None:
        return "they got their nodes" if each.bought_at and not this.count.booting else None

    return patch.object(pending_pods, "_in_vain", there)


def _unhealthy_kept() -> Any:
    """A dead node is replaced, and never removed."""
    return patch.object(unhealthy, "plan_replacements", lambda *_, **__: [])


def _removals_in_a_row() -> Any:
    """The next node leaves before the pods of the last one are ready again."""
    return patch.object(candidates, "_not_whole", lambda *_: None)


def _mutes_for_ever() -> Any:
    """Pods that lost their vote never get it back."""

    def muted(each: PendingClass, _: Benefit, now: datetime) -> PendingClass:
        return replace(each, room_since=None, muted_until=now + timedelta(days=365), mutes=each.mutes + 1)

    return patch.object(pending_pods, "_mute_class", muted)


@contextmanager
def _warnings_only_recorded() -> Iterator[None]:
    """What EC2 is about to take is written down, and goes on taking pods."""
    with (
        patch.object(emergency_drain, "_cordon", lambda *_: []),
        patch.object(interruption, "plan_interruptions", lambda *_: []),
    ):
        yield


def _evicts_who_comes_back() -> Any:
    """A pod that tolerates every taint is evicted as often as it comes back."""
    return patch.object(drain, "_course_of_managed", lambda *_: (drain.DrainCourse.EVICT, drain.DrainReason.MANAGED))


@contextmanager
def _fleet_max_ignored() -> Iterator[None]:
    """Workers that no pool owns take no room."""
    with (
        patch.object(decide, "fleet_occupied", lambda *_: 0),
        patch.object(launch_operation, "fleet_occupied", lambda *_: 0),
    ):
        yield


@contextmanager
def _caps_ignored() -> Iterator[None]:
    """Each pool grows as if the fleet had no caps, and no check comes before a launch is sent."""
    with (
        patch.object(decide, "within_caps", lambda this, *_: this),
        patch.object(launch_operation, "exceeds_caps", lambda *_: False),
    ):
        yield


def _headroom_grows_only() -> Any:
    """Headroom that was bought is never given back: no node could leave while it is kept."""
    return patch.object(cluster_context, "_spare_nodes", lambda *_: 0)


def _resting_untold() -> Any:
    """No alert names instances that are paid for and are no capacity."""
    return patch.object(decide, "resting_alerts", lambda *_: ())


def _deleted_for_ever() -> Any:
    """A Node that cannot be deleted is tried again and again, and its removal stays open."""
    forgotten = removal_operation._delete_node  # noqa: SLF001

    def stubborn(operation: Removal, *others: Any) -> Progress | None:
        return forgotten(replace(operation, undeleted_since=None), *others)

    return patch.object(removal_operation, "_delete_node", stubborn)


def _never_rotated() -> Any:
    """There is always something that speaks against replacing an old worker."""
    return patch.object(rotation, "obstacle", lambda *_, **__: "not now")


def _consolidated_into_growth() -> Any:
    """Consolidation does not ask whether CPU and memory stay below their growth thresholds."""
    return patch.object(consolidation, "find_overload", lambda *_: [])


def _doubts_never_end() -> Any:
    """What was in doubt once holds back shrinking for ever."""

    def stubborn(this: PoolContext, votes: Sequence[SignalVote]) -> Inconsistencies:
        found = find_inconsistencies(this, votes)
        known = {**found.since, **this.before.doubtful}
        return replace(found, sentences=("once in doubt",) if known else (), since=known)

    return patch.object(decide, "find_inconsistencies", stubborn)


def _stands_by_for_ever() -> Any:
    """A floor for another region is meant to be ended by an operator, and by nothing else."""
    move = standby._move  # noqa: SLF001

    def lasting(*given: Any) -> standby.StandbyResult:
        result = move(*given)
        if result.take_over is None:
            return result
        taken = replace(result.take_over, until=result.take_over.until + timedelta(days=365))
        return replace(result, take_over=taken, steps=(taken, *result.steps[1:]))

    return patch.object(standby, "_move", lasting)


PLANTED: Mapping[str, Planted] = {
    "a doubt that never ends": _doubts_never_end,
    "no fence check": _no_fence_check,
    "token not stored first": _token_not_stored_first,
    "a new token each time": _new_token_each_time,
    "budgets forgotten": _budgets_forgotten,
    "max ignored": _max_ignored,
    "wake dropped": _wake_dropped,
    "orphans removed at first sight": _orphans_at_first_sight,
    "release without owner": _release_without_owner,
    "missing read as zero": _missing_is_zero,
    "interrupted node counted": _interrupted_counts,
    "operator cordon undone": _cordons_are_all_ours,
    "capacity bought for named pods": _capacity_for_named_pods,
    "alerts told apart by their text": _alerts_by_text,
    "unhealthy nodes kept": _unhealthy_kept,
    "resting cost untold": _resting_untold,
    "deletions tried for ever": _deleted_for_ever,
    "mutes for ever": _mutes_for_ever,
    "warnings only recorded": _warnings_only_recorded,
    "evicts who comes back": _evicts_who_comes_back,
    "fleet max ignored": _fleet_max_ignored,
    "caps ignored": _caps_ignored,
    "headroom grows only": _headroom_grows_only,
    "removals in a row": _removals_in_a_row,
    "old workers kept": _never_rotated,
    "a standby that never ends": _stands_by_for_ever,
    "consolidated into growth": _consolidated_into_growth,
}

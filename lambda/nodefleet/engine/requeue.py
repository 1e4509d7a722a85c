"""Whether another iteration in a few seconds could change something, and how long it may take. If nothing could change,
the run ends and costs nothing."""

from collections.abc import Sequence
from datetime import timedelta
from math import ceil

from nodefleet.engine.context import PoolContext
from nodefleet.engine.signals.pending_pods import PendingPods
from nodefleet.engine.target import TargetResult
from nodefleet.model.decision import BoundSource
from nodefleet.model.fleet import Phase, Worker
from nodefleet.model.names import pluralize
from nodefleet.model.operations import Create, Launch, Operation, Removal, Save, Step
from nodefleet.phases import silent_for
from nodefleet.policy.cluster import Burst


def requeue_reason(ctx: PoolContext, pending: PendingPods, settled: TargetResult, plan: Sequence[Step]) -> str:
    """Why another iteration follows soon; empty: it could change nothing."""
    own = [each for each in ctx.observation.operations if each.pool == ctx.pool.name]
    opened: list[Operation] = [step.operation for step in plan if isinstance(step, Create | Save)]
    draining = sum(isinstance(each, Removal) and _moves(each, ctx) for each in [*own, *opened])
    if draining:
        return f"{pluralize(draining, 'node is', 'nodes are')} on the way out"
    silent = sum(_falls_silent(worker, ctx) for worker in ctx.workers)
    if silent:
        return f"{pluralize(silent, 'node has', 'nodes have')} gone silent"
    pods = pending.unschedulable.count
    if not pods:
        return ""
    booting = ctx.count.booting + sum(each.count for each in opened if isinstance(each, Launch))
    if booting:
        return f"{pluralize(booting, 'node is', 'nodes are')} booting for {pluralize(pods, 'pod', 'pods')}"
    if any(each.bound.kind is BoundSource.PODS for each in settled.overruled):
        return ""  # at max, in a cooldown or paused: looking does not help
    if pending.unschedulable.nodes is None or pending.votes.room_is_new(ctx):
        return f"{pluralize(pods, 'pod is', 'pods are')} about to find a place"
    return ""  # a ready node has had room for a while: whatever keeps them is not about to change


def _falls_silent(worker: Worker, ctx: PoolContext) -> bool:
    """It is not ready, and will soon have been silent for too long."""
    silent = silent_for(worker.node, ctx.pool.health, ctx.observation.at) if worker.node else timedelta(0)
    return worker.phase is Phase.UNREADY and silent > timedelta(0)


def _moves(removal: Removal, ctx: PoolContext) -> bool:
    """It has just begun, or its time is near. In between, where a budget holds up a removal whose time is far, or EC2
    does not take what it said, the schedule is often enough."""
    near = ctx.pool.removal.drain_timeout
    return ctx.observation.at - removal.started < near or abs(removal.deadline - ctx.observation.at) < near


def remember_duration(durations: tuple[int, ...], took: timedelta, rules: Burst) -> tuple[int, ...]:
    """The last iterations with this one, in whole seconds, rounded up."""
    return (*durations, ceil(took.total_seconds()))[-rules.remembered :]


def next_duration(durations: Sequence[int], rules: Burst) -> timedelta:
    """How long the next iteration may take, by the longest of the last ones. Without any, nothing is known."""
    return timedelta(seconds=max(durations, default=0) * rules.margin)

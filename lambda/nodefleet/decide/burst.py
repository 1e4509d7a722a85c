"""Whether another look in a few seconds could change something, and how long it may take. If nothing could change, the
run ends and costs nothing."""

from collections.abc import Sequence
from datetime import timedelta
from math import ceil

from nodefleet.decide.bounds import Settled
from nodefleet.decide.case import Case
from nodefleet.decide.waiting import Waiting
from nodefleet.domain.decision import BoundSource
from nodefleet.domain.fleet import Phase, Worker, silent_for
from nodefleet.domain.operations import Keep, Launch, Open, Operation, Removal, Step
from nodefleet.domain.policy import Burst
from nodefleet.domain.wording import counted


def look_again(this: Case, waiting: Waiting, settled: Settled, plan: Sequence[Step]) -> str:
    """Why to look again soon; empty when nothing would come of it."""
    own = [each for each in this.seen.operations if each.pool == this.pool.name]
    opened: list[Operation] = [step.operation for step in plan if isinstance(step, Open | Keep)]
    draining = sum(isinstance(each, Removal) and _moves(each, this) for each in [*own, *opened])
    if draining:
        return f"{draining} {'node is' if draining == 1 else 'nodes are'} on the way out"
    silent = sum(_falls_silent(worker, this) for worker in this.workers)
    if silent:
        return f"{silent} {'node has' if silent == 1 else 'nodes have'} gone silent"
    pods = waiting.unschedulable.count
    if not pods:
        return ""
    booting = this.count.booting + sum(each.count for each in opened if isinstance(each, Launch))
    if booting:
        return f"{counted(booting, 'node is', 'nodes are')} booting for {counted(pods, 'pod', 'pods')}"
    if any(each.bound.kind is BoundSource.PODS for each in settled.overruled):
        return ""  # at max, in a cooldown or paused: looking does not help
    if waiting.unschedulable.nodes is None or waiting.votes.room_is_new(this):
        return f"{counted(pods, 'pod is', 'pods are')} about to find a place"
    return ""  # a ready node has had room for a while: whatever keeps them is not about to change


def _falls_silent(worker: Worker, this: Case) -> bool:
    """It is not ready, and will soon have been silent for too long."""
    silent = silent_for(worker.node, this.pool.health, this.seen.at) if worker.node else timedelta(0)
    return worker.phase is Phase.UNREADY and silent > timedelta(0)


def _moves(removal: Removal, this: Case) -> bool:
    """It has just begun, or its time is near. In between, where a budget holds up a removal whose time is far, or EC2
    does not take what it said, the schedule is often enough."""
    near = this.pool.removal.drain_timeout
    return this.seen.at - removal.started < near or abs(removal.deadline - this.seen.at) < near


def remember_duration(durations: tuple[int, ...], took: timedelta, rules: Burst) -> tuple[int, ...]:
    """The last iterations with this one, in whole seconds, rounded up."""
    return (*durations, ceil(took.total_seconds()))[-rules.remembered :]


def next_duration(durations: Sequence[int], rules: Burst) -> timedelta:
    """How long the next iteration may take, by the longest of the last ones. Without any, nothing is known."""
    return timedelta(seconds=max(durations, default=0) * rules.margin)

"""Which workers are to be replaced, and whether it is begun now.

What EC2 announced to take, and what is no good, is replaced at once; what is due for rotation when it suits the pool.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from nodefleet.decide import retirement, rotation
from nodefleet.decide.bounds import settle
from nodefleet.decide.case import Case
from nodefleet.decide.consent import too_much
from nodefleet.decide.hearing import Heard
from nodefleet.decide.removal import is_held_fast
from nodefleet.decide.replacement import Due, Replacement, bounds, replacement
from nodefleet.decide.scene import Scene
from nodefleet.decide.waiting import Waiting
from nodefleet.domain.decision import Bound
from nodefleet.domain.memory import Loss, RotationState
from nodefleet.domain.operations import Tell
from nodefleet.domain.wording import some


@dataclass(frozen=True, slots=True, kw_only=True)
class Turnover:
    """Workers that are to be replaced, and how far that is."""

    plan: Replacement
    rotation: RotationState | None
    note: str = ""  # why those that are due for rotation stay
    tells: tuple[Tell, ...] = ()


def turnover(
    this: Case,
    scene: Scene,
    heard: Heard,
    waiting: Waiting,
    others: Sequence[Bound],
    losses: Sequence[Loss],
    *,
    braked: bool,
    stuck: bool = False,
) -> Turnover:
    """`others`: all bounds but those that come of it. `stuck`: the pool would be smaller, but nobody can leave."""
    before = this.before
    urgent = _free(retirement.retiring(this.workers, braked=braked), this, scene)
    every = rotation.rotating(this)
    state = rotation.next_state(this, every)
    given_up = state is not None and before.rotation is not None and state.failures > before.rotation.failures
    ahead = min(before.ahead, len(urgent)) if given_up else before.ahead
    plan = replacement([*urgent, *every], this.workers, this.pool, this.count, ahead, most=this.most)
    if not every:
        return Turnover(plan=plan, rotation=None)
    settled = settle([*others, *bounds(plan, this.count.capacity)])
    why_not = rotation.obstacle(
        this, state, pods=waiting.unschedulable.count, bounds=others, settled=settled, losses=losses, stuck=stuck
    )
    due = rotation.in_window(every, this)
    if not why_not and not due:
        why_not = f"window {this.pool.rotation.window} is not open"
    if not why_not:
        free = _free(due, this, scene)
        plan, why_not = _with_rotation(this, heard, others, urgent, free, ahead, state)
        if not free:
            why_not = _kept(due, this, scene)
    return Turnover(
        plan=plan,
        rotation=state,
        note=rotation.note(every, why_not) if why_not else "",
        tells=tuple(rotation.tells(this, state, every, why_not)),
    )


def _with_rotation(
    this: Case,
    heard: Heard,
    others: Sequence[Bound],
    urgent: Sequence[Due],
    free: Sequence[Due],
    ahead: int,
    state: RotationState | None,
) -> tuple[Replacement, str]:
    """The plan with those that can wait, if max lets one of them go first."""
    due = [*urgent, *free]
    under_way = state is not None and state.begun_at is not None
    plan = replacement(
        due, this.workers, this.pool, this.count, ahead, most=this.most, all_may_begin=not under_way, all_may_leave=True
    )
    why_not = ""
    if plan.at_max and not urgent:
        over = too_much(heard.opinions, this.look, this.pool.reactive, 1)
        why_not = rotation.obstacle_at_max(this, others, over)
    if why_not:
        plan = replacement(due, this.workers, this.pool, this.count, ahead, most=this.most)
    return plan, why_not


def _free(due: Sequence[Due], this: Case, scene: Scene) -> list[Due]:
    """Those that only a lack of room may keep: a node that is launched for another one would only be given back and
    launched again."""
    if not due:
        return []
    ground = scene.ground(this, this.before.backoffs)
    return [each for each in due if is_held_fast(each.worker, this.pool, ground) is None]


def _kept(due: Sequence[Due], this: Case, scene: Scene) -> str:
    ground = scene.ground(this, this.before.backoffs)
    kept = (is_held_fast(each.worker, this.pool, ground) for each in due)
    return some((each.sentence for each in kept if each), "; ", 2)

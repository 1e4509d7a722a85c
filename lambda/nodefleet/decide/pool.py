"""One pool's decision: hear the signals, collect the bounds, settle on a target, plan the way there, explain."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from nodefleet.decide import debris, explain, guard, health, retirement, rotation
from nodefleet.decide.bounds import Settled, floor, settle
from nodefleet.decide.burst import look_again
from nodefleet.decide.capacity import Membership, membership
from nodefleet.decide.case import Case
from nodefleet.decide.consent import kept
from nodefleet.decide.damping import damping
from nodefleet.decide.doubts import Doubts, doubts
from nodefleet.decide.growing import Need, grow
from nodefleet.decide.hearing import Heard, after_growth, hear
from nodefleet.decide.limits import commands, fleet_limit, limits, replacements, windows
from nodefleet.decide.market import heal, settled_swap, swap_bounds
from nodefleet.decide.removal import Leaving, choose, not_asked
from nodefleet.decide.replacement import Replacement, may_leave
from nodefleet.decide.replacement import bounds as replacing
from nodefleet.decide.scene import Scene
from nodefleet.decide.signals.adaptive import is_adaptive
from nodefleet.decide.turnover import Turnover, turnover
from nodefleet.decide.waiting import Waiting
from nodefleet.domain.alerts import AlertKind
from nodefleet.domain.decision import Action, Bound, BoundSource, PoolDecision, Rank
from nodefleet.domain.fleet import Worker
from nodefleet.domain.memory import Loss, Memory, PoolMemory, RotationState
from nodefleet.domain.operations import Removal, Step, Tell, Why
from nodefleet.domain.wording import some


@dataclass(frozen=True, slots=True, kw_only=True)
class _Course:
    """What is done about the target."""

    action: Action
    target: int
    reason: str
    memory: PoolMemory
    steps: tuple[Step, ...] = ()
    leaving: Leaving


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    decision: PoolDecision
    memory: PoolMemory
    look_again: str = ""


def decide_pool(this: Case, scene: Scene, waiting: Waiting, whole: Memory, trust: guard.Trusted) -> Result:
    heard = hear(this, waiting)
    keep = kept(heard.opinions, this.look, this.pool.reactive, _most_fewer(this))
    who = _membership(this, keep, whole)
    held = health.brake(this.workers, this.pool, this.before.braked_since, this.seen.at)
    doubt = doubts(this, heard.opinions)
    owed = health.to_replace(who.losses, held, this.pool)
    others = _bounds(this, heard, keep, owed, whole, trust, doubt)
    replaced = partial(turnover, this, scene, heard, waiting, others, who.losses, braked=held.since is not None)
    turn = replaced()
    due = turn.plan
    bounds = [*others, *replacing(due, this.count.capacity)]
    settled = settle(bounds)
    memory = replace(
        heard.memory,
        members=who.members,
        losses=who.losses,
        suspects=debris.suspects(this.workers, this.pool, this.before.suspects, this.seen.at),
        vanished=this.vanished,
        ahead=due.ahead,
        rotation=turn.rotation,
        braked_since=held.since,
        swap=settled_swap(this.before.swap, this.workers, this.pool, this.seen.at),
        doubtful=doubt.since,
    )
    if settled.target > this.count.capacity:
        course = _grow(this, heard, waiting, settled, memory, due)
    elif settled.target < this.count.capacity:
        course = _shrink(this, scene, settled, bounds, memory, doubt, due)
        if course.action is Action.HOLD:
            turn = replaced(stuck=True)
            course = _noted(course, turn.note)
        if turn.plan.wanted and course.action is Action.HOLD:
            bounds = [*others, *replacing(turn.plan, this.count.capacity)]
            settled = settle(bounds)
            course = _grow(this, heard, waiting, settled, memory, turn.plan)
    else:
        reason = explain.held(this.count.capacity, settled, bounds, heard.opinions)
        retired = _retire(this, scene, due, bounds, memory)
        course = retired or _keep_size(this, scene, reason, bounds, memory, turn)
    heard = replace(heard, tells=(*heard.tells, *doubt.tells, *turn.tells))
    decision = _decision(this, heard, bounds, settled, course, who.losses, held)
    return Result(
        decision=decision,
        memory=course.memory,
        look_again=look_again(this, waiting, settled, decision.plan) or _rising(this, heard),
    )


def blind(this: Case, whole: Memory, trust: guard.Trusted) -> Result:
    """Without EC2 or Kubernetes nothing is done, and nothing is learned."""
    bounds = guard.safety(this.seen, whole, this.policy, this.pool, this.count, trust, (), ())
    capacity = this.count.capacity
    decision = PoolDecision(
        pool=this.pool.name,
        action=Action.HOLD,
        count=this.count,
        target=capacity,
        reason=f"Holding {capacity}: {bounds[0].sentence}",
        bounds=tuple(bounds),
        stays=not_asked(this.workers).stays,
        dry_run=this.pool.dry_run,
    )
    return Result(decision=decision, memory=this.before)


def _rising(this: Case, heard: Heard) -> str:
    return (
        "load rises, and a fresher reading may ask for more"
        if heard.is_rising and this.count.capacity < this.most
        else ""
    )


def _most_fewer(this: Case) -> int:
    """How many nodes may go at once."""
    return this.look.capacity if is_adaptive(this.pool) else this.pool.steps.down


def _membership(this: Case, keep: Sequence[Bound], whole: Memory) -> Membership:
    """Who is capacity, and whose loss has to be made up for."""
    before = this.before
    who = membership(this.workers, before.members, before.losses, this.seen.at, whole.looked_at)
    could_spare_one = keep[0].kind is BoundSource.CALM and not this.seen.hold
    if could_spare_one:
        return replace(who, losses=())
    return who


def _bounds(
    this: Case,
    heard: Heard,
    keep: Sequence[Bound],
    losses: Sequence[Loss],
    whole: Memory,
    trust: guard.Trusted,
    doubt: Doubts,
) -> list[Bound]:
    capacity = this.count.capacity
    asked = [
        floor(vote.nodes, opinion.signal, Rank.SIGNAL, vote.reason, vote.expires) for opinion, vote in heard.floors
    ]
    return [
        *keep,
        *asked,
        *damping(this.pool, this.before, capacity, this.seen.at, heard.at_once),
        *windows(this.seen, this.pool.name),
        *commands(this.seen, this.pool.name),
        *limits(this.pool, this.count),
        *fleet_limit(this),
        *replacements(losses, capacity),
        *guard.safety(this.seen, whole, this.policy, this.pool, this.count, trust, doubt.sentences, this.unreadable),
        *guard.held(this.seen, this.pool, capacity, losses),
        *swap_bounds(this),
    ]


def _grow(
    this: Case, heard: Heard, waiting: Waiting, settled: Settled, memory: PoolMemory, due: Replacement
) -> _Course:
    capacity, least = this.count.capacity, this.pool.limits.min
    more = settled.target - capacity
    restoring = min(more, max(least - capacity, len(memory.losses), due.wanted, 0))
    reason = explain.grown(capacity, settled, settled.target)
    need = Need(
        more=more,
        restoring=restoring,
        on_demand=min(len(memory.losses), max(0, least - capacity)),
        asks=waiting.asks(more),
        replacing=frozenset(each.worker.id for each in (*due.going[: due.ahead], *due.next)),
        reason=reason,
    )
    growth = grow(need, this.workers, this.pool, memory, this.seen, this.policy)
    if 0 < growth.nodes < more:  # the reason of the launches, too, names what is really launched
        reason = explain.grown(capacity, settled, capacity + growth.nodes, growth.obstacle)
        growth = grow(replace(need, reason=reason), this.workers, this.pool, memory, this.seen, this.policy)
    memory = replace(memory, losses=memory.losses[growth.nodes :], ahead=memory.ahead + min(due.wanted, growth.nodes))
    if growth.nodes and any(each.can_wait for each in due.next):
        memory = replace(memory, rotation=rotation.begun(memory.rotation, capacity, this.seen.at))
    if growth.nodes == 0:
        return replace(_hold(this, f"Holding {capacity}: {growth.obstacle}", memory), steps=growth.steps)
    if growth.nodes > restoring:
        memory = after_growth(heard, this, waiting, nodes=capacity + growth.nodes, memory=memory)
        memory = replace(memory, last_grow=this.seen.at)
    return _Course(
        action=Action.GROW,
        target=capacity + growth.nodes,
        reason=reason,
        memory=memory,
        steps=growth.steps,
        leaving=not_asked(this.workers),
    )


def _shrink(
    this: Case,
    scene: Scene,
    settled: Settled,
    bounds: Sequence[Bound],
    memory: PoolMemory,
    doubt: Doubts,
    due: Replacement,
) -> _Course:
    """Who is to be replaced anyway goes first: neither its zone nor the On-Demand base keeps it. Of those that can wait
    the same is true once a new node has come for one of them."""
    capacity, ground = this.count.capacity, scene.ground(this, memory.backoffs, doubt.unmeasured)
    ground = replace(ground, rotating=frozenset(each.worker.id for each in due.due if each.can_wait))
    fewer = capacity - settled.target
    first = [each.worker for each in due.due if not each.can_wait or _has_come(memory.rotation, capacity)]
    leaving = choose(this.workers, this.pool, fewer, ground, due=first)
    if not leaving.chosen:
        leaving = choose(this.workers, this.pool, fewer, ground)
    if not leaving.chosen:
        reason = explain.stuck(capacity, settled, bounds, leaving.obstacle)
        return replace(_hold(this, reason, memory), leaving=leaving)
    reason = explain.shrunk(capacity, settled, bounds, [worker.name for worker in leaving.chosen])
    memory = replace(memory, last_shrink=this.seen.at)
    if ground.rotating & {worker.id for worker in leaving.chosen}:
        memory = rotation.progressed(memory)
    return _removed(this, leaving, reason, memory, lambda _: reason)


def _retire(this: Case, scene: Scene, due: Replacement, bounds: Sequence[Bound], memory: PoolMemory) -> _Course | None:
    """What EC2 has announced to take goes once its replacement is ready, by the rules of every voluntary removal."""
    number = may_leave(due, this.pool, this.count, bounds)
    if not number:
        return None
    going = [each.worker for each in due.going]
    leaving = choose(this.workers, this.pool, number, scene.ground(this, memory.backoffs), due=going)
    if not leaving.chosen:
        return None
    owed = tuple(
        Loss(worker=worker.id, at=this.seen.at, cause=due.of(worker).cause) for worker in leaving.chosen if due.at_max
    )

    def told(worker: Worker) -> str:
        return f"{worker.name}, {due.of(worker).reason}"

    order = "it goes first, as max leaves no room" if due.at_max else "its replacement is ready"
    capacity, names = this.count.capacity, some(map(told, leaving.chosen), "; ")
    reason = f"Shrinking {capacity} → {capacity - len(leaving.chosen)}: {names}; {order}"
    memory = replace(memory, losses=(*memory.losses, *owed))
    if any(due.of(worker).can_wait for worker in leaving.chosen):
        memory = rotation.progressed(memory)
    return _removed(this, leaving, reason, memory, told)


def _has_come(state: RotationState | None, capacity: int) -> bool:
    return state is not None and state.begun_at is not None and capacity > state.nodes


def _removed(
    this: Case, leaving: Leaving, reason: str, memory: PoolMemory, of_each: Callable[[Worker], str]
) -> _Course:
    """Those that are chosen leave now. `of_each`: the reason that its removal carries."""
    gone = {worker.id for worker in leaving.chosen}
    return _Course(
        action=Action.SHRINK,
        target=this.count.capacity - len(gone),
        reason=reason,
        memory=replace(
            memory,
            last_left=this.seen.at,
            ahead=max(0, memory.ahead - len(gone)),
            members=tuple(member for member in memory.members if member not in gone),
        ),
        steps=tuple(health.voluntary(each, this.pool, this.seen, of_each(each)) for each in leaving.chosen),
        leaving=leaving,
    )


def _keep_size(
    this: Case, scene: Scene, reason: str, bounds: Sequence[Bound], memory: PoolMemory, turn: Turnover
) -> _Course:
    """Holding, and healing the Spot share meanwhile."""
    healed = heal(this, memory, bounds, lambda: scene.ground(this, memory.backoffs))
    course = replace(_hold(this, reason, healed.memory), steps=healed.steps)
    course = _noted(course, healed.note, turn.note)
    return replace(course, leaving=healed.leaving) if healed.leaving else course


def _noted(course: _Course, *notes: str) -> _Course:
    """With what people may wonder about besides."""
    said = "; ".join(filter(None, notes))
    return replace(course, reason=f"{course.reason}. Also: {said}") if said else course


def _hold(this: Case, reason: str, memory: PoolMemory) -> _Course:
    return _Course(
        action=Action.HOLD,
        target=this.count.capacity,
        reason=reason,
        memory=memory,
        leaving=not_asked(this.workers),
    )


def _decision(
    this: Case,
    heard: Heard,
    bounds: Sequence[Bound],
    settled: Settled,
    course: _Course,
    lost: Sequence[Loss],
    held: health.Brake,
) -> PoolDecision:
    pool, seen = this.pool, this.seen
    return PoolDecision(
        pool=pool.name,
        action=course.action,
        count=this.count,
        target=course.target,
        reason=course.reason,
        bounds=tuple(bounds),
        overruled=settled.overruled,
        votes=(*explain.votes(heard.opinions), *([f"forecast: {heard.grade}"] if heard.grade else ())),
        plan=(
            *health.doomed(this.workers, pool, seen),
            *retirement.tells(this.workers, pool),
            *health.forgotten(this.workers, pool),
            *health.sick(this.workers, pool, this.count, lost, held, seen, most=this.most),
            *course.steps,
            *debris.cleanups(this.workers, pool, course.memory.suspects, seen),
            *heard.tells,
            *_at_max(this, settled, bounds),
        ),
        stays=course.leaving.stays,
        dry_run=pool.dry_run,
    )


def _at_max(this: Case, settled: Settled, bounds: Sequence[Bound]) -> list[Tell]:
    """People should know when the limit keeps the fleet from what it needs. That a worker leaves of our own accord
    before the one comes that takes its place is no news."""
    least = max(settled.target, this.count.capacity)  # whoever only wants to keep what is there asks for no more
    leaving = sum(isinstance(w.operation, Removal) and w.operation.why is Why.VOLUNTARY for w in this.workers)
    wanting = [
        each
        for each in settled.overruled
        if each.by in (BoundSource.MAX, BoundSource.FLEET_MAX)
        and each.bound.nodes > least + leaving * (each.bound.kind in (BoundSource.MIN, BoundSource.REPLACE))
    ]
    if not wanting:
        return []
    most = max(wanting, key=lambda each: each.bound.nodes)
    asked = most.bound
    if most.by == BoundSource.FLEET_MAX:
        cause = next(bound.sentence for bound in bounds if bound.kind is BoundSource.FLEET_MAX)
        remedy = "Consider a higher fleet.max, or dispose of workers that no pool owns: `nodefleet adopt`, `drain`."
    else:
        cause, remedy = f"max is {this.pool.limits.max}", "Consider a higher limits.max."
    text = f"At max: {asked.sentence} (asks for {asked.nodes}), but {cause}. {remedy}"
    return [Tell(alert=AlertKind.AT_MAX, pool=this.pool.name, subjects=(), text=text)]

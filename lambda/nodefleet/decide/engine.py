"""decide(): the one way in. A look, the memory and the policy give an explained decision and the next memory."""

from collections.abc import Iterable, Mapping, Sequence

from nodefleet.decide import guard
from nodefleet.decide.capacity import fleet_occupied
from nodefleet.decide.case import Case
from nodefleet.decide.limits import fleet_surplus, within_fleet
from nodefleet.decide.pending_classes import Pending, PendingVotes, after_packing, before_packing, used_otherwise
from nodefleet.decide.pool import blind, decide_pool
from nodefleet.decide.resting import resting_since, resting_tells
from nodefleet.decide.scene import Scene
from nodefleet.decide.unowned import Disposal, dispose, unowned, unowned_tells
from nodefleet.decide.waiting import cannot_hold, waiting_for
from nodefleet.domain.decision import Decision, PoolDecision
from nodefleet.domain.fleet import Worker, workers
from nodefleet.domain.memory import Level, Memory, PoolMemory
from nodefleet.domain.observation import ClusterView, Observation
from nodefleet.domain.operations import Launch, Open
from nodefleet.domain.policy import Policy
from nodefleet.domain.workload import Pod


def decide(seen: Observation, memory: Memory, policy: Policy) -> Decision:
    fleet = workers(seen, policy)
    cases = [Case.of(pool, policy, seen, memory.pool(pool.name), fleet) for pool in policy.pools]
    trust = guard.trusted(seen, memory, policy, [each for this in cases for each in this.unreadable])
    if trust.level is Level.PARTIAL:
        results = [blind(this, memory, trust) for this in cases]
        homeless, disposal = [], Disposal()
    else:
        pending = Pending.of(_pods(seen))
        scene, votes = _heard(Scene.of(seen, policy, fleet), cases, pending)
        results = []
        room = policy.fleet_max - fleet_occupied(fleet, seen, policy, memory)
        surplus = fleet_surplus(cases, policy.fleet_max)
        for index, case in enumerate(cases):
            this = within_fleet(case, cases[index + 1 :], room, surplus)
            waiting = waiting_for(this, scene.packings, pending, votes[this.pool.name])
            results.append(decide_pool(this, scene, waiting, memory, trust))
            room -= _launched(results[-1].decision)
        disposal = dispose(fleet, scene, seen, policy, memory)
        homeless = cannot_hold(scene.packings.nobody, "") if scene.packings else []
    resting = resting_since(fleet, policy, seen, memory.resting)
    return Decision(
        at=seen.at,
        cluster=seen.cluster,
        level=trust.level,
        pools=tuple(result.decision for result in results),
        tells=(*trust.tells, *unowned_tells(fleet, policy), *homeless, *resting_tells(fleet, policy, resting, seen.at)),
        memory=Memory(
            level=trust.level,
            recovered_at=trust.recovered_at,
            looked_at=seen.at,
            pools={
                **_known(seen, memory, fleet, policy),
                **disposal.memory,
                **{result.decision.pool: result.memory for result in results},
            },
            resting=resting,
        ),
        plan=disposal.plan,
        look_again="; ".join(filter(None, (*(result.look_again for result in results), disposal.look_again))),
    )


def _known(seen: Observation, memory: Memory, fleet: Iterable[Worker], policy: Policy) -> dict[str, PoolMemory]:
    """What is known of pools stays known while the policy that names them cannot be read, and while they have workers
    though the policy does not have them any more."""
    gone = {worker.pool for worker in unowned(fleet, policy)}
    return {name: known for name, known in memory.pools.items() if seen.hold or name in gone}


def _launched(decision: PoolDecision) -> int:
    """How many workers more it asks for."""
    opened = (step.operation for step in decision.plan if isinstance(step, Open) and not decision.dry_run)
    return sum(each.count for each in opened if isinstance(each, Launch))


def _pods(seen: Observation) -> tuple[Pod, ...]:
    view = seen.kubernetes
    return (view.pods or ()) if isinstance(view, ClusterView) else ()


def _heard(scene: Scene, cases: Sequence[Case], pending: Pending) -> tuple[Scene, Mapping[str, PendingVotes]]:
    """Who speaks for which pool. Pods without a vote are left out when the others are packed; who loses it by what
    packing shows is left out of a second packing."""
    votes = {this.pool.name: before_packing(this, pending, scene.templates(this.pool.name)) for this in cases}
    in_vain = any(used_otherwise(votes[this.pool.name], this) for this in cases)
    first = scene.without(_left_out(votes), used_otherwise=in_vain)
    if first.packings is None:
        return first, votes
    packed = first.packings.by_pool
    after = {
        this.pool.name: after_packing(votes[this.pool.name], this, pending, packed[this.pool.name]) for this in cases
    }
    left_out = _left_out(after)
    return (first if left_out == _left_out(votes) else first.without(left_out)), after


def _left_out(votes: Mapping[str, PendingVotes]) -> frozenset[str]:
    return frozenset(uid for each in votes.values() for uid in each.silent | each.held)

"""decide(): the one way in. A look, the memory and the policy give an explained decision and the next memory."""

from collections.abc import Iterable, Mapping, Sequence

from nodefleet.decide import guard
from nodefleet.decide.case import Case
from nodefleet.decide.pending_classes import Pending, PendingVotes, after_packing, before_packing, used_otherwise
from nodefleet.decide.pool import blind, decide_pool
from nodefleet.decide.resting import resting_since, resting_tells
from nodefleet.decide.scene import Scene
from nodefleet.decide.waiting import cannot_hold, waiting_for
from nodefleet.domain.decision import Decision
from nodefleet.domain.fleet import Phase, Worker, workers
from nodefleet.domain.memory import Level, Memory, PoolMemory
from nodefleet.domain.observation import ClusterView, Observation
from nodefleet.domain.operations import AlertKind, Tell
from nodefleet.domain.policy import Policy
from nodefleet.domain.wording import some
from nodefleet.domain.workload import Pod


def decide(seen: Observation, memory: Memory, policy: Policy) -> Decision:
    fleet = workers(seen, policy)
    cases = [Case.of(pool, policy, seen, memory.pool(pool.name), fleet) for pool in policy.pools]
    trust = guard.trusted(seen, memory, policy, [each for this in cases for each in this.unreadable])
    if trust.level is Level.PARTIAL:
        results = [blind(this, memory, trust) for this in cases]
        homeless = []
    else:
        pending = Pending.of(_pods(seen))
        scene, votes = _heard(Scene.of(seen, policy, fleet), cases, pending)
        results = [
            decide_pool(this, scene, waiting_for(this, scene.packings, pending, votes[this.pool.name]), memory, trust)
            for this in cases
        ]
        homeless = cannot_hold(scene.packings.nobody, "") if scene.packings else []
    resting = resting_since(fleet, policy, seen, memory.resting)
    return Decision(
        at=seen.at,
        cluster=seen.cluster,
        level=trust.level,
        pools=tuple(result.decision for result in results),
        tells=(*trust.tells, *_strays(fleet, policy), *homeless, *resting_tells(fleet, policy, resting, seen.at)),
        memory=Memory(
            level=trust.level,
            recovered_at=trust.recovered_at,
            looked_at=seen.at,
            pools=_known(seen, memory) | {result.decision.pool: result.memory for result in results},
            resting=resting,
        ),
        look_again="; ".join(result.look_again for result in results if result.look_again),
    )


def _known(seen: Observation, memory: Memory) -> dict[str, PoolMemory]:
    """What is known of pools stays known while the policy that names them cannot be read."""
    return dict(memory.pools) if seen.hold else {}


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


def _strays(fleet: Iterable[Worker], policy: Policy) -> list[Tell]:
    """Workers of a pool that the policy does not know are nobody's to remove, nor is what is left of them: a person
    decides."""
    strays = [
        worker
        for worker in fleet
        if policy.pool(worker.pool) is None and (worker.occupies or worker.phase is Phase.ORPHANED)
    ]
    if not strays:
        return []
    names = some(f"{worker.name} (pool {worker.pool})" for worker in strays)
    text = f"No pool of the policy owns {names}. Name the pool again, or remove them by hand."
    return [
        Tell(alert=AlertKind.CLEANUP_NEEDS_PERSON, pool="", subjects=tuple(worker.name for worker in strays), text=text)
    ]

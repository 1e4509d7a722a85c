"""decide(): the one way in. A look, the memory and the policy give an explained decision and the next memory."""

from collections.abc import Iterable

from nodefleet.decide import guard
from nodefleet.decide.case import Case
from nodefleet.decide.pool import blind, decide_pool
from nodefleet.decide.scene import Scene
from nodefleet.decide.waiting import cannot_hold, judged, uids_waiting, used_otherwise
from nodefleet.domain.decision import Decision
from nodefleet.domain.fleet import Phase, Worker, workers
from nodefleet.domain.memory import Level, Memory, PoolMemory
from nodefleet.domain.observation import Observation
from nodefleet.domain.operations import AlertKind, Tell
from nodefleet.domain.policy import Policy
from nodefleet.domain.wording import some


def decide(seen: Observation, memory: Memory, policy: Policy) -> Decision:
    fleet = workers(seen, policy)
    cases = [Case.of(pool, policy, seen, memory.pool(pool.name), fleet) for pool in policy.pools]
    trust = guard.trusted(seen, memory, policy, [each for this in cases for each in this.unreadable])
    if trust.level is Level.PARTIAL:
        results = [blind(this, memory, trust) for this in cases]
        homeless = []
    else:
        scene = _scene(seen, policy, fleet, cases)
        results = [decide_pool(this, scene, memory, trust) for this in cases]
        homeless = cannot_hold(scene.packings.nobody, "") if scene.packings else []
    return Decision(
        at=seen.at,
        cluster=seen.cluster,
        level=trust.level,
        pools=tuple(result.decision for result in results),
        tells=(*trust.tells, *_strays(fleet, policy), *homeless),
        memory=Memory(
            level=trust.level,
            recovered_at=trust.recovered_at,
            looked_at=seen.at,
            pools=_known(seen, memory) | {result.decision.pool: result.memory for result in results},
        ),
        look_again="; ".join(result.look_again for result in results if result.look_again),
    )


def _known(seen: Observation, memory: Memory) -> dict[str, PoolMemory]:
    """What is known of pools stays known while the policy that names them cannot be read."""
    return dict(memory.pools) if seen.hold else {}


def _scene(seen: Observation, policy: Policy, fleet: tuple[Worker, ...], cases: Iterable[Case]) -> Scene:
    """Pods that lost their vote are left out before anything is packed."""
    uids = uids_waiting(seen)
    muted = frozenset(uid for this in cases for uid in judged(this, uids)[1])
    in_vain = any(used_otherwise(this, uids - muted) for this in cases)
    return Scene(seen, policy, fleet, muted=muted, used_otherwise=in_vain)


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

"""How many nodes unschedulable pods buy.

With `steps.pending: packing` as many as they would fill, at once: nodes that boot count as capacity, so nothing is
bought twice, and waiting for a cooldown would save nothing.

With `steps.pending: steps` (seed 001), one node more than the ready ones; two when many pods wait, or when pods wait
while the CPU is busy. The growth cooldown holds.
With pod objects packing has a say too: never more nodes than the pods would fill, and none if they will fit on what
boots. With only a count the step rule stands alone. Pods count at once: every minute they wait is an outage for
someone.
"""

from dataclasses import dataclass

from nodefleet.decide.signals.votes import Calm, Floor, Look, Opinion, Steady, Vote
from nodefleet.domain.decision import BoundSource
from nodefleet.domain.policy import Pool


@dataclass(frozen=True, slots=True, kw_only=True)
class Unschedulable:
    """Pods that wait for a node of this pool, and how many new nodes they would fill."""

    count: int
    nodes: int | None = None  # from packing; none when only a count or no node template is known
    without_vote: int = 0  # pods that got a node and still wait, or that no node can hold


def pods_opinion(waiting: Unschedulable, look: Look, pool: Pool, cpu: float | None) -> Opinion:
    return Opinion(signal=BoundSource.PODS.value, vote=_vote(waiting, look, pool, cpu), value=float(waiting.count))


def at_once(opinion: Opinion, waiting: Unschedulable, pool: Pool) -> int | None:
    """The size that pending pods ask for and that does not wait for the growth cooldown; none if it does."""
    sized = pool.steps.pending == "packing" and waiting.nodes is not None
    return opinion.vote.nodes if sized and isinstance(opinion.vote, Floor) else None


def _vote(waiting: Unschedulable, look: Look, pool: Pool, cpu: float | None) -> Vote:
    if waiting.count == 0:
        ignored = f" ({waiting.without_vote} without a vote)" if waiting.without_vote else ""
        return Calm(reason=f"0 pods unschedulable{ignored}")
    step, why = _step(waiting.count, pool, cpu)
    by_step = look.covered + step
    sentence = f"{waiting.count} {'pod' if waiting.count == 1 else 'pods'} unschedulable{why}"
    if waiting.nodes is None:
        return Floor(nodes=by_step, reason=f"{sentence}: {look.covered} + {step} nodes")
    if waiting.nodes == 0:
        return Steady(f"{sentence}, but room for all on {look.capacity} nodes, booting ones included")
    by_packing = look.capacity + waiting.nodes
    filled = f"they would fill {waiting.nodes} more than {look.capacity}"
    if pool.steps.pending == "packing":
        return Floor(nodes=by_packing, reason=f"{sentence}: {filled}")
    return Floor(nodes=min(by_step, by_packing), reason=f"{sentence}: {look.covered} + {step} nodes, {filled}")


def _step(count: int, pool: Pool, cpu: float | None) -> tuple[int, str]:
    many, busy = pool.reactive.many_pods, pool.reactive.cpu.up
    if cpu is not None and cpu > busy:
        return pool.steps.urgent, f" while CPU {cpu:.1f} % > {busy:g} %"
    if count > many:
        return pool.steps.urgent, f" (more than {many})"
    return pool.steps.up, ""

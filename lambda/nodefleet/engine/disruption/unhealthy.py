"""Unhealthy workers, replaced one at a time, nodes with a stale cordon, and instances that cost without being capacity.

An unhealthy node is replaced first and then removed. When many are unhealthy it is the control plane or the network: an
operator is alerted, and for some time none is replaced.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from nodefleet.engine.disruption.candidates import new_removal
from nodefleet.model.alerts import AlertKind
from nodefleet.model.fleet import Count, Phase, Worker
from nodefleet.model.inventory import InstanceState
from nodefleet.model.names import pluralize, some
from nodefleet.model.operations import Create, Removal, RemovalReason, SendAlert, Step, Uncordon
from nodefleet.model.snapshot import Missing, Observation
from nodefleet.model.state import Loss
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Pool


def uncordon_stale(workers: Sequence[Worker], pool: Pool) -> list[Step]:
    """Uncordon nodes that carry our own cordon while no operation is open on them: no other rule does."""
    steps: list[Step] = []
    for worker in workers:
        node = worker.node
        if worker.phase is Phase.CORDONED and worker.operation is None and node and node.removal:
            text = f"{node.name} was cordoned by {node.removal}, which is no longer open. Its cordon is taken off."
            steps += [
                Uncordon(node.name, node.removal),
                SendAlert(alert=AlertKind.READMITTED, pool=pool.name, subjects=(node.name,), text=text),
            ]
    return steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Brake:
    """Many are unhealthy at once: more likely the control plane or the network than each of them."""

    since: datetime | None = None  # none: they are few
    until: datetime | None = None  # none: it does not hold, or no longer

    @property
    def holds(self) -> bool:
        return self.until is not None


def brake(workers: Sequence[Worker], pool: Pool, since: datetime | None, now: datetime) -> Brake:
    """One unhealthy worker may always be replaced. Of many none is, for some time; then one at a time, each only when
    its replacement is ready: a control plane that lets nodes join is not what is wrong."""
    ill = len(_list_unhealthy(workers))
    total = sum(worker.occupies for worker in workers)
    if ill <= max(1, total // pool.health.sick_one_in):
        return Brake()
    since = since or now
    until = since + pool.health.brake_limit
    return Brake(since=since, until=until if now < until else None)


def to_replace(losses: Sequence[Loss], held: Brake, pool: Pool) -> Sequence[Loss]:
    """The losses that ask for a replacement now."""
    if held.holds:
        return ()
    return losses[: pool.budgets.sick] if held.since else losses


def plan_replacements(
    workers: Sequence[Worker],
    pool: Pool,
    count: Count,
    losses: Sequence[Loss],
    held: Brake,
    observation: Observation,
    *,
    most: int | None = None,
) -> list[Step]:
    """Open removals for unhealthy workers whose replacement is there, or for which max leaves no room. `most`: what
    fleet.max leaves the pool."""
    ill = [worker for worker in workers if worker.phase is Phase.UNHEALTHY]
    told: list[Step] = [_many_unhealthy(_list_unhealthy(workers), workers, pool, held)] if held.since else []
    if held.holds:
        return told
    under_way = sum(isinstance(w.operation, Removal) and w.operation.why is RemovalReason.UNHEALTHY for w in workers)
    awaited = {loss.worker for loss in losses}
    full = count.occupied >= (pool.limits.max if most is None else most)
    settled = count.booting == 0 and count.capacity >= pool.limits.min
    ready_to_go = [worker for worker in ill if full or (settled and worker.id not in awaited)]
    steps: list[Step] = []
    for worker in ready_to_go[: max(0, pool.budgets.sick - under_way)]:
        reason = _describe_unhealthy(worker)
        removal = new_removal(
            worker, RemovalReason.UNHEALTHY, reason, observation.at + pool.removal.drain_timeout, observation
        )
        text = f"{worker.name} is {reason}; it is removed" + (" first, because max is reached." if full else ".")
        steps += [
            Create(removal),
            SendAlert(alert=AlertKind.UNHEALTHY, pool=pool.name, subjects=(worker.name,), text=text),
        ]
    return told + steps


def _list_unhealthy(workers: Sequence[Worker]) -> list[Worker]:
    return [worker for worker in workers if worker.phase is Phase.UNHEALTHY or worker.ailment]


def _describe_unhealthy(worker: Worker) -> str:
    node = worker.node
    since = f"{node.ready_changed_at:%H:%M:%S}" if node and node.ready_changed_at else "some time"
    heard = f", last heard of at {node.heartbeat_at:%H:%M:%S}" if node and node.heartbeat_at else ""
    return f"not ready since {since}{heard}"


def _many_unhealthy(ill: Sequence[Worker], workers: Sequence[Worker], pool: Pool, held: Brake) -> SendAlert:
    total = sum(worker.occupies for worker in workers)
    then = (
        f"None of them is removed, and none beyond min replaced, until {held.until:%H:%M:%S}"
        if held.until
        else f"They are replaced now, {pool.budgets.sick} at a time, as replacements become ready"
    )
    text = (
        f"{len(ill)} of {total} workers are unhealthy ({some(worker.name for worker in ill)}). {then}: "
        "look at the master and the network first."
    )
    return SendAlert(alert=AlertKind.MANY_UNHEALTHY, pool=pool.name, subjects=(), text=text)


# ── resting cost ─────────────────────────────────────────────────────────────────────────────────────────────────────
# Resting cost: instances that are paid for and are no capacity. Few, and for a short time, or an operator is alerted.
#
# Interrupted, failed, unhealthy and stopped workers, those with a cordon of ours that no removal needs any more and
# that no request removes, and workers of a pool that the policy does not have. Most of them end by other rules; this
# one notices when they do not, whatever the cause.


_NO_CAPACITY = frozenset({Phase.INTERRUPTED, Phase.JOIN_FAILED, Phase.UNHEALTHY, Phase.STOPPED})
_ENDING = (InstanceState.SHUTTING_DOWN, InstanceState.TERMINATED)


def resting_since(
    fleet: Sequence[Worker], policy: Policy, observation: Observation, before: Mapping[str, datetime]
) -> dict[str, datetime]:
    """Instances that rest, and since when. What cannot be seen now rests on."""
    if isinstance(observation.instances, Missing) or isinstance(observation.kubernetes, Missing):
        return dict(before)
    return {worker.id: before.get(worker.id, observation.at) for worker in fleet if _rests(worker, policy)}


def resting_alerts(
    fleet: Sequence[Worker], policy: Policy, since: Mapping[str, datetime], now: datetime
) -> tuple[SendAlert, ...]:
    rules = policy.resting
    late = {identity for identity, at in since.items() if now - at >= rules.longest}
    if not late and len(since) <= rules.most:
        return ()
    found = [worker for worker in fleet if worker.id in (late or since)]
    names = some(f"{worker.name} ({worker.phase.value}, pool {worker.pool})" for worker in found)
    long = f" for {rules.longest.total_seconds():.0f} s or longer" if late else ""
    number = len(late or since)
    why = "it stays, and terminate it if it is" if number == 1 else "they stay, and terminate those that are"
    text = (
        f"{pluralize(number, 'instance is', 'instances are')} paid for and no capacity{long}: {names}."
        f" Find out why {why} not needed."
    )
    return (SendAlert(alert=AlertKind.RESTING_COST, pool="", text=text, subjects=tuple(worker.id for worker in found)),)


def _rests(worker: Worker, policy: Policy) -> bool:
    if worker.instance is None or worker.instance.state in _ENDING:
        return False
    return worker.phase in _NO_CAPACITY or _is_stale_cordon(worker) or policy.pool(worker.pool) is None


def _is_stale_cordon(worker: Worker) -> bool:
    return worker.phase is Phase.CORDONED and worker.operation is None and not worker.held_by_person

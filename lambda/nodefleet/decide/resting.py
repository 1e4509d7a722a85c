"""Resting cost: instances that are paid for and are no capacity. Few, and for a short time, or an operator is alerted.

Interrupted, failed, unhealthy and stopped workers, those with a cordon of ours that no removal needs any more and that
nobody can take off, and workers of a pool that the policy does not have. Most of them end by other rules; this one
notices when they do not, whatever the cause.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from nodefleet.domain.alerts import AlertKind
from nodefleet.domain.fleet import Phase, Worker
from nodefleet.domain.machines import InstanceState
from nodefleet.domain.observation import Observation
from nodefleet.domain.operations import Tell
from nodefleet.domain.policy import Policy
from nodefleet.domain.readings import Missing
from nodefleet.domain.wording import counted, some

_NO_CAPACITY = frozenset({Phase.INTERRUPTED, Phase.JOIN_FAILED, Phase.UNHEALTHY, Phase.STOPPED})
_ENDING = (InstanceState.SHUTTING_DOWN, InstanceState.TERMINATED)


def resting_since(
    fleet: Sequence[Worker], policy: Policy, seen: Observation, before: Mapping[str, datetime]
) -> dict[str, datetime]:
    """Instances that rest, and since when. What cannot be seen now rests on."""
    if isinstance(seen.instances, Missing) or isinstance(seen.kubernetes, Missing):
        return dict(before)
    return {worker.id: before.get(worker.id, seen.at) for worker in fleet if _rests(worker, policy)}


def resting_tells(
    fleet: Sequence[Worker], policy: Policy, since: Mapping[str, datetime], now: datetime
) -> tuple[Tell, ...]:
    rules = policy.resting
    late = {identity for identity, at in since.items() if now - at >= rules.longest}
    if not late and len(since) <= rules.most:
        return ()
    found = [worker for worker in fleet if worker.id in (late or since)]
    names = some(f"{worker.name} ({worker.phase.value}, pool {worker.pool})" for worker in found)
    long = f" for {rules.longest.total_seconds():.0f} s or longer" if late else ""
    text = (
        f"{counted(len(late or since), 'instance is', 'instances are')} paid for and no capacity{long}: {names}."
        " Find out why they stay, and terminate those that nobody needs."
    )
    return (Tell(alert=AlertKind.RESTING_COST, pool="", text=text, subjects=tuple(worker.id for worker in found)),)


def _rests(worker: Worker, policy: Policy) -> bool:
    if worker.instance is None or worker.instance.state in _ENDING:
        return False
    return worker.phase in _NO_CAPACITY or _is_stale_cordon(worker) or policy.pool(worker.pool) is None


def _is_stale_cordon(worker: Worker) -> bool:
    return worker.phase is Phase.CORDONED and worker.operation is None and not worker.held_by_person

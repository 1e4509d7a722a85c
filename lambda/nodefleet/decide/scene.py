"""What all pools look at together: who runs where, which budgets hold, and how much room there is.

Each part is worked out when it is first asked for, and once a look: a quiet look pays for none of the dear ones.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from nodefleet.decide.case import Case
from nodefleet.decide.disruption import Ledger
from nodefleet.decide.packing import Outlook, Packings, outlook, packings
from nodefleet.decide.removal import Ground
from nodefleet.decide.scheduling.room import Room
from nodefleet.domain.fleet import Worker
from nodefleet.domain.memory import Backoff
from nodefleet.domain.observation import ClusterView, Observation
from nodefleet.domain.policy import Policy
from nodefleet.domain.workload import Pod


class Scene:
    def __init__(
        self,
        seen: Observation,
        policy: Policy,
        fleet: Sequence[Worker],
        *,
        muted: frozenset[str] = frozenset(),
        used_otherwise: bool = False,
    ) -> None:
        """`muted` are uids of pods that buy nothing any more. `used_otherwise`: others took the places of some."""
        self._seen = seen
        self._policy = policy
        self._fleet = fleet
        self._muted = muted
        self._used_otherwise = used_otherwise

    @cached_property
    def packings(self) -> Packings | None:
        """What the pods that wait need, by pool; none if only their number is known."""
        return packings(self._outlook) if self._outlook else None

    @cached_property
    def _outlook(self) -> Outlook | None:
        found = outlook(self._seen, self._policy, self._fleet)
        if found is None:
            return None
        waiting = tuple(pod for pod in found.waiting if pod.uid not in self._muted)
        return replace(found, waiting=waiting, used_otherwise=self._used_otherwise)

    @cached_property
    def _pods(self) -> Mapping[str, Sequence[Pod]] | None:
        view = self._seen.kubernetes
        if not isinstance(view, ClusterView) or view.pods is None:
            return None
        found: dict[str, list[Pod]] = defaultdict(list)
        for pod in view.pods:
            if pod.node:
                found[pod.node].append(pod)
        return found

    @cached_property
    def _ledger(self) -> Ledger:
        view = self._seen.kubernetes
        return Ledger(view.budgets, view.pods or ()) if isinstance(view, ClusterView) else Ledger((), ())

    def ground(self, this: Case, backoffs: tuple[Backoff, ...]) -> Ground:
        """What the choice of who leaves rests on."""
        target = next((each for each in self._seen.targets if each.pool == this.pool.name), None)
        zones = set(target.subnets) if target else {worker.zone for worker in this.workers}
        return Ground(
            pods=self._pods,
            ledger=self._ledger,
            room=self._outlook.room if self._outlook else Room(()),
            zones=len(zones),
            idle=this.readings.idle,
            backoffs=backoffs,
            now=self._seen.at,
        )

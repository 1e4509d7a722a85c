"""What all pools look at together: who runs where, which budgets hold, and how much room there is.

Each part is worked out when it is first asked for, and once a look.
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
from nodefleet.decide.scheduling.templates import Template
from nodefleet.domain.fleet import Worker
from nodefleet.domain.memory import Backoff, PoolMemory
from nodefleet.domain.observation import ClusterView, Observation
from nodefleet.domain.policy import Policy, Pool
from nodefleet.domain.workload import Pod


class Scene:
    def __init__(
        self,
        seen: Observation,
        found: Outlook | None,
        *,
        muted: frozenset[str] = frozenset(),
        used_otherwise: bool = False,
    ) -> None:
        """`muted` are uids of pods that buy nothing now. `used_otherwise`: others took the places of some."""
        self._seen = seen
        self._found = found
        self._muted = muted
        self._used_otherwise = used_otherwise

    @classmethod
    def of(cls, seen: Observation, policy: Policy, fleet: Sequence[Worker]) -> "Scene":
        return cls(seen, outlook(seen, policy, fleet))

    def without(self, muted: frozenset[str], *, used_otherwise: bool = False) -> "Scene":
        """The same, with these pods left out too."""
        return Scene(
            self._seen,
            self._found,
            muted=self._muted | muted,
            used_otherwise=self._used_otherwise or used_otherwise,
        )

    def templates(self, pool: str) -> tuple[Template, ...]:
        """What the pool could launch, as far as it is known."""
        return self._found.templates[pool] if self._found else ()

    @cached_property
    def packings(self) -> Packings | None:
        """What the pods that wait need, by pool; none if only their number is known."""
        if self._found is None:
            return None
        waiting = tuple(pod for pod in self._found.waiting if pod.uid not in self._muted)
        return packings(replace(self._found, waiting=waiting, used_otherwise=self._used_otherwise))

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

    def ground(self, this: Case, backoffs: tuple[Backoff, ...], unmeasured: frozenset[str] = frozenset()) -> Ground:
        """What the choice of who leaves rests on."""
        ground = self.ground_of(this.workers, this.before, this.pool)
        return replace(ground, idle=this.readings.idle, unmeasured=unmeasured, backoffs=backoffs)

    def ground_of(self, workers: Sequence[Worker], before: PoolMemory, pool: Pool) -> Ground:
        """The same for workers that nothing is measured of."""
        target = next((each for each in self._seen.targets if each.pool == pool.name), None)
        left = before.last_left
        zones = set(target.subnets) if target else {worker.zone for worker in workers}
        return Ground(
            pods=self._pods,
            ledger=self._ledger,
            room=self._found.room if self._found else Room(()),
            zones=len(zones),
            idle={},
            backoffs=before.backoffs,
            now=self._seen.at,
            settles=bool(left and self._seen.at - left < pool.removal.settle),
        )

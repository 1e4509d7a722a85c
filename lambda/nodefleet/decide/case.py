"""Everything that one pool's decision rests on, put together once."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from nodefleet.decide import inputs
from nodefleet.decide.capacity import counted, covered, vanished_members
from nodefleet.decide.inputs import Cached, Input
from nodefleet.decide.signals.demand.clear_time import with_peak
from nodefleet.decide.signals.votes import Look
from nodefleet.domain.decision import Count
from nodefleet.domain.fleet import Worker
from nodefleet.domain.memory import PoolMemory
from nodefleet.domain.observation import Observation
from nodefleet.domain.policy import Policy, Pool
from nodefleet.domain.readings import NOT_ASKED, NOTHING_READ, PoolReadings, Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    pool: Pool
    policy: Policy
    seen: Observation
    before: PoolMemory
    workers: tuple[Worker, ...]
    readings: PoolReadings
    count: Count
    most: int  # how many workers the pool may have: its max, or less if fleet.max leaves it less
    vanished: Mapping[str, datetime]  # members that are not shown any more, and since when
    look: Look
    cpu: Input
    memory: Input

    @classmethod
    def of(cls, pool: Pool, policy: Policy, seen: Observation, before: PoolMemory, fleet: tuple[Worker, ...]) -> "Case":
        if pool.strategy == "adaptive":  # pods that wait are sized like load: at once, by what they fill
            pool = replace(pool, steps=replace(pool.steps, pending="packing"))
        workers = tuple(worker for worker in fleet if worker.pool == pool.name)
        readings = seen.readings.get(pool.name, NOTHING_READ)
        count = counted(workers, seen, pool.name)
        gone = vanished_members(workers, pool, seen, before)
        return cls(
            pool=pool,
            policy=policy,
            seen=seen,
            before=before,
            workers=workers,
            readings=readings,
            count=replace(count, occupied=count.occupied + len(gone)),
            most=pool.limits.max,
            vanished=gone,
            look=Look(
                now=seen.at,
                covered=covered(workers, readings.cpu),
                capacity=count.capacity,
                peaks=with_peak(before.peaks, count.capacity, pool.custom, seen.at),
            ),
            cpu=inputs.fresh(readings.cpu, before.cached.get("cpu"), policy.trust, seen.at),
            memory=inputs.fresh(readings.memory, before.cached.get("memory"), policy.trust, seen.at),
        )

    @property
    def look_at_pods(self) -> Look:
        """Pods that wait now wait although every node that is ready now is there, whatever was measured last."""
        return replace(self.look, covered=covered(self.workers, NOT_ASKED))

    @property
    def cpu_percent(self) -> float | None:
        """The CPU as far as it is known, the last good reading included."""
        reading = self.cpu.reading if isinstance(self.cpu, Cached) else self.cpu
        return reading.value if isinstance(reading, Reading) else None

    @property
    def unreadable(self) -> tuple[str, ...]:
        """Readings that should be there and are not. A worker that is just ready has not been measured yet."""
        if not any(map(self.is_measurable, self.workers)):
            return ()
        both = {"CPU": self.cpu, "memory": self.memory}
        return tuple(
            f"{name} of pool {self.pool.name} unknown: {got.cause}"
            for name, got in both.items()
            if not isinstance(got, Reading)
        )

    def is_measurable(self, worker: Worker) -> bool:
        """There should be figures of it by now."""
        if not worker.is_capacity or worker.node is None or not worker.node.ready:
            return False
        since = worker.node.ready_changed_at
        return since is None or self.seen.at - since >= self.policy.trust.stale_after

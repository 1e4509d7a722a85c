"""What must never happen, whatever fails. Checked at every effect and kept with what led to it.

more workers than max         run + pending workers of a pool, without those a person launched or EC2 takes
forbidden target              the control plane, a foreign machine or a foreign node was to be touched
pods abandoned                a worker was terminated with pods on it that had to move; interrupted, dead and
                              unjoined ones excepted
budget broken                 an eviction left fewer healthy pods than the budget wants
by force                      a pod was deleted without grace from a node that nobody takes away
a person overruled            our uncordon took off, or our cordon covered, a cordon that a person had set
without the lease             a run acted that does not hold the lease; draining what EC2 takes is excepted
token reused                  a launch was sent again with other parameters
table                         a write that the real table would refuse for its size
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING

from nodefleet.domain.machines import Node
from nodefleet.domain.operations import Launch
from nodefleet.domain.workload import Budget, Pod
from nodefleet_tools.sim.budgets import status
from nodefleet_tools.sim.hooks import Run
from nodefleet_tools.sim.machines import PERSON, Machine

if TYPE_CHECKING:
    from nodefleet_tools.sim.world import World

_STUCK_AFTER = timedelta(seconds=10)  # past its grace, a pod is no longer waited for
_REMEMBERED = 20_000


class Rule(Enum):
    OVER_MAX = "more workers than max"
    FORBIDDEN = "forbidden target"
    ABANDONED = "pods abandoned"
    BUDGET = "budget broken"
    FORCED = "by force"
    PERSON = "a person overruled"
    LEASE = "without the lease"
    TOKEN = "token reused"  # noqa: S105  # the name of a rule
    TABLE = "table"


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    at: datetime
    run: str
    rule: Rule
    detail: str

    def __str__(self) -> str:
        return f"{self.at:%H:%M:%S} {self.run}: {self.rule.value}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Happened:
    """One effect, for the trace of what led to a violation."""

    at: datetime
    who: str
    what: str

    def __str__(self) -> str:
        return f"{self.at:%H:%M:%S} {self.who}: {self.what}"


class Guard:
    def __init__(self, world: "World") -> None:
        self._world = world
        self.violations: list[Violation] = []
        self.trace: deque[Happened] = deque(maxlen=_REMEMBERED)
        self.by_people: set[str] = set()  # nodes that a person has cordoned and not given back

    def broken(self, run: Run, rule: Rule, detail: str) -> None:
        self.violations.append(Violation(at=self._world.now, run=run.name, rule=rule, detail=detail))
        self.did(run.name, f"VIOLATION {rule.value}: {detail}")

    def did(self, who: str, what: str) -> None:
        self.trace.append(Happened(self._world.now, who, what))

    # ── EC2 ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def launched(self, run: Run, launch: Launch, made: Sequence[Machine]) -> None:
        if not made:
            self.did(run.name, f"launch {launch.id}: nothing new")
            return
        ids = ", ".join(machine.id for machine in made)
        self.did(run.name, f"launch {launch.id}: {ids} ({launch.market.value}, {launch.zone})")
        self.needs_lease(run, f"launch {ids}")
        self.within_max(run, launch.pool)

    def within_max(self, run: Run, pool: str) -> None:
        there = [
            machine
            for machine in self._world.ec2.live_workers(pool)
            if machine.by != PERSON and machine.doomed_at is None
        ]
        most = self._world.most(pool)
        if len(there) > most:
            self.broken(run, Rule.OVER_MAX, f"{len(there)} workers in pool {pool}, and max is {most}")

    def terminated(self, run: Run, machine: Machine) -> None:
        self.did(run.name, f"terminate {machine.id}")
        self.needs_lease(run, f"terminate {machine.id}")
        node = self._world.kube.node_of(machine.id)
        if node is None or not node.ready or machine.doomed_at is not None or not machine.live:
            return
        left = [pod for pod in self._world.kube.pods_on(node.name) if self._had_to_move(pod)]
        if left:
            names = ", ".join(pod.key for pod in left)
            self.broken(run, Rule.ABANDONED, f"{machine.id} was terminated with {names} on {node.name}")

    def _had_to_move(self, pod: Pod) -> bool:
        if not pod.movable:
            return False
        return pod.deleted_at is None or self._world.now <= pod.deleted_at + pod.grace + _STUCK_AFTER

    # ── Kubernetes ───────────────────────────────────────────────────────────────────────────────────────────────

    def cordoned(self, run: Run, node: Node) -> None:
        self.did(run.name, f"cordon {node.name}")
        if not self._taken_by_ec2(node):
            self.needs_lease(run, f"cordon {node.name}")
        if node.name in self.by_people and node.cordoned:
            self.broken(run, Rule.PERSON, f"{node.name} was cordoned by a person, and our cordon covers it")

    def uncordoned(self, run: Run, node: Node) -> None:
        self.did(run.name, f"uncordon {node.name}")
        self.needs_lease(run, f"uncordon {node.name}")
        if node.name in self.by_people:
            self.broken(run, Rule.PERSON, f"{node.name} was cordoned by a person, and we uncordoned it")

    def evicted(self, run: Run, pod: Pod, budget: Budget | None) -> None:
        self.did(run.name, f"evict {pod.key} from {pod.node}")
        node = self._world.kube.nodes.get(pod.node or "")
        if node is not None and not self._taken_by_ec2(node):
            self.needs_lease(run, f"evict {pod.key}")
        if budget is None:
            return
        now = status(budget, tuple(self._world.kube.pods.values()))
        if now.current_healthy < now.desired_healthy:
            detail = f"{pod.key} was evicted: {now.current_healthy} healthy, {budget.key} wants {now.desired_healthy}"
            self.broken(run, Rule.BUDGET, detail)

    def forced(self, run: Run, pod: Pod) -> None:
        self.did(run.name, f"delete {pod.key} by force from {pod.node}")
        node = self._world.kube.nodes.get(pod.node or "")
        if node is not None and node.ready and not self._taken_by_ec2(node):
            self.broken(run, Rule.FORCED, f"{pod.key} on {pod.node}, which nobody takes away")

    def node_deleted(self, run: Run, node: Node) -> None:
        self.did(run.name, f"delete node {node.name}")
        self.needs_lease(run, f"delete node {node.name}")

    # ── the lease ────────────────────────────────────────────────────────────────────────────────────────────────

    def needs_lease(self, run: Run, what: str) -> None:
        held = self._world.table.lease
        if held is None or run.fence != held.fence:
            holder = f"{held.owner} holds it" if held else "nobody holds it"
            self.broken(run, Rule.LEASE, f"{what} with fence {run.fence}: {holder}")

    def _taken_by_ec2(self, node: Node) -> bool:
        machine = self._world.ec2.machines.get(node.instance)
        return machine is None or machine.doomed_at is not None or not machine.live

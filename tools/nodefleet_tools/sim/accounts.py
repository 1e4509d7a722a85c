"""What runs write down, held against what they do: the audit, the lease, wake-ups, and what a decision counted.

Nothing is done that is not on record: every effect belongs to an open operation that a recorded decision opened, or
stands in a recorded plan itself. Draining what EC2 takes is excepted: it must go on while nothing can be recorded, and
is written on the node instead.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from nodefleet.model.decision import Decision, PoolDecision
from nodefleet.model.inventory import Node, Notice, NoticeKind
from nodefleet.model.operations import (
    Assign,
    Cleanup,
    Create,
    Launch,
    Operation,
    Removal,
    RemovalReason,
    Save,
    Step,
    Uncordon,
)
from nodefleet.model.state import Level
from nodefleet.ports import Changes, Lease
from nodefleet_tools.sim.hooks import Run
from nodefleet_tools.sim.instances import SimulatedInstance
from nodefleet_tools.sim.rules import Rule

if TYPE_CHECKING:
    from nodefleet_tools.sim.invariants import Guard
    from nodefleet_tools.sim.world import World

_CLOCKS = timedelta(seconds=30)  # a run's clock may be wrong by so much
LEAD_CLOCKS = timedelta(minutes=2)  # by which a run may take a scheduled change to be near early, or late
OLD_VIEW = timedelta(seconds=90)  # what a run was told of Kubernetes may be so old
_SEEN_LATE = timedelta(minutes=5)  # an instance that ended may be taken to be there for so long: lists lag


class Accounts:
    def __init__(self, guard: "Guard", world: "World") -> None:
        self._guard = guard
        self._world = world
        self._opened: set[str] = set()  # operations that a recorded decision opened
        self._assigned: set[tuple[str, str]] = set()  # instance and pool, by a recorded plan
        self._let_in: set[tuple[str, str]] = set()  # node and removal: uncordons that stand in a recorded plan
        self.answered: dict[str, datetime] = {}  # instances that a stored launch names, and since when
        self.illegible: set[str] = set()  # instances whose notices cannot be read: what EC2 said of them is not known

    # ── effects ──────────────────────────────────────────────────────────────────────────────────────────────────

    def launched(self, run: Run, launch: Launch) -> None:
        self.needs_operation(run, "launch", launch.id)

    def terminated(self, run: Run, machine: SimulatedInstance) -> None:
        self._needs_one(run, f"terminate {machine.id}", _ends(self._operations(), machine.id))

    def marked(self, run: Run, machine: SimulatedInstance) -> None:
        launches = [each for each in self._operations() if each.id == machine.operation or _starts(each, machine.id)]
        self._needs_one(run, f"tag {machine.id}", launches)

    def assigned(self, run: Run, machine: SimulatedInstance, pool: str) -> None:
        if not (_by_hand(run) or (machine.id, pool) in self._assigned):
            detail = f"tag {machine.id} as a worker of pool {pool}: no recorded plan asks for it"
            self._guard.broken(run.name, Rule.UNRECORDED, detail)

    def node_deleted(self, run: Run, node: Node) -> None:
        of_node = (*_ends(self._operations(), node.name), *_ends(self._operations(), node.instance))
        self._needs_one(run, f"delete node {node.name}", of_node)

    def emptied(self, run: Run, node: Node, what: str) -> None:
        removals = [each for each in _ends(self._operations(), node.instance) if isinstance(each, Removal)]
        self._needs_one(run, what, removals)

    def uncordoned(self, run: Run, node: Node, removal: str) -> None:
        if (node.name, removal) not in self._let_in:
            self._needs_one(run, f"uncordon {node.name}", _ends(self._operations(), node.instance), removal)

    def needs_operation(self, run: Run, what: str, identity: str) -> None:
        self._needs_one(run, what, [each for each in self._operations() if each.id == identity], identity)

    def _needs_one(self, run: Run, what: str, found: Sequence[Operation], wanted: str = "") -> None:
        if _by_hand(run) or any(each.id in self._opened for each in found):
            return
        missing = f"operation {wanted} is not open" if wanted else "no open operation asks for it"
        self._guard.broken(run.name, Rule.UNRECORDED, f"{what}: {missing}")

    def _operations(self) -> tuple[Operation, ...]:
        return self._world.table.operations

    # ── what is read and written ─────────────────────────────────────────────────────────────────────────────────

    def looked(self, run: Run) -> None:
        """The state is read under the lease, or right before it for the run's first iteration."""
        table = self._world.table
        if run.fence is None:
            run.looked_before = self._world.now, table.wake, self._interrupted()
        elif table.lease is not None and run.fence == table.lease.fence:
            run.looked_at, run.wake_seen, run.interrupted = self._world.now, table.wake, self._interrupted()

    def wrote(self, run: Run, changes: Changes) -> None:
        if _by_hand(run):
            return
        held = self._world.table.lease
        if held is None or run.fence != held.fence:
            holder = f"{held.owner} holds the lease" if held else "the lease is free"
            self._guard.broken(run.name, Rule.LEASE, f"wrote with fence {run.fence}: {holder}")
        if changes.decision is not None:
            if changes.decision.cut:  # of a long plan only the beginning is on record
                self._opened.update(operation.id for operation in changes.put)
            for pool in changes.decision.decision.pools:
                self._planned(run, pool.plan, pool.pool)
            self._planned(run, changes.decision.decision.plan)
            if changes.decision.decision.level is not Level.PARTIAL:
                self._saw(run, changes, changes.decision.decision)
        for operation in changes.put:
            if isinstance(operation, Launch):
                self.answered = {**dict.fromkeys(operation.instances, self._world.now), **self.answered}
            if operation.id not in self._opened:
                detail = f"operation {operation.id} was opened without a decision"
                self._guard.broken(run.name, Rule.UNRECORDED, detail)

    def _saw(self, run: Run, changes: Changes, decision: Decision) -> None:
        self._guard.leftovers.looked()
        for pool in decision.pools:
            self._counted(run, pool, changes)

    def _planned(self, run: Run, plan: Sequence[Step], pool: str = "") -> None:
        for step in plan:
            match step:
                case Create(operation) | Save(operation):
                    self._opened.add(operation.id)
                    leaves = isinstance(operation, Removal) and operation.why is RemovalReason.VOLUNTARY
                    if leaves and pool in run.unread and self._was_measured(pool):
                        detail = f"{operation.id}: {run.unread[pool]}"
                        self._guard.broken(run.name, Rule.BLIND, detail)
                case Assign():
                    self._assigned.add((step.instance, step.pool))
                case Uncordon(node, removal):
                    self._let_in.add((node, removal))
                case _:
                    pass

    def _was_measured(self, pool: str) -> bool:
        """Some node has been ready for so long that readings of it should be there. Nothing can be read of one whose
        instance has ended, though it seems ready for a while."""
        young = self._world.policy.trust.stale_after + _CLOCKS
        live = {machine.id for machine in self._world.ec2.live_workers(pool)}
        nodes = [node for node in self._world.kube.nodes.values() if node.instance in live and node.ready]
        return any(node.ready_changed_at and self._world.now - node.ready_changed_at > young for node in nodes)

    def _counted(self, run: Run, pool: PoolDecision, changes: Changes) -> None:
        """No more than there can be: instances that no notice speaks of, what was asked for, and ready nodes."""
        world = self._world
        interrupted = (run.interrupted & self._interrupted()) - {notice.instance for notice in changes.retire}
        there = {
            machine.id
            for machine in world.ec2.machines.values()
            if machine.pool == pool.pool and machine.worker and self._may_be_there(machine, run)
        }
        nodes = [node for node in world.kube.nodes.values() if node.pool == pool.pool and self._may_be_ready(node, run)]
        ghosts = {node.instance for node in nodes} - there
        asked = sum(each.expected for each in self._operations() if isinstance(each, Launch) and each.pool == pool.pool)
        most = len((there | ghosts) - interrupted) + asked
        if pool.count.capacity > most:
            self._guard.broken(
                run.name, Rule.COUNTED, f"{pool.count.capacity} in pool {pool.pool}, and there are {most} at most"
            )

    def _interrupted(self) -> frozenset[str]:
        """What EC2 takes, as far as the table says so; a scheduled change once every clock says that it is near."""
        machines, now = self._world.ec2.machines, self._world.now
        found = set()
        for notice in self._world.table.all("notice", Notice):
            if notice.kind is NoticeKind.REBALANCE or notice.instance in self.illegible:
                continue
            # Of several changes of one instance only what is recorded is known: each by its own event.
            scheduled = notice.kind is NoticeKind.SCHEDULED_CHANGE
            machine = machines.get(notice.instance)
            since = machine.dooms.get(notice.event if scheduled else notice.kind.value) if machine else None
            if since is not None and now - since >= (2 * LEAD_CLOCKS if scheduled else timedelta(0)):
                found.add(notice.instance)
        return frozenset(found)

    def _may_be_there(self, machine: SimulatedInstance, run: Run) -> bool:
        return machine.ended_at is None or (run.looked_at or self._world.now) - machine.ended_at < _SEEN_LATE

    def _may_be_ready(self, node: Node, run: Run) -> bool:
        """It is ready, or was a moment ago: a view of Kubernetes may be so old."""
        changed = node.ready_changed_at
        return node.ready or (changed is not None and (run.looked_at or self._world.now) - changed < OLD_VIEW)

    # ── the lease and wake-ups ───────────────────────────────────────────────────────────────────────────────────

    def acquired(self, run: Run) -> None:
        run.unheard = ""
        if run.looked_before is not None:
            run.looked_at, run.wake_seen, run.interrupted = run.looked_before

    def released(self, run: Run, lease: Lease) -> None:
        """What is held is let go of by this run."""
        held = self._world.table.lease
        if held is not None and (held.owner, held.fence) != (lease.owner, lease.fence):
            detail = f"let go of lease {held.fence}, which is {held.owner}'s"
            self._guard.broken(run.name, Rule.LEASE, detail)
        if run.wake_seen is not None and run.wake_seen != self._world.table.wake:
            run.unheard = f"woken {self._world.table.wake - run.wake_seen} times since its last iteration"

    def ended(self, run: Run, *, had_time: bool) -> None:
        """The run is over, and nothing went wrong in it."""
        if run.unheard and had_time:
            self._guard.broken(run.name, Rule.WAKE, f"{run.unheard}, and it let go")


def _starts(operation: Operation, instance: str) -> bool:
    return isinstance(operation, Launch) and instance in operation.starts


def _by_hand(run: Run) -> bool:
    """No iteration ran: a test drives the ports and keeps no records."""
    return run.looked_at is None


def _ends(operations: tuple[Operation, ...], target: str) -> list[Operation]:
    """Removals and cleanups of this instance or node."""
    return [
        each
        for each in operations
        if (isinstance(each, Removal) and target and target in (each.instance, each.node))
        or (isinstance(each, Cleanup) and each.target == target)
    ]

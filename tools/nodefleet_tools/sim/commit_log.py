"""The commits of the runs while a scenario is played: decisions, events, launches, drains."""

from collections import defaultdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from nodefleet.engine.target import resolve_target
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Action, BoundSource, DecisionRecord, Event, PoolDecision
from nodefleet.model.names import some
from nodefleet.model.operations import CancelRemoval, Create, Launch, Operation, Purpose, Removal, RemovalReason
from nodefleet_tools.sim.hooks import Call, Moment
from nodefleet_tools.sim.scenario_result import Decided, Mark, MarkKind
from nodefleet_tools.sim.world import World

if TYPE_CHECKING:
    from nodefleet.ports import Changes

# The decision says it already, or the scenario.
_TOLD_ELSEWHERE = frozenset({AlertKind.SCALE_UP, AlertKind.SCALED_BY_OPERATOR, AlertKind.PAUSED})


class CommitLog:
    def __init__(self, world: World) -> None:
        self.told: list[AlertKind] = []
        self.launched: dict[str, datetime] = {}  # launch → when it was decided
        self.drains: list[timedelta] = []  # from the decision to the end of each voluntary removal
        self._world = world
        self._marks: list[Mark] = []
        self._gone: defaultdict[datetime, list[str]] = defaultdict(list)  # workers that left, by when they were gone
        self._records: dict[str, DecisionRecord] = {}
        self._events: set[str] = set()
        self._removals: dict[str, datetime] = {}  # voluntary ones that are under way
        world.faults.hooks.append(self._call)

    @property
    def decided(self) -> list[Decided]:
        return [each for record in self._records.values() for each in decided(record)]

    @property
    def marks(self) -> list[Mark]:
        """In the order of time. Workers that were gone at the same moment are one mark."""
        gone = (Mark(at=at, kind=MarkKind.REMOVED, title="", text=_left(names)) for at, names in self._gone.items())
        return sorted([*self._marks, *gone], key=lambda mark: mark.at)

    def say(self, text: str) -> None:
        """What the scenario does."""
        self._marks.append(Mark(at=self._world.now, kind=MarkKind.HAPPENED, title="", text=text))

    def hear(self, event: Event) -> None:
        """What operators are told. Each thing once."""
        if event.id in self._events:
            return
        self._events.add(event.id)
        self.told.append(event.kind)
        if event.kind is AlertKind.SCALE_DOWN:
            self._gone[event.at] += event.subjects  # why it went stands at the decision
        elif event.kind not in _TOLD_ELSEWHERE:
            self._marks.append(Mark(at=event.at, kind=MarkKind.WARNING, title=event.kind.value, text=event.text))

    def _call(self, call: Call) -> None:
        if call.method != "commit" or call.moment is not Moment.AFTER:
            return
        changes: Changes = call.arguments[1]
        for operation in changes.put:
            self._under_way(operation)
        for identity in changes.drop:
            began = self._removals.pop(identity, None)
            if began is not None:
                self.drains.append(self._world.now - began)
        if changes.decision is not None:
            self._decision(changes.decision)
        for event in changes.events:
            self.hear(event)

    def _under_way(self, operation: Operation) -> None:
        if isinstance(operation, Launch):
            self.launched.setdefault(operation.id, operation.started)
        elif isinstance(operation, Removal) and operation.why is RemovalReason.VOLUNTARY:
            self._removals[operation.id] = operation.started

    def _decision(self, record: DecisionRecord) -> None:
        if record.id not in self._records:
            waited = self._waited(record.at)
            self._marks += (_mark(each, waited) for each in decided(record))
        self._records[record.id] = record  # it is written again with what was done

    def _waited(self, at: datetime) -> timedelta | None:
        since = [pod.unschedulable_since for pod in self._world.kube.unbound() if pod.unschedulable_since is not None]
        return at - min(since) if since else None


def _left(names: list[str]) -> str:
    return f"{some(names)} {'was' if len(names) == 1 else 'were'} drained and removed."


def decided(record: DecisionRecord) -> list[Decided]:
    """What an iteration decided to change."""
    return [_decided(record.at, pool) for pool in record.decision.pools if pool.action is not Action.HOLD]


def _decided(at: datetime, pool: PoolDecision) -> Decided:
    by = resolve_target(pool.bounds).by
    launches = [step.operation for step in pool.plan if isinstance(step, Create) and isinstance(step.operation, Launch)]
    bought = any(launch.purpose is Purpose.GROW for launch in launches)
    back = any(isinstance(step, CancelRemoval) for step in pool.plan)
    return Decided(
        at=at,
        pool=pool.pool,
        action=pool.action,
        before=pool.count.capacity,
        to=pool.target,
        by=by.source if by else "",
        restoring=pool.action is Action.GROW and not bought and not back,
        reason=pool.reason,
    )


def _mark(each: Decided, waited: timedelta | None) -> Mark:
    grown = MarkKind.REPLACE if each.restoring else MarkKind.GROW
    kind = MarkKind.SHRINK if each.action is Action.SHRINK else grown
    # The title says "Growing 2 → 3" already.
    reason = each.reason.partition(": ")[2] or each.reason
    for_pods = kind is MarkKind.GROW and each.by == BoundSource.PODS.value
    return Mark(
        at=each.at,
        kind=kind,
        title=f"{each.before} → {each.to}",
        text=reason,
        waited=waited if for_pods else None,
    )

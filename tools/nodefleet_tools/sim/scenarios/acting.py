"""What happens during a scenario, done in its world at its time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TypeAlias, assert_never

from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Event
from nodefleet.model.inventory import Market, Notice
from nodefleet.model.names import pluralize
from nodefleet.model.snapshot import Command, Pause, Scale
from nodefleet_tools.sim.hooks import Call, Hook, Moment
from nodefleet_tools.sim.scenarios.happenings import (
    OF_THE_LOAD,
    PARTS,
    BudgetTightened,
    CapacityMissing,
    Happening,
    JoinsFail,
    PartAway,
    PersonPauses,
    PersonScales,
    SpotInterruption,
    When,
    WorkerFails,
    WorkloadScaled,
)
from nodefleet_tools.sim.scenarios.staging import Stage
from nodefleet_tools.sim.times_of_day import moment
from nodefleet_tools.sim.world import World

Alarm: TypeAlias = Callable[[Sequence[Notice]], None]
Order: TypeAlias = Callable[[Command, Event], None]
Say: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlets:
    """Where happenings lead."""

    alarm: Alarm  # EC2's warning reaches the function
    order: Order  # an operator's command reaches the table, and wakes a run
    say: Say  # what happened, in a sentence


def arrange(stage: Stage, to: Outlets) -> None:
    """Put the scenario's happenings on the clock. A fixed fleet has only those of the load."""
    for happening in stage.scenario.events:
        if stage.fixed is None or isinstance(happening, OF_THE_LOAD):
            at = moment(happening.at, stage.scenario.starts)
            stage.world.clock.at(at, _Act(stage, to, happening))


@dataclass(frozen=True, slots=True)
class _Act:
    stage: Stage
    to: Outlets
    happening: Happening

    def __call__(self) -> None:
        world, happening = self.stage.world, self.happening
        match happening:
            case SpotInterruption():
                self._interrupt(world, happening)
            case CapacityMissing():
                self._refuse(world, happening)
            case PartAway():
                port, name = PARTS[happening.part]
                world.away(port, for_seconds=happening.lasting.total_seconds())
                self.to.say(f"{name} does not answer")
                self._later(happening.lasting, lambda: self.to.say(f"{name} answers again"))
            case BudgetTightened():
                self._begin(happening.when, lambda: self._tighten(world, happening))
            case WorkloadScaled():
                workload = world.controllers.named(happening.workload)
                world.controllers.scale(workload, happening.replicas)
                self.to.say(f"{happening.workload} is scaled to {pluralize(happening.replicas, 'replica', 'replicas')}")
            case WorkerFails():
                self._silence(world, happening)
            case JoinsFail():
                self._no_joins(world, happening)
            case PersonScales():
                self._scale(world, happening)
            case PersonPauses():
                self._pause(world, happening)
            case _:
                assert_never(happening)

    def _begin(self, when: When | None, act: Callable[[], None]) -> None:
        match when:
            case None:
                act()
            case When.A_DRAIN_BEGINS:
                self._once_a_drain_begins(self.stage.world, act)
            case _:
                assert_never(when)

    def _later(self, duration: timedelta, act: Callable[[], None]) -> None:
        self.stage.world.clock.after(duration.total_seconds(), act)

    def _interrupt(self, world: World, happening: SpotInterruption) -> None:
        spot = [
            machine
            for machine in world.ec2.live_workers()
            if machine.market is Market.SPOT and machine.interrupted_at is None and world.kube.node_of(machine.id)
        ]
        taken = spot[: happening.workers]
        if not taken:
            self.to.say("EC2 wants Spot workers back, and there are none")
            return
        notices = [world.interrupt(machine.id) for machine in taken]
        names = ", ".join(world.node_of(machine).name for machine in taken)
        self.to.say(f"EC2 takes {names} in two minutes (Spot interruption)")
        self.to.alarm(notices)

    def _refuse(self, world: World, happening: CapacityMissing) -> None:
        line = (happening.type, happening.zone, happening.market)
        words = [happening.type or "", happening.market.value if happening.market else "", happening.zone or ""]
        what = " ".join(filter(None, words)) or "anything"
        world.shop.refuse(type_=happening.type, zone=happening.zone, market=happening.market)
        self.to.say(f"EC2 has no capacity for {what}")

        def back() -> None:
            world.shop.refusals.pop(line, None)
            self.to.say(f"EC2 has {what} again")

        self._later(happening.lasting, back)

    def _tighten(self, world: World, happening: BudgetTightened) -> None:
        key, before = next(
            (key, budget) for key, budget in world.kube.budgets.items() if budget.name == f"{happening.workload}-pdb"
        )
        world.kube.budgets[key] = replace(before, min_available=None, max_unavailable=happening.max_unavailable)
        world.kube.changed()
        because = f": {happening.because}" if happening.because else ""
        self.to.say(f"The budget of {happening.workload} allows {happening.max_unavailable} to be away{because}")

        def back() -> None:
            world.kube.budgets[key] = before
            world.kube.changed()
            self.to.say(f"The budget of {happening.workload} is as it was before")

        self._later(happening.lasting, back)

    def _once_a_drain_begins(self, world: World, act: Callable[[], None]) -> None:
        def hook(call: Call) -> None:
            if call.name != "cluster.cordon" or call.moment is not Moment.AFTER:
                return
            _, instance = call.arguments
            if world.ec2.machines[instance].interrupted_at is None:  # EC2 does not take it: it leaves of our own accord
                world.faults.hooks.remove(waiting)
                act()

        waiting: Hook = hook
        world.faults.hooks.append(waiting)

    def _silence(self, world: World, happening: WorkerFails) -> None:
        node = next(iter(world.ready_nodes(world.policy.pools[0].name)), None)
        if node is None:
            return
        seconds = happening.lasting.total_seconds() if happening.lasting else None
        world.nodes.silence(node.name, for_seconds=seconds)
        self.to.say(f"{node.name} falls silent")

    def _no_joins(self, world: World, happening: JoinsFail) -> None:
        before = world.kube.settings.never_joins
        world.kube.settings.never_joins = 1.0
        self.to.say("New instances do not get to the cluster")

        def back() -> None:
            world.kube.settings.never_joins = before
            self.to.say("New instances join again")

        self._later(happening.lasting, back)

    def _scale(self, world: World, happening: PersonScales) -> None:
        until = world.now + happening.lasting
        command = Scale(
            pool=happening.pool,
            nodes=happening.nodes,
            at_least=happening.at_least,
            by="an operator",
            reason=happening.because,
            until=until,
        )
        size = pluralize(happening.nodes, "node", "nodes")
        text = f"An operator asks for {size} until {until:%H:%M}: {happening.because}"
        self.to.say(text)
        self.to.order(command, self._told(AlertKind.SCALED_BY_OPERATOR, text))

    def _pause(self, world: World, happening: PersonPauses) -> None:
        until = world.now + happening.lasting
        what = "the scale-down" if happening.scale_down_only else "scaling"
        text = f"An operator pauses {what} until {until:%H:%M}: {happening.because}"
        self.to.say(text)
        command = Pause(
            by="an operator", reason=happening.because, until=until, scale_down_only=happening.scale_down_only
        )
        self.to.order(command, self._told(AlertKind.PAUSED, text))

    def _told(self, kind: AlertKind, text: str) -> Event:
        world = self.stage.world
        return Event(id=f"{kind.value}-{world.now.isoformat()}", at=world.now, cluster=world.name, kind=kind, text=text)

"""One seed from beginning to end: an hour of trouble, then everything is well again, and it has to come to rest."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from nodefleet_tools.sim.chaos.fault_injection import Strikes
from nodefleet_tools.sim.chaos.incidents import befall
from nodefleet_tools.sim.chaos.invocations import TICK, Invocations
from nodefleet_tools.sim.chaos.plan import TROUBLE, Incident, Plan
from nodefleet_tools.sim.chaos.quiescence import PATIENCE, Rest, calm_down
from nodefleet_tools.sim.chaos.scene import staged
from nodefleet_tools.sim.chaos.stage import Stage
from nodefleet_tools.sim.rules import Happened, Violation

_JITTER = 3.0  # seconds by which a tick comes late


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came of a seed."""

    seed: int
    violations: tuple[Violation, ...] = ()
    trace: tuple[Happened, ...] = ()
    figures: Counter[str] = field(default_factory=Counter)

    @property
    def first(self) -> Violation | None:
        return next(iter(self.violations), None)


def play(plan: Plan) -> Verdict:
    world = staged(plan)
    figures: Counter[str] = Counter()
    strikes = Strikes(world, plan.rates, plan.random("strikes"), figures, look_takes=plan.look_takes)
    stage = Stage(
        plan=plan,
        world=world,
        strikes=strikes,
        invocations=Invocations(plan, world, strikes, figures),
        figures=figures,
        snapshot=tuple(node for node in world.kube.nodes.values() if node.pool),
    )
    world.guard.clock_error = timedelta(seconds=plan.skew)
    _trouble(stage, plan.incidents)
    if not world.violations:
        _calm(stage)
    stage.invocations.turns.end()
    figures["seconds"] = round((world.now - world.start).total_seconds())
    return Verdict(seed=plan.seed, violations=tuple(world.violations), trace=tuple(world.guard.trace), figures=figures)


def _trouble(stage: Stage, incidents: Sequence[Incident]) -> None:
    world, random = stage.world, stage.plan.random("schedule")
    for incident in incidents:
        world.clock.after(incident.after, partial(befall, stage, incident))
    start = world.now
    for number in range(TROUBLE // TICK):
        world.clock.at(start + number * TICK + timedelta(seconds=random.uniform(0, _JITTER)), stage.invocations.tick)
    for number in range(TROUBLE // TICK):
        world.clock.advance_to(start + (number + 1) * TICK)
        if world.violations:
            return


def _calm(stage: Stage) -> None:
    """Ticks go on until everything is at rest, or for as long as that may take."""
    world = stage.world
    calm_down(stage)
    rest = Rest(stage)
    start = world.now
    for number in range(PATIENCE // TICK):
        stage.invocations.tick()
        world.clock.advance_to(start + (number + 1) * TICK)
        if world.violations or rest.reached():
            return
    rest.not_reached()

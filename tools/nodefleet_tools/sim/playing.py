"""Plays a scenario: the shipped loop at every tick, everything else on the world's clock, and fixed fleets beside it.

The schedule starts a run at every interval, as EventBridge does; an EC2 warning starts the interruption handler's code
at once; unschedulable pods start an urgent run within seconds (`pending_watch`), as does an operator's command. Runs
go on side by side (`turns`), and nothing waits for a real clock.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import TypeAlias

from nodefleet.engine.signals.evaluate import learn_profile
from nodefleet.errors import NodeFleetError
from nodefleet.model.decision import Event
from nodefleet.model.inventory import Notice
from nodefleet.model.snapshot import Command, Reading
from nodefleet.model.state import HourLoad, LoopState, Memory, PoolMemory
from nodefleet.reconcile.emergency_drain import drain_interrupted
from nodefleet.reconcile.run import run
from nodefleet_tools.sim import time_series
from nodefleet_tools.sim.cooperative_scheduler import CooperativeScheduler
from nodefleet_tools.sim.figures import figures
from nodefleet_tools.sim.hooks import KilledError
from nodefleet_tools.sim.metrics import LoadHistory
from nodefleet_tools.sim.pending_watch import PendingWatch
from nodefleet_tools.sim.recording import Recorder
from nodefleet_tools.sim.scenario_result import Fixed, ScenarioResult
from nodefleet_tools.sim.scenarios.acting import Outlets, arrange
from nodefleet_tools.sim.scenarios.checking import checked
from nodefleet_tools.sim.scenarios.model import Scenario
from nodefleet_tools.sim.scenarios.staging import Stage, stage
from nodefleet_tools.sim.traces import Points
from nodefleet_tools.sim.world import World

_DAY = timedelta(days=1)
_TICK = timedelta(seconds=120)  # what a run is given; it is over well before
_WARNED = timedelta(seconds=150)

Progress: TypeAlias = Callable[[str, float], None]  # what is being played, and how much of it is done (0 to 1)


def play(
    scenario: Scenario, *, traces: Mapping[str, Points] | None = None, progress: Progress | None = None
) -> ScenarioResult:
    """All of it, with its checks."""
    tell = progress or (lambda _what, _done: None)
    scene = stage_with_history(scenario, traces, tell)
    recorder = ScenarioRun(scene, lambda done: tell(scenario.name, done)).play()
    fixed = tuple(_fixed(scenario, traces, nodes, tell) for nodes in scenario.compare)
    played = _played(scenario, recorder, fixed)
    return replace(played, checks=checked(played, scenario))


def stage_with_history(
    scenario: Scenario, traces: Mapping[str, Points] | None = None, progress: Progress | None = None
) -> Stage:
    """The world before its start, with the load profile and the samples in Prometheus that the days before left."""
    tell = progress or (lambda _what, _done: None)
    before = _history(scenario, traces, tell)
    scene = stage(scenario, traces=traces)
    if before:
        profile, load = before
        pool = scene.world.policy.pools[0].name
        memory = Memory(pools={pool: PoolMemory(profile=profile)})
        scene.world.table.put("journal", "", LoopState(memory=memory))
        scene.world.prometheus.load.update(load)
    return scene


def _played(scenario: Scenario, recorder: Recorder, fixed: Sequence[Fixed]) -> ScenarioResult:
    world = recorder.stage.world
    return ScenarioResult(
        name=scenario.name,
        about=scenario.about,
        seed=scenario.seed,
        starts=scenario.starts,
        ends=scenario.ends,
        policy=world.policy,
        frames=tuple(recorder.frames),
        marks=tuple(recorder.heard.marks),
        decided=tuple(recorder.heard.decided),
        told=tuple(recorder.heard.told),
        figures=figures(recorder),
        fixed=tuple(fixed),
        broken=tuple(map(str, world.violations)),
        slo_ms=scenario.services[0].slo_ms if scenario.services else None,
    )


# ── the autoscaled fleet ─────────────────────────────────────────────────────────────────────────────────────────


class ScenarioRun:
    """The shipped loop in a staged world: the schedule, and the urgent runs between two of its ticks."""

    def __init__(self, scene: Stage, done: Callable[[float], None]) -> None:
        self.scene = scene
        self.world: World = scene.world
        self.recorder = Recorder(scene)
        self.done = done
        self.runs = 0
        self.ends = scene.scenario.ends
        self.turns = CooperativeScheduler(scene.world.clock)
        arrange(scene, Outlets(alarm=self._alarm, order=self._order, say=self.recorder.heard.say))

    def begin(self) -> None:
        """Let the world settle until its start; from now on invariants count and unschedulable pods start runs."""
        self.world.settle()
        self.world.liveness.begin()
        if self.scene.scenario.urgent_runs:
            PendingWatch(self.world.kube, self.wake)

    def play(self) -> Recorder:
        world, began = self.world, self.world.start
        self.begin()
        due = began
        while due < self.ends:
            world.clock.advance_to(due)
            self.done((due - began) / (self.ends - began))
            if world.now == due:  # else a run was at work when the tick came, and held the lease
                self.turns.begin(self.tick)
            due += world.policy.interval
        world.clock.advance_to(self.ends)
        self.turns.end()
        self.done(1.0)
        return self.recorder

    def wake(self) -> None:
        self.turns.begin(lambda: self.tick(urgent=True))

    def tick(self, *, urgent: bool = False) -> None:
        self.runs += 1
        owner = f"run-{self.runs}"
        try:
            run(self.world.parts(owner, limit=_TICK), owner=owner, urgent=urgent)
        except (NodeFleetError, KilledError) as error:
            self.world.guard.did(owner, f"raised: {error}")  # the alarm's business; the next run goes on

    def _alarm(self, notices: Sequence[Notice]) -> None:
        self.recorder.warned(notices)
        self.turns.begin(lambda: self._drain(notices))

    def _drain(self, notices: Sequence[Notice]) -> None:
        self.runs += 1
        owner = f"warned-{self.runs}"
        try:
            parts = self.world.parts(owner, limit=_WARNED)
            drain_interrupted(parts, notices, partial(run, parts, owner=owner))
        except (NodeFleetError, KilledError) as error:
            self.world.guard.did(owner, f"raised: {error}")

    def _order(self, command: Command, event: Event) -> None:
        self.world.parts("an operator").store.order(command, event)
        self.recorder.heard.hear(event)
        self.wake()


# ── what it is compared with ─────────────────────────────────────────────────────────────────────────────────────


def _fixed(scenario: Scenario, traces: Mapping[str, Points] | None, nodes: int, tell: Progress) -> Fixed:
    """The same load on a fixed number of workers."""
    scene = stage(scenario, traces=traces, fixed=nodes)
    recorder = Recorder(scene, takes_frames=False)
    quiet = Outlets(alarm=lambda _: None, order=lambda _command, _event: None, say=lambda _: None)
    arrange(scene, quiet)
    _advance(scene.world, scenario.ends, lambda done: tell(f"a fixed fleet of {nodes}", done))
    found = figures(recorder)
    room = time_series.room(scene.world, list(scene.services.values()))
    price = scene.world.shop.types[scenario.cluster.type].spot_usd
    spot = None if price is None else nodes * price * (scenario.ends - scenario.starts).total_seconds() / 3600
    return Fixed(nodes=nodes, usd=found.usd, violation_minutes=found.violation_minutes, room=room, spot_usd=spot)


def _history(
    scenario: Scenario, traces: Mapping[str, Points] | None, tell: Progress
) -> tuple[tuple[HourLoad, ...], Mapping[str, LoadHistory]] | None:
    """What the days before would have left: the hour-of-day profile, measured and learned as a run does, and the load
    minute by minute in Prometheus."""
    before = scenario.history
    if before is None:
        return None
    begins = scenario.starts - before.days * _DAY
    scene = stage(scenario, traces=traces, fixed=before.workers, at=begins)
    world = scene.world
    pool = world.policy.pools[0]
    profile: tuple[HourLoad, ...] = ()

    def learn() -> None:
        nonlocal profile
        cpu = world.prometheus.readings(pool, with_load=False).cpu
        if isinstance(cpu, Reading) and world.now > begins:
            offset = world.policies.utc_offset(world.policy, world.now)
            profile = learn_profile(profile, cpu, before.workers, pool.predictive, offset)

    world.clock.every(world.policy.interval.total_seconds(), learn)
    _advance(world, scenario.starts, lambda done: tell("the days before", done))
    return profile, world.prometheus.load


def _advance(world: World, until: datetime, done: Callable[[float], None]) -> None:
    world.settle()
    began = world.now
    while world.now < until:
        world.clock.advance_to(min(until, world.now + timedelta(hours=1)))
        done((world.now - began) / (until - began))

"""Watches a world while it is played, every ten seconds, right after the load has moved on: the accounts and frames."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import inf

from nodefleet.model.inventory import InstanceState, Notice
from nodefleet.model.snapshot import add_up
from nodefleet_tools.sim import time_series
from nodefleet_tools.sim.commit_log import CommitLog
from nodefleet_tools.sim.instances import SimulatedInstance
from nodefleet_tools.sim.scenario_result import Frame
from nodefleet_tools.sim.scenarios.staging import Stage

STEP = timedelta(seconds=10)
_SHORT = timedelta(hours=2)  # a scenario that is no longer than this gets a frame for every step
_FRAME = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Healing:
    """EC2 announced that it takes a worker; when as many as before were ready again."""

    at: datetime
    ready: int
    healed: datetime | None = None


@dataclass(slots=True)
class _Since:
    """What was seen since the last frame: trouble that was over before the next one is not left out."""

    violated: bool = False
    latency_ms: float = 0.0


class Recorder:
    def __init__(self, stage: Stage, *, takes_frames: bool = True) -> None:
        self.stage = stage
        self.heard = CommitLog(stage.world)
        self.frames: list[Frame] = []
        self.violated = timedelta(0)
        self.longest_wait = timedelta(0)
        self.most_machines = 0
        self.fewest_ready: int | None = None
        self.waits: defaultdict[float, float] = defaultdict(float)  # requests by the seconds they wait for their turn
        self.in_time = 0.0  # requests whose turn comes before they give up
        self.asked = 0.0
        self.ready_at: dict[str, datetime] = {}  # instance → when its node was first ready
        self.healings: list[Healing] = []
        self._world = stage.world
        self._takes_frames = takes_frames  # of a fleet whose figures alone count it takes none
        self._every = STEP if stage.scenario.lasts <= _SHORT else _FRAME
        self._patience = {spec.workload: spec.gives_up_after.total_seconds() for spec in stage.scenario.services}
        self._counted = (0, 0)
        self._since_frame = _Since()
        self._waiting: dict[str, datetime] = {}  # pods that fit nowhere, by uid, and since when
        self._ended: dict[str, float] = {}  # what instances that are over have cost
        stage.world.clock.every(STEP.total_seconds(), self._sample)

    def warned(self, notices: Sequence[Notice]) -> None:
        """EC2 announces that it takes workers: from here on it must heal."""
        taken = {notice.instance for notice in notices}
        lost = sum(time_series.serves(node) for node in self._world.kube.nodes.values() if node.instance in taken)
        self.healings.append(Healing(self._world.now, self._ready() + lost))

    def _ready(self) -> int:
        """Workers that take pods and that EC2 leaves us."""
        interrupted = {
            machine.id for machine in self._world.ec2.machines.values() if machine.interrupted_at is not None
        }
        nodes = self._world.kube.nodes.values()
        return sum(time_series.serves(node) and node.instance not in interrupted for node in nodes)

    def _sample(self) -> None:
        now, start = self._world.now, self._world.start
        if now < start:
            return
        self._pods(now)
        self._nodes(now)
        self._slowest()
        if now > start:  # the ten seconds that end at the start were before it
            self._services()
        if self._takes_frames and (now - start) % self._every == timedelta(0):
            self.frames.append(self._frame(now))
            self._since_frame = _Since()

    def _slowest(self) -> None:
        slowest = max((service.latency_ms for service in self.stage.services.values()), default=0.0)
        self._since_frame.latency_ms = max(self._since_frame.latency_ms, slowest)

    def _services(self) -> None:
        services = self.stage.services
        violated = any(service.latency_ms > service.slo_ms for service in services.values())
        self.violated += STEP if violated else timedelta(0)
        self._since_frame.violated |= violated
        for name, service in services.items():
            came, wait = service.asked * STEP.total_seconds(), service.wait_seconds
            self.asked += came
            self.waits[round(wait, 1) if wait < inf else inf] += came
            self.in_time += came if wait <= self._patience[name] else 0.0

    def _pods(self, now: datetime) -> None:
        """A wait is over when the pod is no longer seen to wait: some seconds too long rather than too short."""
        waiting = {pod.uid: pod.unschedulable_since or now for pod in self._world.waiting_pods()}
        for since in (self._waiting | waiting).values():
            self.longest_wait = max(self.longest_wait, now - since)
        self._waiting = waiting

    def _nodes(self, now: datetime) -> None:
        machines, version = len(self._world.ec2.machines), self._world.kube.version
        if (machines, version) == self._counted:
            return  # nothing was launched and no node changed
        self._counted = (machines, version)
        for node in self._world.kube.nodes.values():
            if node.pool and node.ready and node.instance not in self.ready_at:
                self.ready_at[node.instance] = node.ready_changed_at or now
        ready = self._ready()
        self.fewest_ready = ready if self.fewest_ready is None else min(self.fewest_ready, ready)
        self.most_machines = max(self.most_machines, len(self._world.ec2.live_workers()))
        for index, healing in enumerate(self.healings):
            if healing.healed is None and ready >= healing.ready:
                self.healings[index] = Healing(healing.at, healing.ready, now)

    def _frame(self, now: datetime) -> Frame:
        world, services = self._world, list(self.stage.services.values())
        cpu, memory = time_series.readings(world)
        return Frame(
            at=now,
            asked=add_up(service.asked for service in services),
            capacity=add_up(service.capacity for service in services),
            room=time_series.room(world, services),
            backlog=add_up(service.backlog for service in services),
            latency_ms=self._since_frame.latency_ms,
            violated=self._since_frame.violated,
            cpu=cpu,
            memory=memory,
            pods=sum(pod.ready for pod in world.kube.pods.values()),
            waiting=len(self._waiting),
            workers=time_series.workers(world, self.ready_at),
            drains=time_series.drains(world),
            by_workload=Counter(pod.labels.get("app", "") for pod in world.kube.pods.values() if pod.ready),
            usd=add_up(self._usd(machine, now) for machine in world.ec2.machines.values()),
        )

    def _usd(self, machine: SimulatedInstance, now: datetime) -> float:
        """What a worker cost so far; computed once of one that has ended, as a week has many of them."""
        if machine.id not in self._ended:
            cost = usd(machine, self._world.start, now)
            if machine.state is not InstanceState.TERMINATED:
                return cost
            self._ended[machine.id] = cost
        return self._ended[machine.id]


def usd(machine: SimulatedInstance, since: datetime, until: datetime) -> float:
    """What a worker cost within a time."""
    return machine.hourly_usd * hours(machine, since, until)


def hours(machine: SimulatedInstance, since: datetime, until: datetime) -> float:
    if not (machine.ours and machine.worker):
        return 0.0
    return machine.paid_between(since, until).total_seconds() / 3600

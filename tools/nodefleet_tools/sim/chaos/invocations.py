"""How runs are started: by the schedule, by alerts, by EC2's events, by an operator; several at once, and again.

EventBridge gives the schedule's ticks once, or not at all, or twice. It gives an event at least once, late or out of
order, to a queue whose messages reach the function in batches, and again if it fails. Lambda tries a failed alert twice
more.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from random import Random
from traceback import extract_tb

from nodefleet.errors import NodeFleetError
from nodefleet.model.inventory import InstanceState, Notice
from nodefleet.ports import RunResult, Runtime
from nodefleet.reconcile.emergency_drain import drain_interrupted
from nodefleet.reconcile.run import run
from nodefleet_tools.sim.chaos.drawing import chance
from nodefleet_tools.sim.chaos.fault_injection import Strikes
from nodefleet_tools.sim.chaos.plan import Plan
from nodefleet_tools.sim.cooperative_scheduler import CooperativeScheduler
from nodefleet_tools.sim.event_queue import LIMIT, EventQueue
from nodefleet_tools.sim.hooks import Call, Hook, KilledError, Moment
from nodefleet_tools.sim.instances import SimulatedInstance
from nodefleet_tools.sim.rules import Rule
from nodefleet_tools.sim.world import LAMBDA_LIMIT, World

TICK = timedelta(seconds=120)
_EVENT_LIMIT = timedelta(seconds=150)  # the interruption function's
_LAPTOP_LIMIT = timedelta(minutes=15)
_ASLEEP = (200.0, 700.0)  # seconds
_BLINK = 0.4
_STANDS_STILL = ("store.acquire", "store.state", "store.commit", "store.commit", "store.release", "time.sleep")
_RETRIES = (60.0, 120.0)  # seconds until Lambda tries a failed event again
_AT_ONCE = 2.0  # seconds within which runs start that start together
_LATE = ((20.0, 400.0), (20.0, 400.0), (1300.0, 2400.0))  # seconds; after a throttle it may be hours
_ENDING = (InstanceState.SHUTTING_DOWN, InstanceState.STOPPED)
_THROTTLED = (20.0, 60.0)  # seconds until Lambda tries an alert again that found no free function
_RECONCILE = ("tick", "alert")  # what the reconcile function runs for
_STATE_EVENTS = 0.3  # of the changes of state lead to a run; all of them would, and each only adds an iteration


class Invocations:
    def __init__(self, plan: Plan, world: World, strikes: Strikes, figures: Counter[str]) -> None:
        self.calm = False
        self.turns = CooperativeScheduler(world.clock)
        self._plan = plan
        self._world = world
        self._strikes = strikes
        self._figures = figures
        self._random = plan.random("invocations")
        self.events: EventQueue[Sequence[Notice]] = EventQueue(
            world.clock, self.turns, self._warned, plan.random("event queue"), limit=plan.concurrency or LIMIT
        )
        self._throttles = plan.random("throttles")
        self._busy = 0  # runs of the reconcile function that are under way
        world.ec2.listeners.append(self._state_changed)

    # ── who starts runs ──────────────────────────────────────────────────────────────────────────────────────────

    def tick(self) -> None:
        if not self.calm and chance(self._random, self._plan.delivery.ticks_lost):
            return
        self._started("tick", lambda parts, owner: run(parts, owner=owner))
        if not self.calm and chance(self._random, self._plan.delivery.ticks_doubled):
            self._soon(lambda: self._started("tick", lambda parts, owner: run(parts, owner=owner)))

    def alert(self) -> None:
        """An urgent run: by Alertmanager or an operator."""
        self._started("alert", lambda parts, owner: run(parts, owner=owner, urgent=True), retries=_RETRIES)

    def at_once(self, number: int) -> None:
        for _ in range(number):
            self._soon(self.alert)

    def event(self, notices: Sequence[Notice]) -> None:
        """What EC2 says reaches the function: perhaps, some time, once or twice."""
        random, delivery = self._random, self._plan.delivery
        if not self.calm and chance(random, delivery.events_lost):
            self._world.guard.did("EventBridge", "loses the event")
            return
        doubled = not self.calm and chance(random, delivery.events_doubled)
        for _ in range(1 + doubled):
            late = not self.calm and chance(random, delivery.events_late)
            delay = random.uniform(*random.choice(_LATE)) if late else random.uniform(0.5, 5.0)
            self._world.clock.after(delay, lambda: self.events.send(notices))

    def on_laptop(self) -> None:
        """`nodefleet run` by hand. The laptop goes to sleep in the middle, and wakes up when others have taken over."""
        suspension = _Suspension(self._world, self._random)
        self._started(
            "laptop", lambda parts, owner: run(parts, owner=owner, urgent=True), limit=_LAPTOP_LIMIT, hook=suspension
        )

    def _warned(self, batch: Sequence[Sequence[Notice]]) -> bool:
        """One function for all that EC2 said within a moment."""
        notices = tuple(dict.fromkeys(notice for message in batch for notice in message))
        return self._invoke(
            "event",
            lambda parts, owner: drain_interrupted(parts, notices, partial(run, parts, owner=owner)),
            limit=_EVENT_LIMIT,
        )

    def _state_changed(self, machine: SimulatedInstance) -> None:
        known = machine.ours and machine.worker and machine.state in _ENDING
        if known and chance(self._random, _STATE_EVENTS):
            self.event(())

    def _soon(self, act: Callable[[], None]) -> None:
        self._world.clock.after(self._random.uniform(0, _AT_ONCE), act)

    # ── one invocation ───────────────────────────────────────────────────────────────────────────────────────────

    def _started(
        self,
        kind: str,
        work: Callable[[Runtime, str], RunResult],
        *,
        limit: timedelta = LAMBDA_LIMIT,
        retries: Sequence[float] = (),
        hook: Hook | None = None,
    ) -> None:
        def invocation() -> None:
            if kind not in _RECONCILE:
                invoked()
            elif self._plan.concurrency and self._busy >= self._plan.concurrency:
                self._throttled(kind, lambda: self._started(kind, work, limit=limit, retries=retries, hook=hook))
            else:
                self._busy += 1
                try:
                    invoked()
                finally:
                    self._busy -= 1

        def invoked() -> None:
            if not self._invoke(kind, work, limit=limit, hook=hook) and retries:
                again, *others = retries
                self._world.clock.after(
                    again, lambda: self._started(kind, work, limit=limit, retries=others, hook=hook)
                )

        self._world.clock.after(0, lambda: self.turns.begin(invocation))

    def _throttled(self, kind: str, again: Callable[[], None]) -> None:
        """No function is free: a tick is lost, everything else is tried again for hours."""
        self._world.guard.did("Lambda", f"! has no free function for {'a tick' if kind == 'tick' else 'an alert'}")
        self._figures["faults"] += 1
        if kind != "tick":
            self._world.clock.after(self._throttles.uniform(*_THROTTLED), again)

    def _invoke(
        self, kind: str, work: Callable[[Runtime, str], RunResult], *, limit: timedelta, hook: Hook | None = None
    ) -> bool:
        """Within its turn. Whether it went well."""
        self._figures["runs"] += 1
        name = f"{kind}-{self._figures['runs']}"
        skew = 0.0 if self.calm else self._random.uniform(-1, 1) * self._plan.skew
        hooks: list[Hook] = [self._strikes, *([hook] if hook else [])]
        parts = self._world.parts(name, limit=limit, skew=timedelta(seconds=skew), hooks=hooks)
        return self._went_well(name, lambda: work(parts, name))

    def _went_well(self, name: str, work: Callable[[], RunResult]) -> bool:
        guard, record = self._world.guard, self._world.runs[name]
        guard.did(name, "begins")
        try:
            ran = work()
        except KilledError as death:
            guard.did(name, f"dies: {death}")
            return False
        except NodeFleetError as error:
            guard.did(name, f"fails: {error}")
            return False
        except Exception as error:  # noqa: BLE001  # whatever it is, it is a violation
            place = extract_tb(error.__traceback__)[-1]
            guard.broken(name, Rule.CRASHED, f"{error!r} in {place.name}, {place.filename}:{place.lineno}")
            return False
        finally:
            self._figures["calls"] += record.calls
        self._figures["iterations"] += ran.iterations
        guard.did(name, f"ends: {_summary(ran)}")
        guard.accounts.ended(record, had_time=ran.decision is not None and not ran.awake)
        return True


def _summary(ran: RunResult) -> str:
    if ran.held:
        return f"{ran.held.owner} is at work"
    did = "; ".join(ran.did) or "did nothing"
    return f"{ran.iterations} iterations, {did}"


class _Suspension:
    """The process stands still, once, where it talks to the table or sleeps: a laptop that was closed.

    It is opened again at the worst time, when another run has the lease, if there is such a time.
    """

    def __init__(self, world: World, random: Random) -> None:
        self._world = world
        self._at = random.choice(_STANDS_STILL)
        self._seconds = random.uniform(*_ASLEEP)
        self._done = False

    def __call__(self, call: Call) -> None:
        if self._done or call.name != self._at or call.moment is not Moment.BEFORE:
            return
        self._done = True
        world, began = self._world, self._world.now
        world.clock.wait(self._seconds)
        while world.now - began < timedelta(seconds=self._seconds) + TICK and not self._another_has_it(call.run):
            world.clock.wait(_BLINK)
        world.guard.did(call.run, f"! stood still for {(world.now - began).total_seconds():.0f} s before {call.name}")

    def _another_has_it(self, owner: str) -> bool:
        held = self._world.table.lease
        return held is not None and held.owner != owner

"""EC2's instances: launched, running, taken away, terminated, forgotten.

Reads are eventually consistent: a new instance shows only after a while, and a change of state shows late, as much as a
test asks for. A token is kept with the request that it came with, so the same request never launches twice.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from random import Random
from typing import TypeAlias

from nodefleet.model.inventory import Instance, InstanceState, Market, Notice, NoticeKind
from nodefleet.model.operations import Launch, Refusal, RefusalKind
from nodefleet.ports import LaunchResult
from nodefleet_tools.sim.clock import Clock
from nodefleet_tools.sim.instances import LIVE, CloudSettings, SimulatedInstance
from nodefleet_tools.sim.shop import QUOTA, Shop

NOTICE = timedelta(seconds=120)  # what EC2 gives before it takes a Spot instance

Listener: TypeAlias = Callable[[SimulatedInstance], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    """A request that was answered, by its token."""

    request: tuple[object, ...]
    answer: LaunchResult


class Ec2:
    def __init__(self, clock: Clock, shop: Shop, settings: CloudSettings, seed: str) -> None:
        self.clock = clock
        self.shop = shop
        self.settings = settings
        self.machines: dict[str, SimulatedInstance] = {}
        self.listeners: list[Listener] = []  # told of every change of state
        self.interruptions: list[Notice] = []  # everything that EC2 announced
        self.withdrawn: set[str] = set()  # events of scheduled changes that do not come after all
        self.subnets: dict[str, str] = {}  # subnet → zone
        self.templates: set[str] = set()
        self.hidden_since: datetime | None = None  # the cluster's list is empty since: a wrong region, a lost right
        self.shown_again_at: datetime | None = None  # when it was last empty
        self._seed = seed
        self._tokens: dict[str, _Sent] = {}
        self._launched = 0
        self._changes = 0

    # ── what is there ────────────────────────────────────────────────────────────────────────────────────────────

    def show_again(self) -> None:
        """The cluster's list is no longer empty."""
        if self.hidden_since is not None:
            self.hidden_since, self.shown_again_at = None, self.clock.now

    def hid_all(self, since: datetime) -> bool:
        """The list is empty, or was at some time since then."""
        return self.hidden_since is not None or (self.shown_again_at is not None and self.shown_again_at > since)

    def listed(self, machine: SimulatedInstance) -> bool:
        return machine.ours and self.hidden_since is None and self.known(machine)

    def list_of(self, at: datetime) -> tuple[Instance, ...]:
        """The cluster's list as a caller sees it whose view is of this moment."""
        there = (machine for machine in self.machines.values() if self.listed(machine) and machine.shows_from <= at)
        return tuple(machine.as_seen(at) for machine in there)

    def known(self, machine: SimulatedInstance) -> bool:
        """EC2 answers to its id: not right after it was made, and not for long after it ended."""
        now = self.clock.now
        since, state = machine.states[-1]
        forgotten = state is InstanceState.TERMINATED and now - since > timedelta(seconds=self.settings.listed_for)
        return machine.shows_from <= now and not forgotten

    def as_seen(self, machine: SimulatedInstance) -> Instance:
        return machine.as_seen(self.clock.now - timedelta(seconds=self.settings.read_lag))

    def live_workers(self, pool: str | None = None) -> list[SimulatedInstance]:
        return [
            machine
            for machine in self.machines.values()
            if machine.states[-1][1] in LIVE and machine.ours and machine.worker and pool in (None, machine.pool)
        ]

    def cost(self) -> float:
        """USD for all workers so far."""
        now = self.clock.now
        workers = (machine for machine in self.machines.values() if machine.ours and machine.worker)
        return sum(
            machine.hourly_usd * machine.paid_between(machine.states[0][0], now).total_seconds() / 3600
            for machine in workers
        )

    # ── launching ────────────────────────────────────────────────────────────────────────────────────────────────

    def launch(self, launch: Launch, by: str) -> LaunchResult | None:
        """The answer to a request; none if its token came with other parameters before."""
        request = _request(launch)
        sent = self._tokens.get(launch.token)
        if sent is None:
            sent = self._tokens[launch.token] = _Sent(request=request, answer=self._fulfilled(launch, by))
        return sent.answer if sent.request == request else None

    def _fulfilled(self, launch: Launch, by: str) -> LaunchResult:
        if launch.template not in self.templates:
            return _invalid(launch, "InvalidLaunchTemplateId.NotFound")
        if self.subnets.get(launch.subnet) != launch.zone:
            return _invalid(launch, "InvalidSubnetID.NotFound")
        made: list[str] = []
        refused: dict[str, Refusal] = {}
        ranked = self.shop.ranked(launch.types, launch.zone, launch.market)
        while len(made) < launch.count:
            name = next((each for each in ranked if self._obtainable(each, launch, refused)), None)
            if name is None:
                break
            self.shop.sell((name, launch.zone, launch.market))
            machine = self.start(
                pool=launch.pool,
                zone=launch.zone,
                type_=name,
                market=launch.market,
                operation=launch.id,
                template=(launch.template, launch.template_version),
                by=by,
            )
            made.append(machine.id)
        return LaunchResult(instances=tuple(made), refusals=tuple(refused.values()))

    def _obtainable(self, name: str, launch: Launch, refused: dict[str, Refusal]) -> bool:
        if name in refused:
            return False
        refusal = self.shop.refusal((name, launch.zone, launch.market), launch.max_price_usd)
        if refusal is None and self.shop.quota is not None and len(self.live_workers()) >= self.shop.quota:
            refusal = Refusal(type=name, kind=RefusalKind.QUOTA, code=QUOTA[launch.market])
        if refusal:
            refused[name] = refusal
        return refusal is None

    def start(
        self,
        *,
        pool: str,
        zone: str,
        type_: str,
        market: Market,
        by: str,
        operation: str = "",
        template: tuple[str, str] = ("", ""),
        worker: bool = True,
        ours: bool = True,
        age: timedelta | None = None,
    ) -> SimulatedInstance:
        """A new instance. One with an age runs already. `template`: id and version."""
        self._launched += 1
        identity = f"i-{self._launched:08x}"
        now = self.clock.now
        born = now - (age or timedelta(0))
        random = self._random(identity, "boot")
        machine = self.machines[identity] = SimulatedInstance(
            id=identity,
            pool=pool,
            zone=zone,
            type=type_,
            market=market,
            launched_at=born,
            shows_from=born + timedelta(seconds=random.uniform(*self.settings.shows_in)),
            operation=operation,
            template=template[0],
            template_version=template[1],
            worker=worker,
            ours=ours,
            by=by,
            hourly_usd=self.shop.price((type_, zone, market)) or 0.0,
            states=[(born, InstanceState.PENDING if age is None else InstanceState.RUNNING)],
        )
        if age is None:
            boots_in = random.uniform(*self.settings.boots_in)
            self.clock.after(
                boots_in, lambda: self._becomes(machine, InstanceState.RUNNING, only_from=InstanceState.PENDING)
            )
        return machine

    # ── ending ───────────────────────────────────────────────────────────────────────────────────────────────────

    def end(self, machine: SimulatedInstance) -> None:
        """It shuts down, and is terminated some time later."""
        if machine.state in (InstanceState.SHUTTING_DOWN, InstanceState.TERMINATED):
            return
        self._becomes(machine, InstanceState.SHUTTING_DOWN)
        ends_in = self._random(machine.id, "end").uniform(*self.settings.ends_in)
        self.clock.after(ends_in, lambda: self._becomes(machine, InstanceState.TERMINATED))

    def stop(self, machine: SimulatedInstance) -> None:
        self._becomes(machine, InstanceState.STOPPED)

    # ── warm instances ───────────────────────────────────────────────────────────────────────────────────────────

    def keep_warm(self, machine: SimulatedInstance) -> None:
        machine.warm = True
        if machine.live:
            self._becomes(machine, InstanceState.STOPPING)
            stops_in = self._random(machine.id, f"stop{len(machine.states)}").uniform(*self.settings.stops_in)
            self.clock.after(
                stops_in, lambda: self._becomes(machine, InstanceState.STOPPED, only_from=InstanceState.STOPPING)
            )

    def start_again(self, launch: Launch) -> LaunchResult:
        """What runs already is in the answer too: the request may have been sent before."""
        given: list[str] = []
        refused: dict[str, Refusal] = {}
        for identity in launch.starts:
            machine = self.machines.get(identity)
            if machine is None or machine.state not in (*LIVE, InstanceState.STOPPED):
                continue
            if machine.state is InstanceState.STOPPED:
                if not self._obtainable(machine.type, launch, refused):
                    continue
                self.shop.sell((machine.type, machine.zone, machine.market))
                self._start_stopped(machine)
            machine.warm = False
            given.append(identity)
        return LaunchResult(instances=tuple(given), refusals=tuple(refused.values()))

    def _start_stopped(self, machine: SimulatedInstance) -> None:
        machine.launched_at = self.clock.now
        self._becomes(machine, InstanceState.PENDING)
        starts_in = self._random(machine.id, f"start{len(machine.states)}").uniform(*self.settings.starts_in)
        self.clock.after(
            starts_in, lambda: self._becomes(machine, InstanceState.RUNNING, only_from=InstanceState.PENDING)
        )

    def announce(
        self,
        machine: SimulatedInstance,
        kind: NoticeKind = NoticeKind.SPOT_INTERRUPTION,
        *,
        ahead: timedelta = timedelta(0),
        lead: timedelta = timedelta(0),
        happens: bool = False,
    ) -> Notice:
        """EC2 says that it takes an instance, or may; a Spot interruption takes it two minutes later.

        A scheduled change begins `ahead` from now, and ends the instance then if it `happens` and is not withdrawn. The
        instance counts as taken from `lead` before that on.
        """
        now = self.clock.now
        if kind is not NoticeKind.SCHEDULED_CHANGE:
            notice = Notice(instance=machine.id, kind=kind, at=now)
        else:
            self._changes += 1
            event = f"arn:aws:health:us-east-1::event/EC2/{self._changes}"
            notice = Notice(instance=machine.id, kind=kind, at=now + ahead, told_at=now, event=event)
        self.interruptions.append(notice)
        match kind:
            case NoticeKind.REBALANCE:
                pass
            case NoticeKind.SCHEDULED_CHANGE:
                self._schedule(machine, notice, lead, happens=happens)
            case _:
                machine.dooms[kind.value] = now
        if kind is NoticeKind.SPOT_INTERRUPTION:
            self.clock.at(now + NOTICE, lambda: self.end(machine))
        return notice

    def _schedule(self, machine: SimulatedInstance, notice: Notice, lead: timedelta, *, happens: bool) -> None:
        def imminent() -> None:
            if notice.event not in self.withdrawn:
                machine.dooms.setdefault(notice.event, self.clock.now)

        def begins() -> None:
            if happens and notice.event not in self.withdrawn:
                self.end(machine)

        self._at(notice.at - lead, imminent)
        self._at(notice.at, begins)

    def _at(self, at: datetime, act: Callable[[], None]) -> None:
        if at <= self.clock.now:
            act()
        else:
            self.clock.at(at, act)

    def withdraw(self, notice: Notice) -> Notice:
        """The scheduled change does not come after all; the answer is what is said about that."""
        self.withdrawn.add(notice.event)
        self.forget(notice)
        said = replace(notice, told_at=self.clock.now, withdrawn=True)
        self.interruptions.append(said)
        return said

    def forget(self, notice: Notice) -> None:
        """What was announced takes the instance no longer; something else may."""
        self.machines[notice.instance].dooms.pop(notice.event, None)

    def _becomes(
        self, machine: SimulatedInstance, state: InstanceState, *, only_from: InstanceState | None = None
    ) -> None:
        if machine.state is state or (only_from and machine.state is not only_from):
            return
        machine.states.append((self.clock.now, state))
        for listener in self.listeners:
            listener(machine)

    def _random(self, identity: str, purpose: str) -> Random:
        # One stream for each instance and purpose: what happens to one does not change another's fate.
        return Random(f"{self._seed}/{identity}/{purpose}")  # noqa: S311  # repeatable on purpose


def _invalid(launch: Launch, code: str) -> LaunchResult:
    remedy = "Look at the launch template, its subnet and the pool's types"
    refusals = (Refusal(type=name, kind=RefusalKind.INVALID, code=code, remedy=remedy) for name in launch.types)
    return LaunchResult(refusals=tuple(refusals))


def _request(launch: Launch) -> tuple[object, ...]:
    """What is sent to EC2 of a launch. The rest of it is ours and changes as it goes on."""
    return (
        launch.id,
        launch.pool,
        launch.zone,
        launch.market,
        launch.types,
        launch.count,
        launch.template,
        launch.template_version,
        launch.subnet,
        launch.max_price_usd,
    )

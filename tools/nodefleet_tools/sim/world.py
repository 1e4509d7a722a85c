"""All of it together: a cluster on EC2 with its API server, its metrics and its table, and ports on it for each run.

world = World(seed=1, policy={"limits": {"min": 2, "max": 6}})
world.add_workers(2)
world.deploy("shop", replicas=4, cpu=500)
world.settle()
parts = world.parts("run-1")
… the loop runs with these parts …
assert not world.violations
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from nodefleet.capacity import caps_of
from nodefleet.model.decision import PolicyVersion
from nodefleet.model.inventory import Instance, InstanceState, Market, Node, Notice, NoticeKind, Resources
from nodefleet.model.serialization import ValidationError
from nodefleet.model.snapshot import Deployment, LaunchTarget
from nodefleet.model.workload import Budget, Pod, Selector
from nodefleet.policy.cluster import Policy
from nodefleet.policy.loading import PolicyReader, digest_of
from nodefleet.policy.pool import Pool
from nodefleet.ports import Runtime
from nodefleet_tools.sim.accounts import LEAD_CLOCKS
from nodefleet_tools.sim.clock import Clock, SimTime
from nodefleet_tools.sim.cloud import SimCloud, SimRequestBudget
from nodefleet_tools.sim.cluster import SimCluster
from nodefleet_tools.sim.ec2 import Ec2
from nodefleet_tools.sim.faults import Faults
from nodefleet_tools.sim.hooks import Hook, Run, Sequential, hooked
from nodefleet_tools.sim.instances import SETUP, CloudSettings, SimulatedInstance
from nodefleet_tools.sim.invariants import Guard
from nodefleet_tools.sim.kube import Kube, KubeSettings, Traits
from nodefleet_tools.sim.kubelets import Kubelets
from nodefleet_tools.sim.liveness.conditions import Conditions
from nodefleet_tools.sim.liveness.registry import Liveness
from nodefleet_tools.sim.load import Load
from nodefleet_tools.sim.metrics import Prometheus, SimGauges
from nodefleet_tools.sim.nodes import Nodes
from nodefleet_tools.sim.operators import Operator
from nodefleet_tools.sim.rules import Violation
from nodefleet_tools.sim.scheduler import Scheduler
from nodefleet_tools.sim.shop import Shop
from nodefleet_tools.sim.sinks import Line, Measured, SimArchive, SimTelemetry
from nodefleet_tools.sim.store import SimStore
from nodefleet_tools.sim.table import Table
from nodefleet_tools.sim.workloads import Controllers, Kind, Workload

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
ZONES = ("us-east-1a", "us-east-1b")
LAMBDA_LIMIT = timedelta(seconds=120)
_BEFORE = timedelta(minutes=10)  # time for what was set up to come to rest before the start
_FIRST_VERSION = "1"  # of each launch template
_AGE = timedelta(days=1)
_MIB = 1 << 20
_GAUGES = "gauges"
_POLICIES = PolicyReader()  # the shipped one: it needs no world, and what it read for one world it need not read again


class World:
    def __init__(
        self,
        *,
        seed: int = 0,
        start: datetime = NOON,
        name: str = "shop",
        policy: Mapping[str, Any] | None = None,
        zones: Sequence[str] = ZONES,
        cloud: CloudSettings | None = None,
        kubernetes: KubeSettings | None = None,
        founded: bool = True,
    ) -> None:
        self.seed, self.start, self.name, self.zones = seed, start, name, tuple(zones)
        self.clock = Clock(start - _BEFORE)
        self.faults = Faults(self.clock)
        self.guard = Guard(self)
        self.shop = Shop()
        self.ec2 = Ec2(self.clock, self.shop, cloud or CloudSettings(), str(seed))
        self.kube = Kube(self.clock, kubernetes or KubeSettings())
        self.kubelets = Kubelets(self.kube)
        self.nodes = Nodes(self.kube, self.kubelets, self.ec2, str(seed))
        self.controllers = Controllers(self.kube, self.kubelets, str(seed))
        self.scheduler = Scheduler(self.kube, self.kubelets, str(seed))
        self.kube.reconcilers += [self.controllers.reconcile, self.scheduler.reconcile]
        self.load = Load(self.clock, self.kube, self.controllers)
        self.prometheus = Prometheus(self.clock, self.kube, self.kubelets)
        self.table = Table(self.clock)
        self.archive = SimArchive()
        self.requests = SimRequestBudget()
        self.policies = _POLICIES
        self.operator = Operator(self.ec2, self.kube, self.kubelets, self.nodes, self.guard)
        self.lines: list[Line] = []
        self.metrics: list[Measured] = []
        self.runs: dict[str, Run] = {}
        self.conditions = Conditions(self)
        self.liveness = Liveness(self)  # judges nothing until it is told to begin
        if founded:
            self._found()
        self.enforce(policy or {})

    # ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def now(self) -> datetime:
        return self.clock.now

    def settle(self) -> None:
        """Let everything that was set up come to rest: from here on it is `start`."""
        self.clock.advance_to(self.start)

    def advance(self, seconds: float) -> None:
        self.clock.advance(timedelta(seconds=seconds))

    # ── a run ────────────────────────────────────────────────────────────────────────────────────────────────────

    def parts(
        self,
        owner: str = "run-1",
        *,
        limit: timedelta = LAMBDA_LIMIT,
        skew: timedelta = timedelta(0),
        hooks: Sequence[Hook] = (),
    ) -> Runtime:
        """Ports for one run that is stopped after `limit`, whose clock is wrong by `skew`."""
        run = Run(name=owner, limit=self.now + limit, hooks=list(hooks), began=self.now)
        self.runs[owner] = run
        store = SimStore(self.table, self.guard, run)
        return Runtime(
            cluster_id=self.name,
            time=hooked(SimTime(self.clock, run, skew), "time", run, self.faults),
            store=hooked(store, "store", run, self.faults),
            history=hooked(store, "history", run, self.faults),
            cloud=hooked(SimCloud(self.ec2, self.guard, run), "cloud", run, self.faults),
            cluster=hooked(
                SimCluster(self.kube, self.kubelets, self.nodes, self.guard, run), "cluster", run, self.faults
            ),
            gauges=hooked(
                SimGauges(self.prometheus, lambda: self.faults.away.get(_GAUGES, ""), run), _GAUGES, run, self.faults
            ),
            archive=hooked(self.archive, "archive", run, self.faults),
            policies=hooked(self.policies, "policies", run, self.faults),
            telemetry=hooked(SimTelemetry(run, self.lines, self.metrics), "telemetry", run, self.faults),
            together=Sequential(),
            requests=self.requests,
        )

    def away(self, port: str, cause: str = "timed out", *, for_seconds: float | None = None) -> None:
        """A part does not answer: cloud, cluster, store (with its history), archive or gauges."""
        self.faults.away |= dict.fromkeys(_together(port), cause)
        if for_seconds is not None:
            self.clock.after(for_seconds, lambda: self.back(port))

    def back(self, port: str) -> None:
        for each in _together(port):
            self.faults.away.pop(each, None)

    # ── setting the scene ────────────────────────────────────────────────────────────────────────────────────────

    def _found(self) -> None:
        """The control plane, and an instance that is another writer's."""
        self.server = self.ec2.start(
            pool="", zone=self.zones[0], type_="t3.medium", market=Market.ON_DEMAND, by=SETUP, worker=False, age=_AGE
        )
        self.nodes.join_now(self.server, since=_AGE)
        self.foreign = self.ec2.start(
            pool="", zone=self.zones[0], type_="m5.large", market=Market.ON_DEMAND, by=SETUP, ours=False, age=_AGE
        )

    def enforce(self, data: Mapping[str, Any]) -> PolicyVersion:
        """Put this policy (as a file holds it) in force, and deploy its pools."""
        version = _version(len(self.table.policies) + 1, data, self.now)
        self.policy = self.nodes.policy = self.policies.read(version.data)
        self.table.put_policy(version)
        subnets = {zone: f"subnet-{zone}" for zone in self.zones}
        self.ec2.subnets = {subnet: zone for zone, subnet in subnets.items()}
        targets = tuple(
            LaunchTarget(pool=pool.name, template=f"lt-{pool.name}", template_version=_FIRST_VERSION, subnets=subnets)
            for pool in self.policy.pools
        )
        self.ec2.templates = {target.template for target in targets}
        prices = {kind.name: kind.hourly_usd for kind in self.shop.types.values() if kind.hourly_usd is not None}
        self.table.put("deployment", "", Deployment(cluster=self.name, targets=targets, prices=prices))
        return version

    def declare(self, data: Mapping[str, Any]) -> PolicyVersion:
        """What the stack says the policy should be."""
        version = _version(0, data, self.now)
        self.table.put_policy(version, "declared")
        return version

    def add_workers(
        self, number: int, *, pool: str = "default", market: Market | None = None, type_: str = "t3.small"
    ) -> list[SimulatedInstance]:
        """Workers that have been there for a day. Zones take turns; the first is On-Demand, the others are Spot."""
        made = []
        for index in range(number):
            of = market or (Market.SPOT if self.ec2.live_workers(pool) else Market.ON_DEMAND)
            zone = self.zones[index % len(self.zones)]
            template = (f"lt-{pool}", _FIRST_VERSION)
            machine = self.ec2.start(
                pool=pool, zone=zone, type_=type_, market=of, by=SETUP, age=_AGE, template=template
            )
            self.nodes.join_now(machine, since=_AGE)
            made.append(machine)
        return made

    def add_warm(self, number: int, *, pool: str = "default", type_: str = "t3.small") -> None:
        """Stopped instances that are kept to be started. Zones take turns."""
        template = (f"lt-{pool}", _FIRST_VERSION)
        for index in range(number):
            zone = self.zones[index % len(self.zones)]
            machine = self.ec2.start(
                pool=pool, zone=zone, type_=type_, market=Market.ON_DEMAND, by=SETUP, age=_AGE, template=template
            )
            machine.warm = True
            machine.states.append((machine.launched_at + _AGE / 2, InstanceState.STOPPED))

    def deploy(
        self,
        name: str,
        *,
        kind: Kind = Kind.DEPLOYMENT,
        replicas: int = 1,
        cpu: int = 100,
        memory: int = 128,
        extended: Mapping[str, int] | None = None,
        traits: Traits | None = None,
        **pod: Any,
    ) -> Workload:
        """A workload whose pods ask for `cpu` millicores and `memory` MiB; `pod` is what else they are like."""
        requests = Resources(cpu=cpu, memory=memory * _MIB, extended=extended or {})
        template = Pod(**{"name": name, "labels": {"app": name}, "requests": requests, **pod})
        return self.controllers.add(
            Workload(
                name=name,
                kind=kind,
                namespace=template.namespace,
                replicas=replicas,
                template=template,
                traits=traits or Traits(),
            )
        )

    def protect(
        self, app: str, *, min_available: str | None = None, max_unavailable: str | None = None, **budget: Any
    ) -> Budget:
        """A disruption budget over the pods of a workload."""
        made = Budget(
            name=f"{app}-pdb",
            selector=Selector(labels={"app": app}),
            min_available=min_available,
            max_unavailable=max_unavailable,
            **budget,
        )
        self.kube.budgets[made.key] = made
        self.kube.changed()
        return made

    def interrupt(
        self,
        instance: str,
        kind: NoticeKind = NoticeKind.SPOT_INTERRUPTION,
        *,
        ahead: timedelta = timedelta(0),
        happens: bool = False,
    ) -> Notice:
        """EC2 announces that it takes an instance; the answer is what the interruption handler gets to hear.

        A scheduled change begins `ahead` from now, and comes to pass only if it `happens`.
        """
        machine = self.ec2.machines[instance]
        rules = self.policy.pool(machine.pool) or Pool()
        lead = rules.health.scheduled_change_lead + LEAD_CLOCKS
        return self.ec2.announce(machine, kind, ahead=ahead, lead=lead, happens=happens)

    def withdraw(self, notice: Notice) -> Notice:
        """A scheduled change is called off; the answer is what the interruption handler gets to hear."""
        return self.ec2.withdraw(notice)

    # ── looking at it ────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def violations(self) -> list[Violation]:
        return self.guard.violations

    def workers(self, pool: str = "default") -> list[SimulatedInstance]:
        """Pending and running."""
        return self.ec2.live_workers(pool)

    def ready_nodes(self, pool: str = "default") -> list[Node]:
        return [node for node in self.kube.nodes.values() if node.pool == pool and node.ready and not node.cordoned]

    def waiting_pods(self) -> list[Pod]:
        return [pod for pod in self.kube.unbound() if pod.unschedulable_since is not None]

    def node_of(self, machine: SimulatedInstance | Instance) -> Node:
        node = self.kube.node_of(machine.id)
        if node is None:
            raise LookupError(f"{machine.id} has not joined")
        return node

    def most(self, pool: str, since: datetime | None = None) -> int:
        """The pool's max, or the highest that was in force since then: what was begun under a policy is carried on.

        A run that began before a new policy may still go by the one before."""
        return max((_max_of(each, pool) for each in self._in_force_since(since)), default=0)

    def most_warm(self, pool: str) -> int:
        """The highest warm.size of the pool that a removal which is open now may have been decided by."""
        since = self.now - max((each.removal.drain_timeout for each in self.policy.pools), default=timedelta(0))
        found = (each.pool(pool) for each in self._in_force_since(since))
        return max((each.warm.size for each in found if each), default=0)

    def fleet_max(self, since: datetime | None = None) -> int:
        """The same of all pools together, and of workers that none of them owns."""
        return max((each.fleet_max for each in self._in_force_since(since)), default=0)

    def unlimited_min(self, pool: str, since: datetime | None = None) -> int:
        """The highest min of the pool since then under a policy without fleet.max: its restoring has no other limit."""
        found = (each.pool(pool) for each in self._in_force_since(since) if each.fleet.max is None)
        return max((each.limits.min for each in found if each), default=-1)

    def least(self, pool: str, since: datetime | None = None) -> int:
        """The highest min of the pool since then."""
        found = (each.pool(pool) for each in self._in_force_since(since))
        return max((each.limits.min for each in found if each), default=0)

    def caps(self, since: datetime | None = None) -> Mapping[str, float]:
        """What all workers together may have of what is capped: under every policy since then, the most of them."""
        first, *others = [caps_of(each.fleet) for each in self._in_force_since(since)] or [{}]
        return {
            name: max(cap, *(each[name] for each in others)) if others else cap
            for name, cap in first.items()
            if all(name in each for each in others)
        }

    def _in_force_since(self, since: datetime | None) -> list[Policy]:
        begun = min(since or self.now, self.now) - LAMBDA_LIMIT
        versions = self.table.policies
        ends = [*(each.at for each in versions[1:]), self.now]
        recent = [each for each, end in zip(versions, ends, strict=True) if end >= begun]
        return [_readable(self.policies, each) for each in recent]


def _together(port: str) -> tuple[str, ...]:
    """The ports that one part serves."""
    return ("store", "history") if port == "store" else (port,)


def _readable(policies: PolicyReader, version: PolicyVersion) -> Policy:
    """One that a newer release refuses counts as far as it can be read."""
    try:
        return policies.read(version.data)
    except ValidationError:
        return policies.salvage(version.data)


def _max_of(policy: Policy, pool: str) -> int:
    rules = policy.pool(pool)
    return rules.limits.max if rules else 0


def _version(number: int, data: Mapping[str, Any], at: datetime) -> PolicyVersion:
    plain = dict(data)
    return PolicyVersion(number=number, source="stack", at=at, data=plain, digest=digest_of(plain))

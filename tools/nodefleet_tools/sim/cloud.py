"""The Cloud port over the simulated EC2. It refuses what the role's statements refuse, and says so to the guard."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from nodefleet.errors import ChangedError, DeniedError, UnavailableError
from nodefleet.model.inventory import Instance, InstanceState, InstanceType, Market
from nodefleet.model.operations import Launch
from nodefleet.policy.cluster import BucketRules, RequestKind, TokenBucket, empty_bucket, take_token
from nodefleet.ports import LaunchResult
from nodefleet_tools.sim.ec2 import Ec2
from nodefleet_tools.sim.hooks import Run
from nodefleet_tools.sim.instances import SimulatedInstance
from nodefleet_tools.sim.invariants import Guard
from nodefleet_tools.sim.rules import Rule


class SimCloud:
    def __init__(self, ec2: Ec2, guard: Guard, run: Run) -> None:
        self._ec2 = ec2
        self._guard = guard
        self._run = run

    def instances(self) -> tuple[Instance, ...]:
        machines = self._ec2.machines.values()
        return tuple(self._ec2.as_seen(machine) for machine in machines if self._ec2.listed(machine))

    def instance(self, identity: str) -> Instance | None:
        machine = self._ec2.machines.get(identity)
        return self._ec2.as_seen(machine) if machine and self._ec2.listed(machine) else None

    def catalog(self, types: Sequence[str]) -> tuple[InstanceType, ...]:
        known = self._ec2.shop.types
        return tuple(known[name] for name in sorted(set(types)) if name in known)

    def launch(self, launch: Launch) -> LaunchResult:
        before = set(self._ec2.machines)
        answer = self._ec2.launch(launch, self._run.name)
        if answer is None:
            self._guard.broken(self._run.name, Rule.TOKEN, f"launch {launch.id} was sent again with other parameters")
            raise UnavailableError("EC2", f"IdempotentParameterMismatch for launch {launch.id}")
        made = [machine for machine in self._ec2.machines.values() if machine.id not in before]
        self._guard.launched(self._run, launch, made)
        return answer

    def start_warm(self, launch: Launch) -> LaunchResult:
        named = [machine for machine in (self._ours(each, "start") for each in launch.starts) if machine is not None]
        stopped = [machine for machine in named if not machine.live]
        answer = self._ec2.start_again(launch)
        self._guard.started(self._run, launch, [each for each in stopped if each.live])
        return answer

    def keep_warm(self, instance: str) -> bool:
        machine = self._ours(instance, "stop")
        if machine is None or machine.state in (InstanceState.SHUTTING_DOWN, InstanceState.TERMINATED):
            return True
        if machine.market is Market.SPOT:
            return False
        self._guard.kept_warm(self._run, machine)
        self._ec2.keep_warm(machine)
        return True

    def terminate(self, instance: str) -> None:
        machine = self._ours(instance, "terminate")
        if machine is None:
            return
        self._guard.terminated(self._run, machine)
        self._ec2.end(machine)

    def mark_failed(self, instance: str) -> None:
        machine = self._ours(instance, "tag")
        if machine is not None:
            self._guard.marked(self._run, machine)
            machine.failed = True

    def assign(self, instance: str, pool: str) -> None:
        machine = self._ours(instance, "tag")
        if machine is not None and machine.pool != pool:
            self._guard.assigned(self._run, machine, pool)
            machine.pool = pool

    def _ours(self, instance: str, verb: str) -> SimulatedInstance | None:
        """A worker of the cluster; none if EC2 does not know it, or not yet."""
        machine = self._ec2.machines.get(instance)
        if machine is None or not self._ec2.known(machine):
            return None
        if not (machine.ours and machine.worker):
            self._guard.forbidden(self._run, machine, verb)
        if not machine.ours:
            raise ChangedError(f"{instance} does not carry the cluster's tag")
        if not machine.worker:
            raise DeniedError("EC2", f"may not {verb} {instance}", "The control plane is never touched")
        return machine


class SimRequestBudget:
    """The Ports' RequestBudget in memory. Several worlds may share one, as clusters of a deployment do."""

    def __init__(self) -> None:
        self.buckets: dict[RequestKind, TokenBucket] = {}
        self.taken: list[tuple[datetime, RequestKind]] = []

    def take(self, kind: RequestKind, rules: BucketRules, now: datetime) -> timedelta:
        self.buckets[kind], wait = take_token(self.buckets.get(kind), rules, now)
        if not wait:
            self.taken.append((now, kind))
        return wait

    def drain(self, kind: RequestKind, now: datetime) -> None:
        self.buckets[kind] = empty_bucket(now)

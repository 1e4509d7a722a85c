"""When everything is well again: what has to come to rest, and how soon.

`restored_within` is the longest that a pool may stay below min once launches work. It is the sum of what may still
stand in the way, each a number of the policy:

    a run that died holds the lease       its function's limit, and clock_skew twice
    an interval until the next tick
    what is remembered of the trouble     the longest of: no capacity (remember_shortage), a pause between probes after
                                          failed joins (probe_longest), a request whose answer was lost (lease, and an
                                          interval), an instance that never joins (join_limit), a node that is not ready
                                          (not_ready_limit)
    a tick that finds it over, a probe    an interval, and the time a node may take to join (join_limit)
    the nodes that the probe allows       an interval, and join_limit
"""

from datetime import datetime, timedelta

from nodefleet.engine.decide import decide
from nodefleet.model.alerts import AlertKind
from nodefleet.model.inventory import InstanceState
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Pool
from nodefleet.reconcile.audit import outcome, unpack_input
from nodefleet_tools.sim.chaos.operator_actions import all_in_force
from nodefleet_tools.sim.chaos.stage import Stage
from nodefleet_tools.sim.instances import SimulatedInstance
from nodefleet_tools.sim.rules import Rule
from nodefleet_tools.sim.world import LAMBDA_LIMIT, World

PATIENCE = timedelta(minutes=100)  # a false alarm alone takes 22 minutes, and things come one after the other
_RESTFUL_TICKS = 3  # in a row
_STUCK_FOR = timedelta(minutes=40)  # without a moment of rest: no drain, join or false alarm takes that long
_OPERATOR_COMES = timedelta(minutes=12)  # after being told that something is for an operator
_UNJOINED = timedelta(minutes=10)  # after this an operator takes an instance without a node for an orphan
_LONG_GONE = timedelta(minutes=10)
_FORGOTTEN = timedelta(minutes=30)  # a notice means nothing any more after 22 minutes, and a tick may be late
_MOST_JOURNAL = 64 * 1024  # bytes
_MOST_HISTORY = 300 * 1024  # bytes, with weeks of load by the hour
_MOST_EVENTS = 200  # that people are told of in a seed
_ODD = ("odd",)  # workloads that the scheduler refuses from the beginning, and for ever
_WHO = "at rest"


def restored_within(policy: Policy, pool: Pool) -> timedelta:
    remembered = max(
        pool.market.remember_shortage,
        pool.health.probe_longest,
        policy.lease + policy.interval,
        pool.health.join_limit,
        pool.health.not_ready_limit,
    )
    dead_run = LAMBDA_LIMIT + 2 * policy.trust.clock_skew
    return dead_run + remembered + 2 * pool.health.join_limit + 3 * policy.interval


def calm_down(stage: Stage) -> None:
    """Every part answers, EC2 sells, nodes join, and people take back what they did."""
    world = stage.world
    world.guard.did("incident", "all is well again")
    stage.strikes.calm = stage.invocations.calm = True
    stage.strikes.denied, stage.strikes.unreadable = frozenset(), ""
    poisoned = stage.strikes.poisoned
    stage.strikes.poisoned = {each: error for each, error in poisoned.items() if each in stage.lasting}
    for workload in world.controllers.workloads.values():
        if workload.uid not in stage.lasting and workload.name not in _ODD:
            workload.traits.refused = ""
    world.kube.changed()
    for port in ("cloud", "cluster", "store", "gauges", "archive"):
        world.back(port)
    world.shop.allow()
    world.shop.spot_prices.clear()
    world.ec2.show_again()
    world.prometheus.frozen = False
    world.prometheus.missing.clear()
    world.prometheus.silent &= stage.lasting
    world.kube.settings.never_joins = world.kube.settings.joins_late = 0.0
    all_in_force(stage)
    for machine in world.ec2.machines.values():
        if machine.untagged_at is not None:
            machine.ours, machine.untagged_at, machine.tagged_again_at = True, None, world.now
        if stage.plan.clears_stopped and machine.state is InstanceState.STOPPED and not machine.warm:
            world.operator.terminate(machine.id)
    for node in tuple(world.kube.nodes.values()):
        if stage.plan.revives and node.name not in stage.dead:
            world.nodes.revive(node.name)
        if node.pool and node.cordoned and not node.removal:
            world.operator.uncordon(node.name)
    world.conditions.slow = stage.plan.look_takes > 0
    world.liveness.begin()


class Rest:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._world = stage.world
        self._since = stage.world.now
        self._restful = 0
        self._last = stage.world.now  # when it was last at rest
        self._advanced = stage.world.now  # when it was last nearer to its end than ever before
        self._workers = self._fewest = len(stage.world.ec2.live_workers())
        self._grew = stage.world.now  # when an instance was last launched
        self._oldest = self._old_workers()
        self._below: set[str] = {pool.name for pool in stage.world.policy.pools}  # pools that have not had min yet

    def reached(self) -> bool:
        self._restore()
        if self._world.now - self._since >= _OPERATOR_COMES:
            self._person_helps()
        self._restful = 0 if self._unrest() else self._restful + 1
        # A large fleet gives workers that it need not have back one by one, and replaces old ones one by one: longer
        # than anything else takes. Neither can go on for ever: each step leaves fewer.
        workers, old = len(self._world.ec2.live_workers()), self._old_workers()
        self._last = self._world.now if self._restful else self._last
        if workers > self._workers:
            self._grew = self._world.now
        only_shrinks = workers < self._workers and self._grew <= self._world.now - _STUCK_FOR
        if workers < self._fewest or old < self._oldest or only_shrinks:
            self._advanced = self._world.now
        self._workers, self._fewest, self._oldest = workers, min(self._fewest, workers), min(self._oldest, old)
        if self._restful < _RESTFUL_TICKS or self._world.liveness.awaited:
            return False
        self._table()
        self._audit()
        return True

    def _old_workers(self) -> int:
        """Workers of pools that rotate which were launched before the trouble was over."""
        rotating = [pool.name for pool in self._world.policy.pools if pool.rotation.max_age or pool.rotation.drift]
        return sum(
            machine.launched_at < self._since for name in rotating for machine in self._world.ec2.live_workers(name)
        )

    def not_reached(self) -> None:
        """What is stuck is a violation. Flapping is none, only a waste: it is counted. So are fleets that advance still
        and those at rest of which something is demanded later."""
        since = self._world.now - _STUCK_FOR
        if self._restful >= _RESTFUL_TICKS:
            self._stage.figures["awaited"] += 1
        elif self._advanced > since:
            self._stage.figures["under way"] += 1
        elif self._last > since:
            self._stage.figures["to and fro"] += 1
        else:
            for reason in self._unrest():
                self._world.guard.broken(_WHO, Rule.RESTLESS, reason)

    # ── what is looked at ────────────────────────────────────────────────────────────────────────────────────────

    def _restore(self) -> None:
        world, policy = self._world, self._world.policy
        for pool in policy.pools:
            ready = len(world.ready_nodes(pool.name))
            if ready >= pool.limits.min or self._filled_by_others(pool):
                self._below.discard(pool.name)
            bound = restored_within(policy, pool)
            if self._needs_person():
                bound += _OPERATOR_COMES
            if pool.name in self._below and world.now - self._since > bound:
                detail = f"pool {pool.name} has {ready} of {pool.limits.min} after {bound.total_seconds():.0f} s"
                world.guard.broken(_WHO, Rule.MIN, detail)
                self._below.discard(pool.name)

    def _unrest(self) -> list[str]:
        world = self._world
        found = [f"operation {each.id} is open" for each in world.table.operations]
        if self._stage.invocations.turns.at_work:
            found.append("a run is at work")
        elif world.table.lease is not None and world.now < world.table.lease.expires:
            found.append(f"{world.table.lease.owner} holds the lease")
        hopeless = self._stage.strikes.hopeless  # operators were told; only they can do anything about them
        ours = [node for node in world.kube.nodes.values() if node.pool and node.name not in hopeless]
        found += [
            f"node {node.name} is cordoned ({node.removal or 'by an operator'})" for node in ours if node.cordoned
        ]
        found += [f"node {node.name} has no instance" for node in ours if not _lives(world, node.instance)]
        found += [f"instance {machine.id} is no node" for machine in self._unjoined()]
        found += [
            f"pool {pool.name} has {len(world.ready_nodes(pool.name))} of {pool.limits.min}"
            for pool in world.policy.pools
            if len(world.ready_nodes(pool.name)) < pool.limits.min and not self._filled_by_others(pool)
        ]
        return found

    def _filled_by_others(self, pool: Pool) -> bool:
        """fleet.max is reached, and every worker that another pool has above its min holds pods that may have no other
        place: none of them gives way, and an operator was told that the pool is at max. Caps keep no pool below min."""
        world = self._world
        most = world.policy.fleet.max
        if most is None or len(world.ec2.live_workers()) < most or not self._is_told_at_max(pool):
            return False
        above = [
            node
            for other in world.policy.pools
            if other.name != pool.name and world.conditions.workers(other.name) > other.limits.min
            for node in world.kube.nodes.values()
            if node.pool == other.name
        ]
        return bool(above) and all(any(pod.movable for pod in world.kube.pods_on(node.name)) for node in above)

    def _is_told_at_max(self, pool: Pool) -> bool:
        return any(event.kind is AlertKind.AT_MAX and event.pool == pool.name for event in self._world.table.events)

    def _unjoined(self) -> list[SimulatedInstance]:
        """Instances without a node, beyond those that are kept for an operator to look at."""
        world = self._world
        found: list[SimulatedInstance] = []
        for name in sorted({machine.pool for machine in world.ec2.live_workers()}):
            rules = world.policy.pool(name)
            alone = [each for each in world.ec2.live_workers(name) if world.kube.node_of(each.id) is None]
            found += alone[min(rules.health.keep_failed, rules.limits.max - rules.limits.min) if rules else 0 :]
        return found

    def _table(self) -> None:
        """At rest the table holds what is kept on purpose, and nothing else."""
        world, state = self._world, self._world.table.state()
        journal = sum(len(item.text) for item in world.table.items["journal"].values())
        last: dict[str, datetime] = {}  # by instance: a withdrawal may be told after the time that it speaks of
        illegible = self._stage.strikes.illegible  # the table forgets those by itself
        # One that has only just been recorded is retired by the next run.
        recent = world.table.notices_since(world.now - world.policy.interval - LAMBDA_LIMIT)
        for each in (notice for notice in state.notices if notice.instance not in illegible and notice not in recent):
            last[each.instance] = max(last.get(each.instance, each.at), each.told_at or each.at)
        old = [name for name, at in last.items() if world.now - at > _FORGOTTEN and self._is_long_gone(name)]
        over = [each for each in state.commands if each.until is not None and each.until < world.now]
        for what, size, most in (
            ("bytes of journal", journal, _MOST_HISTORY if self._stage.plan.scene.history_days else _MOST_JOURNAL),
            ("events", len(world.table.items["event"]), _MOST_EVENTS),
            ("notices of instances that are gone", len(old), 0),
            ("commands that are over", len(over), 0),
        ):
            if size > most:
                world.guard.broken(_WHO, Rule.TABLE, f"{size} {what}, {most} are allowed")

    def _is_long_gone(self, instance: str) -> bool:
        machine = self._world.ec2.machines.get(instance)
        ended = machine.ended_at if machine else None
        return ended is not None and self._world.now - ended > _LONG_GONE

    def _audit(self) -> None:
        """The last decision that something came of is decided the same again from what was kept of it."""
        world = self._world
        kept = [each for each in world.table.decisions if each.archived in world.archive.kept]
        if not kept:
            return
        question = unpack_input(world.archive.kept[kept[-1].archived])
        again = outcome(decide(question.observation, question.memory, question.policy))
        if again != kept[-1].outcome:
            world.guard.broken(_WHO, Rule.UNRECORDED, f"decision {kept[-1].id} is not decided the same again")

    # ── what was left for an operator ───────────────────────────────────────────────────────────────────────────────

    def _needs_person(self) -> bool:
        return any(event.kind is AlertKind.CLEANUP_NEEDS_OPERATOR for event in self._world.table.events)

    def _person_helps(self) -> None:
        """Removes by hand what seems orphaned, if told to look; not what is marked as failed to join: that goes by
        itself."""
        if not self._needs_person():
            return
        world = self._world
        stopped = [each for each in world.ec2.machines.values() if each.ours and each.state is InstanceState.STOPPED]
        for machine in (*world.ec2.live_workers(), *stopped):
            unjoined = (
                world.kube.node_of(machine.id) is None
                and not machine.failed
                and world.now - machine.launched_at > _UNJOINED
            )
            if (unjoined and machine.live) or (machine.worker and world.policy.pool(machine.pool) is None):
                world.operator.terminate(machine.id)
        for node in tuple(world.kube.nodes.values()):
            if node.pool and not node.ready and not _lives(world, node.instance):
                world.operator.delete_node(node.name)


def _lives(world: World, instance: str) -> bool:
    machine = world.ec2.machines.get(instance)
    return machine is not None and machine.live

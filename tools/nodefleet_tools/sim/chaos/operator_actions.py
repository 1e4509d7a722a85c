"""Actions of operators meanwhile: with kubectl, in the EC2 console, with the policy, from a laptop."""

from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

from nodefleet.errors import NodeFleetError
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Event
from nodefleet.model.snapshot import AUTOSCALER, Command, Drain, Pause, Recycle, Scale
from nodefleet_tools.sim.chaos.drawing import chance
from nodefleet_tools.sim.chaos.scene import COMMON, SECOND_POOL
from nodefleet_tools.sim.chaos.stage import Stage

_OPERATOR = "an operator"
_FUTURE = "from_a_newer_release"  # a setting that this release does not know
_NEW_NAME = "web"
_ROLE_RIGHTS = (
    {"cloud.terminate"},
    {"cloud.mark_failed"},
    {"cluster.cordon", "cluster.uncordon"},
    {"cluster.evict"},
    {"cluster.delete_node"},
    {"cloud.terminate", "cluster.cordon", "cluster.evict", "cluster.delete_node"},
)


# ── kubectl and the console ──────────────────────────────────────────────────────────────────────────────────────


def cordons(stage: Stage, random: Random) -> str:
    node = stage.any_node(random)
    if node is None:
        return ""
    stage.world.operator.cordon(node.name)
    return node.name


def uncordons(stage: Stage, random: Random) -> str:
    """One of their own, or one that we are draining."""
    cordoned = [node for node in stage.world.kube.nodes.values() if node.pool and node.cordoned]
    if not cordoned:
        return ""
    node = random.choice(cordoned)
    stage.world.operator.uncordon(node.name)
    return node.name


def deletes_node(stage: Stage, random: Random) -> str:
    node = stage.any_node(random)
    if node is None:
        return ""
    stage.world.operator.delete_node(node.name)
    return node.name


def deletes_healthy_node(stage: Stage, random: Random) -> str:
    ready = [node for node in stage.world.kube.nodes.values() if node.pool and node.ready and not node.cordoned]
    if not ready:
        return ""
    node = random.choice(ready)
    stage.world.operator.delete_node(node.name)
    return node.name


def terminates(stage: Stage, random: Random) -> str:
    machine = stage.any_worker(random)
    if machine is None:
        return ""
    stage.world.operator.terminate(machine.id)
    return machine.id


def stops(stage: Stage, random: Random) -> str:
    machine = stage.any_worker(random)
    if machine is None:
        return ""
    stage.world.operator.stop(machine.id)
    return machine.id


def stops_healthy(stage: Stage, random: Random) -> str:
    ready = [node for node in stage.world.kube.nodes.values() if node.pool and node.ready and not node.cordoned]
    machines = [stage.world.ec2.machines.get(node.instance) for node in ready]
    there = [machine for machine in machines if machine is not None and machine.live]
    if not there:
        return ""
    machine = random.choice(there)
    stage.world.operator.stop(machine.id)
    return machine.id


def launches(stage: Stage, random: Random) -> str:
    pool = random.choice(stage.world.policy.pools)
    return stage.world.operator.launch(zone=random.choice(stage.world.zones), pool=pool.name).id


def takes_tags(stage: Stage, random: Random) -> str:
    """And puts them back after a while."""
    machine = stage.any_worker(random)
    if machine is None:
        return ""
    seconds = random.uniform(60, 1800)
    machine.ours, machine.untagged_at = False, stage.world.now

    def put_back() -> None:
        machine.ours, machine.untagged_at, machine.tagged_again_at = True, None, stage.world.now

    stage.world.clock.after(seconds, put_back)
    return f"{machine.id} for {seconds:.0f} s"


# ── the policy ───────────────────────────────────────────────────────────────────────────────────────────────────


def changes_limits(stage: Stage, random: Random) -> str:
    if "store" in stage.world.faults.away:
        return ""
    data = _in_force(stage)
    pool = random.choice(data["pools"]) if "pools" in data else data
    least = random.choice((0, 1, 2, 3))
    pool["limits"] = {"min": least, "max": max(1, least + random.choice((0, 1, 3, 6)))}
    if chance(random, 0.1):
        pool["dry_run"] = not pool.get("dry_run", False)
    _enforce(stage, data)
    return str(pool["limits"])


def changes_fleet_max(stage: Stage, random: Random) -> str:
    """The limit of all pools together is written, changed, or taken out again."""
    if "store" in stage.world.faults.away:
        return ""
    data = _in_force(stage)
    most = random.choice((1, 2, 4, 8, None))
    data["fleet"] = {**data.get("fleet", {}), "max": most}
    _enforce(stage, data)
    return str(stage.world.policy.fleet.max)


def changes_pools(stage: Stage, random: Random) -> str:
    """A second pool comes or goes. No pool owns its instances when it goes."""
    if "store" in stage.world.faults.away:
        return ""
    data = _in_force(stage)
    common = {key: data.pop(key) for key in COMMON if key in data}
    if "pools" not in data:
        second = {"name": SECOND_POOL, "limits": {"min": random.choice((0, 1)), "max": 2}}
        _enforce(stage, {**common, "pools": [{"name": "default", **data}, second]})
        return f"pool {SECOND_POOL} is new"
    first = {key: value for key, value in data["pools"][0].items() if key != "name"}
    _enforce(stage, {**common, **first})
    return f"pool {SECOND_POOL} is gone"


def renames_pool(stage: Stage, random: Random) -> str:
    """No pool owns the instances and the stored launches of its old name."""
    if "store" in stage.world.faults.away:
        return ""
    data = _in_force(stage)
    if "pools" not in data:
        common = {key: data.pop(key) for key in COMMON if key in data}
        data = {**common, "pools": [{"name": "default", **data}]}
    pool = random.choice(data["pools"])
    before = pool["name"]
    pool["name"] = before if before.startswith(_NEW_NAME) else f"{_NEW_NAME}-{before}"
    _enforce(stage, data)
    return f"{before} is {pool['name']}"


def removes_growing_pool(stage: Stage, random: Random) -> str:
    """The last pool goes, or gets another name, while launches for it are stored and under way."""
    world = stage.world
    if "store" in world.faults.away:
        return ""
    pool = world.policy.pools[-1]
    until = world.now + timedelta(seconds=600)
    command = Scale(pool=pool.name, nodes=pool.limits.max, by=_OPERATOR, until=until)
    _order(stage, command, AlertKind.SCALED_BY_OPERATOR, f"{pool.name} to {pool.limits.max}")
    seconds = random.uniform(1, 30)

    def goes() -> None:
        if stage.strikes.calm or "store" in world.faults.away or world.policy.pool(pool.name) is None:
            return
        data = _in_force(stage)
        if len(data.get("pools", ())) > 1:
            common = {key: data[key] for key in COMMON if key in data}
            others = [each for each in data["pools"] if each["name"] != pool.name]
            _enforce(stage, {**common, "pools": others})
        else:
            renames_pool(stage, random)
        world.guard.did("incident", f"pool {pool.name} is gone")

    world.clock.after(seconds, goes)
    return f"{pool.name} after {seconds:.0f} s"


def _in_force(stage: Stage) -> dict[str, Any]:
    newest = stage.world.table.policies[-1].data
    data: dict[str, Any] = {key: value for key, value in newest.items() if key != _FUTURE}
    if "pools" in data:
        data["pools"] = [{**pool} for pool in data["pools"]]
    return data


def _enforce(stage: Stage, data: dict[str, Any]) -> None:
    for rules in data.get("pools", [data]):
        base = rules.get("market", {}).get("on_demand_base", 1)
        rules["market"] = {**rules.get("market", {}), "on_demand_base": min(base, rules["limits"]["max"])}
        if rules.get("headroom", {}).get("nodes", 0) >= rules["limits"]["max"]:  # spare nodes are part of max
            rules["headroom"] = {}
        if "standby" in rules:  # the other cluster's nodes are part of max
            rules["standby"] = {**rules["standby"], "nodes": min(rules["standby"]["nodes"], rules["limits"]["max"])}
    if "fleet" in data:  # it may not be less than the pools' min together
        least = sum(rules["limits"]["min"] for rules in data.get("pools", [data]))
        most = data["fleet"].get("max")
        data["fleet"] = {**data["fleet"], "max": None if most is None else max(most, least)}
    stage.world.enforce(data)


def refuses_policy(stage: Stage, random: Random) -> str:
    """A release is deployed that refuses the active policy, until an operator applies one that it takes."""
    world = stage.world
    if "store" in world.faults.away:
        return ""
    number = len(world.table.policies) + 1
    refused = replace(world.table.policies[-1], number=number, at=world.now, data={**_in_force(stage), _FUTURE: 1})
    world.table.put_policy(refused)
    seconds = random.uniform(60, 1800)

    def applied() -> None:
        if world.table.policies[-1].number == number:
            _enforce(stage, _in_force(stage))

    world.clock.after(seconds, applied)
    return f"for {seconds:.0f} s"


def declares_nonsense(stage: Stage, random: Random) -> str:
    stage.world.declare({"limits": {"min": random.randint(5, 9), "max": 1}})
    return "the stack declares min above max"


def deploys_template(stage: Stage, random: Random) -> str:
    """What is asked for from now on is another request; what was asked for before must stay the same."""
    world = stage.world
    deployment = world.table.state().deployment
    if deployment is None or "store" in world.faults.away:
        return ""
    version = str(random.randint(2, 99))
    targets = tuple(replace(target, template_version=version) for target in deployment.targets)
    world.table.put("deployment", "", replace(deployment, targets=targets))
    return f"version {version}"


# ── commands ─────────────────────────────────────────────────────────────────────────────────────────────────────


def pauses(stage: Stage, random: Random) -> str:
    """One in three pauses the scale-down only. That is no draw of its own, so that the seeds play on as they were."""
    seconds = random.uniform(120, 1200)
    until, only = stage.world.now + timedelta(seconds=seconds), int(seconds) % 3 == 0
    text = f"{'the scale-down ' if only else ''}until {until:%H:%M:%S}"
    return _order(stage, Pause(by=_OPERATOR, until=until, scale_down_only=only), AlertKind.PAUSED, text)


def scales(stage: Stage, random: Random) -> str:
    pool = random.choice(stage.world.policy.pools)
    nodes = random.randint(0, pool.limits.max + 1)
    until = stage.world.now + timedelta(seconds=random.uniform(120, 1200))
    command = Scale(pool=pool.name, nodes=nodes, by=_OPERATOR, until=until)
    return _order(stage, command, AlertKind.SCALED_BY_OPERATOR, f"{pool.name} to {nodes} until {until:%H:%M:%S}")


def recycles(stage: Stage, random: Random) -> str:
    machines = stage.world.ec2.live_workers()
    if not machines:
        return ""
    machine = random.choice(machines)
    now = stage.world.now
    until = now + timedelta(seconds=random.uniform(600, 3000))
    command = Recycle(instance=machine.id, at=now, by=_OPERATOR, until=until)
    return _order(stage, command, AlertKind.RECYCLED, f"{machine.id} until {until:%H:%M:%S}")


def drains(stage: Stage, random: Random) -> str:
    """As `nodefleet drain`: for whom it is meant is what the operator sees now."""
    machines = stage.world.ec2.live_workers()
    if not machines:
        return ""
    machine = random.choice(machines)
    now = stage.world.now
    until = now + timedelta(seconds=random.uniform(600, 3000))
    owner = machine.pool if stage.world.policy.pool(machine.pool) else ""
    command = Drain(instance=machine.id, pool=owner, at=now, by=_OPERATOR, until=until)
    kind = AlertKind.DRAINED if owner else AlertKind.HANDED_OVER
    return _order(stage, command, kind, f"{machine.id} of {owner or 'no pool'} until {until:%H:%M:%S}")


def _order(stage: Stage, command: Command, kind: AlertKind, text: str) -> str:
    """As the command line does: into the table, and a run is woken."""
    world = stage.world
    identity = f"order-{world.now.isoformat()}"
    event = Event(id=identity, at=world.now, cluster=world.name, kind=kind, text=text)
    try:
        world.parts(f"{_OPERATOR} at {world.now:%H:%M:%S}").store.order(command, event)
    except NodeFleetError as error:
        return f"in vain: {error}"
    stage.invocations.alert()
    return text


def all_in_force(stage: Stage) -> None:
    """Nothing is paused, ordered or dry any more, and the declared policy is the one in force. A floor for another
    region may be left to end by itself."""
    world, region = stage.world, stage.plan.scene.region
    for command in world.table.state().commands:
        if region is not None and not region["moves_back"] and isinstance(command, Scale) and command.by == AUTOSCALER:
            continue
        event = Event(id=f"withdrawn-{command}", at=world.now, cluster=world.name, kind=AlertKind.RESUMED, text="")
        world.parts(_OPERATOR).store.withdraw(command, event)
    world.table.items["declared"].clear()
    data = _in_force(stage)
    for rules in data.get("pools", [data]):
        rules.pop("dry_run", None)
    stage.world.enforce(data)


# ── around it ────────────────────────────────────────────────────────────────────────────────────────────────────


def breaks_role(stage: Stage, random: Random) -> str:
    lacking = random.choice(_ROLE_RIGHTS)
    seconds = random.uniform(60, 900)
    stage.strikes.denied = frozenset(lacking)

    def fix() -> None:
        stage.strikes.denied = frozenset()

    stage.world.clock.after(seconds, fix)
    return f"{', '.join(sorted(lacking))} for {seconds:.0f} s"


def runs_on_laptop(stage: Stage, random: Random) -> str:  # noqa: ARG001  # as all incidents
    stage.invocations.on_laptop()
    return "and closes it"

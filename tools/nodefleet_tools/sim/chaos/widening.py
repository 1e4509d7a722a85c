"""What is drawn beyond the plain plan, each kind on its own.

Every kind has a share of the seeds and a stream of random numbers of its own, so one that is added or changed leaves
all others, and the plain plan, as they were. What it changes is in the plan, so it is kept and shortened with it. A
share of 0 switches a kind off; the reason stands beside it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias

from nodefleet.policy.file_schema import PRESETS
from nodefleet_tools.sim.chaos.drawing import chance, coin
from nodefleet_tools.sim.chaos.scene import COMMON
from nodefleet_tools.sim.chaos.timing import BACKLOG, REGION, TROUBLE, Incident
from nodefleet_tools.sim.kube import Order
from nodefleet_tools.sim.workloads import Kind

if TYPE_CHECKING:
    from nodefleet_tools.sim.chaos.plan import Plan
    from nodefleet_tools.sim.chaos.scene import Scene

_REFUSED = (
    '0/4 nodes are available: persistentvolumeclaim "data" not found.',
    'running PreBind plugin "VolumeBinding": storageclass.storage.k8s.io "fast" not found',
    "0/4 nodes are available: 4 cannot allocate all claims.",
)
_DAYS = (1, 7, 28)  # of history
_A_NODE = {"cpu": 2.0, "memory": 2.0, "usd_per_hour": 0.023}  # the most expensive of the usual types
_TEAMS = ("team-a", "team-b")
GPU = "nvidia.com/gpu"

Change: TypeAlias = Callable[["Plan", Random], "Plan"]


@dataclass(frozen=True, slots=True)
class Widening:
    share: float  # of all seeds
    change: Change
    stream: str = ""  # of random numbers: the first name, if it was renamed, so that a seed stands for the same plan


def widened(plan: "Plan", kinds: Mapping[str, Widening]) -> "Plan":
    for name, widening in kinds.items():
        random = plan.random(f"widening/{widening.stream or name}")
        if random.random() < widening.share:
            plan = widening.change(plan, random)
    return plan


# ── the cluster ──────────────────────────────────────────────────────────────────────────────────────────────────


def _names(plan: "Plan", _: Random) -> "Plan":
    return _in_kubernetes(plan, random_names=True)


def _order(plan: "Plan", _: Random) -> "Plan":
    return _in_kubernetes(plan, scheduling_order=Order.RANDOM.value)


def _refused_pods(plan: "Plan", random: Random) -> "Plan":
    """A workload that the scheduler never places, for a reason that packing does not know; or an attach limit."""
    name, replicas, cpu = "odd", random.randint(1, 3), random.choice((50, 300))
    traits = random.choice(({"refused": random.choice(_REFUSED)}, {"most_on_node": 1}))
    odd = {"name": name, "replicas": replicas, "cpu": cpu, "traits": traits}
    return _with(plan, workloads=(*plan.scene.workloads, odd))


def _slow_pods(plan: "Plan", random: Random) -> "Plan":
    """Services whose pods are ready minutes after they were placed."""
    starts_in = random.choice((60.0, 200.0, 400.0))
    slower = [
        {**each, "traits": {**each["traits"], "starts_in": starts_in}} if "cpu_use" in each.get("traits", {}) else each
        for each in plan.scene.workloads
    ]
    return _with(plan, workloads=tuple(slower))


def _tolerant_pods(plan: "Plan", random: Random) -> "Plan":
    """A workload that tolerates every taint: the scheduler puts its pods back onto a leaving node."""
    tolerant = {"name": "tolerant", "replicas": random.randint(1, 4), "cpu": 100, "tolerates_all": True}
    return _with(plan, workloads=(*plan.scene.workloads, tolerant))


def _tiny(plan: "Plan", random: Random) -> "Plan":
    """One to three nodes, often with min = max."""
    least = random.choice((1, 1, 2, 3))
    limits = {"min": least, "max": random.choice((least, least, least + 1, 3))}
    return _with_fleet(plan, limits, random.randint(least, limits["max"]))


def _large(plan: "Plan", random: Random) -> "Plan":
    most = random.choice((24, 40, 60))
    workers = random.randint(most // 2, most)
    wanted = ({"name": "wide", "replicas": workers, "cpu": 900, "budget": {"max_unavailable": "10%"}},)
    plan = _with_fleet(plan, {"min": random.choice((2, most // 3)), "max": most}, workers)
    return _with(plan, workloads=(*plan.scene.workloads, *wanted))


def _fleet_max(plan: "Plan", random: Random) -> "Plan":
    """One limit for all pools together: between what they need at least and what they may have each."""
    limits = [pool["limits"] for pool in plan.scene.policy.get("pools", [plan.scene.policy])]
    least, most = (sum(each[side] for each in limits) for side in ("min", "max"))
    fleet = {**plan.scene.policy.get("fleet", {}), "max": random.randint(max(1, least), most)}
    return _with(plan, policy={**plan.scene.policy, "fleet": fleet})


def _caps(plan: "Plan", random: Random) -> "Plan":
    """One or two caps over all pools, each for so many nodes of the usual type and a part of one; and an order."""
    pools = plan.scene.policy.get("pools", [plan.scene.policy])
    least, most = (sum(pool["limits"][side] for pool in pools) for side in ("min", "max"))
    nodes = random.randint(max(1, least), max(1, most)) + random.choice((0.0, 0.0, 0.5))
    chosen = random.sample(sorted(_A_NODE), k=random.choice((1, 1, 2)))
    caps = {name: nodes * _A_NODE[name] for name in chosen}
    changed = {**plan.scene.policy, "fleet": {**plan.scene.policy.get("fleet", {}), **caps}}
    if "pools" in changed:
        first, *others = changed["pools"]
        changed["pools"] = [first, *({**each, "priority": random.choice((0, 10))} for each in others)]
    return _with(plan, policy=changed)


def _gpu_pool(plan: "Plan", random: Random) -> "Plan":
    """A pool of its own for pods that ask for a GPU; perhaps with a cap of GPUs."""
    gpu = {
        "name": "gpu",
        "limits": {"min": 0, "max": random.choice((1, 2))},
        "market": {"types": ["g4dn.xlarge"], "max_price_usd": 0.6, "on_demand_base": random.choice((0, 1))},
    }
    policy = _in_pools(plan.scene.policy)
    policy["pools"] = [*policy["pools"], gpu]
    if chance(random, 0.3):
        policy["fleet"] = {**policy.get("fleet", {}), "gpus": 1}
    lasts = {"traits": {"runs_for": 900.0}} if coin(random) else {}
    kind = Kind.JOB if lasts else Kind.DEPLOYMENT
    train = {"name": "train", "kind": kind.name, "replicas": random.randint(1, 3), "cpu": 500, **lasts}
    return _with(plan, policy=policy, workloads=(*plan.scene.workloads, {**train, "extended": {GPU: 1}}))


def _tenants(plan: "Plan", random: Random) -> "Plan":
    """Two teams in namespaces of their own, one of which may have no share that is named."""
    shares = {name: float(random.choice((1, 2, 5))) for name in random.sample(_TEAMS, k=random.choice((1, 2)))}
    asking = [
        {"name": f"{team}-web", "namespace": team, "replicas": random.randint(1, 6), "cpu": random.choice((300, 900))}
        for team in _TEAMS
    ]
    policy = {**plan.scene.policy, "tenants": {"shares": shares}}
    return _with(plan, policy=policy, workloads=(*plan.scene.workloads, *asking))


def _history(plan: "Plan", random: Random) -> "Plan":
    return _with(plan, history_days=random.choice(_DAYS))


def _with_fleet(plan: "Plan", limits: Mapping[str, int], workers: int) -> "Plan":
    plan = _in_policy(plan, limits=limits)
    base = min(1, limits["max"])
    plan = _in_policy(plan, market={**_first(plan.scene.policy)["market"], "on_demand_base": base})
    return _with(plan, workers={**plan.scene.workers, "default": workers})


# ── the policy ───────────────────────────────────────────────────────────────────────────────────────────────────


def _preset(plan: "Plan", random: Random) -> "Plan":
    """One of the presets, with its own steps and cooldown."""
    name = random.choice(sorted(PRESETS))
    scene = plan.scene
    changed = {"preset": name, **_without(scene.policy, "steps", "cooldown")}
    if "pools" in changed:
        first, *others = changed["pools"]
        changed["pools"] = [_without(first, "steps", "cooldown"), *others]
    return _with(plan, policy=changed)


def _packing(plan: "Plan", _: Random) -> "Plan":
    """Pending pods get what packing says at once, whatever the preset says."""
    return _in_policy(plan, steps={**_first(plan.scene.policy).get("steps", {}), "pending": "packing"})


def _drains_on_rebalance(plan: "Plan", _: Random) -> "Plan":
    return _in_policy(plan, removal={"drain_on_rebalance": True})


def _rotation(plan: "Plan", random: Random) -> "Plan":
    """Workers may not be much older than those are that have been there for a day, or the template changes."""
    rules = {
        "max_age": random.choice(("0s", "24h", "25h")),
        "spread_percent": random.choice((0, 20)),
        "drift": random.choice((True, True, False)),
        "retry_longest": "20m",
    }
    plan = _in_policy(plan, rotation=rules)
    return _with_incident(1100, "an operator deploys a new template")(plan, random)


def _warm(plan: "Plan", random: Random) -> "Plan":
    """Some instances are stopped and started again; with 25 h some grow too old within the hour."""
    rules = {"size": random.randint(1, 4), "max_age": random.choice(("7d", "25h"))}
    market = {**_first(plan.scene.policy).get("market", {}), "spot_percent": random.choice((0, 0, 50))}
    return _with(_in_policy(plan, warm=rules, market=market), warm=rules["size"])


def _consolidation(plan: "Plan", random: Random) -> "Plan":
    """Each mode; nodes are old enough, and the fleet quiet for long enough, within the hour. Pods that use more CPU
    than they request keep it between the thresholds while nodes are half full."""
    rules = {
        "mode": random.choice(("off", "empty", "underutilised", "underutilised")),
        "after": random.choice((0, 60, 300, 600)),
        "min_age": random.choice((0, 120, 600)),
    }
    busy = {
        "name": "busy",
        "replicas": plan.scene.workers.get("default", 0) + random.randint(0, 2),
        "cpu": 400,
        "traits": {"cpu_use": random.choice((1.0, 1.7, 2.2))},
    }
    return _with(_in_policy(plan, consolidation=rules), workloads=(*plan.scene.workloads, busy))


def _headroom(plan: "Plan", random: Random) -> "Plan":
    """Each way to say how much is kept free."""
    kept = random.choice(
        (
            {"nodes": 1},
            {"nodes": 2},
            {"pods": 3, "pod_cpu": 0.4, "pod_memory": 0.25},
            {"pods": 2},
            {"cpu": 1.5},
            {"memory": 1.0},
            {"percent": 30},
            {"peak_percent": 20},
        )
    )
    most = _first(plan.scene.policy)["limits"]["max"]
    return _in_policy(plan, headroom=kept if kept.get("nodes", 0) < most else {"pods": 2})


def _adaptive(plan: "Plan", random: Random) -> "Plan":
    rules = {"price": random.choice(("frugal", "balanced", "careful")), "headroom": random.choice((0, 0, 1))}
    return _in_policy(plan, strategy="adaptive", adaptive=rules)


def _empty_reading(plan: "Plan", random: Random) -> "Plan":
    """A queue whose query finds no series while it is idle: always, or but for some minutes."""
    begins = random.uniform(0, TROUBLE.total_seconds())
    busy = random.choice(((), (begins, begins + random.uniform(120, 1200))))
    source = {"kind": "prometheus", "query": f"sum({BACKLOG})"}
    rule = {"kind": "threshold", "name": BACKLOG, "reading": BACKLOG, "quantity": "queue", "limit": 100}
    plan = _in_policy(plan, readings={BACKLOG: source}, custom=[rule])
    return _with(plan, backlog=busy)


def _standby(plan: "Plan", random: Random) -> "Plan":
    """Another region fails once or twice, for minutes or for good; its floor ends by command or by itself."""
    first = _first(plan.scene.policy)
    begins = random.uniform(300, TROUBLE.total_seconds())
    ends = begins + random.choice((90.0, 600.0, 2400.0, 36_000.0))
    fails = [(begins, ends), (ends + 900.0, ends + 1500.0)] if chance(random, 0.3) else [(begins, ends)]
    nodes, lasting = random.randint(1, max(1, first["limits"]["max"] // 2)), random.choice(("15m", "40m"))
    rules = {"origin": REGION, "reading": REGION, "nodes": nodes, "lasting": lasting}
    source = {"kind": "prometheus", "query": f'count(up{{region="{REGION}"}} == 1)'}
    plan = _in_policy(plan, readings={**first.get("readings", {}), REGION: source}, standby=rules)
    return _with(plan, region={"fails": fails, "moves_back": chance(random, 0.4)})


# ── functions and time ───────────────────────────────────────────────────────────────────────────────────────────


def _concurrency(plan: "Plan", random: Random) -> "Plan":
    return replace(plan, concurrency=random.choice((1, 1, 2, 5)))


def _slow_iterations(plan: "Plan", random: Random) -> "Plan":
    return replace(plan, look_takes=random.choice((5.0, 12.0, 23.0, 38.0, 60.0, 90.0)))


def _stays_dead(plan: "Plan", _: Random) -> "Plan":
    return replace(plan, revives=False)


def _stays_stopped(plan: "Plan", _: Random) -> "Plan":
    return replace(plan, clears_stopped=False)


def _with_incident(number: int, kind: str) -> Change:
    """The same number for ever: it names the incident's own stream."""

    def change(plan: "Plan", random: Random) -> "Plan":
        incident = Incident(number=number, after=random.uniform(0, TROUBLE.total_seconds()), kind=kind)
        return replace(plan, incidents=tuple(sorted((*plan.incidents, incident), key=lambda each: each.after)))

    return change


WIDENINGS: Mapping[str, Widening] = {
    "generated names": Widening(0.7, _names),
    "random scheduling order": Widening(0.5, _order),
    "pods that the scheduler refuses": Widening(0.1, _refused_pods),
    "a tiny fleet": Widening(0.15, _tiny),
    "a large fleet": Widening(0.05, _large),  # it takes as long as three others
    "a long history": Widening(0.05, _history),
    "a preset": Widening(0.25, _preset),
    "packing": Widening(0.4, _packing),
    "drains on rebalance": Widening(0.2, _drains_on_rebalance),
    "limited concurrency": Widening(0.2, _concurrency),
    "slow iterations": Widening(0.1, _slow_iterations, "slow looks"),
    "the dead stay dead": Widening(0.7, _stays_dead),
    "the stopped stay stopped": Widening(0.5, _stays_stopped),
    "a reading without data": Widening(0.1, _empty_reading),
    "pods that start slowly": Widening(0.3, _slow_pods),
    "pods that tolerate every taint": Widening(0.1, _tolerant_pods),
    "rotation": Widening(0.15, _rotation),
    "consolidation": Widening(0.4, _consolidation),
    "warm": Widening(0.3, _warm),
    "headroom": Widening(0.06, _headroom),
    "adaptive": Widening(0.06, _adaptive),
    "tenants": Widening(0.04, _tenants),
    "a pool with GPUs": Widening(0.04, _gpu_pool),
    "fleet.max": Widening(0.2, _fleet_max),  # after those that change the pools' own limits
    "caps of the fleet": Widening(0.08, _caps),
    "standby": Widening(0.06, _standby),  # after those that change max and the readings
}

_STREAMS = {
    1005: "a person renames a pool",
    1006: "a person deletes a healthy Node",
    1007: "a person stops a healthy machine",
    1014: "a person removes a pool that grows",
    1101: "a person recycles a worker",
    1102: "a person changes fleet.max",
}

# Incidents that the plain plan does not know; what each does is in `incidents`. Numbers are never used again.
LATER: Mapping[str, Widening] = {
    kind: Widening(share, _with_incident(number, kind), _STREAMS.get(number, ""))
    for number, kind, share in (
        (1000, "a pod cannot be evicted", 0.2),
        (1001, "a node cannot be changed", 0.1),
        (1002, "a record cannot be read", 0.05),
        (1003, "EC2 schedules a change days ahead", 0.15),
        (1004, "a new release refuses the policy", 0.1),
        (1005, "an operator renames a pool", 0.1),
        (1006, "an operator deletes a healthy Node", 0.1),
        (1007, "an operator stops a healthy instance", 0.1),
        (1008, "the scheduler refuses a workload", 0.15),
        (1009, "EC2 recommends to rebalance all", 0.1),
        (1010, "a node stays dead", 0.2),
        (1011, "an exporter falls silent", 0.15),
        (1012, "a node can never be changed", 0.05),
        (1013, "a notice can never be read", 0.05),
        (1014, "an operator removes a pool that grows", 0.1),
        (1015, "EC2 schedules changes of many days ahead", 0.1),
        (1016, "EC2 never tags what did not join", 0.03),
        (1101, "an operator recycles a worker", 0.1),
        (1102, "an operator changes fleet.max", 0.1),
        (1103, "an operator drains a worker", 0.1),
    )
}
ALL: Mapping[str, Widening] = {**WIDENINGS, **LATER}


# ── details ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _with(plan: "Plan", **scene: Any) -> "Plan":
    changed: Scene = replace(plan.scene, **scene)
    return replace(plan, scene=changed)


def _in_kubernetes(plan: "Plan", **settings: Any) -> "Plan":
    return _with(plan, kubernetes={**plan.scene.kubernetes, **settings})


def _in_policy(plan: "Plan", **rules: Any) -> "Plan":
    """In the first pool, the one that every scene has."""
    policy = plan.scene.policy
    if "pools" not in policy:
        return _with(plan, policy={**policy, **rules})
    first, *others = policy["pools"]
    return _with(plan, policy={**policy, "pools": [{**first, **rules}, *others]})


def _in_pools(policy: Mapping[str, Any]) -> dict[str, Any]:
    """The same policy with its only pool named, if it is not."""
    if "pools" in policy:
        return dict(policy)
    common = {key: value for key, value in policy.items() if key in COMMON}
    return {**common, "pools": [{"name": "default", **_without(policy, *common)}]}


def _first(policy: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = policy["pools"][0] if "pools" in policy else policy
    return found


def _without(rules: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in rules.items() if key not in names}

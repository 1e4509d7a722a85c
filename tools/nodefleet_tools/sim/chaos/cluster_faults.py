"""Faults of the cluster: nodes fall silent, load comes and goes, the server is restored, parts are unavailable."""

from random import Random

from nodefleet.errors import DeniedError, ThrottledError, UnavailableError
from nodefleet_tools.sim.chaos.drawing import coin
from nodefleet_tools.sim.chaos.fault_injection import Failing
from nodefleet_tools.sim.chaos.stage import Stage
from nodefleet_tools.sim.workloads import Kind, Workload

_SCALED = (Kind.DEPLOYMENT, Kind.STATEFUL_SET)


def falls_silent(stage: Stage, random: Random) -> str:
    node = stage.any_node(random)
    if node is None:
        return ""
    seconds = random.choice((30.0, 90.0, 400.0, 2000.0, None))
    stage.world.nodes.silence(node.name, for_seconds=seconds)
    return f"{node.name} {'for ever' if seconds is None else f'for {seconds:.0f} s'}"


def flaps(stage: Stage, random: Random) -> str:
    node = stage.any_node(random)
    if node is None:
        return ""

    def falls() -> None:
        if not stage.strikes.calm:
            stage.world.nodes.silence(node.name, for_seconds=60)

    for number in range(random.randint(2, 6)):
        stage.world.clock.after(number * random.uniform(90, 150), falls)
    return node.name


def stays_dead(stage: Stage, random: Random) -> str:
    node = stage.any_node(random)
    if node is None:
        return ""
    stage.world.nodes.silence(node.name, for_seconds=None)
    stage.dead.add(node.name)
    return node.name


# ── one object that always fails ─────────────────────────────────────────────────────────────────────────────────


def cannot_evict(stage: Stage, random: Random) -> str:
    """Every eviction of one pod fails: a webhook that breaks, a right that lacks, an answer that never comes."""
    placed = [pod for pod in stage.world.kube.pods.values() if pod.node and not pod.is_daemon and not pod.finished]
    if not placed:
        return ""
    pod = random.choice(placed)
    failing = _failing(random)
    stage.strikes.poisoned[pod.uid] = failing
    if coin(random):
        stage.lasting.add(pod.uid)
    return f"{pod.key}: {failing()}"


def cannot_change_node(stage: Stage, random: Random) -> str:
    node = stage.any_node(random)
    if node is None:
        return ""
    failing = _failing(random)
    stage.strikes.poisoned[node.name] = failing
    return f"{node.name}: {failing()}"


def can_never_change_node(stage: Stage, random: Random) -> str:
    """A webhook or a finalizer that no operator fixes: its cordon, its uncordon and its deletion fail for ever."""
    node = stage.any_node(random)
    if node is None:
        return ""
    failing = _failing(random)
    stage.strikes.hopeless[node.name] = failing
    return f"{node.name}: {failing()}"


def _failing(random: Random) -> Failing:
    return random.choice(
        (
            lambda: UnavailableError("Kubernetes", "500: failed calling webhook"),
            lambda: UnavailableError("Kubernetes", "504: timed out"),
            lambda: ThrottledError("Kubernetes", "429: too many requests"),
            lambda: DeniedError("Kubernetes", "403: forbidden", "Fix the role"),
        )
    )


def cannot_read_record(stage: Stage, random: Random) -> str:
    """Until an operator deploys the version that wrote it."""
    seconds = random.uniform(30, 900)
    stage.strikes.unreadable = "operation#launch"

    def fixed() -> None:
        stage.strikes.unreadable = ""

    stage.world.clock.after(seconds, fixed)
    return f"for {seconds:.0f} s"


def refuses_workload(stage: Stage, random: Random) -> str:
    """The scheduler has a reason that packing does not know, for a while or for ever."""
    workload = _any(stage, random)
    if workload is None:
        return ""
    workload.traits.refused = "0/3 nodes are available: 3 node(s) exceed max volume count."
    stage.world.kube.changed()
    if coin(random):
        stage.lasting.add(workload.uid)
        return f"{workload.name} for ever"

    def accepts() -> None:
        workload.traits.refused = ""
        stage.world.kube.changed()

    stage.world.clock.after(random.uniform(60, 1800), accepts)
    return workload.name


def scales_workload(stage: Stage, random: Random) -> str:
    workload = _any(stage, random)
    if workload is None:
        return ""
    replicas = random.choice((0, 1, 2, 4, 8, 12))
    stage.world.controllers.scale(workload, replicas)
    return f"{workload.name} to {replicas}"


def changes_load(stage: Stage, random: Random) -> str:
    workload = _any(stage, random)
    if workload is None:
        return ""
    workload.traits.cpu_use = random.choice((0.05, 0.5, 1.0, 2.0))
    return f"{workload.name} uses {workload.traits.cpu_use:g} × what it asks for"


def changes_budget(stage: Stage, random: Random) -> str:
    """A second budget on the same pods, among others: those can never be evicted."""
    workload = _any(stage, random)
    if workload is None:
        return ""
    world = stage.world
    chosen = random.choice(("none", "0", "50%", "two"))
    world.kube.budgets.pop(f"default/{workload.name}-pdb", None)
    if chosen == "two":
        made = world.protect(workload.name, max_unavailable="1")
        world.kube.budgets[f"{made.key}-2"] = made
    elif chosen != "none":
        world.protect(workload.name, max_unavailable=chosen)
    world.kube.changed()
    return f"{workload.name}: {chosen}"


def _any(stage: Stage, random: Random) -> Workload | None:
    """There is always one while the scene has a service; a shortened one may have none."""
    scaled = [
        each
        for each in stage.world.controllers.workloads.values()
        if each.kind in _SCALED and each.namespace == "default"
    ]
    return random.choice(scaled) if scaled else None


def is_restored(stage: Stage, random: Random) -> str:
    """From nothing or from the snapshot of the beginning, after the API server has been away."""
    world = stage.world
    away = random.uniform(30, 300)
    nodes = stage.snapshot if coin(random) else ()
    world.away("cluster", "connection refused", for_seconds=away)
    share = random.choice((0.0, 0.5, 1.0))

    def restored() -> None:
        if stage.strikes.calm:
            return
        world.nodes.restore(nodes, share, random)
        there = world.kube.nodes.values()
        world.guard.by_people = {node.name for node in there if node.pool and node.cordoned and not node.removal}

    world.clock.after(away, restored)
    return f"{'from an old snapshot' if nodes else 'empty'} after {away:.0f} s, {share:.0%} of the agents start again"


# ── parts ────────────────────────────────────────────────────────────────────────────────────────────────────────


def ec2_away(stage: Stage, random: Random) -> str:
    return _away(stage, random, "cloud")


def kubernetes_away(stage: Stage, random: Random) -> str:
    return _away(stage, random, "cluster")


def dynamodb_away(stage: Stage, random: Random) -> str:
    return _away(stage, random, "store")


def prometheus_away(stage: Stage, random: Random) -> str:
    return _away(stage, random, "gauges")


def s3_away(stage: Stage, random: Random) -> str:
    return _away(stage, random, "archive")


def _away(stage: Stage, random: Random, port: str) -> str:
    seconds = random.choice((20.0, 100.0, 300.0, 900.0))
    stage.world.away(port, for_seconds=seconds)
    return f"for {seconds:.0f} s"


def stands_still(stage: Stage, random: Random) -> str:
    """It answers, but scrapes nothing new."""
    prometheus, seconds = stage.world.prometheus, random.uniform(60, 1200)
    prometheus.frozen = True

    def goes_on() -> None:
        prometheus.frozen = False

    stage.world.clock.after(seconds, goes_on)
    return f"for {seconds:.0f} s"


def lacks_reading(stage: Stage, random: Random) -> str:
    prometheus, seconds = stage.world.prometheus, random.uniform(60, 1200)
    pool = random.choice(stage.world.policy.pools)
    key = (pool.name, random.choice(("cpu", "memory")))
    prometheus.missing[key] = "the query gave no series"
    stage.world.clock.after(seconds, lambda: prometheus.missing.pop(key, None))
    return f"{key[1]} of {pool.name} for {seconds:.0f} s"


def loses_exporter(stage: Stage, random: Random) -> str:
    """The node is well, and no exporter measures it; for a while, or for ever."""
    node = stage.any_node(random)
    if node is None:
        return ""
    silent = stage.world.prometheus.silent
    silent.add(node.name)
    if coin(random):
        stage.lasting.add(node.name)
        return f"{node.name} for ever"
    seconds = random.uniform(60, 2400)
    stage.world.clock.after(seconds, lambda: silent.discard(node.name))
    return f"{node.name} for {seconds:.0f} s"


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def alert(stage: Stage, random: Random) -> str:  # noqa: ARG001  # as all incidents
    stage.invocations.alert()
    return "wakes a run"


def at_once(stage: Stage, random: Random) -> str:
    number = random.randint(2, 3)
    stage.invocations.at_once(number)
    return f"{number}"

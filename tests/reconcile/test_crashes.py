"""A run is killed before and after the effect of each of its external calls, or the call fails there.

The calls are those that the run really makes: each scene is first played undisturbed, and its calls are counted. Within
three ticks after the lease can be taken everything has converged: no instance lost or doubled, no node stuck
cordoned, no operation open, nothing that must never happen.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import pytest

from nodefleet.errors import UnavailableError
from nodefleet_tools.sim.hooks import Moment, at_call, killed, raising
from support.worlds import Cluster, empty, shop, spot_worker

TICKS = 3
FEWER = {"every": 30}  # looks in a run: the same calls, fewer times
SERVICES = {
    "cloud": "EC2",
    "cluster": "Kubernetes",
    "store": "DynamoDB",
    "history": "DynamoDB",
    "archive": "S3",
}
READS = {
    *("store.free_fence", "store.state", "store.wakes", "gauges.read"),
    *("cloud.instances", "cloud.instance", "cloud.catalog"),
    *("cluster.view", "cluster.nodes", "cluster.node", "cluster.pods_on"),
}


@dataclass(frozen=True)
class Scene:
    """Something that is about to happen, and what there should be when it has."""

    made: Callable[[], Cluster]
    workers: int
    ticks: int = TICKS
    begin: Callable[[Cluster], object] | None = None  # right before the run
    act: Callable[..., object] = Cluster.tick  # the run that is disturbed


def starving() -> Cluster:
    """Pods wait that two more nodes can hold."""
    cluster = shop(workers=2, replicas=2, burst=FEWER, steps={"up": 2})
    cluster.calm(1)
    return cluster


def idle() -> Cluster:
    """The next iteration is the fifth calm one: a node leaves."""
    cluster = shop(workers=3, replicas=4, cpu=200, burst=FEWER)
    cluster.calm(4)
    return cluster


def busy() -> Cluster:
    """Three workers at half their CPU: none of them can be spared."""
    cluster = shop(workers=3, replicas=6, cpu=600, burst=FEWER)
    cluster.calm(1)
    return cluster


def gone() -> Cluster:
    """An operator terminated a worker behind our back."""
    cluster = busy()
    cluster.world.operator.terminate(cluster.world.workers()[-1].id)
    cluster.world.advance(60)
    return cluster


def warned(cluster: Cluster, *hooks: object) -> object:
    return cluster.warned([cluster.world.interrupt(spot_worker(cluster.world))], *hooks)


SCENES = {
    "from nothing to min": Scene(made=lambda: empty(burst=FEWER), workers=2),
    "pods wait": Scene(made=starving, workers=4, begin=lambda it: it.world.deploy("sale", replicas=6, cpu=900)),
    # Calm has to be seen again after the gap that a killed run leaves, and parts that were away keep the fleet a while.
    "a node leaves": Scene(made=idle, workers=2, ticks=8),
    "a worker was terminated": Scene(made=gone, workers=3),
    "EC2 takes a node": Scene(made=busy, workers=3, act=warned),
}


def played(scene: Scene, *hooks: object) -> Cluster:
    cluster = scene.made()
    if scene.begin:
        scene.begin(cluster)
    scene.act(cluster, *hooks)
    return cluster


def calls(scene: Scene) -> list[str]:
    """The external calls of the undisturbed run, in order."""
    cluster = played(scene)
    runs = list(cluster.world.runs.values())
    return runs[-1].log


def points() -> list:
    """Every call of every scene, before and after its effect."""
    return [
        pytest.param(name, number, moment, call, id=f"{name}-{number}-{call}-{moment.value}")
        for name, scene in SCENES.items()
        for number, call in enumerate(calls(scene), start=1)
        for moment in Moment
    ]


POINTS = points()
# Nothing outside the process changes between two calls, nor by a call that only reads: whoever dies before a call, or
# after having read, dies as after the last call before it that changed something.
DEATHS = [
    point
    for point in POINTS
    if point.values[1] == 1 or (point.values[2] is Moment.AFTER and point.values[3] not in READS)
]
# A call that only reads fails alike before and after.
FAILURES = [
    point
    for point in POINTS
    if point.values[3].split(".")[0] in SERVICES and (point.values[2] is Moment.BEFORE or point.values[3] not in READS)
]


def converge(cluster: Cluster, scene: Scene) -> None:
    """The lease runs out, then a few ticks."""
    world = cluster.world
    world.advance(135)  # the longest that a run can last, and the margin for clocks
    cluster.ticks = max(cluster.ticks, int((world.now - cluster.began) / timedelta(seconds=120)))
    cluster.calm(scene.ticks)


def check(cluster: Cluster, scene: Scene) -> None:
    world = cluster.world
    assert world.violations == []
    assert len(world.workers()) == scene.workers, [str(machine) for machine in world.workers()]
    assert cluster.operations == ()
    ours = [node for node in world.kube.nodes.values() if node.pool]
    assert [node.name for node in ours if node.cordoned] == []
    assert sorted(node.instance for node in ours) == sorted(machine.id for machine in world.workers())
    assert world.waiting_pods() == []


@pytest.mark.parametrize("name", SCENES)
def test_undisturbed_it_converges(name):
    cluster = played(SCENES[name])
    converge(cluster, SCENES[name])
    check(cluster, SCENES[name])


@pytest.mark.parametrize(("name", "number", "moment", "call"), DEATHS)
def test_a_run_that_is_killed_at_any_call_is_carried_on(name, number, moment, call):
    cluster = played(SCENES[name], killed(number, moment))
    converge(cluster, SCENES[name])
    check(cluster, SCENES[name])


@pytest.mark.parametrize(("name", "number", "moment", "call"), FAILURES)
def test_a_call_that_fails_before_or_after_its_effect_does_no_harm(name, number, moment, call):
    """The caller does not know which."""
    error = UnavailableError(SERVICES[call.split(".")[0]], "connection reset by peer")
    cluster = SCENES[name].made()
    if SCENES[name].begin:
        SCENES[name].begin(cluster)
    try:
        SCENES[name].act(cluster, at_call(number, moment, raising(error)))
    except UnavailableError as raised:
        assert raised.part == "DynamoDB"  # noqa: PT017  # anything else is lived with
    converge(cluster, SCENES[name])
    check(cluster, SCENES[name])

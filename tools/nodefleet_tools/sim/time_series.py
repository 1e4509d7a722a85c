"""One moment of a world, as the live view and the report show it."""

from collections.abc import Collection, Sequence

from nodefleet.model.inventory import InstanceState, Node
from nodefleet.model.snapshot import Reading
from nodefleet.ports import Eviction
from nodefleet_tools.sim.budgets import ruling
from nodefleet_tools.sim.instances import SimulatedInstance
from nodefleet_tools.sim.load import Service
from nodefleet_tools.sim.scenario_result import DrainSeen, Standing, WorkerSeen
from nodefleet_tools.sim.world import World

_GONE = (InstanceState.TERMINATED, InstanceState.STOPPED)


def serves(node: Node) -> bool:
    """A worker that takes pods."""
    return node.pool is not None and node.ready and not node.cordoned


def readings(world: World) -> tuple[float | None, float | None]:
    """CPU and memory of the first pool in percent, as Prometheus shows them."""
    seen = world.prometheus.readings(world.policy.pools[0], with_load=False)
    cpu, memory = (sample.value if isinstance(sample, Reading) else None for sample in (seen.cpu, seen.memory))
    return cpu, memory


def workers(world: World, joined: Collection[str]) -> tuple[WorkerSeen, ...]:
    """Every instance that is a worker and not gone yet; `joined` are those that were ready once."""
    nodes = {node.instance: node for node in world.kube.nodes.values() if node.instance}
    found = []
    for machine in world.ec2.machines.values():
        if machine.ours and machine.worker and machine.state not in _GONE:
            node = nodes.get(machine.id)
            standing = _standing(machine, node if machine.id in joined else None)
            name = node.name if node else machine.id
            found.append(WorkerSeen(name=name, zone=machine.zone, market=machine.market, standing=standing))
    return tuple(found)


def _standing(machine: SimulatedInstance, node: Node | None) -> Standing:
    if machine.state is InstanceState.SHUTTING_DOWN:
        return Standing.ENDING
    if machine.interrupted_at is not None:
        return Standing.INTERRUPTED
    if machine.failed:
        return Standing.FAILED
    if node is None:
        return Standing.BOOTING
    if node.cordoned and node.removal:
        return Standing.DRAINING
    return Standing.READY if node.ready else Standing.UNREADY


def drains(world: World) -> tuple[DrainSeen, ...]:
    """Nodes that are being drained, and the budget that each waits for."""
    found = []
    for node in world.kube.nodes.values():
        if not node.removal:
            continue
        left = [pod for pod in world.kube.pods_on(node.name) if not (pod.is_daemon or pod.finished or pod.mirror)]
        held = (ruling(pod, list(world.kube.budgets.values()), list(world.kube.pods.values())) for pod in left)
        refused = (each.budget for each in held if each.answer.result is Eviction.REFUSED)
        budget = next((each.name for each in refused if each is not None), "")
        found.append(DrainSeen(node=node.name, left=len(left), budget=budget))
    return tuple(found)


def room(world: World, services: Sequence[Service]) -> float | None:
    """What the ready nodes could serve if a service's pods filled them. Of one service only: several would share."""
    if len(services) != 1:
        return None
    (service,) = services
    return service.per_pod * sum(_fits(world, node, service) for node in world.kube.nodes.values() if serves(node))


def _fits(world: World, node: Node, service: Service) -> int:
    """How many of the service's pods a node could hold beside the pods of others."""
    asks, own = service.workload.template.requests, service.workload.uid
    cpu, memory = node.allocatable.cpu, node.allocatable.memory
    for pod in world.kube.pods_on(node.name):
        if not pod.finished and (pod.owner is None or pod.owner.uid != own):
            cpu -= pod.requests.cpu
            memory -= pod.requests.memory
    return max(0, min(cpu // max(1, asks.cpu), memory // max(1, asks.memory)))

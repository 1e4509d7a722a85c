"""Nodes that exist and nodes that are expected, in one simulation.

A booting node has room already: pods that will run on it must not buy another one. A node that is leaving, unhealthy
or not ready takes no new pod, but the pods on it still count for affinity and spread.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType

from nodefleet.model.fleet import Phase, Worker
from nodefleet.model.inventory import NOTHING, Market, Node, Resources
from nodefleet.model.operations import Launch, listed_by_launch
from nodefleet.model.snapshot import Missing, Observation
from nodefleet.model.workload import Pod
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Pool
from nodefleet.scheduling.predicates import NodeModel
from nodefleet.scheduling.simulation import SchedulerSimulation
from nodefleet.scheduling.templates import Template, TemplateSource

_ON_THEIR_WAY = (Phase.REQUESTED, Phase.BOOTING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedNode:
    """A node that is not there yet."""

    name: str
    pool: str
    zone: str
    template: Template | None  # none: its size is not known


def simulate_fleet(
    nodes: Sequence[Node],
    pods: Sequence[Pod],
    workers: Sequence[Worker],
    coming: Sequence[ExpectedNode],
    devices: Mapping[str, Resources] = MappingProxyType({}),
) -> SchedulerSimulation:
    """Ready nodes first, by name; then those that boot. `devices`: by node, what it will hold with its devices.

    A pod that preemption makes room for has its node already: the scheduler keeps that room from others.
    """
    pods = [replace(pod, node=pod.nominated_node) if pod.node is None and pod.nominated_node else pod for pod in pods]
    awaited = {each.name for each in coming}
    phases = {worker.node.name: worker.phase for worker in workers if worker.node}
    standing = sorted((node for node in nodes if node.name not in awaited), key=lambda node: node.name)
    complete = (replace(node, allocatable=devices[node.name]) if node.name in devices else node for node in standing)
    room = SchedulerSimulation([_model(node, phases.get(node.name)) for node in complete], pods)
    early: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        if pod.node in awaited and not pod.is_daemon and not pod.finished:
            early[pod.node].append(pod)
    for each in coming:
        if each.template:
            room.add(each.template.with_name(each.name), (*each.template.daemons, *early[each.name]))
    return room


def expected_nodes(
    observation: Observation, pools: Iterable[Pool], workers: Sequence[Worker], known: TemplateSource
) -> tuple[ExpectedNode, ...]:
    """Workers that boot, and launches that EC2 does not show yet."""
    by_name = {pool.name: pool for pool in pools}
    found = [
        _expected_node(
            known, by_name, worker.name, worker.pool, (worker.instance.type,), worker.zone, worker.instance.market
        )
        for worker in workers
        if worker.instance and worker.phase in _ON_THEIR_WAY and worker.is_capacity
    ]
    found += [
        _expected_node(known, by_name, f"{launch.id}/{number}", launch.pool, launch.types, launch.zone, launch.market)
        for launch, missing in _unseen_launches(observation)
        for number in range(missing)
    ]
    return tuple(found)


def zones_in_use(workers: Sequence[Worker], coming: Sequence[ExpectedNode]) -> Mapping[str, Counter[str]]:
    """How many workers each pool has in each zone, those on their way included."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for worker in workers:
        if worker.is_capacity and worker.phase not in _ON_THEIR_WAY:
            found[worker.pool][worker.zone] += 1
    for each in coming:
        found[each.pool][each.zone] += 1
    return found


def _expected_node(
    known: TemplateSource,
    pools: Mapping[str, Pool],
    name: str,
    pool_name: str,
    types: Sequence[str],
    zone: str,
    market: Market,
) -> ExpectedNode:
    pool = pools.get(pool_name)
    found = (known.template(pool, type_, zone, market) for type_ in types) if pool else iter(())
    return ExpectedNode(name=name, pool=pool_name, zone=zone, template=next(filter(None, found), None))


def _unseen_launches(observation: Observation) -> Iterator[tuple[Launch, int]]:
    instances = () if isinstance(observation.instances, Missing) else observation.instances
    shown = listed_by_launch(observation.operations, instances)
    for operation in observation.operations:
        if isinstance(operation, Launch):
            yield operation, max(0, operation.expected - shown[operation.id])


def _model(node: Node, phase: Phase | None) -> NodeModel:
    """`phase` is none for nodes that are not ours, and for all nodes while EC2 does not answer."""
    if phase not in (None, Phase.READY, Phase.UNLISTED, Phase.CORDONED):
        closed = f"the node is {phase.value}"
    else:
        closed = "" if node.ready else "the node is not ready"
    return NodeModel(
        name=node.name,
        labels=node.labels,
        taints=node.taints,
        allocatable=node.allocatable,
        cordoned=node.cordoned or phase is Phase.CORDONED,
        closed=closed,
        attach_limits=node.attach_limits,
    )


# ── devices ──────────────────────────────────────────────────────────────────────────────────────────────────────────
# GPUs and other devices of nodes: extended resources that a device plugin offers some time after the node is ready.
#
# Until then the catalogue of types knows what the node will hold: a ready node without its devices is still booting for
# the pods that ask for them. After `health.device_limit` it counts as what it is, a node without devices.


def awaited_devices(observation: Observation, policy: Policy, workers: Iterable[Worker]) -> Mapping[str, Resources]:
    """By node: what a ready node will hold once its device plugin is up, while that may still take its time."""
    catalog = {offer.name: offer.resources for offer in observation.catalog if offer.resources.extended}
    found = {}
    for worker in workers if catalog else ():
        pool, node = policy.pool(worker.pool), worker.node
        if pool is None or node is None or worker.instance is None or worker.phase is not Phase.READY:
            continue
        complete = node.allocatable.with_devices(catalog.get(worker.instance.type, NOTHING))
        if complete is not node.allocatable and not _is_late(node, pool, observation.at):
            found[node.name] = complete
    return found


def lacks_devices(pod: Pod, node: Node, pool: Pool, now: datetime) -> str | None:
    """Which device that the pod asks for the node should offer by now and does not; none if it still has time."""
    if not pod.requests.extended or not _is_late(node, pool, now):
        return None
    absent = (name for name in sorted(pod.requests.extended) if not node.allocatable.extended.get(name))
    name = next(absent, None)
    return f"it offers no {name}, so its device plugin is not running" if name else None


def _is_late(node: Node, pool: Pool, now: datetime) -> bool:
    return node.ready_changed_at is None or now - node.ready_changed_at >= pool.health.device_limit

"""The nodes there are and those on their way, as one room.

A node that boots is room already: pods that will sit on it must not buy another one. What is leaving, sick or
unready takes no new pod, but the pods on it still count as neighbours.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from nodefleet.decide.scheduling.places import NodeModel
from nodefleet.decide.scheduling.room import Room
from nodefleet.decide.scheduling.templates import Knowledge, Template
from nodefleet.domain.fleet import Phase, Worker, expected
from nodefleet.domain.machines import Node
from nodefleet.domain.observation import Observation
from nodefleet.domain.operations import Launch
from nodefleet.domain.policy import Policy
from nodefleet.domain.readings import Missing
from nodefleet.domain.workload import Pod

_ON_THEIR_WAY = (Phase.REQUESTED, Phase.BOOTING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coming:
    """A node that is not there yet."""

    name: str
    pool: str
    zone: str
    template: Template | None  # none: nobody knows what it will hold


def room_of(nodes: Sequence[Node], pods: Sequence[Pod], workers: Sequence[Worker], coming: Sequence[Coming]) -> Room:
    """Ready nodes first, by name; then those that boot."""
    awaited = {each.name for each in coming}
    phases = {worker.node.name: worker.phase for worker in workers if worker.node}
    standing = sorted((node for node in nodes if node.name not in awaited), key=lambda node: node.name)
    room = Room([_model(node, phases.get(node.name)) for node in standing], pods)
    early: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        if pod.node in awaited and not pod.is_daemon and not pod.finished:
            early[pod.node].append(pod)
    for each in coming:
        if each.template:
            room.add(each.template.named(each.name), (*each.template.daemons, *early[each.name]))
    return room


def coming(seen: Observation, policy: Policy, workers: Sequence[Worker], known: Knowledge) -> tuple[Coming, ...]:
    """Workers that boot, and launches that EC2 does not show yet."""
    found = [
        _coming(known, policy, worker.name, worker.pool, (worker.instance.type,), worker.zone)
        for worker in workers
        if worker.instance and worker.phase in _ON_THEIR_WAY and worker.is_capacity
    ]
    found += [
        _coming(known, policy, f"{launch.id}/{number}", launch.pool, launch.types, launch.zone)
        for launch, missing in _unseen(seen)
        for number in range(missing)
    ]
    return tuple(found)


def zones_in_use(workers: Sequence[Worker], coming: Sequence[Coming]) -> Mapping[str, Counter[str]]:
    """How many workers each pool has in each zone, those on their way included."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for worker in workers:
        if worker.is_capacity and worker.phase not in _ON_THEIR_WAY:
            found[worker.pool][worker.zone] += 1
    for each in coming:
        found[each.pool][each.zone] += 1
    return found


def _coming(known: Knowledge, policy: Policy, name: str, pool_name: str, types: Sequence[str], zone: str) -> Coming:
    pool = policy.pool(pool_name)
    found = (known.template(pool, type_, zone) for type_ in types) if pool else iter(())
    return Coming(name=name, pool=pool_name, zone=zone, template=next(filter(None, found), None))


def _unseen(seen: Observation) -> Iterator[tuple[Launch, int]]:
    instances = () if isinstance(seen.instances, Missing) else seen.instances
    shown = Counter(instance.operation for instance in instances)
    for operation in seen.operations:
        if isinstance(operation, Launch):
            yield operation, max(0, expected(operation) - shown[operation.id])


def _model(node: Node, phase: Phase | None) -> NodeModel:
    """`phase` is none for what is not ours, and for all nodes while EC2 does not answer."""
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
    )

"""Nodes and instances: whether Kubernetes and EC2 speak of the same ones, by the labels and tags that we go by."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from nodefleet.model.inventory import Instance, InstanceState, Node
from nodefleet.model.names import CONTROL_PLANE_LABELS, POOL_LABEL, TAG_CLUSTER, TAG_POOL, pluralize, some
from nodefleet.model.workload import ZONE_LABEL
from nodefleet.policy.cluster import Policy
from nodefleet_tools.doctor.context import DoctorContext
from nodefleet_tools.doctor.findings import Finding, fine, hint, wrong

_GONE = (InstanceState.SHUTTING_DOWN, InstanceState.TERMINATED)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fleet:
    nodes: tuple[Node, ...]
    machines: Mapping[str, Instance]  # by id, those that are not gone
    cluster: str

    @property
    def workers(self) -> list[Node]:
        return [node for node in self.nodes if node.pool is not None and not node.control_plane]

    def machine(self, node: Node) -> Instance | None:
        return self.machines.get(node.instance)


def nodes(ctx: DoctorContext) -> Iterator[Finding]:
    machines = {each.id: each for each in ctx.instances.needed() if each.state not in _GONE}
    fleet = _Fleet(nodes=ctx.view.found().nodes, machines=machines, cluster=ctx.parts.cluster)
    policy = ctx.policy.needed()
    findings = [*_control_plane(fleet), *_identities(fleet), *_labels(fleet, policy), *_joining(fleet, ctx, policy)]
    yield from findings
    if not findings:
        yield fine(f"{pluralize(len(fleet.workers), 'worker', 'workers')}, each the node of its instance")


def _control_plane(fleet: _Fleet) -> Iterator[Finding]:
    unlabelled = [
        node.name
        for node in fleet.nodes
        if not node.control_plane and (machine := fleet.machine(node)) is not None and not machine.worker
    ]
    if unlabelled:
        fix = f"Label them {CONTROL_PLANE_LABELS[0]}=true, or tag their instances as workers"
        yield wrong(f"EC2 calls them no workers, and they are not labelled as control plane: {some(unlabelled)}", fix)
    elif not any(node.control_plane for node in fleet.nodes):
        yield hint(
            f"no node is labelled {CONTROL_PLANE_LABELS[0]}", "Right only if the servers run no agent (--disable-agent)"
        )
    both = [node.name for node in fleet.nodes if node.control_plane and node.pool is not None]
    if both:
        yield hint(f"labelled as control plane and with a pool: {some(both)}", f"Take the label {POOL_LABEL} off")


def _identities(fleet: _Fleet) -> Iterator[Finding]:
    """A worker is its instance's node by its provider id only."""
    nameless = [node.name for node in fleet.workers if not node.instance]
    if nameless:
        fix = "Start the agent with --kubelet-arg=provider-id=aws:///ZONE/INSTANCE-ID; it holds for new nodes only"
        yield wrong(f"no provider id of EC2: {some(nameless)}", fix)
    strangers = [node for node in fleet.workers if node.instance and fleet.machine(node) is None]
    alive = [f"{node.name} ({node.instance})" for node in strangers if node.ready]
    if alive:
        fix = f"Tag their instances {TAG_CLUSTER}={fleet.cluster}, or check that this is the right region and cluster"
        yield wrong(f"EC2 shows no instance of this cluster for {some(alive)}", fix)
    dead = [node.name for node in strangers if not node.ready]
    if dead:
        yield hint(f"their instances are gone: {some(dead)}", "The next runs delete these nodes")


def _labels(fleet: _Fleet, policy: Policy) -> Iterator[Finding]:
    pairs = [(node, machine) for node in fleet.workers if (machine := fleet.machine(node)) is not None]
    torn = [f"{node.name} ({node.pool}, {machine.pool})" for node, machine in pairs if machine.pool != node.pool]
    if torn:
        yield wrong(f"label {POOL_LABEL} and tag {TAG_POOL} differ: {some(torn)}", "Make them the same")
    elsewhere = [node.name for node, machine in pairs if node.labels.get(ZONE_LABEL) != machine.zone]
    if elsewhere:
        fix = f"Start the agent with --node-label={ZONE_LABEL}=ZONE; it holds for new nodes only"
        yield hint(f"the label {ZONE_LABEL} is missing or not the instance's zone: {some(elsewhere)}", fix)
    foreign = [f"{node.name} ({node.pool})" for node in fleet.workers if policy.pool(node.pool or "") is None]
    if foreign:
        yield hint(f"in a pool that the policy does not have: {some(foreign)}", "No pool scales them; fix the policy")
    loose = [node.name for node in fleet.nodes if node.pool is None and not node.control_plane]
    if loose:
        yield hint(f"without the label {POOL_LABEL}: {some(loose)}", "They hold pods and are never touched")


def _joining(fleet: _Fleet, ctx: DoctorContext, policy: Policy) -> Iterator[Finding]:
    joined = {node.instance for node in fleet.nodes}
    now = ctx.parts.now()
    late = [
        machine.id
        for machine in fleet.machines.values()
        if machine.worker
        and machine.state is InstanceState.RUNNING
        and machine.id not in joined
        and (pool := policy.pool(machine.pool)) is not None
        and now - machine.launched_at > pool.health.join_limit
    ]
    if late:
        fix = "Look at their console output (aws ec2 get-console-output) and at the template's user data"
        yield wrong(f"they run, and have not joined in time: {some(late)}", fix)

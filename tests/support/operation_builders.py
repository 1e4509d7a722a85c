"""Small operations, instances, nodes and pods around noon, for tests of what is under way."""

from dataclasses import replace

from nodefleet.model.inventory import Instance, Market, Node
from nodefleet.model.operations import (
    Cleanup,
    Close,
    Launch,
    Operation,
    OrphanKind,
    Refusal,
    Removal,
    RemovalReason,
    Save,
    SendAlert,
    Step,
)
from nodefleet.model.snapshot import ClusterView, Missing, Observation
from nodefleet.model.workload import Budget, Owner, Pod, Selector
from nodefleet.operations.progress import Progress
from nodefleet.policy.cluster import Policy
from support.builders import NOON, after

POLICY = Policy()
AWAY = Missing("connection refused")


def lacking(*types: str) -> list[Refusal]:
    """EC2 had no capacity for these."""
    return [Refusal(type=name) for name in types]


def instance(identity: str = "i-1", **changes) -> Instance:
    return replace(Instance(id=identity, zone="a", launched_at=after(-3600)), **changes)


def node(name: str = "w1", **changes) -> Node:
    return replace(Node(name=name, instance="i-1", ready_changed_at=after(-3000)), **changes)


def cordoned(name: str = "w1", removal: str = "r1", **changes) -> Node:
    return node(name, **{"cordoned": True, "removal": removal} | changes)


def pod(name: str = "web-1", **changes) -> Pod:
    base = Pod(
        name=name,
        uid=f"uid-{name}",
        node="w1",
        labels={"app": name.split("-", maxsplit=1)[0]},
        owner=Owner(kind="ReplicaSet", name="web", uid="rs", replicas=3),
    )
    return replace(base, **changes)


def budget(name: str = "web", needed: str = "100%", app: str = "web") -> Budget:
    return Budget(name=name, selector=Selector(labels={"app": app}), min_available=needed)


def launch(**changes) -> Launch:
    base = Launch(
        id="l1",
        pool="default",
        zone="a",
        market=Market.SPOT,
        types=("t3.small", "t3a.small"),
        count=2,
        template="lt",
        template_version="3",
        subnet="s-a",
        reason="two pods wait",
        started=NOON,
        deadline=after(300),
    )
    return replace(base, **changes)


def removal(why: RemovalReason = RemovalReason.VOLUNTARY, **changes) -> Removal:
    base = Removal(
        id="r1",
        pool="default",
        instance="i-1",
        node="w1",
        why=why,
        reason="one node less",
        started=NOON,
        deadline=after(300),
    )
    return replace(base, **changes)


def interrupted(**changes) -> Removal:
    return removal(RemovalReason.INTERRUPTED, **{"deadline": after(120), "force_from": after(90)} | changes)


def cleanup(debris: OrphanKind = OrphanKind.NODE, **changes) -> Cleanup:
    base = Cleanup(
        id="c1",
        pool="default",
        debris=debris,
        target="w1" if debris is OrphanKind.NODE else "i-1",
        reason="its instance is gone",
        first_seen=NOON,
        started=NOON,
        deadline=after(600),
    )
    return replace(base, **changes)


def look(seconds=0.0, instances=(), nodes=(), pods=(), budgets=(), **changes) -> Observation:
    view = ClusterView(nodes=tuple(nodes), pods=pods if pods is None else tuple(pods), budgets=tuple(budgets))
    machines = instances if isinstance(instances, Missing) else tuple(instances)
    return replace(Observation(at=after(seconds), instances=machines, kubernetes=view), **changes)


def kept(progress: Progress) -> Operation:
    """The state that is stored after the iteration."""
    return [step.operation for step in progress.steps if isinstance(step, Save)][-1]


def closed(progress: Progress) -> Close | None:
    return next((step for step in progress.steps if isinstance(step, Close)), None)


def told(progress: Progress) -> list[SendAlert]:
    return [step for step in progress.steps if isinstance(step, SendAlert)]


def effects(progress: Progress) -> list[Step]:
    """What changes the world: neither bookkeeping nor words."""
    return [step for step in progress.steps if not isinstance(step, Save | Close | SendAlert)]

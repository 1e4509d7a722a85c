"""Whose pods get new nodes first while the fleet cannot have as many as all ask for: those of tenants by their shares,
else those of the highest priority.

A tenant is a namespace or the value of a pod label. Nodes of all pools go one by one to the tenant that has least for
its share, counting what runs already. So a tenant gets at most its share while others wait, and all of it while no
other tenant asks: an idle share is lent. A share that its pool cannot take now (its own max, a pause, no capacity at
EC2) is lent too.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nodefleet.capacity import Amounts, amounts_of, caps_of, is_above_caps, largest_of
from nodefleet.engine.context import PoolContext
from nodefleet.engine.signals.pending_pods import PendingPods
from nodefleet.model.inventory import NOTHING, Market, Resources
from nodefleet.model.snapshot import ClusterView
from nodefleet.model.workload import Pod
from nodefleet.policy.cluster import Tenants
from nodefleet.scheduling.pool_packing import NewNode


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """The pending pods of each pool, their new nodes in the order in which they are bought."""

    pending: Mapping[str, PendingPods]
    kept: Mapping[str, int] = field(default_factory=dict)  # by pool: nodes that pools decided earlier leave it


def tenant_of(pod: Pod, tenants: Tenants) -> str:
    return pod.namespace if tenants.label is None else pod.labels.get(tenants.label, "")


def share_new_nodes(
    contexts: Sequence[PoolContext],
    pending: Mapping[str, PendingPods],
    room: int,
    used: Amounts,
    own: Mapping[str, int],
) -> Shares:
    """By the shares of tenants over all pools, and of one tenant by priority, of the pools first and then of the pods.
    Without shares by priority alone: a pool keeps what it needs for pods of a higher one than those of a pool that is
    decided before it.

    `contexts`: by the pools' priority. `room`: new workers that fleet.max leaves. `used`: of the caps. `own`: by pool,
    how many more nodes it may buy now, whatever the others do.
    """
    new = {pool: each.new for pool, each in pending.items()}
    if sum(map(len, new.values())) <= 1:
        return Shares(pending=pending)
    given = _give_out(contexts, new, _Room.of(contexts, room, used, own))
    if not contexts[0].policy.tenants.shares:
        least = find_outranking(contexts, pending)
        kept = {pool: sum(node.priority > each for node in given.bought[pool]) for pool, each in least.items()}
        return Shares(pending=pending, kept=kept)
    ordered = {pool: (*given.bought[pool], *given.waiting[pool]) for pool in new}
    return Shares(
        pending={pool: replace(pending[pool], new=ordered[pool]) for pool in ordered},
        kept={pool: len(given.bought[pool]) for pool in ordered},
    )


def find_outranking(contexts: Sequence[PoolContext], pending: Mapping[str, PendingPods]) -> Mapping[str, int]:
    """Pools whose pods have a higher priority than others that wait for a pool of the same priority which is decided
    before; with the lowest priority of those others."""
    least: dict[int, int] = {}  # by the pools' priority
    found = {}
    for ctx in contexts:
        own = [node.priority for node in pending[ctx.pool.name].new]
        before = least.get(ctx.pool.priority)
        if own and before is not None and max(own) > before:
            found[ctx.pool.name] = before
        if own:
            least[ctx.pool.priority] = min(own) if before is None else min(before, *own)
    return found


# ── nodes by share ───────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Given:
    """New nodes by pool, in the order in which tenants get them."""

    bought: defaultdict[str, list[NewNode]] = field(default_factory=lambda: defaultdict(list))
    waiting: defaultdict[str, list[NewNode]] = field(default_factory=lambda: defaultdict(list))  # no room is left


@dataclass(slots=True, kw_only=True)
class _Room:
    """What the limits leave while nodes are given out. The nodes that pools lack to min are launched in any case."""

    nodes: int
    used: Counter[str]
    lacking: Counter[str]  # by pool
    own: dict[str, int]  # by pool

    @classmethod
    def of(cls, contexts: Sequence[PoolContext], room: int, used: Amounts, own: Mapping[str, int]) -> "_Room":
        lacking = Counter({each.pool.name: each.lacking for each in contexts if not each.pool.dry_run})
        amounts = Counter(used)
        for ctx in contexts:
            for _ in range(lacking[ctx.pool.name]):
                amounts.update(largest_of(ctx.pool, ctx.observation.offers))
        return cls(nodes=room - lacking.total(), used=amounts, lacking=lacking, own=dict(own))

    def take(self, ctx: PoolContext) -> bool:
        """A node more of the pool, if there is room for it."""
        name = ctx.pool.name
        if self.own[name] <= 0:
            return False
        if self.lacking[name] > 0:
            self.lacking[name] -= 1
        else:
            after = self.used + largest_of(ctx.pool, ctx.observation.offers)
            if self.nodes <= 0 or is_above_caps(after, ctx.policy.fleet):
                return False
            self.nodes, self.used = self.nodes - 1, after
        self.own[name] -= 1
        return True


def _give_out(contexts: Sequence[PoolContext], new: Mapping[str, Sequence[NewNode]], room: _Room) -> _Given:
    """One by one to the tenant that has least for its share; of one tenant, and of all without shares, by priority."""
    tenants, given = contexts[0].policy.tenants, _Given()
    held: dict[str, float] = defaultdict(float)
    queues: dict[str, deque[tuple[PoolContext, NewNode]]] = {}
    for ctx in contexts if tenants.shares else ():
        _add(held, _running(ctx))
    asked = [(ctx, node) for ctx in contexts for node in new[ctx.pool.name]]
    for ctx, node in sorted(asked, key=lambda each: (-each[0].pool.priority, -each[1].priority)):
        if _lacks_capacity(node, ctx):
            given.waiting[ctx.pool.name].append(node)
        else:
            queues.setdefault(_owner(node, tenants) if tenants.shares else "", deque()).append((ctx, node))
    while queues:
        tenant = min(queues, key=lambda name: held[name] / tenants.share_of(name))
        ctx, node = queues[tenant].popleft()
        if room.take(ctx):
            given.bought[ctx.pool.name].append(node)
            if tenants.shares:
                _add(held, _parts(node.pods, _size(node), _weight(node.types, ctx), tenants))
        else:
            given.waiting[ctx.pool.name].append(node)
        if not queues[tenant]:
            del queues[tenant]
    return given


def _lacks_capacity(node: NewNode, ctx: PoolContext) -> bool:
    """EC2 is known to have none of its types in its zones, in no market."""
    short = {
        (each.type, each.zone)
        for each in ctx.before.shortages
        if each.market is Market.ON_DEMAND and ctx.observation.at < each.until
    }
    return bool(short) and all((type_, zone) in short for type_ in node.types for zone in node.zones)


# ── what a tenant has ────────────────────────────────────────────────────────────────────────────────────────────────
# In parts of the limit that is tightest for such a node: of fleet.max, or of a cap.


def _running(ctx: PoolContext) -> Iterator[tuple[str, float]]:
    """Of the pods on the pool's workers, DaemonSets aside."""
    view = ctx.observation.kubernetes
    by_node: dict[str, list[Pod]] = defaultdict(list)
    for pod in view.pods or () if isinstance(view, ClusterView) else ():
        if pod.movable:
            by_node[pod.node or ""].append(pod)
    for worker in ctx.workers:
        if worker.node and (pods := by_node.get(worker.node.name)):
            types = [worker.instance.type] if worker.instance else ctx.pool.market.types
            yield from _parts(pods, worker.node.allocatable, _weight(types, ctx), ctx.policy.tenants)


def _parts(pods: Iterable[Pod], whole: Resources, weight: float, tenants: Tenants) -> Iterator[tuple[str, float]]:
    """What each pod takes of a node of that size and weight, with its tenant."""
    return ((tenant_of(pod, tenants), weight * _part(pod.requests, whole)) for pod in pods)


def _add(held: dict[str, float], parts: Iterable[tuple[str, float]]) -> None:
    for tenant, part in parts:
        held[tenant] += part


def _owner(node: NewNode, tenants: Tenants) -> str:
    """The tenant whose pods take most of the node."""
    parts: dict[str, float] = defaultdict(float)
    _add(parts, _parts(node.pods, _size(node), 1.0, tenants))
    return max(sorted(parts), key=lambda name: parts[name], default="")


def _size(node: NewNode) -> Resources:
    return next(
        (each.node.allocatable for each in node.templates if (each.type, each.zone) == (node.type, node.zone)),
        NOTHING,
    )


def _part(asked: Resources, whole: Resources) -> float:
    """Of a node: the largest of the shares of CPU, memory, pod slots and devices."""
    devices = (count / max(whole.extended.get(name, 0), 1) for name, count in asked.extended.items())
    shares = (asked.cpu / max(whole.cpu, 1), asked.memory / max(whole.memory, 1), 1 / max(whole.pods, 1), *devices)
    return min(max(shares), 1.0)


def _weight(types: Sequence[str], ctx: PoolContext) -> float:
    """The part of the tightest limit that a node of one of the types takes."""
    policy = ctx.policy
    amounts = amounts_of(types, ctx.observation.offers, Market.ON_DEMAND)
    of_caps = (amounts[name] / cap for name, cap in caps_of(policy.fleet).items() if cap)
    return max((1 / max(policy.fleet_max, 1), *of_caps))

"""What the limits of the fleet leave each pool: fleet.max, caps on the CPU, memory, GPUs and cost per hour of all
workers; and whose pods get new nodes first while not all can have theirs."""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import floor as rounded_down
from types import MappingProxyType

from nodefleet.capacity import ROUNDING, Amounts, amounts_of, caps_of, is_above_caps, largest_of
from nodefleet.engine.context import CapRoom, DataQuality, PlacementRequest, PoolContext
from nodefleet.engine.signals.pending_pods import PendingPods
from nodefleet.engine.target import command_bounds, hold_bounds, resolve_target, safety_bounds, window_bounds
from nodefleet.model.decision import BoundSource, Rank, floor
from nodefleet.model.inventory import NOTHING, InstanceType, Market, Resources
from nodefleet.model.names import figure
from nodefleet.model.operations import Create, Launch, Step
from nodefleet.model.snapshot import ClusterView, Observation
from nodefleet.model.state import Memory
from nodefleet.model.workload import Pod
from nodefleet.policy.cluster import Tenants
from nodefleet.scheduling.pool_packing import NewNode

NONE_SHARED: Mapping[str, int] = MappingProxyType({})

# ── fleet.max and caps ────────────────────────────────────────────────────────────────────────────────────────────────
# fleet.max, and caps on the CPU, memory, GPUs and cost per hour of every worker together.
#
# A cap stops growth; it removes nothing, and no pool is kept below its min by it. Pools of higher priority are
# decided first, so under a cap those of lower priority wait, and of pools of one priority the pods of a lower one; what
# the later ones lack to min is kept for them, or restoring it would exceed the cap. A new node counts as the largest
# and most expensive of the types that it may be launched as: what EC2 chooses can then only be less. For pending pods
# those are the types that they are planned on, else all of the pool's.


_UNITS = {"cpu": "cores", "memory": "GiB", "gpus": "GPUs", "usd_per_hour": "USD/h"}


def by_priority(contexts: Iterable[PoolContext]) -> list[PoolContext]:
    """Of pools of one priority those first that the policy names first."""
    return sorted(contexts, key=lambda ctx: -ctx.pool.priority)


def fleet_surplus(contexts: Sequence[PoolContext], most: int) -> Mapping[str, int]:
    """How many workers of each pool are too many for fleet.max, in the pools that have the most above min. The workers
    that other pools lack to min count as if they were there: they would never find room otherwise."""
    spare = Counter({each.pool.name: each.count.occupied - each.pool.limits.min for each in contexts})
    surplus: Counter[str] = Counter()
    for _ in range(sum(max(each.count.occupied, each.pool.limits.min) for each in contexts) - most):
        pool, above = max(spare.items(), key=lambda item: item[1])
        if above <= 0:
            break
        surplus[pool] += 1
        spare[pool] -= 1
    return surplus


def within_fleet(
    ctx: PoolContext,
    others: Sequence[PoolContext],
    room: int,
    surplus: Mapping[str, int],
    shared: Mapping[str, int] = NONE_SHARED,
) -> PoolContext:
    """The pool with what fleet.max leaves it: `room` for new workers, of which the pools that come after it keep what
    they lack to min, or what their pending pods get by tenants' shares or by priority (`shared`, nodes by pool). Its
    `surplus` leaves. Workers that no pool owns only take room, and displace no worker.

    A limit that the policy does not state, the sum of the pools' max, keeps no pool below its min."""
    lacking = sum(max(each.lacking, shared.get(each.pool.name, 0)) for each in others)
    share = ctx.count.occupied + max(0, room - lacking) - surplus.get(ctx.pool.name, 0)
    if ctx.policy.fleet.max is None:
        share = max(share, ctx.pool.limits.min + ctx.count.occupied - ctx.count.capacity)
    return replace(ctx, most=min(ctx.pool.limits.max, share))


def within_caps(
    ctx: PoolContext,
    others: Sequence[PoolContext],
    used: Amounts,
    shared: Mapping[str, int] = NONE_SHARED,
    asks: Sequence[PlacementRequest] = (),
) -> PoolContext:
    """The pool with what the caps leave it: of what is not in `used` the pools that come after it keep what they lack
    to min, or what their pending pods get by tenants' shares or by priority (`shared`). `asks`: of its own pending
    pods, in the order in which nodes are bought for them."""
    caps = caps_of(ctx.policy.fleet)
    if not caps:
        return ctx
    catalog = ctx.observation.offers
    unknown = [name for name in ctx.pool.market.types if name not in catalog]
    each, kept = largest_of(ctx.pool, catalog), _lacking(others, catalog, shared)
    whom = "the min of other pools"
    if any(shared.get(other.pool.name) for other in others):
        whom = f"pending pods {'of other tenants' if ctx.policy.tenants.shares else 'with a higher priority'}"
    left = {name: cap - used.get(name, 0.0) - kept[name] for name, cap in caps.items()}
    planned = _amounts_planned(ctx, asks)
    rooms = []
    for name, cap in caps.items():
        size = each[name]
        in_use = f"fleet.{name} is {figure(cap)} {_UNITS[name]}, {figure(used.get(name, 0.0))} are in use"
        if kept[name]:
            in_use += f" and {figure(kept[name])} are kept for {whom}"
        if unknown or (name == "usd_per_hour" and not _all_priced(ctx.pool.market.types, catalog)):
            named = ", ".join(unknown or ctx.pool.market.types)
            sentence = f"{in_use}, and what {named} would add is not known"
            rooms.append(CapRoom(more=0, for_pods=0, left=left, sentence=sentence))
        elif size:
            for_pods = _count_within(left[name], [of_node[name] for of_node in planned], size)
            largest = max([of_node[name] for of_node in planned[: for_pods + 1]], default=size)
            sentence = f"{in_use}, and a node of this pool may add {figure(largest)}"
            more = _count_within(left[name], (), size)
            rooms.append(CapRoom(more=more, for_pods=for_pods, left=left, sentence=sentence))
    if not rooms:
        return replace(ctx, cap=None)
    tightest = min(rooms, key=lambda room: room.for_pods)
    return replace(ctx, cap=replace(tightest, more=min(room.more for room in rooms)))


def fitting_first(ctx: PoolContext, asks: Sequence[PlacementRequest]) -> list[int]:
    """The nodes of pending pods, by their place in `asks`, in the order in which the caps leave room for them. What is
    left of a cap that has no room for one node is kept for it: only nodes that take nothing of it go before."""
    if ctx.cap is None:
        return list(range(len(asks)))
    left, fitting, waiting = dict(ctx.cap.left), list[int](), list[int]()
    blocked = set[str]()
    for index, amounts in enumerate(_amounts_planned(ctx, asks)):
        over = {name for name, room in left.items() if amounts[name] > room + ROUNDING}
        if over or any(amounts[name] for name in blocked):
            blocked |= over
            waiting.append(index)
        else:
            left = {name: room - amounts[name] for name, room in left.items()}
            fitting.append(index)
    return [*fitting, *waiting]


def _amounts_planned(ctx: PoolContext, asks: Sequence[PlacementRequest]) -> list[Counter[str]]:
    """Of the largest of the types that each node is asked for as, at first."""
    types, catalog = ctx.pool.market.types, ctx.observation.offers
    return [amounts_of(ask.preferred or ask.types or types, catalog, Market.ON_DEMAND) for ask in asks]


def _count_within(left: float, planned: Sequence[float], size: float) -> int:
    """How many nodes a cap leaves: the planned ones first, and then nodes of that size."""
    number = 0
    for each in planned:
        if each > left + ROUNDING:
            return number
        number, left = number + 1, left - each
    return number + max(0, rounded_down(left / size + ROUNDING))


def _lacking(
    others: Iterable[PoolContext], catalog: Mapping[str, InstanceType], shared: Mapping[str, int]
) -> Counter[str]:
    """What these pools will launch to have their min, whatever the caps say, and what is kept for their pods."""
    lacking: Counter[str] = Counter()
    for each in others:
        if not each.pool.dry_run:
            for _ in range(max(each.lacking, shared.get(each.pool.name, 0))):
                lacking.update(largest_of(each.pool, catalog))
    return lacking


def _all_priced(types: Iterable[str], catalog: Mapping[str, InstanceType]) -> bool:
    return all(catalog[name].hourly_usd is not None for name in types)


def with_launches(used: Amounts, plan: Iterable[Step], observation: Observation) -> Amounts:
    """The same after the launches of a plan."""
    catalog = observation.offers
    more = Counter(used)
    for step in plan:
        if isinstance(step, Create) and isinstance(step.operation, Launch):
            for _ in range(step.operation.count):
                more.update(amounts_of(step.operation.types, catalog, step.operation.market))
    return more


def allowed_growth(ctx: PoolContext, memory: Memory, quality: DataQuality, used: Amounts) -> int:
    """How many nodes more the pool may buy for pending pods now, if no other pool takes what the limits leave."""
    seen, pool, capacity = ctx.observation, ctx.pool, ctx.count.capacity
    asked = floor(ctx.policy.fleet_max + capacity, BoundSource.PODS, Rank.SIGNAL, "")
    outranking = [
        *window_bounds(seen, pool.name),
        *command_bounds(seen, pool.name),
        *safety_bounds(seen, memory, ctx.policy, pool, ctx.count, quality, (), ()),
        *hold_bounds(seen, pool, capacity, ()),
    ]
    allowed = resolve_target([asked, *outranking]).target - capacity
    cap = within_caps(ctx, (), used).cap
    by_cap = allowed if cap is None else max(cap.more, ctx.lacking)
    return 0 if pool.dry_run else max(0, min(allowed, by_cap, pool.limits.max - ctx.count.occupied))


# ── tenants and priority ─────────────────────────────────────────────────────────────────────────────────────────────
# Whose pods get new nodes first while the fleet cannot have as many as all ask for: those of tenants by their shares,
# else those of the highest priority.
#
# A tenant is a namespace or the value of a pod label. Nodes of all pools go one by one to the tenant that has least for
# its share, counting what runs already. So a tenant gets at most its share while others wait, and all of it while no
# other tenant asks: an idle share is lent. A share that its pool cannot take now (its own max, a pause, no capacity at
# EC2) is lent too.


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

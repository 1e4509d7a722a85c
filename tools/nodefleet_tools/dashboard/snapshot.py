"""The cluster now, as plain data for the page: pools, nodes, pending pods, operations under way, alarms.

Phases, drain verdicts and prices come from the functions that the loop itself uses, so the page cannot disagree with
the next decision about what a worker is. What cannot be read is null, which is not zero.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeAlias, assert_never

from nodefleet.engine.disruption.rotation import describe_drain, describe_recycle
from nodefleet.eviction.budgets import EvictionRefused
from nodefleet.model.alerts import CATALOGUE, Severity
from nodefleet.model.decision import DecisionRecord, Event, KeepReason, KeptNode
from nodefleet.model.fleet import Phase, Worker
from nodefleet.model.inventory import InstanceType, Node, price_of
from nodefleet.model.operations import Cleanup, Launch, Operation, Removal
from nodefleet.model.serialization import kind_of
from nodefleet.model.snapshot import (
    NOTHING_READ,
    Adopt,
    ClusterView,
    Command,
    Drain,
    Missing,
    Observation,
    Pause,
    Reading,
    Recycle,
    Sample,
    Scale,
)
from nodefleet.model.state import AdaptiveMemory
from nodefleet.model.workload import SCALE_DOWN_DISABLED, Pod
from nodefleet.operations.draining import DrainingNode
from nodefleet.policy.pool import Pool
from nodefleet.ports import State
from nodefleet.reconcile.audit import Bill, bill
from nodefleet_tools.cli.operators import what_is_paused
from nodefleet_tools.cli.plan_words import stay_lines
from nodefleet_tools.dashboard.seen import Seen

Json: TypeAlias = dict[str, Any]

UNKNOWN = "unknown"  # the phase of a running instance whose Node cannot be read
_MOST_PODS = 50
_MOST_ALARMS = 30


def snapshot(seen: Seen) -> Json:
    pods = _pods(seen.observation)
    costs = bill(seen.observation)
    return {
        "cluster": seen.observation.cluster,
        "at": _time(seen.at),
        "level": (seen.last.decision.level if seen.last else seen.state.journal.memory.level).value,
        "problems": [*_problems(seen)],
        "policy": {
            "version": seen.active.version,
            "hold": seen.active.hold,
            "interval": _seconds(seen.policy.interval),
        },
        "last": _last(seen.last),
        "pools": [_pool(seen, pool) for pool in seen.policy.pools],
        "pending": _pending(seen.observation, pods),
        "nodes": _nodes(seen, pods),
        "operations": [_operation(each, seen, pods) for each in seen.state.operations],
        "capacity_errors": _capacity_errors(seen),
        "setbacks": [*_setbacks(seen)],
        "alarms": alarms(seen.events, seen.state, seen.at),
        "commands": [command(each) for each in _in_force(seen)],
        "cost": {
            "hourly_usd": _hourly(seen.observation, costs),
            "unpriced": costs.unpriced if costs else 0,
            "spot_percent": costs.spot_percent if costs else None,
        },
    }


def _in_force(seen: Seen) -> list[Command]:
    return [each for each in seen.state.commands if each.until is None or each.until > seen.at]


def _problems(seen: Seen) -> Iterable[Json]:
    observation = seen.observation
    if isinstance(observation.instances, Missing):
        yield _problem("EC2", observation.instances.cause)
    if isinstance(observation.kubernetes, Missing):
        yield _problem("Kubernetes", observation.kubernetes.cause)
    pools: defaultdict[str, list[str]] = defaultdict(list)
    for pool in seen.policy.pools:
        cpu = observation.readings.get(pool.name, NOTHING_READ).cpu
        if isinstance(cpu, Missing):
            pools[cpu.cause].append(pool.name)
    for cause, names in pools.items():
        of = "" if len(names) == len(seen.policy.pools) else f"{', '.join(names)}: "
        yield _problem("Prometheus", f"{of}{cause}")
    if seen.active.hold:
        yield _problem("Policy", seen.active.hold)


def _problem(part: str, cause: str) -> Json:
    """The causes of most adapters begin with the part's name."""
    return {"part": part, "cause": cause.removeprefix(f"{part}: ")}


def _phases_known(observation: Observation) -> bool:
    """Without either, a running instance would be taken for one that boots, or for none."""
    return not isinstance(observation.instances, Missing) and isinstance(observation.kubernetes, ClusterView)


def _hourly(observation: Observation, costs: Bill | None) -> float | None:
    if isinstance(observation.instances, Missing):
        return None
    return costs.hourly_usd if costs else 0.0


def _last(record: DecisionRecord | None) -> Json | None:
    if record is None:
        return None
    decision = record.decision
    return {
        "id": record.id,
        "at": _time(record.at),
        "requeue": decision.look_again,
        "pools": [
            {
                "pool": pool.pool,
                "action": pool.action.value,
                "capacity": pool.count.capacity,
                "target": pool.target,
                "reason": pool.reason,
                "dry_run": pool.dry_run,
            }
            for pool in decision.pools
        ],
    }


# ── pools and nodes ──────────────────────────────────────────────────────────────────────────────────────────────────


def _pool(seen: Seen, pool: Pool) -> Json:
    readings = seen.observation.readings.get(pool.name, NOTHING_READ)
    own = [worker for worker in seen.workers if worker.pool == pool.name]
    decided = next((each for each in seen.last.decision.pools if each.pool == pool.name), None) if seen.last else None
    known = _phases_known(seen.observation)
    capacity = sum(worker.is_capacity for worker in own) if known else None
    ready = sum(worker.is_capacity and worker.phase is Phase.READY for worker in own) if known else None
    return {
        "name": pool.name,
        "min": pool.limits.min,
        "max": pool.limits.max,
        "capacity": capacity,
        "ready": ready,
        "target": decided.target if decided else capacity,
        "dry_run": pool.dry_run,
        "strategy": pool.strategy,
        "forecast": _grade(seen.state.journal.memory.pool(pool.name).adaptive) if pool.strategy == "adaptive" else None,
        "cpu": {**_reading(readings.cpu), "up": pool.reactive.cpu.up, "down": pool.reactive.cpu.down},
        "memory": {**_reading(readings.memory), "up": pool.reactive.memory.up, "down": pool.reactive.memory.down},
        "custom": [{"name": name, **_reading(sample)} for name, sample in sorted(readings.custom.items())],
    }


def _grade(memory: AdaptiveMemory | None) -> Json | None:
    """How good the forecast is by its own grades; none before the first of them was graded."""
    if memory is None or memory.skill is None:
        return None
    return {"skill": memory.skill, "promised": round(memory.promised, 1), "seen": round(memory.violated)}


def _reading(sample: Sample) -> Json:
    match sample:
        case Reading(value, at):
            return {"value": round(value, 2), "at": _time(at), "missing": ""}
        case Missing(cause):
            return {"value": None, "at": None, "missing": cause}
        case _:
            assert_never(sample)


def _nodes(seen: Seen, pods: Sequence[Pod]) -> list[Json]:
    on_node: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        if pod.node and not pod.finished:
            on_node[pod.node].append(pod)
    catalog = seen.observation.offers
    stays = {stay.worker: stay for pool in (seen.last.decision.pools if seen.last else ()) for stay in pool.stays}
    asked = {each.instance: each for each in _in_force(seen) if isinstance(each, Drain | Recycle)}
    there = [worker for worker in seen.workers if worker.phase is not Phase.GONE]
    return [
        _node(
            worker,
            on_node,
            catalog,
            seen.observation,
            stays.get(worker.name) or stays.get(worker.id),
            asked.get(worker.id),
        )
        for worker in there
    ]


def _node(
    worker: Worker,
    on_node: Mapping[str, Sequence[Pod]],
    catalog: Mapping[str, InstanceType],
    observation: Observation,
    stay: KeptNode | None,
    asked: Drain | Recycle | None,
) -> Json:
    instance, node = worker.instance, worker.node
    own = on_node.get(node.name, ()) if node else ()
    seen_by_kubernetes = isinstance(observation.kubernetes, ClusterView)
    idle = observation.readings.get(worker.pool, NOTHING_READ).idle.get(worker.name)
    born = instance.launched_at if instance else node.created_at if node else None
    return {
        "id": worker.id,
        "name": worker.name,
        "pool": worker.pool,
        "zone": worker.zone,
        "market": instance.market.value if instance else "",
        "type": instance.type if instance else "",
        "phase": UNKNOWN if worker.phase is Phase.BOOTING and not seen_by_kubernetes else worker.phase.value,
        "since": _time(born) if born else None,
        "pods": len(own) if seen_by_kubernetes else None,
        "cpu": None if idle is None else round(100 - idle, 1),
        "requested_cpu": _share(sum(pod.requests.cpu for pod in own), node.allocatable.cpu if node else 0),
        "requested_memory": _share(sum(pod.requests.memory for pod in own), node.allocatable.memory if node else 0),
        "usd": price_of(instance.type, instance.market, catalog) if instance else None,
        "protected": is_protected(node) if node else False,
        "cordoned_by_operator": worker.held_by_person,
        "why": _why(worker, stay, asked),
        "why_code": stay.reason.value if stay else "",
    }


def is_protected(node: Node) -> bool:
    """An annotation keeps it from being removed, ours or another autoscaler's."""
    return any(node.annotations.get(name) == "true" for name in SCALE_DOWN_DISABLED)


def _share(part: float, whole: float) -> float | None:
    return round(100 * part / whole, 1) if whole else None


def _why(worker: Worker, stay: KeptNode | None, asked: Drain | Recycle | None) -> str:
    """Why it leaves, if it does; else the command that waits, or why the last decision kept it."""
    operation = worker.operation
    if isinstance(operation, Removal) and not operation.cancelled:
        return f"leaves: {operation.reason}"
    if worker.ailment:
        return worker.ailment
    if asked is not None:
        return f"is to leave: {describe_drain(asked) if isinstance(asked, Drain) else describe_recycle(asked)}"
    if stay is None:
        return ""
    ((_, why),) = stay_lines((stay,))
    protected = worker.node is not None and is_protected(worker.node) and stay.reason is KeepReason.NOT_ASKED
    return f"{why} (protected by an annotation)" if protected else why


# ── pods and operations ──────────────────────────────────────────────────────────────────────────────────────────────


def _pods(observation: Observation) -> tuple[Pod, ...]:
    view = observation.kubernetes
    return view.pods or () if isinstance(view, ClusterView) else ()


def _pending(observation: Observation, pods: Sequence[Pod]) -> Json:
    if isinstance(observation.kubernetes, Missing):
        return {"count": None, "pods": []}
    waiting = [pod for pod in pods if pod.unschedulable_since is not None]
    waiting.sort(key=lambda pod: (pod.unschedulable_since, pod.key))
    return {
        "count": observation.unschedulable_pods,
        "pods": [
            {
                "name": pod.key,
                "since": _time(pod.unschedulable_since) if pod.unschedulable_since else None,
                "message": pod.unschedulable_message,
                "cpu": pod.requests.cpu,
                "memory": pod.requests.memory,
            }
            for pod in waiting[:_MOST_PODS]
        ],
    }


def _operation(operation: Operation, seen: Seen, pods: tuple[Pod, ...]) -> Json:
    common = {
        "id": operation.id,
        "pool": operation.pool,
        "reason": operation.reason,
        "started": _time(operation.started),
        "deadline": _time(operation.deadline),
    }
    match operation:
        case Launch():
            return {
                **common,
                "kind": "launch",
                "subject": f"{operation.count} × {operation.market.value} in {operation.zone}",
                "step": _launch_step(operation),
                "done": len(operation.joined),
                "total": len(operation.instances) if operation.answered else operation.count,
            }
        case Removal():
            drain = _drain(operation, seen, pods)
            return {**common, "kind": "removal", "subject": operation.node or operation.instance, **drain}
        case Cleanup():
            return {**common, "kind": "cleanup", "subject": operation.target, "step": operation.debris.value}
        case _:
            assert_never(operation)


def _launch_step(launch: Launch) -> str:
    if not launch.answered:
        return "asking EC2"
    return "booting" if set(launch.instances) - set(launch.joined) - set(launch.lost) else "joined"


def _drain(removal: Removal, seen: Seen, pods: tuple[Pod, ...]) -> Json:
    view = seen.observation.kubernetes
    found: Json = {"step": _removal_step(removal), "why": removal.why.value, "left": [], "total": None}
    if not isinstance(view, ClusterView) or view.pods is None:
        return found
    leaving = DrainingNode.of(removal, seen.observation, view, pods, seen.policy)
    refused = {each.pod.key: each for each in leaving.verdicts if isinstance(each, EvictionRefused)}
    left = [f"{pod.namespace}/{pod.name}" for pod in leaving.left]
    return found | {
        "deadline": _time(leaving.deadline),
        "left": [
            {"pod": key, "budget": ", ".join(refused[key].budgets), "why": refused[key].sentence}
            if key in refused
            else {"pod": key, "budget": "", "why": ""}
            for key in left[:_MOST_PODS]
        ],
        "total": len(left),
    }


def _removal_step(removal: Removal) -> str:
    if removal.cancelled:
        return f"called back: {removal.cancelled}"
    if removal.terminating:
        return "terminating"
    if removal.evicting:
        return "draining"
    return "cordoned" if removal.cordoned else "begun"


# ── what went wrong ──────────────────────────────────────────────────────────────────────────────────────────────────


def _capacity_errors(seen: Seen) -> list[Json]:
    return [
        {"pool": name, "type": each.type, "zone": each.zone, "market": each.market.value, "until": _time(each.until)}
        for name, memory in seen.state.journal.memory.pools.items()
        for each in memory.shortages
        if each.until > seen.at
    ]


def _setbacks(seen: Seen) -> Iterable[Json]:
    """What is tried again later: drains that failed, joins that failed, pods without a vote."""
    for name, memory in seen.state.journal.memory.pools.items():
        for back in memory.backoffs:
            if back.until > seen.at:
                yield {"pool": name, "what": f"drain of {back.node}: {back.blocker}", "until": _time(back.until)}
        if memory.join_trouble:
            failures = memory.join_trouble.failures
            yield {"pool": name, "what": f"{failures} joins failed", "until": _time(memory.join_trouble.next_probe)}
        for pods in memory.pending:
            if pods.muted_until and pods.muted_until > seen.at:
                yield {"pool": name, "what": f"pods of {pods.name} have no vote", "until": _time(pods.muted_until)}


def alarms(events: Iterable[Event], state: State, now: datetime) -> list[Json]:
    """Warnings and critical alerts of the last day, each condition once, those that still hold first."""
    found: dict[str, Json] = {}
    fresh = timedelta(minutes=10)
    for event in events:
        spec = CATALOGUE[event.kind]
        if spec.severity < Severity.WARNING:
            continue
        key = event.id.partition("-")[0]
        known = state.journal.said.get(key)
        found.setdefault(
            key,
            {
                "at": _time(event.at),
                "kind": event.kind.value,
                "headline": spec.headline,
                "severity": spec.severity.name.lower(),
                "pool": event.pool,
                "text": event.text,
                "todo": spec.todo,
                "active": known is not None and now - known.seen_at < fresh,
            },
        )
    ordered = sorted(found.values(), key=lambda alarm: alarm["at"], reverse=True)
    return sorted(ordered, key=lambda alarm: not alarm["active"])[:_MOST_ALARMS]


def command(each: Command) -> Json:
    """An operator command that is in force."""
    match each:
        case Pause():
            subject = what_is_paused(each)
        case Scale():
            subject = f"{each.pool} at {each.nodes}"
        case Adopt():
            subject = f"{each.instance} to {each.pool}"
        case Drain() | Recycle():
            subject = each.instance
        case _:
            assert_never(each)
    return {
        "kind": kind_of(type(each)),
        "subject": subject,
        "pool": getattr(each, "pool", None) or "",
        "by": each.by,
        "reason": each.reason,
        "until": _time(each.until) if each.until else None,
    }


def _time(at: datetime) -> float:
    return round(at.timestamp(), 3)


def _seconds(length: timedelta) -> float:
    return length.total_seconds()

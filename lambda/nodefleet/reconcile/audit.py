"""The audit record of each iteration: the decision with its reasons, its figures, and the log line for operators.

The complete decision input is archived when the iteration decided or did something, so that the decision can be
replayed. Otherwise only the figures are kept: an uneventful iteration is not worth storing ten thousand pods.
"""

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256
from operator import attrgetter
from typing import Any

import msgspec

from nodefleet.errors import NodeFleetError
from nodefleet.model.decision import (
    Action,
    BoundSource,
    Decision,
    DecisionRecord,
    ExecutedAction,
    KeepReason,
    PoolDecision,
)
from nodefleet.model.inventory import Instance, InstanceState, Market, Node, price_of
from nodefleet.model.names import Metric
from nodefleet.model.operations import SendAlert
from nodefleet.model.serialization import TAG, Plain, default_of, encoder_of, fields_of, from_plain, kind_of, to_plain
from nodefleet.model.snapshot import NOTHING_READ, ClusterView, Missing, Observation, Reading
from nodefleet.model.state import Level, Memory
from nodefleet.model.workload import Pod
from nodefleet.policy.cluster import Policy
from nodefleet.ports import Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionInput:
    """The complete input of a decision: the same input gives the same decision."""

    observation: Observation
    memory: Memory
    policy: Policy


# ── record ───────────────────────────────────────────────────────────────────────────────────────────────────────────


LARGEST = 20_000  # bytes of a decision in a record
_FEW = 40  # entries of a long list that a shortened record keeps
_DULL = frozenset({KeepReason.NOT_ASKED, KeepReason.OUTRANKED})
LEVELS = {Level.NORMAL: 0, Level.RECOVERY: 1, Level.DEGRADED: 2, Level.PARTIAL: 3}
MAJOR = 4  # DynamoDB is unavailable, so no decision is possible


def is_eventful(decision: Decision) -> bool:
    """Whether the decision contains more than alerts."""
    return any(
        pool.action is not Action.HOLD or any(not isinstance(step, SendAlert) for step in pool.plan)
        for pool in decision.pools
    ) or any(not isinstance(step, SendAlert) for step in decision.plan)


def make_record(
    decision_input: DecisionInput,
    decision: Decision,
    *,
    fence: int,
    version: int,
    actions: Sequence[ExecutedAction],
    values: Mapping[str, float],
    eventful: bool,
) -> tuple[DecisionRecord, bytes | None]:
    """The record, and the packed decision input for the archive; None for an uneventful iteration. `values` are the
    figures of the iteration."""
    content = pack_input(decision_input) if eventful else None
    at, cluster = decision.at, decision.cluster
    key = f"{cluster}/{at:%Y/%m/%d}/{sha256(content).hexdigest()}.json.gz" if content else ""
    plain = to_plain(decision)
    short, cut = shorten_decision(decision, plain)
    record = DecisionRecord(
        id=f"{at:%Y-%m-%dT%H:%M:%S.%fZ}-f{fence}",
        at=at,
        cluster=cluster,
        fence=fence,
        policy=version,
        archived=key,
        decision=short,
        cut=cut,
        outcome=_digest(plain),
        did=tuple(str(action) for action in actions),
        actions=tuple(actions),
        figures=values,
        dry=any(pool.dry_run for pool in decision.pools),
    )
    return record, content


# ── archived input ───────────────────────────────────────────────────────────────────────────────────────────────


def pack_input(decision_input: DecisionInput) -> bytes:
    """Compress the input. An input gives the same bytes each time."""
    # msgspec encodes the megabytes of a large cluster eight times as fast as json. Digests keep using json, because
    # stored digests were computed from its float format. Only tables have their keys sorted: dataclasses keep theirs.
    observation, tables = decision_input.observation, {}
    if observation.instances and not isinstance(observation.instances, Missing):
        tables["instances"] = _pack_columns(Instance, observation.instances)
        observation = replace(observation, instances=())
    view = observation.kubernetes
    if not isinstance(view, Missing) and view.nodes and view.pods:
        tables |= {"nodes": _pack_columns(Node, view.nodes), "pods": _pack_columns(Pod, view.pods)}
        observation = replace(observation, kubernetes=replace(view, nodes=(), pods=None))
    plain = to_plain(replace(decision_input, observation=observation)) | ({_TABLES: tables} if tables else {})
    return gzip.compress(msgspec.json.encode(plain, order="deterministic"), compresslevel=1, mtime=0)


def unpack_input(content: bytes) -> DecisionInput:
    return read_input(json.loads(gzip.decompress(content)))


def read_input(plain: Plain) -> DecisionInput:
    """The input as it is archived, or with everything in its place, as releases up to 0.2 archived it."""
    tables = plain.pop(_TABLES, {}) if isinstance(plain, dict) else {}
    try:
        for name, columns in tables.items():
            holder = plain["observation"]
            if name != "instances":
                holder = holder.setdefault("kubernetes", {TAG: kind_of(ClusterView)})
            holder[name] = _unpack_columns(columns)
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise ValueError(f"the tables of instances, nodes and pods do not fit: {error!r}") from error
    return from_plain(DecisionInput, plain)


_TABLES = "tables"
_SCALARS = (str, int, bool, datetime, str | None, datetime | None)  # shorter than a number, or different in each row


def _pack_columns(cls: type, rows: Sequence[Any]) -> Plain:
    """Instances, nodes or pods, field by field. Thousands of them share labels, owners and rules: such a value is
    written once, and its number for each that has it. A field that has its default in all of them is left out.

    msgspec writes what they hold as `from_plain` reads it, many times as fast as `to_plain`, except durations; there
    must be no union of dataclasses among it."""
    columns: dict[str, Plain] = {}
    for field, hint in fields_of(cls):
        held, default = tuple(map(attrgetter(field.name), rows)), default_of(field)
        if held[0] == default and held.count(default) == len(held):
            continue
        if hint is timedelta:
            columns[field.name] = {"values": list(map(encoder_of(hint), held))}
            continue
        distinct = {} if hint in _SCALARS else dict(zip(map(id, held), held, strict=True))
        if 0 < 2 * len(distinct) < len(held):
            number_of = dict(zip(distinct, range(len(distinct)), strict=True))
            listed = list(map(number_of.__getitem__, map(id, held)))
            columns[field.name] = {"values": list(distinct.values()), "rows": listed}
        else:
            columns[field.name] = {"values": held}
    return columns


def _unpack_columns(columns: Mapping[str, Plain]) -> list[Plain]:
    """Each row as a table of its fields. Values without `rows` are those of the rows in their order."""
    listed = {
        name: [column["values"][row] for row in column["rows"]] if "rows" in column else column["values"]
        for name, column in columns.items()
    }
    return [dict(zip(listed, values, strict=True)) for values in zip(*listed.values(), strict=True)]


def outcome(decision: Decision) -> str:
    """A digest of the whole decision: a replay must produce the same digest."""
    return _digest(to_plain(decision))


def _digest(plain: Any) -> str:
    return sha256(_json(plain)).hexdigest()


def shorten_decision(decision: Decision, plain: Any = None) -> tuple[Decision, bool]:
    """The decision without its memory, which is stored elsewhere, and shortened if it is still too long; and whether it
    was shortened. `plain` is the serialised decision, if the caller has it."""
    short = replace(decision, memory=Memory())
    if len(_json({**(plain or to_plain(decision)), "memory": {}})) <= LARGEST:
        return short, False
    for keep in (_FEW, _FEW // 4, 0):
        pools = tuple(_cut(pool, keep) for pool in short.pools)
        short = replace(short, pools=pools, tells=short.tells[:keep], plan=short.plan[:keep])
        if len(_json(to_plain(short))) <= LARGEST:
            break
    return short, True


def _cut(pool: PoolDecision, keep: int) -> PoolDecision:
    notable = [stay for stay in pool.stays if stay.reason not in _DULL]
    return replace(
        pool,
        stays=tuple(notable[:keep]),
        plan=pool.plan[:keep],
        overruled=pool.overruled[: max(keep, 5)],
        bounds=pool.bounds[: max(keep, 5)],
        votes=pool.votes[: max(keep, 5)],
    )


def _json(plain: Any) -> bytes:
    return json.dumps(plain, separators=(",", ":"), ensure_ascii=False, sort_keys=True).encode()


# ── figures ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    hourly_usd: float
    unpriced: int
    spot_percent: float


def bill(observation: Observation) -> Bill | None:
    """The current cost of the workers; None if EC2 is unavailable or there are no workers."""
    if isinstance(observation.instances, Missing):
        return None
    states = (InstanceState.PENDING, InstanceState.RUNNING)
    instances = [it for it in observation.instances if it.worker and it.state in states]
    if not instances:
        return None
    catalog = observation.offers
    prices = [price_of(it.type, it.market, catalog) for it in instances]
    spot = sum(it.market is Market.SPOT for it in instances)
    return Bill(
        hourly_usd=sum(price for price in prices if price is not None),
        unpriced=prices.count(None),
        spot_percent=100 * spot / len(instances),
    )


def figures(observation: Observation, decision: Decision, costs: Bill | None) -> Mapping[str, float]:
    """The figures of an iteration, as a flat mapping by name."""
    values: dict[str, float] = {"unschedulable_pods": observation.unschedulable_pods, "level": LEVELS[decision.level]}
    for pool in decision.pools:
        count = pool.count
        name = pool.pool
        values |= {
            f"{name}.ready": count.ready,
            f"{name}.booting": count.booting,
            f"{name}.leaving": count.leaving,
            f"{name}.target": pool.target,
        }
        readings = observation.readings.get(name, NOTHING_READ)
        samples = {"cpu": readings.cpu, "memory": readings.memory, **readings.custom}
        values |= {f"{name}.{key}": round(it.value, 2) for key, it in samples.items() if isinstance(it, Reading)}
        graded = decision.memory.pool(name).adaptive
        if graded:
            promised, violated = round(graded.promised, 2), round(graded.violated, 2)
            values |= {f"{name}.violations_promised": promised, f"{name}.violations_seen": violated}
            values |= {} if graded.skill is None else {f"{name}.forecast_skill": graded.skill}
    if costs:
        values |= {"hourly_usd": round(costs.hourly_usd, 4), "spot_percent": round(costs.spot_percent, 1)}
    return values


def forecast_metrics(decision: Decision) -> Iterator[tuple[Metric, float]]:
    """The forecast skill of the worst pool, and the promised and actual violations summed over all pools."""
    graded = [kept for pool in decision.pools if (kept := decision.memory.pool(pool.pool).adaptive)]
    skills = [each.skill for each in graded if each.skill is not None]
    if skills:
        yield Metric.FORECAST_SKILL, min(skills)
    if graded:
        yield Metric.VIOLATIONS_PROMISED, sum(each.promised for each in graded)
        yield Metric.VIOLATIONS_SEEN, sum(each.violated for each in graded)


def mean(observation: Observation, decision: Decision, name: str) -> float | None:
    """The mean of a reading over all pools, weighted by ready nodes."""
    total, nodes = 0.0, 0
    for pool in decision.pools:
        sample = getattr(observation.readings.get(pool.pool, NOTHING_READ), name)
        if isinstance(sample, Reading) and pool.count.ready:
            total += sample.value * pool.count.ready
            nodes += pool.count.ready
    return total / nodes if nodes else None


def sentence(decision: Decision) -> str:
    """The log line that summarises the decision for operators."""
    sentences = [
        f"{pool.pool}: {pool.action.value} {pool.count.capacity} → {pool.target}"
        f"{' (dry run)' if pool.dry_run else ''}. {pool.reason}"
        for pool in decision.pools
    ]
    return f"[{decision.cluster}] {' | '.join(sentences)}"


def archive_input(runtime: Runtime, key: str, content: bytes) -> str:
    """Store the decision input and return its key; an empty key if the archive fails, which must not stop scaling."""
    try:
        runtime.archive.keep(key, content)
    except NodeFleetError as error:
        runtime.telemetry.warn(f"The iteration could not be archived, so this decision cannot be replayed: {error}")
        return ""
    return key


def seed_attributes(decision: Decision, memory: Memory) -> dict[str, object]:
    """The attributes of the state item that the original system description requires."""
    times = [
        (at, action)
        for pool in memory.pools.values()
        for at, action in ((pool.last_grow, "scale_up"), (pool.last_shrink, "scale_down"))
        if at is not None
    ]
    seed: dict[str, object] = {"node_count": sum(pool.count.capacity for pool in decision.pools)}
    if times:
        at, action = max(times)
        seed |= {"last_scale_time": at.isoformat(), "last_scale_action": action}
    return seed


# ── the outcome of an iteration ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleResult:
    """The outcome of an iteration."""

    policy: Policy
    observation: Observation
    decision: Decision
    requeue_reason: str = ""  # why another iteration could change something
    at_once: bool = False  # that iteration starts without a pause
    actions: tuple[ExecutedAction, ...] = ()
    failures: int = 0
    launched: int = 0
    removed: int = 0
    joins: tuple[float, ...] = ()  # seconds that each new node took to join
    drains: tuple[float, ...] = ()  # seconds of each completed voluntary removal
    evictions: dict[str, int]
    costs: Bill | None  # what the workers cost now; none: not known
    figures: Mapping[str, float]

    @property
    def did(self) -> tuple[str, ...]:
        """One sentence for each executed action."""
        return tuple(str(action) for action in self.actions)


def report_iteration(runtime: Runtime, result: CycleResult, iterations: int, started: datetime) -> None:
    """Emit the metrics of an iteration and the log line that summarises it for operators."""
    decision, observation, telemetry = result.decision, result.observation, runtime.telemetry
    if decision.level is not Level.PARTIAL:
        telemetry.metric(Metric.CURRENT_NODE_COUNT, sum(pool.count.capacity for pool in decision.pools))
        telemetry.metric(Metric.PENDING_PODS, result.figures["unschedulable_pods"])
    for metric, name in ((Metric.CPU, "cpu"), (Metric.MEMORY, "memory")):
        value = mean(observation, decision, name)
        if value is not None:
            telemetry.metric(metric, value)
    for metric, count in (
        (Metric.SCALE_UPS, result.launched),
        (Metric.SCALE_DOWNS, result.removed),
        (Metric.FAILURES, result.failures),
        (Metric.LEVEL, LEVELS[decision.level]),
        (Metric.API_SERVER_AWAY, int(isinstance(observation.kubernetes, Missing))),
        (Metric.EC2_AWAY, int(isinstance(observation.instances, Missing))),
        (Metric.EVICTIONS, sum(result.evictions.values())),
    ):
        telemetry.metric(metric, count)
    for metric, times in ((Metric.JOIN_LATENCY, result.joins), (Metric.DRAIN_TIME, result.drains)):
        for seconds in times:
            telemetry.metric(metric, seconds)
    if result.costs:
        telemetry.metric(Metric.HOURLY_COST, result.costs.hourly_usd)
        telemetry.metric(Metric.SPOT_SHARE, result.costs.spot_percent)
    for metric, value in forecast_metrics(decision):
        telemetry.metric(metric, value)
    at_max = any(over.by == BoundSource.MAX for pool in decision.pools for over in pool.overruled)
    telemetry.metric(Metric.AT_MAX, float(at_max))
    telemetry.line(
        sentence(decision),
        look=iterations,
        trust=decision.level.value,
        votes={pool.pool: pool.votes for pool in decision.pools},
        did=result.did,
        actions=[action.kind.value for action in result.actions],
        evictions=result.evictions,
        joins=result.joins,
        drains=result.drains,
        failures=result.failures,
        look_again=result.requeue_reason,
        figures=result.figures,
        calls=telemetry.calls(),
        seconds=round((runtime.time.now() - started).total_seconds(), 2),
    )

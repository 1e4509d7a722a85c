"""A simple question in a few words, and the complete look that it stands for.

    nodes: 3
    cpu: [75, 82]
    pending: 3

Earlier readings are played through decide() itself, so that they count exactly as they would have. Only what they
leave in the streaks is kept: no pool grew or shrank meanwhile unless the question says so.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from nodefleet.engine.decide import decide
from nodefleet.model.inventory import Instance, Market, Node
from nodefleet.model.serialization import Plain, ValidationError, ValidationIssue, decode, nearest
from nodefleet.model.snapshot import ClusterView, LaunchTarget, Missing, Observation, PoolReadings, Reading, Sample
from nodefleet.model.state import Memory, PoolMemory
from nodefleet.model.workload import HOST_LABEL, ZONE_LABEL
from nodefleet.policy.cluster import Policy
from nodefleet.policy.loading import active_windows, utc_offset
from nodefleet.policy.pool import Pool

Series: TypeAlias = tuple[float | None, ...]  # newest last; none: that one could not be read

SOME_TIME = datetime(2026, 11, 16, 12, tzinfo=UTC)
NOT_GIVEN = Missing("not given")
MOST = 1000  # a slip of the keyboard must not fill the memory
_LONG_THERE = timedelta(days=1)  # how long workers have been ready
_PERCENTAGES = ("cpu", "memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shorthand:
    nodes: int  # ready workers
    booting: int = 0
    cpu: Series = (None,)  # percent
    memory: Series = (None,)  # percent
    custom: Mapping[str, Series] = field(default_factory=dict)
    pending: int = 0  # unschedulable pods
    at: datetime = SOME_TIME
    zones: tuple[str, ...] = ("a", "b")
    last_grow: timedelta | None = None  # how long ago
    last_shrink: timedelta | None = None
    pool: str | None = None  # which of the policy's; not needed if there is one


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What decide() needs besides the policy."""

    observation: Observation
    memory: Memory = field(default_factory=Memory)


def shorthand_from(data: Plain) -> Shorthand:
    """The shorthand that plain data stands for, or a RefusedError. A single reading is a list of one."""
    problems: list[ValidationIssue] = []
    short = decode(Shorthand, _listed(data), problems)
    if problems:
        raise ValidationError([_unlisted(problem, data) for problem in problems])
    return short  # type: ignore[no-any-return]  # decoded as Shorthand


def expanded(short: Shorthand, policy: Policy) -> tuple[Question, Policy]:
    """The iteration it stands for, and the policy with that one pool; or a RefusedError."""
    pool = _pool(short, policy)
    problems = [*_problems(short, pool)]
    if problems:
        raise ValidationError(problems)
    policy = replace(policy, pools=(pool,))
    looks = max(map(len, _series(short).values()))
    known = PoolMemory(
        last_grow=None if short.last_grow is None else short.at - short.last_grow,
        last_shrink=None if short.last_shrink is None else short.at - short.last_shrink,
    )
    memory = Memory(pools={pool.name: known})
    for ago in range(looks - 1, 0, -1):
        after = decide(_look(replace(short, pending=0), pool, policy, ago), memory, policy).memory
        learned = after.pool(pool.name)
        kept = replace(known, breaches=learned.breaches, cached=learned.cached)
        memory = replace(after, pools={pool.name: kept})
    return Question(observation=_look(short, pool, policy, 0), memory=memory), policy


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _listed(data: Plain) -> Plain:
    if not isinstance(data, dict):
        return data
    lists: dict[Any, Any] = {key: _list(held) if key in _PERCENTAGES else held for key, held in data.items()}
    custom = data.get("custom")
    return lists | {"custom": {key: _list(held) for key, held in custom.items()}} if isinstance(custom, dict) else lists


def _list(held: Any) -> list[Any]:
    return held if isinstance(held, list) else [held]


def _unlisted(problem: ValidationIssue, data: Plain) -> ValidationIssue:
    """The problem at the place where the operator wrote the value."""
    path = problem.path.removesuffix("[0]")
    held = data
    for key in path.split("."):
        held = held.get(key) if isinstance(held, dict) else None
    return problem if isinstance(held, list) else replace(problem, path=path)


def _pool(short: Shorthand, policy: Policy) -> Pool:
    names = [pool.name for pool in policy.pools]
    if short.pool is None and len(names) == 1:
        return policy.pools[0]
    found = policy.pool(short.pool or "")
    if found is not None:
        return found
    wrong = "is missing" if short.pool is None else "is not a pool of the policy"
    right = f"write one of {', '.join(names)}" if short.pool is None else nearest(short.pool, names)
    raise ValidationError([ValidationIssue(path="pool", value=short.pool, wrong=wrong, right=right)])


def _series(short: Shorthand) -> Mapping[str, Series]:
    return {"cpu": short.cpu, "memory": short.memory} | {f"custom.{name}": got for name, got in short.custom.items()}


def _problems(short: Shorthand, pool: Pool) -> Iterator[ValidationIssue]:
    for name in ("nodes", "booting", "pending"):
        yield from _outside(name, getattr(short, name), MOST)
    for name in _PERCENTAGES:
        yield from _wrong_percentages(name, getattr(short, name))
    for name in ("last_grow", "last_shrink"):
        ago = getattr(short, name)
        if ago is not None and ago < timedelta(0):
            right = "write how long ago it was, for example 2m"
            yield ValidationIssue(path=name, value=ago.total_seconds(), wrong="lies in the future", right=right)
    if not short.zones or len(set(short.zones)) < len(short.zones):
        right = "write each zone once, for example [a, b]"
        yield ValidationIssue(path="zones", value=list(short.zones), wrong="has no zone or one twice", right=right)
    for name in set(short.custom) - set(pool.readings):
        right = nearest(name, list(pool.readings)) if pool.readings else "name one in a policy, and give it by --policy"
        yield ValidationIssue(path=f"custom.{name}", value=None, wrong="is not a reading of the policy", right=right)
    yield from _wrong_lengths(_series(short))


def _outside(path: str, value: int, most: int) -> Iterator[ValidationIssue]:
    if not 0 <= value <= most:
        yield ValidationIssue(path=path, value=value, wrong="is not a count", right=f"write 0 to {most}")


def _wrong_percentages(name: str, series: Series) -> Iterator[ValidationIssue]:
    full = 100
    for index, value in enumerate(series):
        if value is not None and not 0 <= value <= full:
            path = name if len(series) == 1 else f"{name}[{index}]"
            yield ValidationIssue(path=path, value=value, wrong="is not a percentage", right=f"write 0 to {full}")


def _wrong_lengths(series: Mapping[str, Series]) -> Iterator[ValidationIssue]:
    longest = max(series, key=lambda name: len(series[name]))
    looks = len(series[longest])
    for name, got in series.items():
        if not got:
            right = "write one reading or more, newest last; leave it out if there is none"
            yield ValidationIssue(path=name, value=[], wrong="has no readings", right=right)
        elif len(got) not in (1, looks):
            right = f"write {looks} readings, as for {longest}, or one that held all the time"
            yield ValidationIssue(path=name, value=list(got), wrong=f"has {len(got)} readings", right=right)


# ── expanding ────────────────────────────────────────────────────────────────────────────────────────────────────


def _look(short: Shorthand, pool: Pool, policy: Policy, ago: int) -> Observation:
    """What was seen so many readings ago."""
    at = short.at - ago * policy.interval
    instances = [_instance(number, short, pool) for number in range(short.nodes + short.booting)]
    return Observation(
        at=at,
        instances=tuple(instances),
        kubernetes=ClusterView(
            nodes=tuple(_node(each, short) for each in instances[: short.nodes]),
            # A count says nothing of the pods themselves; no pod at all says that every node is empty.
            pods=None if short.pending else (),
            unschedulable={pool.name: short.pending} if short.pending else {},
        ),
        readings={
            pool.name: PoolReadings(
                cpu=_sample(short.cpu, at, ago),
                memory=_sample(short.memory, at, ago),
                custom={name: _sample(series, at, ago) for name, series in short.custom.items()},
            )
        },
        windows=active_windows(policy, at),
        targets=(LaunchTarget(pool=pool.name, template="lt-example", subnets={z: f"subnet-{z}" for z in short.zones}),),
        utc_offset=utc_offset(policy, at),
    )


def _sample(series: Sequence[float | None], at: datetime, ago: int) -> Sample:
    value = series[-1 - ago] if len(series) > 1 else series[0]
    return NOT_GIVEN if value is None else Reading(value, at)


def _instance(number: int, short: Shorthand, pool: Pool) -> Instance:
    """Zones take turns. The first worker is On-Demand, the others are Spot; the last ones are still booting."""
    return Instance(
        id=f"i-{number + 1:03}",
        pool=pool.name,
        zone=short.zones[number % len(short.zones)],
        type=pool.market.types[0],
        market=Market.SPOT if number else Market.ON_DEMAND,
        launched_at=short.at - _LONG_THERE if number < short.nodes else short.at,
    )


def _node(instance: Instance, short: Shorthand) -> Node:
    name = f"w{instance.id.removeprefix('i-')}"
    return Node(
        name=name,
        pool=instance.pool,
        instance=instance.id,
        ready_changed_at=short.at - _LONG_THERE,
        labels={ZONE_LABEL: instance.zone, HOST_LABEL: name},
    )

"""Constraints of a policy: limits of single values, and values that contradict each other."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

from nodefleet.model.serialization import IssueCode, ValidationIssue, nearest, show_value, to_plain
from nodefleet.policy.cluster import Policy
from nodefleet.policy.demand import JobDemand, Score, Sustain, highest_score, readings_of
from nodefleet.policy.fields import FieldInfo
from nodefleet.policy.file_schema import Keys, Leaf, leaves, path_of, value_at
from nodefleet.policy.pool import Pool
from nodefleet.policy.sources import source_problems

# ── values that contradict each other ────────────────────────────────────────────────────────────────────────────────
# Values that are fine alone and wrong together: they could never do what they say.


OTHER = "{other}"  # stands in a text for the other field, with its value
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_ROLE = "node-role.kubernetes.io/"

# (lower, higher, may be equal, what would be right), within a pool
_IN_ORDER: tuple[tuple[Keys, Keys, bool, str], ...] = (
    (("limits", "min"), ("limits", "max"), True, "min must not be more than max"),
    (("reactive", "cpu", "down"), ("reactive", "cpu", "up"), False, "down must be below up"),
    (("reactive", "memory", "down"), ("reactive", "memory", "up"), False, "down must be below up"),
    (("steps", "up"), ("steps", "urgent"), True, "urgent growth must not be slower than normal growth"),
    (("predictive", "min_days"), ("predictive", "history_days"), True, "no more days can be asked for than are kept"),
    (("market", "on_demand_base"), ("limits", "max"), True, "the base must fit into max"),
    (("headroom", "nodes"), ("limits", "max"), False, "spare nodes are part of max, so some must be left for pods"),
    (("standby", "nodes"), ("limits", "max"), True, "the other cluster's nodes must fit into max"),
    (("health", "probe_first"), ("health", "probe_longest"), True, "the pause grows from first to longest"),
    (("removal", "retry_first"), ("removal", "retry_longest"), True, "the pause grows from first to longest"),
    (
        ("market", "rebalance_after"),
        ("market", "rebalance_longest"),
        True,
        "the pause grows from rebalance_after to rebalance_longest",
    ),
    (("benefit", "retry_first"), ("benefit", "retry_longest"), True, "the pause grows from first to longest"),
    (("removal", "retry_first"), ("rotation", "retry_longest"), True, "the pause grows from retry_first to this"),
    (("removal", "force_after"), ("removal", "notice"), False, "pods must be forced out before EC2 takes the node"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    keys: Keys
    value: object
    wrong: str
    right: str
    code: IssueCode = IssueCode.INVALID
    other: Keys | None = None
    other_value: object = None
    rests_on: tuple[Keys, ...] = ()  # what else was looked at
    mirror: "Conflict | None" = None  # the same seen from the other field, for when only that one was written

    def to_issue(self, path: str, value: object, other: str) -> ValidationIssue:
        wrong, right = (text.replace(OTHER, other) for text in (self.wrong, self.right))
        return ValidationIssue(path=path, value=value, wrong=wrong, right=right, code=self.code)


def find_conflicts(policy: Policy) -> Iterator[Conflict]:
    """Everything that does not go together in a policy whose single values are all in their limits."""
    every, budget = ("burst", "every"), ("burst", "budget")
    yield from _check_order(policy, budget, ("interval",), "a run must end before the next one starts", equal=True)
    yield from _check_order(policy, budget, ("lease",), "a run must end while it still holds the cluster", equal=False)
    yield from _check_order(policy, every, budget, "otherwise no run ever looks twice", equal=False)
    if not policy.pools:
        yield Conflict(
            keys=("pools",),
            value=[],
            wrong="is empty",
            right="leave it out to get one pool named default",
            code=IssueCode.EMPTY,
        )
    yield from _fleet(policy)
    yield from _tenants(policy)
    yield from _unique(policy, [("pools", index, "name") for index in range(len(policy.pools))])
    for index, pool in enumerate(policy.pools):
        yield from _in_pool(policy, pool, ("pools", index))


def _fleet(policy: Policy) -> Iterator[Conflict]:
    most, least = policy.fleet.max, sum(pool.limits.min for pool in policy.pools)
    if most is not None and most < least:
        yield Conflict(
            keys=("fleet", "max"),
            value=most,
            wrong=f"is less than the {least} nodes that the pools' min add up to",
            right="every pool must be able to have its min",
            code=IssueCode.OUT_OF_ORDER,
        )


def _tenants(policy: Policy) -> Iterator[Conflict]:
    for tenant, share in policy.tenants.shares.items():
        if share <= 0:
            yield Conflict(
                keys=("tenants", "shares", tenant),
                value=share,
                wrong="is not more than 0",
                right="write how much the tenant gets relative to the others, such as 2",
                code=IssueCode.OUT_OF_RANGE,
            )


def _in_pool(policy: Policy, pool: Pool, at: Keys) -> Iterator[Conflict]:
    if not _LABEL.fullmatch(pool.name):
        yield Conflict(
            keys=(*at, "name"),
            value=pool.name,
            wrong="cannot be a node label",
            right="write lower-case letters, digits and dashes, 63 at most",
        )
    for low, high, equal, right in _IN_ORDER:
        yield from _check_order(policy, (*at, *low), (*at, *high), right, equal=equal)
    yield from _sustain(policy, pool.sustain, (*at, "sustain"))
    yield from _market_and_labels(pool, at)
    yield from _windows(policy, pool, at)
    yield from _rotation(pool, at)
    yield from _readings(policy, pool, at)
    yield from _rules(policy, pool, at)
    yield from _standby(pool, at)


def _check_order(policy: Policy, low: Keys, high: Keys, right: str, *, equal: bool) -> Iterator[Conflict]:
    """A clash unless the value at `low` is below the one at `high`. The longer path is the more special one."""
    lower, higher = value_at(policy, low), value_at(policy, high)
    if lower is None or higher is None or lower < higher or (equal and lower == higher):
        return
    more, less = ("is more than", "is less than") if equal else ("is not less than", "is not more than")
    of_low = Conflict(
        keys=low,
        value=lower,
        wrong=f"{more} {OTHER}",
        right=right,
        code=IssueCode.OUT_OF_ORDER,
        other=high,
        other_value=higher,
    )
    of_high = Conflict(
        keys=high,
        value=higher,
        wrong=f"{less} {OTHER}",
        right=right,
        code=IssueCode.OUT_OF_ORDER,
        other=low,
        other_value=lower,
    )
    yield replace(of_low, mirror=of_high) if len(low) >= len(high) else replace(of_high, mirror=of_low)


def _unique(policy: Policy, names: list[Keys]) -> Iterator[Conflict]:
    first: dict[str, Keys] = {}
    for keys in names:
        name = value_at(policy, keys)
        if name in first:
            yield Conflict(
                keys=keys,
                value=name,
                wrong=f"is the same as {OTHER}",
                right="each needs a name of its own",
                code=IssueCode.DUPLICATE,
                other=first[name],
                other_value=name,
            )
        first.setdefault(name, keys)


def _sustain(policy: Policy, sustain: Sustain, at: Keys) -> Iterator[Conflict]:
    for direction, lasting in (("up", sustain.up), ("down", sustain.down)):
        if isinstance(lasting, Score):
            yield from _score(policy, lasting, (*at, direction))


def _score(policy: Policy, lasting: Score, at: Keys) -> Iterator[Conflict]:
    right = "the window must hold two readings at least"
    yield from _check_order(policy, ("interval",), (*at, "window"), right, equal=True)
    highest = highest_score(lasting, policy.interval)
    if lasting.threshold > highest:
        yield Conflict(
            keys=(*at, "threshold"),
            value=lasting.threshold,
            wrong=f"is never reached: readings {_seconds(policy.interval)} apart score {highest:.2f} at most",
            right=f"write less than {highest:.2f}, or a longer half_life or window",
            code=IssueCode.WITHOUT_EFFECT,
            rests_on=(("interval",), (*at, "half_life"), (*at, "window")),
        )


def _market_and_labels(pool: Pool, at: Keys) -> Iterator[Conflict]:
    if not pool.market.types:
        yield Conflict(
            keys=(*at, "market", "types"),
            value=[],
            wrong="names no instance type",
            right="name one at least; several, so that one may be out of capacity",
            code=IssueCode.EMPTY,
        )
    for label, value in pool.labels.items():
        if label.startswith(_ROLE):
            yield Conflict(
                keys=(*at, "labels", label),
                value=value,
                wrong="is a label that a node may not give itself: the K3s agent would not start",
                right="use a label of your own, such as example.com/role",
            )


def _windows(policy: Policy, pool: Pool, at: Keys) -> Iterator[Conflict]:
    yield from _unique(policy, [(*at, "windows", index, "name") for index in range(len(pool.windows))])
    lowest, highest = (*at, "limits", "min"), (*at, "limits", "max")
    for index, window in enumerate(pool.windows):
        here = (*at, "windows", index)
        if (
            window.min is None
            and window.max is None
            and window.name
            not in (
                pool.rotation.window,
                pool.consolidation.window,
            )
        ):
            yield Conflict(
                keys=here,
                value=window.name,
                wrong="changes nothing",
                right="write min, max or both",
                code=IssueCode.WITHOUT_EFFECT,
            )
        right = "a window between two observations is never seen; make it longer than the interval"
        yield from _check_order(policy, ("interval",), (*here, "lasting"), right, equal=True)
        yield from _check_order(policy, (*here, "min"), (*here, "max"), "min must not be more than max", equal=True)
        for bound in ("min", "max"):
            right = f"limits always hold: a window's {bound} lies between them"
            yield from _check_order(policy, lowest, (*here, bound), right, equal=True)
            yield from _check_order(policy, (*here, bound), highest, right, equal=True)


def _named_window(pool: Pool, name: str | None, at: Keys) -> Iterator[Conflict]:
    names = [window.name for window in pool.windows]
    if name and name not in names:
        yield Conflict(
            keys=(*at, "window"),
            value=name,
            wrong="is not among the pool's windows",
            right=nearest(name, names) if names else "declare it under windows, by this name",
        )


def _rotation(pool: Pool, at: Keys) -> Iterator[Conflict]:
    rules, here = pool.rotation, (*at, "rotation")
    yield from _named_window(pool, rules.window, here)
    yield from _named_window(pool, pool.consolidation.window, (*at, "consolidation"))
    youngest = rules.max_age * (1 - rules.spread_percent / 100)
    takes = pool.health.join_limit + pool.removal.drain_timeout + pool.cooldown.down
    if rules.max_age and youngest < takes:
        yield Conflict(
            keys=(*here, "max_age"),
            value=rules.max_age,
            wrong=f"makes workers due after {_seconds(youngest)}, and replacing one may take {_seconds(takes)}",
            right="write days: workers would be replaced all the time",
            rests_on=(
                (*here, "spread_percent"),
                (*at, "health", "join_limit"),
                (*at, "removal", "drain_timeout"),
                (*at, "cooldown", "down"),
            ),
        )


def _readings(policy: Policy, pool: Pool, at: Keys) -> Iterator[Conflict]:
    for name, source in pool.readings.items():
        for problem in source_problems(source, policy.trust.gap * policy.interval):
            yield Conflict(
                keys=(*at, "readings", name, *problem.keys),
                value=problem.value,
                wrong=problem.wrong,
                right=problem.right,
                code=problem.code,
                rests_on=(("interval",), ("trust", "gap")) if problem.by_interval else (),
            )


def _standby(pool: Pool, at: Keys) -> Iterator[Conflict]:
    rules, here = pool.standby, (*at, "standby")
    if rules.origin is None:
        return
    if rules.reading is None or rules.reading not in pool.readings:
        yield Conflict(
            keys=(*here, "reading"),
            value=rules.reading,
            wrong="is none of the pool's readings",
            right=f"name the reading that tells how {rules.origin} is",
            rests_on=((*here, "origin"),),
        )
    if not rules.nodes:
        yield Conflict(
            keys=(*here, "nodes"),
            value=rules.nodes,
            wrong="moves nothing",
            right=f"write how many nodes carry the demand of {rules.origin}",
            code=IssueCode.WITHOUT_EFFECT,
            rests_on=((*here, "origin"),),
        )


def _rules(policy: Policy, pool: Pool, at: Keys) -> Iterator[Conflict]:
    declared = list(pool.readings)
    yield from _unique(policy, [(*at, "custom", index, "name") for index in range(len(pool.custom))])
    for index, rule in enumerate(pool.custom):
        here = (*at, "custom", index)
        for field, name in readings_of(rule):
            if name not in pool.readings:
                yield Conflict(
                    keys=(*here, field),
                    value=name,
                    wrong="is not among the pool's readings",
                    right=nearest(name, declared) if declared else "declare it under readings, by this name",
                    code=IssueCode.UNKNOWN_NAME,
                    rests_on=((*at, "readings", name),),
                )
        if isinstance(rule, JobDemand):
            right = "there must be a dead zone between shrinking and growing"
            yield from _check_order(policy, (*here, "shrink_below"), (*here, "grow_above"), right, equal=False)
        if rule.sustain is not None:
            yield from _sustain(policy, rule.sustain, (*here, "sustain"))


def _seconds(duration: timedelta) -> str:
    return f"{duration.total_seconds():g} s"


# ── all constraints ──────────────────────────────────────────────────────────────────────────────────────────────────
# What makes a policy impossible, all of it at once.
#
# Two kinds: a single value beyond what its field allows (written beside the field, see settings), and values that are
# fine alone but not together (clashes). Cron and time zones need their libraries and are checked at the edge.


def check(policy: Policy) -> tuple[ValidationIssue, ...]:
    """Everything that is wrong with a policy, by its own paths. A policy that was loaded has been through this."""
    alone = [problem for leaf in leaves(policy, Policy) if (problem := _alone(leaf))]
    # Values beyond their limits would make the rest guesswork, and an interval of 0 a division by zero.
    return tuple(alone or map(_together, find_conflicts(policy)))


def out_of_limits(value: object, about: FieldInfo) -> tuple[IssueCode, str, str] | None:
    """What is wrong with a single value and what would be right, or none."""
    if isinstance(value, str):
        return None if value.strip() else (IssueCode.EMPTY, "is empty", _advice(f"write it: {about.why}", about))
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if not isinstance(number, int | float):
        return None
    if about.above is not None and number <= about.above:
        return (IssueCode.OUT_OF_RANGE, f"is not more than {about.above:g}", _advice(_range(about), about))
    if about.at_least is not None and number < about.at_least:
        return (IssueCode.OUT_OF_RANGE, f"is less than {about.at_least:g}", _advice(_range(about), about))
    if about.at_most is not None and number > about.at_most:
        return (IssueCode.OUT_OF_RANGE, f"is more than {about.at_most:g}", _advice(_range(about), about))
    return None


def _range(about: FieldInfo) -> str:
    low = f"at least {about.at_least:g}" if about.at_least is not None else ""
    low = f"more than {about.above:g}" if about.above is not None else low
    high = f"at most {about.at_most:g}" if about.at_most is not None else ""
    unit = f" ({about.unit})" if about.unit else ""
    return f"write {' and '.join(filter(None, (low, high)))}{unit}"


def _advice(what: str, about: FieldInfo) -> str:
    return f"{what}; {about.hint}" if about.hint else what


def _alone(leaf: Leaf) -> ValidationIssue | None:
    found = out_of_limits(leaf.value, leaf.about) if leaf.about else None
    if found is None:
        return None
    code, wrong, right = found
    return ValidationIssue(path=path_of(leaf.keys), value=to_plain(leaf.value), wrong=wrong, right=right, code=code)


def _together(clash: Conflict) -> ValidationIssue:
    return clash.to_issue(path_of(clash.keys), to_plain(clash.value), _other(clash))


def _other(clash: Conflict) -> str:
    return f"{path_of(clash.other)} ({show_value(to_plain(clash.other_value))})" if clash.other else ""

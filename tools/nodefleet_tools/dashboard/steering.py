"""Operator commands of the page. Each is a record in the table that the next run executes, with an event for the audit.

The same records, checks and wake-up as `nodefleet pause`, `scale`, `recycle`, `drain` and `policy apply`: a command
given here shows in `nodefleet commands`, and one given there shows on the page.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import yaml

from nodefleet.errors import ChangedError
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import PolicyVersion
from nodefleet.model.inventory import Instance
from nodefleet.model.serialization import ValidationError, ValidationIssue, nearest
from nodefleet.model.snapshot import Drain, Pause, Recycle, Scale
from nodefleet.model.workload import SCALE_DOWN_DISABLED
from nodefleet.policy.cluster import Policy
from nodefleet.policy.loading import digest_of, load
from nodefleet.policy.pool import Pool
from nodefleet_tools.cli import changes
from nodefleet_tools.cli.connections import Connection
from nodefleet_tools.cli.environment import InputError
from nodefleet_tools.cli.operators import (
    ALL_POOLS,
    NEVER_SHRINKS,
    cancel_scales,
    event,
    order_drain,
    order_recycle,
    order_scale,
    pause_end,
    pause_event,
    protect_node,
    resume_event,
    what_is_paused,
    withdraw_commands,
    workers_of,
)
from nodefleet_tools.cli.policy_file import parsed
from nodefleet_tools.dashboard.snapshot import Json
from nodefleet_tools.policy_review import review

_A_DAY = timedelta(days=1)  # a drain or recycle that was not possible by then is given up
_LONGEST = 366 * 24 * 60  # minutes

Fields = Mapping[str, Any]


def execute(connection: Connection, given: Fields, by: str) -> str:
    """Do what was asked, and say what will happen. InputError says what is wrong with the request."""
    kind = _text(given, "kind")
    command = COMMANDS.get(kind)
    if command is None:
        raise InputError(f"there is no command {kind!r}: known are {', '.join(COMMANDS)}")
    return command(connection, given, by)


def _pause(connection: Connection, given: Fields, by: str) -> str:
    pool = _pool_name(connection, given, needed=False)
    minutes = _minutes(given, needed=False)
    until = connection.clock() + minutes if minutes else None
    only = given.get("scale_down_only", False)
    if not isinstance(only, bool):
        raise InputError(f"scale_down_only: {only!r} is neither true nor false")
    if only and until is None:
        raise InputError(NEVER_SHRINKS)
    order = Pause(pool=pool or None, by=by, reason=_reason(given), until=until, scale_down_only=only)
    connection.store.order(order, pause_event(connection, order))
    return f"Paused {what_is_paused(order)} {pause_end(order)}."


def _resume(connection: Connection, given: Fields, by: str) -> str:
    pool = _pool_name(connection, given, needed=False)
    found = [each for each in connection.store.state().commands if isinstance(each, Pause)]
    found = [each for each in found if each.pool == (pool or None)]
    if not found:
        raise InputError(f"{pool or ALL_POOLS}: there is no pause to end")
    for order in found:
        connection.store.withdraw(order, resume_event(connection, order, by))
    return f"Resumed {' and '.join(map(what_is_paused, found))}."


def _scale(connection: Connection, given: Fields, by: str) -> str:
    pool = _pool_name(connection, given, needed=True)
    rules = _policy(connection).pool(pool) or Pool(name=pool)
    nodes, reason = _number(given, "nodes"), _reason(given, needed=True)
    until = connection.clock() + (_minutes(given, needed=True) or _A_DAY)
    order = Scale(pool=pool, nodes=nodes, by=by, reason=reason, until=until)
    return order_scale(connection, order, rules)


def _cancel_scale(connection: Connection, given: Fields, by: str) -> str:
    pool = _pool_name(connection, given, needed=True)
    if not list(cancel_scales(connection, pool, by)):
        raise InputError(f"{pool}: there is no scale command to end")
    return f"{pool} follows its signals again."


def _recycle(connection: Connection, given: Fields, by: str) -> str:
    worker = _worker(connection, given)
    if _policy(connection).pool(worker.pool) is None:
        raise InputError(f"{worker.id} belongs to no pool of the policy: drain it instead")
    until = connection.clock() + _A_DAY
    order = Recycle(instance=worker.id, at=connection.clock(), by=by, reason=_reason(given), until=until)
    order_recycle(connection, order, worker.pool)
    return f"{worker.id} is replaced: a new worker joins first, then this one is drained."


def _drain(connection: Connection, given: Fields, by: str) -> str:
    worker = _worker(connection, given)
    owner = worker.pool if _policy(connection).pool(worker.pool) else ""
    now = connection.clock()
    order = Drain(instance=worker.id, pool=owner, at=now, by=by, reason=_reason(given), until=now + _A_DAY)
    return f"{worker.id} is {order_drain(connection, order)}."


def _withdraw(connection: Connection, given: Fields, by: str) -> str:
    """End the drain or the replacement of a worker before it has begun."""
    instance, what = _text(given, "instance"), _text(given, "what")
    kinds: Mapping[str, type[Drain | Recycle]] = {"drain": Drain, "recycle": Recycle}
    if what not in kinds:
        raise InputError(f"what: {what!r} is neither drain nor recycle")
    if not withdraw_commands(connection, kinds[what], [instance], by):
        raise InputError(f"{instance}: there is no {what} command to withdraw")
    return f"The {what} of {instance} is withdrawn. A drain that is under way goes on."


def _protect(connection: Connection, given: Fields, by: str) -> str:
    """As `nodefleet protect`: an annotation, with the operator's own Kubernetes credentials."""
    name, wanted = _text(given, "node"), bool(given.get("on"))
    others = protect_node(connection, name, on=wanted, by=by, reason=_reason(given))
    if wanted:
        return f"{name} is protected ({SCALE_DOWN_DISABLED[0]}=true)."
    return f"{name} is still protected by {', '.join(others)}." if others else f"{name} is protected no more."


# ── the policy ───────────────────────────────────────────────────────────────────────────────────────────────────────


def policy_in_force(connection: Connection) -> Json:
    """The policy as it was written, and its earlier versions."""
    state = connection.store.state()
    data = state.policy.data if state.policy else {}
    return {
        "version": state.policy.number if state.policy else 0,
        "text": yaml.safe_dump(data, sort_keys=False, allow_unicode=True) if data else "",
        "versions": [
            {"number": each.number, "at": each.at.timestamp(), "by": each.source}
            for each in connection.history.policies()
        ],
    }


def checked(connection: Connection, text: str) -> Json:
    """What is wrong with a policy, or what it changes."""
    try:
        _, policy = read_policy(text)
    except ValidationError as error:
        return {"problems": [_problem(each) for each in error.problems], "changes": [], "warnings": []}
    found = review(policy)
    changed = changes.policy_changes(_policy(connection), policy)
    return {
        "problems": [_problem(each) for each in found.problems],
        "warnings": [_problem(each) for each in found.warnings],
        "changes": [{"setting": each.setting, "before": each.before, "after": each.after} for each in changed],
    }


def read_policy(text: str) -> tuple[Any, Policy]:
    """The data as written and the policy that it stands for; ValidationError with every problem."""
    content = parsed(text)
    data = {} if content.data is None else content.data
    policy = load(data).policy
    if content.problems:
        raise ValidationError(content.problems)
    return data, policy


def _problem(issue: ValidationIssue) -> Json:
    return {"path": issue.path, "value": repr(issue.value), "wrong": issue.wrong, "right": issue.right}


def _apply(connection: Connection, given: Fields, by: str) -> str:
    try:
        data, policy = read_policy(_text(given, "text"))
    except ValidationError as error:
        raise InputError(f"the policy has problems: {error.problems[0].path} {error.problems[0].wrong}") from error
    found = review(policy)
    if found.problems:
        raise InputError(f"the policy has problems: {found.problems[0].path} {found.problems[0].wrong}")
    base = _number(given, "version")
    state = connection.store.state()
    if base != (state.policy.number if state.policy else 0):
        raise InputError("another policy version is in force by now: reload it, and make your change again")
    return _put_in_force(connection, data, policy, by)


def _dry_run(connection: Connection, given: Fields, by: str) -> str:
    """The same policy with dry_run changed, as a new version."""
    wanted, pool = bool(given.get("on")), _pool_name(connection, given, needed=False)
    state = connection.store.state()
    data = dict(state.policy.data) if state.policy else {}
    if "pools" in data:
        data["pools"] = [
            {**each, "dry_run": wanted} if pool in ("", each.get("name", Pool().name)) else each
            for each in data["pools"]
        ]
    else:
        data["dry_run"] = wanted
    return _put_in_force(connection, data, load(data).policy, by)


def _roll_back(connection: Connection, given: Fields, by: str) -> str:
    number = _number(given, "number")
    found = {version.number: version for version in connection.history.policies()}
    if number not in found:
        raise InputError(f"there is no policy version {number}: known are {', '.join(map(str, sorted(found)))}")
    data = found[number].data
    return _put_in_force(connection, data, connection.policies.read(data), f"{by} (back to version {number})")


def _put_in_force(connection: Connection, data: Any, policy: Policy, source: str) -> str:
    changed = changes.policy_changes(_policy(connection), policy)
    if not changed:
        raise InputError("nothing changes: the policy in force says the same")
    state, at = connection.store.state(), connection.clock()
    number = (state.policy.number if state.policy else 0) + 1
    version = PolicyVersion(number=number, source=source, at=at, data=data, digest=digest_of(data))
    text = f"{source} put policy version {number} in force: {changes.in_short(changed)}."
    changed_event = event(connection, AlertKind.POLICY_CHANGED, text, details=map(str, changed))
    try:
        connection.history.apply(version, changed_event)
    except ChangedError as error:
        raise InputError(f"{error}: reload the policy, and try again") from error
    return f"Policy version {number} is in force: {changes.in_short(changed)}."


COMMANDS: Mapping[str, Callable[[Connection, Fields, str], str]] = {
    "pause": _pause,
    "resume": _resume,
    "scale": _scale,
    "cancel-scale": _cancel_scale,
    "recycle": _recycle,
    "drain": _drain,
    "withdraw": _withdraw,
    "protect": _protect,
    "policy": _apply,
    "dry-run": _dry_run,
    "rollback": _roll_back,
}


# ── what a request says ──────────────────────────────────────────────────────────────────────────────────────────────


def _policy(connection: Connection) -> Policy:
    return connection.governing().policy


def _pool_name(connection: Connection, given: Fields, *, needed: bool) -> str:
    name = _text(given, "pool", needed=needed)
    known = [pool.name for pool in _policy(connection).pools]
    if name and name not in known:
        raise InputError(f"there is no pool {name} in the policy in force: {nearest(name, known)}")
    return name


def _worker(connection: Connection, given: Fields) -> Instance:
    wanted = _text(given, "instance")
    worker = workers_of(connection).get(wanted)
    if worker is not None:
        return worker
    raise InputError(f"{wanted} is no worker of this cluster")


def _text(given: Fields, name: str, *, needed: bool = True) -> str:
    value = given.get(name, "")
    if not isinstance(value, str) or (needed and not value.strip()):
        raise InputError(f"{name} is missing")
    return value.strip() if name != "text" else value


def _reason(given: Fields, *, needed: bool = False) -> str:
    reason = _text(given, "reason", needed=needed)
    return " ".join(reason.split())[:300]


def _number(given: Fields, name: str) -> int:
    value = given.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InputError(f"{name}: {value!r} is not a whole number")
    return value


def _minutes(given: Fields, *, needed: bool) -> timedelta | None:
    value = given.get("minutes")
    if value is None and not needed:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= _LONGEST:
        raise InputError(f"minutes: {value!r} is not between 1 and {_LONGEST}")
    return timedelta(minutes=value)

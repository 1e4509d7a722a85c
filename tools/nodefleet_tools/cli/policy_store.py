"""`nodefleet policy apply`, `versions` and `rollback`: the policy versions in the table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table
from rich.text import Text

from nodefleet.errors import ChangedError, MalformedError
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import PolicyVersion
from nodefleet.model.serialization import ValidationError
from nodefleet.policy.cluster import Policy
from nodefleet.policy.loading import digest_of
from nodefleet.ports import State
from nodefleet.reconcile.observe import resolve_policy
from nodefleet_tools.cli import changes, connect
from nodefleet_tools.cli.connections import Connection
from nodefleet_tools.cli.deployment_file import warn_of_homeless
from nodefleet_tools.cli.environment import NotFoundError
from nodefleet_tools.cli.operators import confirm, event, someone, worded_time
from nodefleet_tools.cli.outcome import Status, fail, note_change, print_json
from nodefleet_tools.cli.policy import summary
from nodefleet_tools.cli.policy_content import content_or_exit
from nodefleet_tools.cli.reviewing import reviewed_or_exit
from nodefleet_tools.cli.urgent_run import woken


def apply(*, file: Path, yes: bool, by: str, as_json: bool, cluster: str, table: str) -> None:
    content = content_or_exit(file)
    reviewed_or_exit(content.name, content.loaded.policy)
    with connect.connected(cluster=cluster, table=table) as connection:
        _put_in_force(connection, content.data, content.loaded.policy, source=someone(by), yes=yes, as_json=as_json)


def rollback(*, number: int, yes: bool, by: str, as_json: bool, cluster: str, table: str) -> None:
    with connect.connected(cluster=cluster, table=table) as connection:
        found = {version.number: version for version in connection.history.policies()}
        data = _version(found, number).data
        source = f"{someone(by)} (back to version {number})"
        _put_in_force(connection, data, connection.policies.read(data), source=source, yes=yes, as_json=as_json)


def get(*, number: int | None, as_json: bool, cluster: str, table: str) -> None:
    with connect.connected(cluster=cluster, table=table) as connection:
        state = connection.store.state()
        found = {version.number: version for version in connection.history.policies()}
        if state.policy is not None:
            found[state.policy.number] = state.policy
        wanted = number or (state.policy.number if state.policy else 0)
        if not wanted:
            fail("No policy version is in the table: the defaults hold. See `nodefleet policy show`.", Status.NOTHING)
        version = _version(found, wanted)
        if as_json:
            print_json({"version": version.number, "policy": version.data})
        else:
            print(yaml.safe_dump(version.data, sort_keys=False, allow_unicode=True), end="")


def _version(found: Mapping[int, PolicyVersion], number: int) -> PolicyVersion:
    if number not in found:
        known = ", ".join(map(str, sorted(found))) or "none"
        raise NotFoundError(f"there is no policy version {number}: known are {known}")
    return found[number]


def versions(*, last: int, as_json: bool, cluster: str, table: str) -> None:
    with connect.connected(cluster=cluster, table=table) as connection:
        found = connection.history.policies()
        state = connection.store.state()
        if not found:
            fail("No policy version is in the table: the defaults hold. See `nodefleet policy apply`.", Status.NOTHING)
        if as_json:
            print_json([_plain(version) for version in found[:last]])
            return
        _show(connection, found, last, state.policy.number if state.policy else 0)
        if _waits(state):
            print("The stack declares another policy, which the next run takes up.")


# ── putting one in force ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class _Now:
    """What is in force, as far as it can be read."""

    number: int  # of the newest version
    policy: Policy | None = None
    version: int = 0  # of this policy; 0: the defaults
    state: State | None = None


def _put_in_force(connection: Connection, data: Any, policy: Policy, *, source: str, yes: bool, as_json: bool) -> None:
    now = _now(connection)
    changed = changes.policy_changes(now.policy or Policy(), policy)
    if not changed and now.version:
        _answer(f"Nothing changes: version {now.version} says the same.", now.version, [], as_json=as_json)
        return
    if not as_json:
        _show_difference(now, policy, changed)
    confirm("Put it in force?", yes=yes)
    number, at = now.number + 1, connection.clock()
    version = PolicyVersion(number=number, source=source, at=at, data=data, digest=digest_of(data))
    text = f"{source} put policy version {number} in force: {changes.in_short(changed)}."
    told = event(connection, AlertKind.POLICY_CHANGED, text, details=map(str, changed))
    try:
        connection.history.apply(version, told)
    except ChangedError as error:
        raise ChangedError(f"{error}. See `nodefleet policy versions`, and try again") from error
    note_change(f"Policy version {number} is in force.")
    message = f"Policy version {number} is in force. {woken(connection, policy.interval)}"
    _answer(message, number, changed, as_json=as_json)
    if now.state and _waits(now.state):
        connection.warn("the stack declares another policy, which the next run puts in this one's place")
    if now.state:
        warn_of_homeless(connection, policy, now.state.deployment)


def _answer(message: str, version: int, changed: list[changes.Change], *, as_json: bool) -> None:
    if as_json:
        print_json({"message": message, "version": version, "changes": changes.as_plain(changed)})
    else:
        print(message)


def _now(connection: Connection) -> _Now:
    """Broken records are no reason not to apply a good policy: that is how they are repaired."""
    try:
        state = connection.store.state()
    except MalformedError as error:
        connection.warn(f"what is in force cannot be read: {error}")
        return _Now(number=max((each.number for each in connection.history.policies()), default=0))
    number = state.policy.number if state.policy else 0
    rules = resolve_policy(state, connection.policies, connection.clock())
    if rules.hold:
        connection.warn(rules.news[-1].text)
    return _Now(number=number, policy=rules.policy, version=rules.version, state=state)


def _show_difference(now: _Now, policy: Policy, changed: list[changes.Change]) -> None:
    for pool in policy.pools:
        print(summary(pool))
    against = f"version {now.version}" if now.version else "the defaults"
    if changed:
        print(f"\nWhat changes against {against}:")
        changes.show(changed, Console(highlight=False))
    else:
        print(f"\nIt is the same as {against}.")


def _waits(state: State) -> bool:
    """The stack declares a policy that no run has taken up or refused yet."""
    done = (state.journal.adopted_policy, state.journal.refused_policy)
    return state.declared is not None and state.declared.digest not in done


# ── showing them ─────────────────────────────────────────────────────────────────────────────────────────────────


def _show(connection: Connection, found: Sequence[PolicyVersion], last: int, in_force: int) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for column in ("version", "when", "by", "what changed"):
        table.add_column(column, header_style="dim", overflow="fold")
    for version, before in zip(found[:last], (*found[1:], None), strict=False):
        number = f"{version.number}{' (in force)' if version.number == in_force else ''}"
        changed = _what_changed(connection, version, before)
        table.add_row(*map(Text, (number, worded_time(version.at), version.source, changed)))
    Console(highlight=False).print(table)


def _what_changed(connection: Connection, version: PolicyVersion, before: PolicyVersion | None) -> str:
    read = connection.policies.read
    try:
        policy = read(version.data)
    except ValidationError:
        return "not valid any more"
    if before is None:
        return f"the first: {changes.in_short(changes.policy_changes(Policy(), policy))} against the defaults"
    try:
        return changes.in_short(changes.policy_changes(read(before.data), policy))
    except ValidationError:
        return f"unknown: version {before.number} is not valid any more"


def _plain(version: PolicyVersion) -> dict[str, Any]:
    return {
        "number": version.number,
        "at": version.at.isoformat(),
        "by": version.source,
        "digest": version.digest,
        "policy": version.data,
    }

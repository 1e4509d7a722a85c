"""`nodefleet replay`: decide again what was decided, and say whether it comes out the same."""

import sys
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import NoReturn

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from nodefleet.errors import NodeFleetError
from nodefleet.model.decision import Decision, DecisionRecord
from nodefleet.model.names import pluralize
from nodefleet.model.serialization import to_plain
from nodefleet.policy.cluster import Policy
from nodefleet.reconcile.audit import DecisionInput, shorten_decision
from nodefleet_tools.audit import decisions, record_named
from nodefleet_tools.cli.connect import connected
from nodefleet_tools.cli.connections import Connection
from nodefleet_tools.cli.outcome import Status, fail, print_json
from nodefleet_tools.cli.policy_file import policy_or_exit
from nodefleet_tools.cli.show_decision import headline
from nodefleet_tools.cli.show_record import heading, page_console
from nodefleet_tools.cli.show_replay import Difference, differences, show_differences, show_short
from nodefleet_tools.replaying import (
    NotReplayableError,
    by_another,
    decided,
    is_same,
    question_in,
    question_of,
    save_question,
)

DIFFERENT = Status.FAILED  # the decision comes out otherwise
LOOKS_BACK = 5000  # decisions, for those that were kept: about a week of quiet ones
_CHANGED = (
    "What was asked is the same, so the code decides otherwise than it did, or a default has changed that the policy of"
    " then left open."
)
_REMEMBERED = "The decision is the same; it differs in what it leaves in the memory for the next iteration."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What is decided again, and where it comes from."""

    question: DecisionInput
    record: DecisionRecord | None = None  # none: it comes from a file, and what was decided is not known


def replay(
    *,
    identity: str,
    last: int | None,
    file: Path | None,
    policy: Path | None,
    save: Path | None,
    as_json: bool,
    cluster: str,
    table: str,
    bucket: str,
) -> None:
    if sum(map(bool, (identity, last, file))) > 1:
        fail("name one: a decision's id, --last or --file")
    if last and save:
        fail("--save takes one decision, not --last")
    other = policy_or_exit(policy).policy if policy else None
    if file:
        _conclude(_from_file(file), other, save, as_json=as_json)
        return
    with connected(cluster=cluster, table=table, bucket=bucket) as connection:
        try:
            if last:
                _replay_many(connection, last, other, as_json=as_json)
            else:
                asked = _from_archive(connection, identity)
                _conclude(asked, other, save, connection.clock(), as_json=as_json)
        except NodeFleetError as error:  # status 1 says that it comes out otherwise
            fail(connection.redact(str(error)))


# ── what is asked ────────────────────────────────────────────────────────────────────────────────────────────────


def _from_file(file: Path) -> _Asked:
    try:
        return _Asked(question=question_in(file.read_bytes()))
    except OSError as error:
        fail(f"{file}: cannot be read: {error.strerror}")
    except NotReplayableError as error:
        fail(
            f"{file}: {error}. It should be a decision input as the archive keeps it; one that --save wrote is for"
            " `nodefleet decide FILE --policy FILE`"
        )


def _from_archive(connection: Connection, identity: str) -> _Asked:
    record = _record(connection, identity)
    try:
        return _Asked(question=question_of(record, connection.archive), record=record)
    except NotReplayableError as error:
        fail(f"{record.id}: {error}")


def _record(connection: Connection, identity: str) -> DecisionRecord:
    if identity:
        found = record_named(connection.history, identity)
        if found is None:
            known = "`nodefleet decisions` lists some, with their times"
            fail(f"there is no decision {identity}: {known}", Status.NOTHING)
        return found
    kept, read = _kept(connection, 1)
    if not kept:
        _refuse_empty(connection, read)
    return kept[0]


def _kept(connection: Connection, number: int) -> tuple[list[DecisionRecord], int]:
    """The newest decisions that were kept whole, and how many were read to find them."""
    found: list[DecisionRecord] = []
    read = 0
    for record in islice(decisions(connection.history), LOOKS_BACK):
        read = read + 1
        if record.archived:
            found.append(record)
        if len(found) == number:
            break
    return found, read


def _refuse_empty(connection: Connection, read: int) -> NoReturn:
    if read:
        last = pluralize(read, "decision", "decisions")
        why = "what a decision saw is kept when something comes of it, if there is a bucket (NODEFLEET_BUCKET)"
        fail(
            f"nothing can be decided again, {last} looked at: {why} (`nodefleet explain` shows the rest)",
            Status.NOTHING,
        )
    fail(f"no decision of {connection.cluster_id} is recorded", Status.NOTHING)


# ── what comes out ───────────────────────────────────────────────────────────────────────────────────────────────


def _conclude(
    asked: _Asked, other: Policy | None, save: Path | None, now: datetime | None = None, *, as_json: bool
) -> None:
    console, again = page_console(), decided(asked.question)
    if save:
        _save(asked.question, save)
    if as_json:
        _conclude_as_json(asked, again, other)
        return
    if asked.record and now:
        console.print(Text(heading(asked.record, now), "bold"))
    if other:
        same = _by_another(asked.question, again, other, console)
    elif asked.record:
        same = _compare(asked.record, again, console)
    else:
        same = True
        show_short(again, console)
        console.print(Text("A file does not say what was decided then, so there is nothing to compare this with."))
    if not same:
        raise typer.Exit(DIFFERENT)


def _conclude_as_json(asked: _Asked, again: Decision, other: Policy | None) -> None:
    """`same` is null where there is nothing to compare with."""
    same: bool | None = None
    found: tuple[Difference, ...] = ()
    if other:
        theirs = decided(by_another(asked.question, other))
        found = differences(again, theirs)
        again, same = theirs, not found
    elif asked.record:
        same = is_same(asked.record, again)
        if not same:
            found = differences(asked.record.decision, shorten_decision(again)[0] if asked.record.cut else again)
    plain = [{"pool": each.pool, "what": each.what, "then": each.first, "now": each.second} for each in found]
    identity = asked.record.id if asked.record else None
    print_json({"id": identity, "same": same, "differences": plain, "decision": to_plain(again)})
    if same is False:
        raise typer.Exit(DIFFERENT)


def _compare(record: DecisionRecord, again: Decision, console: Console) -> bool:
    if is_same(record, again):
        console.print(Text("Decided again: the same.", "bold green"))
        show_short(again, console)
        return True
    console.print(Text("Decided again: otherwise.", "bold yellow"))
    found = differences(record.decision, shorten_decision(again)[0] if record.cut else again)
    if found:
        show_differences(found, ("then", "now"), console)
        console.print(Text(_CHANGED))
    else:
        console.print(Text(f"{_REMEMBERED} {_CHANGED}"))
    return False


def _by_another(question: DecisionInput, again: Decision, policy: Policy, console: Console) -> bool:
    theirs = decided(by_another(question, policy))
    found = differences(again, theirs)
    verdict = Text("This policy would have decided otherwise.", "bold yellow")
    console.print(verdict if found else Text("This policy would have decided the same.", "bold green"))
    console.print(Text("By the policy of then:"))
    show_short(again, console)
    console.print(Text("By this policy:"))
    show_short(theirs, console)
    if found:
        show_differences(found, ("policy of then", "this policy"), console)
    missing = sorted(_unread(question, policy))
    if missing:
        console.print(Text(f"Not read then, so taken as missing: {', '.join(missing)}.", "dim"))
    return not found


def _unread(question: DecisionInput, policy: Policy) -> set[str]:
    """Readings of the other policy that were not taken."""
    taken = {name for readings in question.observation.readings.values() for name in readings.custom}
    return {name for pool in policy.pools for name in pool.readings} - taken


_SAME = ("green", "the same")
_OTHERWISE = ("bold yellow", "otherwise; replay it by its id to see what differs")
_NOT_ASKED = "dim"


def _replay_many(connection: Connection, number: int, other: Policy | None, *, as_json: bool) -> None:
    records, read = _kept(connection, number)
    if not records:
        _refuse_empty(connection, read)
    if as_json:
        again = [(record.id, _verdict(record, connection, other)) for record in records]
        print_json([{"id": each, "same": style == _SAME[0], "said": said} for each, (style, said) in again])
        if any(style == _OTHERWISE[0] for _, (style, _) in again):
            raise typer.Exit(DIFFERENT)
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("id", "decided", "by this policy" if other else "again"):
        table.add_column(column, no_wrap=column == "id", overflow="fold")
    styles = []
    for record in records:
        style, said = _verdict(record, connection, other)
        table.add_row(record.id, Text(_comes_to(record.decision)), Text(said, style))
        styles.append(style)
    console = page_console()
    console.print(table)
    if other:
        console.print(Text(f"Otherwise by this policy: {styles.count(_OTHERWISE[0])} of {len(records)}."))
    if read > len(records):
        console.print(
            Text(f"Nothing came of {read - len(records)} iterations in between: only their figures were kept.")
        )
    if _OTHERWISE[0] in styles:
        raise typer.Exit(DIFFERENT)
    if {*styles} == {_NOT_ASKED}:
        fail("none of these can be decided again")


def _comes_to(decision: Decision) -> str:
    return ", ".join(f"{pool.pool}: {headline(pool)}" for pool in decision.pools)


def _verdict(record: DecisionRecord, connection: Connection, other: Policy | None) -> tuple[str, str]:
    """By another policy it counts what a decision comes to: its reasons name the policy's own figures."""
    try:
        question = question_of(record, connection.archive)
    except (NotReplayableError, NodeFleetError) as error:
        return _NOT_ASKED, str(error)
    if other is None:
        return _SAME if is_same(record, decided(question)) else _OTHERWISE
    mine, theirs = _comes_to(decided(question)), _comes_to(decided(by_another(question, other)))
    return _SAME if mine == theirs else (_OTHERWISE[0], theirs)


def _save(question: DecisionInput, file: Path) -> None:
    try:
        policy = save_question(question, file)
    except OSError as error:
        fail(f"{file}: cannot be written: {error.strerror}")
    print(f"Saved. Ask it with: nodefleet decide {file} --policy {policy}", file=sys.stderr)

"""One node's story: why it stays or leaves, what is under way with it, and what happened to it."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import assert_never

from rich.console import Console
from rich.table import Table
from rich.text import Text

from nodefleet.model.decision import DecisionRecord, Event, KeepReason, KeptNode
from nodefleet.model.operations import Cleanup, Launch, Operation, Removal
from nodefleet.model.serialization import Plain, kind_of, to_plain
from nodefleet.model.state import Level
from nodefleet.ports import State
from nodefleet_tools.cli.plan_words import stay_lines
from nodefleet_tools.cli.show_record import moment
from nodefleet_tools.durations import ago, lasting

_DULL = frozenset({KeepReason.NOT_ASKED})  # it says nothing of this node
_LEAVES = frozenset({KeepReason.CHOSEN})


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a decision said of the node."""

    at: datetime
    pool: str
    reason: str  # what the decision was for the whole pool
    stay: KeptNode


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    at: datetime
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    node: str
    latest: Said | None  # the latest decision that names it
    telling: Said | None  # the latest that says more than that no signal asks for fewer nodes
    gone: bool  # later decisions do not name it any more
    operations: tuple[Operation, ...]
    done: tuple[Done, ...]  # newest first
    events: tuple[Event, ...]  # newest first

    @property
    def is_empty(self) -> bool:
        return not (self.latest or self.operations or self.done or self.events)


def story_of(node: str, records: Sequence[DecisionRecord], state: State, events: Iterable[Event]) -> Story:
    """`records` newest first."""
    operations = tuple(operation for operation in state.operations if node in _targets(operation))
    names = {node} | {name for operation in operations for name in _aliases(operation)}
    named = _naming(names)
    said = [
        Said(at=record.at, pool=pool.pool, reason=pool.reason, stay=stay)
        for record in records
        for pool in record.decision.pools
        for stay in pool.stays
        if stay.worker in names
    ]
    latest = next(iter(said), None)
    # While EC2 or Kubernetes does not answer a decision names no nodes.
    newest = next((record for record in records if record.decision.level is not Level.PARTIAL), None)
    return Story(
        node=node,
        latest=latest,
        telling=next((each for each in said if each.stay.reason not in _DULL), None),
        gone=latest is not None and newest is not None and latest.at < newest.at and not newest.cut,
        operations=operations,
        done=tuple(Done(at=record.at, what=did) for record in records for did in _done_to(record, names, named)),
        events=tuple(event for event in events if _is_about(event, names, named)),
    )


def _done_to(record: DecisionRecord, names: set[str], named: re.Pattern[str]) -> Iterator[str]:
    """By the records of what was done; a release before them kept sentences only."""
    if record.actions:
        return (str(action) for action in record.actions if not names.isdisjoint(action.targets))
    return (did for did in record.did if named.search(did))


def _is_about(event: Event, names: set[str], named: re.Pattern[str]) -> bool:
    """By its subjects; a text may name the node besides, as a reason does."""
    return not names.isdisjoint(event.subjects) or named.search(" ".join((event.text, *event.details))) is not None


def known_nodes(records: Iterable[DecisionRecord]) -> list[str]:
    """Those of the latest decision that names any."""
    for record in records:
        names = sorted({stay.worker for pool in record.decision.pools for stay in pool.stays})
        if names:
            return names
    return []


def _naming(names: Iterable[str]) -> re.Pattern[str]:
    """A text that names one of them, and not another node whose name begins alike."""
    either = "|".join(re.escape(name) for name in sorted(names))
    return re.compile(rf"(?<![\w.-])(?:{either})(?![\w-]|\.\w)")


def _targets(operation: Operation) -> tuple[str, ...]:
    match operation:
        case Launch():
            return operation.instances
        case Removal():
            return _aliases(operation)
        case Cleanup():
            return (operation.target,)
        case _:
            assert_never(operation)


def _aliases(operation: Operation) -> tuple[str, ...]:
    """An instance and its node are one."""
    return (operation.node, operation.instance) if isinstance(operation, Removal) and operation.node else ()


# ── on a page ────────────────────────────────────────────────────────────────────────────────────────────────────


def as_plain(story: Story) -> Plain:
    def said(each: Said | None) -> Plain:
        return (
            {"at": to_plain(each.at), "pool": each.pool, "reason": each.reason, "stay": to_plain(each.stay, full=True)}
            if each
            else None
        )

    return {
        "node": story.node,
        "latest": said(story.latest),
        "telling": said(story.telling),
        "gone": story.gone,
        "operations": [{"kind": kind_of(type(each)), **to_plain(each)} for each in story.operations],
        "done": [{"at": to_plain(each.at), "what": each.what} for each in story.done],
        "events": [to_plain(event) for event in story.events],
    }


def show_story(story: Story, console: Console, now: datetime, back: timedelta) -> None:
    console.print(Text.assemble((f"{story.node}: ", "bold"), *_headline(story)))
    for line in _sayings(story, now):
        console.print(Text(f"  {line}"))
    _listed(console, "Under way", [(each.started, _under_way(each)) for each in story.operations])
    span = f" in the last {lasting(back)}"
    _listed(console, f"Done{span}", [(each.at, each.what) for each in story.done])
    _listed(console, f"Told{span}", [(each.at, f"{each.kind.value}: {each.text}") for each in story.events])


def _headline(story: Story) -> list[tuple[str, str]]:
    if any(isinstance(each, Removal) and not each.cancelled for each in story.operations):
        return [("leaves", "bold yellow")]
    if story.latest is None:
        return [("not named by a recent decision", "bold")]
    if story.gone:
        return [("has left", "bold")]
    leaves = story.latest.stay.reason in _LEAVES
    return [
        ("leaves", "bold yellow") if leaves else ("stays", "bold green"),
        (f" ({story.latest.stay.phase.value})", ""),
    ]


def _sayings(story: Story, now: datetime) -> list[str]:
    latest, telling = story.latest, story.telling
    if latest is None:
        return []
    lines = [
        f"{moment(latest.at)} ({ago(now - latest.at)}): {_why(latest)}",
        f"Pool {latest.pool}: {latest.reason}",
    ]
    if telling is not None and telling is not latest and telling.stay.reason is not latest.stay.reason:
        lines.append(f"When fewer were last asked for, {moment(telling.at)} ({ago(now - telling.at)}): {_why(telling)}")
    return lines


def _why(said: Said) -> str:
    ((_, why),) = stay_lines((said.stay,))
    reason = said.stay.reason.value
    return why if said.stay.reason in _DULL or why == reason else f"{why} [{reason}]"


def _under_way(operation: Operation) -> str:
    match operation:
        case Launch():
            return f"launch for pool {operation.pool}: {operation.reason}"
        case Removal():
            until = moment(operation.deadline)
            return f"{operation.why.value} removal, {_step(operation)}, until {until}: {operation.reason}"
        case Cleanup():
            return f"cleanup of {operation.debris.value} {operation.target}: {operation.reason}"
        case _:
            assert_never(operation)


def _step(removal: Removal) -> str:
    if removal.cancelled:
        return f"called back ({removal.cancelled})"
    if removal.terminating:
        return "terminating"
    if removal.evicting:
        return "draining"
    return "cordoned" if removal.cordoned else "begun"


def _listed(console: Console, heading: str, lines: Sequence[tuple[datetime, str]]) -> None:
    console.print()
    console.print(Text(heading, "bold"))
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    for at, words in lines:
        table.add_row(Text(f"  {moment(at)}"), Text(words))
    console.print(table if lines else Text("  nothing"))

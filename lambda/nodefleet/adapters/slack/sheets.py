"""A letter as a sheet: what happened, the figures, what to do. The events' own texts are framed, never rewritten."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from typing import assert_never

from nodefleet.adapters.slack.blocks import Link, Sheet
from nodefleet.adapters.slack.meanings import meaning_of
from nodefleet.adapters.slack.text import addresses
from nodefleet.adapters.slack.words import DRY, DRY_TODO, SIGNS, cost, headline, size
from nodefleet.domain.alerts import CATALOGUE, STANDS_OUT, AlertKind
from nodefleet.domain.deployment import Deployment
from nodefleet.domain.events import Event
from nodefleet.domain.memory import Level
from nodefleet.notifying.folding import Form, Letter
from nodefleet.notifying.limits import Limits
from nodefleet.notifying.news import Alarm, AlarmState, Told
from nodefleet.notifying.weight import most_urgent

_STATES = {
    AlarmState.ALARM: "Alarm",
    AlarmState.OK: "Alarm over",
    AlarmState.NO_DATA: "Alarm without data",
}
_SAYS_ITS_LEVEL = (AlertKind.DEGRADED, AlertKind.RECOVERED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Where a cluster can be looked at."""

    dashboard: str = ""
    logs: str = ""

    @classmethod
    def of(cls, deployment: Deployment | None) -> "Links":
        return cls(dashboard=deployment.dashboard, logs=deployment.logs) if deployment else cls()


def sheet(letter: Letter, links: Links, limits: Limits) -> Sheet:
    told = letter.told
    common = Sheet(
        sign=SIGNS[most_urgent(told)],
        headline="",
        since=min(each.at for each in told),
        until=max(each.at for each in told),
        links=(Link(words="Dashboard", url=links.dashboard), Link(words="Logs", url=links.logs)),
    )
    match letter.form:
        case Form.SINGLE:
            return _event(letter.first, common) if isinstance(letter.first, Event) else _alarm(letter.first, common)
        case Form.MANY:
            return _many(told, common, limits)
        case Form.MIXED:
            return _mixed(told, common)
        case Form.OLD:
            return _old(told, common, limits)
        case _:
            assert_never(letter.form)


# ── one ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _event(event: Event, common: Sheet) -> Sheet:
    level = "" if event.level is Level.NORMAL or event.kind in _SAYS_ITS_LEVEL else event.level.value
    return replace(
        common,
        headline=_headed(headline(event.kind, event.change), [event]),
        mark=DRY if event.dry else "",
        body=event.text,
        facts=(
            ("Nodes", size(event.nodes, event.change)),
            ("Cost", cost(event.usd_per_day)),
            ("Level", level),
        ),
        todo=DRY_TODO if event.dry else CATALOGUE[event.kind].todo,
        details=event.details,
    )


def _alarm(alarm: Alarm, common: Sheet) -> Sheet:
    meaning = meaning_of(alarm.name)
    says = meaning.says if meaning else alarm.description or "This alarm has no description."
    over = alarm.state is AlarmState.OK
    return replace(
        common,
        headline=f"{_STATES[alarm.state]} · {alarm.name}",
        body=f"It is over. It meant: {says}" if over else says,
        facts=(("Cluster", _where([alarm])), ("Rule", alarm.rule)),
        todo=CATALOGUE[AlertKind.RECOVERED].todo if over else (meaning or CATALOGUE[AlertKind.ALARM]).todo,
        details=(f"{alarm.source}: {alarm.reason}",) if alarm.reason else (),
        links=(Link(words="Alarm in CloudWatch", url=alarm.console), *_runbook(alarm), *common.links),
    )


def _runbook(alarm: Alarm) -> list[Link]:
    """Slack is told to make no links out of words, so the first address in the description becomes one here."""
    return [Link(words="Runbook", url=url) for url in addresses(alarm.description)[:1]]


# ── several ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _many(told: Sequence[Told], common: Sheet, limits: Limits) -> Sheet:
    kind, dry = told[0].kind, told[0].dry
    events = [each for each in told if isinstance(each, Event)]
    costs = [event.usd_per_day for event in events if event.usd_per_day is not None]
    all_known = bool(costs) and len(costs) == len(told)
    return replace(
        common,
        headline=_headed(f"{len(told)} × {headline(kind)}", told),
        mark=DRY if dry else "",
        body=f"This happened {len(told)} times within a short time.",
        facts=(
            ("Nodes", size(_now(events), sum(event.change for event in events))),
            ("Cost", cost(sum(costs)) if all_known else ""),
        ),
        todo=DRY_TODO if dry else CATALOGUE[kind].todo,
        details=_lines(told, limits),
    )


def _mixed(told: Sequence[Told], common: Sheet) -> Sheet:
    return replace(
        common,
        headline=_headed(f"{len(told)} more events", told),
        body="Much happened at once, so these are only counted. The log has each of them.",
        todo="Look at the messages beside this one first.",
        details=_counted(told),
    )


def _old(told: Sequence[Told], common: Sheet, limits: Limits) -> Sheet:
    important = [each for each in told if each.kind in STANDS_OUT]
    return replace(
        common,
        headline=_headed(f"{len(told)} older event{'' if len(told) == 1 else 's'}", told),
        body="This happened some hours ago, while no message could be sent. It may long be over.",
        todo="Look at the dashboard for what is so now.",
        details=(*_counted(told), *(_lines(important, limits) if important else ())),
    )


def _counted(told: Sequence[Told]) -> tuple[str, ...]:
    counts = Counter((each.kind, each.dry) for each in told)
    return tuple(
        f"{count} × {CATALOGUE[kind].headline}{' (dry run)' if dry else ''}"
        for (kind, dry), count in sorted(counts.items(), key=lambda item: -item[1])
    )


def _lines(told: Sequence[Told], limits: Limits) -> tuple[str, ...]:
    """The first few in their own words."""
    most = limits.shown_outstanding if told[0].kind in STANDS_OUT else limits.shown
    pools = len({each.pool for each in told}) > 1
    shown = [f"{each.at.astimezone(UTC):%H:%M:%S} {_said(each, with_pool=pools)}" for each in told[:most]]
    return (*shown, *([f"… and {len(told) - most} more"] if len(told) > most else []))


def _said(told: Told, *, with_pool: bool) -> str:
    match told:
        case Event(text=text, pool=pool):
            return f"{pool}: {text}" if pool and with_pool else text
        case Alarm(name=name, state=state, reason=reason):
            return f"{_STATES[state]} {name}: {reason}"
        case _:
            assert_never(told)


def _now(events: Sequence[Event]) -> int | None:
    """How many there are now, if all speak of one pool."""
    known = [event.nodes for event in events]
    return known[-1] if known and len({event.pool for event in events}) == 1 else None


def _headed(said: str, told: Sequence[Told]) -> str:
    dry = "Dry run: " if all(each.dry for each in told) else ""
    where = _where(told)
    return f"{dry}{said} · {where}" if where else f"{dry}{said}"


def _where(told: Sequence[Told]) -> str:
    pools = {each.pool for each in told}
    pool = pools.pop() if len(pools) == 1 else ""
    return " / ".join(part for part in (told[0].cluster, pool) if part)

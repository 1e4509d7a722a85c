"""Slack messages: an alert's headline, figures and advice in Slack's own form and within its limits."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeAlias, assert_never

from nodefleet.model.alerts import CATALOGUE, STANDS_OUT, AlertKind, Severity
from nodefleet.model.decision import Event
from nodefleet.model.names import pluralize
from nodefleet.model.snapshot import Deployment
from nodefleet.model.state import Level
from nodefleet.notifications.alarm_catalog import alarm_text
from nodefleet.notifications.incoming import (
    Alarm,
    AlarmState,
    DeliveryLimits,
    Notifiable,
    Notification,
    NotificationForm,
    highest_severity,
)

# ── headlines and figures ────────────────────────────────────────────────────────────────────────────────────────────
# Signs, headlines and figures of a message. What each kind of alert is called is in the catalogue (domain/alerts).


SIGNS: Mapping[Severity, str] = {
    Severity.CRITICAL: "🔴",
    Severity.WARNING: "🟠",
    Severity.INFO: "🔵",
    Severity.OVER: "🟢",
}
DRY = "Dry run: nothing was done."
DRY_TODO = "Nothing. To let the autoscaler act by itself, take `dry_run` out of the policy."


def headline(kind: AlertKind, change: int = 0) -> str:
    spec = CATALOGUE[kind]
    return (
        spec.counted.format(nodes=pluralize(abs(change), "node", "nodes")) if spec.counted and change else spec.headline
    )


def size(now: int | None, change: int) -> str:
    """3 → 4, or just 4, or +1; nothing if nothing is known."""
    signed = f"{'+' if change > 0 else '−'}{abs(change)}" if change else ""
    if now is None:
        return signed
    return f"{now - change} → {now}" if change else str(now)


def cost(usd_per_day: float | None) -> str:
    """≈ +$0.96 per day; nothing if it is not known."""
    if usd_per_day is None:
        return ""
    shown = f"{abs(usd_per_day):,.2f}"
    return "no change" if shown == "0.00" else f"≈ {'+' if usd_per_day > 0 else '−'}${shown} per day"


# ── text ─────────────────────────────────────────────────────────────────────────────────────────────────────────────
# What may stand in a message. Names, reasons and alarms come from outside: they must not mention users, break a
# link or exceed what Slack takes, or one odd pod name would keep everything from being told.


_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_MENTION = re.compile(r"@(?=(?:channel|here|everyone)\b)", re.IGNORECASE)
_NO_LINK = str.maketrans({"<": "%3C", ">": "%3E", "|": "%7C", " ": "%20", '"': "%22", "`": "%60"})
_CLICKABLE = re.compile(r"https?://[^\s/?#|@]+(?:[/?#]\S*)?", re.IGNORECASE)
_ADDRESS = re.compile(r"https?://[^\s<>|\"')\]]+")
_ZERO_WIDTH_SPACE = "\u200b"
ELLIPSIS = "…"


def length(text: str) -> int:
    """As Slack may count it at worst: an emoji is two."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def clip(text: str, limit: int) -> str:
    """The text as it may stand in a message, shortened to the limit. Never cut within an escaped character."""
    harmless = _MENTION.sub(f"@{_ZERO_WIDTH_SPACE}", _UNPRINTABLE.sub(" ", text)).strip()
    characters = [_ESCAPES.get(character, character) for character in harmless]
    whole = "".join(characters)
    if length(whole) <= limit:
        return whole
    room, kept = limit - length(ELLIPSIS), []
    for character in characters:
        room -= length(character)
        if room < 0:
            break
        kept.append(character)
    return "".join(kept).rstrip() + ELLIPSIS


def link(words: str, url: str, limit: int = 2000) -> str:
    """A link, or nothing if it is none that can be clicked."""
    address = _UNPRINTABLE.sub("", url.strip()).translate(_NO_LINK)
    if not _CLICKABLE.fullmatch(address) or length(address) > limit:
        return ""
    return f"<{address.replace('&', '&amp;')}|{clip(words, 100).replace('|', '/')}>"


def addresses(text: str) -> list[str]:
    """What stands in a text as a link, such as a runbook's."""
    return _ADDRESS.findall(text)


def period(since: datetime, until: datetime) -> str:
    if since == until:
        return moment(since)
    one_day = since.astimezone(UTC).date() == until.astimezone(UTC).date()
    return f"{moment(since)} to {f'{until.astimezone(UTC):%H:%M:%S} UTC' if one_day else moment(until)}"


def moment(at: datetime) -> str:
    """The time for each reader in their own zone, and in UTC: texts and logs are in UTC."""
    utc = at.astimezone(UTC)
    shown = f"{{date_short_pretty}} {{time}} your time, {utc:%H:%M:%S} UTC"
    return f"<!date^{int(utc.timestamp())}^{shown}|{utc:%Y-%m-%d %H:%M:%S} UTC>"


# ── blocks ───────────────────────────────────────────────────────────────────────────────────────────────────────────
# Slack's own form of a message. Its limits are kept here, and nowhere else is anything escaped or shortened.
#
# The order is the order in which a tired operator asks: what happened, why, how many now and what does it cost, what do
# I have to do, what else was seen, when and where to look.


Block: TypeAlias = dict[str, Any]

# Slack's limits are 150, 3000 and 2000. The longer ones have some room left for what is put around a text.
HEADLINE = 150
SECTION = 2900
FIELD = 500  # figures, not prose
FIELDS = 10
NOTIFICATION = 400  # what a phone shows
DETAIL = 1000  # one line of what else was seen
DETAIL_SECTIONS = 3  # a whole message has an unwritten limit too


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    words: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackMessage:
    """A message before it has Slack's form: nothing in it is escaped."""

    sign: str
    headline: str
    mark: str = ""  # what must not be overlooked
    body: str = ""
    facts: tuple[tuple[str, str], ...] = ()  # name and figure
    todo: str = ""
    details: tuple[str, ...] = ()
    since: datetime
    until: datetime
    links: tuple[Link, ...] = ()


def payload(sheet: SlackMessage) -> dict[str, Any]:
    """What the webhook takes."""
    blocks = [
        {"type": "header", "text": {"type": "plain_text", "text": _headline(sheet), "emoji": True}},
        *_section(clip(sheet.mark, SECTION), "*{}*"),
        *_section(clip(sheet.body, SECTION), "{}"),
        *_facts(sheet.facts),
        *_section(clip(sheet.todo, SECTION), "*What to do:* {}"),
        *_details(sheet.details),
        {"type": "context", "elements": [_markdown(_footer(sheet))]},
    ]
    return {**plain(sheet), "blocks": blocks}


def plain(sheet: SlackMessage) -> dict[str, Any]:
    """The message without blocks: what a phone shows, and what is sent if Slack does not take the blocks."""
    said = " ".join(part for part in (sheet.mark, sheet.body) if part)
    text = f"{_headline(sheet)}: {clip(said, NOTIFICATION)}" if said.strip() else _headline(sheet)
    return {"text": text, "unfurl_links": False, "unfurl_media": False}


def _headline(sheet: SlackMessage) -> str:
    return clip(f"{sheet.sign} {' '.join(sheet.headline.split())}", HEADLINE)


def _markdown(text: str) -> Block:
    # verbatim: Slack makes no links, channels or mentions out of words
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def _section(text: str, form: str) -> list[Block]:
    return [{"type": "section", "text": _markdown(form.format(text))}] if text else []


def _facts(facts: Sequence[tuple[str, str]]) -> list[Block]:
    fields = [_markdown(f"*{clip(name, FIELD)}*\n{clip(figure, FIELD)}") for name, figure in facts if figure]
    return [{"type": "section", "fields": fields[:FIELDS]}] if fields else []


def _details(lines: Iterable[str]) -> list[Block]:
    """Each line whole, in as many sections as may be; what does not fit is counted."""
    sections: list[list[str]] = [[]]
    left_out = 0
    for line in lines:
        point = f"• {clip(' '.join(line.split()), DETAIL)}"
        if length("\n".join([*sections[-1], point])) > SECTION and sections[-1]:
            sections.append([])
        if len(sections) > DETAIL_SECTIONS:
            sections.pop()
            left_out += 1
        elif left_out:
            left_out += 1
        else:
            sections[-1].append(point)
    texts = ["\n".join(section) for section in sections if section]
    if left_out:
        texts.append(f"… and {left_out} more")
    return [{"type": "section", "text": _markdown(text)} for text in texts]


def _footer(sheet: SlackMessage) -> str:
    """When, and where to look; a link that makes it too long is left out."""
    footer = period(sheet.since, sheet.until)
    for each in sheet.links:
        made = link(each.words, each.url)
        if made and length(f"{footer} · {made}") <= SECTION:
            footer = f"{footer} · {made}"
    return footer


# ── messages ─────────────────────────────────────────────────────────────────────────────────────────────────────────
# A notification as a sheet: what happened, the figures, what to do. The events' own texts are framed, never rewritten.


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


def build_message(notification: Notification, links: Links, limits: DeliveryLimits) -> SlackMessage:
    told = notification.told
    common = SlackMessage(
        sign=SIGNS[highest_severity(told)],
        headline="",
        since=min(each.at for each in told),
        until=max(each.at for each in told),
        links=(Link(words="Dashboard", url=links.dashboard), Link(words="Logs", url=links.logs)),
    )
    match notification.form:
        case NotificationForm.SINGLE:
            return (
                _event(notification.first, common)
                if isinstance(notification.first, Event)
                else _alarm(notification.first, common)
            )
        case NotificationForm.MANY:
            return _many(told, common, limits)
        case NotificationForm.MIXED:
            return _mixed_message(told, common)
        case NotificationForm.OLD:
            return _old(told, common, limits)
        case _:
            assert_never(notification.form)


# ── one ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _event(event: Event, common: SlackMessage) -> SlackMessage:
    level = "" if event.level is Level.NORMAL or event.kind in _SAYS_ITS_LEVEL else event.level.value
    return replace(
        common,
        headline=_with_heading(headline(event.kind, event.change), [event]),
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


def _alarm(alarm: Alarm, common: SlackMessage) -> SlackMessage:
    meaning = alarm_text(alarm.name)
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


def _many(told: Sequence[Notifiable], common: SlackMessage, limits: DeliveryLimits) -> SlackMessage:
    kind, dry = told[0].kind, told[0].dry
    events = [each for each in told if isinstance(each, Event)]
    costs = [event.usd_per_day for event in events if event.usd_per_day is not None]
    all_known = bool(costs) and len(costs) == len(told)
    return replace(
        common,
        headline=_with_heading(f"{len(told)} × {headline(kind)}", told),
        mark=DRY if dry else "",
        body=f"This happened {len(told)} times within a short time.",
        facts=(
            ("Nodes", size(_now(events), sum(event.change for event in events))),
            ("Cost", cost(sum(costs)) if all_known else ""),
        ),
        todo=DRY_TODO if dry else CATALOGUE[kind].todo,
        details=_lines(told, limits),
    )


def _mixed_message(told: Sequence[Notifiable], common: SlackMessage) -> SlackMessage:
    return replace(
        common,
        headline=_with_heading(pluralize(len(told), "more event", "more events"), told),
        body="Much happened at once, so these are only counted. The log has each of them.",
        todo="Look at the messages beside this one first.",
        details=_count_kinds(told),
    )


def _old(told: Sequence[Notifiable], common: SlackMessage, limits: DeliveryLimits) -> SlackMessage:
    important = [each for each in told if each.kind in STANDS_OUT]
    return replace(
        common,
        headline=_with_heading(pluralize(len(told), "older event", "older events"), told),
        body="This happened some hours ago, while no message could be sent. It may long be over.",
        todo="Look at the dashboard for what is so now.",
        details=(*_count_kinds(told), *(_lines(important, limits) if important else ())),
    )


def _count_kinds(told: Sequence[Notifiable]) -> tuple[str, ...]:
    counts = Counter((each.kind, each.dry) for each in told)
    return tuple(
        f"{count} × {CATALOGUE[kind].headline}{' (dry run)' if dry else ''}"
        for (kind, dry), count in sorted(counts.items(), key=lambda item: -item[1])
    )


def _lines(told: Sequence[Notifiable], limits: DeliveryLimits) -> tuple[str, ...]:
    """The first few in their own words."""
    most = limits.shown_outstanding if told[0].kind in STANDS_OUT else limits.shown
    pools = len({each.pool for each in told}) > 1
    shown = [f"{each.at.astimezone(UTC):%H:%M:%S} {_render_line(each, with_pool=pools)}" for each in told[:most]]
    return (*shown, *([f"… and {len(told) - most} more"] if len(told) > most else []))


def _render_line(told: Notifiable, *, with_pool: bool) -> str:
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


def _with_heading(said: str, told: Sequence[Notifiable]) -> str:
    dry = "Dry run: " if all(each.dry for each in told) else ""
    where = _where(told)
    return f"{dry}{said} · {where}" if where else f"{dry}{said}"


def _where(told: Sequence[Notifiable]) -> str:
    pools = {each.pool for each in told}
    pool = pools.pop() if len(pools) == 1 else ""
    return " / ".join(part for part in (told[0].cluster, pool) if part)

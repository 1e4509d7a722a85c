"""Slack's own form of a message. Its limits are kept here, and nowhere else is anything escaped or shortened.

The order is the order in which a tired person asks: what happened, why, how many now and what does it cost, what do I
have to do, what else was seen, when and where to look.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from nodefleet.adapters.slack.text import clipped, length, link, period

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
class Sheet:
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


def payload(sheet: Sheet) -> dict[str, Any]:
    """What the webhook takes."""
    blocks = [
        {"type": "header", "text": {"type": "plain_text", "text": _headline(sheet), "emoji": True}},
        *_section(clipped(sheet.mark, SECTION), "*{}*"),
        *_section(clipped(sheet.body, SECTION), "{}"),
        *_facts(sheet.facts),
        *_section(clipped(sheet.todo, SECTION), "*What to do:* {}"),
        *_details(sheet.details),
        {"type": "context", "elements": [_markdown(_footer(sheet))]},
    ]
    return {**plain(sheet), "blocks": blocks}


def plain(sheet: Sheet) -> dict[str, Any]:
    """The message without blocks: what a phone shows, and what is sent if Slack does not take the blocks."""
    said = " ".join(part for part in (sheet.mark, sheet.body) if part)
    text = f"{_headline(sheet)}: {clipped(said, NOTIFICATION)}" if said.strip() else _headline(sheet)
    return {"text": text, "unfurl_links": False, "unfurl_media": False}


def _headline(sheet: Sheet) -> str:
    return clipped(f"{sheet.sign} {' '.join(sheet.headline.split())}", HEADLINE)


def _markdown(text: str) -> Block:
    # verbatim: Slack makes no links, channels or mentions out of words
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def _section(text: str, form: str) -> list[Block]:
    return [{"type": "section", "text": _markdown(form.format(text))}] if text else []


def _facts(facts: Sequence[tuple[str, str]]) -> list[Block]:
    fields = [_markdown(f"*{clipped(name, FIELD)}*\n{clipped(figure, FIELD)}") for name, figure in facts if figure]
    return [{"type": "section", "fields": fields[:FIELDS]}] if fields else []


def _details(lines: Iterable[str]) -> list[Block]:
    """Each line whole, in as many sections as may be; what does not fit is counted."""
    sections: list[list[str]] = [[]]
    left_out = 0
    for line in lines:
        point = f"• {clipped(' '.join(line.split()), DETAIL)}"
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


def _footer(sheet: Sheet) -> str:
    """When, and where to look; a link that makes it too long is left out."""
    footer = period(sheet.since, sheet.until)
    for each in sheet.links:
        made = link(each.words, each.url)
        if made and length(f"{footer} · {made}") <= SECTION:
            footer = f"{footer} · {made}"
    return footer

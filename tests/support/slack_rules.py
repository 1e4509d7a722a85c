"""Slack's documented rules for a message, checked: what breaks one of them, Slack refuses as a whole.

header     plain text, 1–150 characters
section    text (1–3000) or 1–10 fields (1–2000 each)
context    1–10 elements, text 1–3000
message    at most 50 blocks, and a text for notifications
In every text & < > are escaped, but for links and dates; nobody is mentioned.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

_LINK = re.compile(r"<https?://[^<>|\s]+\|[^<>|]+>")
_ADDRESS = re.compile(r"<https?://[^<>|\s]+")  # of a link: nobody reads it as a mention
_DATE = re.compile(r"<!date\^\d+\^[^<>|^]*\{[^<>|^]*\|[^<>|]+>")
_ENTITY = re.compile(r"&(amp|lt|gt);")
_MENTION = re.compile(r"<[!@#]|@(channel|here|everyone)\b", re.IGNORECASE)
_KEYS = {
    "header": {"type", "text"},
    "section": {"type", "text", "fields"},
    "context": {"type", "elements"},
}


def problems(message: dict[str, Any]) -> list[str]:
    return list(_problems(message))


def _problems(message: dict[str, Any]) -> Iterator[str]:
    json.dumps(message, allow_nan=False).encode("ascii")
    if unknown := set(message) - {"text", "blocks", "unfurl_links", "unfurl_media"}:
        yield f"unknown keys {unknown}"
    yield from _text(message.get("text", ""), 1, 1000, "notification")
    blocks = message.get("blocks", [{}])
    if not 1 <= len(blocks) <= 50:
        yield f"{len(blocks)} blocks"
    for place, block in enumerate(blocks):
        yield from _block(block, f"block {place}")
    if sum(len(json.dumps(block, ensure_ascii=False)) for block in blocks) > 20_000:
        yield "too long as a whole"


def _block(block: dict[str, Any], where: str) -> Iterator[str]:
    kind = block.get("type")
    if kind not in _KEYS:
        yield f"{where}: type {kind}"
        return
    if unknown := set(block) - _KEYS[kind]:
        yield f"{where}: unknown keys {unknown}"
    match kind:
        case "header":
            if block["text"]["type"] != "plain_text":
                yield f"{where}: a header is plain text"
            if unknown := set(block["text"]) - {"type", "text", "emoji"}:
                yield f"{where}: unknown keys {unknown}"
            yield from _text(block["text"]["text"], 1, 150, where)
            if "\n" in block["text"]["text"]:
                yield f"{where}: a header is one line"
        case "section":
            if ("text" in block) == ("fields" in block):
                yield f"{where}: a section has a text or fields"
            yield from _object(block.get("text"), 3000, where)
            fields = block.get("fields", [None])
            if not 1 <= len(fields) <= 10:
                yield f"{where}: {len(fields)} fields"
            for field in fields:
                yield from _object(field, 2000, where)
        case "context":
            if not 1 <= len(block["elements"]) <= 10:
                yield f"{where}: {len(block['elements'])} elements"
            for element in block["elements"]:
                yield from _object(element, 3000, where)


def _object(text: dict[str, Any] | None, most: int, where: str) -> Iterator[str]:
    if text is None:
        return
    if text.get("type") != "mrkdwn" or text.get("verbatim") is not True or set(text) - {"type", "text", "verbatim"}:
        yield f"{where}: not a verbatim mrkdwn text: {text}"
    yield from _text(text["text"], 1, most, where)


def _text(text: str, least: int, most: int, where: str) -> Iterator[str]:
    size = len(text.encode("utf-16-le")) // 2  # an emoji counts twice, to be careful
    if not least <= size <= most:
        yield f"{where}: {size} characters"
    if not text.strip():
        yield f"{where}: only white space"
    bare = _ENTITY.sub("", _DATE.sub("", _LINK.sub("", text)))
    if set(bare) & set("<>&"):
        yield f"{where}: not escaped: {bare!r}"
    if _MENTION.search(_ADDRESS.sub("<", _DATE.sub("", text))):
        yield f"{where}: mentions somebody: {text!r}"
    if any(ord(character) < 32 and character not in "\n\t" for character in text):
        yield f"{where}: control characters"

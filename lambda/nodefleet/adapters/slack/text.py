"""What may stand in a message. Names, reasons and alarms come from outside: they must not mention anybody, break a
link or exceed what Slack takes, or one odd pod name would keep everything from being told."""

import re
from datetime import UTC, datetime

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


def clipped(text: str, limit: int) -> str:
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
    return f"<{address.replace('&', '&amp;')}|{clipped(words, 100).replace('|', '/')}>"


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

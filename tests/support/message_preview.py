"""A message as text, made from the very blocks that Slack gets, and the page that shows one of each kind.

make messages      plays the situations again, and writes tests/messages.json and the examples of docs/messages.md
"""

import json
import re
from html import unescape
from pathlib import Path
from textwrap import fill
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "messages.md"
_EXAMPLE = re.compile(r"(### (.+)\n(?:.*\n)*?\n    )(?:.+\n(?:    .+\n)*)")
_WIDTH = 100


def preview(message: dict[str, Any]) -> str:
    """What a reader in UTC sees, roughly: a line for each block, links as their words."""
    return "\n".join(fill(line, _WIDTH) for block in message["blocks"] for line in _lines(block))


def _lines(block: dict[str, Any]) -> list[str]:
    match block:
        case {"type": "section", "fields": fields}:
            return [" · ".join(_shown(field["text"]).replace("\n", ": ") for field in fields)]
        case {"type": "context", "elements": elements}:
            return [" ".join(_shown(element["text"]) for element in elements)]
        case {"text": {"text": text}}:
            return _shown(text).splitlines()
        case _:
            raise AssertionError(f"no preview of {block}")


def _shown(text: str) -> str:
    text = re.sub(r"<!date\^[^|]*\|([^>]*)>", r"\1", text)
    text = re.sub(r"<[^|>]*\|([^>]*)>", r"[\1]", text)
    return unescape(re.sub(r"\*([^*\n]+)\*", r"\1", text))


def examples() -> dict[str, str]:
    from nodefleet.adapters.slack.message import build_message, payload  # noqa: PLC0415
    from nodefleet.notifications.incoming import DeliveryLimits  # noqa: PLC0415
    from support.message_examples import LINKS, OF_A_KIND, SPECIAL, single  # noqa: PLC0415

    notifications = {kind.value: single(each) for kind, each in OF_A_KIND.items()} | dict(SPECIAL)
    return {
        name: preview(payload(build_message(notification, LINKS, DeliveryLimits())))
        for name, notification in notifications.items()
    }


def indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


def on_the_page(page: str) -> dict[str, str]:
    """The first indented example under each heading."""
    return {
        match[2]: "\n".join(line[4:] for line in match[0][len(match[1]) - 4 :].splitlines())
        for match in _EXAMPLE.finditer(page)
    }


def rewritten(page: str, shown: dict[str, str]) -> str:
    return _EXAMPLE.sub(lambda match: match[1][:-4] + indented(shown.get(match[2], "?")), page)


def play() -> str:
    """What the situations produce now, as tests/messages.json holds it."""
    from nodefleet.model.serialization import to_plain  # noqa: PLC0415
    from support.message_situations import alarms_sent, all_produced  # noqa: PLC0415

    plain = {name: [to_plain(event) for event in events] for name, events in sorted(all_produced().items())}
    plain["alarms"] = alarms_sent()
    return json.dumps(plain, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    (Path(__file__).parent / "messages.json").write_text(play())
    PAGE.write_text(rewritten(PAGE.read_text(), examples()))

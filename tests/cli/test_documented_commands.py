"""Commands, options and policy settings that the README and the pages of docs/ name do exist."""

import json
import re
import shlex
from pathlib import Path

import pytest

from nodefleet_tools.cli import main
from nodefleet_tools.cli.lazy import load

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md",
    "infra/examples/kubernetes.yaml",
    *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")),
)
OTHERS = frozenset({"messages", "requests"})  # of the stack's configuration and of Kubernetes, too


def lines(text: str) -> list[str]:
    """What follows `nodefleet` in code: blocks, indented lines and inline."""
    blocks = re.findall(r"^(?:    |```|\$ ).*$", text, re.MULTILINE) + re.findall(r"`([^`\n]+)`", text)
    found = [re.search(r"(?:^|[ /|])nodefleet ([a-z].*)", re.sub(r"\s+#.*$", "", block)) for block in blocks]
    return [each[1].strip() for each in found if each]


def command_of(words: list[str], commands=main.COMMANDS):
    found = {each.name: each for each in commands}.get(words[0])
    assert found is not None, f"there is no command {words[0]}"
    if isinstance(found.target, tuple) and len(words) > 1 and not words[1].startswith("-"):
        return command_of(words[1:], found.target)
    return found


@pytest.mark.parametrize("page", PAGES)
def test_commands_and_options_exist(page):
    for line in lines((ROOT / page).read_text()):
        words = shlex.split(line.replace("…", ""))
        command = command_of(words)
        if isinstance(command.target, tuple):
            continue
        known = {name for param in load(command).params for name in (*param.opts, *param.secondary_opts)}
        used = {word.partition("=")[0] for word in words if word.startswith("-") and word != "-"}
        assert used <= known | {"--help"}, line


@pytest.mark.parametrize("page", [page for page in PAGES if page.endswith(".md")])
def test_policy_settings_exist(page):
    parts = {path[0] for path in SETTINGS} - OTHERS
    for name in re.findall(r"`([a-z_]+(?:\.[a-z_*]+)+)`", (ROOT / page).read_text()):
        words = name.split(".")
        if words[0] in parts and words[-1] not in ("yaml", "md"):
            fits = (
                len(path) == len(words)
                and all("*" in pair or pair[0] == pair[1] for pair in zip(path, words, strict=True))
                for path in SETTINGS
            )
            assert any(fits), f"{page} names {name}"


def settings(part: dict, schema: dict, within: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """The paths of all settings; `*` stands for a name that the policy's author chooses."""
    part = schema["$defs"][part["$ref"].rpartition("/")[2]] if "$ref" in part else part
    found = set()
    for each in (*part.get("anyOf", ()), *part.get("oneOf", ()), *part.get("allOf", ()), part.get("items")):
        found |= settings(each, schema, within) if isinstance(each, dict) else set()
    for name, inner in part.get("properties", {}).items():
        found |= {(*within, name)} | settings(inner, schema, (*within, name))
    if isinstance(others := part.get("additionalProperties"), dict):
        found |= settings(others, schema, (*within, "*"))
    return found


SCHEMA = json.loads((ROOT / "docs/policy.schema.json").read_text())
SETTINGS = settings(SCHEMA, SCHEMA)


def test_lines_are_found():
    text = "Run `nodefleet doctor`.\n\n    $ nodefleet init --cluster shop   # says it\n"
    assert sorted(lines(text)) == ["doctor", "init --cluster shop"]
    with pytest.raises(AssertionError, match="frob"):
        command_of(["frob"])

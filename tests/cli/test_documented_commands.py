"""Commands and options that the README and the pages of the command line name do exist."""

import re
import shlex
from pathlib import Path

import pytest

from nodefleet_tools.cli import main
from nodefleet_tools.cli.lazy import load

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/adopt.md", "docs/cli.md", "infra/examples/kubernetes.yaml")


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


def test_lines_are_found():
    text = "Run `nodefleet doctor`.\n\n    $ nodefleet init --cluster shop   # says it\n"
    assert sorted(lines(text)) == ["doctor", "init --cluster shop"]
    with pytest.raises(AssertionError, match="frob"):
        command_of(["frob"])

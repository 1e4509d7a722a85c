"""What ships and what we develop with are the same versions, pinned, and nothing ships that nobody asked for."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ASKED_FOR = "-r layers/requirements.in"


@dataclass(frozen=True)
class Pin:
    version: str | None  # none: not pinned
    hashes: int
    via: tuple[str, ...]


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(text: str) -> dict[str, Pin]:
    """The packages of a compiled requirements file, with who asked for each."""
    found = {}
    for block in re.split(r"\n(?=[A-Za-z0-9])", "\n" + text):
        match = re.match(r"([A-Za-z0-9._-]+)(\[[^\]]*\])?(==([^\s;\\]+))?", block)
        if match:
            comments = re.findall(r"^ +# +(?:via +)?(\S.*)$", block, re.MULTILINE)
            asked = tuple(who for who in comments if who != "via" and not who.startswith("-c "))
            found[canonical(match[1])] = Pin(version=match[4], hashes=block.count("--hash="), via=asked)
    return found


def names(text: str) -> set[str]:
    return {canonical(line.strip()) for line in text.splitlines() if line.strip() and line.strip()[0] not in "#-"}


def problems(shipped: dict[str, Pin], developed: dict[str, Pin], asked: set[str]) -> list[str]:
    found = [f"{name} is not pinned by ==" for name, pin in shipped.items() if pin.version is None]
    found += [f"{name} has no hash" for name, pin in shipped.items() if not pin.hashes]
    found += [f"{name} is asked for and does not ship" for name in sorted(asked - set(shipped))]
    for name, pin in shipped.items():
        if name not in developed:
            found.append(f"{name} ships and is not in requirements.txt")
        elif pin.version and developed[name].version != pin.version:
            found.append(f"{name} is {pin.version} in layers and {developed[name].version} in requirements.txt")
    return found + [f"{name} ships and nothing asks for it" for name in sorted(set(shipped) - _reached(shipped, asked))]


def _reached(shipped: dict[str, Pin], asked: set[str]) -> set[str]:
    reached = {name for name in asked if name in shipped and ASKED_FOR in shipped[name].via}
    while True:
        more = {name for name, pin in shipped.items() if reached & {canonical(who) for who in pin.via}}
        if more <= reached:
            return reached
        reached |= more


def read(name: str) -> str:
    return (ROOT / name).read_text()


def test_what_ships_is_what_we_develop_with():
    shipped = pins(read("layers/requirements.txt"))
    assert problems(shipped, pins(read("requirements.txt")), names(read("layers/requirements.in"))) == []


def test_both_files_are_understood():
    shipped, developed = pins(read("layers/requirements.txt")), pins(read("requirements.txt"))
    assert len(shipped) == len(re.findall(r"^\S+==", read("layers/requirements.txt"), re.MULTILINE)) > 10
    assert len(developed) > len(shipped)
    assert shipped["requests"].via[0] == ASKED_FOR
    assert shipped["requests"].hashes == 2


@pytest.mark.parametrize("file", ["requirements-demo.txt", "requirements-run.txt"])
def test_a_part_is_the_same_versions_as_the_whole(file):
    part, whole = pins(read(file)), pins(read("requirements.txt"))
    assert {name: pin.version for name, pin in part.items()} == {name: whole[name].version for name in part}
    assert all(pin.hashes for pin in part.values())


def test_each_part_holds_what_the_package_asks_for():
    project = tomllib.loads(read("pyproject.toml"))["project"]
    base = {canonical(re.split(r"[<>=]", each)[0]) for each in project["dependencies"]}
    aws = {canonical(re.split(r"[<>=]", each)[0]) for each in project["optional-dependencies"]["aws"]}
    demo, run = set(pins(read("requirements-demo.txt"))), set(pins(read("requirements-run.txt")))
    assert base <= demo < run
    assert aws <= run
    assert not aws & demo


A = "a==1 \\\n    --hash=sha256:0\n    # via\n    #   -c requirements.txt\n    #   -r layers/requirements.in\n"
B = "b==2 \\\n    --hash=sha256:0\n    # via a\n"


@pytest.mark.parametrize(
    ("shipped", "developed", "problem"),
    [
        (A + B, A + B, None),
        (A + B, A + B.replace("2", "3"), "b is 2 in layers and 3 in requirements.txt"),
        (A + B, A, "b ships and is not in requirements.txt"),
        (A + B.replace("==", ">="), A + B, "b is not pinned by =="),
        (A + "b==2\n    # via a\n", A + B, "b has no hash"),
        (A + B.replace("via a", "via c"), A + B, "b ships and nothing asks for it"),
        (A + B.replace("via a", "via b"), A + B, "b ships and nothing asks for it"),
        (A + B.replace("    # via a\n", ""), A + B, "b ships and nothing asks for it"),
        ("", A, "a is asked for and does not ship"),
    ],
)
def test_each_way_to_disagree_is_noticed(shipped, developed, problem):
    assert problems(pins(shipped), pins(developed), {"a"}) == ([problem] if problem else [])

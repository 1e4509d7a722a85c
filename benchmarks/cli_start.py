"""How much CPU time the command line takes to start, with its budget: `make bench-cli`.

CPU time, because wall time depends on what else runs. The first start of all compiles modules and is not counted.
"""

import os
import subprocess
import sys
from collections.abc import Iterator

from nodefleet_tools.cli.main import COMMANDS, Command

BUDGET = 0.4  # seconds of CPU until a command knows its options
STARTS = 3
# For comparison: what a whole answer takes.
LOADED = (
    ("policy", "check", "docs/examples/web-shop.yaml"),
    ("decide", "docs/examples/observations/spike.yaml"),
    ("simulate", "--list"),
)


def helps(commands: tuple[Command, ...], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """`--help` of every command, those of groups included."""
    for each in commands:
        yield (*above, each.name, "--help")
        if isinstance(each.target, tuple):
            yield from helps(each.target, (*above, each.name))


START = (("--version",), ("--help",), *helps(COMMANDS))


def cpu_seconds(arguments: tuple[str, ...]) -> float:
    """User and system time of one start, in a process of its own."""
    code = "from nodefleet_tools.cli.main import main; main()"
    before = os.times()
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True)  # noqa: S603
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def best(arguments: tuple[str, ...], starts: int = STARTS) -> float:
    """The quickest of some starts: the others were disturbed."""
    return min(cpu_seconds(arguments) for _ in range(starts))


def main() -> int:
    cpu_seconds(("--version",))
    slow = False
    for arguments in (*START, *LOADED):
        taken = best(arguments)
        over = arguments in START and taken > BUDGET
        slow |= over
        print(f"{taken:6.2f} s  nodefleet {' '.join(arguments)}{f'  over its budget of {BUDGET} s' if over else ''}")
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())

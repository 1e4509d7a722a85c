"""Which seed finds which planted bug first: `python -m nodefleet_tools.sim.chaos.hunting [most [bug …]]`.

For the table in the tests and in docs/faults.md, which has to be made again when more is drawn.
"""

import sys

from nodefleet_tools.sim.chaos.plan import Plan
from nodefleet_tools.sim.chaos.planted import PLANTED
from nodefleet_tools.sim.chaos.play import play
from nodefleet_tools.sim.rules import Violation

_MOST = 150  # seeds


def first_to_find(bug: str, most: int = _MOST, first: int = 0) -> tuple[int, Violation] | None:
    with PLANTED[bug]():
        for seed in range(first, first + most):
            found = play(Plan.of(seed)).first
            if found is not None:
                return seed, found
    return None


def main(arguments: list[str]) -> None:
    most = int(arguments[0]) if arguments else _MOST
    for bug in arguments[1:] or PLANTED:
        found = first_to_find(bug, most)
        told = f"seed {found[0]}: {found[1].rule.value}" if found else f"not by {most} seeds"
        sys.stdout.write(f"{bug}: {told}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])

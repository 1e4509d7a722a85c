"""Build and download parts without starting them, and say what each took: `python -m e2e.parts.get [name …]`.

Where tools are missing nothing is built, and where a registry cannot be reached no more is: the status is 77, which
means "skipped" to those who call it.
"""

import argparse
import sys

from . import browser
from .needed import MissingToolError, say
from .recipes import RECIPES, missing_tools
from .store import BuildFailedError, UnreachableError, record

SKIPPED = 77
_SKIPPED = "e2e SKIPPED, nothing is proved on real parts."


def main() -> int:
    names = [each.name for each in RECIPES]
    parser = argparse.ArgumentParser(prog="e2e.parts.get", description="Build and download parts into the cache.")
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(names))
    wanted = parser.parse_args().parts or names
    if unknown := sorted(set(wanted) - set(names)):
        parser.error(f"no such part: {', '.join(unknown)}. There are: {', '.join(names)}")
    if missing := missing_tools():
        say(f"{_SKIPPED} {'; '.join(missing)}")
        return SKIPPED
    try:
        for recipe in RECIPES:
            if recipe.name in wanted:
                sys.stdout.write(f"{record(recipe)}\n")
    except UnreachableError as problem:
        say(f"{_SKIPPED} A registry cannot be reached: {problem}")
        return SKIPPED
    except (MissingToolError, BuildFailedError) as problem:
        say(str(problem))
        return 1
    if not browser.install():
        say(f"tests of the dashboard in a browser will be SKIPPED. MISSING: {browser.HOW}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Do the tests notice? Mutates `decide`, `operations`, `loop` and `adapters` and says which changes no test saw.

    make mutants                                        everything (several hours)
    make mutants ONLY="decide/bounds loop"              some modules or packages
    make mutants ONLY="loop adapters" SAMPLE=200        that many of them, drawn at random
    make mutants ONLY=loop SAMPLE=200 SEED=7            another draw

mutmut wants sources under src/, so a copy is staged in build/. Property tests run with few examples there. A package is
tested by its own tests. Survivors that are known, each with its reason, are listed in tests/mutants_known.txt; others
are named. Fewer than 95 % fail.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

ROOT = Path(__file__).resolve().parent.parent
STAGE = ROOT / "build" / "mutants"
LOG = STAGE.with_suffix(".log")
KNOWN = ROOT / "tests" / "mutants_known.txt"
# The packages, and the tests that have to notice.
PACKAGES = {
    "decide": ("tests/decide", "tests/operations"),
    "operations": ("tests/decide", "tests/operations"),
    "loop": ("tests/loop",),
    "adapters": ("tests/adapters",),
}
WANTED_PERCENT = 95
NONE = "no-such-mutant"
CONFIG = """
[tool.pytest.ini_options]
pythonpath = ["src", "tools", "tests"]
addopts = "-q --import-mode=importlib -p no:cacheprovider"

[tool.mutmut]
source_paths = [{sources}]
pytest_add_cli_args_test_selection = [{tests}]
also_copy = ["src", "tools", "tests", "docs"]
"""
_RESULT = re.compile(r"^\s*(?P<mutant>\S+): (?P<status>.+)$")


def stage(only: list[str]) -> None:
    shutil.rmtree(STAGE, ignore_errors=True)
    leave = shutil.ignore_patterns("__pycache__")
    parts = (("lambda/nodefleet", "src/nodefleet"), ("tools", "tools"), ("tests", "tests"), ("docs", "docs"))
    for source, target in parts:
        shutil.copytree(ROOT / source, STAGE / target, ignore=leave)
    sources = [f"src/nodefleet/{name}" for name in only or PACKAGES]
    sources = [path if (STAGE / path).is_dir() else f"{path}.py" for path in sources]
    packages = {name.split("/")[0] for name in only or PACKAGES}
    tests = list(dict.fromkeys(path for package in sorted(packages) for path in PACKAGES[package]))
    quoted = {
        name: ", ".join(f'"{each}"' for each in found) for name, found in (("sources", sources), ("tests", tests))
    }
    (STAGE / "pyproject.toml").write_text(CONFIG.format(**quoted))


def drawn(number: int, seed: int, children: int) -> list[str]:
    """So many of all mutants. They are made, and the tests are timed, by a run that tries none of them."""
    run(children, [NONE], check=False)
    made = sorted(
        mutant
        for meta in (STAGE / "mutants").rglob("*.meta")
        for mutant in json.loads(meta.read_text())["exit_code_by_key"]
    )
    if not made:
        sys.exit(f"mutmut made no mutants: see {LOG.relative_to(ROOT)}")
    print(f"{min(number, len(made))} of {len(made)} mutants, drawn with seed {seed}", flush=True)  # noqa: T201
    return sorted(Random(seed).sample(made, min(number, len(made))))  # noqa: S311  # which mutants, no secret


def run(children: int, mutants: Sequence[str] = (), *, check: bool = True) -> None:
    command = [str(Path(sys.executable).with_name("mutmut")), "run", "--max-children", str(children), *mutants]
    environment = {**os.environ, "HYPOTHESIS_PROFILE": "mutants"}
    if sys.stdout.isatty():
        subprocess.run(command, cwd=STAGE, env=environment, check=check)  # noqa: S603  # our own tool
        return
    print(f"running mutmut; its progress is in {LOG.relative_to(ROOT)}", flush=True)  # noqa: T201
    with LOG.open("w") as log:
        subprocess.run(command, cwd=STAGE, env=environment, check=check, stdout=log, stderr=log)  # noqa: S603


def results() -> dict[str, str]:
    command = [str(Path(sys.executable).with_name("mutmut")), "results", "--all", "true"]
    text = subprocess.run(command, cwd=STAGE, check=True, capture_output=True, text=True).stdout  # noqa: S603
    return {match["mutant"]: match["status"] for match in map(_RESULT.match, text.splitlines()) if match}


def known() -> set[str]:
    lines = KNOWN.read_text().splitlines() if KNOWN.exists() else []
    return {line.split(maxsplit=1)[0] for line in lines if line and not line.startswith("#")}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0] if __doc__ else None)
    parser.add_argument("only", nargs="*", help="modules below nodefleet, for example decide/bounds")
    parser.add_argument("--children", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--sample", type=int, default=0, help="so many mutants, drawn at random; 0: all")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    options = parser.parse_args()
    stage(options.only)
    chosen = drawn(options.sample, options.seed, options.children) if options.sample else []
    run(options.children, chosen)
    found = {mutant: status for mutant, status in results().items() if not chosen or mutant in set(chosen)}
    counts = Counter(found.values())
    survived = sorted(mutant for mutant, status in found.items() if status in ("survived", "no tests"))
    tested = sum(counts.values())
    killed = tested - len(survived)
    percent = 100 * killed / tested if tested else 0.0
    print(f"{killed} of {tested} mutants noticed: {percent:.1f} % ({dict(counts)})")  # noqa: T201
    new = [mutant for mutant in survived if mutant not in known()]
    for mutant in new:
        print(f"  not noticed: {mutant}   (see `mutmut show {mutant}` in {STAGE.relative_to(ROOT)})")  # noqa: T201
    return 0 if percent >= WANTED_PERCENT else 1


if __name__ == "__main__":
    sys.exit(main())

"""Do the tests notice? Mutates `engine`, `scheduling`, `eviction`, `operations`, `reconcile` and `adapters` and says
which changes no test saw.

    make mutants                                        everything (hours)
    make mutants ONLY="engine/target reconcile"              some modules or packages
    make mutants ONLY="reconcile adapters" SAMPLE=200        that many of each package, drawn at random
    make mutants ONLY=reconcile SAMPLE=200 SEED=7            another draw
    make mutants ONLY=nodefleet.reconcile.unit_of_work.x_f__mutmut_3 this one, with what it changes

The mutants are mutmut's, made in a copy in build/; `mutant_runner.py` tries them, one at a time and at low priority,
with the tests that reach the changed statement. Property tests run with few examples there. A package is tested by its
own tests, except those that play simulated days: a statement that only they reach wants a quick test. A draw takes one
mutant of each of so many equal slices of the package, so that every module has its share. Survivors that are known,
each with its reason, are listed in tests/mutants_known.txt; others are shown. Fewer than 95 % in any package fail.
"""

import argparse
import ast
import difflib
import hashlib
import itertools
import json
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

# Read by tests/conftest.py, which pytest imports in this process.
os.environ["HYPOTHESIS_PROFILE"] = "mutants"

from mutmut.mutation.file_mutation import mutate_file_contents

from support.mutant_runner import MISSED, Mutant, Trials, Verdict, try_mutants

ROOT = Path(__file__).resolve().parents[2]
STAGE = ROOT / os.environ.get("MUTANTS_STAGE", "build/mutants")  # another one, for two draws at the same time
KNOWN = ROOT / "tests" / "mutants_known.txt"
# The packages, and the tests that have to notice.
PACKAGES = {
    "engine": ("tests/engine", "tests/operations"),
    "scheduling": ("tests/scheduling", "tests/engine"),
    "eviction": ("tests/eviction", "tests/engine", "tests/operations"),
    "operations": ("tests/engine", "tests/operations"),
    "reconcile": ("tests/reconcile",),
    "adapters": ("tests/adapters",),
}
# They play simulated days, for minutes, and are left out.
SLOW = tuple(
    f"tests/reconcile/test_{name}.py"
    for name in ("crashes", "cycle", "emergency_drain", "healing", "market_share", "policy_hold", "run")
)
WANTED_PERCENT = 95
NICENESS = 10
MARK = "__mutmut_"
CONFIG = """
[tool.pytest.ini_options]
pythonpath = ["src", "tools", "tests"]
addopts = "--import-mode=importlib"
filterwarnings = ["error"]

[tool.mutmut]
source_paths = ["src"]
"""


@dataclass(frozen=True)
class Made:
    mutant: Mutant
    difference: str


def stage() -> None:
    shutil.rmtree(STAGE, ignore_errors=True)
    leave = shutil.ignore_patterns("__pycache__")
    parts = (("lambda/nodefleet", "src/nodefleet"), ("tools", "tools"), ("tests", "tests"), ("docs", "docs"))
    for source, target in parts:
        shutil.copytree(ROOT / source, STAGE / target, ignore=leave)
    (STAGE / "pyproject.toml").write_text(CONFIG)


def mutate(name: str) -> dict[str, Made]:
    """Write the mutants of a module or package, given as `reconcile` or `engine/target`, into the copy."""
    below = STAGE / "src" / "nodefleet" / name
    made = {}
    for path in sorted(below.rglob("*.py")) if below.is_dir() else [below.with_suffix(".py")]:
        code, names = _mutated(path)
        path.write_text(code)
        made |= {each.mutant.name: each for each in _of_file(path, code, names)}
    return made


def _mutated(path: Path) -> tuple[str, list[str]]:
    """The file with all its mutants, and their names. Kept: making them takes longer than trying some of them."""
    source = path.read_text()
    kept = STAGE.with_name("mutants-made") / f"{hashlib.sha256(source.encode()).hexdigest()}.json"
    if not kept.exists():
        file = mutate_file_contents(str(path.relative_to(STAGE)), source)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps([file.code, list(file.mutant_names)]))
    code, names = json.loads(kept.read_text())
    return code, names


def _of_file(path: Path, code: str, names: Iterable[str]) -> Iterable[Made]:
    parts = [part for part in path.relative_to(STAGE / "src").with_suffix("").parts if part != "__init__"]
    functions = {
        node.name: node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.FunctionDef) and MARK in node.name
    }
    lines = code.splitlines()
    for name in names:
        original = functions[name.partition(MARK)[0] + MARK + "orig"]
        before = lines[original.lineno - 1 : original.end_lineno]
        after = lines[functions[name].lineno - 1 : functions[name].end_lineno]
        after = [line.replace(name, original.name) for line in after]
        yield Made(
            Mutant(
                name=".".join([*parts, name]),
                path=str(path),
                lines=frozenset(_statement_lines(original, *_changed(before, after))),
                tests=PACKAGES[parts[1]],
            ),
            "\n".join(
                line
                for line in difflib.unified_diff(before, after, n=1, lineterm="")
                if line[:2] not in ("--", "++", "@@")
            ),
        )


def _changed(before: Sequence[str], after: Sequence[str]) -> tuple[int, int]:
    """The first and the last line that differ, counted from the start of the function."""
    same = len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False))))
    rest = zip(reversed(before[same:]), reversed(after[same:]), strict=False)
    alike = len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], rest)))
    return same, max(same, len(before) - alike - 1)


def _statement_lines(function: ast.FunctionDef, first: int, last: int) -> set[int]:
    """The lines of the statements that changed; of a compound one its head. Any of them may be traced."""
    changed = set(range(function.lineno + first, function.lineno + last + 1))
    found: set[int] = set()
    for node in ast.walk(function):
        if not isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case) or node is function:
            continue
        begin = node.pattern.lineno if isinstance(node, ast.match_case) else node.lineno
        inner = getattr(node, "body", None) or getattr(node, "cases", None)
        if inner:
            head = inner[0].pattern if isinstance(inner[0], ast.match_case) else inner[0]
            end = max(begin, head.lineno - 1)
        else:
            end = node.end_lineno or begin
        own = set(range(begin, end + 1))
        if own & changed:
            found |= own
    # A change of the head of the function is seen wherever the function is called.
    return found or set(range(function.lineno, (function.end_lineno or function.lineno) + 1))


def choose(names: Sequence[str], number: int, seed: int) -> list[str]:
    """All of them, or so many of each package."""
    chosen: list[str] = []
    random = Random(seed)  # noqa: S311  # which mutants, no secret
    for package, group in itertools.groupby(names, key=package_of):
        of_package = list(group)
        if not 0 < number < len(of_package):
            chosen += of_package
            continue
        print(f"{package}: {number} of {len(of_package)} mutants, drawn with seed {seed}", flush=True)  # noqa: T201
        share = len(of_package) / number
        chosen += [of_package[int((index + random.random()) * share)] for index in range(number)]
    return chosen


def measured_file(mutated: Sequence[str]) -> Path:
    """Named after the files that are mutated: of other files it does not say who reaches them."""
    return STAGE.with_name(f"mutants-measured-{hashlib.sha256(repr(mutated).encode()).hexdigest()[:16]}.json")


def surroundings() -> str:
    """A digest of everything that is staged except the tests themselves, of which only changed files are run again."""
    return digest_of(path for path in sorted(STAGE.rglob("*.py")) if not path.name.startswith("test_"))


def digest_of(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def package_of(name: str) -> str:
    return name.split(".")[1]


def known() -> dict[str, str]:
    lines = KNOWN.read_text().splitlines() if KNOWN.exists() else []
    return {line.split(maxsplit=1)[0]: line.split(maxsplit=1)[1] for line in lines if line and not line.startswith("#")}


def report(verdicts: Mapping[str, Verdict], made: Mapping[str, Made], *, verbose: bool) -> int:
    reasons = known()
    worst = 100.0
    for name, verdict in sorted(verdicts.items()):
        missed = verdict.status in MISSED
        if missed and name not in reasons:
            print(f"  {verdict.status}: {name}\n{made[name].difference}")  # noqa: T201
        elif verbose:
            print(f"  {verdict.status} by {verdict.by or reasons[name]}: {name}\n{made[name].difference}")  # noqa: T201
        if not missed and name in reasons:
            print(f"  listed as known, but noticed by {verdict.by}: {name}")  # noqa: T201
    for package, group in itertools.groupby(sorted(verdicts), key=package_of):
        counts = Counter(verdicts[name].status for name in group)
        tried = counts.total()
        noticed = tried - sum(counts[status] for status in MISSED)
        worst = min(worst, 100 * noticed / tried)
        print(f"{package}: {noticed} of {tried} mutants noticed, {100 * noticed / tried:.1f} % ({dict(counts)})")  # noqa: T201
    return 0 if worst >= WANTED_PERCENT else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0] if __doc__ else None)
    parser.add_argument("only", nargs="*", help="modules below nodefleet, for example decide/bounds, or mutants")
    parser.add_argument("--children", type=int, default=1, help="mutants tried at the same time")
    parser.add_argument(
        "--sample", type=int, default=0, help="so many mutants of each package, drawn at random; 0: all"
    )
    parser.add_argument("--seconds", type=float, default=120, help="of CPU for a mutant; then it counts as not noticed")
    parser.add_argument("--tests", nargs="*", default=[], help="only these, while a test is being written")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    options = parser.parse_args()
    os.nice(max(0, NICENESS - os.nice(0)))
    stage()
    os.chdir(STAGE)
    sys.path.insert(0, str(STAGE / "src"))
    wanted = [name for name in options.only if MARK in name]
    modules = {name.split(".x", maxsplit=1)[0].removeprefix("nodefleet.").replace(".", "/") for name in wanted}
    modules |= {name for name in options.only if MARK not in name}
    made: dict[str, Made] = {}
    for name in sorted(modules or PACKAGES):
        made |= mutate(name)
    chosen = [made[name].mutant for name in choose(wanted or sorted(made), options.sample, options.seed)]
    mutated = sorted({each.mutant.path for each in made.values()})
    with tempfile.TemporaryDirectory() as scratch:
        trials = Trials(
            mutants=chosen,
            children=options.children,
            scratch=Path(scratch),
            kept=measured_file(mutated),
            surroundings=surroundings(),
            mutated={path: digest_of([Path(path)]) for path in mutated},
            cpu_seconds=options.seconds,
        )
        folders = sorted({folder for mutant in chosen for folder in mutant.tests})
        try_mutants(trials, options.tests or [*folders, *(f"--ignore={path}" for path in SLOW)])
    for test in sorted(test for test, each in trials.measured.items() if not each.passed):
        print(f"  fails on the real code in the copy, so that it notices nothing: {test}")  # noqa: T201
    return report(trials.verdicts, made, verbose=bool(wanted))


if __name__ == "__main__":
    sys.exit(main())

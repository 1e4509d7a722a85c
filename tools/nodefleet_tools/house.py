"""`make house`: how easy the code is to find one's way in, measured.

Files and seams (modules with one importer, the longest import chain), names (one meaning for each class, verbs for
functions), tests that assert English sentences, and what one simulated scale-up crosses between `run` and the cloud's
`launch`. Figures for people who tidy up: nothing here is a rule that fails a build.
"""

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from nodefleet.reconcile.run import run
from nodefleet_tools.sim.world import World

ROOT = Path(__file__).resolve().parents[2]
LAMBDA = ROOT / "lambda"
TESTS = ROOT / "tests"
PACKAGE = "nodefleet"
LONGEST_FILE = 400  # lines, as CONTRIBUTING says

# Past participles that do not end in -ed. A function is named by one alone when nothing else is in its name.
_IRREGULAR = (
    "begun bound bought broken brought built chosen done drawn driven fallen fed felt found forgotten frozen given"
    " gone got grown heard held hidden hit kept known laid lain led left lent lost made meant met paid risen said seen"
    " sent shown shrunk shut slept sold spent stood stuck swept taken taught thought thrown told torn understood undone"
    " unheard unmet unseen withdrawn won worn written"
)
_PARTICIPLES = frozenset(_IRREGULAR.split())
_VERBS = frozenset({"feed", "need", "seed", "shed", "speed", "embed", "exceed", "proceed"})
_COMPARING = frozenset({"startswith", "endswith", "match", "search", "fullmatch"})
_SENTENCE = re.compile(r"[A-Za-z][a-z]+[,:;]? [a-z]+")  # two words of a sentence, not an id, a path or a header


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    name: str
    path: Path
    lines: int
    tree: ast.Module


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    about: str
    now: str
    wanted: str
    which: tuple[str, ...] = ()


def main(show: bool = False) -> None:  # noqa: FBT001, FBT002  # a flag of the command line
    for figure in measure():
        print(f"{figure.about:<72} {figure.now:>16}   {figure.wanted}")  # noqa: T201  # that is what it is for
        for line in figure.which if show else ():
            print(f"    {line}")  # noqa: T201


def measure() -> Iterator[Figure]:
    modules = {module.name: module for module in read_modules(LAMBDA, PACKAGE)}
    imports = import_graph(modules)
    files = len(modules)
    yield Figure(
        about="files / lines in lambda/nodefleet",
        now=f"{files} / {sum(module.lines for module in modules.values()):,}",
        wanted="≤ 150 / ≤ 20,000",
    )
    single = single_importers(modules, imports)
    yield Figure(
        about="modules with one importer", now=f"{len(single)} of {_plain(modules)}", wanted="≤ 25", which=single
    )
    room = single_importers(modules, imports, most=LONGEST_FILE)
    yield Figure(
        about=f"  of them those that their importer has room for, {LONGEST_FILE} lines together",
        now=str(len(room)),
        wanted="0",
        which=room,
    )
    chain = longest_chain(imports)
    yield Figure(about="longest import chain (modules)", now=str(len(chain)), wanted="≤ 12", which=tuple(chain))
    twice = repeated_classes(modules.values())
    yield Figure(about="class names used twice or more", now=str(len(twice)), wanted="0", which=twice)
    participles = participle_functions(modules.values())
    yield Figure(about="functions named by a bare participle", now=str(len(participles)), wanted="0", which=participles)
    yield from measure_scale_up(modules)
    english = english_asserts(TESTS)
    yield Figure(about="asserts on English text", now=str(len(english)), wanted="≤ 120", which=english)
    helpers = tuple(sorted(path.name for path in TESTS.glob("*.py") if not path.name.startswith(("test_", "conftest"))))
    yield Figure(about="helper modules at the root of tests/", now=str(len(helpers)), wanted="0", which=helpers)


# ── files and seams ──────────────────────────────────────────────────────────────────────────────────────────────────


def read_modules(source: Path, package: str) -> Iterator[Module]:
    for path in sorted((source / package).rglob("*.py")):
        text = path.read_text("utf-8")
        name = ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
        yield Module(name=name, path=path, lines=len(text.splitlines()), tree=ast.parse(text))


def import_graph(modules: Mapping[str, Module]) -> dict[str, set[str]]:
    """Which modules each module imports, inside functions and for types too. A package stands for its `__init__`."""
    graph: dict[str, set[str]] = {name: set() for name in modules}
    for module in modules.values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Import):
                found = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                inside = [f"{node.module}.{alias.name}" for alias in node.names]
                found = [name if name in modules else node.module for name in inside]
            else:
                continue
            graph[module.name].update(name for name in found if name in modules and name != module.name)
    return graph


def _plain(modules: Mapping[str, Module]) -> int:
    return sum(1 for module in modules.values() if module.path.name != "__init__.py")


def single_importers(
    modules: Mapping[str, Module], imports: Mapping[str, set[str]], most: int | None = None
) -> tuple[str, ...]:
    """Modules, packages aside, that exactly one other module imports; `most`: with that one so many lines at most."""
    importers: dict[str, list[str]] = defaultdict(list)
    for name, imported in imports.items():
        for each in imported:
            importers[each].append(name)
    return tuple(
        f"{name} ({module.lines} lines) ← {importers[name][0]}"
        for name, module in sorted(modules.items())
        if module.path.name != "__init__.py"
        and len(importers[name]) == 1
        and (most is None or module.lines + modules[importers[name][0]].lines <= most)
    )


def longest_chain(imports: Mapping[str, set[str]]) -> list[str]:
    """From the top down. A cycle is walked once."""
    known: dict[str, list[str]] = {}

    def below(name: str, above: frozenset[str]) -> list[str]:
        if name not in known:
            above |= {name}
            chains = [below(each, above) for each in sorted(imports[name]) if each not in above]
            known[name] = [name, *max(chains, key=len, default=[])]
        return known[name]

    return max((below(name, frozenset()) for name in sorted(imports)), key=len)


# ── names ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def repeated_classes(modules: Iterable[Module]) -> tuple[str, ...]:
    found: dict[str, list[str]] = defaultdict(list)
    for module in modules:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef):
                found[node.name].append(module.name)
    return tuple(f"{name}: {', '.join(where)}" for name, where in sorted(found.items()) if len(where) > 1)


def participle_functions(modules: Iterable[Module]) -> tuple[str, ...]:
    """Functions and methods, private ones too. Properties are values, and `is_read` says what it is."""
    return tuple(
        f"{module.name}.{node.name}:{node.lineno}"
        for module in modules
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef) and is_participle(node.name) and not _is_property(node)
    )


def is_participle(name: str) -> bool:
    word = name.strip("_")
    return "_" not in word and word not in _VERBS and (word in _PARTICIPLES or word.endswith("ed"))


def _is_property(node: ast.FunctionDef) -> bool:
    names = {ast.unparse(each).rpartition(".")[2] for each in node.decorator_list}
    return bool(names & {"property", "cached_property"})


# ── tests ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def english_asserts(tests: Path) -> tuple[str, ...]:
    """Asserts (and `match=` of pytest.raises) that compare with words of a sentence, by file and line."""
    return tuple(
        f"{path.relative_to(tests)}:{node.lineno}: {ast.unparse(node)}"
        for path in sorted(tests.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if (isinstance(node, ast.Assert) and any(map(_is_sentence, _compared(node.test))))
        or (isinstance(node, ast.keyword) and node.arg == "match" and _is_sentence(node.value))
    )


def _compared(test: ast.expr) -> Iterator[ast.expr]:
    """What an assert compares with: both sides, the members of a list or tuple, what `startswith` is given."""
    for node in ast.walk(test):
        if isinstance(node, ast.Compare):
            for side in (node.left, *node.comparators):
                yield from side.elts if isinstance(side, ast.List | ast.Tuple | ast.Set) else [side]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _COMPARING:
            yield from node.args


def _is_sentence(value: ast.expr) -> bool:
    if isinstance(value, ast.JoinedStr):
        return any(_is_sentence(part) for part in value.values)
    return isinstance(value, ast.Constant) and isinstance(value.value, str) and bool(_SENTENCE.search(value.value))


# ── a scale-up, watched ──────────────────────────────────────────────────────────────────────────────────────────────


class _Watch:
    """Which of our modules run, and how often some functions do, until the cloud is asked for an instance."""

    def __init__(self) -> None:
        self.modules: set[str] = set()
        self.calls: Counter[str] = Counter()
        self.launched = False

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        if event != "call":
            return
        module = frame.f_globals.get("__name__", "")
        if module.startswith(f"{PACKAGE}.") and frame.f_code.co_name != "<module>":
            if not self.launched:
                self.modules.add(module)
            self.calls[f"{module}.{frame.f_code.co_name}"] += 1


def measure_scale_up(modules: Mapping[str, Module]) -> Iterator[Figure]:
    """One run of the simulation that launches because pods wait, from `run` to the cloud's `launch`."""
    world = World(seed=1, policy={"limits": {"min": 2, "max": 6}})
    world.add_workers(2)
    world.deploy("shop", replicas=30, cpu=500)
    world.settle()
    parts = world.parts("run-1")
    watch = _Watch()
    calls: Counter[str] = Counter()
    _count(calls, parts.store, "state")
    _count(calls, parts.policies, "read")
    launch = parts.cloud.launch

    def launching(*arguments: Any, **options: Any) -> Any:
        watch.launched = True
        return launch(*arguments, **options)

    parts.cloud.launch = launching  # type: ignore[method-assign]
    sys.setprofile(watch)
    try:
        ran = run(parts, owner="run-1")
    finally:
        sys.setprofile(None)
    if not watch.launched:
        raise AssertionError("the simulated run launched nothing: there is no scale-up to measure")
    crossed = tuple(sorted(watch.modules))
    lines = sum(modules[name].lines for name in crossed)
    yield Figure(
        about="modules that a scale-up crosses, run → cloud.launch, and their lines",
        now=f"{len(crossed)} / {lines:,}",
        wanted="≤ 45",
        which=crossed,
    )
    per_iteration = [
        f"{watch.calls[name] / ran.iterations:g}×"
        for name in (
            "nodefleet.phases.derive_workers",
            "nodefleet.reconcile.audit.figures",
            "nodefleet.reconcile.audit.bill",
        )
    ]
    yield Figure(about="fleet, figures, bill computed per iteration", now=", ".join(per_iteration), wanted="once each")
    reads = [f"{calls[name]}× in {ran.iterations}" for name in ("state", "read")]
    yield Figure(
        about="state and policy read per run (of so many iterations)", now=", ".join(reads), wanted="once each"
    )


def _count(calls: Counter[str], part: Any, name: str) -> None:
    method: Callable[..., Any] = getattr(part, name)

    def counted(*arguments: Any, **options: Any) -> Any:
        calls[name] += 1
        return method(*arguments, **options)

    setattr(part, name, counted)


if __name__ == "__main__":
    main(show="--show" in sys.argv)

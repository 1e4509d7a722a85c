"""Builds what Lambda gets: the layer with the libraries, and the functions' own code.

    python -m layers.build             for Lambda: arm64, Python 3.13, into build/arm64-py313/
    python -m layers.build --here      for this machine and this Python, to try the artefact out

Both hold bytecode, because Lambda unpacks them where nothing can be written: without it every cold start would compile
every module that it imports. Bytecode belongs to one version of Python, so a Python of the target's version should be
installed here; without one the archives are complete but slower to start.

pip chooses the wheels for the platform, so neither Docker nor another machine is needed. The versions and their hashes
stand in layers/requirements.txt. What was downloaded is kept in build/wheels/, and what is up to date is not built
again: the second time needs neither network nor patience.
"""

import argparse
import hashlib
import json
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from layers.models import FOLDER as MODELS
from layers.models import write_models
from layers.pack import Archive, digest_of, files_in, pack
from layers.trim import trim, without_unused

ROOT = Path(__file__).resolve().parents[1]
REQUIREMENTS = ROOT / "layers/requirements.txt"
RECIPE = tuple(ROOT / "layers" / name for name in ("build.py", "models.py", "pack.py", "trim.py"))
SOURCES = ROOT / "lambda"
BUILD = ROOT / "build"
LAYER, FUNCTIONS, MANIFEST = "layer.zip", "functions.zip", "artefacts.json"

# Lambda takes 250 MB of functions and layers together. A cold start reads all that is imported: less is quicker.
LIMIT_MB = 250
BUDGET_MB = {LAYER: 22.0, FUNCTIONS: 5.0}  # unpacked
UNIMPORTED = ("kubernetes", "oauthlib", "pydantic", "requests_oauthlib", "websocket", "yaml")  # need no bytecode
_MB = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What the libraries are for."""

    name: str
    python: tuple[int, int]
    pip: tuple[str, ...] = ()  # how pip is told; nothing: for the Python that runs it

    @property
    def bytecode(self) -> str:
        """How its compiled modules are named."""
        return "cpython-{}{}".format(*self.python)


# Amazon Linux 2023, on which this runtime stands, has glibc 2.34.
LAMBDA = Target(
    name="arm64-py313",
    python=(3, 13),
    pip=(
        *("--platform", "manylinux_2_28_aarch64", "--platform", "manylinux2014_aarch64"),
        *("--implementation", "cp", "--python-version", "3.13"),
    ),
)


def here() -> Target:
    major, minor = sys.version_info[:2]
    return Target(name=f"here-{platform.machine()}-py{major}{minor}", python=(major, minor))


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What was built, as it stands in the manifest beside it."""

    inputs: str  # digest of all that the layer is made of
    sources: str  # digest of lambda/, which the functions are made of
    requirements: str  # digest of the pinned versions alone
    layer: Archive
    functions: Archive


class BuildError(Exception):
    """Says what to do."""


def build(target: Target, into: Path = BUILD) -> Made:
    """The layer (unless it is there already) and the functions (always: that takes no time)."""
    folder = into / target.name
    made = Made(
        inputs=inputs_of(target),
        sources=digest_of(SOURCES),
        requirements=_digest(REQUIREMENTS),
        layer=current_layer(target, into) or _layer(target, into),
        functions=pack_functions(folder / FUNCTIONS, target),
    )
    (folder / MANIFEST).write_text(json.dumps(_plain(made), indent=2) + "\n")
    return made


def current_layer(target: Target, into: Path = BUILD) -> Archive | None:
    """The layer, if it was built from what is here now."""
    folder = into / target.name
    try:
        known = json.loads((folder / MANIFEST).read_text())
        layer = Archive(**{**known["layer"], "path": folder / LAYER})
        is_it = known["inputs"] == inputs_of(target) and layer.path.stat().st_size == layer.packed
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return layer if is_it else None


def pack_functions(archive: Path, target: Target) -> Archive:
    """lambda/ without what Python leaves there, descriptions of the AWS services for botocore, and bytecode."""
    with tempfile.TemporaryDirectory(prefix="nodefleet-functions-") as scratch:
        content = Path(scratch)
        for name, path in files_in(SOURCES).items():
            (content / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, content / name)
        write_models(content / MODELS)
        return pack(content, archive, bytecode=compile_modules(content, target))


# ── bytecode ─────────────────────────────────────────────────────────────────────────────────────────────────────


def compile_modules(folder: Path, target: Target, but: Sequence[str] = ()) -> str:
    """The tag of the bytecode that is in the folder now; empty if no Python of the target's version is here. Python
    takes these files as they are: no times and no paths of this machine are in them."""
    python = python_of(target)
    if python is None:
        _say(
            f"WARNING: no Python {target.python[0]}.{target.python[1]} is here, so {target.name} gets no bytecode and"
            " a cold start takes about twice as long. Install one (apt-get, pyenv, uv python install) and build again"
        )
        return ""
    modules = [path for path in folder.iterdir() if path.name not in but]
    command = [python, "-m", "compileall", "-q", "-j", "1", "--invalidation-mode", "unchecked-hash"]
    done = subprocess.run(  # noqa: S603  # our own arguments
        [*command, "-s", str(folder), *map(str, modules)], check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise BuildError(f"modules cannot be compiled for Python {target.python}:\n{done.stdout}{done.stderr}")
    return target.bytecode


def python_of(target: Target) -> str | None:
    """An interpreter of the target's version. Which machine it runs on makes no difference to bytecode."""
    if sys.version_info[:2] == target.python:
        return sys.executable
    name = "python{}.{}".format(*target.python)
    return next((path for path in (shutil.which(name), *_pyenv(name)) if path and _runs(path, target.python)), None)


def _pyenv(name: str) -> list[str]:
    return [str(path) for path in sorted(Path.home().glob(f".pyenv/versions/*/bin/{name}"))]


def _runs(path: str, version: tuple[int, int]) -> bool:
    """A shim of pyenv is there for every version that was ever installed, and fails if it is not chosen."""
    asked = [path, "-c", "import sys; print(*sys.version_info[:2])"]
    done = subprocess.run(asked, check=False, capture_output=True, text=True)  # noqa: S603
    return done.returncode == 0 and done.stdout.split() == [*map(str, version)]


def over_budget(made: Made) -> list[str]:
    """One line for each archive that is bigger than it should be."""
    sizes = {LAYER: made.layer.unpacked / _MB, FUNCTIONS: made.functions.unpacked / _MB}
    return [
        f"{name} is {sizes[name]:.1f} MB unpacked, its budget is {budget:.1f} MB: see layers/trim.py"
        for name, budget in BUDGET_MB.items()
        if sizes[name] > budget
    ]


# ── the layer ────────────────────────────────────────────────────────────────────────────────────────────────────


def _layer(target: Target, into: Path) -> Archive:
    with tempfile.TemporaryDirectory(prefix="nodefleet-layer-") as scratch:
        wanted = Path(scratch) / "requirements.txt"
        wanted.write_text(without_unused(REQUIREMENTS.read_text()))
        wheels = _wheels(target, wanted, into / "wheels" / target.name)
        _say(f"{target.name}: installing and trimming …")
        content = Path(scratch) / "layer"
        libraries = content / "python"  # the one folder of a layer that Python looks into
        _pip(
            *("install", "--quiet", *target.pip, "--no-index", "--find-links", str(wheels)),
            *("--no-compile", "--target", str(libraries), "--requirement", str(wanted)),
        )
        trim(libraries)
        bytecode = compile_modules(libraries, target, but=UNIMPORTED)
        _say(f"{target.name}: packing …")
        return pack(content, into / target.name / LAYER, bytecode=bytecode)


def _wheels(target: Target, wanted: Path, folder: Path) -> Path:
    """The folder with all wheels. It is complete when it says so: an interrupted download goes on where it was."""
    complete = folder / f".complete-{_digest(wanted)[:16]}"
    if not complete.exists():
        number = wanted.read_text().count("==")
        _say(f"{target.name}: downloading {number} packages (once) …")
        folder.mkdir(parents=True, exist_ok=True)
        bar = ("--progress-bar", "on") if sys.stdout.isatty() else ("--quiet",)
        _pip("download", *bar, *target.pip, "--dest", str(folder), "--requirement", str(wanted))
        complete.touch()
    return folder


def _pip(command: str, *arguments: str) -> None:
    """Only wheels whose hashes are ours, and exactly those: the file names all that is needed."""
    safe = ("--only-binary=:all:", "--require-hashes", "--no-deps")
    calm = ("--disable-pip-version-check", "--no-input")
    done = subprocess.run(  # noqa: S603  # our own arguments
        [sys.executable, "-m", "pip", command, *calm, *safe, *arguments],
        check=False,
        stderr=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        raise BuildError(
            f"pip {command} failed; the package index must be reachable the first time:\n{done.stderr.strip()}"
        )


def inputs_of(target: Target) -> str:
    """A digest of all that a layer is made of: versions, hashes, and how it is made."""
    compiled = "with bytecode" if python_of(target) else "without bytecode"
    parts = [target.name, *target.pip, compiled, _digest(REQUIREMENTS), *map(_digest, RECIPE)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


# ── for operators ────────────────────────────────────────────────────────────────────────────────────────────────


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m layers.build", description="Builds what ships to Lambda.")
    parser.add_argument("--here", action="store_true", help="for this machine, to try it out")
    target = here() if parser.parse_args(arguments).here else LAMBDA
    began = time.monotonic()
    try:
        made = build(target)
    except (BuildError, ValueError) as error:
        _say(f"error: {error}")
        return 1
    for name, archive in ((LAYER, made.layer), (FUNCTIONS, made.functions)):
        _say(
            f"  {name:<14} {archive.unpacked / _MB:5.1f} MB unpacked (budget {BUDGET_MB[name]:.0f}, Lambda's limit "
            f"{LIMIT_MB}), {archive.packed / _MB:4.1f} MB packed, {archive.files} files, {archive.content[:12]}"
        )
    too_big = over_budget(made)
    for line in too_big:
        _say(f"error: {line}")
    _say(f"{(BUILD / target.name).relative_to(ROOT)}: done in {time.monotonic() - began:.1f} s")
    return 1 if too_big else 0


def _plain(made: Made) -> dict[str, Any]:
    return {
        **asdict(made),
        "layer": {**asdict(made.layer), "path": LAYER},
        "functions": {**asdict(made.functions), "path": FUNCTIONS},
    }


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201  # this is a command


if __name__ == "__main__":
    sys.exit(main())

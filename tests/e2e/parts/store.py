"""The cache: what was made once is there for everybody. Made whole or not at all, by one at a time, with its cost.

A folder's name carries the version and a digest of all that went in, so a change builds anew and an old folder is
never taken for a new one.
"""

import fcntl
import hashlib
import json
import os
import re
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from .needed import say
from .places import cache

_SAY_EVERY = 15.0
_RECORD = "built.json"
_LAST_LINES = 15
# How Go, Maven and apt say that there is no way to their registry.
_NO_WAY = re.compile(
    "dial tcp|i/o timeout|no such host|connection refused|network is unreachable|temporary failure|unknown host"
    "|could not resolve|could not connect|connection timed out|module lookup disabled",
    re.IGNORECASE,
)


class BuildFailedError(Exception):
    """A part could not be had. The message has the end of the step's output; a second try goes on where it ended."""


class UnreachableError(BuildFailedError):
    """The registry that has the part cannot be reached from this machine."""


class Recipe(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def costs(self) -> str:
        """What people should expect, in a few words."""
        ...

    @property
    def sources(self) -> Sequence[Path]:
        """Files of ours that decide what comes out."""
        ...

    def check_tools(self) -> None:
        """Raises MissingToolError."""
        ...

    def make(self, folder: Path) -> None: ...


def place(recipe: Recipe) -> Path:
    digest = hashlib.sha256(b"\0".join(each.read_bytes() for each in recipe.sources)).hexdigest()[:8]
    return cache() / f"{recipe.name}-{recipe.version}-{digest}"


def made(recipe: Recipe) -> Path:
    """The recipe's folder in the cache, made now if it is not there."""
    target = place(recipe)
    if target.is_dir():
        return target
    with _only_one(target.with_name(f".{recipe.name}.lock"), recipe.name):
        if target.is_dir():
            return target
        recipe.check_tools()
        for abandoned in cache().glob(f".{recipe.name}-*"):
            shutil.rmtree(abandoned, ignore_errors=True)
        say(f"{recipe.name} {recipe.version}: making it once ({recipe.costs}) for {target}")
        with tempfile.TemporaryDirectory(dir=cache(), prefix=f".{recipe.name}-") as unfinished:
            folder = Path(unfinished) / "made"
            folder.mkdir()
            clock, cpu = time.monotonic(), _cpu_of_children()
            recipe.make(folder)
            took = {"wall_seconds": round(time.monotonic() - clock), "cpu_seconds": round(_cpu_of_children() - cpu)}
            (folder / _RECORD).write_text(json.dumps(took))
            folder.rename(target)
    return target


def record(recipe: Recipe) -> str:
    """One line for people: what it is, how long it took, how big it came out."""
    folder = made(recipe)
    took = json.loads((folder / _RECORD).read_text())
    size = sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())
    return (
        f"{recipe.name:20} {recipe.version:18} wall {took['wall_seconds']:>4} s   cpu {took['cpu_seconds']:>4} s   "
        f"{size / 1e6:>4.0f} MB   {folder}"
    )


def run_step(what: str, command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> None:
    """Run a step at the lowest priority and say now and then how far it is."""
    started = said = time.monotonic()
    lines: list[str] = []
    with subprocess.Popen(  # noqa: S603
        ["nice", "-n", "19", *command],  # noqa: S607
        cwd=folder,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as step:
        try:
            for line in step.stdout or ():
                lines.append(line.rstrip())
                if time.monotonic() - said > _SAY_EVERY:
                    said = time.monotonic()
                    say(f"{what}: {len(lines)} steps, {said - started:.0f} s, now {lines[-1]}")
        except BaseException:
            step.kill()  # Ctrl-C means now, not when the compiler is through
            raise
    if step.returncode:
        end = "\n  ".join(lines[-_LAST_LINES:])
        failure = UnreachableError if _NO_WAY.search(end) else BuildFailedError
        raise failure(f"{what} failed; what is done is kept, so try again.\n  {end}")
    say(f"{what}: done after {time.monotonic() - started:.0f} s")


@contextmanager
def _only_one(lock: Path, name: str) -> Iterator[None]:
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{name}: somebody else is making it; waiting")
            fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime

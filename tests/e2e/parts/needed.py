"""The tools that the parts are made with. A missing one is a single line: what is missing, and how to get it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

GO_AT_LEAST = (1, 24)  # the `tool` lines in go.mod
# Where Go's own installer puts it. It is often not on PATH.
_USUAL_GO = Path("/usr/local/go/bin/go")
_GET_GO = "Go 1.24 or newer: apt-get install golang-go (Debian 13), or https://go.dev/dl/ unpacked to /usr/local/go"
_GET = {
    "java": "Java 17 or newer: apt-get install default-jdk-headless",
    "javac": "the Java compiler, 17 or newer: apt-get install default-jdk-headless",
    "mvn": "Maven: apt-get install maven",
}


class MissingToolError(Exception):
    """Something that is installed once is not there. The message is one line that says how to get it."""


def say(line: str) -> None:
    """Progress goes to the terminal at once, and never into what a command prints as its result."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise MissingToolError(f"MISSING: {_GET.get(name, name)}")
    return found


def go() -> str:
    found = shutil.which("go") or (str(_USUAL_GO) if os.access(_USUAL_GO, os.X_OK) else None)
    if found is None:
        raise MissingToolError(f"MISSING: {_GET_GO}")
    said = subprocess.run([found, "env", "GOVERSION"], check=True, capture_output=True, text=True).stdout.strip()  # noqa: S603
    numbers = re.match(r"go(\d+)\.(\d+)", said)
    if numbers is not None and tuple(map(int, numbers.groups())) < GO_AT_LEAST:
        raise MissingToolError(f"MISSING: {_GET_GO} (this is {said})")
    return found

"""Start parts and keep them until Ctrl-C, or for as long as one command runs.

cd tests && ../.venv/bin/python -m e2e.parts.up scheduler controller-manager kwok dynamodb
cd tests && ../.venv/bin/python -m e2e.parts.up apiserver dynamodb -- ../.venv/bin/pytest adapters/k8s
"""

import argparse
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from .needed import MissingToolError, say
from .part import PartFailedError
from .running import NEEDS, RunningParts, running
from .store import BuildFailedError


def _asked(words: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    own, command = (list(words), []) if "--" not in words else _split(words)
    parser = argparse.ArgumentParser(prog="e2e.parts.up", description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("parts", nargs="+", metavar="part", choices=[*NEEDS, "all"], help=", ".join([*NEEDS, "all"]))
    parser.add_argument("--folder", type=Path, help="where logs and kubeconfig go (a new folder under /tmp)")
    options = parser.parse_args(own)
    return options, command


def _split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    at = list(words).index("--")
    return list(words[:at]), list(words[at + 1 :])


def _describe(parts: RunningParts) -> None:
    for name, value in parts.environment().items():
        say(f"export {name}={shlex.quote(value)}")
    if "kube-state-metrics" in parts.names:
        say(f"# kube-state-metrics: http://{parts.state_metrics_address}/metrics")


def _end_in_order() -> None:
    """A polite signal ends us as Ctrl-C does, so that the command and the parts end in order."""

    def leave(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)


def main() -> int:
    options, command = _asked(sys.argv[1:])
    names = list(NEEDS) if "all" in options.parts else options.parts
    began = time.monotonic()
    _end_in_order()
    try:
        with running(*names, folder=options.folder) as parts:
            say(f"ready after {time.monotonic() - began:.1f} s")
            _describe(parts)
            if command:
                return subprocess.run(command, env={**os.environ, **parts.environment()}, check=False).returncode  # noqa: S603
            say("# running; Ctrl-C stops everything")
            threading.Event().wait()
    except KeyboardInterrupt:
        return 0
    except (MissingToolError, PartFailedError, BuildFailedError) as problem:
        say(str(problem))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

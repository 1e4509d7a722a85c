"""A process that gets as much CPU as Lambda gives at some memory size.

Lambda gives CPU in proportion to memory: 1,769 MB are one vCPU. A control group holds a process to that share: the
kernel lets it run for its part of each period, and then not until the next one. The group also has a high weight, so
that the process gets its share while others keep the machine busy, as Lambda's would. Groups are made in version 2 or
1 of the interface, hold only processes that were started here, and are gone afterwards. Without the right to make one
the process is stopped and let go in turn by signals; that is coarser, and the figures say so.
"""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

FULL = 1769  # MB that are one vCPU
PERIOD = 0.02  # seconds
_VERSION_2 = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
_VERSION_1 = Path("/sys/fs/cgroup/cpu")
_MEMBERS = "cgroup.procs"
_NUMBERS = count(1)


@dataclass(frozen=True, slots=True)
class Share:
    """Of one CPU, by the memory that Lambda gives it for; none is all that there is."""

    memory: int | None = None  # MB

    @property
    def cpus(self) -> float | None:
        return None if self.memory is None else self.memory / FULL

    def ran(self, command: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """The command, ended. What it prints is dropped, what it complains about is kept."""
        with (
            group(self.cpus) as join,
            subprocess.Popen(  # noqa: S603  # our own command
                command,
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                preexec_fn=join,  # noqa: PLW1509  # a member from its first instruction; no threads run here
            ) as process,
        ):
            if join is None and self.cpus is not None and self.cpus < 1:
                threading.Thread(target=_stop_and_go, args=(process.pid, self.cpus), daemon=True).start()
            try:
                _, complaints = process.communicate()
            except BaseException:
                process.kill()  # nobody waits for it any more
                raise
            return subprocess.CompletedProcess(command, process.returncode, "", complaints)


WHOLE = Share()


def means() -> str:
    """How shares are given on this machine."""
    made = _made(1.0)
    if made is None:
        return f"signals that stop and continue, every {PERIOD * 1000:g} ms"
    _removed(made)
    return f"a control group, version {1 if made.parent == _VERSION_1 else 2}, every {PERIOD * 1000:g} ms"


@contextmanager
def group(cpus: float | None) -> Iterator[Callable[[], object] | None]:
    """How a process joins a group with this share before it starts; none if no group can be made."""
    made = _made(cpus)
    try:
        yield (lambda: (made / _MEMBERS).write_text("0")) if made else None
    finally:
        if made:
            _removed(made)


def _made(cpus: float | None) -> Path | None:
    period = int(PERIOD * 1_000_000)
    quota = "max" if cpus is None else str(int(cpus * period))
    limits_1 = {} if cpus is None else {"cpu.cfs_period_us": str(period), "cpu.cfs_quota_us": quota}
    wanted = [(root, {"cpu.max": f"{quota} {period}", "cpu.weight": "10000"}) for root in _VERSION_2 if _has_cpu(root)]
    wanted.append((_VERSION_1, {**limits_1, "cpu.shares": "262144"}))
    name = f"node-fleet-benchmark-{os.getpid()}-{next(_NUMBERS)}"
    for root, settings in wanted:
        made = root / name
        try:
            made.mkdir()
            for file, text in settings.items():
                (made / file).write_text(text)
        except OSError:
            _removed(made)
        else:
            return made
    return None


def _has_cpu(root: Path) -> bool:
    try:
        return "cpu" in (root / "cgroup.subtree_control").read_text().split()
    except OSError:
        return False


def _removed(made: Path) -> None:
    """A group is a folder that is never empty of files, and is removed as if it were."""
    for _ in range(50):
        try:
            made.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.02)  # a process that has just ended is still in it
        else:
            return


def _stop_and_go(process: int, cpus: float) -> None:
    while True:
        try:
            os.kill(process, signal.SIGCONT)
            time.sleep(PERIOD * cpus)
            os.kill(process, signal.SIGSTOP)
            time.sleep(PERIOD * (1 - cpus))
        except ProcessLookupError:
            return

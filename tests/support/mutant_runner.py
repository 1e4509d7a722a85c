"""Runs the tests against one mutant after the other, as quickly as an honest answer allows.

The tests are collected once; each mutant is tried in a fork of that process. Only the tests that reach the mutated
line run (measured with coverage contexts), those that noticed a neighbour first, then those of the module's own test
file, the quickest first, and the first failure ends the trial. A test that takes much longer than on the real code
ends it too: limits are in CPU seconds, so that a busy instance does not look like a mutant in an endless loop, with a
far longer limit in wall time for one that waits for ever.

What was measured of a test is kept while the test and the mutated files that it reaches stay as they are. When
something else has changed since, a test may reach other lines by now, which can only hide that it notices; and one that
fails by itself would seem to notice everything, so a test that notices is first run again on the real code.
"""

import contextlib
import gc
import hashlib
import itertools
import json
import os
import resource
import signal
import sys
import time
import traceback
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import coverage
import pytest
from mutmut.mutation.trampoline import set_mutant_under_test

NOTICED, TIMEOUT, SURVIVED, NO_TESTS = "noticed", "timeout", "survived", "no tests"
CRASHED = "crashed"  # the interpreter ended, or left pytest
# Not noticed by the tests that ran within the time for one mutant: it counts as a survivor.
UNTIL_GIVEN_UP = "survived until given up"
MISSED = frozenset({SURVIVED, UNTIL_GIVEN_UP, NO_TESTS})
GIVEN_UP = 40
CPU_SLACK_SECONDS, WALL_SLACK_SECONDS, TIMES_SLOWER = 5, 120, 10
MEMORY_BYTES = 4 * 1024**3


@dataclass(frozen=True)
class Mutant:
    name: str
    # Its lines in the file of all mutants, where the unchanged copy of the function has them.
    path: str
    lines: frozenset[int]
    # The folders of tests that have to notice.
    tests: tuple[str, ...]

    @property
    def function(self) -> str:
        return self.name.partition("__mutmut_")[0]


@dataclass(frozen=True)
class Verdict:
    status: str
    by: str = ""


@dataclass(frozen=True)
class Measured:
    """A test on the real code: the lines that it reaches, and its seconds."""

    file_digest: str
    surroundings: str  # a digest of the rest, as it was when the test was last seen to pass
    passed: bool
    cpu_seconds: float
    wall_seconds: float
    reached: dict[str, list[int]]
    codes: dict[str, str]  # digests of the files that it reaches


@dataclass(eq=False)  # pytest keeps plugins in sets
class Trials:
    """The pytest plugin that tries the mutants in place of running the tests once."""

    mutants: Sequence[Mutant]
    children: int
    scratch: Path
    # What was measured, for the next draw from the same code.
    kept: Path
    # A digest of all code but the tests.
    surroundings: str
    # The files that were mutated, and a digest of each.
    mutated: Mapping[str, str]
    cpu_seconds: float
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    measured: dict[str, Measured] = field(default_factory=dict)
    noticed_by: dict[str, dict[str, int]] = field(default_factory=dict)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Failed("the tests could not be collected")
        self.measured = self._measure(session.items)
        items = {item.nodeid: item for item in session.items}
        session.config.option.tbstyle = "native"  # nobody reads them: the cheapest
        gc.freeze()  # so that a trial does not copy every page of its parent to count references
        running: dict[int, tuple[Mutant, Path]] = {}
        began = time.monotonic()
        waiting = deque(self.mutants)
        numbers = itertools.count()
        while waiting or running:
            if running and (len(running) >= self.children or not waiting):
                again = self._collect(running, items)
                waiting.extendleft([again] if again else [])
                _progress(f"{len(self.verdicts)} of {len(self.mutants)} tried, {time.monotonic() - began:.0f} s")
                continue
            mutant = waiting.popleft()
            tests = [items[nodeid] for nodeid in self._order(mutant) if nodeid in items]
            if not tests:
                self.verdicts[mutant.name] = Verdict(NO_TESTS)
                continue
            answer = self.scratch / str(next(numbers))
            running[_fork(lambda t=tests, m=mutant, a=answer: self._try(session, m, t, a))] = (mutant, answer)
        self._keep()
        return True

    def _keep(self) -> None:
        kept = _read(self.kept) | self.measured
        self.kept.write_text(json.dumps({nodeid: asdict(each) for nodeid, each in kept.items()}))

    def _measure(self, items: Sequence[pytest.Item]) -> dict[str, Measured]:
        """In a fork as well, so that nothing of it stays behind. Only files that changed are measured again."""
        digests = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in {item.path for item in items}}
        kept = _read(self.kept)
        missing = [
            item
            for item in items
            if item.nodeid not in kept
            or kept[item.nodeid].file_digest != digests[item.path]
            or not kept[item.nodeid].codes.items() <= self.mutated.items()
        ]
        if missing:
            _progress(f"measuring {len(missing)} of {len(items)} tests")
            answer = self.scratch / "measured"
            os.waitpid(_fork(lambda: self._run_all(missing, digests, answer)), 0)
            kept |= _read(answer)
            self.kept.write_text(json.dumps({nodeid: asdict(each) for nodeid, each in kept.items()}))
        return {item.nodeid: kept[item.nodeid] for item in items}

    def _run_all(self, items: Sequence[pytest.Item], digests: Mapping[Path, str], answer: Path) -> None:
        set_mutant_under_test("")
        found = {}
        for item, following in _with_next(items):
            traced = coverage.Coverage(data_file=None, include=list(self.mutated), config_file=False)
            traced.set_option("run:disable_warnings", ["no-data-collected"])  # by tests of something else
            recorder = _Recorder()
            item.config.pluginmanager.register(recorder)
            before = time.process_time(), time.monotonic()
            with traced.collect():
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            cpu, wall = time.process_time() - before[0], time.monotonic() - before[1]
            item.config.pluginmanager.unregister(recorder)
            data = traced.get_data()
            reached = {path: sorted(data.lines(path) or ()) for path in data.measured_files()}
            codes = {path: self.mutated[path] for path in reached}
            found[item.nodeid] = asdict(
                Measured(digests[item.path], self.surroundings, not recorder.failed, cpu, wall, reached, codes)
            )
        answer.write_text(json.dumps(found))

    def _order(self, mutant: Mutant) -> list[str]:
        tests = [
            nodeid
            for nodeid, each in self.measured.items()
            if each.passed and nodeid.startswith(mutant.tests)
            if not mutant.lines.isdisjoint(each.reached.get(mutant.path, ()))
        ]
        neighbours = self.noticed_by.get(mutant.function, {})
        own = f"_{Path(mutant.path).stem}.py"
        return sorted(
            tests,
            key=lambda nodeid: (
                -neighbours.get(nodeid, 0),
                not nodeid.partition("::")[0].endswith(own),
                self.measured[nodeid].cpu_seconds,
                nodeid,
            ),
        )

    def _try(self, session: pytest.Session, mutant: Mutant, tests: Sequence[pytest.Item], answer: Path) -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
        set_mutant_under_test(mutant.name)
        recorder = _Recorder()
        session.config.pluginmanager.register(recorder)
        began = time.process_time()
        for item, following in _with_next(tests):
            answer.write_text(item.nodeid)
            with self._limited(item.nodeid):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if recorder.failed:
                os._exit(1)
            if time.process_time() - began > self.cpu_seconds:
                os._exit(GIVEN_UP)
        os._exit(0)

    @contextlib.contextmanager
    def _limited(self, nodeid: str) -> Iterator[None]:
        """Ended by the kernel, so that no handler of the code under test can catch it."""
        for number, timer, usual, slack in (
            (signal.SIGPROF, signal.ITIMER_PROF, self.measured[nodeid].cpu_seconds, CPU_SLACK_SECONDS),
            (signal.SIGALRM, signal.ITIMER_REAL, self.measured[nodeid].wall_seconds, WALL_SLACK_SECONDS),
        ):
            signal.signal(number, signal.SIG_DFL)
            signal.setitimer(timer, TIMES_SLOWER * usual + slack)
        yield
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _collect(self, running: dict[int, tuple[Mutant, Path]], items: Mapping[str, pytest.Item]) -> Mutant | None:
        """The verdict on the next trial that is over; or the mutant, if what noticed it fails by itself."""
        pid, status = os.wait()
        with contextlib.suppress(ProcessLookupError):  # only where the trial left a process of its own behind
            os.killpg(pid, signal.SIGKILL)
        mutant, answer = running.pop(pid)
        last = answer.read_text() if answer.exists() else ""
        code = os.waitstatus_to_exitcode(status)
        if code in (0, GIVEN_UP):
            self.verdicts[mutant.name] = Verdict(UNTIL_GIVEN_UP if code else SURVIVED)
            _progress(f"{self.verdicts[mutant.name].status}: {mutant.name}")
            return None
        if last and not self._is_sound(items[last]):
            return mutant
        statuses = {1: NOTICED, -signal.SIGPROF: TIMEOUT, -signal.SIGALRM: TIMEOUT}
        self.verdicts[mutant.name] = Verdict(statuses.get(code, CRASHED), last)
        counts = self.noticed_by.setdefault(mutant.function, {})
        counts[last] = counts.get(last, 0) + 1
        return None

    def _is_sound(self, item: pytest.Item) -> bool:
        """Whether the test still passes on the real code."""
        before = self.measured[item.nodeid]
        if before.surroundings == self.surroundings:
            return before.passed
        pid = _fork(lambda: os._exit(int(self._fails(item))))
        passed = os.waitpid(pid, 0)[1] == 0
        self.measured[item.nodeid] = replace(before, surroundings=self.surroundings, passed=passed)
        return passed

    def _fails(self, item: pytest.Item) -> bool:
        set_mutant_under_test("")
        recorder = _Recorder()
        item.config.pluginmanager.register(recorder)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        return bool(recorder.failed)


@dataclass(eq=False)
class _Recorder:
    failed: list[str] = field(default_factory=list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)


def _with_next(items: Sequence[pytest.Item]) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    return zip(items, [*items[1:], None], strict=True)


def _fork(work) -> int:
    pid = os.fork()
    if pid:
        return pid
    shown = os.fdopen(os.dup(2), "w")
    try:
        os.setpgid(0, 0)
        silent = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silent, stream)
        work()
    except BaseException:  # noqa: BLE001  # whatever it was, the parent's stack is not ours to unwind
        traceback.print_exc(file=shown)
        shown.flush()
        os._exit(3)
    os._exit(0)


def _read(path: Path) -> dict[str, Measured]:
    return {nodeid: Measured(**each) for nodeid, each in json.loads(path.read_text()).items()} if path.exists() else {}


def _progress(text: str) -> None:
    end = "\033[K\r" if sys.stderr.isatty() else "\n"
    print(text, end=end, file=sys.stderr, flush=True)  # noqa: T201


def try_mutants(trials: Trials, tests: Sequence[str]) -> None:
    code = pytest.main(["-s", "-p", "no:cacheprovider", "-p", "no:terminal", "-p", "no:cov", *tests], plugins=[trials])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        sys.exit(f"the tests could not be run: {code!r}")

"""Tasks of a Celery application on a real broker, and the worker processes that run them."""

import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.parts.brokers import celery_python

APP = Path(__file__).parent / "celery_app"


class CeleryTasks:
    """Tasks of one broker, and the worker processes that run them."""

    def __init__(self, broker: str, folder: Path) -> None:
        self._python, self._folder = celery_python(), folder
        self.journal = folder / "journal.txt"
        self.journal.touch()
        self._environment = {**os.environ, "BROKER": broker, "JOURNAL": str(self.journal), "PYTHONPATH": str(APP)}

    def send(self, numbers: range, seconds: float) -> None:
        program = (
            "import sys; from shop_tasks import work\n"
            f"for n in range({numbers.start}, {numbers.stop}): work.apply_async((n, {seconds}), priority=n % 10)"
        )
        subprocess.run([self._python, "-c", program], check=True, env=self._environment, cwd=self._folder)  # noqa: S603

    def start_worker(self, name: str) -> subprocess.Popen[bytes]:
        """One process with one slot, as a pod would run it. SIGTERM ends it when the task in hand is finished."""
        command = [self._python, "-m", "celery", "-A", "shop_tasks", "worker", "--pool=solo", "-n", f"{name}@%h"]
        command += ["--without-gossip", "--without-mingle", "--loglevel=warning"]
        with (self._folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(command, env=self._environment, cwd=self._folder, stdout=log, stderr=log)  # noqa: S603

    @contextmanager
    def worker(self, name: str) -> Iterator[subprocess.Popen[bytes]]:
        process = self.start_worker(name)
        try:
            yield process
        finally:
            process.terminate()  # warm shutdown: the task in hand is finished, the others stay with the broker
            process.wait(60)

    def counted(self, what: str) -> Counter[str]:
        lines = (line.split() for line in self.journal.read_text().splitlines())
        return Counter(number for verb, number in lines if verb == what)

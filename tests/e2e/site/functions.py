"""A small Lambda: every function in processes of its own, warm from call to call, as many as are busy at once."""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import boto3
from layers import build

from support.lambda_runtime import Function, FunctionError, function
from support.packaged import packaged

_BETWEEN_TRIES = 2.0  # seconds; a minute and then two in AWS
_COLD_START = 30.0  # seconds that a start may take on top


@dataclass(frozen=True)
class Settings:
    environment: Mapping[str, str]
    limit: float  # seconds that it may take


@dataclass
class Invocation:
    function: str
    event: Any
    began: float = field(default_factory=time.time)
    ended: float | None = None
    answer: Any = None
    error: str = ""


class Functions:
    def __init__(self, settings: Mapping[str, Settings], path: tuple[Path, ...], folder: Path) -> None:
        self.made: list[Invocation] = []  # every invocation so far
        self._settings, self._path, self._folder = settings, path, folder
        self._living = ExitStack()
        self._idle: dict[str, list[Function]] = defaultdict(list)
        self._started: list[tuple[str, Function]] = []
        self._choosing = Lock()
        self._starting: list[Thread] = []

    def invoke(self, name: str, event: Any) -> Any:
        """What the handler returns; FunctionError with what it raised."""
        made = Invocation(name, event)
        self.made.append(made)
        with self._choosing:
            instance = self._idle[name].pop() if self._idle[name] else self._new(name)
        try:
            made.answer = instance.invoke(event, patience=self._settings[name].limit + _COLD_START)
        except FunctionError as error:
            made.error = str(error)
            if time.time() - made.began >= self._settings[name].limit:
                instance.process.kill()  # as Lambda does with one that takes too long
                instance.process.wait()
            raise
        finally:
            made.ended = time.time()
            if instance.process.poll() is None:
                self._idle[name].append(instance)
        return made.answer

    def start(self, name: str, event: Any, *, retries: int = 0) -> None:
        """As EventBridge and SNS do: nobody waits for the answer, and an error is tried again."""
        thread = Thread(target=self._tried, args=(name, event, retries), name=f"start-{name}", daemon=True)
        self._starting = [each for each in self._starting if each.is_alive()] + [thread]
        thread.start()

    def busy(self) -> bool:
        """Something runs, or is to be tried again."""
        return any(each.ended is None for each in self.made) or any(each.is_alive() for each in self._starting)

    def log(self, name: str) -> str:
        """Everything that the function's processes have printed."""
        return "".join(
            line for started, instance in self._started if started == name for line in list(instance.printed)
        )

    def close(self) -> None:
        self._living.close()
        for number, (name, instance) in enumerate(self._started):
            (self._folder / f"{name}-{number}.log").write_text("".join(instance.printed))

    def _new(self, name: str) -> Function:
        handler, settings = f"nodefleet.handlers.{name}.handler", self._settings[name]
        instance = self._living.enter_context(
            function(handler, settings.environment, *self._path, limit=settings.limit)
        )
        self._started.append((name, instance))
        return instance

    def _tried(self, name: str, event: Any, retries: int) -> None:
        for left in range(retries, -1, -1):
            try:
                self.invoke(name, event)
            except FunctionError:
                if left:
                    time.sleep(_BETWEEN_TRIES)
            else:
                return


def code(folder: Path) -> tuple[Path, ...]:
    """A function's path: the artefact, or if it is not built its sources with this environment's libraries."""
    folder.mkdir(parents=True)
    if build.current_layer(build.here()) is not None:
        return packaged(folder).path
    return build.SOURCES, Path(boto3.__file__).parents[1]


@contextmanager
def lambda_at(folder: Path, settings: Mapping[str, Settings]) -> Iterator[Functions]:
    made = Functions(settings, code(folder / "code"), folder)
    try:
        yield made
    finally:
        made.close()

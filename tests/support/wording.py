"""Sentences that tests expect, kept in golden files, so that a rewording is one command and one difference to read.

    assert_wording(text)                  compares it with tests/golden/wording/<test file>.json
    NODEFLEET_GOLDEN=1 pytest FILE        writes that file again (`make golden` does it for all)

A rule is tested by typed values; this is for what operators read. Values are told apart by the test and their order in
it. Paths in a test's own folder (`tmp_path`), which has another name each time, are written as FOLDER; so is anything
else that differs, by the name that the test gives it: `assert_wording(text, PORT=server.port)`.
"""

import json
import os
import re
from pathlib import Path
from typing import Any, ClassVar

FOLDER = Path(__file__).parents[1] / "golden" / "wording"
WRITES = "NODEFLEET_GOLDEN"
_OWN_FOLDER = re.compile(r"/[^\s\"']*?/pytest-of-[^/\s]+/pytest-\d+/(?:popen-gw\d+/)?[^/\s\"':,;]+")


class Wordings:
    """The golden file of one test file, and how far the running test has got in it."""

    known: ClassVar[dict[str, "Wordings"]] = {}
    place: ClassVar[int] = 0  # of the next value of the running test

    def __init__(self, stem: str) -> None:
        self.path = FOLDER / f"{stem}.json"
        exists = self.path.exists()
        self.said: dict[str, list[Any]] = json.loads(self.path.read_text(encoding="utf-8")) if exists else {}

    @classmethod
    def of(cls, stem: str) -> "Wordings":
        if stem not in cls.known:
            cls.known[stem] = cls(stem)
        return cls.known[stem]

    @classmethod
    def begin(cls) -> None:
        """A test begins, perhaps not for the first time."""
        cls.place = 0

    @classmethod
    def next(cls) -> int:
        cls.place += 1
        return cls.place - 1

    def write(self, test: str, place: int, value: Any) -> None:
        if place == 0:
            self.said[test] = []
        self.said[test][place:] = [value]
        FOLDER.mkdir(parents=True, exist_ok=True)
        text = json.dumps(dict(sorted(self.said.items())), indent=1, ensure_ascii=False)
        self.path.write_text(text + "\n", encoding="utf-8")


def assert_wording(value: Any, **named: object) -> None:
    """The same text, or list of texts, as the golden file holds for this place of the running test."""
    file, _, test = os.environ["PYTEST_CURRENT_TEST"].rpartition(" (")[0].partition("::")
    held = Wordings.of(Path(file).stem)
    place = Wordings.next()
    text = json.dumps(value, ensure_ascii=False)
    for name, other_each_time in named.items():
        text = text.replace(str(other_each_time), name)
    plain = json.loads(_OWN_FOLDER.sub("FOLDER", text))  # tuples are lists there
    if os.environ.get(WRITES):
        held.write(test, place, plain)
    expected = held.said.get(test, [])
    assert place < len(expected), f"{held.path.name} has no wording of {test}: run it with {WRITES}=1"
    assert plain == expected[place], f"if the new wording is meant, run it with {WRITES}=1"

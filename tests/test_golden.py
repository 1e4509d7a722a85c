"""What operators read is what the golden files hold. If it is meant to change: `make golden`, and read the
difference."""

from pathlib import Path

import pytest

from nodefleet.model.alerts import AlertKind
from support.golden import FOLDER, files
from support.played_days import shipped_day  # keeps this file with the others that look at played days

FILES = files()
__all__ = ["shipped_day"]


@pytest.mark.parametrize("name", FILES)
def test_people_read_what_the_golden_file_holds(name):
    assert FILES[name]() == (FOLDER / name).read_text(encoding="utf-8"), "if it is meant: make golden"


def test_there_is_no_golden_file_that_nobody_compares():
    found = {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.is_file()}
    wording = {name for name in found if name.startswith("wording/")}
    assert found - wording == set(FILES)
    tests = [path for path in FOLDER.parent.rglob("test_*.py") if "assert_wording(" in path.read_text(encoding="utf-8")]
    assert {Path(name).stem for name in wording} <= {path.stem for path in tests}


def test_every_kind_of_event_has_its_message():
    assert {f'\n "{kind.value}": ' in FILES["slack.json"]() for kind in AlertKind} == {True}

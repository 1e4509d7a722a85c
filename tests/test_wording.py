"""Golden wording: a text is compared with what is stored for its test and place."""

import pytest

from support import wording
from support.wording import WRITES, Wordings, assert_wording


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """Two places of the running test are written, then it begins again."""
    monkeypatch.setattr(wording, "FOLDER", tmp_path)
    monkeypatch.setattr(Wordings, "known", {})
    monkeypatch.setenv(WRITES, "1")
    assert_wording("one")
    assert_wording(("two", "three"))
    monkeypatch.delenv(WRITES)
    monkeypatch.setattr(Wordings, "known", {})
    Wordings.begin()


def test_the_same_texts_in_the_same_order_hold():
    assert_wording("one")
    assert_wording(["two", "three"])


def test_another_text_fails():
    with pytest.raises(AssertionError):
        assert_wording("two")


def test_a_text_that_is_not_stored_fails():
    Wordings.place = 2
    with pytest.raises(AssertionError):
        assert_wording("one")


def test_the_folder_of_a_test_has_another_name_each_time(tmp_path, monkeypatch):
    monkeypatch.setenv(WRITES, "1")
    assert_wording(f"{tmp_path}/policy.yaml: there is no such file; see '{tmp_path}'")
    (stored,) = next(iter(Wordings.known.values())).said.values()
    assert stored == ["FOLDER/policy.yaml: there is no such file; see 'FOLDER'"]


def test_what_differs_each_time_is_written_by_its_name(monkeypatch):
    for port in (4711, 4712):
        Wordings.begin()
        monkeypatch.setenv(WRITES, "1") if port == 4711 else monkeypatch.delenv(WRITES)
        assert_wording(f"nobody answers at 127.0.0.1:{port}", PORT=port)
    with pytest.raises(AssertionError):
        assert_wording("another text", PORT=4712)

"""Lists in sentences."""

import pytest

from nodefleet.model.names import pluralize, some


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, ""), (1, "a"), (5, "a, b, c, d, e"), (6, "a, b, c, d, e and 1 more"), (9, "a, b, c, d, e and 4 more")],
)
def test_a_list_is_cut_after_a_few(count, words):
    assert some("abcdefghij"[:count]) == words


@pytest.mark.parametrize(("number", "words"), [(0, "0 pods fit"), (1, "1 pod fits"), (2, "2 pods fit")])
def test_one_is_not_many(number, words):
    assert pluralize(number, "pod fits", "pods fit") == words

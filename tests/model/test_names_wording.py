"""Lists and figures in sentences."""

import pytest

from nodefleet.model.names import figure, percent, pluralize, some


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, ""), (1, "a"), (5, "a, b, c, d, e"), (6, "a, b, c, d, e and 1 more"), (9, "a, b, c, d, e and 4 more")],
)
def test_a_list_is_cut_after_a_few(count, words):
    assert some("abcdefghij"[:count]) == words


@pytest.mark.parametrize(("number", "words"), [(0, "0 pods fit"), (1, "1 pod fits"), (2, "2 pods fit")])
def test_one_is_not_many(number, words):
    assert pluralize(number, "pod fits", "pods fit") == words


@pytest.mark.parametrize(
    ("value", "limit", "words"),
    [
        (29.97, 30, "29.97 %"),  # 30.0 % < 30 % would be false
        (69.96, 70, "69.96 %"),
        (70.0004, 70, "70.0004 %"),
        (70, 70, "70.0 %"),
        (29.94, 30, "29.9 %"),
        (82.34, None, "82.3 %"),
        (30 - 1e-12, 30, "29.9999 %"),
        (30 + 1e-12, 30, "30.0001 %"),
    ],
)
def test_a_reading_does_not_read_like_the_limit_that_it_misses(value, limit, words):
    assert percent(value, limit) == words


@pytest.mark.parametrize(
    ("value", "limit", "words"),
    [
        (120, None, "120"),
        (0.25, None, "0.25"),
        (1234567, None, "1234567"),
        (0, None, "0"),
        (0.004, None, "0.004"),  # an error ratio of 0 is another matter
        (-0.0123, None, "-0.012"),
        (100.001, 100, "100.001"),
        (100, 100, "100"),
        (0.05, None, "0.05"),
    ],
)
def test_a_figure_has_the_digits_that_tell_something(value, limit, words):
    assert figure(value, limit) == words

import pytest

from nodefleet.model.names import figure


@pytest.mark.parametrize(
    ("value", "written"),
    [(120, "120"), (0.25, "0.25"), (0, "0"), (100.0, "100"), (4.5, "4.5"), (1234567, "1234567"), (33.333, "33.33")],
)
def test_numbers_are_written_as_people_write_them(value, written):
    assert figure(value) == written

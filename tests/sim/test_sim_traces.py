"""Somebody's own CSV: read as it is, or refused with the lines to fix."""

from datetime import UTC, datetime

import pytest

from nodefleet_tools.sim.traces import UnreadableTraceError, read_trace
from support.wording import assert_wording


def trace(tmp_path, text: str, encoding: str = "utf-8"):
    path = tmp_path / "trace.csv"
    path.write_bytes(text.encode(encoding))
    return read_trace(path)


def refused(tmp_path, text: str) -> str:
    with pytest.raises(UnreadableTraceError) as error:
        trace(tmp_path, text)
    return str(error.value)


def test_rows_may_have_a_heading_and_come_in_any_order(tmp_path):
    points = trace(tmp_path, "timestamp,value\n2026-11-16T10:00:00Z,5\n2026-11-16T09:00:00Z, 3.5\n\n")
    assert points.times == (datetime(2026, 11, 16, 9, tzinfo=UTC), datetime(2026, 11, 16, 10, tzinfo=UTC))
    assert points.values == (3.5, 5.0)
    assert points.lasts.total_seconds() == 3600


def test_times_may_be_seconds_or_lack_a_zone_and_columns_may_follow(tmp_path):
    points = trace(tmp_path, "0,1,x\n60,2,y\n")
    assert points.times[1] == datetime(1970, 1, 1, 0, 1, tzinfo=UTC)
    assert trace(tmp_path, "2026-11-16 09:00:00,1\n2026-11-16 09:05:00,2").times[0].tzinfo is UTC


def test_a_byte_order_mark_and_windows_line_ends_do_not_matter(tmp_path):
    assert trace(tmp_path, "\ufefftimestamp,value\r\n0,1\r\n60,2\r\n").values == (1.0, 2.0)


def test_of_two_rows_at_one_time_the_later_one_counts(tmp_path):
    assert trace(tmp_path, "0,1\n60,2\n60,9\n").values == (1.0, 9.0)


@pytest.mark.parametrize("bad", ["60,-1", "60,nan", "60,inf", "60,many", "noon,3", "60", "1e30,1"])
def test_a_bad_row_is_named_with_its_line(tmp_path, bad):
    assert refused(tmp_path, f"0,1\n{bad}\n120,3\n").startswith("line 2: ")


def test_many_bad_rows_are_not_all_listed(tmp_path):
    text = refused(tmp_path, "0,1\n" + "x,y\n" * 10)
    assert_wording(text)


@pytest.mark.parametrize("text", ["", "timestamp,value\n", "0,1\n"])
def test_fewer_than_two_measurements_are_no_trace(tmp_path, text):
    assert_wording(refused(tmp_path, text))


def test_a_file_that_is_not_there_or_no_text_is_said_so(tmp_path):
    with pytest.raises(UnreadableTraceError) as caught:
        read_trace(tmp_path / "nothing.csv")
    assert_wording(str(caught.value))
    with pytest.raises(UnreadableTraceError) as caught:
        trace(tmp_path, "é,1", "latin-1")
    assert_wording(str(caught.value))


def test_a_trace_of_zeros_is_not_scaled(tmp_path):
    assert trace(tmp_path, "0,0\n60,0\n").scaled(100).values == (0.0, 0.0)

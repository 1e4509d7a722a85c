"""Recorded load, made one value per minute."""

from datetime import UTC, datetime
from math import isnan

import pytest

from nodefleet_tools.backtest.traces import TraceError, by_minute, load_directory, read_csv

START = datetime(2026, 11, 2, tzinfo=UTC).timestamp()


def rows(values, step=300):
    return [(START + index * step, value) for index, value in enumerate(values)]


def test_coarse_data_is_interpolated():
    trace = by_minute("x", rows([0.0, 5.0, 5.0]), noise=0, scaled_to=None)
    assert list(trace.load) == [0, 1, 2, 3, 4, 5, 5, 5, 5, 5, 5]
    assert trace.start == datetime(2026, 11, 2, tzinfo=UTC)


def test_noise_is_seeded_and_of_its_size():
    smooth = [100.0] * 500
    first = by_minute("x", rows(smooth), noise=0.05, seed=1, scaled_to=None)
    assert by_minute("x", rows(smooth), noise=0.05, seed=1, scaled_to=None).load == first.load
    assert by_minute("x", rows(smooth), noise=0.05, seed=2, scaled_to=None).load != first.load
    mean = sum(first.load) / len(first.load)
    deviation = (sum((load - mean) ** 2 for load in first.load) / len(first.load)) ** 0.5
    assert mean == pytest.approx(100, rel=0.01)
    assert deviation == pytest.approx(5, rel=0.1)


def test_minutes_get_no_noise():
    assert list(by_minute("x", rows([1, 2, 3], 60), noise=0.05, scaled_to=None).load) == [1, 2, 3]


def test_finer_data_is_averaged_by_minute():
    assert list(by_minute("x", rows([1, 2, 3, 6], 30), noise=0, scaled_to=None).load) == [1.5, 4.5]


def test_a_gap_is_not_bridged_and_is_named():
    times = [0, 300, 600, 6000, 6300]
    trace = by_minute("x", [(START + at, 4.0) for at in times], noise=0, scaled_to=None)
    assert all(isnan(load) for load in trace.load[11:100])
    assert trace.load[100] == 4.0
    ((begin, end),) = trace.gaps
    assert (begin.minute, end.hour, end.minute) == (11, 1, 40)


def test_a_few_lost_readings_are_bridged():
    times = [0, 300, 600, 1200, 1500]
    assert not by_minute("x", [(START + at, 4.0) for at in times], noise=0, scaled_to=None).gaps


def test_the_high_percentile_becomes_its_share_of_the_largest_fleet():
    trace = by_minute("x", rows([float(value) for value in range(1000)], 60), scaled_to=5.6)
    assert sorted(trace.load)[995] == pytest.approx(5.6)


def test_the_first_week_or_half_is_history():
    assert by_minute("x", rows([1.0] * 2881, 60)).history == 1440
    assert by_minute("x", rows([1.0] * 8641)).history == 7 * 1440


def test_a_file_may_have_a_heading_and_any_usual_time(tmp_path):
    (tmp_path / "a.csv").write_text("timestamp,value\n2026-11-02T00:00:00Z,1\n2026-11-02 00:01:00,2\n1793577720,3\n")
    assert [value for _, value in read_csv(tmp_path / "a.csv")] == [1, 2, 3]
    assert load_directory(tmp_path)[0].name == "a"


def test_a_bad_line_is_named(tmp_path):
    (tmp_path / "a.csv").write_text("timestamp,value\n2026-11-02T00:00:00Z,1\nsoon,2\n")
    with pytest.raises(TraceError, match="line 3"):
        read_csv(tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"t,v\n2026-11-02T00:00:00Z,1\n2026-11-02T00:01:00Z,'0,5'\n", "has 3 columns"),
        (b't,v\n2026-11-02T00:00:00Z,1\n2026-11-02T00:01:00Z,"0,5"\n', "is not a number"),
        (b"t,v\n1793577720000000,1\n1793577780000000,2\n", "is not a time"),  # microseconds
        (b"t,v\ninf,1\n", "is not a time"),
        (b"\xff\xfe\x00", "UTF-8"),
    ],
)
def test_what_no_tool_should_have_written_is_refused_with_a_remedy(tmp_path, content, says):
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(TraceError, match=says):
        read_csv(tmp_path / "a.csv")


def test_bytes_that_csv_does_not_know_and_the_mark_of_a_spreadsheet_are_overlooked(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbf1793577720,1\n1793577780,2\x00\n")
    assert [value for _, value in read_csv(tmp_path / "a.csv")] == [1, 2]


@pytest.mark.parametrize("name", ["gone.csv", "."])
def test_a_file_that_cannot_be_read_is_named(tmp_path, name):
    with pytest.raises(TraceError, match=r"no such file|cannot be read"):
        read_csv(tmp_path / name)


@pytest.mark.parametrize("values", [[], [1.0], [0.0, 0.0, 0.0]])
def test_what_is_no_trace_is_refused(values):
    with pytest.raises(TraceError):
        by_minute("x", rows(values))


def test_a_long_file_takes_linear_time():
    trace = by_minute("x", rows([1.0 + index % 7 for index in range(125_000)]))
    assert trace.minutes > 600_000


def read(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_csv(path)


@pytest.mark.parametrize(
    "text",
    [
        b"zeit,wert\xe4\n2026-11-02T00:00:00Z,1\n",  # Latin-1
        bytes(range(256)),
        "value\n1\n2\n",  # one column
        "timestamp;value\n2026-11-02T00:00:00Z;1\n",
        "timestamp,value\nnan,1\n",
        "timestamp,value\n-inf,1\n",
    ],
)
def test_a_file_that_is_no_trace_is_refused_with_the_reason(tmp_path, text):
    with pytest.raises(TraceError, match=r"bad\.csv"):
        read(tmp_path / "bad.csv", text)


def test_a_row_without_a_value_is_missing(tmp_path):
    text = "timestamp,value\n2026-11-02T00:00:00Z,1\n2026-11-02T00:01:00Z,\n2026-11-02T00:02:00Z,NaN\n"
    assert [value for _, value in read(tmp_path / "a.csv", text)] == [1.0]


def test_one_wrong_date_does_not_make_a_trace_of_decades():
    with pytest.raises(TraceError, match="2026-11-02 to 2126"):
        by_minute("x", [*rows([1.0, 2.0, 3.0]), (START + 36_525 * 86_400, 1.0)])


def test_milliseconds_are_a_time_like_seconds(tmp_path):
    path = tmp_path / "browser.csv"
    path.write_text(f"timestamp,value\n{START * 1000:.0f},1\n{START + 60:.0f},2\n")
    assert read_csv(path) == [(START, 1.0), (START + 60, 2.0)]


def test_a_number_that_is_no_time_in_either_unit_is_refused(tmp_path):
    for far in (5e9, 1e16):  # the year 2128 or February 1970; the year 318857
        path = tmp_path / "far.csv"
        path.write_text(f"timestamp,value\n{far:.0f},1\n")
        with pytest.raises(TraceError, match="not a time"):
            read_csv(path)


def test_a_decimal_comma_does_not_cut_the_value_off(tmp_path):
    path = tmp_path / "comma.csv"
    path.write_text(f"timestamp,value\n{START:.0f},0,75\n{START + 60:.0f},0,5\n")
    with pytest.raises(TraceError, match="line 2"):
        read_csv(path)


def test_columns_after_the_value_are_not_looked_at(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text(f"timestamp,value,host\n{START:.0f},1,a\n{START + 60:.0f},2\n")
    assert [value for _, value in read_csv(path)] == [1, 2]
    path.write_text(f"timestamp,value\n{START:.0f},1,\n{START + 60:.0f},2,\n")
    assert [value for _, value in read_csv(path)] == [1, 2]


def test_readings_below_zero_are_no_load_and_are_counted():
    trace = by_minute("x", rows([1.0, -2.0, 0.0, -3.0], 60), noise=0, scaled_to=None)
    assert list(trace.load) == [1, 0, 0, 0]
    assert trace.negatives == 2

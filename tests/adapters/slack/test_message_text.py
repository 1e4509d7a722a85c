"""Nothing from outside breaks a message or mentions anybody."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodefleet.adapters.slack.message import addresses, clip, length, link, moment, period
from support.wording import assert_wording

AT = datetime(2026, 11, 16, 3, 12, 5, tzinfo=UTC)


def test_what_slack_reads_as_a_command_is_escaped():
    assert clip("a < b & c > d <!here>", 100) == "a &lt; b &amp; c &gt; d &lt;!here&gt;"


def test_what_is_escaped_already_is_escaped_again():
    assert clip("&lt;", 100) == "&amp;lt;"


@pytest.mark.parametrize("word", ["@channel", "@here", "@everyone", "@HERE"])
def test_nobody_is_mentioned_by_a_word(word):
    assert word not in clip(f"look {word} now", 100)
    assert clip(f"look {word} now", 100).replace("\u200b", "") == f"look {word} now"


def test_an_address_with_an_at_is_left_alone():
    assert clip("anna@hereford.example", 100) == "anna@hereford.example"


def test_a_long_text_says_that_it_was_cut():
    assert clip("abcdef", 4) == "abc…"
    assert clip("abcd", 4) == "abcd"


def test_an_escaped_character_is_never_cut_in_half():
    assert clip("aaa&&&", 9) == "aaa&amp;…"
    assert clip("aaa&&&", 8) == "aaa…"


def test_an_emoji_counts_as_two():
    assert length("🔴") == 2
    assert clip("🔴🔴", 3) == "🔴…"


def test_control_characters_and_halves_of_characters_become_spaces():
    assert clip("a\x00b\x1bc\ud800d\n\te", 100) == "a b c d\n\te"


@given(st.text(), st.integers(1, 60))
def test_no_text_is_longer_than_its_limit(text, limit):
    made = clip(text, limit)
    assert length(made) <= limit
    made.encode("utf-8")


def test_a_link_has_words_and_cannot_be_broken_out_of():
    assert link("Logs", "https://a.example/?x=1&y=<2>|3 4") == "<https://a.example/?x=1&amp;y=%3C2%3E%7C3%204|Logs>"
    assert link("a|b>", "https://a.example/") == "<https://a.example/|a/b&gt;>"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "logs",
        "https://",
        "https://a@b.example/",
        "https://x/" + "a" * 3000,
    ],
)
def test_what_cannot_be_clicked_is_no_link(url):
    assert link("Logs", url) == ""


@pytest.mark.parametrize(("length_", "kept"), [(2000, True), (2001, False)])
def test_a_link_is_no_longer_than_slack_takes(length_, kept):
    url = "https://a.example/"
    assert bool(link("Logs", url + "x" * (length_ - len(url)))) is kept


def test_addresses_are_found_in_a_text():
    text = "Runbook: https://wiki.example.com/a?b=1#c (or http://old.example/x), not ftp://c"
    assert addresses(text) == ["https://wiki.example.com/a?b=1#c", "http://old.example/x"]


def test_the_time_is_the_reader_s_own_and_utc():
    assert_wording(moment(AT))


def test_a_time_of_another_zone_is_the_same_moment():
    assert moment(AT.astimezone(timezone(timedelta(hours=9)))) == moment(AT)


def test_a_period_names_the_day_once():
    assert period(AT, AT) == moment(AT)
    assert period(AT, AT + timedelta(minutes=1)) == f"{moment(AT)} to 03:13:05 UTC"
    assert period(AT, AT + timedelta(days=1)) == f"{moment(AT)} to {moment(AT + timedelta(days=1))}"

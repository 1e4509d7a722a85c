import io
import json
import logging

import pytest

from nodefleet.adapters.credentials import HIDDEN, Redactor
from support.wording import assert_wording

JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJub2RlLWZsZWV0In0.c2lnbmF0dXJl"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Authorization: Bearer abcdef.ghi", "Authorization: Bearer ***"),
        ('{"Authorization": "Basic YW5hOm8="}', '{"Authorization": "Basic ***"}'),
        ("{'authorization': 'abcdef'}", "{'authorization': '***'}"),
        (r'{"message": "{\"Authorization\": \"Bearer abc\"}"}', r'{"message": "{\"Authorization\": \"Bearer ***\"}"}'),
        ("sent Bearer 0123456789abcdef, refused", "sent Bearer ***, refused"),
        ("POST https://hooks.slack.com/services/T0/B0/xyz failed", "POST https://hooks.slack.com/*** failed"),
        ("http://ana:opensesame@10.0.1.10:9090/x", "http://***@10.0.1.10:9090/x"),
        ("joined with K10" + "a" * 64 + "::server:abc", "joined with ***"),
        (f"token {JWT} expired", "token *** expired"),
        ("s3?X-Amz-Credential=AK&X-Amz-Signature=ff00&x=1", "s3?X-Amz-Credential=***&X-Amz-Signature=***&x=1"),
        ("login?user=ana&password=pw&x=1", "login?user=ana&password=***&x=1"),
        ('{"username": "ana", "password": "open sesame"}', '{"username": "ana", "password": "***"}'),
    ],
)
def test_what_looks_like_a_secret_is_hidden(text, expected):
    assert Redactor()(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "SHRINK 3 → 2: CPU 28.0 % < 30 %",
        "The bearer of bad news: basic authentication failed, check the token: it may be expired",
        "secret node-fleet/shop/prometheus: password is missing",
        "https://10.0.1.10:6443/api/v1/nodes?limit=500 and arn:aws:secretsmanager:us-east-1:1:secret:x",
        '{"operation": "launch-1", "client_token": "launch-1", "tokens": 3}',
        "ConnectTimeout: http://10.0.1.10:9090/api/v1/query, ana@example.com",
    ],
)
def test_ordinary_lines_stay_readable(text):
    assert Redactor()(text) == text


def test_a_known_secret_is_hidden_wherever_it_turns_up():
    redact = Redactor("opensesame")
    text = "the word was opensesame, was it?"
    assert redact(text) == text.replace("opensesame", HIDDEN)


def test_a_secret_is_known_as_json_and_addresses_write_it():
    word = 'p"ä\\ß/x'
    redact = Redactor()
    redact.learn(word)
    for line in (json.dumps(word), json.dumps(word, ensure_ascii=False), "p%22%C3%A4%5C%C3%9F%2Fx", word):
        assert HIDDEN in redact(line)
        assert "x" not in redact(line).replace(HIDDEN, "")


def test_what_was_learned_before_is_still_known():
    redact = Redactor("opensesame")
    redact.learn("abracadabra")
    redact.learn()
    assert redact("opensesame, abracadabra") == f"{HIDDEN}, {HIDDEN}"


@pytest.mark.parametrize(("word", "hidden"), [("abc", False), ("abcd", True)])
def test_four_characters_are_enough_to_be_told_apart(word, hidden):
    assert (Redactor(word)(f"x{word}x") == f"x{HIDDEN}x") is hidden


def test_a_secret_inside_a_longer_one_leaves_no_rest():
    assert Redactor("abcd", "abcdef")("abcdef") == HIDDEN


def test_a_secret_too_short_to_be_told_apart_does_not_blank_everything():
    text = "a plain line"
    assert Redactor("a", "")(text) == text


def test_hiding_does_not_break_json():
    line = json.dumps({"message": 'POST "https://hooks.slack.com/services/x"', "header": "Authorization: Bearer abc"})
    assert json.loads(Redactor("services")(line))


def test_what_libraries_log_is_hidden_too():
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.addFilter(Redactor("opensesame"))
    library = logging.getLogger("a-library-that-talks")
    library.addHandler(handler)
    problem = ValueError("bad header opensesame")
    library.error("retrying %s with %s", "https://hooks.slack.com/services/x", "opensesame", exc_info=problem)
    library.removeHandler(handler)
    told = stream.getvalue()
    first, *_, last = told.splitlines()
    assert_wording([first, last])
    assert "opensesame" not in told

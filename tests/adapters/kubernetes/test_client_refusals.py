"""What the API server says no to: the error that stands for it, and what to do about it."""

import json

import pytest

from nodefleet.adapters.kubernetes.client import Cause, Status, refusal_error, status_in
from nodefleet.adapters.kubernetes.resources import BUDGETS, NODES, VERSION
from nodefleet.errors import (
    ChangedError,
    DeniedError,
    LoginRefusedError,
    MisconfiguredError,
    ThrottledError,
    UnavailableError,
)
from support.sentences import is_explained
from support.wording import assert_wording

PATCH = NODES.patch("w1", {})


def said(**status):
    return json.dumps(status).encode()


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (401, LoginRefusedError),
        (403, DeniedError),
        (409, ChangedError),
        (412, ChangedError),
        (429, ThrottledError),
        (404, UnavailableError),
        (422, UnavailableError),
        (500, UnavailableError),
        (503, UnavailableError),
    ],
)
def test_each_answer_is_an_error_of_its_own_with_what_was_asked_and_the_servers_words(code, kind):
    error = refusal_error(PATCH, code, said(message="no such luck"))
    assert type(error) is kind
    assert_wording(str(error))
    assert_wording(str(error))
    if kind is not ChangedError:
        assert is_explained(error, "Kubernetes")
    if kind is UnavailableError:
        assert_wording(str(error))


@pytest.mark.parametrize(
    ("request_", "allow"),
    [
        (PATCH, "Allow patch on nodes in node-fleet's ClusterRole"),
        (BUDGETS.list(), "Allow list on poddisruptionbudgets of API group policy in node-fleet's ClusterRole"),
        (VERSION, "Allow get on the path /version"),
    ],
)
def test_a_permission_that_lacks_says_what_to_allow(request_, allow):
    assert allow in str(refusal_error(request_, 403, b""))


def test_a_login_that_is_refused_says_what_to_renew():
    error = refusal_error(PATCH, 401, said(message="Unauthorized"))
    assert isinstance(error, DeniedError | MisconfiguredError)
    assert "token" in str(error)


@pytest.mark.parametrize(("code", "words"), [(503, "Service Unavailable"), (799, "799 an answer without words")])
def test_a_server_that_says_nothing_is_quoted_by_its_status(code, words):
    assert words in str(refusal_error(PATCH, code, b""))


def test_what_the_server_says_is_cut():
    assert "x" * 300 in str(refusal_error(PATCH, 500, said(message="x" * 301)))
    assert "x" * 301 not in str(refusal_error(PATCH, 500, said(message="x" * 301)))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (said(message="busy"), "busy"),
        (b"<html>\n  busy\t now </html>", "<html> busy now </html>"),
        (b"\xff busy", "\ufffd busy"),
        (b'{"message": 7}', '{"message": 7}'),
        (b"y" * 2000, "y" * 300),
        (b" " * 900 + b"y" * 900, "y" * 300),
        (b" " * 1199 + b"yy", "y"),
        (b"", ""),
    ],
    ids=["an object", "a page", "no text", "another object", "long", "spaces", "cut before it is read", "nothing"],
)
def test_a_body_that_is_no_status_is_quoted(body, message):
    assert status_in(body).message == message


def test_a_status_tells_its_causes_and_what_it_is_about():
    status = status_in(
        said(reason="TooMany", details={"kind": "pods", "causes": [{"reason": "A"}, {"reason": "B", "message": "b"}]})
    )
    assert (status.reason, status.about) == ("TooMany", "pods")
    assert status.cause("B") == Cause(reason="B", message="b")
    assert status.cause("C") is None
    assert (Status().cause("A"), Status().about) == (None, "")

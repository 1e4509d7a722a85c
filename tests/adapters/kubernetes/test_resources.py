"""What is asked of the API server: each request with its verb, its path and what a role must allow for it."""

import pytest

from nodefleet.adapters.kubernetes.resources import BUDGETS, PODS, VERSION, Request, Resource

WIDGETS = Resource(group="example.com", version="v1beta1", plural="widgets")
BODY = {"spec": {"size": 3}}


@pytest.mark.parametrize(
    ("request_", "verb", "path"),
    [
        (PODS.list(), "list", "/api/v1/pods"),
        (PODS.list_in("web"), "list", "/api/v1/namespaces/web/pods"),
        (PODS.get("a", "web"), "get", "/api/v1/namespaces/web/pods/a"),
        (PODS.get("a"), "get", "/api/v1/pods/a"),
        (WIDGETS.patch("a", BODY, "web"), "patch", "/apis/example.com/v1beta1/namespaces/web/widgets/a"),
        (WIDGETS.delete("a", {}, "web"), "delete", "/apis/example.com/v1beta1/namespaces/web/widgets/a"),
        (WIDGETS.delete("a", {}), "delete", "/apis/example.com/v1beta1/widgets/a"),
        (WIDGETS.create(BODY, "web"), "create", "/apis/example.com/v1beta1/namespaces/web/widgets"),
        (WIDGETS.create(BODY), "create", "/apis/example.com/v1beta1/widgets"),
        (PODS.create_under("a", "eviction", BODY, "web"), "create", "/api/v1/namespaces/web/pods/a/eviction"),
        (PODS.create_under("a", "eviction", BODY), "create", "/api/v1/pods/a/eviction"),
        (BUDGETS.list(), "list", "/apis/policy/v1/poddisruptionbudgets"),
    ],
)
def test_every_request_goes_to_its_path(request_, verb, path):
    assert (request_.verb, request_.path) == (verb, path)


def test_a_request_knows_all_that_a_role_and_a_person_ask_for():
    assert WIDGETS.list(fieldSelector="a=b", limit="5") == Request(
        verb="list",
        path="/apis/example.com/v1beta1/widgets",
        group="example.com",
        resource="widgets",
        query=(("fieldSelector", "a=b"), ("limit", "5")),
    )
    assert WIDGETS.list_in("web") == Request(
        verb="list",
        path="/apis/example.com/v1beta1/namespaces/web/widgets",
        group="example.com",
        resource="widgets",
        namespace="web",
    )
    one = {
        "path": "/apis/example.com/v1beta1/namespaces/web/widgets/a",
        "group": "example.com",
        "resource": "widgets",
        "namespace": "web",
        "name": "a",
    }
    assert WIDGETS.get("a", "web") == Request(verb="get", **one)
    assert WIDGETS.patch("a", BODY, "web") == Request(verb="patch", body=BODY, **one)
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
    assert WIDGETS.delete("a", {"gracePeriodSeconds": 0}, "web") == Request(verb="delete", body=options, **one)
    assert WIDGETS.create(BODY, "web") == Request(
        verb="create",
        path="/apis/example.com/v1beta1/namespaces/web/widgets",
        group="example.com",
        resource="widgets",
        namespace="web",
        body=BODY,
    )
    under = {**one, "path": one["path"] + "/status", "resource": "widgets/status"}
    assert WIDGETS.create_under("a", "status", BODY, "web") == Request(verb="create", body=BODY, **under)


def test_a_request_without_a_namespace_has_none():
    requests = [
        PODS.list(),
        PODS.get("a"),
        PODS.patch("a", BODY),
        PODS.delete("a", {}),
        PODS.create(BODY),
        PODS.create_under("a", "eviction", BODY),
    ]
    assert {each.namespace for each in requests} == {""}
    assert [each.path.removeprefix("/api/v1/pods") for each in requests] == ["", "/a", "/a", "/a", "", "/a/eviction"]
    assert WIDGETS.list().path == "/apis/example.com/v1beta1/widgets"


def test_names_cannot_leave_their_place_in_a_path():
    assert PODS.get("../../secrets?x", "a b").path == "/api/v1/namespaces/a%20b/pods/..%2F..%2Fsecrets%3Fx"


@pytest.mark.parametrize(
    ("verb", "method", "content_type", "changes_nothing"),
    [
        ("get", "GET", "application/json", True),
        ("list", "GET", "application/json", True),
        ("create", "POST", "application/json", False),
        ("patch", "PATCH", "application/merge-patch+json", False),
        ("delete", "DELETE", "application/json", False),
    ],
)
def test_each_verb_has_its_method_and_its_kind_of_body(verb, method, content_type, changes_nothing):
    request = Request(verb=verb, path="/x")
    assert (request.method, request.content_type, request.changes_nothing) == (method, content_type, changes_nothing)


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (PODS.create_under("web-1", "eviction", BODY, "default"), "create pods/eviction default/web-1"),
        (PODS.list_in("web"), "list pods web"),
        (PODS.get("a"), "get pods a"),
        (PODS.list(), "list pods"),
        (VERSION, "get /version"),
    ],
)
def test_a_request_in_words(request_, words):
    assert str(request_) == words

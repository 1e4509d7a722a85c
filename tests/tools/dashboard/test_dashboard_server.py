"""The server as clients meet it: loopback only, signed in, from its own page, with a strict policy for content."""

import json
import re
from importlib.resources import files

import pytest

from nodefleet_tools.dashboard.server import _FILES
from support.dashboards import Browser, WorldSource, serving
from support.wording import assert_wording
from support.worlds import shop


@pytest.fixture(scope="module")
def world():
    cluster = shop()
    cluster.calm(3)
    return cluster.world


@pytest.fixture(scope="module")
def page(world):
    with serving(WorldSource(world)) as made:
        yield made


@pytest.fixture(scope="module")
def browser(page):
    return Browser(page).sign_in()


def test_it_listens_on_loopback_only(page):
    assert page._server.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize("path", ["/", "/main.js", "/api/about", "/api/updates", "/api/money"])
def test_without_the_cookie_nothing_is_served(page, path):
    answer, content = Browser(page).get(path)
    assert answer.status == 403
    assert b"nodefleet dashboard" in content


@pytest.mark.parametrize("path", ["/", "/api/about"])
def test_a_name_that_only_resolves_to_this_address_reaches_nothing(page, browser, path):
    answer, _ = browser.get(path, Host=f"evil.example:{page.session.port}")
    assert answer.status == 403


def test_the_link_cannot_be_used_by_a_second_browser(page, browser):
    assert browser.cookie
    answer, _ = Browser(page).get("/?token=guess")
    assert answer.status == 403


def test_no_inline_script_or_style_may_run(browser):
    answer, content = browser.get("/")
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert not re.search(rb"<style|style=|\son\w+=|<script(?![^>]*src=)", content)


def test_every_file_of_the_page_is_served_and_no_other(browser):
    here = {each.name for each in files("nodefleet_tools.dashboard").joinpath("static").iterdir()}
    assert here == set(_FILES) - {"chart.js"}
    for name in _FILES:
        answer, content = browser.get(f"/{name}")
        assert (answer.status, bool(content)) == (200, True)
    for name in ("server.py", "../server.py", "..%2fserver.py", "static/index.html"):
        assert browser.get(f"/{name}")[0].status == 404


def test_the_page_never_parses_html():
    for name, (package, path) in _FILES.items():
        if name.endswith(".js"):
            text = files(package).joinpath(*path.split("/")).read_text()
            assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|DOMParser", text), name


@pytest.mark.parametrize(
    "headers",
    [
        {"X-CSRF-Token": "guess"},
        {"X-CSRF-Token": ""},
        {"Origin": "https://evil.example"},
        {"Content-Type": "text/plain"},
    ],
)
def test_a_command_from_elsewhere_is_refused(world, browser, headers):
    status, _ = browser.post("/api/commands", {"kind": "pause"}, **headers)
    assert status in (403, 415)
    assert world.table.state().commands == ()


def test_a_command_is_answered_with_what_comes_of_it(world, browser):
    status, content = browser.post("/api/commands", {"kind": "pause", "minutes": 30, "reason": "migration"})
    assert status == 200
    assert_wording(content["message"])
    (pause,) = world.table.state().commands
    assert (pause.by, pause.reason) == ("ann@laptop", "migration")
    assert browser.post("/api/commands", {"kind": "resume"})[0] == 200
    assert world.table.state().commands == ()


@pytest.mark.parametrize(
    ("path", "content", "status"),
    [
        ("/api/commands", {"kind": "fly"}, 400),
        ("/api/commands", ["pause"], 400),
        ("/api/policy/check", {"text": "limits: {min: x}"}, 200),
        ("/api/policy/what-if", {"text": "limits: {min: x}"}, 400),
        ("/api/decisions/2020-01-01/replay", {}, 404),
        ("/api/nothing", {}, 404),
    ],
)
def test_what_is_wrong_is_said(browser, path, content, status):
    assert browser.post(path, content)[0] == status


def test_a_body_without_end_is_not_read(browser):
    answer, _ = browser._ask("POST", "/api/commands", None, {"Content-Length": "600000"})
    assert answer.status == 413


def test_the_table_that_does_not_answer_is_named(world, browser):
    world.away("store")
    try:
        answer, content = browser.get("/api/decisions")
        assert answer.status == 502
        assert "DynamoDB" in json.loads(content)["error"]
    finally:
        world.back("store")


def test_updates_are_streamed(page, browser):
    from http.client import HTTPConnection  # noqa: PLC0415

    page.source.refresh()
    connection = HTTPConnection("127.0.0.1", page.session.port, timeout=10)
    connection.request("GET", "/api/updates", headers={"Cookie": browser.cookie})
    answer = connection.getresponse()
    assert answer.headers["Content-Type"] == "text/event-stream"
    line = answer.readline()
    assert json.loads(line.removeprefix(b"data: "))["snapshot"]["cluster"] == "shop"
    answer.close()
    connection.close()
    page.source.refresh()  # the stream notices that its reader is gone


def test_all_that_the_page_reads_is_there(browser):
    assert {"t", "load", "pending"} <= set(browser.json("/api/timeline"))
    (row, *_) = browser.json("/api/decisions")["rows"]
    assert browser.json(f"/api/decisions/{row['id']}")["id"] == row["id"]
    assert set(browser.json("/api/money")["periods"]) == {"today", "week", "month"}
    assert browser.json("/api/policy")["version"] == 1
    assert browser.get("/api/decisions/2020-01-01")[0].status == 404

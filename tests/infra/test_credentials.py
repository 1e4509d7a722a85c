"""Dynamic providers act with the credentials that the stack's AWS provider has, and in its account only."""

import json

import boto3
import pytest
from moto import mock_aws
from pulumi.dynamic import Config, ConfigureRequest

from nodefleet_infra.credentials import Access, CredentialsError, access_from, check_account
from nodefleet_infra.service_roles import ServiceRoleProvider
from nodefleet_infra.teardown import SweepProvider
from support.ec2_fakes import isolate
from support.wording import assert_wording

OTHER = "111111111111"
ROLE = f"arn:aws:iam::{OTHER}:role/deployer"
REGION = "eu-west-1"


def configured(**settings):
    """As the engine hands the stack's configuration over: every value is text."""
    raw = {f"aws:{key}": value if isinstance(value, str) else json.dumps(value) for key, value in settings.items()}
    return ConfigureRequest(
        config=Config(raw_config={**raw, "node-fleet:production": "true"}, project_name="node-fleet")
    )


@pytest.fixture
def aws(monkeypatch, tmp_path):
    isolate(monkeypatch, tmp_path)
    with mock_aws():
        yield tmp_path


def account_of(access):
    return access.client(access.session(REGION), "sts").get_caller_identity()["Account"]


def test_without_settings_the_environments_credentials_count(aws):
    access = access_from(configured(region=REGION))
    assert access == Access()
    assert access.checked(REGION, "123456789012").region_name == REGION


def test_keys_of_the_configuration_outweigh_the_environment(aws):
    access = access_from(configured(accessKey="AKIAOTHER", secretKey="s3cret", token="t0ken"))  # noqa: S106  # nobody's
    found = access.session(REGION).get_credentials()
    assert (found.access_key, found.secret_key, found.token) == ("AKIAOTHER", "s3cret", "t0ken")


def test_a_profile_is_read_from_the_files_that_the_configuration_names(aws):
    files = {"sharedConfigFiles": aws / "their-config", "sharedCredentialsFiles": aws / "their-credentials"}
    files["sharedConfigFiles"].write_text("[profile prod]\nregion = eu-north-1\n")
    files["sharedCredentialsFiles"].write_text("[prod]\naws_access_key_id = AKIAPROD\naws_secret_access_key = x\n")
    access = access_from(configured(profile="prod", **{key: [str(file)] for key, file in files.items()}))
    session = access.session(REGION)
    assert session.get_credentials().access_key == "AKIAPROD"
    assert session.region_name == REGION


def test_several_files_are_refused_rather_than_half_followed(aws):
    with pytest.raises(CredentialsError, match="sharedConfigFiles"):
        access_from(configured(sharedConfigFiles=["a", "b"])).session(REGION)


@pytest.mark.parametrize("settings", [{"assumeRoles": [{"roleArn": ROLE}]}, {"assumeRole": {"roleArn": ROLE}}])
def test_a_role_is_assumed(aws, settings):
    assert account_of(access_from(configured(**settings))) == OTHER


def test_roles_are_assumed_one_after_the_other(aws):
    first = "arn:aws:iam::222222222222:role/hub"
    assert account_of(access_from(configured(assumeRoles=[{"roleArn": first}, {"roleArn": ROLE}]))) == OTHER


def test_a_token_of_another_identity_provider_is_exchanged(aws):
    (aws / "token").write_text("eyJhbGciOi\n")
    web = {"roleArn": ROLE, "webIdentityTokenFile": str(aws / "token")}
    assert account_of(access_from(configured(assumeRoleWithWebIdentity=web))) == OTHER
    web = {"roleArn": ROLE, "webIdentityToken": "eyJhbGciOi"}
    assert account_of(access_from(configured(assumeRoleWithWebIdentity=web))) == OTHER


def test_everything_that_a_role_is_assumed_with_is_passed_on(aws, monkeypatch):
    asked = {}

    class Sts:
        def assume_role(self, **parameters):
            asked.update(parameters)
            return {"Credentials": {"AccessKeyId": "a", "SecretAccessKey": "b", "SessionToken": "c"}}

    monkeypatch.setattr(Access, "client", lambda *_: Sts())
    role = {
        "roleArn": ROLE,
        "sessionName": "ci",
        "externalId": "x-1",
        "duration": "1h30m5s",
        "policy": "{}",
        "policyArns": ["arn:aws:iam::aws:policy/ReadOnlyAccess"],
        "sourceIdentity": "me",
        "tags": {"team": "shop"},
        "transitiveTagKeys": ["team"],
    }
    access_from(configured(assumeRoles=[role])).session(REGION)
    assert asked == {
        "RoleArn": ROLE,
        "RoleSessionName": "ci",
        "ExternalId": "x-1",
        "DurationSeconds": 5405,
        "Policy": "{}",
        "PolicyArns": [{"arn": "arn:aws:iam::aws:policy/ReadOnlyAccess"}],
        "SourceIdentity": "me",
        "Tags": [{"Key": "team", "Value": "shop"}],
        "TransitiveTagKeys": ["team"],
    }
    with pytest.raises(CredentialsError, match="fortnight"):
        access_from(configured(assumeRoles=[{"roleArn": ROLE, "duration": "fortnight"}])).session(REGION)


def test_a_service_is_called_where_the_stacks_provider_calls_it(aws):
    access = access_from(configured(endpoints=[{"ec2": "https://ec2.example.com"}]))
    session = access.session(REGION)
    assert access.client(session, "ec2").meta.endpoint_url == "https://ec2.example.com"
    assert access.client(session, "sts").meta.endpoint_url.endswith("amazonaws.com")


@pytest.mark.parametrize("provider", [SweepProvider, ServiceRoleProvider])
def test_the_dynamic_providers_take_up_the_stacks_configuration(provider):
    made = provider()
    made.configure(configured(profile="prod"))
    assert made.access.settings == {"profile": "prod"}
    assert provider.access == Access()  # of this one only


def test_another_account_is_named_with_what_to_do(aws):
    sts = boto3.client("sts")
    check_account(sts, "123456789012")
    with pytest.raises(CredentialsError, match=r"123456789012.*999999999999.*aws:profile"):
        check_account(sts, "999999999999")
    with pytest.raises(CredentialsError) as caught:
        check_account(sts, None)
    assert_wording(str(caught.value))

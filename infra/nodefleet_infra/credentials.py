"""The stack's own AWS credentials, for the parts of the program that call AWS themselves.

Pulumi's AWS provider takes its credentials from the stack's configuration (`aws:profile`, `aws:accessKey`,
`aws:assumeRoles` …) and otherwise from the environment. Dynamic providers run in a process of their own that knows only
the environment, so they would act in whichever account the shell happens to be logged in to. They are handed the
stack's configuration (`ResourceProvider.configure`), from which the same credentials are made here. Nothing of it is
stored with a resource; a resource stores the account in which it was made, and nothing is done in another one.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pulumi.dynamic import ConfigureRequest

NAMESPACE = "aws"
# What the provider understands of credentials; `assumeRole` is how earlier versions of it spelt a chain of one.
_TEXTS = ("accessKey", "secretKey", "token", "profile")
_TABLES = (
    "assumeRoles",
    "assumeRole",
    "assumeRoleWithWebIdentity",
    "sharedConfigFiles",
    "sharedCredentialsFiles",
    "endpoints",
)
_ROLE = {  # the provider's names and STS's
    "roleArn": "RoleArn",
    "sessionName": "RoleSessionName",
    "externalId": "ExternalId",
    "policy": "Policy",
    "sourceIdentity": "SourceIdentity",
    "transitiveTagKeys": "TransitiveTagKeys",
}
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
SESSION_NAME = "node-fleet"


class CredentialsError(Exception):
    """Says what to do; nothing was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How the stack reaches AWS."""

    settings: Mapping[str, Any] = field(default_factory=dict)  # of `aws:`, decoded; empty: the environment's

    def session(self, region: str) -> Any:
        """A boto3 session. CredentialsError if the settings cannot be followed."""
        import boto3  # type: ignore[import-untyped]  # noqa: PLC0415  # only `up` and `destroy` need it
        import botocore.session  # type: ignore[import-untyped]  # noqa: PLC0415

        given = self.settings
        core = botocore.session.Session(profile=given.get("profile") or None)
        for key, variable in (("sharedConfigFiles", "config_file"), ("sharedCredentialsFiles", "credentials_file")):
            if files := given.get(key):
                core.set_config_variable(variable, _only(key, files))
        session = boto3.Session(
            aws_access_key_id=given.get("accessKey") or None,
            aws_secret_access_key=given.get("secretKey") or None,
            aws_session_token=given.get("token") or None,
            region_name=region,
            botocore_session=core,
        )
        if web := given.get("assumeRoleWithWebIdentity"):
            session = self._assumed(session, "assume_role_with_web_identity", {**_role(web), **_web_token(web)}, region)
        for role in _roles(given):
            session = self._assumed(session, "assume_role", _role(role), region)
        return session

    def client(self, session: Any, service: str) -> Any:
        """At the address that the stack's provider uses for this service."""
        addresses = [each[service] for each in self.settings.get("endpoints") or () if each.get(service)]
        return session.client(service, endpoint_url=addresses[0] if addresses else None)

    def checked(self, region: str, account: object) -> Any:
        """A session in this account; CredentialsError in any other."""
        session = self.session(region)
        check_account(self.client(session, "sts"), account)
        return session

    def _assumed(self, session: Any, call: str, parameters: Mapping[str, Any], region: str) -> Any:
        import boto3  # noqa: PLC0415

        made = getattr(self.client(session, "sts"), call)(**parameters)["Credentials"]
        return boto3.Session(
            aws_access_key_id=made["AccessKeyId"],
            aws_secret_access_key=made["SecretAccessKey"],
            aws_session_token=made["SessionToken"],
            region_name=region,
        )


def check_account(sts: Any, account: object) -> None:
    """CredentialsError unless the credentials are those of this account."""
    if not account:
        raise CredentialsError(
            "the stack's state does not say in which account this was made: it was written by an earlier release."
            " Run `pulumi up` once with this one, then try again"
        )
    identity = sts.get_caller_identity()
    if identity["Account"] != account:
        raise CredentialsError(
            f"these credentials ({identity['Arn']}) are for the account {identity['Account']}, and this stack is in"
            f" {account}: nothing was changed. Log in to {account}, or set aws:profile or aws:assumeRoles in the"
            " stack's configuration, and start again"
        )


def access_from(request: ConfigureRequest) -> Access:
    """From the stack's configuration as Pulumi hands it to a dynamic provider: text, tables and lists as JSON."""
    found: dict[str, Any] = {}
    for key in (*_TEXTS, *_TABLES):
        value = request.config.get(f"{NAMESPACE}:{key}")
        if value:
            found[key] = json.loads(value) if key in _TABLES and isinstance(value, str) else value
    return Access(settings=found)


def _roles(given: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """One after the other: each is assumed with the credentials of the one before."""
    return [*(given.get("assumeRoles") or ()), *([given["assumeRole"]] if given.get("assumeRole") else ())]


def _role(given: Mapping[str, Any]) -> dict[str, Any]:
    parameters: dict[str, Any] = {"RoleSessionName": SESSION_NAME}
    parameters |= {theirs: given[ours] for ours, theirs in _ROLE.items() if given.get(ours)}
    if given.get("duration"):
        parameters["DurationSeconds"] = _seconds(given["duration"])
    if given.get("policyArns"):
        parameters["PolicyArns"] = [{"arn": arn} for arn in given["policyArns"]]
    if given.get("tags"):
        parameters["Tags"] = [{"Key": key, "Value": value} for key, value in given["tags"].items()]
    return parameters


def _web_token(given: Mapping[str, Any]) -> dict[str, str]:
    if given.get("webIdentityToken"):
        return {"WebIdentityToken": given["webIdentityToken"]}
    return {"WebIdentityToken": Path(given["webIdentityTokenFile"]).read_text(encoding="utf-8").strip()}


def _seconds(duration: str) -> int:
    """As Go writes durations: 1h30m."""
    found = _DURATION.fullmatch(duration)
    if not duration or not found:
        raise CredentialsError(f"aws:assumeRoles: {duration!r} is not a duration such as 1h or 90m")
    hours, minutes, seconds = (int(each or 0) for each in found.groups())
    return (hours * 60 + minutes) * 60 + seconds


def _only(key: str, files: Any) -> str:
    """botocore reads one file of each kind."""
    if len(files) != 1:
        raise CredentialsError(f"aws:{key} names {len(files)} files; node-fleet's own calls follow one only")
    return str(files[0])

"""What options and the environment must say before anything is reached. All that is missing is named at once."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from nodefleet.adapters.credentials import MetricsLogin
from nodefleet.errors import MisconfiguredError
from nodefleet.model.serialization import nearest
from nodefleet.settings import CLUSTERS, REGISTRY, TABLE
from nodefleet_tools.cli.options import CLUSTER

KUBECONFIG = "KUBECONFIG"
PROMETHEUS_URL = "PROMETHEUS_URL"
PROMETHEUS_USERNAME = "PROMETHEUS_USERNAME"
PROMETHEUS_PASSWORD = "PROMETHEUS_PASSWORD"  # noqa: S105  # the variable's name
PROMETHEUS_TOKEN = "PROMETHEUS_TOKEN"  # noqa: S105
_REGION = "AWS_REGION"


class InputError(Exception):
    """What was asked cannot be done like this; says what would be right."""


class NotFoundError(InputError):
    """What was named, a worker or a version, is not there."""


def the_cluster(given: str, environment: Mapping[str, str]) -> str:
    """The one that was given, else the only one there is; empty if none is stated."""
    known = clusters_in(environment)
    return given or (known[0] if len(known) == 1 else "")


def clusters_in(environment: Mapping[str, str]) -> list[str]:
    """None where a registry says which there are."""
    if environment.get(CLUSTERS, "").strip() == REGISTRY:
        return []
    return [name.strip() for name in environment.get(CLUSTERS, "").split(",") if name.strip()]


def region_in(environment: Mapping[str, str]) -> str | None:
    """boto3 itself only reads AWS_DEFAULT_REGION and the profile; every other tool of AWS reads this one too."""
    return environment.get(_REGION, "").strip() or None


def metrics_login(environment: Mapping[str, str]) -> MetricsLogin | None:
    """Prometheus's login, if the environment has one; MisconfiguredError if it has half of one."""
    names = {"username": PROMETHEUS_USERNAME, "password": PROMETHEUS_PASSWORD, "token": PROMETHEUS_TOKEN}
    given = {field: environment.get(name, "").strip() for field, name in names.items()}
    return MetricsLogin(**given) if any(given.values()) else None


def checked(cluster: str, table: str, environment: Mapping[str, str], *, needs_table: bool) -> None:
    """An InputError that lists everything that is missing or wrong, and how to give it."""
    problems = [
        *_cluster_problems(cluster, environment),
        *([] if table or not needs_table else [f"the state table: give --table NAME, or set {TABLE}"]),
        *_aws_problems(environment),
        *_kubeconfig_problems(environment),
        *_prometheus_problems(environment),
    ]
    if problems:
        raise InputError("\n".join(["Something is missing or wrong:", *(f"  - {problem}" for problem in problems)]))


def _cluster_problems(cluster: str, environment: Mapping[str, str]) -> Iterator[str]:
    known = clusters_in(environment)
    if not cluster:
        which = f" (one of {', '.join(known)})" if known else ""
        yield f"the cluster: give --cluster NAME{which}, or set {CLUSTER}"
    elif known and cluster not in known:
        yield f"the cluster: there is no {cluster} among {CLUSTERS}, {nearest(cluster, known)}"


def _aws_problems(environment: Mapping[str, str]) -> Iterator[str]:
    import boto3  # type: ignore[import-untyped]  # noqa: PLC0415  # slow to import
    from botocore.exceptions import BotoCoreError  # type: ignore[import-untyped]  # noqa: PLC0415

    try:
        boto = boto3.Session(region_name=region_in(environment))
        if boto.region_name is None:
            yield f"the AWS region: set {_REGION}, or AWS_PROFILE to a profile that has one"
        if boto.get_credentials() is None:
            yield "AWS credentials: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    except BotoCoreError as problem:
        yield f"AWS credentials: {' '.join(str(problem).split())}"


def _kubeconfig_problems(environment: Mapping[str, str]) -> Iterator[str]:
    """kubectl takes several files there and passes over those that do not exist."""
    files = [part for part in environment.get(KUBECONFIG, "").strip().split(os.pathsep) if part]
    if files and not any(Path(part).expanduser().is_file() for part in files):
        yield f"{KUBECONFIG}: there is no file {' or '.join(files)}"
    for part in filter(os.path.isfile, map(os.path.expanduser, files)):
        if not _is_kubeconfig(Path(part)):
            yield f"{KUBECONFIG}: {part} is no kubeconfig that can be read; try it with: kubectl config view"


def _is_kubeconfig(path: Path) -> bool:
    import yaml  # noqa: PLC0415  # only where there is one

    try:
        return isinstance(yaml.safe_load(path.read_text(encoding="utf-8")) or {}, dict)
    except (OSError, ValueError, yaml.YAMLError):
        return False


def _prometheus_problems(environment: Mapping[str, str]) -> Iterator[str]:
    names = f"{PROMETHEUS_USERNAME} and {PROMETHEUS_PASSWORD}, or {PROMETHEUS_TOKEN}"
    try:
        metrics_login(environment)
    except MisconfiguredError as problem:
        yield f"Prometheus's login: {problem}; set {names}"

"""Authorisation, decided by a real API server: the autoscaler needs all of the role that `infra/` ships and no more,
and a right that is missing is named where operators look."""

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
from typer.testing import CliRunner

from e2e.authorised import NEEDED_RIGHTS, USER, AuthorisedCluster, Right, authorised_cluster
from e2e.authorised_fleet import Fleet
from nodefleet.adapters.kubernetes.resources import Request
from nodefleet.handlers import FUNCTION
from nodefleet_tools.cli import doctor as command
from nodefleet_tools.cli import main
from support.deployed import Deployed, account, deployed
from support.function_output import Printed
from support.moto_over_http import moto_over_http

__all__ = ["account", "deployed"]

VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "impersonate", "bind")
PARTIAL = 3  # as the alarm counts


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AuthorisedCluster]:
    with authorised_cluster(tmp_path_factory.mktemp("parts")) as made:
        yield made


@pytest.fixture
def fleet(cluster: AuthorisedCluster, deployed: Deployed, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    made = Fleet(deployed, cluster)
    made.pods_of_every_kind()
    made.please_doctor()
    monkeypatch.delenv("KUBECONFIG", raising=False)
    # AWS's clients are expensive to make.
    monkeypatch.setattr(command.QuietConnection, "session", FUNCTION.shared.session, raising=False)
    yield made
    made.close()


def doctor() -> Any:
    return CliRunner().invoke(main.app, ["doctor"], env={"COLUMNS": "200"})


def allow(right: Right) -> str:
    """What operators are told to do."""
    return f"Allow get on the path {right.resource}" if right.is_path else f"Allow {right} in node-fleet's ClusterRole"


# ── all of it ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_life_needs_every_right_of_the_role_and_no_other(
    fleet: Fleet, cluster: AuthorisedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the server's own audit log, from a quiet iteration to a node that is forgotten, and what `doctor` asks."""
    cluster.audited()
    fleet.look()
    done = doctor()
    assert done.exit_code == 0, done.stdout
    assert "✓ Kubernetes role: the role allows everything that is needed" in done.stdout
    fleet.warn()
    fleet.somebody_uncordons()
    fleet.warn()  # so that the same is said on the node again
    fleet.force()
    fleet.machine_ends()
    printed = Printed.since(capsys)
    assert max(printed.metrics["DegradationLevel"]) < PARTIAL
    used = cluster.audited()
    assert [each.right for each in used if not each.allowed] == []
    assert {each.right for each in used} == {*cluster.rights}


# ── and no more ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_of_all_that_the_server_knows_the_account_may_do_what_the_role_says_and_nothing_else(
    cluster: AuthorisedCluster,
) -> None:
    every = {Right(verb, resource, group) for group, resource in everything(cluster) for verb in VERBS}
    every |= {Right("get", path) for path in ("/version", "/metrics", "/logs", "/api", "/openapi/v2", "/healthz")}
    assert len(every) > 1000
    assert {right for right in every if cluster.may(right)} == {*cluster.rights}


def everything(cluster: AuthorisedCluster) -> Iterator[tuple[str, str]]:
    """Group and resource, subresources among them; and what has rights but no objects."""
    admin = cluster.admin
    groups = admin.do(Request(verb="get", path="/apis"))["groups"]
    paths = ["/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups)]
    for path in paths:
        found = admin.do(Request(verb="get", path=path))
        group = found["groupVersion"].rpartition("/")[0]
        yield from ((group, each["name"]) for each in found["resources"])
    yield from (("", name) for name in ("users", "groups", "serviceaccounts"))


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("GET", "/api/v1/secrets", {}),
        ("GET", "/api/v1/namespaces/node-fleet/configmaps", {}),
        ("POST", "/api/v1/namespaces/node-fleet/serviceaccounts/autoscaler/token", {}),
        ("GET", "/api/v1/nodes/worker-1/proxy/metrics", {}),
        ("PATCH", "/api/v1/nodes/worker-1/status", {}),
        ("PUT", "/api/v1/nodes/worker-1", {}),
        ("DELETE", "/api/v1/nodes", {}),
        ("GET", "/api/v1/namespaces/shop/pods/web/log", {}),
        ("POST", "/api/v1/namespaces/shop/pods/web/exec?command=id", {}),
        ("POST", "/api/v1/namespaces/shop/pods", {}),
        ("PATCH", "/api/v1/namespaces/shop/pods/web", {}),
        ("DELETE", "/api/v1/namespaces/shop/pods", {}),
        ("POST", "/apis/apps/v1/namespaces/shop/deployments", {}),
        ("DELETE", "/apis/apps/v1/namespaces/shop/deployments/web", {}),
        ("DELETE", "/apis/policy/v1/namespaces/shop/poddisruptionbudgets/web", {}),
        ("PATCH", "/apis/rbac.authorization.k8s.io/v1/clusterroles/node-fleet-autoscaler", {}),
        ("GET", "/api/v1/nodes", {"Impersonate-User": "admin"}),
        ("GET", "/api/v1/nodes", {"Impersonate-User": USER, "Impersonate-Group": "system:masters"}),
    ],
    ids=str,
)
def test_what_nobody_granted_is_refused(
    cluster: AuthorisedCluster, tmp_path: Path, method: str, path: str, headers: dict[str, str]
) -> None:
    authority = tmp_path / "ca.crt"
    authority.write_text(cluster.admin.ca)
    said = requests.request(
        method,
        cluster.admin.server + path,
        headers={"Authorization": f"Bearer {cluster.token()}", **headers},
        json={},
        verify=str(authority),
        timeout=10,
    )
    assert (said.status_code, f'User "{USER}" cannot ' in said.json()["message"]) == (403, True), said.text


# ── what is missing is named ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("right", NEEDED_RIGHTS, ids=str)
def test_a_right_that_is_taken_away_is_named_by_doctor_and_reported_by_runs(
    right: Right, fleet: Fleet, cluster: AuthorisedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    with cluster.without(right):
        done = doctor()
        assert (done.exit_code, done.stdout.count(allow(right)) >= 1) == (1, True), done.stdout
        Printed.since(capsys)
        happens(right, fleet)
        assert_reported(right, fleet, Printed.since(capsys))


def happens(right: Right, fleet: Fleet) -> None:
    """What needs this right."""
    match right:
        case Right("list") | Right("get", "replicasets"):
            fleet.look()
        case Right("delete", "pods"):
            fleet.warn()
            fleet.force()
        case Right("delete", "nodes"):
            fleet.warn()
            fleet.machine_ends()
        case Right("get" | "create", "pods" | "pods/eviction"):
            fleet.warn()  # the node is cordoned in the first iteration, and drained in the next
            fleet.look()
        case Right("get" | "patch", "events"):
            fleet.warn()
            fleet.somebody_uncordons()
            fleet.warn()
        case _:
            fleet.warn()


def assert_reported(right: Right, fleet: Fleet, printed: Printed) -> None:
    told, words = fleet.told(), allow(right)
    match right:
        case Right("list", "storageclasses" | "csinodes" | "jobs" | "leases"):
            # A role of an older release: a claim without a volume is taken to wait for its pod, nodes to attach any
            # number of volumes, a Job to be there, and a kubelet to be silent since its node is not ready, and all else
            # goes on.
            assert max(printed.metrics["DegradationLevel"]) < PARTIAL
        case Right("list") | Right("get", "replicasets"):
            assert words in told["degraded"][0]
            assert printed.metrics["DegradationLevel"] == [PARTIAL]
        case Right(_, "events"):
            # What is said on a node is for operators who look at it: the work itself goes on.
            assert any(words in line["message"] for line in printed.lines if line["level"] == "WARNING")
            assert fleet.cordoned()
        case Right(_, "selfsubjectaccessreviews" | "/version"):
            assert not printed.says(words)  # only `doctor` asks
            assert "permission" not in told
        case _:
            assert any(words in text for text in told["permission"])
            assert sum(printed.metrics["ScalingFailures"]) > 0


def test_an_expired_token_is_reported_and_its_successor_taken_up_by_a_warm_function(
    fleet: Fleet, cluster: AuthorisedCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.log_in(cluster.expired_token())
    fleet.look()
    words = "The token is not accepted: renew it where it is kept"
    assert words in fleet.told()["degraded"][0]
    assert Printed.since(capsys).metrics["DegradationLevel"] == [PARTIAL]
    done = doctor()
    assert (done.exit_code, words in done.stdout) == (1, True), done.stdout
    fleet.publish(cluster.token())
    monkeypatch.setattr("nodefleet.adapters.aws.secrets.ASK_AGAIN_AFTER", timedelta(0))
    fleet.look()
    assert Printed.since(capsys).metrics["DegradationLevel"][-1] < PARTIAL


# ── in a terminal ────────────────────────────────────────────────────────────────────────────────────────────────


def test_in_a_terminal_doctor_says_what_is_missing_and_ends_with_one(
    fleet: Fleet, cluster: AuthorisedCluster, tmp_path: Path
) -> None:
    """As an operator runs it on a laptop: a process of its own, KUBECONFIG, and no secret."""
    command = [str(Path(sys.executable).parent / "nodefleet"), "doctor"]
    lost = Right("create", "pods/eviction")
    with moto_over_http() as aws:
        environment = {
            **os.environ,
            "AWS_ENDPOINT_URL": aws.address,
            "KUBECONFIG": str(cluster.kubeconfig(tmp_path / "kubeconfig")),
            "PROMETHEUS_URL": fleet.site.prometheus.address,
            "COLUMNS": "200",
        }
        with cluster.without(lost):
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 1
    assert done.stderr == ""
    (found,) = [line for line in done.stdout.splitlines() if line.startswith("✗ Kubernetes")]
    why = "which it needs to drain a node as its budgets allow"
    assert found == f"✗ Kubernetes role: the role may not create pods/eviction, {why} → {allow(lost)}"

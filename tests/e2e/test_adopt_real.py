"""docs/adopt.md line by line, as an operator types it: a process for each command, and a real API server.

AWS is moto's over HTTP (DynamoDB Local knows no backups, which `init` switches on), Prometheus is a stand-in. After it,
the loop runs as the ServiceAccount of the `rbac.yaml` that `init` wrote: the real API server judges whether its rights
are enough.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from kubernetes import client, utils
from kubernetes.config import new_client_from_config

from e2e.parts.running import RunningParts, running
from nodefleet import settings
from support.adopting import (
    FOLLOWED,
    label_readings,
    lines_of_page,
    machines_of_k3s,
    take_dry_run_out,
    variables,
)
from support.deployed import Deployed, account, deployment
from support.moto_over_http import moto_over_http

__all__ = ["account"]

NODEFLEET = str(Path(sys.executable).parent / "nodefleet")


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningParts]:
    with running("apiserver", folder=tmp_path_factory.mktemp("parts")) as made:
        yield made


@pytest.fixture
def shop(account: None, parts: RunningParts, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Deployed]:
    """A cluster that nothing of ours has touched: its nodes are in the API server, its machines in EC2."""
    with deployment(monkeypatch, tmp_path, clusters=1) as deployed:
        for name in (settings.CLUSTERS, settings.TABLE, settings.BUCKET, settings.SLACK):
            monkeypatch.delenv(name, raising=False)
        api = client.CoreV1Api(new_client_from_config(str(parts.kubeconfig)))
        for node in machines_of_k3s(deployed):
            del node["metadata"]["creationTimestamp"]
            api.create_node(node)
            api.patch_node_status(node["metadata"]["name"], {"status": node["status"]})
        label_readings(deployed)
        yield deployed


def with_token_of(kubeconfig: Path, namespace: str, name: str) -> dict[str, object]:
    """The same cluster, as this ServiceAccount."""
    api = client.CoreV1Api(new_client_from_config(str(kubeconfig)))
    asked = client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=[], expiration_seconds=3600))
    token = api.create_namespaced_service_account_token(name, namespace, asked).status.token
    plain = yaml.safe_load(kubeconfig.read_text())
    plain["users"] = [{"name": each["name"], "user": {"token": token}} for each in plain["users"]]
    return plain


def test_the_page_is_followed_on_a_real_control_plane(shop: Deployed, parts: RunningParts, tmp_path: Path) -> None:
    followed, said = [], {}
    with moto_over_http() as aws:
        environment = {
            **os.environ,
            "AWS_ENDPOINT_URL": aws.address,
            "COLUMNS": "200",
        }

        def types(*words: str) -> str:
            done = subprocess.run(  # noqa: S603
                [NODEFLEET, *words], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
            return done.stdout

        for words in lines_of_page(shop.site.prometheus.address):
            if words[0] == "export":
                environment |= variables(words, parts.kubeconfig)
                continue
            if words[:3] == ["nodefleet", "policy", "apply"]:
                take_dry_run_out(tmp_path / words[3])
            said[words[1]] = types(*words[1:])
            followed.append(words[1])
        assert followed == FOLLOWED
        assert "dry run" in said["run"]

        manifests = tmp_path / "node-fleet/rbac.yaml"
        utils.create_from_yaml(new_client_from_config(str(parts.kubeconfig)), str(manifests))
        (account,) = (
            each["metadata"]
            for each in yaml.safe_load_all(manifests.read_text())
            if each and each["kind"] == "ServiceAccount"
        )
        narrow = tmp_path / "narrow.yaml"
        narrow.write_text(yaml.safe_dump(with_token_of(parts.kubeconfig, account["namespace"], account["name"])))
        environment["KUBECONFIG"] = str(narrow)
        assert "dry run" not in types("run", "--once")
    running_now = [
        each
        for reservation in shop.client("ec2").describe_instances()["Reservations"]
        for each in reservation["Instances"]
        if any(tag["Key"] == "node-fleet:pool" for tag in each.get("Tags", ()))
    ]
    assert running_now, "without dry_run the next run restores limits.min"

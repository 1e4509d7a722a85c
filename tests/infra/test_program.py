"""The program as a whole: every resource tagged and encrypted, none public, nothing secret told, nothing done twice."""

import base64
import importlib
import json
import re
import shutil
import subprocess
from pathlib import Path
from unittest import mock

import boto3
import pulumi
import pytest
import yaml

from nodefleet.model.names import ROLE_SERVER, ROLE_WORKER, TAG_CLUSTER, TAG_POOL, TAG_ROLE
from nodefleet.model.serialization import ValidationError
from nodefleet_infra import artefacts
from nodefleet_infra.service_roles import SERVICES
from support.infra_mocks import (
    DEV,
    PRODUCTION,
    ROOT,
    declared,
    deployed_stack,
    stack_in_an_existing_network,
    unusual_stack,
)
from support.wording import assert_wording

ALL = ["dev", "production", "unusual", "existing"]
GOOD = {
    "aws:region": "ap-southeast-1",
    "node-fleet:network": {"zones": ["ap-southeast-1a", "ap-southeast-1b"]},
    "node-fleet:clusters": [{"name": "shop"}],
}


@pytest.fixture(params=ALL)
def graph(request):
    return {
        "dev": lambda: deployed_stack(DEV),
        "production": lambda: deployed_stack(PRODUCTION),
        "unusual": unusual_stack,
        "existing": stack_in_an_existing_network,
    }[request.param]()


def class_of(made):
    """The provider's own class of a resource: aws:lambda/function:Function → pulumi_aws.lambda_.Function."""
    _, module, name = made.type.split(":")
    module = module.split("/")[0]
    return getattr(importlib.import_module(f"pulumi_aws.{'lambda_' if module == 'lambda' else module}"), name)


def aws(graph):
    return [each for each in graph.made if each.type.startswith("aws:")]


# ── what everything has ──────────────────────────────────────────────────────────────────────────────────────────


def test_everything_that_can_be_tagged_is(graph):
    for each in aws(graph):
        if hasattr(class_of(each), "tags"):
            assert each.tags.get("Project") == "node-fleet", each.urn
            assert each.tags.get("Stack"), each.urn
            assert each.tags.get("ManagedBy") == "pulumi", each.urn


def test_tags_of_the_configuration_are_on_everything():
    assert {each.tags["CostCenter"] for each in aws(deployed_stack(PRODUCTION)) if hasattr(class_of(each), "tags")} == {
        "shop"
    }


def test_disks_are_encrypted(graph):
    for server in graph.of("ec2/instance:Instance"):
        assert server.inputs["rootBlockDevice"]["encrypted"] is True
        assert not server.inputs.get("ebsBlockDevices")
    for template in graph.of("LaunchTemplate"):
        for disk in template.inputs["blockDeviceMappings"]:
            assert disk["ebs"]["encrypted"] == "true"


def test_machines_are_reached_by_session_manager_and_their_roles_by_nobody_else(graph):
    for machine in (*graph.of("ec2/instance:Instance"), *graph.of("LaunchTemplate")):
        assert "keyName" not in machine.inputs
        assert machine.inputs["metadataOptions"]["httpTokens"] == "required"
        assert machine.inputs["metadataOptions"]["httpPutResponseHopLimit"] == 1


def test_servers_and_workers_are_told_apart_by_tags(graph):
    clusters = set(graph.exports["clusters"])
    servers = [each.tags for each in graph.of("ec2/instance:Instance")]
    assert {tags[TAG_CLUSTER] for tags in servers} == clusters
    assert {tags[TAG_ROLE] for tags in servers} == {ROLE_SERVER}
    for template in graph.of("LaunchTemplate"):
        for spec in template.inputs["tagSpecifications"]:
            assert spec["tags"][TAG_ROLE] == ROLE_WORKER
            assert spec["tags"][TAG_CLUSTER] in clusters
            assert spec["tags"][TAG_POOL]


def test_a_template_is_launched_by_its_number(graph):
    for item in graph.of("TableItem"):
        body = json.loads(json.loads(item.inputs["item"])["body"]["S"])
        for target in body.get("targets", []):
            assert target.get("template_version", "1").isdigit()


def test_no_policy_grants_every_action_or_names_everybody(graph):
    documents = [json.loads(each.inputs["policy"]) for each in graph.made if isinstance(each.inputs.get("policy"), str)]
    assert documents
    for document in documents:
        for statement in document["Statement"]:
            actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
            if statement["Effect"] == "Allow":
                assert "*" not in actions
                assert statement.get("Principal") != "*"
                owner = statement.get("Principal", {}).get("AWS", "").endswith(":root")
                assert owner or not [action for action in actions if action.endswith(":*")]


# ── nothing secret ───────────────────────────────────────────────────────────────────────────────────────────────


def _texts(graph):
    for each in graph.made:
        data = each.inputs.get("userData")
        if data:
            yield f"user data of {each.name}", data if data.startswith("#") else base64.b64decode(data).decode()
        if each.type.endswith("BucketObjectv2"):
            yield f"object {each.name}", each.inputs["content"]
        for name, value in (each.inputs.get("environment") or {}).get("variables", {}).items():
            yield f"{name} of {each.name}", value
    yield "outputs", json.dumps(graph.exports)


def test_no_secret_stands_in_user_data_environment_or_outputs(graph):
    secret = re.compile(
        r"K10[0-9a-f]{64}::|-----BEGIN|hooks\.slack\.com/services/|AKIA[0-9A-Z]{16}"
        r"|[Pp]assword\s*[=:](?!\$\(| \$PROMETHEUS_PASSWORD\n)\s*\S"
    )
    for where, text in _texts(graph):
        assert not secret.search(text), where
    assert not graph.of("SecretVersion")


def test_what_is_told_afterwards_is_what_a_person_needs_next(graph):
    assert set(graph.exports) == {
        "apiServers",
        "backups",
        "clusters",
        "dashboard",
        "functions",
        "ingress",
        "k3s",
        "looks",
        "slackSecret",
        "table",
        "wakeTopic",
        "workerGroups",
    }


# ── what a wrong stack is told ───────────────────────────────────────────────────────────────────────────────────


def test_a_wrong_configuration_fails_before_anything_is_declared_with_all_problems_named():
    network = {"zones": ["ap-southeast-1a"], "cidr": "10.42.0.0/16"}
    clusters = [{"name": "shop", "policy": {"limits": {"min": 5, "max": 2}}}, {"name": "shop"}]
    with pytest.raises(pulumi.RunError) as refused, mock.patch("nodefleet_infra.program.declare") as declare:
        declared(GOOD | {"node-fleet:network": network, "node-fleet:clusters": clusters, "node-fleet:typo": 1}, "bad")
    said = str(refused.value)
    assert_wording(said)
    for words in (
        "fewer than 2 availability zones",
        "overlaps 10.42.0.0/16",
        "min must not be more",
        "typo",
        "same name",
    ):
        assert words in said
    declare.assert_not_called()


def test_a_preview_without_artefacts_says_what_to_do(tmp_path):
    with pytest.raises(ValidationError) as caught:
        artefacts.found(tmp_path)
    assert_wording(str(caught.value))
    (tmp_path / "artefacts.json").write_text("{}")
    with pytest.raises(ValidationError) as caught:
        artefacts.found(tmp_path)
    assert_wording(str(caught.value))
    said = {name: {"path": f"{name}.zip", "content": "0" * 64} for name in ("layer", "functions")}
    (tmp_path / "artefacts.json").write_text(json.dumps(said))
    with pytest.raises(ValidationError) as caught:
        artefacts.found(tmp_path)
    assert_wording(str(caught.value))
    for name in said:
        (tmp_path / f"{name}.zip").touch()
    with pytest.raises(ValidationError) as refused:
        artefacts.found(tmp_path)
    assert_wording([str(problem).removeprefix(f"{tmp_path}: ") for problem in refused.value.problems])


def test_missing_artefacts_and_a_wrong_configuration_are_told_together(tmp_path):
    with pytest.raises(ValidationError) as missing:
        artefacts.found(tmp_path)
    with pytest.raises(pulumi.RunError) as refused:
        declared(GOOD | {"node-fleet:clusters": []}, "bad", built=missing.value)
    assert_wording(str(refused.value))
    assert_wording(str(refused.value))


def test_a_preview_has_no_side_effects():
    """Pulumi's plugins talk to AWS, and in a preview they only read. The program itself calls and builds nothing."""
    before = {path: path.stat().st_mtime_ns for path in (ROOT / "infra").rglob("*.py")}
    no = mock.Mock(side_effect=AssertionError("a preview calls AWS or starts a program"))
    with (
        mock.patch.object(boto3, "Session", no),
        mock.patch.object(boto3, "client", no),
        mock.patch("subprocess.Popen", no),
    ):
        assert declared(GOOD, "preview").made
    assert before == {path: path.stat().st_mtime_ns for path in (ROOT / "infra").rglob("*.py")}


# ── around it ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_roles_that_spot_and_fleets_need_are_made_or_found():
    graph = deployed_stack(DEV)
    assert {each.inputs["service"] for each in graph.of("ServiceRole")} == set(SERVICES)


def test_pulumi_finds_the_program():
    project = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())
    assert (project["name"], project["main"]) == ("node-fleet", "infra")
    assert (ROOT / project["main"] / "__main__.py").is_file()


def test_the_program_and_its_dynamic_providers_find_the_environment_that_make_setup_leaves(tmp_path):
    """The program's is looked for beside Pulumi.yaml, the dynamic providers' in the program's folder."""
    project = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())
    shutil.copy2(ROOT / "Makefile", tmp_path)
    shutil.copy2(ROOT / ".gitignore", tmp_path)
    for made in (
        ".venv/.ready",
        ".venv/bin/python",
        f"{project['main']}/__main__.py",
        "requirements.txt",
        "pyproject.toml",
    ):
        (tmp_path / made).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / made).touch()
    (tmp_path / ".venv/.ready").touch()  # newer than what it is made from: nothing is installed
    for _ in range(2):
        _run(tmp_path, "make", "--silent", "setup")
    environment = project["runtime"]["options"]["virtualenv"]
    for folder in (tmp_path, tmp_path / project["main"]):
        assert (folder / environment / "bin/python").is_file()
    assert not (tmp_path / environment / environment).exists(), "a second link within the first"
    _run(tmp_path, "git", "init", "--quiet")
    assert environment not in _run(tmp_path, "git", "status", "--porcelain", "-uall")
    _run(tmp_path, "make", "--silent", "clean")
    assert not (tmp_path / project["main"] / environment).is_symlink()


def _run(folder: Path, *command: str) -> str:
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout  # noqa: S603

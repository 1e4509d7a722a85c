"""The container's recipe and its manifest: what can be known of them without a container runtime.

Not tried here: the build of the image itself. Its two installations are what tests/test_wheel.py does; that the files
which it copies are enough to build the package is tried below.
"""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
import yaml

from nodefleet_infra import manifests
from nodefleet_tools.cli import main
from nodefleet_tools.cli.lazy import load
from nodefleet_tools.release import build_wheel

ROOT = Path(__file__).parents[1]
MANIFEST = ROOT / "infra/examples/kubernetes.yaml"


def instructions() -> list[tuple[str, str]]:
    """Instruction and its words, without comments and with continued lines joined."""
    lines = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\s*\\\n\s*", " ", "\n".join(lines))
    found = [line.partition(" ") for line in joined.splitlines() if line.strip()]
    return [(name.upper(), rest) for name, _, rest in found]


def last_stage() -> dict[str, str]:
    every = instructions()
    begins = max(index for index, (name, _) in enumerate(every) if name == "FROM")
    return dict(every[begins:])


def accepted(words: list[str]) -> bool:
    """The command line understands these words after `nodefleet`."""
    command = next(each for each in main.COMMANDS if each.name == words[0])
    load(command).make_context(command.name, list(words[1:]))
    return True


def test_it_is_built_in_two_stages_of_one_base_and_the_last_has_no_shell_steps():
    stages = [rest for name, rest in instructions() if name == "FROM"]
    assert stages == ["${PYTHON_IMAGE} AS build", "${PYTHON_IMAGE}"]
    assert "RUN" not in last_stage()


def test_it_does_not_run_as_root():
    user, _, group = last_stage()["USER"].partition(":")
    assert (int(user) > 1000, int(group) > 1000) == (True, True)


def test_packages_are_installed_by_hash_and_nothing_else_is_downloaded():
    installs = [part for _, rest in instructions() for part in rest.split("&&") if "pip install" in part]
    assert len(installs) == 2
    assert "--require-hashes --no-deps -r requirements-run.txt" in installs[0]
    assert "--no-deps --no-build-isolation --no-index" in installs[1]
    assert not [rest for name, rest in instructions() if name == "RUN" and re.search(r"\b(apt|curl|wget)\b", rest)]
    assert not [rest for name, rest in instructions() if name == "ADD"]


def test_health_and_start_are_commands_that_exist():
    stage = last_stage()
    assert json.loads(stage["ENTRYPOINT"]) == ["nodefleet"]
    assert accepted(json.loads(stage["CMD"]))
    health = json.loads(stage["HEALTHCHECK"].partition("CMD ")[2])
    assert health[0] == "nodefleet"
    assert accepted(health[1:])


def copied() -> list[str]:
    """The files and folders of the checkout that the build takes."""
    return [
        word for name, rest in instructions() if name == "COPY" and "--from" not in rest for word in rest.split()[:-1]
    ]


def test_what_it_copies_is_let_through_and_is_enough_to_build_the_package(tmp_path):
    passed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert set(copied()) == passed
    for name in copied():
        target = tmp_path / "src" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, target)
    assert build_wheel(tmp_path / "src", tmp_path / "dist", 1_790_000_000).exists()


# ── the manifest ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def pod() -> dict:
    (deployment,) = yaml.safe_load_all(MANIFEST.read_text())
    assert deployment["spec"]["selector"]["matchLabels"] == deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["metadata"]["namespace"] == manifests.NAMESPACE
    return deployment["spec"]["template"]["spec"]


def test_its_account_is_the_one_of_the_rbac_manifest(pod):
    kinds = {each["kind"]: each for each in yaml.safe_load_all(manifests.autoscaler())}
    assert pod["serviceAccountName"] == kinds["ServiceAccount"]["metadata"]["name"]


def test_it_may_do_no_more_in_its_container_than_it_must(pod):
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == int(last_stage()["USER"].partition(":")[0])
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_its_commands_exist_and_its_heartbeat_is_on_a_volume_that_can_be_written(pod):
    (container,) = pod["containers"]
    assert accepted(container["args"])
    assert accepted(container["livenessProbe"]["exec"]["command"][1:])
    heartbeat = container["args"][container["args"].index("--heartbeat") + 1]
    assert shlex.join(container["livenessProbe"]["exec"]["command"]).count(heartbeat) == 1
    assert any(heartbeat.startswith(each["mountPath"] + "/") for each in container["volumeMounts"])


def test_it_does_not_run_on_a_worker_that_it_may_remove(pod):
    assert pod["nodeSelector"] == {"node-role.kubernetes.io/control-plane": "true"}

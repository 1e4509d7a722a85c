"""The workflow for pull requests, with its own shell scripts: only `aws` and the runner are doubles."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from support.wording import assert_wording
from support.worlds import QUICK, shop

WORKFLOW = Path(__file__).parents[2] / "docs/examples/github/policy.yml"
SAME = json.dumps(QUICK)
SMALLER = "limits: {min: 2, max: 4}\n"
AWS = """\
#!/bin/bash
case "$2" in
  ls) for each in archive/*; do echo "2026-11-18 10:00:00 1234 dev-shop/2026/$(basename "$each")"; done ;;
  cp) cp "archive/$(basename "$4")" "$5" ;;
esac
"""


@pytest.fixture(scope="module")
def steps() -> dict[str, str]:
    described = yaml.safe_load(WORKFLOW.read_text())
    (job,) = described["jobs"].values()
    return {step["name"]: step["run"] for step in job["steps"] if "run" in step}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with a policy, beside an archive with the inputs of one decision that grew the fleet."""
    cluster = shop(workers=3, replicas=12, cpu=900)
    cluster.look()
    (tmp_path / "archive").mkdir()
    for number, content in enumerate(cluster.world.archive.kept.values()):
        (tmp_path / "archive" / f"input-{number}.json.gz").write_bytes(content)
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "aws").write_text(AWS)
    (tools / "nodefleet").write_text(
        f'#!/bin/bash\nexec {sys.executable} -c "from nodefleet_tools.cli.main import main; main()" "$@"\n'
    )
    for tool in tools.iterdir():
        tool.chmod(0o755)
    return tmp_path


def run(script: str, checkout: Path, policy: str) -> subprocess.CompletedProcess[str]:
    (checkout / "policy.yaml").write_text(policy)
    variables = {each: str(value) for each, value in yaml.safe_load(WORKFLOW.read_text())["env"].items()}
    environment = {
        **os.environ,
        **variables,
        "PATH": f"{checkout / 'tools'}:{os.environ['PATH']}",
        "GITHUB_STEP_SUMMARY": str(checkout / "summary.md"),
    }
    # As GitHub starts `shell: bash`.
    command = ["/bin/bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)  # noqa: S603


def test_a_policy_that_decides_the_same_is_checked_and_counted(steps, checkout):
    assert run(steps["Check"], checkout, SAME).returncode == 0
    done = run(steps["Replay"], checkout, SAME)
    assert done.returncode == 0, done.stderr
    assert_wording(done.stdout)


def test_a_policy_that_decides_otherwise_says_how_in_the_summary(steps, checkout):
    done = run(steps["Replay"], checkout, SMALLER)
    assert done.returncode == 0, done.stderr
    assert_wording(done.stdout)
    assert "### input-0.json.gz" in (checkout / "summary.md").read_text()


def test_a_policy_that_is_wrong_fails(steps, checkout):
    assert run(steps["Check"], checkout, "limits: {min: 5, max: 1}\n").returncode == 2
    assert run(steps["Replay"], checkout, "limits: {min: 5, max: 1}\n").returncode == 2


def test_an_empty_archive_is_no_failure(steps, checkout):
    for each in (checkout / "archive").iterdir():
        each.unlink()
    (checkout / "tools" / "aws").write_text("#!/bin/bash\n")
    done = run(steps["Replay"], checkout, SAME)
    assert done.returncode == 0
    assert_wording(done.stdout)

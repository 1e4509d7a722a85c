"""The wheel as `pipx install` gets it: in a fresh environment, with the dependencies that it declares and no others."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from nodefleet import __version__
from nodefleet_tools.release import build_wheel

ROOT = Path(__file__).parents[1]
SOURCES = ("lambda/nodefleet", "tools/nodefleet_tools", "infra/nodefleet_infra")
EPOCH = 1_790_000_000


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return built(tmp_path_factory.mktemp("first"))


def built(folder: Path) -> Path:
    copy = folder / "source"
    for name in SOURCES:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    return build_wheel(copy, folder / "dist", EPOCH)


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """An environment with the wheel, and links to the packages that it asks for: no network, and nothing besides."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    python = folder / "bin/python"
    pip = (sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-index", "--no-deps")
    subprocess.run([*pip, "--no-compile", "--disable-pip-version-check", str(wheel)], check=True)  # noqa: S603
    for name in closure(declared(site, extra="")):
        link(metadata.distribution(name), site)
    return folder


def declared(site: Path, extra: str) -> set[str]:
    (ours,) = metadata.distributions(name="node-fleet", path=[str(site)])
    return asked_for(ours, extra)


def asked_for(distribution: metadata.Distribution, extra: str = "") -> set[str]:
    found = map(Requirement, distribution.requires or ())
    return {each.name for each in found if each.marker is None or each.marker.evaluate({"extra": extra})}


def closure(names: set[str]) -> set[str]:
    known: set[str] = set()
    while new := names - known:
        known |= new
        names = names | {name for each in new for name in asked_for(metadata.distribution(each))}
    return known


def link(distribution: metadata.Distribution, site: Path) -> None:
    tops = {path.parts[0] for path in distribution.files or () if path.parts[0] not in ("..", "__pycache__")}
    for top in tops:
        if not (site / top).exists():
            (site / top).symlink_to(Path(str(distribution.locate_file(top))))


def nodefleet(installed: Path, *arguments: str, text: str = ""):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "NODEFLEET", "AWS"))}
    return subprocess.run(  # noqa: S603  # what we just installed
        [installed / "bin/nodefleet", *arguments],
        cwd=installed,
        env=clean,
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_installed_command_says_its_version(installed):
    done = nodefleet(installed, "--version")
    assert (done.stdout, done.stderr) == (f"nodefleet {__version__}\n", "")


def test_a_day_can_be_played_and_reported(installed, tmp_path):
    report = tmp_path / "report.html"
    done = nodefleet(installed, "simulate", "--scenario", "steady-state", "--report", str(report))
    assert done.returncode == 0, done.stderr
    assert "steady-state" in report.read_text()


def test_a_policy_is_checked_with_the_grammar_of_prometheus(installed, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text("limits: {max: 6}\n")
    assert nodefleet(installed, "policy", "check", str(policy)).stdout.startswith("default: 2 to 6 nodes;")
    policy.write_text("queries: {cpu: 'sum(rate(a[5m]) by (b)'}\n")
    assert nodefleet(installed, "policy", "check", str(policy)).returncode == 2


def test_a_question_is_decided(installed):
    done = nodefleet(installed, "decide", "--json", "-", text="{nodes: 3, cpu: 82, memory: 40, pending: 3}")
    assert json.loads(done.stdout)["pools"][0]["action"] == "grow"


@pytest.mark.parametrize("arguments", [("backtest", "--help"), ("tune", "--help"), ("chaos", "--help")])
def test_the_other_commands_of_the_base_start(installed, arguments):
    done = nodefleet(installed, *arguments)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_command_that_reaches_a_cluster_names_the_extra_that_it_needs(installed):
    done = nodefleet(installed, "explain", "--cluster", "shop", "--table", "state")
    assert done.returncode == 1
    assert ".whl[aws]'" in done.stderr  # a wheel's file, as the package is in no index
    assert "Traceback" not in done.stderr


def test_the_extra_asks_for_what_reaches_a_cluster(installed):
    site = Path(sysconfig.get_path("purelib", vars={"base": str(installed)}))
    assert declared(site, "aws") - declared(site, "") == {"boto3", "kubernetes", "aws-lambda-powertools"}


def test_files_that_are_no_code_are_in_the_wheel(installed):
    site = Path(sysconfig.get_path("purelib", vars={"base": str(installed)}))
    ours = {
        path.relative_to(ROOT / name).as_posix(): site / Path(name).name / path.relative_to(ROOT / name)
        for name in SOURCES
        for path in (ROOT / name).rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc", ".awk")
    }
    assert [name for name, path in ours.items() if not path.is_file()] == []
    assert {"sim/scenarios/shop-day.yaml", "userdata/agent.sh", "manifests/prometheus.yaml"} <= set(ours)


def test_the_same_sources_give_the_same_bytes(wheel, tmp_path):
    again = built(tmp_path)
    assert (again.name, again.read_bytes()) == (wheel.name, wheel.read_bytes())

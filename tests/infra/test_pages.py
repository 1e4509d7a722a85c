"""Pages for operators: the example workflow runs, figures are the bill's, and every link leads somewhere."""

import json
import lzma
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from nodefleet_infra.bill import dev_stack, items, lean
from support.infra_mocks import ROOT
from support.wording import assert_wording

DOCS = ROOT / "docs"
WORKFLOW = DOCS / "examples" / "github" / "policy.yml"
PAGES = ("cost.md", "faq.md", "load-testing.md", "runbook.md", "upgrade.md", "deploy.md", "security.md")


# ── the workflow ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def steps():
    (job,) = yaml.safe_load(WORKFLOW.read_text())["jobs"].values()
    return {step["name"]: step["run"] for step in job["steps"] if "run" in step}


@pytest.fixture
def runner(tmp_path):
    """A checkout with a policy, an archive with one decision input, and an `aws` that lists and copies from it."""
    with lzma.open(ROOT / "tests/corpus/inputs.jsonl.xz") as inputs:
        question = json.loads(inputs.readline())[1]
    archive = tmp_path / "archive"
    archive.mkdir()
    (archive / "one.json").write_text(json.dumps(question))
    tools = tmp_path / "bin"
    tools.mkdir()
    _program(
        tools / "aws",
        f"case $2 in ls) for f in {archive}/*; do [ -e $f ] && echo 2026-11-16 12:00:00 9 dev-shop/$(basename $f);"
        " done;;"
        f' cp) cp "{archive}/$(basename "$4")" "$5";; esac; true',
    )
    _program(tools / "nodefleet", f'exec {sys.executable} -c "from nodefleet_tools.cli.main import main; main()" "$@"')
    (tmp_path / "policy.yaml").write_text("limits: {min: 2, max: 6}\n")

    def run(script):
        env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}
        env |= {key: str(value) for key, value in yaml.safe_load(WORKFLOW.read_text())["env"].items()}
        return subprocess.run(  # noqa: S603
            ["/bin/bash", "-eo", "pipefail", "-c", script],
            cwd=tmp_path,
            env=env,
            text=True,
            capture_output=True,
            check=False,
        )

    run.folder = tmp_path
    return run


def _program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/bash\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_a_good_policy_passes_and_a_broken_one_fails(steps, runner):
    assert runner(steps["Check"]).returncode == 0
    (runner.folder / "policy.yaml").write_text("limits: {min: 6, max: 2}\n")
    assert runner(steps["Check"]).returncode == 2


def test_a_policy_that_decides_otherwise_is_summed_up_and_does_not_fail(steps, runner):
    (runner.folder / "policy.yaml").write_text("limits: {min: 5, max: 6}\n")
    done = runner(steps["Replay"])
    assert done.returncode == 0, done.stderr
    summary = (runner.folder / "summary").read_text()
    assert_wording(summary.splitlines()[0])
    assert "GROW 3 → 5" in summary


def test_an_input_that_cannot_be_asked_again_fails(steps, runner):
    (runner.folder / "archive" / "one.json").write_text("{")
    assert runner(steps["Replay"]).returncode == 2


def test_without_any_input_there_is_nothing_to_say(steps, runner):
    (runner.folder / "archive" / "one.json").unlink()
    done = runner(steps["Replay"])
    assert done.returncode == 0
    assert_wording(done.stdout)


# ── the pages ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_figures_of_the_cost_page_are_the_bills():
    page = (DOCS / "cost.md").read_text()

    def own(stack, *, free):
        return sum(round((each.beyond_free if free else each.usd) + 1e-9, 2) for each in items(stack) if each.part)

    full, thin = dev_stack(), lean(dev_stack())
    figures = re.findall(r"\d+\.\d\d|\d+(?= USD)", page)
    said = [own(thin, free=False), own(full, free=True), own(thin, free=True)]
    assert {f"{own(full, free=False):.0f}", *(f"{each:.2f}" for each in said)} <= set(figures)


def _anchors(text):
    """As GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_every_link_of_a_page_leads_somewhere(page):
    text = (DOCS / page).read_text()
    for target in re.findall(r"\]\(([^)#\s]*(?:#[^)\s]*)?)\)", text):
        path, _, anchor = target.partition("#")
        if path.startswith("http"):
            continue
        found = DOCS / path if path else DOCS / page
        assert found.exists(), target
        if anchor:
            assert anchor in _anchors(found.read_text()), target


def test_every_page_is_in_the_index():
    index = (DOCS / "README.md").read_text()
    assert all(f"]({page})" in index for page in PAGES)

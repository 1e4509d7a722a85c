"""The pages for operators agree with the code: figures, tables, examples and links."""

import re
from itertools import product
from pathlib import Path
from typing import get_args

import pytest
import yaml
from typer.testing import CliRunner

from nodefleet.engine.decide import decide
from nodefleet.engine.signals.vote import Vote
from nodefleet.model.decision import Action, KeepReason, Rank
from nodefleet.model.fleet import (
    COUNTS_AS_CAPACITY,
    DOES_NOT_OCCUPY,
    PHASES,
    InstancePhase,
    Membership,
    OpenOperation,
    Phase,
)
from nodefleet.model.inventory import Instance, InstanceState
from nodefleet.model.serialization import fields_of, kind_of
from nodefleet.model.snapshot import ClusterView, Observation
from nodefleet.model.state import Level
from nodefleet.policy.cluster import Policy
from nodefleet.policy.demand import (
    ClearTime,
    DemandRule,
    JobDemand,
    PerWorkerQueue,
    QueueAndLatency,
    Score,
    Sustain,
    Threshold,
)
from nodefleet.policy.file_schema import leaves, path_of
from nodefleet.policy.pool import Pool, Targets
from nodefleet_tools.cli import main
from nodefleet_tools.cli.policy import worded
from nodefleet_tools.observation_file import read_question
from nodefleet_tools.shorthand import Shorthand
from support.builders import only

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = DOCS / "examples" / "observations"
PAGES = sorted(DOCS.glob("*.md"))
OURS = ["README.md", "benchmarks.md", "deciding.md", "glossary.md", "observation.md", "phases.md"]


def page(name: str) -> str:
    return (DOCS / name).read_text()


def table(name: str, *header: str) -> list[list[str]]:
    """The cells of the table with this header."""
    lines = page(name).splitlines()
    start = lines.index(f"| {' | '.join(header)} |".replace("|  |", "| |"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


# ── every page ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    links = re.findall(r"\]\(([^)#]+)\)", path.read_text())
    assert [link for link in links if "://" not in link and not (DOCS / link).exists()] == []


def test_the_index_names_every_page():
    listed = [row[0] for row in table("README.md", "page", "answers")]
    assert sorted(re.findall(r"\[(.*?)\]", " ".join(listed))) == sorted({path.name for path in PAGES} - {"README.md"})


def test_tuning_names_settings_that_there_are():
    known = {path_of(leaf.keys) for leaf in (*leaves(Policy(), Policy), *leaves(Pool(), Pool))}
    named = set(re.findall(r"`([a-z_]+\.[a-z_.]+)\b", (DOCS / "tuning.md").read_text()))
    assert len(named) >= 20
    assert {name for name in named if not any(path == name or path.startswith(f"{name}.") for path in known)} == set()


@pytest.mark.parametrize("name", OURS)
def test_figures_beside_a_setting_are_its_default(name):
    everything = [*leaves(Policy(), Policy), *leaves(Pool(), Pool)]
    settings = {path_of(leaf.keys): worded(leaf) for leaf in everything}
    said = re.findall(r"`([a-z_0-9.]+)` \((\d[^)]*)\)", page(name))
    assert [(path, figure) for path, figure in said if settings.get(path) != figure] == []


def test_there_are_figures_to_check():
    assert len(re.findall(r"`([a-z_0-9.]+)` \((\d[^)]*)\)", page("deciding.md"))) > 30


# ── phases ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_table_of_phases_gives_every_combination_its_phase():
    rows = table("phases.md", "EC2", "Kubernetes", "operation", "phase")

    def phase(seen: tuple[str, str, str]) -> str:
        return next(row[3] for row in rows if all(cell in ("any", side) for cell, side in zip(row, seen, strict=False)))

    told = {
        seen: phase((seen[0].value, seen[1].value, seen[2].value))
        for seen in product(InstancePhase, Membership, OpenOperation)
    }
    assert told == {seen: phase.value for seen, phase in PHASES.items()}


def test_each_side_s_words_are_explained():
    for kind, name in ((InstancePhase, "EC2"), (Membership, "Kubernetes"), (OpenOperation, "operation")):
        words = ", ".join(row[0] for row in table("phases.md", name, "")).split(", ")
        assert words == [each.value for each in kind]


def test_what_follows_from_a_phase():
    rows = {row[0]: row[1:] for row in table("phases.md", "phase", "capacity", "counts against max")}
    assert list(rows) == [phase.value for phase in Phase]
    yes = {True: "yes", False: "no"}
    for phase in set(Phase) - {Phase.REQUESTED}:  # its launch counts for it
        assert rows[phase.value] == [yes[phase in COUNTS_AS_CAPACITY], yes[phase not in DOES_NOT_OCCUPY]]


# ── deciding ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_ranks_stand_in_their_order():
    ranks = [row[0] for row in table("deciding.md", "rank", "who", "bounds")]
    assert ranks == [f"{rank.value} {rank.name.lower()}" for rank in Rank]


def test_every_vote_is_explained():
    votes = [row[0] for row in table("deciding.md", "vote", "means", "grows", "lets the fleet shrink")]
    assert votes == [kind_of(vote) for vote in get_args(Vote)]


def test_every_level_is_explained():
    assert [row[0] for row in table("deciding.md", "level", "seen", "what changes")] == [
        Level.NORMAL.value,
        Level.DEGRADED.value,
        Level.PARTIAL.value,
        Level.RECOVERY.value,
    ]
    assert len(Level) == 4


def test_every_demand_rule_stands_with_its_figures():
    header = ("rule", "grows when", "asks for", "calm when", "may spare")
    rows = {row[0].strip("`"): " | ".join(row[1:]) for row in table("deciding.md", *header)}
    assert list(rows) == [kind_of(rule) for rule in get_args(DemandRule)]
    both = QueueAndLatency(name="", queue="", p95_ms="", busy="")
    queue = PerWorkerQueue(name="", queue="")
    clear = ClearTime(name="", queue="", running="", job_seconds="")
    jobs = JobDemand(name="", jobs="")
    assert Threshold(name="", reading="").calm_percent is None
    assert (both.step_up, both.step_down) == (None, None)
    others = {Targets().calm_percent}
    expected = {
        "threshold": [
            f"≤ {Targets().calm_queue_percent:g} % of the limit for a queue",
            *[f"{p:g} % for" for p in others],
        ],
        "queue-and-latency": [
            "measured + `steps.urgent`",
            f"queue ≤ {both.calm_queue_percent:g} % and p95 ≤ {both.calm_p95_percent:g} % of their targets",
            f"busy ≤ {both.calm_busy_percent:g} % of the workers | `steps.down`",
        ],
        "per-worker-queue": [
            f"queue > {queue.per_worker:g} × workers",
            f"queue ≤ {queue.calm_queue:g} for {queue.idle_for.total_seconds():g} s",
        ],
        "clear-time": [
            f"wanted < {clear.shrink_below_percent:g} % of the workers for {clear.shrink_after.total_seconds():g} s"
        ],
        "job-demand": [
            f"jobs > {jobs.grow_above:g} × runners",
            f"at most {jobs.step_up} |",
            f"jobs < {jobs.shrink_below:g} × runners",
            f"at most {jobs.step_down}",
        ],
    }
    missing = [(rule, words) for rule, said in expected.items() for words in said if words not in rows[rule]]
    assert missing == []
    assert (jobs.grow_share, jobs.shrink_share) == (0.5, 0.5)
    formula = (
        f"⌈queue × max(job time, {clear.shortest_job.total_seconds():g} s) ÷ {clear.clear_within.total_seconds():g} s⌉"
    )
    assert f"{formula} + running, {clear.warm_percent:g} % of peak" in page("deciding.md")


def test_the_forms_of_lasting_have_their_defaults():
    rows = {row[0]: row[2] for row in table("deciding.md", "form", "counts as lasted when", "default")}
    score = Score()
    assert rows["readings"] == f"{Sustain().up.count} up, {Sustain().down.count} down"
    assert rows["score"] == (
        f"off; threshold {score.threshold:g}, half-life {score.half_life.total_seconds():g} s,"
        f" window {score.window.total_seconds():g} s"
    )


def test_the_words_for_staying_are_as_many_as_the_reasons():
    (listed,) = re.findall(r"has a reason in the decision: (.*?)\.", page("deciding.md"), re.DOTALL)
    not_told = {KeepReason.CHOSEN, KeepReason.ONE_AT_A_TIME, KeepReason.SINGLE_REPLICA, KeepReason.PODS_UNKNOWN}
    not_told |= {KeepReason.POD_OPTED_OUT}  # one word for node and pod
    assert len(listed.split(",")) == len(set(KeepReason) - not_told)


# ── observation ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("kind", "header", "nth"),
    [(Shorthand, ("key", "default", ""), 0), (Observation, ("key", "default", ""), 1)],
)
def test_every_key_is_explained(kind, header, nth):
    tables = page("observation.md").split("| key | default | |\n|---|---|---|\n")[1:]
    rows = [line.split("|")[1] for line in tables[nth].split("\n\n")[0].splitlines()]
    assert re.findall(r"`(\w+)`", " ".join(rows)) != []
    assert set(re.findall(r"`(\w+)`", " ".join(rows))) == {field.name for field, _ in fields_of(kind)}


def test_only_real_fields_of_instances_and_the_cluster_are_explained():
    tables = page("observation.md").split("| key | default | |\n|---|---|---|\n")[1:]
    for text, kind in ((tables[2], Instance), (tables[3], ClusterView)):
        rows = [line.split("|")[1] for line in text.split("\n\n")[0].splitlines()]
        assert set(re.findall(r"`(\w+)`", " ".join(rows))) <= {field.name for field, _ in fields_of(kind)} | {"kind"}
    for state in InstanceState:
        assert f"`{state.value}`" in tables[2]


@pytest.mark.parametrize("name", ["spike", "calm"])
def test_a_short_example_on_the_page_is_the_file(name):
    blocks = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", page("observation.md"), re.DOTALL)]
    assert yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text()) in blocks


@pytest.mark.parametrize(
    ("name", "action", "before", "after"),
    [("spike", Action.GROW, 3, 5), ("calm", Action.SHRINK, 5, 4), ("budget", Action.SHRINK, 3, 2)],
)
def test_an_example_decides_what_the_page_says(name, action, before, after):
    question, policy = read_question(EXAMPLES / f"{name}.yaml", Policy())
    pool = only(decide(question.observation, question.memory, policy))
    assert (pool.action, pool.count.capacity, pool.target) == (action, before, after)
    text = page("observation.md")
    assert re.search(rf"\[{name}\.yaml\].*?\*\*{action.name} {before} → {after}\*\*", text, re.DOTALL)


def test_the_budget_keeps_the_first_worker_and_the_third_leaves():
    question, policy = read_question(EXAMPLES / "budget.yaml", Policy())
    stays = {stay.worker: stay for stay in only(decide(question.observation, question.memory, policy)).stays}
    assert stays["w3"].reason is KeepReason.CHOSEN
    assert stays["w1"].reason is KeepReason.BUDGET
    assert f"`{stays['w1'].detail.partition(':')[0]}`" in page("observation.md")


def test_the_refusal_on_the_page_is_what_is_told(tmp_path):
    (block,) = re.findall(r"```\n(look\.yaml: .*?)```", page("observation.md"), re.DOTALL)
    path = tmp_path / "look.yaml"
    path.write_text("nods: 3\nat: 2026-11-16T20:04:00\n")
    told = CliRunner().invoke(main.app, ["decide", str(path)]).stderr
    assert told.replace(str(path), "look.yaml") == block


def test_every_example_is_named_on_the_page():
    assert [path.name for path in EXAMPLES.iterdir() if path.name not in page("observation.md")] == []


# ── the rest ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_glossary_is_short_in_order_and_has_no_word_twice():
    words = [row[0] for row in table("glossary.md", "word", "means here")]
    assert words == sorted(set(words))
    assert len(words) < 20  # the field's own words need no glossary


def test_the_glossary_has_every_vote():
    (meaning,) = [row[1] for row in table("glossary.md", "word", "means here") if row[0] == "vote"]
    assert meaning == "what a signal says: " + ", ".join(kind_of(vote) for vote in get_args(Vote))

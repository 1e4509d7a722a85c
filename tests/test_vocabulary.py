"""The field's own words: the private dialect of the first version stays out, and names in prose are names in the tree.

`docs/glossary.md` holds the few words that are ours. Stored values and policy keys keep the names they were given, so
that records and files of older versions can be read: they are listed here with the reason.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DIALECT = re.compile(
    r"\b(anew|mend(?:ed|s|ing)?|doomed|homeless|aftermath|debris|sick|let back in|left behind|dearer|dearest"
    r"|somebody|an? persons?|(?:every|another|next|last|second|each|no|\d+) looks?(?! (?:at|for|like|after))"
    r"|looks? again|a look (?:needs|writes|in between)|Spot machines?|a machine (?:dies|joins|of))\b",
    re.IGNORECASE,
)
# The subject of a sentence is a noun of the field. The shipped code holds to it; Prometheus's user is called nobody.
PRONOUNS = re.compile(r"\b(nobody|somebody|whoever|anybody|everybody)\b", re.IGNORECASE)
STORED = re.compile(
    r"budgets\.sick|sick_one_in|many-sick|### sick|`sick`|"  # a policy key, and kinds of alerts in the table
    r"\"sick\"|\bsick: int|! sick |"  # the same in code, schema and transcripts
    r"\bdebris(?:=|: OrphanKind|\.value|\b\")|cleanup\.debris|"  # a field of stored cleanups
    r"\d{4}: \"a person [\w. ]+\"|"  # streams of random numbers, by which a seed stands for a plan
    r"\"a person \": |\" a machine\": |\"a machine \": "  # words of plans that were kept earlier
)
PROSE = ("lambda", "tools", "infra", "docs", "README.md", "CONTRIBUTING.md", "Makefile", "benchmarks", "tests/golden")
SUFFIXES = {".py", ".md", ".yaml", ".yml", ".sh", ".txt", ".json", ".html", ".js"}


def files():
    for name in PROSE:
        top = ROOT / name
        found = [top] if top.is_file() else sorted(top.rglob("*"))
        yield from (
            each
            for each in found
            if (each.suffix in SUFFIXES or each == top) and not {"__pycache__", ".venv"} & set(each.parts)
        )


def dialect(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if DIALECT.search(STORED.sub("", line))]


def test_the_old_dialect_stays_out():
    found = {str(path.relative_to(ROOT)): dialect(path.read_text(encoding="utf-8")) for path in files()}
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_a_sentence_of_the_shipped_code_has_a_subject_of_the_field():
    found = {
        str(path.relative_to(ROOT)): [
            line.strip() for line in path.read_text("utf-8").splitlines() if PRONOUNS.search(line)
        ]
        for path in files()
        if path.is_relative_to(ROOT / "lambda")
    }
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "line",
    [
        "the doomed node is let back in",
        "what to mend",
        "Two sick nodes",
        "55 runs with 78 looks",
        "a person deletes a Node",
        "EC2 takes a Spot machine",
        "Next look: in 10 s",
        "written anew",
    ],
)
def test_the_check_knows_the_dialect(line):
    assert dialect(line)


@pytest.mark.parametrize(
    "line",
    ["`budgets.sick` (1 node)", "recommend", "a trend", "debris=left.kind,", "the last look at it", "a fresh machine"],
)
def test_stored_names_and_other_words_pass(line):
    assert not dialect(line)


# ── names in prose ───────────────────────────────────────────────────────────────────────────────────────────────────


def packages():
    return [
        init
        for top in ("lambda", "tools", "infra")
        for init in sorted((ROOT / top).rglob("__init__.py"))
        if ".venv" not in init.parts
    ]


def test_an_index_in_a_package_names_modules_that_are_there():
    missing = []
    for init in packages():
        index = re.findall(r"^([a-z][a-z_0-9]*) {2,}\S", init.read_text(encoding="utf-8"), re.MULTILINE)
        there = {path.stem for path in init.parent.iterdir()}
        missing += [f"{init.relative_to(ROOT)}: {name}" for name in index if name not in there]
    assert missing == []


def test_the_map_of_contributing_names_files_that_are_there():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.partition("| you look for | it is in |")[2].partition("\n\n")[0]
    named = re.findall(r"`([\w./]+(?:\.py|/))`", table)
    assert len(named) > 20
    assert [name for name in named if not ((ROOT / name).exists() or (ROOT / "lambda/nodefleet" / name).exists())] == []


def test_the_ten_rules_of_contributing_are_where_it_says():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.partition("| rule | file | name in it |")[2].partition("\n\n")[0]
    rules = re.findall(r"\| `([\w./]+)` \| `(\w+)` \|$", table, re.MULTILINE)
    assert len(rules) == 10
    for file, name in rules:
        code = (ROOT / "lambda/nodefleet" / file).read_text(encoding="utf-8")
        assert re.search(rf"^(def|class) {name}\b", code, re.MULTILINE), f"{file} has no {name}"


def test_the_map_of_the_docs_has_a_line_for_every_page():
    text = (ROOT / "docs/README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[[\w-]+\.md\]\(([\w-]+\.md)\) \| \S", text, re.MULTILINE)
    assert sorted(listed) == sorted(page.name for page in (ROOT / "docs").glob("*.md") if page.name != "README.md")


def test_the_list_of_decisions_has_every_page():
    folder = ROOT / "docs/decisions"
    listed = re.findall(r"\(([\w-]+\.md)\)", (folder / "README.md").read_text(encoding="utf-8"))
    assert listed == sorted(page.name for page in folder.glob("*.md") if page.name != "README.md")

"""docs/deploy.md agrees with the program: keys, defaults, commands, files, names, and the sums of its bill."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, is_dataclass, replace
from datetime import timedelta
from types import UnionType
from typing import Any, Union, get_args, get_origin

import pytest
import yaml

from nodefleet.model.names import METRIC_INFO
from nodefleet.model.serialization import fields_of
from nodefleet.settings import Settings
from nodefleet_infra import iam, k3s
from nodefleet_infra.alarms import METRICS
from nodefleet_infra.bill import FAILING_SHARE, dev_stack, page
from nodefleet_infra.config import StackConfig
from nodefleet_infra.functions import FUNCTIONS
from nodefleet_infra.names import Names
from nodefleet_infra.raw_config import WEBHOOK
from nodefleet_tools.cli.main import COMMANDS
from support.iam_samples import PLAIN_MASTER
from support.infra_mocks import DEV, PROJECT, ROOT, deployed_stack, unusual_stack

PAGE = (ROOT / "docs/deploy.md").read_text(encoding="utf-8")
README = (ROOT / "infra/README.md").read_text(encoding="utf-8")
DIAGRAMS = ROOT / "diagrams"
NAMES = Names(project=PROJECT, stack="dev")
SETTINGS = Settings(table="", clusters=(), secrets=NAMES.secrets)  # as the functions have them
BOTH = pytest.mark.parametrize("text", [PAGE, README], ids=["deploy.md", "infra/README.md"])


def rows(*header: str) -> list[list[str]]:
    """The cells of the table with this header."""
    after = PAGE.split(f"| {' | '.join(header)} |\n", 1)[1].splitlines()[1:]
    table = after[: next(index for index, line in enumerate(after) if not line.startswith("|"))]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


# ── configuration ────────────────────────────────────────────────────────────────────────────────────────────────


def leaves(cls: type, path: str = "") -> Iterator[tuple[str, str]]:
    """Every key under a section with its default, as the page writes them."""
    for each, hint in fields_of(cls):
        here = f"{path}.{each.name}" if path else each.name
        kinds = [kind for kind in (hint, *get_args(hint)) if isinstance(kind, type) and is_dataclass(kind)]
        if not kinds:
            yield here, worded(each)
        elif get_origin(hint) in (Union, UnionType):  # a section that may be left out has a row of its own
            yield here, worded(each)
            yield from leaves(kinds[0], here)
        elif get_origin(hint) is tuple:
            yield from leaves(kinds[0], f"{here}[]")
        elif get_origin(hint) is Mapping or hint not in kinds:
            yield from leaves(kinds[0], f"{here}.<pool>")
        else:
            yield from leaves(kinds[0], here)


def worded(each: Field[Any]) -> str:
    value = each.default_factory() if each.default_factory is not MISSING else each.default
    match value:
        case _ if value is MISSING:
            return "required"
        case bool():
            return str(value).lower()
        case timedelta():
            return f"{value // timedelta(minutes=1)}m"
        case None | "" | () | {}:
            return "–"
        case tuple():
            return ", ".join(map(str, value))
        case _:
            return str(value)


def test_every_key_stands_in_the_table_with_its_default_and_no_other():
    told = {key.strip("`"): default for key, default, _ in rows("key", "default", "what it is")}
    assert told == dict(leaves(StackConfig))


def test_keys_in_the_text_are_keys():
    keys = {key for key, _ in leaves(StackConfig)}
    sections = tuple({key.split(".")[0] for key in keys if "." in key})
    said = set(re.findall(rf"`((?:{'|'.join(map(re.escape, sections))})\.[\w.\[\]<>]+)[`:]", PAGE))
    assert len(said) > 30
    assert {each.rstrip(":") for each in said} <= keys
    assert set(re.findall(rf"(?<!:){PROJECT}:(\w+)", PAGE)) - {"cluster", "role"} == {WEBHOOK}


def test_the_release_that_is_shown_is_the_one_that_is_shipped():
    assert set(re.findall(r"v\d+\.\d+\.\d+\+k3s\d", PAGE)) == {k3s.RELEASE.version}


# ── commands, files, names ───────────────────────────────────────────────────────────────────────────────────────


def commands() -> dict[str, set[str]]:
    """The command line's commands, with their own ones."""
    return {
        each.name: {inner.name for inner in each.target} if isinstance(each.target, tuple) else set()
        for each in COMMANDS
    }


@BOTH
def test_make_targets_exist(text):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    written = re.findall(r"(?:`|^ *)make ((?:[a-z-]+ ?)+)(?:`|$| *#)", text, re.MULTILINE)
    said = {target for words in written for target in words.split()}
    assert "layers" in said
    assert said <= targets


def test_nodefleet_commands_exist():
    said = re.findall(r"\bnodefleet ([a-z]+)(?: ([a-z]+))?", PAGE)
    known = commands()
    assert {"doctor", "explain", "pause", "policy"} <= {name for name, _ in said}
    assert {name for name, _ in said} <= set(known)
    assert [f"{name} {sub}" for name, sub in said if known[name] and sub not in known[name]] == []


def test_variables_are_read_somewhere():
    sources = "".join(
        path.read_text() for part in ("lambda", "tools", "tests/e2e") for path in (ROOT / part).rglob("*.py")
    )
    said = set(re.findall(r"\b(NODEFLEET_[A-Z_]+|PROMETHEUS_URL)\b", PAGE))
    assert len(said) > 5
    assert {name for name in said if f'"{name}"' not in sources} == set()


def test_files_that_are_named_exist():
    said = re.findall(r"`((?:infra|benchmarks|docs|tests|layers)/[\w./-]+|Pulumi\.[a-z.]+)`", PAGE)
    assert said != []
    assert [path for path in said if not (ROOT / path).exists()] == []


def test_the_short_page_leads_to_the_long_one_and_everywhere_else_it_says():
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", README)
    assert "../docs/deploy.md" in links
    assert [link for link in links if "://" not in link and not (ROOT / "infra" / link).exists()] == []


@BOTH
def test_links_within_the_page_have_their_heading(text):
    headings = re.findall(r"^#+ (.*)$", PAGE, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\((?:\.\./docs/deploy\.md)?#([^)]+)\)", text)) <= anchors


def test_outputs_that_are_asked_for_are_exported():
    assert set(re.findall(r"pulumi stack output (\w+)", PAGE)) <= set(deployed_stack(DEV).exports)


def test_names_of_the_dev_stack_are_its_names():
    graph = deployed_stack(DEV)
    functions = {NAMES.of(each.name) for each in FUNCTIONS}
    templates = {each.inputs["name"] for each in graph.of("LaunchTemplate")}
    subnets = {each.tags["Name"] for each in graph.of("Subnet")}
    known = functions | templates | subnets | {NAMES.secrets, NAMES.api_secret("dev-shop"), "dev-shop"}
    known |= {f"{SETTINGS.source_secrets('dev-shop')}/redis"}
    said = set(re.findall(r"\bnode-fleet-dev[\w/-]*|(?<![-/])\bdev-shop\b", PAGE))
    assert NAMES.of("reconcile") in said
    assert said <= known
    (urn,) = re.findall(r"'(urn:pulumi:.*?)'", PAGE)
    assert [each.type for each in graph.made if each.urn == urn] == ["aws:ec2/instance:Instance"]
    file = yaml.safe_load((ROOT / DEV).read_text())["config"]
    assert file["aws:region"] in PAGE


def test_aliases_that_are_moved_exist():
    by_function = {each.name: [alias.name for alias in each.aliases] for each in FUNCTIONS}
    moved = re.findall(r"update-alias --function-name \S+-(\w+) --name (\w+)", PAGE)
    assert sorted(alias for _, alias in moved) == sorted(by_function["reconcile"])
    assert "`interruption` has the alias `urgent`, `notify` and `report` have `live`" in PAGE
    assert [by_function[name] for name in ("interruption", "notify", "report")] == [["urgent"], ["live"], ["live"]]


def test_a_failed_start_is_told_in_the_scripts_own_words():
    scripts = "".join(path.read_text() for path in (ROOT / "infra/nodefleet_infra/userdata").glob("*.sh"))
    for words in re.findall(r"`FAILED while ([^`]+)`", PAGE):
        assert re.search(rf"(step ['\"]|'FAILED while ){words}", scripts), words


def test_no_secret_is_written_on_a_command_line():
    """The shell's history keeps it, and every process of the instance can read it."""
    folders = ("docs", "infra", "layers", "lambda", "tools", "tests", "benchmarks")
    pages = [*ROOT.glob("*.md"), *(page for folder in folders for page in (ROOT / folder).rglob("*.md"))]
    pages += (ROOT / "docs/examples").glob("*.yaml")
    shown = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    assert {value[:7] for value in re.findall(r"--secret-string\s+\\?\s*(\S+)", shown)} == {"file://"}
    assert re.findall(r"config set --secret \S+ +[^#\s`]", shown) == []
    assert re.findall(r"--(?:token|password)[= ]\S+", shown) == []
    assert re.findall(r"\b(?:AWS_SECRET_ACCESS_KEY|\w*(?:TOKEN|PASSWORD)|LOGIN)=(?!\$\()\S+", shown) == []


# ── what it admits ───────────────────────────────────────────────────────────────────────────────────────────────


def test_switched_off_nobody_can_wake_it():
    woken = [each.name for each in unusual_stack().of("TopicSubscription")]
    assert "reconcile-wake" not in woken
    assert "Alertmanager starts no run either" in PAGE


def test_with_grafana_the_master_may_read_what_the_page_says():
    def may(arns: iam.MasterArns) -> set[str]:
        return {action for statement in iam.master(arns) for action in statement.actions}

    told = set(re.findall(r"`(cloudwatch:\w+)`", PAGE))
    assert told == may(replace(PLAIN_MASTER, reads_metrics=True)) - may(PLAIN_MASTER)


# ── the bill ─────────────────────────────────────────────────────────────────────────────────────────────────────


def bill() -> dict[str, tuple[float, float, float]]:
    *items, _ = rows("item", "how many", "USD each", "USD a month")
    return {item: (float(many), float(each), float(month)) for item, many, each, month in items}


def test_the_bill_adds_up():
    assert {item: month for item, (many, each, month) in bill().items() if abs(many * each - month) > 0.0051} == {}
    together = rows("item", "how many", "USD each", "USD a month")[-1][3].strip("*")
    assert float(together) == pytest.approx(sum(month for _, _, month in bill().values()), abs=0.005)


def test_the_bill_is_what_the_configuration_and_the_prices_say():
    """`make bill` writes it."""
    assert page(dev_stack()) == PAGE


def test_the_bill_is_for_the_region_of_the_dev_stack():
    assert f"in {yaml.safe_load((ROOT / DEV).read_text())['config']['aws:region']}, from list prices" in PAGE


def test_the_bill_counts_what_the_dev_stack_has():
    graph, counted = deployed_stack(DEV), {item: many for item, (many, _, _) in bill().items()}
    watched = [
        len(
            [query for query in each.inputs.get("metricQueries") or [{"metric": {}}] if query.get("metric") is not None]
        )
        for each in graph.of("MetricAlarm")
    ]
    always = [metric for metric, about in METRIC_INFO.items() if not about.opt_in]
    joins = {each.inputs["metricTransformation"]["name"] for each in graph.of("LogMetricFilter")}
    assert counted["custom metrics"] == len({*always, *METRICS})
    failing = "custom metrics that are written while something fails, 5% of the hours"
    assert counted[failing] == len(joins) * FAILING_SHARE
    assert counted["alarms, by watched metric"] == sum(watched)
    assert counted["secrets"] == len(graph.of("Secret"))
    assert counted["key of the alarm topics"] == len(graph.of("Key"))
    assert counted["dashboard"] == len(graph.of("Dashboard"))
    (master,) = graph.of("ec2/instance:Instance")
    assert counted["its disk, GB gp3"] == master.inputs["rootBlockDevice"]["volumeSize"]
    assert f"master, {master.inputs['instanceType']}, hours" in counted


# ── pictures ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_picture_has_its_source_and_shows_what_the_source_says():
    sources = {path.stem: path.read_text() for path in DIAGRAMS.glob("*.dot")}
    pictures = {path.stem: path.read_text() for path in DIAGRAMS.glob("*.svg")}
    assert set(sources) == set(pictures) >= {"architecture", "decision", "lifecycle", "network"}
    for name, text in sources.items():
        source = text.replace("&nbsp;", "")  # keeps words off the line beside them
        shown = re.sub(r"&#(\d+);", lambda code: chr(int(code[1])), pictures[name]).replace("&gt;", ">")
        labels = [line for label in re.findall(r'label="([^"]*)"', source) for line in label.split("\\n")]
        missing = [line for line in labels if line.strip() and line.strip().replace("<", "&lt;") not in shown]
        assert missing == [], f"{name}: make diagrams"
        width = float(re.search(r'<svg width="(\d+)pt"', pictures[name])[1])
        assert width <= 900, f"{name}: on a page of 1,000 pixels its words would be too small to read"

"""Options and help of the commands that need no account; commands_set_up says why they are apart."""

from pathlib import Path
from typing import Annotated

import typer

from nodefleet_tools.backtest import BUDGET
from nodefleet_tools.cli.lazy import runs
from nodefleet_tools.cli.options import ClusterOption, TableOption
from nodefleet_tools.cli.outcome import JsonOption

TraceFile = Annotated[Path | None, typer.Option("--trace", help="A CSV (timestamp,value): load in any unit.")]
PrometheusUrl = Annotated[str | None, typer.Option("--prometheus", help="The address of a Prometheus to read from.")]
Days = Annotated[int, typer.Option("--days", min=1, help="How many days of it.")]
PoolName = Annotated[str, typer.Option("--pool", help="Whose load in Prometheus, and whose rules in a policy.")]
Nodes = Annotated[tuple[int, int], typer.Option("--nodes", help="The smallest and the largest fleet.")]
Join = Annotated[int, typer.Option("--join", min=1, help="Seconds from a launch to the first work on the new node.")]
Violation = Annotated[float, typer.Option("--violation", help="CPU percent above which a minute is a violation.")]
Budget = Annotated[float, typer.Option("--budget", min=0, max=100, help="Percent of minutes that may be violations.")]
Cores = Annotated[int, typer.Option("--jobs", min=1, help="Processes.")]

# The names of policy/file_schema.py, which is not imported for them; a test compares.
PRESETS_OF_POLICIES = ("node-fleet", "low-latency", "high-throughput", "balanced", "cost-optimized")


@runs("demo:play_demo")
def demo(
    adaptive: Annotated[bool, typer.Option("--adaptive", help="The same day with strategy: adaptive.")] = False,
    fast: Annotated[bool, typer.Option("--fast", help="Show the day in ten seconds.")] = False,
    report: Annotated[Path, typer.Option(help="Where the HTML report goes.")] = Path("build/node-fleet-demo.html"),
    seed: Annotated[int | None, typer.Option(help="Another seed: other noise, other boot times.")] = None,
    page: Annotated[
        bool | None,
        typer.Option("--page/--terminal", help="The live page, or the terminal; else as there is a browser."),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="All figures, and every check.")] = False,
    as_json: JsonOption = False,
) -> None:
    """See a shop's day in about a minute, in a simulated world.

    A quiet night, a morning ramp, a Spot interruption, a drain that a budget blocks, a flash sale, and what it cost.
    """


@runs("simulate:play_day")
def simulate(
    scenario: Annotated[str, typer.Option(help="A scenario by its name (see --list), or a file.")] = "shop-day",
    policy: Annotated[Path | None, typer.Option(help="A policy file in place of the scenario's policy.")] = None,
    against: Annotated[
        Path | None, typer.Option(help="Play the same day with this policy, too, and compare.", metavar="POLICY")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(help="A CSV (timestamp,value) in place of the first service's load.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Another seed: other noise, other boot times.")] = None,
    as_json: JsonOption = False,
    report: Annotated[Path | None, typer.Option(help="Write an HTML report with plots to this file.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="Only list the scenarios that are shipped.")] = False,
) -> None:
    """Play any day of a cluster in a simulated world.

    The status is 1 if something that the scenario expects does not come true.
    """


@runs("decide:decide_file")
def decide(
    file: Annotated[
        Path, typer.Argument(help="An observation or its shorthand, YAML or JSON; - reads standard input.")
    ],
    policy: Annotated[Path | None, typer.Option(help="A policy file; without one, the defaults.")] = None,
    as_json: JsonOption = False,
    expand: Annotated[
        bool,
        typer.Option("--expand", help="Only show the complete observation that the shorthand stands for, as JSON."),
    ] = False,
) -> None:
    """Say what would be done on this observation, and why.

    Nothing is changed anywhere.
    """


@runs("backtest:play_policies")
def backtest(  # noqa: PLR0917  # each is an option
    file: Annotated[
        Path | None, typer.Argument(help="With --json: write the document to this file, and print the table.")
    ] = None,
    trace: TraceFile = None,
    prometheus: PrometheusUrl = None,
    days: Days = 30,
    pool: PoolName = "default",
    policy: Annotated[list[Path] | None, typer.Option("--policy", help="A policy file to play too.")] = None,
    nodes: Nodes = (2, 10),
    join: Join = 180,
    violation: Violation = 85,
    budget: Budget = BUDGET,
    usd: Annotated[
        float, typer.Option("--usd", min=0, help="Per node-hour; a t3.small On-Demand by default.")
    ] = 0.0208,
    noise: Annotated[bool, typer.Option(help="Add seeded noise to data coarser than a minute.")] = True,
    as_json: JsonOption = False,
    report: Annotated[Path | None, typer.Option("--report", help="Write an HTML report to this file.")] = None,
    jobs: Cores = 2,
) -> None:
    """Play policies on recorded load, and compare them.

    Beside your own: the classic rules, the adaptive strategy and models of other autoscalers.
    The first seven days (or half) are only learned from. A trace file is scaled so that its 99.5th percentile is 56 %
    of the largest fleet; load from Prometheus is taken as it is.
    """


@runs("backtest:find_settings")
def tune(  # noqa: PLR0917  # each is an option
    trace: TraceFile = None,
    prometheus: PrometheusUrl = None,
    days: Days = 30,
    pool: PoolName = "default",
    nodes: Nodes = (2, 10),
    join: Join = 180,
    violation: Violation = 85,
    budget: Budget = BUDGET,
    state: Annotated[Path | None, typer.Option("--state", help="Keep what was played here, and go on from it.")] = None,
    jobs: Cores = 2,
    as_json: JsonOption = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the result in the table: the weekly report tells it.")
    ] = False,
    cluster: ClusterOption = "",
    table: TableOption = "",
) -> None:
    """Find the settings of the adaptive strategy that fit your own load.

    Price of a violation, patience before a scale-down, and a spare node: those with the lowest cost within a budget of
    violations.
    Each day is scored with what the days before it chose, so nothing is scored on what it was fitted to.
    """


@runs("chaos:play_chaos")
def chaos(
    *,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds to play.")] = 200,
    first: Annotated[int, typer.Option("--from", min=0, help="The first of them.")] = 0,
    seed: Annotated[int | None, typer.Option(min=0, help="Play this seed only.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="How many processes play at the same time.")] = 1,
    plan: Annotated[Path | None, typer.Option(exists=True, dir_okay=False, help="Play a plan that was kept.")] = None,
    trace: Annotated[bool, typer.Option(help="With --seed or --plan: everything that happened, in order.")] = False,
    save: Annotated[Path | None, typer.Option(help="With --seed: keep its plan, shortened if it goes wrong.")] = None,
    about: Annotated[str, typer.Option(help="With --save: what went wrong and what was fixed.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Play hours full of faults and check what must always hold.

    The status is 1 if something does not.
    """


@runs("policy:check_file")
def check(
    file: Annotated[Path, typer.Argument(help="A policy file, YAML or JSON; - reads standard input.")],
    as_json: JsonOption = False,
) -> None:
    """Say what a policy does, or everything that is wrong with it."""


@runs("policy:show_file")
def show(
    file: Annotated[Path | None, typer.Argument(help="A policy file; without one, the defaults.")] = None,
    preset: Annotated[str | None, typer.Option(help=f"Use this preset: {', '.join(PRESETS_OF_POLICIES)}.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show every value of a policy: where it comes from and what it is for."""


@runs("policy:print_schema")
def schema(as_json: JsonOption = True) -> None:
    """Print the JSON Schema of a policy file, for editors."""

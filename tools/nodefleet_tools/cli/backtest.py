"""`nodefleet backtest` and `nodefleet tune`: what policies would have done with your own load."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from itertools import chain, count
from math import ceil
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from nodefleet.adapters.prometheus import PrometheusClient, for_pool
from nodefleet.model.names import pluralize
from nodefleet.model.snapshot import Missing, TuningResult
from nodefleet.policy.pool import Pool
from nodefleet_tools.backtest.page import page
from nodefleet_tools.backtest.play import Conditions, Run, optimum
from nodefleet_tools.backtest.suite import (
    ADAPTIVE,
    PEERS,
    PRICES,
    Job,
    fingerprint,
    jobs_for,
    meet_budget,
    run_all,
    verdict,
)
from nodefleet_tools.backtest.traces import NOISE, SHARE_OF_MAX, Trace, TraceError, by_minute, read_csv
from nodefleet_tools.backtest.tuning import CANDIDATES, Candidate, Days, Tuned, are_enough, tune
from nodefleet_tools.cli.connect import connected
from nodefleet_tools.cli.outcome import fail, print_json, require_writable, write_file
from nodefleet_tools.cli.policy_file import policy_or_exit

_CHUNK = timedelta(days=7)  # of minutes: Prometheus gives no more than 11,000 points at once
_PATIENCE = timedelta(seconds=60)
_WIDE = 120  # columns that the table takes
_TOO_FEW_DAYS = "Too few days: a choice needs three days to rest on and some more to be scored on."


def play_policies(
    *,
    file: Path | None,
    trace: Path | None,
    prometheus: str | None,
    days: int,
    pool: str,
    policy: list[Path] | None,
    nodes: tuple[int, int],
    join: int,
    violation: float,
    budget: float,
    usd: float,
    noise: bool,
    as_json: bool,
    report: Path | None,
    jobs: int,
) -> None:
    """Play policies on recorded load, and compare them."""
    if file is not None and not as_json:
        fail(f"What is {file}? Give --trace FILE to read from, or --json FILE to write to.")
    for each in filter(None, (file, report)):
        require_writable(each)
    console = Console(highlight=False)
    conditions = _conditions(nodes, join, violation)
    own = _policies(policy or (), pool)
    load = _load_or_exit(trace, prometheus, days, pool, conditions, NOISE if noise else 0.0)
    wanted = jobs_for([load], conditions, [*PEERS, *ADAPTIVE], keep=report is not None)
    wanted += [_job_of(name, mine, wanted[0]) for name, mine in own.items()]
    runs = _run(wanted, jobs, "Playing policies")
    runs += _at_budget(runs, budget, wanted[0], jobs)
    said = verdict(runs, budget)
    if report is not None:
        write_file(report, page(load, runs, conditions, said, usd))
    if as_json and file is None:
        print_json(as_plain(load, runs, usd, said))
        return
    if file is not None:
        document = json.dumps(as_plain(load, runs, usd, said), indent=2, ensure_ascii=False)
        write_file(file, document + "\n")
    _show(console, load, runs, usd, said)
    if report is not None:
        console.print(f"Report: {report}", soft_wrap=True)


def find_settings(
    *,
    trace: Path | None,
    prometheus: str | None,
    days: int,
    pool: str,
    nodes: tuple[int, int],
    join: int,
    violation: float,
    budget: float,
    state: Path | None,
    jobs: int,
    as_json: bool,
    keep: bool,
    cluster: str,
    table: str,
) -> None:
    """Find the settings of the adaptive strategy that fit your own load."""
    console = Console(highlight=False)
    conditions = _conditions(nodes, join, violation)
    known = _kept_or_exit(state)
    load = _load_or_exit(trace, prometheus, days, pool, conditions, NOISE)
    best = optimum(load, conditions)
    common = Job(policy="classic", trace=load, conditions=conditions, pool=Pool(), optimum=best)
    wanted = [
        common,
        *(
            replace(common, policy=each.name, pool=None, price=each.price, waits=each.waits, headroom=each.headroom)
            for each in CANDIDATES
        ),
    ]
    keys = {job.policy: fingerprint(job) for job in wanted}
    played = {policy: known[key] for policy, key in keys.items() if key in known}
    for run in _each_run([job for job in wanted if job.policy not in played], jobs, "Playing settings"):
        if not are_enough(run.days):  # every setting has as many: the others need not be played
            fail(_TOO_FEW_DAYS)
        played[run.policy] = known[keys[run.policy]] = run.days
        _keep(state, known)  # after each, so that a run that is stopped goes on from here
    found = tune({each: played[each.name] for each in CANDIDATES}, played["classic"], budget)
    if found is None:
        fail(_TOO_FEW_DAYS)
    if keep:
        with connected(cluster=cluster, table=table) as connection:
            connection.put_tuning(as_result(found, pool, budget, nodes, connection.clock()))
    if as_json:
        print_json({**asdict(found), "budget_pct": budget, "policy": _policy_of(found, nodes)})
        return
    _show_tuned(console, found, budget, nodes)


def _kept_or_exit(state: Path | None) -> dict[str, Days]:
    """What was played before, by what it depends on."""
    if state is None:
        return {}
    require_writable(state)
    if not state.exists():
        return {}
    try:
        kept = json.loads(state.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        kept = None
    if not isinstance(kept, dict):
        fail(f"{state}: is not what tune keeps; name another file, or remove it.")
    return {key: days for key, days in kept.items() if isinstance(days, list)}


def _keep(state: Path | None, known: Mapping[str, Days]) -> None:
    """Whole or not at all: an interruption must not cost what was played before."""
    if state is not None:
        part = state.with_name(f"{state.name}.part")
        write_file(part, json.dumps(known))
        part.replace(state)


def _conditions(nodes: tuple[int, int], join: int, violation: float) -> Conditions:
    if not 0 <= nodes[0] <= nodes[1] or not nodes[1]:
        fail(f"--nodes {nodes[0]} {nodes[1]}: the smallest fleet comes first, and the largest has at least one node.")
    if not violation > 0:
        fail(f"--violation {violation:g}: it must be above 0.")
    return Conditions(least=nodes[0], most=nodes[1], join=max(1, ceil(join / 60)), violation=violation / 100)


def _load_or_exit(
    trace: Path | None, prometheus: str | None, days: int, pool: str, conditions: Conditions, noise: float
) -> Trace:
    console = Console(stderr=True, highlight=False)
    if (trace is None) == (prometheus is None):
        fail("Give either --trace FILE or --prometheus URL.")
    try:
        if trace is not None:
            scaled = SHARE_OF_MAX * conditions.most
            load = by_minute(trace.stem, read_csv(trace), noise=noise, scaled_to=scaled)
        else:
            rows = _of_prometheus(prometheus or "", days, pool)
            if not rows:
                since = pluralize(days, "day", "days")
                fail(f"Prometheus has no CPU of pool {pool} in the last {since}; see --pool and --days.")
            load = by_minute(pool, rows, noise=0.0, scaled_to=None)
    except (TraceError, OSError) as problem:
        fail(str(problem))
    if load.negatives:
        console.print(f"{pluralize(load.negatives, 'reading is', 'readings are')} below 0: taken for no load.")
    for begin, end in load.gaps:
        console.print(f"No data from {begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}: skipped.")
    return load


def _of_prometheus(address: str, days: int, pool: str) -> list[tuple[float, float]]:
    server, end = PrometheusClient(address), datetime.now(UTC).replace(second=0, microsecond=0)
    query = for_pool(Pool().queries.load, pool)
    if isinstance(query, Missing):
        raise TraceError(query.cause)
    rows: list[tuple[float, float]] = []
    begin = end - timedelta(days=days)
    while begin < end:
        until = min(begin + _CHUNK, end)
        got = server.ask_range(query, begin, until, _PATIENCE)
        if isinstance(got, Missing):
            raise TraceError(got.cause)
        rows += [(each.at.timestamp(), each.value) for each in got]
        begin = until + timedelta(minutes=1)
    return rows


def _policies(paths: Sequence[Path], pool: str) -> dict[str, Pool]:
    """The pool of each policy file that is meant, under a name that no other policy has."""
    taken, own = {*PEERS, *ADAPTIVE}, {}
    for path in paths:
        pools = policy_or_exit(path).policy.pools
        meant = [each for each in pools if each.name == pool] or pools
        if len(meant) > 1:
            names = ", ".join(each.name for each in pools)
            fail(f"{path}: has the pools {names}; name one of them with --pool.")
        numbered = (f"{path.name} ({number})" for number in count(2))
        name = next(name for name in chain((path.stem, path.name), numbered) if name not in taken)
        taken.add(name)
        own[name] = meant[0]
    return own


def _job_of(name: str, pool: Pool, like: Job) -> Job:
    return replace(
        like,
        policy=name,
        pool=pool,
        price=pool.adaptive.node_minutes if pool.strategy == "adaptive" else None,
        waits=pool.adaptive.waits,
        headroom=pool.adaptive.headroom,
    )


def _run(wanted: Sequence[Job], jobs: int, title: str) -> list[Run]:
    order = {job.policy: index for index, job in enumerate(wanted)}
    return sorted(_each_run(wanted, jobs, title), key=lambda run: order[run.policy])


def _each_run(wanted: Sequence[Job], jobs: int, title: str) -> Iterator[Run]:
    """The runs as they come, with progress."""
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=len(wanted))
        for run in run_all(wanted, jobs):
            yield run
            progress.advance(task)


def _at_budget(runs: Sequence[Run], budget: float, like: Job, jobs: int) -> list[Run]:
    """The adaptive strategy at a price that meets the budget of violations, if its usual prices lie around it."""
    played = [
        (PRICES[run.policy.removeprefix("adaptive ")], run.violation_pct) for run in runs if run.policy in ADAPTIVE
    ]

    def play_at(price: float) -> Run:
        wanted = replace(like, policy=f"adaptive, price {price:g}", pool=None, price=price)
        return _run([wanted], jobs, f"Playing a price of {price:g}")[0]

    met = meet_budget(budget, played, play_at)
    return [] if met is None else [met]


def as_plain(load: Trace, runs: Sequence[Run], usd: float, said: str) -> dict[str, Any]:
    return {
        "trace": load.name,
        "minutes": load.minutes,
        "history_minutes": load.history,
        "gaps": [[begin.isoformat(), end.isoformat()] for begin, end in load.gaps],
        "verdict": said,
        "optimum_node_hours": round(runs[0].optimum_node_minutes / 60, 2),
        "runs": [
            {
                "policy": run.policy,
                "violation_pct": round(run.violation_pct, 4),
                "violation_minutes": run.violation_minutes,
                "unavoidable_minutes": run.unavoidable_minutes,
                "longest_violation_min": run.longest_violation_min,
                "node_hours": round(run.node_hours, 2),
                "usd": round(run.node_hours * usd, 2),
                "vs_optimum": round(run.vs_optimum, 4),
                "actions_per_day": round(run.actions_per_day, 2),
                "undone_pct": round(run.undone_pct, 1),
                "idle_node_hours": round(run.idle_node_minutes / 60, 2),
                "at_max_minutes": run.at_max_minutes,
                **_grade_of(run),
            }
            for run in runs
        ],
    }


def _grade_of(run: Run) -> dict[str, Any]:
    """Calibration and votes of the forecast; nothing of a policy without one."""
    if run.grade is None:
        return {}
    return {
        "promised_pct": round(run.grade.promised_pct, 3),
        "seen_pct": round(run.grade.seen_pct, 3),
        "votes": {name: round(share, 3) for name, share in run.grade.shares.items()},
    }


def _show(console: Console, load: Trace, runs: Sequence[Run], usd: float, said: str) -> None:
    days, history = (load.minutes - load.history) / 1440, load.history / 1440
    table = Table(title=f"{load.name}: {days:.1f} days after {history:.1f} of history", box=None, title_justify="left")
    table.add_column("policy", no_wrap=True)
    for head in (
        "violations",
        "minutes",
        "longest",
        "node-hours",
        "USD",
        "× optimum",
        "actions/day",
        "undone",
        "idle",
        "at max",
    ):
        table.add_column(head, justify="right")
    for run in runs:
        table.add_row(
            run.policy,
            f"{run.violation_pct:.2f} %",
            f"{run.violation_minutes}m",
            f"{run.longest_violation_min}m",
            f"{run.node_hours:.0f}",
            f"{run.node_hours * usd:.2f}",
            f"{run.vs_optimum:.3f}",
            f"{run.actions_per_day:.1f}",
            f"{run.undone_pct:.0f} %",
            f"{run.idle_node_minutes / 60:.0f}h",
            f"{run.at_max_minutes}m",
        )
    console.width = max(console.width, _WIDE)  # a narrow terminal wraps the lines, but no figure is cut off
    console.print(table)
    unavoidable = max(run.unavoidable_minutes for run in runs)
    if unavoidable:
        were = pluralize(unavoidable, "minute was", "minutes were")
        console.print(f"{were} more than the largest fleet can carry: not counted.")
    for run in runs:
        if run.grade is not None and run.policy == "adaptive balanced":
            votes = ", ".join(f"{name} {100 * share:.0f} %" for name, share in run.grade.shares.items())
            console.print(
                f"Forecast of {run.policy}: {run.grade.promised_pct:.2f} % violations promised, "
                f"{run.grade.seen_pct:.2f} % seen; votes: {votes}.",
                soft_wrap=True,
            )
    console.print(said, soft_wrap=True)


def _show_tuned(console: Console, found: Tuned, budget: float, nodes: tuple[int, int]) -> None:
    console.print(
        f"On {pluralize(found.days, 'day', 'days')}, each with what the days before it chose: "
        f"{found.violation_pct:.2f} % violations "
        f"(budget {budget:g} %) and {found.node_hours:.0f} node-hours; classic {found.classic_violation_pct:.2f} % and "
        f"{found.classic_node_hours:.0f}. Saved {found.saving_pct:.0f} % (nine of ten draws of days: "
        f"{found.saving_low_pct:.0f} to {found.saving_high_pct:.0f} %); within the budget in "
        f"{found.within_budget_pct:.0f} % of the draws.\n\nThe policy to adopt:\n",
        soft_wrap=True,
    )
    policy = _policy_of(found, nodes)
    limits, settings = policy["limits"], ", ".join(f"{name}: {value}" for name, value in policy["adaptive"].items())
    console.print(
        f"strategy: adaptive\nlimits: {{min: {limits['min']}, max: {limits['max']}}}\nadaptive: {{{settings}}}",
        markup=False,
    )


def as_result(found: Tuned, pool: str, budget: float, nodes: tuple[int, int], now: datetime) -> TuningResult:
    """What the weekly report tells of it."""
    return TuningResult(
        pool=pool,
        at=now,
        settings=", ".join(f"{name} {value}" for name, value in _policy_of(found, nodes)["adaptive"].items()),
        days=found.days,
        budget_pct=budget,
        violation_pct=found.violation_pct,
        saving_pct=found.saving_pct,
        saving_low_pct=found.saving_low_pct,
        saving_high_pct=found.saving_high_pct,
        within_budget_pct=found.within_budget_pct,
    )


def _policy_of(found: Tuned, nodes: tuple[int, int]) -> dict[str, Any]:
    """A price by its name where the policy has one; settings that are the default are not named."""
    choice, default = found.choice, Candidate(price=found.choice.price)
    price = next((word for word, price in PRICES.items() if price == choice.price), choice.price)
    changed = {name: value for name, value in asdict(choice).items() if value != getattr(default, name)}
    return {
        "strategy": "adaptive",
        "limits": {"min": nodes[0], "max": nodes[1]},
        "adaptive": {"price": price, **changed},
    }

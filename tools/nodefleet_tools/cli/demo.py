"""`nodefleet demo`: the two timelines of the system's description, decided by the shipped code, as tables."""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from itertools import groupby

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from nodefleet.decide.bounds import settle
from nodefleet.domain.decision import Action, Bound, PoolDecision
from nodefleet.domain.observation import ClusterView
from nodefleet.domain.operations import Launch, Open, Purpose, Removal, Why
from nodefleet.domain.readings import Missing
from nodefleet_tools.cli.plan_words import MARKETS
from nodefleet_tools.cli.policy import summary
from nodefleet_tools.cli.show_decision import STYLES, headline, side
from nodefleet_tools.timelines import TIMELINES, Played, Timeline, play

WIDEST = 100


def demo() -> None:
    """Play a flash sale and a Spot interruption, and show what is decided at each step and why."""
    terminal = Console(highlight=False)
    width = min(terminal.width, WIDEST) if terminal.is_terminal else WIDEST
    console = Console(highlight=False, width=width)
    for make in TIMELINES:
        timeline = make()
        _show(timeline, list(play(timeline)), console)
    key = "CPU and mem in percent; wait: unschedulable pods; nodes: ready + booting; decided by: the bounds that did"
    console.print(Text(f"{key}.", "dim"))
    console.print(Text("Ask your own question: nodefleet decide FILE (docs/observation.md)", "dim"))


def _show(timeline: Timeline, played: Sequence[Played], console: Console) -> None:
    console.print(Text(timeline.name, "bold"))
    for pool in timeline.policy.pools:
        console.print(Text(summary(pool), "dim"))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=0)
    for column in ("time", "CPU", "mem", "wait", "nodes", "decided by", "decision", "reason"):
        is_number = column in ("CPU", "mem", "wait")
        table.add_column(column, justify="right" if is_number else "left", no_wrap=column != "reason")
    for run in _runs(played):
        table.add_row(*_cells(run, timeline))
    console.print(table)
    console.print(Text(f"Result: {'; '.join(outcome(played)) or 'nothing was scaled'}.", "bold"))
    console.print()


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _runs(played: Sequence[Played]) -> Iterator[list[Played]]:
    """Looks in a row that saw and decided the same are one row."""
    for _, run in groupby(played, key=_alike):
        yield list(run)


def _alike(each: Played) -> tuple[object, ...]:
    decided = [(pool.action, pool.count, pool.target, _decisive(pool)) for pool in each.decision.pools]
    return each.row.cpu, each.row.pending, each.row.note, str(decided)


def _cells(run: Sequence[Played], timeline: Timeline) -> list[str | Text]:
    first, last = run[0], run[-1]
    (pool,) = last.decision.pools
    until = f"–{last.row.at:%H:%M}" if last is not first else ""
    note = f"{last.row.note}: " if last.row.note else ""
    # The headline says it already: "Holding 3: …".
    reason = pool.reason.partition(": ")[2]
    return [
        f"{first.row.at:%H:%M}{until}",
        f"{last.row.cpu:g}",
        f"{timeline.memory_percent:g}",
        str(last.row.pending),
        f"{pool.count.ready}+{pool.count.booting}",
        _decisive(pool),
        Text(headline(pool), STYLES[pool.action]),
        f"{note}{reason}",
    ]


def _decisive(pool: PoolDecision) -> str:
    """The bounds that set the target, and those that wanted something else."""
    settled = settle(pool.bounds)
    agreed = [bound for bound in pool.bounds if settled.by and _says_the_same(bound, settled.by)]
    said = [f"{bound.source} {side(bound)}" for bound in agreed]
    others = [f"not {each.bound.source} {side(each.bound)}" for each in pool.overruled]
    return "\n".join(said + others)


def _says_the_same(bound: Bound, other: Bound) -> bool:
    return (bound.side, bound.rank, bound.nodes) == (other.side, other.rank, other.nodes)


# ── what came of it ──────────────────────────────────────────────────────────────────────────────────────────────


def outcome(played: Sequence[Played]) -> Iterator[str]:
    """What was scaled and when, as far as it was played."""
    for each in played:
        for pool in each.decision.pools:
            opened = [step.operation for step in pool.plan if isinstance(step, Open)]
            yield from _removals(opened, pool, f"{each.row.at:%H:%M}")
            launches = [operation for operation in opened if isinstance(operation, Launch)]
            for purpose in Purpose:
                of_this = [launch for launch in launches if launch.purpose is purpose]
                if of_this:
                    yield _launched(of_this, purpose, played)


def _removals(opened: Sequence[object], pool: PoolDecision, clock: str) -> Iterator[str]:
    removals = [operation for operation in opened if isinstance(operation, Removal)]
    for removal in removals:
        if removal.why is Why.INTERRUPTED:
            yield f"EC2 takes {removal.node}, warned at {clock}"
    if pool.action is Action.SHRINK:
        leaving = ", ".join(removal.node for removal in removals if removal.why is Why.VOLUNTARY)
        yield f"−{pool.count.capacity - pool.target} at {clock} ({leaving} leaves)"


def _launched(launches: Sequence[Launch], purpose: Purpose, played: Sequence[Played]) -> str:
    number = sum(launch.count for launch in launches)
    markets = {launch.market: 0 for launch in launches}
    for launch in launches:
        markets[launch.market] += launch.count
    bought = " and ".join(f"{count} {MARKETS[market]}" for market, count in markets.items())
    at = launches[0].started
    what = f"replacement launched at {at:%H:%M}" if purpose is Purpose.RESTORE else f"+{number} at {at:%H:%M}"
    ready = _ready_at({launch.id for launch in launches}, played)
    joined = [f"ready {max(ready):%H:%M:%S}, {(max(ready) - at).total_seconds():.0f} s later"] if ready else []
    return ", ".join([f"{what} ({bought})", *joined])


def _ready_at(launches: Collection[str], played: Sequence[Played]) -> list[datetime]:
    """When the nodes of these launches were ready, as far as they were seen."""
    last = played[-1].seen
    if isinstance(last.instances, Missing) or not isinstance(last.kubernetes, ClusterView):
        return []
    made = {instance.id for instance in last.instances if instance.operation in launches}
    nodes = [node for node in last.kubernetes.nodes if node.instance in made and node.ready]
    return [node.ready_changed_at for node in nodes if node.ready_changed_at]

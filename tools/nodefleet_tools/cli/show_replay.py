"""Two decisions on the same iteration, side by side: what is the same in both is left out."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from nodefleet.model.decision import Bound, Decision, PoolDecision
from nodefleet_tools.cli.plan_words import sentence, stay_lines
from nodefleet_tools.cli.show_decision import headline, side

_INDENT = (0, 0, 0, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    pool: str  # empty: the whole cluster
    what: str
    first: tuple[str, ...]  # what only the first says
    second: tuple[str, ...]


def differences(first: Decision, second: Decision) -> tuple[Difference, ...]:
    """Nothing if they differ at most in what they leave in the memory."""
    found = [*_compared("", _of_cluster(first), _of_cluster(second))]
    pools, others = ({pool.pool: pool for pool in each.pools} for each in (first, second))
    for name in dict.fromkeys((*pools, *others)):
        found += _compared(name, _of_pool(pools.get(name)), _of_pool(others.get(name)))
    return tuple(found)


def _compared(pool: str, first: Mapping[str, list[str]], second: Mapping[str, list[str]]) -> Iterator[Difference]:
    for what in dict.fromkeys((*first, *second)):
        one, other = first.get(what, []), second.get(what, [])
        if one != other:
            alone = tuple(line for line in one if line not in other)
            new = tuple(line for line in other if line not in one)
            moved = () if alone or new else ("the same in another order",)
            yield Difference(pool=pool, what=what, first=alone, second=new or moved)


def _of_cluster(decision: Decision) -> dict[str, list[str]]:
    return {
        "level": [decision.level.value],
        "told": [tell.text for tell in decision.tells],
        "plan": [sentence(step) for step in decision.plan],
        "next iteration": [decision.look_again or "with the next tick"],
    }


def _of_pool(pool: PoolDecision | None) -> dict[str, list[str]]:
    if pool is None:
        return {}
    return {
        "decision": [headline(pool)],
        "reason": [pool.reason],
        "signals": [*pool.votes],
        "bounds": [_bound(bound) for bound in pool.bounds],
        "overruled": [f"{_bound(each.bound)} (by {each.by})" for each in pool.overruled],
        "plan": [sentence(step) for step in pool.plan],
        "stays": [f"{who}: {why}" for who, why in stay_lines(pool.stays)],
    }


def _bound(bound: Bound) -> str:
    return f"{bound.source} {side(bound)}: {bound.sentence}"


def show_differences(found: tuple[Difference, ...], names: tuple[str, str], console: Console) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for column in ("", *names):
        table.add_column(column, header_style="dim", overflow="fold")
    for pool in dict.fromkeys(each.pool for each in found):
        if pool:
            table.add_row(Text(f"pool {pool}", "bold"))
        for each in (difference for difference in found if difference.pool == pool):
            table.add_row(Text(each.what), _cell(each.first), _cell(each.second))
    console.print(Padding(table, _INDENT, expand=False))


def _cell(lines: tuple[str, ...]) -> Text:
    return Text("\n".join(lines) or "–")


def show_short(decision: Decision, console: Console) -> None:
    """What was decided, a line or two for each pool."""
    for pool in decision.pools:
        console.print(Padding(Text.assemble((f"{pool.pool}: ", "bold"), headline(pool)), _INDENT, expand=False))
        console.print(Padding(Text(pool.reason), (0, 0, 0, 4), expand=False))

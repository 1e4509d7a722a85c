"""The differences between two policies or two deployments, value by value."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from nodefleet.model.names import some
from nodefleet.model.snapshot import Deployment
from nodefleet.policy.cluster import Policy
from nodefleet.policy.file_schema import Keys, leaves, value_at
from nodefleet_tools.cli.policy import summary, worded

_NOT_THERE = "–"
_NOTHING = {_NOT_THERE, "none"}  # "none" is how an empty value is worded


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    setting: str  # pools[web].limits.max
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.setting} {self.before} → {self.after}"


def policy_changes(before: Policy, after: Policy) -> list[Change]:
    """Pools that come or go are one change each."""
    both = {pool.name for pool in before.pools} & {pool.name for pool in after.pools}
    gone = [pool for pool in before.pools if pool.name not in both]
    come = [pool for pool in after.pools if pool.name not in both]
    alone = tuple(_within(pool.name) for pool in (*gone, *come))
    values = [each for each in _different(before, after, Policy) if not each.setting.startswith(alone)]
    return [
        *(Change(setting=_within(pool.name), before=summary(pool), after="removed") for pool in gone),
        *(Change(setting=_within(pool.name), before=_NOT_THERE, after=summary(pool)) for pool in come),
        *(_in_the_only_pool(values, before) if not alone and len(both) == 1 else values),
    ]


def deployment_changes(before: Deployment | None, after: Deployment) -> list[Change]:
    return list(_different(before or Deployment(cluster=after.cluster), after, Deployment))


def in_short(changes: list[Change]) -> str:
    return some(map(str, changes), "; ", 3) if changes else "nothing"


def as_plain(changes: list[Change]) -> list[dict[str, str]]:
    return [{"setting": each.setting, "before": each.before, "after": each.after} for each in changes]


def show(changes: list[Change], console: Console) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for column in ("setting", "before", "after"):
        table.add_column(column, header_style="dim", overflow="fold")
    for change in changes:
        table.add_row(*map(Text, (change.setting, change.before, change.after)))
    console.print(table)


def _in_the_only_pool(values: list[Change], policy: Policy) -> list[Change]:
    """As a file with one pool writes it: limits.max."""
    pool = f"{_within(policy.pools[0].name)}."
    return [replace(each, setting=each.setting.removeprefix(pool)) for each in values]


def _within(pool: str) -> str:
    return f"pools[{pool}]"


def _different(before: Any, after: Any, hint: Any) -> Iterator[Change]:
    old = {_named(before, leaf.keys): worded(leaf) for leaf in leaves(before, hint)}
    new = {_named(after, leaf.keys): worded(leaf) for leaf in leaves(after, hint)}
    for setting in dict.fromkeys((*old, *new)):
        was, is_now = old.get(setting) or _NOT_THERE, new.get(setting) or _NOT_THERE
        if was != is_now and not {was, is_now} <= _NOTHING:
            yield Change(setting=setting, before=was, after=is_now)


def _named(root: Any, keys: Keys) -> str:
    """The path with what an item is called in place of its number: lists are reordered more often than renamed."""
    text = ""
    for length, key in enumerate(keys, start=1):
        if isinstance(key, int):
            item = value_at(root, keys[:length])
            text += f"[{getattr(item, 'name', None) or getattr(item, 'pool', None) or key}]"
        else:
            text += f".{key}"
    return text.removeprefix(".")

"""What a stack costs in a month, counted from its configuration and from what the autoscaler was measured to ask for.

    make bill      writes the table of docs/deploy.md; a test fails while the page says anything else

The instances are the cluster's: they would be there without an autoscaler. Its own part is the rest.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from nodefleet.adapters.telemetry import WHILE_FAILING
from nodefleet.model.names import METRIC_INFO
from nodefleet_infra.alarms import LEAN_METRICS, METRICS, alarms
from nodefleet_infra.config import Stack
from nodefleet_infra.names import Names
from nodefleet_infra.own_prices import FREE, NOTED, PRICES, ListPrices
from nodefleet_infra.reading_alarms import reading_alarms
from nodefleet_infra.stack import stack_from

HOURS, DAYS = 730, 30.4  # of a month
SPOT_SHARE = 0.4  # of the On-Demand price
ON_DEMAND, SPOT = 1, 2  # workers on average, as the policy's share wants it
QUIET_SECONDS = 0.46  # of a run with ten nodes at 512 MB, measured: docs/benchmarks.md
LOG_GB, TABLE_GB, STORED_GB = 0.2, 0.1, 2  # assumed, rather too much
FAILING_SHARE = 0.05  # of a month's hours in which something fails: assumed, rather too much
SECRETS_A_CLUSTER = 3
ALARM_KEYS = 1

OWN_PART = """\
The autoscaler's own part of it, USD a month. *Beyond free* is without what AWS gives every account for good (10
metrics, 10 alarms, 3 dashboards, a million calls, 5 GB of logs), if nothing else in the account uses it."""

ROOT = Path(__file__).parents[2]
PAGE, STACK = ROOT / "docs" / "deploy.md", ROOT / "Pulumi.dev.yaml"
BEGIN, END = "<!-- the bill: make bill -->", "<!-- the end of the bill -->"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    what: str
    many: float
    each: float
    part: str = ""  # of the autoscaler's own cost; empty: the cluster's
    free: float = 0  # how many of them an account has for nothing

    @property
    def usd(self) -> float:
        return self.many * self.each

    @property
    def beyond_free(self) -> float:
        return max(0.0, self.many - self.free) * self.each


def requests() -> Mapping[str, float]:
    """A day of the simulated shop: benchmarks/own_requests.py."""
    text = files(__package__).joinpath("own_requests.json").read_text("utf-8")
    found: Mapping[str, float] = json.loads(text)["a_day"]
    return found


def items(stack: Stack) -> tuple[Item, ...]:
    prices = PRICES[stack.region]
    return (*_machines(stack, prices), *own_items(stack, prices))


def _machines(stack: Stack, prices: ListPrices) -> Iterator[Item]:
    for cluster in stack.clusters:
        master, pool = cluster.master, cluster.pools[0]
        kind, workers = pool.types[0], ON_DEMAND + SPOT
        hour = prices.hours[kind]
        yield Item(what=f"master, {master.type}, hours", many=HOURS, each=prices.hours[master.type])
        yield Item(what="its public IPv4 address, hours", many=HOURS, each=prices.address)
        yield Item(what="its disk, GB gp3", many=master.disk_gb, each=prices.disk)
        yield Item(what=f"workers On-Demand, {kind}, hours", many=ON_DEMAND * HOURS, each=hour)
        yield Item(what=f"workers Spot, {kind}, hours", many=SPOT * HOURS, each=round(SPOT_SHARE * hour, 5))
        yield Item(what="their public IPv4 addresses, hours", many=workers * HOURS, each=prices.address)
        yield Item(what="their disks, GB gp3", many=workers * pool.disk_gb, each=prices.disk)
        if cluster.ingress:  # without its traffic, which is not known
            yield Item(what="load balancer, hours", many=HOURS, each=prices.balancer)
            if not cluster.ingress.internal:
                yield Item(what="its public IPv4 address, hours", many=HOURS, each=prices.address)


def own_items(stack: Stack, prices: ListPrices) -> Iterator[Item]:
    """Of the whole stack, for what one cluster's day asks, times its clusters."""
    config, clusters = stack.config.autoscaler, len(stack.clusters)
    names = Names(project=stack.project, stack=stack.name)
    masters = dict.fromkeys(stack.cluster_ids(), "i-0")
    watched = [*alarms(names, stack.clusters, config.schedule, masters, lean=config.lean, fleet=bool(config.fleet))]
    watched += [each for cluster in stack.clusters for each in reading_alarms(names, cluster)]
    default = LEAN_METRICS if config.lean else (metric for metric, about in METRIC_INFO.items() if not about.opt_in)
    written = {*default, *METRICS, *config.metrics}
    day = {name: value * clusters * DAYS for name, value in requests().items()}
    memory = config.memory.reconcile / 1024
    seconds = day["runs"] * QUIET_SECONDS + day["slept_seconds"]
    sparse = written & WHILE_FAILING if config.lean else set()
    joins = 1  # counted from the log, which names it when a join fails
    yield Item(
        what="custom metrics",
        many=len(written - sparse) * clusters,
        each=prices.metric,
        part="metrics",
        free=FREE.metrics,
    )
    yield Item(
        what=f"custom metrics that are written while something fails, {FAILING_SHARE:.0%} of the hours",
        many=round((len(sparse) * clusters + joins) * FAILING_SHARE, 2),
        each=prices.metric,
        part="metrics",
    )
    yield Item(
        what="alarms, by watched metric",
        many=sum(len(each.series) for each in watched),
        each=prices.alarm,
        part="alarms",
        free=FREE.alarms,
    )
    dashboards = 0 if config.lean else 1
    yield Item(what="dashboard", many=dashboards, each=prices.dashboard, part="dashboard", free=FREE.dashboards)
    webhook = 0 if config.lean else 1  # a parameter, which costs nothing
    yield Item(what="secrets", many=SECRETS_A_CLUSTER * clusters + webhook, each=prices.secret, part="secrets")
    yield Item(
        what="secrets read, 10,000", many=round(day["runs"] / 10_000, 1), each=prices.secret_reads, part="secrets"
    )
    keys = 0 if config.lean else ALARM_KEYS
    yield Item(what="key of the alarm topics", many=keys, each=prices.key, part="key")
    yield Item(
        what="functions, GB-seconds on arm64",
        many=round(seconds * memory, -2),
        each=prices.compute,
        part="functions",
        free=FREE.compute,
    )
    yield Item(
        what="functions, million calls",
        many=round(day["runs"] / 1e6, 3),
        each=prices.calls,
        part="functions",
        free=FREE.calls / 1e6,
    )
    yield Item(
        what="DynamoDB, million write units", many=round(day["write_units"] / 1e6, 2), each=prices.writes, part="state"
    )
    yield Item(
        what="DynamoDB, million read units", many=round(day["read_units"] / 1e6, 2), each=prices.reads, part="state"
    )
    yield Item(what="DynamoDB, GB with recovery", many=TABLE_GB, each=prices.table, part="state")
    yield Item(what="S3, GB", many=STORED_GB, each=prices.stored, part="state")
    yield Item(what="S3, 1,000 writes", many=round(day["archived"] / 1000, 1), each=prices.puts, part="state")
    yield Item(what="logs, GB taken in", many=LOG_GB * clusters, each=prices.logs, part="logs", free=FREE.logs)


def own_usd(stack: Stack) -> dict[str, float]:
    """USD a month by part, of one of the stack's clusters; nothing where prices are not known."""
    prices = PRICES.get(stack.region)
    found: dict[str, float] = {}
    if prices is None:
        return found
    for item in own_items(stack, prices):
        found[item.part] = found.get(item.part, 0.0) + item.usd / len(stack.clusters)
    return {part: round(usd, 2) for part, usd in found.items()}


# ── the page ─────────────────────────────────────────────────────────────────────────────────────────────────────


def text(stack: Stack) -> str:
    found = items(stack)
    own = [item for item in found if item.part]
    thin = [item for item in items(lean(stack)) if item.part]
    together = sum(_cents(each.usd) for each in found)
    parts = list(dict.fromkeys(item.part for item in own))

    def row(name: str, *, of: Sequence[str]) -> str:
        mark = "" if len(of) == 1 else "**"
        sums = (
            sum(_cents(each.beyond_free if free else each.usd) for each in group if each.part in of)
            for group in (own, thin)
            for free in (False, True)
        )
        return f"| {mark}{name}{mark} | " + " | ".join(f"{mark}{usd:.2f}{mark}" for usd in sums) + " |"

    lines = [
        f"Counted for `{STACK.name}` in {stack.region}, from list prices as noted on {NOTED}.",
        "",
        "| item | how many | USD each | USD a month |",
        "|---|---|---|---|",
        *(f"| {each.what} | {each.many:g} | {_price(each.each)} | {_cents(each.usd):.2f} |" for each in found),
        f"| **together** | | | **{together:.2f}** |",
        "",
        OWN_PART,
        "",
        "| part | list | beyond free | `autoscaler.lean`, list | lean, beyond free |",
        "|---|---|---|---|---|",
        *(row(part, of=[part]) for part in parts),
        row("together", of=parts),
    ]
    return "\n".join(lines)


def lean(stack: Stack) -> Stack:
    """The cheapest that keeps every alarm."""
    config = stack.config
    return replace(stack, config=replace(config, autoscaler=replace(config.autoscaler, lean=True)))


def _cents(usd: float) -> float:
    return round(usd + 1e-9, 2)


def _price(usd: float) -> str:
    return f"{usd:.2f}" if round(usd, 2) == usd else f"{usd:.7f}".rstrip("0")


def dev_stack() -> Stack:
    config: dict[str, Any] = yaml.safe_load(STACK.read_text("utf-8"))["config"]
    data = {key.removeprefix("node-fleet:"): value for key, value in config.items() if key.startswith("node-fleet:")}
    return stack_from("node-fleet", "dev", config["aws:region"], data)


def page(stack: Stack) -> str:
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{text(stack)}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(dev_stack()), "utf-8")

"""Golden files: what operators read, as the shipped code writes it in simulated runs.

    make golden      writes tests/golden/ again; `git diff` shows what operators would see otherwise

`cli/` are transcripts of commands on simulated clusters, `simulate/` what `nodefleet simulate` says of the shipped
scenarios, `slack.json` the whole payload of each kind of message. Rules are tested by typed values elsewhere: here the
wording is.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from rich.console import Console
from typer.testing import CliRunner

from nodefleet.adapters.slack.message import build_message, payload
from nodefleet.notifications.incoming import DeliveryLimits
from nodefleet_tools.cli import main
from nodefleet_tools.cli.show_played import show_marks, show_summary
from nodefleet_tools.sim.scenarios.reading import shipped
from support.message_examples import LINKS, OF_A_KIND, SPECIAL, single
from support.played_days import shipped_day
from support.sim_connections import SimConnection, Terminal
from support.worlds import Cluster, shop, spot_worker

FOLDER = Path(__file__).parents[1] / "golden"
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
ME = ("--by", "ann")
_WIDTH = 110

Transcript = Callable[[], str]
TRANSCRIPTS: dict[str, Transcript] = {}


def _golden(transcript: Transcript) -> Transcript:
    TRANSCRIPTS[transcript.__name__.strip("_").replace("_", "-")] = transcript
    return transcript


class Typed:
    """Commands and what they answered, as a terminal would show them."""

    def __init__(self, run: Callable[..., object], folder: str = "") -> None:
        self._run = run
        self._folder = folder
        self._lines: list[str] = []

    def __call__(self, *arguments: str, text: str | None = None) -> None:
        done = self._run(*arguments, text=text)
        shown = " ".join(f'"{each}"' if " " in each else each for each in arguments)
        self._lines.append(f"$ nodefleet {shown}{' <<< ' + json.dumps(text) if text else ''}")
        self._lines += [line.rstrip() for line in f"{done.stdout}{done.stderr}".splitlines()]
        self._lines += [f"[exit {done.exit_code}]", ""]

    def transcript(self) -> str:
        text = "\n".join(self._lines)
        if self._folder:
            text = text.replace(self._folder, "FOLDER")
        return re.sub(re.escape(str(EXAMPLES)), "EXAMPLES", text)


@contextmanager
def _at(cluster: Cluster) -> Iterator[Typed]:
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        yield Typed(Terminal(patch, SimConnection(cluster.world)), folder)


def _alone(*arguments: str, text: str | None = None) -> object:
    return CliRunner().invoke(main.app, list(arguments), input=text, env={"COLUMNS": "120"})


# ── commands on a cluster ────────────────────────────────────────────────────────────────────────────────────────


@_golden
def _growing() -> str:
    """Pods wait: the fleet grows, waits for its cooldown, and is explained and decided again."""
    cluster = shop(workers=3, replicas=12, cpu=900)
    cluster.look()
    cluster.tick()
    with _at(cluster) as typed:
        typed("explain")
        typed("explain", "--last", "3")
        typed("explain", cluster.world.ready_nodes()[0].name)
        typed("replay", "2026-11-16T12:02:00.000000Z-f1")
        typed("replay", "--last", "3")
        typed("run", "--once", "--dry-run")
        return typed.transcript()


@_golden
def _shrinking() -> str:
    """A quiet fleet: a node leaves, the others say why they stay."""
    cluster = shop(workers=5, replicas=2, cpu=100)
    names = [node.name for node in cluster.world.ready_nodes()]
    for _ in range(20):
        if not cluster.operations:
            cluster.look()
    with _at(cluster) as typed:
        typed("explain")
        for name in names:
            typed("explain", name)
        typed("run", "--once")
        cluster.calm(10)
        typed("explain", "--last", "4")
        return typed.transcript()


@_golden
def _interrupted() -> str:
    """EC2 takes a Spot node whose pods a budget protects."""
    cluster = shop(workers=3, replicas=6, cpu=300)
    cluster.world.protect("shop", max_unavailable="0")
    cluster.tick()
    taken = spot_worker(cluster.world)
    name = cluster.world.kube.node_of(taken).name
    cluster.warned([cluster.world.interrupt(taken)])
    with _at(cluster) as typed:
        typed("explain")
        typed("explain", name)
        cluster.calm(3)
        typed("explain", name)
        typed("explain", "--last", "6")
        return typed.transcript()


@_golden
def _degraded() -> str:
    """Prometheus is away, then Kubernetes, then both are back."""
    cluster = shop()
    cluster.tick()
    with _at(cluster) as typed:
        for port in ("gauges", "cluster", "cloud"):
            cluster.world.away(port, "no answer within 5 s")
            cluster.calm(2)
            typed("explain")
            cluster.world.back(port)
        cluster.calm(2)
        typed("explain")
        return typed.transcript()


@_golden
def _unhealthy() -> str:
    """One node dies, then half of the fleet."""
    cluster = shop(workers=6, replicas=6, limits={"min": 6, "max": 8})
    with _at(cluster) as typed:
        cluster.world.nodes.silence(cluster.world.ready_nodes()[0].name)
        cluster.calm(6)
        typed("explain", "--last", "4")
        for node in cluster.world.ready_nodes()[:4]:
            cluster.world.nodes.silence(node.name)
        cluster.calm(4)
        typed("explain")
        return typed.transcript()


@_golden
def _commands() -> str:
    """What an operator orders."""
    cluster = shop()
    cluster.world.add_workers(2, pool="batch")
    with _at(cluster) as typed:
        typed("commands")
        typed("pause", "--for", "2h", "--reason", "database migration", *ME)
        typed("scale", "default", "5", "--for", "2h", "--reason", "load test", *ME)
        typed("commands")
        typed("run", "--once")
        typed("resume", *ME)
        typed("resume", *ME)
        typed("run", "--once")
        typed("scale", "default", "--cancel", *ME)
        typed("scale", "default", "99", "--for", "2h", *ME)
        typed("adopt", "--pool", "default", "--all", "--reason", "batch is retired", *ME)
        typed("drain", "--all", "--yes", *ME)
        typed("commands")
        typed("run", "--once")
        return typed.transcript()


@_golden
def _policies() -> str:
    """A policy is applied, refused, listed and rolled back."""
    cluster = shop()
    with _at(cluster) as typed:
        typed("policy", "apply", "-", "--yes", *ME, text="limits: {min: 2, max: 8}\nsteps: {up: 2}\n")
        typed("policy", "apply", "-", "--yes", *ME, text="limits: {mx: 20}\nsteps: {up: 0}\n")
        typed("policy", "apply", "-", "--yes", *ME, text="limits: {min: 12, max: 8}\n")
        typed("run", "--once")
        typed("policy", "versions")
        typed("policy", "rollback", "1", "--yes", *ME)
        typed("policy", "versions")
        typed("deployment", "show")
        return typed.transcript()


@_golden
def _report() -> str:
    """Forty runs of a busy shop."""
    cluster = shop(workers=3, replicas=12, cpu=900)
    cluster.calm(40)
    with _at(cluster) as typed:
        typed("report", "--week", "current")
        typed("report")
        return typed.transcript()


# ── commands that need no cluster ────────────────────────────────────────────────────────────────────────────────


@_golden
def _deciding() -> str:
    """The examples of the docs, and an iteration that cannot be understood."""
    typed = Typed(_alone)
    for path in sorted((EXAMPLES / "observations").iterdir()):
        typed("decide", str(path))
    typed("decide", "-", text="nodes: three\ncpu: [65, 82]\nmemry: 40\n")
    return typed.transcript()


@_golden
def _checking_policies() -> str:
    """The examples of the docs, and one that has everything wrong."""
    typed = Typed(_alone)
    for path in sorted(set(EXAMPLES.glob("*.yaml")) - {EXAMPLES / "kubernetes.yaml"}):
        typed("policy", "check", str(path))
    wrong = (
        "limits: {min: 9, max: 4}\ncooldown: {up: soon, down: -1}\nreactive: {cpu: {up: 30, down: 70}}\n"
        "market: {types: [], spot_percent: 170}\nsustain: {kind: score, half_life: 30s}\nunknown: 1\n"
        "custom: [{kind: threshold, name: q, reading: nowhere}, {kind: magic}]\ndry_run: maybe\n"
    )
    typed("policy", "check", "-", text=wrong)
    return typed.transcript()


def simulated(name: str) -> str:
    """What `nodefleet simulate` says of a shipped scenario."""
    console = Console(file=StringIO(), width=_WIDTH, highlight=False, color_system=None)
    show_marks(shipped_day(name), console)
    show_summary(shipped_day(name), console)
    written = console.file
    assert isinstance(written, StringIO)
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines()) + "\n"


def slack() -> str:
    """The payload of each message of docs/messages.md: events of simulated situations (tests/messages.json)."""
    notifications = {kind.value: single(each) for kind, each in OF_A_KIND.items()} | dict(SPECIAL)
    shown = {
        name: payload(build_message(notification, LINKS, DeliveryLimits()))
        for name, notification in notifications.items()
    }
    return json.dumps(shown, indent=1, ensure_ascii=False) + "\n"


def files() -> dict[str, Transcript]:
    """By path below tests/golden."""
    return {
        **{f"cli/{name}.txt": transcript for name, transcript in TRANSCRIPTS.items()},
        **{f"simulate/{name}.txt": (lambda name=name: simulated(name)) for name in shipped()},
        "slack.json": slack,
    }


if __name__ == "__main__":
    for name, made in files().items():
        path = FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(made(), encoding="utf-8")

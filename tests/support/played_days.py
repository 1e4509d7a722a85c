"""Scenarios and seeds that several tests look at, each played once; and small ones, written as a file would be."""

from collections import Counter
from dataclasses import replace
from functools import cache

import yaml

from nodefleet_tools.sim.chaos.fault_injection import Rates, Strikes
from nodefleet_tools.sim.chaos.invocations import Invocations
from nodefleet_tools.sim.chaos.plan import Delivery, Plan
from nodefleet_tools.sim.chaos.planted import PLANTED
from nodefleet_tools.sim.chaos.play import Verdict
from nodefleet_tools.sim.chaos.play import play as play_seed
from nodefleet_tools.sim.chaos.scene import staged
from nodefleet_tools.sim.chaos.shortening import Shortening
from nodefleet_tools.sim.chaos.stage import Stage
from nodefleet_tools.sim.playing import play
from nodefleet_tools.sim.scenario_result import ScenarioResult
from nodefleet_tools.sim.scenarios.reading import Read, find, read

SMALL = """
name: small
about: Half an hour of a small shop.
starts: 2026-11-16T12:00:00Z
lasts: 30m
policy: {limits: {min: 2, max: 6}}
cluster: {workers: 3}
workloads:
  - {name: exporter, kind: daemon-set, cpu: 50, memory: 32}
  - {name: web, replicas: 6, cpu: 400, memory: 192, budget: {max_unavailable: "25%"}}
services:
  - workload: web
    per_pod: 25
    replicas: {min: 6, max: 24}
    load: [{kind: steady, rate: 100}]
compare: []
"""


@cache
def shipped_day(name: str) -> ScenarioResult:
    found = read(find(name))
    return play(found.scenario, traces=found.traces)


@cache
def played_seed(seed: int) -> Verdict:
    """Of the code as it is: one with a planted bug plays its own."""
    return play_seed(Plan.of(seed))


@cache
def shortened_cordon() -> Shortening:
    """The first seed with a planted bug that undoes operators' cordons, shortened to the least that it takes.

    It begins with some of each kind of trouble: to leave out all that the seed has takes three times as long."""
    plan = Plan.of(1)
    cordon = next(each.number for each in plan.incidents if each.kind == "an operator cordons a node")
    some = replace(
        plan,
        incidents=plan.incidents[cordon - 1 : cordon + 3],
        rates=Rates(fails_after=plan.rates.fails_after),
        delivery=Delivery(ticks_lost=plan.delivery.ticks_lost),
    )
    assert all((some.rates.fails_after, some.delivery.ticks_lost, some.skew, some.scene.workloads))
    with PLANTED["operator cordon undone"]():
        shortening = Shortening(play_seed(some), some)
        shortening.shorten()
    return shortening


def staged_plan(plan: Plan) -> Stage:
    """A plan's scene with all that it is played with, and nothing of it has happened yet."""
    world, figures = staged(plan), Counter()
    strikes = Strikes(world, plan.rates, plan.random("strikes"), figures, look_takes=plan.look_takes)
    return Stage(
        plan=plan,
        world=world,
        strikes=strikes,
        invocations=Invocations(plan, world, strikes, figures),
        figures=figures,
        snapshot=tuple(node for node in world.kube.nodes.values() if node.pool),
    )


def small(**parts: object) -> dict[str, object]:
    """The small scenario as a file's content, with some parts replaced."""
    return {**yaml.safe_load(SMALL), **parts}


def scenario(tmp_path, **parts: object) -> Read:
    """The same as a scenario."""
    path = tmp_path / "scenario.yaml"
    path.write_text(yaml.safe_dump(small(**parts), allow_unicode=True), encoding="utf-8")
    return read(path)


def played(tmp_path, **parts: object) -> ScenarioResult:
    found = scenario(tmp_path, **parts)
    return play(found.scenario, traces=found.traces)

"""From a seed that went wrong to a page that can be read: the smallest plan that still goes wrong, and what led to it.

Trouble that is not needed for the violation is left out bit by bit, as long as the same rule is still broken. What is
left shows what it takes. Of its trace, runs that did nothing are counted instead of shown, and so is everything long
before that has nothing to do with what was harmed.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from datetime import timedelta
from itertools import groupby

from nodefleet_tools.sim.chaos.fault_injection import Rates
from nodefleet_tools.sim.chaos.plan import Delivery, Plan
from nodefleet_tools.sim.chaos.play import Verdict, play
from nodefleet_tools.sim.rules import Happened, Violation

MOST_PLAYS = 60
MOST_LINES = 60
_RECENT = timedelta(minutes=6)
_NAMES = re.compile(r"i-[0-9a-f]{8}|(?:worker|server)-[0-9a-f]{8}|default/[\w-]+")
_DULL = re.compile(r"begins|lease \d+ (?:until|released).*|ends: (?:1 iterations, did nothing|.* is at work)")


class Shortening:
    """The plan of a seed that went wrong, without what does not matter."""

    def __init__(self, evaluation: Verdict, plan: Plan | None = None) -> None:
        self.plan = plan or Plan.of(evaluation.seed)
        self.verdict = evaluation  # of the plan as it is by now
        self._plays = 0

    def shorten(self, most_plays: int = MOST_PLAYS) -> None:
        self._try(replace(self.plan, skew=0.0), most_plays)
        for share in fields(Delivery):
            self._try(replace(self.plan, delivery=replace(self.plan.delivery, **{share.name: 0.0})), most_plays)
        for rate in fields(Rates):
            self._try(replace(self.plan, rates=replace(self.plan.rates, **{rate.name: 0.0})), most_plays)
        for plainer in ({"concurrency": 0}, {"look_takes": 0.0}, {"revives": True}, {"clears_stopped": True}):
            self._try(replace(self.plan, **plainer), most_plays)
        size = max(1, len(self.plan.incidents) // 2)
        while size:
            start = 0
            while start < len(self.plan.incidents):
                fewer = self.plan.without(*self.plan.incidents[start : start + size])
                if not self._try(fewer, most_plays):
                    start += size
            size //= 2
        for workload in self.plan.scene.workloads:
            scene = self.plan.scene
            fewer_workloads = tuple(each for each in scene.workloads if each is not workload)
            self._try(replace(self.plan, scene=replace(scene, workloads=fewer_workloads)), most_plays)

    def _try(self, plan: Plan, most_plays: int) -> bool:
        """Whether it still goes wrong, in the same way."""
        if plan == self.plan or self._plays >= most_plays:
            return False
        self._plays += 1
        again = play(plan)
        if again.first is None or self.verdict.first is None or again.first.rule is not self.verdict.first.rule:
            return False
        self.plan, self.verdict = plan, again
        return True


# ── the trace ────────────────────────────────────────────────────────────────────────────────────────────────────


def story(trace: Sequence[Happened], violation: Violation, most: int = MOST_LINES) -> list[str]:
    """The lines that matter, up to the violation."""
    before = [each for each in trace if each.at <= violation.at]
    names = set(_NAMES.findall(violation.detail))
    dull = _did_nothing(before)
    lines: list[str] = []
    for skipped, group in groupby(before, key=lambda each: not _matters(each, violation, names, dull)):
        told = list(group)
        if skipped:
            runs = len({each.who for each in told if each.what == "begins"})
            lines += [f"         … {runs} runs"] if runs else []
        else:
            lines += [str(each) for each in told]
    return lines if len(lines) <= most else [f"         … {len(lines) - most} lines", *lines[-most:]]


def _matters(each: Happened, violation: Violation, names: set[str], dull: set[str]) -> bool:
    if each.who in dull:
        return False
    if each.who == "incident" or names & set(_NAMES.findall(each.what)):
        return True
    return violation.at - each.at <= _RECENT


def _did_nothing(trace: Iterable[Happened]) -> set[str]:
    """Runs that only came and went."""
    by_run: dict[str, bool] = {}
    for each in trace:
        by_run[each.who] = by_run.get(each.who, True) and _DULL.fullmatch(each.what) is not None
    return {who for who, only in by_run.items() if only}

"""The replay corpus: decision inputs of simulated runs, stored whole, with the outcome that each must give.

    make corpus             decides every stored input again and writes the outcomes; `git diff` shows which changed
    make corpus-inputs      plays the simulations again and chooses inputs again; then the same
    make corpus-add SCENARIO=headroom    plays one scenario and puts its inputs behind the others; then the same

Inputs come from all shipped scenarios, the situations of every message, and chaos seeds. They are chosen for variety:
an input is kept when its outcome has a combination of actions, bounds, steps, alerts, stay reasons and phases that no
input before it had. An outcome holds no sentence (`nodefleet_tools.outcomes`), so rewording changes nothing there. The
sentences have a file of their own: an example of each form that a bound, an alert, a vote or a reason takes.
"""

import json
import lzma
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nodefleet.engine.decide import decide
from nodefleet.model.decision import Decision
from nodefleet.model.operations import Create, Save, SendAlert, Step
from nodefleet.model.serialization import from_plain, to_plain
from nodefleet.model.snapshot import Observation
from nodefleet.model.state import Memory
from nodefleet.policy.cluster import Policy
from nodefleet.reconcile import run
from nodefleet.reconcile.audit import DecisionInput
from nodefleet_tools.outcomes import Outcome, digest_of, outcome_of, summary_of
from nodefleet_tools.sim.chaos.plan import Plan
from nodefleet_tools.sim.chaos.play import play as play_seed
from nodefleet_tools.sim.playing import play
from nodefleet_tools.sim.scenarios.reading import read, shipped
from support.message_situations import all_produced
from support.stories import stories

FOLDER = Path(__file__).parents[1] / "corpus"
INPUTS = FOLDER / "inputs.jsonl.xz"  # a line each: name and question; alike ones next to each other, which xz likes
OUTCOMES = FOLDER / "outcomes.txt"  # a line each: name, digest, summary
SENTENCES = FOLDER / "sentences.txt"  # what operators read of these decisions, an example of each form
SEEDS = range(100)
LARGEST = 80_000  # bytes of an input: a few large clusters would fill the whole corpus
MOST_FORMS = 12  # of one source, kind or reason: sentences are joined in many ways
_FIGURE = re.compile(r"\b(?:worker-|i-)[0-9a-f]+|\d[\d:.,]*")


@dataclass(frozen=True, slots=True)
class Stored:
    name: str
    plain: Any

    def question(self) -> DecisionInput:
        return from_plain(DecisionInput, self.plain)

    def decision(self) -> Decision:
        question = self.question()
        return decide(question.observation, question.memory, question.policy)


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────


def stored(every: int = 1) -> Iterator[Stored]:
    """The corpus, or each so-manieth input of it."""
    with lzma.open(INPUTS, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            if number % every == 0:
                name, plain = json.loads(line)
                yield Stored(name, plain)


@dataclass(frozen=True, slots=True)
class Decided:
    """The corpus as the code decides it: a line for each input, and a line for each form of a sentence."""

    outcomes: tuple[str, ...]
    sentences: tuple[str, ...]
    kinds: Counter[str]  # how many decisions have each feature


def decided(inputs: Iterable[Stored]) -> Decided:
    outcomes, kinds, forms = [], Counter[str](), Forms()
    for each in inputs:
        decision = each.decision()
        outcome = outcome_of(decision)
        outcomes.append(f"{each.name} {digest_of(outcome)} {summary_of(outcome)}")
        kinds.update(kind_of(outcome))
        forms.add(each.name, decision)
    return Decided(tuple(outcomes), tuple(forms.lines()), kinds)


def lines_of(path: Path) -> tuple[str, ...]:
    return tuple(path.read_text(encoding="utf-8").splitlines())


def differences(expected: Sequence[str], found: Sequence[str]) -> list[str]:
    """The lines that differ, by their first word."""
    before, now = ({line.split(" ", 1)[0]: line for line in lines} for lines in (expected, found))
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    return [f"{name}\n  was {before.get(name)}\n  is  {now.get(name)}" for name in names]


class Forms:
    """The first example of each form of a sentence, by what says it."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, str]] = {}

    def add(self, name: str, decision: Decision) -> None:
        for said_by, sentence in sentences_of(decision):
            forms = self._found.setdefault(said_by, {})
            form = _FIGURE.sub("#", sentence)
            if sentence and form not in forms and len(forms) < MOST_FORMS:
                forms[form] = f"{said_by} | {name} | {sentence}"

    def lines(self) -> Iterator[str]:
        for said_by in sorted(self._found):
            yield from self._found[said_by].values()


def sentences_of(decision: Decision) -> Iterator[tuple[str, str]]:
    """What operators read of a decision, and what says it."""
    for pool in decision.pools:
        yield f"reason/{pool.action.value}", pool.reason
        for bound in pool.bounds:
            yield f"bound/{bound.source.split(':')[0]}", bound.sentence
        for vote in pool.votes:
            yield f"vote/{vote.split(':')[0]}", vote
        for stay in pool.stays:
            yield f"stay/{stay.reason.value}", stay.detail
        yield from _of_steps(pool.plan)
    yield from _of_steps((*decision.tells, *decision.plan))
    yield "requeue", decision.look_again


def _of_steps(plan: Iterable[Step]) -> Iterator[tuple[str, str]]:
    for step in plan:
        match step:
            case SendAlert():
                yield f"alert/{step.alert.value}", step.text
            case Create(operation) | Save(operation):
                yield f"operation/{type(operation).__name__.lower()}", operation.reason
            case _:
                pass


# ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────────


class Chooser:
    """Keeps the inputs whose outcomes are of a new kind."""

    def __init__(self) -> None:
        self.kept: list[Stored] = []
        self.seen: set[frozenset[str]] = set()
        self.story = ""
        self.number = 0

    def begin(self, story: str, *, afresh: bool = False) -> None:
        """`afresh`: what other stories had is kept of this one too."""
        self.story, self.number = story, 0
        if afresh:
            self.seen.clear()

    def decide(self, seen: Observation, memory: Memory, policy: Policy) -> Decision:
        """Stands in for the engine's: decides, and looks at what came of it."""
        decision = decide(seen, memory, policy)
        self.number += 1
        kind = kind_of(outcome_of(decision))
        if kind not in self.seen:
            plain = to_plain(DecisionInput(observation=seen, memory=memory, policy=policy))
            if len(_line(plain)) <= LARGEST:
                self.seen.add(kind)
                self.kept.append(Stored(f"{self.story}/{self.number}", plain))
        return decision


def kind_of(outcome: Outcome) -> frozenset[str]:
    """What is special about an outcome. Names and figures do not count."""
    features = {outcome["level"], *(f"step {_named(step)}" for step in outcome["steps"])}
    features |= {f"alert {alert[0]}" for alert in outcome["alerts"]}
    for pool in outcome["pools"]:
        features |= {pool["action"], *(["dry"] if pool["dry_run"] else [])}
        features |= {f"step {_named(step)}" for step in pool["steps"]}
        features |= {f"alert {alert[0]}" for alert in pool["alerts"]}
        features |= {f"{source.split(':')[0]} {side} {rank}" for source, side, _, rank, _ in pool["bounds"]}
        features |= {f"{each[0].split(':')[0]} < {each[4].split(':')[0]}" for each in pool["overruled"]}
        features |= {f"{phase} {reason}" for _, phase, reason in pool["stays"]}
    return frozenset(features)


def _named(step: Outcome) -> str:
    words = (step.get(key) for key in ("step", "operation", "purpose", "why", "notice", "debris", "market"))
    return " ".join(str(word) for word in words if word and not str(word).startswith("shop"))


def _line(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@contextmanager
def _watching(chooser: Chooser) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "decide", chooser.decide)
        yield


def choose() -> list[Stored]:
    chooser = Chooser()
    with _watching(chooser):
        chooser.begin("situations")
        all_produced()
        for name, story in stories():
            chooser.begin(name, afresh=True)
            story()
        for name, path in shipped().items():
            chooser.begin(f"scenario-{name}")
            found = read(path)
            play(found.scenario, traces=found.traces)
        for seed in SEEDS:
            chooser.begin(f"chaos-{seed}")
            play_seed(Plan.of(seed))
    return chooser.kept


def add(scenario: str) -> list[Stored]:
    """The stored inputs, and those of one scenario: all others keep their place and their outcome."""
    chooser, story = Chooser(), f"scenario-{scenario}"
    with _watching(chooser):
        chooser.begin(story)
        found = read(shipped()[scenario])
        play(found.scenario, traces=found.traces)
    return [*(each for each in stored() if each.name.rpartition("/")[0] != story), *chooser.kept]


def write_inputs(kept: Sequence[Stored]) -> None:
    FOLDER.mkdir(exist_ok=True)
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 1 << 26}]
    with lzma.open(INPUTS, "wt", encoding="utf-8", filters=filters) as lines:
        for each in kept:
            lines.write(_line([each.name, each.plain]) + "\n")


def write_outcomes() -> None:
    found = decided(stored())
    OUTCOMES.write_text("".join(f"{line}\n" for line in found.outcomes), encoding="utf-8")
    SENTENCES.write_text("".join(f"{line}\n" for line in found.sentences), encoding="utf-8")


if __name__ == "__main__":
    if "--inputs" in sys.argv:
        write_inputs(choose())
    if "--add" in sys.argv:
        write_inputs(add(sys.argv[-1]))
    write_outcomes()

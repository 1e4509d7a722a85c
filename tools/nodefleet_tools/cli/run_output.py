"""What a run shows: one block for each iteration, or one JSON object, and whatever else it says on stderr."""

import json
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.text import Text

from nodefleet.adapters.credentials import Redactor
from nodefleet.adapters.telemetry import PlainTelemetry, plain
from nodefleet.model.decision import DecisionRecord, PoolDecision
from nodefleet.model.names import Metric, pluralize
from nodefleet.model.serialization import to_plain
from nodefleet.ports import LeaseHeld
from nodefleet_tools.cli.plan_words import sentence
from nodefleet_tools.cli.show_decision import STYLES, headline

_LOOK = "look"  # the field that only the line of an iteration has
_TOLD = ("failures", "evictions", "joins", "drains", "look_again", "calls", "seconds")


class RunOutput:
    """`ports.Telemetry` of runs at a terminal. It hears each decision as it is written, and shows it when the iteration
    is over. Never raises: a run must not fail because it could not be shown."""

    def __init__(
        self,
        *,
        as_json: bool,
        calls: Callable[[], int],
        redact: Redactor,
        clock: Callable[[], datetime],
        console: Console | None = None,
    ) -> None:
        self.calls = calls
        self._as_json = as_json
        self._redact = redact
        self._clock = clock
        self._console = console or Console(highlight=False)
        self._aside = PlainTelemetry(calls=calls, redact=redact, clock=clock)
        self._record: DecisionRecord | None = None

    def heard(self, record: DecisionRecord) -> None:
        self._record = record

    # ── the port ─────────────────────────────────────────────────────────────────────────────────────────────────

    def metric(self, metric: Metric, value: float) -> None:
        """No alarm watches a laptop, and the figures stand in the iterations."""

    def warn(self, message: str, **fields: Any) -> None:
        self._aside.warn(message, **fields)

    def line(self, message: str, **fields: Any) -> None:
        if _LOOK not in fields or self._record is None:
            self._aside.line(message, **fields)
            return
        record, self._record = self._record, None
        try:
            self._shown(record, fields)
        except Exception as problem:  # noqa: BLE001  # whatever is wrong with showing, the run goes on
            self._aside.warn(f"{message} (it could not be shown: {type(problem).__name__})")

    # ── what is no iteration ─────────────────────────────────────────────────────────────────────────────────────

    def held(self, held: LeaseHeld) -> None:
        """Another run is at work; the loop has said so already, to operators."""
        if self._as_json:
            self._object("held", by=held.owner, until=held.expires)

    def failed(self, error: BaseException) -> None:
        """For instances; operators hear of it in other ways."""
        if self._as_json:
            self._object("error", error=f"{error}", type=type(error).__name__)

    def _object(self, kind: str, **fields: Any) -> None:
        self._print_json(plain({"kind": kind, "at": self._clock(), **fields}))

    def _print_json(self, fields: Mapping[str, Any]) -> None:
        print(self._redact(json.dumps(fields, ensure_ascii=False)), flush=True)

    # ── an iteration ─────────────────────────────────────────────────────────────────────────────────────────────

    def _shown(self, record: DecisionRecord, fields: Mapping[str, Any]) -> None:
        if self._as_json:
            self._print_json(_as_object(record, fields))
            return
        self._say(Text(_first_line(record, fields), "dim"))
        for pool in record.decision.pools:
            self._pool(pool)
        for tell in record.decision.tells:
            self._say(Text(f"  ! {tell.text}"))
        for done in record.did:
            self._say(Text.assemble("  ", ("done: ", "bold"), done))
        if fields.get("failures"):
            self._say(Text(f"  {pluralize(fields['failures'], 'step', 'steps')} failed", "bold red"))
        if again := fields.get("look_again"):
            self._say(Text(f"  next iteration soon: {again}", "dim"))

    def _pool(self, pool: PoolDecision) -> None:
        dry = "  (dry run)" if pool.dry_run else ""
        self._say(Text.assemble((f"{pool.pool}: ", "bold"), (headline(pool), STYLES[pool.action]), dry))
        self._say(Text(f"  {pool.reason}"))
        for step in pool.plan if pool.dry_run else ():
            self._say(Text.assemble("  ", ("would ", "bold"), sentence(step)))

    def _say(self, text: Text) -> None:
        """In a log file a line stays a line."""
        clean = self._redact(text.plain)
        shown = text if clean == text.plain else Text(clean)
        self._console.print(shown, soft_wrap=not self._console.is_terminal)
        sys.stdout.flush()


def _first_line(record: DecisionRecord, fields: Mapping[str, Any]) -> str:
    figures = record.figures
    waiting = int(figures.get("unschedulable_pods", 0))
    parts = [
        f"{record.at:%H:%M:%S} {record.cluster}",
        f"iteration {fields[_LOOK]}",
        f"level {record.decision.level.value}",
        *(_pool_figures(pool, figures) for pool in record.decision.pools),
        *([f"{pluralize(waiting, 'pod waits', 'pods wait')}"] if waiting else []),
        *([f"{figures['hourly_usd']:.3f} USD/h"] if "hourly_usd" in figures else []),
    ]
    return " · ".join(parts)


def _pool_figures(pool: PoolDecision, figures: Mapping[str, float]) -> str:
    read = {"CPU": figures.get(f"{pool.pool}.cpu"), "memory": figures.get(f"{pool.pool}.memory")}
    percents = [f"{name} {value:.0f} %" for name, value in read.items() if value is not None]
    return f"{pool.pool} {', '.join([f'{pool.count.ready}+{pool.count.booting} nodes', *percents])}"


def _as_object(record: DecisionRecord, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that the record holds, and what only the run knows. A dry run is archived nowhere."""
    whole = to_plain(record)
    if record.dry:
        whole.pop("archived", None)
    return {
        "kind": "look",
        "look": fields[_LOOK],
        "level": record.decision.level.value,
        **whole,
        "dry": record.dry,
        "did": list(record.did),
        "figures": dict(record.figures),
        **{name: plain(fields[name]) for name in _TOLD if name in fields},
    }

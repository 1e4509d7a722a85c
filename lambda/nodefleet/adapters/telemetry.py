"""Telemetry of a run on AWS Lambda Powertools: JSON lines without secrets, and metrics in EMF."""

import json
import logging
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from math import isfinite
from typing import IO, Any

from aws_lambda_powertools.logging import Logger
from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter
from aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch import AmazonCloudWatchEMFProvider

from nodefleet.adapters.clock import utc_now
from nodefleet.adapters.credentials import Redactor
from nodefleet.model.names import METRIC_INFO, Metric

# ── log fields ───────────────────────────────────────────────────────────────────────────────────────────────────────
# Values as they stand in a log line: plain JSON that an operator can read, whatever is handed in.
#
# Times are in UTC, durations in seconds, errors come with what caused them. Nothing here raises: a value that cannot
# even be turned into text is named by its type.


_DEEPEST = 8
_DEEPER = "…"


def plain(value: Any, depth: int = 0) -> Any:
    """The value as JSON knows it."""
    match value:
        case None | bool() | int() | str() if not isinstance(value, Enum):
            return value
        case float():
            return value if isfinite(value) else str(value)  # JSON has no word for these
        case Enum():
            return plain(value.value, depth)
        case datetime():
            return instant(value)
        case timedelta():
            return value.total_seconds()
        case BaseException():
            return story(value)
        case _ if depth >= _DEEPEST:
            return _DEEPER
        case Mapping():
            return {text(plain(key, depth + 1)): plain(inner, depth + 1) for key, inner in value.items()}
        case _ if is_dataclass(value) and not isinstance(value, type):
            # As the author of the class shows it: what has no repr is secret, or of no use to a reader.
            shown = [each.name for each in fields(value) if each.repr]
            return {name: plain(getattr(value, name), depth + 1) for name in shown}
        case set() | frozenset():
            return sorted((plain(inner, depth + 1) for inner in value), key=text)
        case list() | tuple() | Iterable() if not isinstance(value, bytes | bytearray):
            return [plain(inner, depth + 1) for inner in value]
        case _:
            return text(value)


def instant(at: datetime) -> str:
    """2026-11-16T12:00:00Z. A time without a zone is told as it is."""
    if at.tzinfo is None:
        return at.isoformat()
    return at.astimezone(UTC).isoformat().removesuffix("+00:00") + "Z"


def story(problem: BaseException) -> str:
    """An error and what caused it, the latest first."""
    told: list[str] = []
    seen: set[int] = set()
    following: BaseException | None = problem
    while following is not None and id(following) not in seen:
        seen.add(id(following))
        name, said = type(following).__name__, text(following)
        told.append(f"{name}: {said}" if said else name)
        following = following.__cause__ or (None if following.__suppress_context__ else following.__context__)
    return " ← ".join(told)


def text(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001  # whatever its author did wrong, the line must come out
        return f"<{type(value).__name__}>"


# ── telemetry ────────────────────────────────────────────────────────────────────────────────────────────────────────
# What alarms and readers of logs see of a run, on AWS Lambda Powertools: JSON lines, and metrics in EMF.
#
# A run writes its metrics once, at its end. In a burst it looks many times, so each metric says what several values of
# one run come to (`WITHIN_A_RUN`):
#
# last      a state. What holds at the end is what an alarm should see; the iterations before lie in the log.
# highest   a state whose peak matters: pods that waited, even if they do no longer
# sum       things that happened
# each      measurements of single events; CloudWatch keeps them all, for percentiles
#
# The only dimension is the cluster, because each further value of one is billed as another metric. CloudWatch bills a
# metric for the hours in which it is written: with `only_those`, the figures of failures are written while one of them
# is not zero (`WHILE_FAILING`). Nothing here raises, and no secret passes: see redaction.


NAMESPACE = "NodeFleet"
DIMENSION = "cluster"
SERVICE = "node-fleet"
_MOST_VALUES = 99  # EMF takes 100 values of a metric, but at 100 Powertools writes a line of its own
_LONGEST = 200_000  # characters; CloudWatch Logs cuts a line at 256 KiB
_ORDER = ["message", "level", "timestamp", "cluster", "run"]
# What a log record or a line has already. A field of that name gets an underscore.
_TAKEN = frozenset(
    {*vars(logging.makeLogRecord({})), "message", "level", "timestamp", "asctime", "location", "exception"}
)


class Several(Enum):
    """What several values of a metric within one run come to."""

    LAST = "last"
    HIGHEST = "highest"
    SUM = "sum"
    EACH = "each"


WITHIN_A_RUN: dict[Metric, Several] = {
    Metric.CURRENT_NODE_COUNT: Several.LAST,
    Metric.PENDING_PODS: Several.HIGHEST,
    Metric.CPU: Several.LAST,
    Metric.MEMORY: Several.LAST,
    Metric.SCALE_UPS: Several.SUM,
    Metric.SCALE_DOWNS: Several.SUM,
    Metric.FAILURES: Several.SUM,
    Metric.JOIN_LATENCY: Several.EACH,
    Metric.INVOCATIONS: Several.SUM,
    Metric.LEVEL: Several.LAST,
    Metric.LEASE_HELD: Several.SUM,
    Metric.MALFORMED: Several.SUM,
    Metric.HOURLY_COST: Several.LAST,
    Metric.SPOT_SHARE: Several.LAST,
    Metric.DURATION: Several.LAST,
    Metric.CALLS: Several.LAST,
    Metric.DRAIN_TIME: Several.EACH,
    Metric.EVICTIONS: Several.SUM,
    Metric.AT_MAX: Several.HIGHEST,
    Metric.SCHEDULED_RUNS: Several.SUM,
    Metric.API_SERVER_AWAY: Several.LAST,
    Metric.EC2_AWAY: Several.LAST,
    Metric.FORECAST_SKILL: Several.LAST,
    Metric.VIOLATIONS_PROMISED: Several.LAST,
    Metric.VIOLATIONS_SEEN: Several.LAST,
}


# Their alarms take missing data for zero. All are written as soon as one is not zero, and the level stays above zero
# for a while after parts return (recovery), so the end of an outage is written too.
WHILE_FAILING = frozenset({Metric.FAILURES, Metric.LEVEL, Metric.API_SERVER_AWAY, Metric.EC2_AWAY})


class LambdaTelemetry:
    """`ports.Telemetry` of one run in Lambda. `flush` once, at its end."""

    def __init__(
        self,
        *,
        cluster: str,
        run: str,
        calls: Callable[[], int],
        redact: Redactor,
        opt_in: Collection[Metric] = (),
        only_those: bool = False,
        namespace: str = NAMESPACE,
        stream: IO[str] | None = None,
    ) -> None:
        """`run` is what the lines of a run have in common, such as Lambda's request id. `opt_in` names the metrics
        beyond the default ones that are worth their price, or with `only_those` instead of them. `redact` is one for
        the whole process."""
        self.calls = calls
        self._who = {"cluster": cluster, "run": run}
        self._dimensions = {DIMENSION: cluster} if cluster else {}
        default = () if only_those else (metric for metric, about in METRIC_INFO.items() if not about.opt_in)
        self._on = {*default, *opt_in}
        self._sparse = WHILE_FAILING if only_those else frozenset()
        self._namespace = namespace
        self._stream = stream or sys.stdout
        self._logger = _logger(self._stream, redact)
        self._values: dict[Metric, list[float]] = {}

    def metric(self, metric: Metric, value: float) -> None:
        with _harmless():
            if metric not in self._on:
                return
            if not isfinite(value):
                self.warn(f"{metric.value} is {value}: not written")
                return
            before = self._values.get(metric, [])
            self._values[metric] = _together(WITHIN_A_RUN[metric], before, float(value))

    def line(self, message: str, **fields: Any) -> None:
        with _harmless():
            self._logger.info(message, extra=self._extra(fields))

    def warn(self, message: str, **fields: Any) -> None:
        with _harmless():
            self._logger.warning(message, extra=self._extra(fields))

    def flush(self) -> None:
        """Write the metrics: one line, unless single events were very many."""
        with _harmless():
            left, self._values = self._values, {}
            if not any(value for metric in self._sparse for value in left.get(metric, ())):
                left = {metric: values for metric, values in left.items() if metric not in self._sparse}
            while left:
                now = {metric: values[:_MOST_VALUES] for metric, values in left.items()}
                left = {metric: rest for metric, values in left.items() if (rest := values[_MOST_VALUES:])}
                print(json.dumps(self._emf(now), separators=(",", ":")), file=self._stream, flush=True)

    def _emf(self, values: Mapping[Metric, list[float]]) -> Mapping[str, Any]:
        provider = AmazonCloudWatchEMFProvider(namespace=self._namespace, default_dimensions={**self._dimensions})
        provider.service = ""  # from the environment it would become one more dimension
        for metric, several in values.items():
            for value in several:
                provider.add_metric(name=metric.value, unit=METRIC_INFO[metric].unit.value, value=value)
        return {**provider.serialize_metric_set()}

    def _extra(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        named = {f"{name}_" if name in _TAKEN else name: plain(value) for name, value in fields.items()}
        return {**self._who, **named}


class PlainTelemetry:
    """`ports.Telemetry` for an operator at a terminal: a line of text for each line, and no metrics."""

    def __init__(
        self,
        *,
        calls: Callable[[], int],
        redact: Redactor,
        stream: IO[str] | None = None,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self.calls = calls
        self._redact = redact
        self._stream = stream or sys.stderr
        self._clock = clock

    def metric(self, metric: Metric, value: float) -> None:
        """There are no alarms on a laptop, and the figures stand in the lines."""

    def line(self, message: str, **fields: Any) -> None:
        self._write("", message, fields)

    def warn(self, message: str, **fields: Any) -> None:
        self._write("warning: ", message, fields)

    def _write(self, mark: str, message: str, fields: Mapping[str, Any]) -> None:
        with _harmless():
            told = ", ".join(f"{name}={_short(value)}" for name, value in fields.items())
            text = f"{self._clock():%H:%M:%S} {mark}{message}" + (f"  ({told})" if told else "")
            print(self._redact(text), file=self._stream, flush=True)


class _Lines(LambdaPowertoolsFormatter):
    """JSON lines, message first, without secrets."""

    def __init__(self, redact: Redactor) -> None:
        super().__init__(
            log_record_order=_ORDER,
            utc=True,
            use_rfc3339=True,
            json_deserializer=_as_it_is,
            location=None,  # always this file: of no use to a reader
        )
        self.redact = redact

    def serialize(self, log: Any) -> str:
        text = super().serialize(log)
        if len(text) > _LONGEST:
            short = {name: log[name] for name in _ORDER if name in log}
            short["message"] = str(short["message"])[:1000]
            text = super().serialize({**short, "left_out": f"the rest, {len(text)} characters"})
        return self.redact(text)


def _as_it_is(text: Any) -> Any:
    """A message is a sentence, even if it reads like JSON."""
    return text


def _logger(stream: IO[str], redact: Redactor) -> Logger:
    """Loggers live as long as the process: the one that a warm function has is used again."""
    logger = Logger(service=SERVICE, stream=stream, logger_formatter=_Lines(redact))
    logger.structure_logs(service=None, sampling_rate=None)
    handler, formatter = logger.registered_handler, logger.registered_formatter
    if isinstance(handler, logging.StreamHandler) and isinstance(formatter, _Lines):
        handler.stream = stream  # not setStream, which flushes the last one: that may be closed by now
        formatter.redact = redact
    for other in logging.getLogger().handlers:  # Lambda's own, which takes what libraries log
        other.addFilter(redact)
    return logger


def _together(several: Several, before: list[float], value: float) -> list[float]:
    match several:
        case Several.LAST:
            return [value]
        case Several.HIGHEST:
            return [max(*before, value)] if before else [value]
        case Several.SUM:
            return [sum(before) + value]
        case Several.EACH:
            return [*before, value]


def _short(value: Any, most: int = 200) -> str:
    value = plain(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= most else f"{text[:most]}…"


@contextmanager
def _harmless() -> Iterator[None]:
    """A run must not fail because it could not be told about."""
    try:
        yield
    except Exception as problem:  # noqa: BLE001
        with suppress(OSError, ValueError):  # a closed stream: there is no reader left
            sys.stderr.write(f"telemetry failed: {type(problem).__name__}\n")

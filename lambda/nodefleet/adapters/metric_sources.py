"""All readings of an iteration: Prometheus, SQS and CloudWatch asked at the same time, under one deadline.

What two pools ask alike is asked once. Never raises: whatever is not there in time, or is wrong, is Missing with its
cause, and the decision treats it as unknown.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from nodefleet.adapters.aws.metrics import CloudWatchMetrics, SqsQueues
from nodefleet.adapters.concurrency import Threads
from nodefleet.adapters.prometheus import PrometheusClient, QueryResult, by_node, for_pool, is_empty, one_number
from nodefleet.model.readings import Missing, PoolReadings, Reading, Sample
from nodefleet.policy import demand
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Pool

_NO_PROMETHEUS = Missing("no Prometheus is known: give its address in the deployment, or in PROMETHEUS_URL")
LOAD_HISTORY = timedelta(days=7, hours=8)  # by minute this is as much as Prometheus gives at once (11,000 points)
_MINUTE = timedelta(minutes=1)
_NO_AWS = Missing("AWS is not asked for readings here")
_NOTHING_SCRAPED = Missing("Prometheus has scraped nothing for minutes: whatever it answers is out of date")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answers:
    """What came back, or a part of it."""

    queries: Mapping[str, QueryResult | Missing] = field(default_factory=dict)  # by PromQL
    queues: Mapping[str, Mapping[str, Sample]] = field(default_factory=dict)  # by URL and attribute
    metrics: Sequence[tuple[demand.CloudWatch, Sample]] = ()
    load: Mapping[str, tuple[Reading, ...]] = field(default_factory=dict)  # by pool

    def __or__(self, other: "_Answers") -> "_Answers":
        return _Answers(
            queries={**self.queries, **other.queries},
            queues={**self.queues, **other.queues},
            metrics=(*self.metrics, *other.metrics),
            load={**self.load, **other.load},
        )


@dataclass(frozen=True, slots=True)
class _Asking:
    """One thing to ask, and what stands for its answer if there is none."""

    part: str
    ask: Callable[[], _Answers]
    unanswered: Callable[[Missing], _Answers]


def _ignore_warning(_: str) -> None:
    """No listener: warnings are dropped."""


class Sources:
    """`ports.Gauges` on the real sources. One that is not given is Missing where the policy reads it."""

    def __init__(
        self,
        *,
        prometheus: PrometheusClient | None = None,
        sqs: SqsQueues | None = None,
        cloudwatch: CloudWatchMetrics | None = None,
        warn: Callable[[str], None] = _ignore_warning,
        threads: Threads | None = None,
    ) -> None:
        self._prometheus = prometheus
        self._sqs = sqs
        self._cloudwatch = cloudwatch
        self._warn = warn
        self._warned: dict[str, str] = {}  # by pool, so that a burst or a warm function does not repeat itself
        self._threads = threads or Threads()

    def read(
        self, policy: Policy, now: datetime, within: timedelta, known: Mapping[str, datetime] | None = None
    ) -> Mapping[str, PoolReadings]:
        askings = [
            *self._of_prometheus(policy, within),
            *self._of_load(policy, now, within, known or {}),
            *self._of_aws(policy, now),
        ]
        results = self._threads.within(within, [each.ask for each in askings])
        heard = _Answers()
        for asking, result in zip(askings, results, strict=True):
            heard |= _or_lost(asking, result, within)
        look = _Sampler(heard=heard, now=now, trusted_for=policy.trust.stale_after, newest=self._newest())
        return {pool.name: self._pool(pool, look) for pool in policy.pools}

    def _newest(self) -> str:
        return self._prometheus.newest if self._prometheus else ""

    def _of_prometheus(self, policy: Policy, within: timedelta) -> Iterator[_Asking]:
        asked = {for_pool(query, pool.name) for pool in policy.pools for query in _queries(pool)}
        texts = {each for each in asked if isinstance(each, str)}
        deadline = time.monotonic() + within.total_seconds()
        for query in sorted(texts | {self._newest()} if self._newest() else texts):
            yield _query(self._prometheus, query, deadline)

    def _of_load(
        self, policy: Policy, now: datetime, within: timedelta, known: Mapping[str, datetime]
    ) -> Iterator[_Asking]:
        """The load minute by minute, since it was last known: what `strategy: adaptive` learns from."""
        deadline = time.monotonic() + within.total_seconds()
        for pool in policy.pools:
            query = for_pool(pool.queries.load, pool.name)
            if pool.strategy == "adaptive" and self._prometheus and isinstance(query, str):
                begin = _first_minute(known.get(pool.name), now)
                yield _load(self._prometheus, pool.name, query, (begin, now), deadline)

    def _of_aws(self, policy: Policy, now: datetime) -> Iterator[_Asking]:
        sources = [source for pool in policy.pools for source in pool.readings.values()]
        queues: dict[str, set[str]] = {}
        metrics: list[demand.CloudWatch] = []
        for source in sources:
            match source:
                case demand.Sqs():
                    queues.setdefault(source.queue_url, set()).add(source.attribute)
                case demand.CloudWatch() if source not in metrics:
                    metrics.append(source)
                case _:
                    pass
        for url, attributes in queues.items():
            yield _queue_metrics(self._sqs, url, sorted(attributes), now)
        if metrics:
            yield _metrics(self._cloudwatch, metrics, now, policy.trust.stale_after)

    def _pool(self, pool: Pool, look: "_Sampler") -> PoolReadings:
        return PoolReadings(
            cpu=look.sample(pool.queries.cpu, pool.name),
            memory=look.sample(pool.queries.memory, pool.name),
            nodes=look.sample(pool.queries.nodes, pool.name),
            custom={name: look.reading(source, pool.name) for name, source in pool.readings.items()},
            load=look.heard.load.get(pool.name, ()),
            idle=self._idle(pool, look),
        )

    def _idle(self, pool: Pool, look: "_Sampler") -> Mapping[str, float]:
        """It only orders who leaves first, so nothing waits for it; but operators should know."""
        got = look.answer(pool.queries.idle, pool.name)
        found = got if isinstance(got, Missing) else by_node(got)
        if not isinstance(found, Missing):
            self._warned.pop(pool.name, None)
            return found
        if self._warned.get(pool.name) != found.cause:
            self._warned[pool.name] = found.cause
            self._warn(f"pool {pool.name}: how idle each node is cannot be read: {found.cause}")
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sampler:
    """What was heard, as readings with their sample times."""

    heard: _Answers
    now: datetime
    trusted_for: timedelta
    newest: str  # the query that tells how old Prometheus's samples are

    def reading(self, source: demand.Source, pool: str) -> Sample:
        match source:
            case demand.Prometheus():
                return self.sample(source.query, pool)
            case demand.Sqs():
                return self.heard.queues[source.queue_url][source.attribute]
            case demand.CloudWatch():
                return next(sample for asked, sample in self.heard.metrics if asked == source)

    def sample(self, query: str, pool: str) -> Sample:
        got = self.answer(query, pool)
        if isinstance(got, Missing):
            return got
        value = one_number(got)
        age = self._age()
        if isinstance(value, Missing):
            # No data counts as such only while we know that Prometheus scrapes.
            if isinstance(age, Missing) or not is_empty(got):
                return value
            return replace(value, empty_at=self.now - age)
        return age if isinstance(age, Missing) else Reading(value, self.now - age)

    def answer(self, query: str, pool: str) -> QueryResult | Missing:
        text = for_pool(query, pool)
        return text if isinstance(text, Missing) else self._date(text)

    def _date(self, text: str) -> QueryResult | Missing:
        got = self.heard.queries[text]
        if isinstance(got, Missing) or got.evaluated is None:
            return got
        apart = abs(got.evaluated - self.now)
        if apart <= self.trusted_for:
            return got
        return Missing(
            f"Prometheus's clock and ours are {apart.total_seconds():.0f} s apart, so a reading cannot be dated: "
            "set both by NTP"
        )

    def _age(self) -> timedelta | Missing:
        """Of the newest sample that Prometheus has, by its own clock."""
        if not self.newest:
            return timedelta(0)
        got = self._date(self.newest)
        if isinstance(got, Missing):
            return Missing(f"how old the reading is cannot be told: {got.cause}")
        seconds = one_number(got) if got.series else _NOTHING_SCRAPED
        return seconds if isinstance(seconds, Missing) else timedelta(seconds=max(0.0, seconds))


def _queries(pool: Pool) -> Iterator[str]:
    yield from (pool.queries.cpu, pool.queries.memory, pool.queries.nodes, pool.queries.idle)
    yield from (source.query for source in pool.readings.values() if isinstance(source, demand.Prometheus))


def _query(prometheus: PrometheusClient | None, query: str, deadline: float) -> _Asking:
    def ask() -> _Answers:
        # What had to wait for a thread has less time left.
        left = timedelta(seconds=deadline - time.monotonic())
        return as_answers(prometheus.ask(query, left) if prometheus else _NO_PROMETHEUS)

    def as_answers(got: QueryResult | Missing) -> _Answers:
        return _Answers(queries={query: got})

    return _Asking("Prometheus", ask, as_answers)


def _load(
    prometheus: PrometheusClient, pool: str, query: str, between: tuple[datetime, datetime], deadline: float
) -> _Asking:
    def ask() -> _Answers:
        begin, end = between
        left = timedelta(seconds=deadline - time.monotonic())
        got = prometheus.ask_range(query, begin, end, left)
        return no_answer(got) if isinstance(got, Missing) else _Answers(load={pool: got})

    def no_answer(_: Missing) -> _Answers:
        return _Answers()  # the CPU reading of this iteration stands in for it, and the next look asks again

    return _Asking("Prometheus", ask, no_answer)


def _first_minute(known: datetime | None, now: datetime) -> datetime:
    """The first time to read: whole minutes before `now`, so that the last value is as fresh as can be. The newest
    known minute is read again: an iteration some seconds later sees more of it."""
    unknown = min(now - known, LOAD_HISTORY) if known else LOAD_HISTORY
    return now - max(0, unknown // _MINUTE) * _MINUTE


def _queue_metrics(sqs: SqsQueues | None, url: str, attributes: Sequence[str], now: datetime) -> _Asking:
    def ask() -> _Answers:
        return _Answers(queues={url: sqs.read(url, attributes, now)}) if sqs else no_answer(_NO_AWS)

    def no_answer(missing: Missing) -> _Answers:
        return _Answers(queues={url: dict.fromkeys(attributes, missing)})

    return _Asking("SQS", ask, no_answer)


def _metrics(
    cloudwatch: CloudWatchMetrics | None, sources: Sequence[demand.CloudWatch], now: datetime, back: timedelta
) -> _Asking:
    def ask() -> _Answers:
        if cloudwatch is None:
            return no_answer(_NO_AWS)
        return _Answers(metrics=[*zip(sources, cloudwatch.read(sources, now, back), strict=True)])

    def no_answer(missing: Missing) -> _Answers:
        return _Answers(metrics=[(source, missing) for source in sources])

    return _Asking("CloudWatch", ask, no_answer)


def _or_lost(asking: _Asking, result: _Answers | Exception, within: timedelta) -> _Answers:
    return asking.unanswered(_missing_after(asking.part, result, within)) if isinstance(result, Exception) else result


def _missing_after(part: str, problem: Exception, within: timedelta) -> Missing:
    if isinstance(problem, TimeoutError):
        return Missing(f"{part} gave no answer within {max(within.total_seconds(), 0):.3g} s")
    return Missing(f"{part} could not be asked: {type(problem).__name__}: {problem}")

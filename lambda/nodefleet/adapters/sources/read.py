"""All readings of an iteration, from all sources at the same time, under one deadline.

Entries that two pools share are read once. Never raises: a reading that is late or wrong is Missing with its cause, and
the decision treats it as unknown.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from nodefleet.adapters.concurrency import Threads
from nodefleet.adapters.prometheus import PrometheusClient, QueryResult, by_node, for_pool, is_empty, one_number
from nodefleet.adapters.sources.aws import CloudWatchMetrics, SqsQueues
from nodefleet.adapters.sources.github import GithubJobs
from nodefleet.adapters.sources.http_json import HttpDocuments, RabbitmqQueues
from nodefleet.adapters.sources.port import Moment, SourceAdapter, SourceCall, SourceLogins
from nodefleet.adapters.sources.redis import CeleryQueues, RedisKeys
from nodefleet.model.snapshot import Missing, PoolReadings, Reading, Sample
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Pool
from nodefleet.policy.sources import Celery, CloudWatch, Github, HttpJson, Prometheus, Rabbitmq, Redis, Source, Sqs

# ── adapters by kind ─────────────────────────────────────────────────────────────────────────────────────────────────
# The adapter of each kind of entry that a policy may read.


def adapters(
    client: Callable[[str], Any], logins: SourceLogins, warn: Callable[[str], None], *, may_change: bool
) -> Mapping[type[Source], SourceAdapter]:
    """`client` makes boto3's client of a service when it is needed. PromQL is read with the pools' own queries."""
    return {
        Sqs: SqsQueues(lambda: client("sqs")),
        CloudWatch: CloudWatchMetrics(lambda: client("cloudwatch")),
        Redis: RedisKeys(logins),
        Celery: CeleryQueues(logins),
        Rabbitmq: RabbitmqQueues(logins),
        Github: GithubJobs(logins, warn=warn, may_change=may_change),
        HttpJson: HttpDocuments(logins),
    }


# ── PromQL ───────────────────────────────────────────────────────────────────────────────────────────────────────────
# PromQL: CPU, memory, node count, load history and idle share of every pool, and the policy's own queries.
#
# Two pools that ask alike ask once. A reading has the time of the newest scrape, by the clock of Prometheus.


SERVICE = "Prometheus"
LOAD_HISTORY = timedelta(days=7, hours=8)  # by minute this is as much as Prometheus gives at once (11,000 points)
_MINUTE = timedelta(minutes=1)
_NO_PROMETHEUS = Missing("no Prometheus is known: give its address in the deployment, or in PROMETHEUS_URL")
_NOTHING_SCRAPED = Missing("Prometheus has scraped nothing for minutes: whatever it answers is out of date")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    queries: Mapping[str, QueryResult | Missing] = field(default_factory=dict)  # by PromQL
    load: Mapping[str, tuple[Reading, ...]] = field(default_factory=dict)  # by pool

    def __or__(self, other: "Answers") -> "Answers":
        return Answers(queries={**self.queries, **other.queries}, load={**self.load, **other.load})


@dataclass(frozen=True, slots=True)
class PromCall:
    """One query, and the answer that stands for it if none comes."""

    read: Callable[[], Answers]
    unanswered: Callable[[Missing], Answers]


def instant_calls(client: PrometheusClient | None, policy: Policy, moment: Moment) -> Iterator[PromCall]:
    asked = {for_pool(query, pool.name) for pool in policy.pools for query in _queries(pool)}
    texts = {each for each in asked if isinstance(each, str)}
    if client and client.newest:
        texts.add(client.newest)
    for query in sorted(texts):
        yield _instant(client, query, moment)


def load_calls(
    client: PrometheusClient | None, policy: Policy, moment: Moment, known: Mapping[str, datetime]
) -> Iterator[PromCall]:
    """The load minute by minute, since it was last known: `strategy: adaptive` learns from it."""
    now = moment.now
    for pool in policy.pools:
        query = for_pool(pool.queries.load, pool.name)
        if pool.strategy == "adaptive" and client and isinstance(query, str):
            yield _range(client, pool.name, query, (_first_minute(known.get(pool.name), now), now), moment)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampler:
    """The answers of one iteration, as readings with their sample times."""

    answers: Answers
    now: datetime
    trusted_for: timedelta
    newest: str  # the query for the age of the newest sample; empty: readings are as old as the iteration

    def sample(self, query: str, pool: str) -> Sample:
        got = self.answer(query, pool)
        if isinstance(got, Missing):
            return got
        value = one_number(got)
        age = self._age()
        if isinstance(value, Missing):
            # "No data" is a value of its own only while Prometheus is known to scrape.
            if isinstance(age, Missing) or not is_empty(got):
                return value
            return replace(value, empty_at=self.now - age)
        return age if isinstance(age, Missing) else Reading(value, self.now - age)

    def answer(self, query: str, pool: str) -> QueryResult | Missing:
        text = for_pool(query, pool)
        return text if isinstance(text, Missing) else self._with_sane_clock(text)

    def _with_sane_clock(self, text: str) -> QueryResult | Missing:
        got = self.answers.queries[text]
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
        got = self._with_sane_clock(self.newest)
        if isinstance(got, Missing):
            return Missing(f"how old the reading is cannot be told: {got.cause}")
        seconds = one_number(got) if got.series else _NOTHING_SCRAPED
        return seconds if isinstance(seconds, Missing) else timedelta(seconds=max(0.0, seconds))


def _queries(pool: Pool) -> Iterator[str]:
    yield from (pool.queries.cpu, pool.queries.memory, pool.queries.nodes, pool.queries.idle)
    yield from (source.query for source in pool.readings.values() if isinstance(source, Prometheus))


def _instant(client: PrometheusClient | None, query: str, moment: Moment) -> PromCall:
    def read() -> Answers:
        # A query that had to wait for a thread has less time left.
        return as_answers(client.ask(query, moment.left) if client else _NO_PROMETHEUS)

    def as_answers(got: QueryResult | Missing) -> Answers:
        return Answers(queries={query: got})

    return PromCall(read, as_answers)


def _range(
    client: PrometheusClient, pool: str, query: str, between: tuple[datetime, datetime], moment: Moment
) -> PromCall:
    def read() -> Answers:
        begin, end = between
        got = client.ask_range(query, begin, end, moment.left)
        return no_load(got) if isinstance(got, Missing) else Answers(load={pool: got})

    def no_load(_: Missing) -> Answers:
        return Answers()  # the CPU reading of this iteration stands in for it, and the next one asks again

    return PromCall(read, no_load)


def _first_minute(known: datetime | None, now: datetime) -> datetime:
    """The first time to read: whole minutes before `now`, so that the last value is as fresh as can be. The newest
    known minute is read again: an iteration some seconds later sees more of it."""
    unknown = min(now - known, LOAD_HISTORY) if known else LOAD_HISTORY
    return now - max(0, unknown // _MINUTE) * _MINUTE


def _ignore_warning(_: str) -> None:
    """Warnings go nowhere."""


class Sources:
    """`ports.MetricSources` on the real sources. An entry whose kind has no adapter here is Missing."""

    def __init__(
        self,
        *,
        prometheus: PrometheusClient | None = None,
        adapters: Mapping[type[Source], SourceAdapter] | None = None,
        warn: Callable[[str], None] = _ignore_warning,
        threads: Threads | None = None,
    ) -> None:
        self._prometheus = prometheus
        self._adapters = adapters or {}
        self._warn = warn
        self._warned: dict[str, str] = {}  # by pool, so that no warning is repeated while its cause stays
        self._threads = threads or Threads()

    def read(
        self, policy: Policy, now: datetime, within: timedelta, known: Mapping[str, datetime] | None = None
    ) -> Mapping[str, PoolReadings]:
        moment = Moment(
            now=now,
            deadline=time.monotonic() + within.total_seconds(),
            stale_after=policy.trust.stale_after,
            may_change=not any(pool.dry_run for pool in policy.pools),
        )
        queries = [
            *instant_calls(self._prometheus, policy, moment),
            *load_calls(self._prometheus, policy, moment, known or {}),
        ]
        calls = list(self._calls(policy, moment))
        reads: list[Callable[[], object]] = [*(each.read for each in queries), *(each.read for each in calls)]
        results = self._threads.within(within, reads)
        answers = Answers()
        for query, result in zip(queries, results, strict=False):
            if isinstance(result, Answers):
                answers |= result
            else:
                answers |= query.unanswered(_missing_after(SERVICE, result, within))
        samples = [
            pair
            for call, result in zip(calls, results[len(queries) :], strict=True)
            for pair in _samples(call, result, within)
        ]
        newest = self._prometheus.newest if self._prometheus else ""
        sampler = Sampler(answers=answers, now=now, trusted_for=policy.trust.stale_after, newest=newest)
        return {pool.name: self._pool(pool, sampler, samples) for pool in policy.pools}

    def _calls(self, policy: Policy, moment: Moment) -> Iterator[SourceCall]:
        by_kind: dict[type[Source], list[Source]] = {}
        for pool in policy.pools:
            for source in pool.readings.values():
                known = by_kind.setdefault(type(source), [])
                if source not in known:
                    known.append(source)
        for kind, entries in by_kind.items():
            if kind in self._adapters:
                yield from self._adapters[kind].calls(entries, moment)

    def _pool(self, pool: Pool, sampler: Sampler, samples: list[tuple[Source, Sample]]) -> PoolReadings:
        return PoolReadings(
            cpu=sampler.sample(pool.queries.cpu, pool.name),
            memory=sampler.sample(pool.queries.memory, pool.name),
            nodes=sampler.sample(pool.queries.nodes, pool.name),
            custom={name: _reading(source, pool, sampler, samples) for name, source in pool.readings.items()},
            load=sampler.answers.load.get(pool.name, ()),
            idle=self._idle(pool, sampler),
        )

    def _idle(self, pool: Pool, sampler: Sampler) -> Mapping[str, float]:
        """It only orders the candidates of a removal, so nothing waits for it; a warning says that it is missing."""
        got = sampler.answer(pool.queries.idle, pool.name)
        found = got if isinstance(got, Missing) else by_node(got)
        if not isinstance(found, Missing):
            self._warned.pop(pool.name, None)
            return found
        if self._warned.get(pool.name) != found.cause:
            self._warned[pool.name] = found.cause
            self._warn(f"pool {pool.name}: how idle each node is cannot be read: {found.cause}")
        return {}


def _reading(source: Source, pool: Pool, sampler: Sampler, samples: list[tuple[Source, Sample]]) -> Sample:
    if isinstance(source, Prometheus):
        return sampler.sample(source.query, pool.name)
    found = (sample for entry, sample in samples if entry == source)
    return next(found, Missing(f"{type(source).__name__} is not asked for readings here"))


def _samples(call: SourceCall, result: object, within: timedelta) -> Iterator[tuple[Source, Sample]]:
    if isinstance(result, list):
        yield from zip(call.entries, result, strict=True)
    else:
        missing = _missing_after(call.service, result, within)
        yield from ((entry, missing) for entry in call.entries)


def _missing_after(service: str, problem: object, within: timedelta) -> Missing:
    if isinstance(problem, TimeoutError):
        return Missing(f"{service} gave no answer within {max(within.total_seconds(), 0):.3g} s")
    return Missing(f"{service} could not be asked: {type(problem).__name__}: {problem}")

"""PromQL: CPU, memory, node count, load history and idle share of every pool, and the policy's own queries.

Two pools that ask alike ask once. A reading has the time of the newest scrape, by the clock of Prometheus.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from nodefleet.adapters.prometheus import PrometheusClient, QueryResult, for_pool, is_empty, one_number
from nodefleet.adapters.sources.port import Moment
from nodefleet.model.readings import Missing, Reading, Sample
from nodefleet.policy.cluster import Policy
from nodefleet.policy.demand import Prometheus
from nodefleet.policy.pool import Pool

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

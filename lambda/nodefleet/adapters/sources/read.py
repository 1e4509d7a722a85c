"""All readings of an iteration, from all sources at the same time, under one deadline.

Entries that two pools share are read once. Never raises: a reading that is late or wrong is Missing with its cause, and
the decision treats it as unknown.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta

from nodefleet.adapters.concurrency import Threads
from nodefleet.adapters.prometheus import PrometheusClient, by_node
from nodefleet.adapters.sources import promql
from nodefleet.adapters.sources.port import Moment, SourceAdapter, SourceCall
from nodefleet.model.readings import Missing, PoolReadings, Sample
from nodefleet.policy.cluster import Policy
from nodefleet.policy.demand import Prometheus, Source
from nodefleet.policy.pool import Pool


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
            *promql.instant_calls(self._prometheus, policy, moment),
            *promql.load_calls(self._prometheus, policy, moment, known or {}),
        ]
        calls = list(self._calls(policy, moment))
        reads: list[Callable[[], object]] = [*(each.read for each in queries), *(each.read for each in calls)]
        results = self._threads.within(within, reads)
        answers = promql.Answers()
        for query, result in zip(queries, results, strict=False):
            if isinstance(result, promql.Answers):
                answers |= result
            else:
                answers |= query.unanswered(_missing_after(promql.SERVICE, result, within))
        samples = [
            pair
            for call, result in zip(calls, results[len(queries) :], strict=True)
            for pair in _samples(call, result, within)
        ]
        newest = self._prometheus.newest if self._prometheus else ""
        sampler = promql.Sampler(answers=answers, now=now, trusted_for=policy.trust.stale_after, newest=newest)
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

    def _pool(self, pool: Pool, sampler: promql.Sampler, samples: list[tuple[Source, Sample]]) -> PoolReadings:
        return PoolReadings(
            cpu=sampler.sample(pool.queries.cpu, pool.name),
            memory=sampler.sample(pool.queries.memory, pool.name),
            nodes=sampler.sample(pool.queries.nodes, pool.name),
            custom={name: _reading(source, pool, sampler, samples) for name, source in pool.readings.items()},
            load=sampler.answers.load.get(pool.name, ()),
            idle=self._idle(pool, sampler),
        )

    def _idle(self, pool: Pool, sampler: promql.Sampler) -> Mapping[str, float]:
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


def _reading(source: Source, pool: Pool, sampler: promql.Sampler, samples: list[tuple[Source, Sample]]) -> Sample:
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

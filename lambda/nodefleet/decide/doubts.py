"""What stands against shrinking and is no load: workers that EC2, Kubernetes and Prometheus do not agree about, workers
that are not measured, and readings that cannot be had.

None of it freezes a fleet for ever in silence. A few workers in doubt hold the pool back for a while; then they are
left aside: they stay themselves, and the others go by the figures that there are. Many hold it back for as long as they
are many, since then it is the data that is wrong. Whatever holds a pool back for long is an alert.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from nodefleet.decide import inputs
from nodefleet.decide.case import Case
from nodefleet.decide.signals.votes import Opinion, Veto
from nodefleet.domain.alerts import AlertKind
from nodefleet.domain.decision import BoundSource
from nodefleet.domain.fleet import READY_OR_NEARLY, Phase, Worker
from nodefleet.domain.operations import Tell
from nodefleet.domain.readings import NOT_ASKED, Reading
from nodefleet.domain.wording import some

_DOUBTFUL = {
    Phase.UNREADY: "not ready",
    Phase.UNHEALTHY: "unhealthy",
    Phase.UNLISTED: "not listed by EC2",
    Phase.ORPHANED: "a node without a machine",
}
_TOLD_ELSEWHERE = frozenset(
    {Phase.UNHEALTHY, Phase.ORPHANED}
)  # they are replaced or cleaned up, with alerts of their own
_UTILISATION = (BoundSource.CPU, BoundSource.MEMORY)
_COUNT = "count"


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubts:
    sentences: tuple[str, ...]  # what forbids to shrink now
    unmeasured: frozenset[str]  # nodes that are in no figure, and stay
    since: Mapping[str, datetime]  # everything that is in doubt, and since when
    tells: tuple[Tell, ...]


def doubts(this: Case, opinions: Sequence[Opinion]) -> Doubts:
    doubtful = [worker for worker in this.workers if worker.phase in _DOUBTFUL]
    unmeasured = _unmeasured(this)
    count = _count(this, doubtful, unmeasured)
    vetoes = dict(_vetoes(this, opinions))
    keys = [
        *(_of_worker(worker) for worker in doubtful),
        *(_of_exporter(worker) for worker in unmeasured),
        *([_COUNT] if count else []),
        *map(_of_veto, vetoes),
    ]
    found = _Found(this, doubtful, unmeasured, count, vetoes)
    since = {key: this.before.doubtful.get(key, this.seen.at) for key in keys}
    held = dict(found.held_by(since))
    return Doubts(
        sentences=tuple(held.values()),
        unmeasured=frozenset(worker.name for worker in unmeasured),
        since=since,
        tells=(*found.blocked(held, since), *found.in_doubt(since)),
    )


@dataclass(frozen=True, slots=True)
class _Found:
    this: Case
    doubtful: Sequence[Worker]
    unmeasured: Sequence[Worker]
    count: str
    vetoes: Mapping[str, str]  # by signal

    @property
    def tolerated(self) -> int:
        """How many workers may be in doubt while the others shrink: one always."""
        return max(1, int(len(_ready(self.this)) * self.this.policy.trust.doubtful_percent / 100))

    def held_by(self, since: Mapping[str, datetime]) -> Iterator[tuple[str, str]]:
        """What forbids to shrink now: which doubt, and in words."""
        few = len(self.doubtful) <= self.tolerated
        for worker in self.doubtful:
            if not (few and self._lasted(since[_of_worker(worker)]) >= self.this.policy.trust.doubt_for):
                yield _of_worker(worker), f"{worker.name} is {_DOUBTFUL[worker.phase]}"
        if len(self.unmeasured) > self.tolerated:
            names = some(worker.name for worker in self.unmeasured)
            many = f"{len(self.unmeasured)} of {len(_ready(self.this))} workers are not measured ({names})"
            yield _of_exporter(self.unmeasured[0]), f"{many}, {self.tolerated} may be"
        if self.count:
            yield _COUNT, self.count

    def blocked(self, held: Mapping[str, str], since: Mapping[str, datetime]) -> Iterator[Tell]:
        """What has forbidden to shrink for long."""
        limit = self.this.policy.trust.blocked_after
        for signal, cause in self.vetoes.items():
            lasted = self._lasted(since[_of_veto(signal)])
            if lasted >= limit:
                text = f"{signal} has forbidden to shrink for {_minutes(lasted)}: {cause}."
                yield self._tell(AlertKind.SCALE_DOWN_BLOCKED, text, signal)
        longest = max((self._lasted(since[key]) for key in held), default=timedelta(0))
        if held and longest >= limit:
            text = f"Nothing may be removed for {_minutes(longest)}: {some(held.values(), '; ')}."
            yield self._tell(AlertKind.SCALE_DOWN_BLOCKED, text)

    def in_doubt(self, since: Mapping[str, datetime]) -> Iterator[Tell]:
        """Workers that people should look at, though the fleet goes on without them."""
        trust = self.this.policy.trust
        silent = [
            worker.name
            for worker in self.unmeasured
            if self._lasted(since[_of_exporter(worker)]) >= trust.unmeasured_after
        ]
        if silent:
            one = len(silent) == 1
            rest = "it, so it counts in none and is" if one else "them, so they count in none and are"
            text = (
                f"{some(silent)} {'is' if one else 'are'} ready and not measured: Prometheus has no figures of {rest} "
                "not removed."
            )
            yield self._tell(AlertKind.NODE_IN_DOUBT, text, *silent)
        for worker in self.doubtful:
            lasted = self._lasted(since[_of_worker(worker)])
            if worker.phase not in _TOLD_ELSEWHERE and lasted >= trust.blocked_after:
                text = f"{worker.name} has been {_DOUBTFUL[worker.phase]} for {_minutes(lasted)} and is not removed."
                yield self._tell(AlertKind.NODE_IN_DOUBT, text, worker.name)

    def _lasted(self, since: datetime) -> timedelta:
        return self.this.seen.at - since

    def _tell(self, alert: AlertKind, text: str, *subjects: str) -> Tell:
        return Tell(alert=alert, pool=self.this.pool.name, text=text, subjects=subjects)


def _ready(this: Case) -> list[Worker]:
    return [worker for worker in this.workers if worker.is_capacity and worker.phase in READY_OR_NEARLY]


def _unmeasured(this: Case) -> list[Worker]:
    """Workers that should have figures and have none. None if nobody can tell: no figure names any worker."""
    measured = this.readings.idle
    if not any(worker.name in measured for worker in this.workers):
        return []
    return [
        worker
        for worker in this.workers
        if worker.phase is Phase.READY and this.is_measurable(worker) and worker.name not in measured
    ]


def _count(this: Case, doubtful: Sequence[Worker], unmeasured: Sequence[Worker]) -> str:
    """Whether Prometheus sees the workers that Kubernetes has; those in doubt may be among them or not."""
    raw = this.readings.nodes
    if not _ready(this) or raw == NOT_ASKED:
        return ""
    seen = inputs.fresh(raw, None, this.policy.trust, this.seen.at)
    if not isinstance(seen, Reading):
        return f"worker count unknown: {seen.cause}"
    tolerance, covered = this.policy.trust.count_tolerance, this.look.covered
    least = covered - len(unmeasured) - sum(worker.phase in READY_OR_NEARLY for worker in doubtful)
    most = max(covered, sum(worker.node is not None for worker in this.workers))
    if least - tolerance <= seen.value <= most + tolerance:
        return ""
    return f"Prometheus sees {seen.value:g} workers, Kubernetes {covered}"


def _vetoes(this: Case, opinions: Sequence[Opinion]) -> Iterator[tuple[str, str]]:
    for opinion in opinions:
        # Where there is nothing to measure, CPU and memory are not unknown but none.
        nothing_to_measure = opinion.signal in _UTILISATION and not this.unreadable
        if isinstance(opinion.vote, Veto) and not nothing_to_measure:
            yield opinion.signal, opinion.vote.reason


def _of_worker(worker: Worker) -> str:
    return f"worker:{worker.id}"


def _of_exporter(worker: Worker) -> str:
    return f"exporter:{worker.id}"


def _of_veto(signal: str) -> str:
    return f"veto:{signal}"


def _minutes(lasted: timedelta) -> str:
    return f"{lasted.total_seconds() / 60:.0f} min"

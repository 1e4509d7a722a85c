"""What should come of a scenario, as its file says it: bounds on the figures, and moments that must be there.

Each field of `Expect` that is a bound has the name of the figure that it bounds; the checks are in `checking`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Action


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    at_least: float | None = None
    at_most: float | None = None

    def hold(self, value: float) -> bool:
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)

    def __str__(self) -> str:
        if self.at_least is not None and self.at_least == self.at_most:
            return f"exactly {self.at_least:g}"
        words = [("at least", self.at_least), ("at most", self.at_most)]
        return " and ".join(f"{word} {limit:g}" for word, limit in words if limit is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Against:
    """Compared with the fixed fleet of so many On-Demand workers that played the same load."""

    nodes: int
    saved_percent: Bounds | None = None
    no_more_violations: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A decision that must have been made between two times of day."""

    after: str
    before: str
    action: Action
    by: str | None = None  # the bound that set the target: predictive, pods, cpu, calm, min, replace, …
    to: int | None = None  # the number of nodes it went for


@dataclass(frozen=True, slots=True, kw_only=True)
class Expect:
    violation_minutes: Bounds | None = None
    success_percent: Bounds | None = None
    p99_wait_seconds: Bounds | None = None
    longest_pod_wait_seconds: Bounds | None = None
    decision_to_ready_seconds: Bounds | None = None
    healed_seconds: Bounds | None = None
    longest_drain_seconds: Bounds | None = None
    node_hours: Bounds | None = None
    usd: Bounds | None = None
    spot_percent: Bounds | None = None
    grows: Bounds | None = None
    shrinks: Bounds | None = None
    fewest_nodes: Bounds | None = None
    most_nodes: Bounds | None = None
    final_nodes: Bounds | None = None
    oldest_worker_days: Bounds | None = None
    warm_hours: Bounds | None = None
    against: tuple[Against, ...] = ()
    moments: tuple[Moment, ...] = ()
    never: tuple[Moment, ...] = ()  # and decisions that must not have been made
    nodes_at: Mapping[str, int] = field(default_factory=dict)  # workers that are ready at a time of day
    pods_at: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # and pods of each workload that run then
    told: Mapping[str, Bounds] = field(default_factory=dict)  # how often operators heard of something, by kind of event


EVENT_KINDS = tuple(kind.value for kind in AlertKind)

"""What a seed stands for. All of it is drawn at once, so a plan can be looked at, parts of it left out, and it can be
kept (`kept`): what a seed stands for changes with every widening of the draws, a plan that was kept does not.

Each seed has its own temper: some kinds of trouble do not occur in it at all, others often. A mixture of everything all
the time would hide what a single kind does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random

from nodefleet_tools.sim.chaos.fault_injection import Rates
from nodefleet_tools.sim.chaos.scene import Scene, drawn
from nodefleet_tools.sim.chaos.timing import TROUBLE, Incident
from nodefleet_tools.sim.chaos.widening import ALL, Widening, widened

__all__ = ["TROUBLE", "WEIGHTS", "Delivery", "Incident", "Plan"]

TRUSTED_SKEW = 5.0  # seconds that one clock may be wrong by (trust.clock_skew); two then differ by twice as much
_FEWEST, _MOST = 4, 26  # incidents in a seed

# What may happen, and how often one comes for the others. What each does is in `incidents`.
WEIGHTS: Mapping[str, int] = {
    # people
    "an operator cordons a node": 4,
    "an operator uncordons a node": 4,
    "an operator deletes a Node": 2,
    "an operator terminates an instance": 3,
    "an operator stops an instance": 1,
    "an operator launches an instance": 2,
    "an operator takes an instance's tags away": 1,
    "an operator changes min and max": 4,
    "an operator changes the pools": 1,
    "an operator declares a bad policy": 1,
    "an operator deploys a new template": 2,
    "an operator pauses": 2,
    "an operator scales": 3,
    "an operator breaks the role": 2,
    "an operator runs it on a laptop": 4,
    # EC2
    "EC2 takes a Spot instance": 9,
    "EC2 takes many Spot instances": 2,
    "EC2 recommends to rebalance": 1,
    "EC2 schedules a change": 2,
    "an instance dies": 4,
    "EC2 lacks capacity": 5,
    "EC2 has few left": 3,
    "the account's quota is reached": 2,
    "Spot gets dear": 1,
    "EC2 lists nothing": 2,
    # Kubernetes
    "a node falls silent": 6,
    "a node flaps": 3,
    "a workload is scaled": 14,
    "a workload's load changes": 6,
    "a budget changes": 4,
    "the master is restored": 2,
    # parts
    "EC2 is away": 2,
    "Kubernetes is away": 3,
    "DynamoDB is away": 3,
    "Prometheus is away": 3,
    "Prometheus stands still": 2,
    "a reading is missing": 2,
    "S3 is away": 1,
    # runs
    "an alert": 5,
    "several runs at once": 5,
}


_TEMPERS: Mapping[str, tuple[float, ...]] = {
    "fails_before": (0.0, 0.0, 0.01, 0.05),
    "fails_after": (0.0, 0.0, 0.01, 0.05),
    "throttled": (0.0, 0.0, 0.02),
    "slow": (0.0, 0.0, 0.005, 0.02),
    "stale": (0.0, 0.0, 0.05, 0.2),
    "killed": (0.0, 0.0, 0.003, 0.015),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """How well EventBridge does its work: shares of what it delivers."""

    ticks_lost: float = 0.0
    ticks_doubled: float = 0.0
    events_lost: float = 0.0
    events_late: float = 0.0
    events_doubled: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    seed: int
    scene: Scene = field(default_factory=Scene)
    rates: Rates = field(default_factory=Rates)
    skew: float = 0.0  # seconds by which a run's clock may be wrong, either way
    delivery: Delivery = field(default_factory=Delivery)
    incidents: tuple[Incident, ...] = ()
    concurrency: int = 0  # runs of one function at the same time; 0: any number
    look_takes: float = 0.0  # seconds that reading a cluster takes: a large one, or a slow API server
    revives: bool = True  # nodes that fell silent come back when the trouble is over
    clears_stopped: bool = True  # an operator clears away instances that were stopped by hand when the trouble is over

    @classmethod
    def of(cls, seed: int, widenings: Mapping[str, Widening] = ALL) -> "Plan":
        return widened(cls.plain(seed), widenings)

    @classmethod
    def plain(cls, seed: int) -> "Plan":
        """Without what is drawn beyond it (`widening`)."""
        random = Random(f"{seed}/plan")  # noqa: S311  # repeatable on purpose
        rates = Rates(**{name: random.choice(tempers) for name, tempers in _TEMPERS.items()})
        kinds, weights = zip(*WEIGHTS.items(), strict=True)
        number = random.randint(_FEWEST, _MOST)
        times = sorted(random.uniform(0, TROUBLE.total_seconds()) for _ in range(number))
        chosen = random.choices(kinds, weights, k=number)
        return cls(
            seed=seed,
            scene=drawn(Random(f"{seed}/scene")),  # noqa: S311  # repeatable on purpose
            rates=rates,
            skew=random.choice((0.0, 0.0, 2.0, TRUSTED_SKEW, TRUSTED_SKEW, 3 * TRUSTED_SKEW)),
            delivery=Delivery(
                ticks_lost=random.choice((0.0, 0.05, 0.2)),
                ticks_doubled=random.choice((0.0, 0.05, 0.2)),
                events_lost=random.choice((0.0, 0.1, 0.5)),
                events_late=random.choice((0.0, 0.1, 0.5)),
                events_doubled=random.choice((0.0, 0.1, 0.5)),
            ),
            incidents=tuple(
                Incident(number=index, after=after, kind=kind)
                for index, (after, kind) in enumerate(zip(times, chosen, strict=True))
            ),
        )

    def random(self, purpose: str) -> Random:
        return Random(f"{self.seed}/{purpose}")  # noqa: S311  # repeatable on purpose

    def without(self, *incidents: Incident) -> "Plan":
        return replace(self, incidents=tuple(each for each in self.incidents if each not in incidents))

"""The scaling policy: every number that a rule uses, with its unit, its default and the reason for it.

settings   what a field says about itself, for people, for checks and for editors
pool       how one pool scales
demand     the rules that turn a user's own readings into nodes
cluster    what holds for the whole cluster, and the pools
check      what makes a policy impossible, all of it at once
clashes    … by values that are fine alone and wrong together
presets    bundles of numbers that belong together
shape      how all of this looks to whoever walks it
"""

from nodefleet.domain.policy.adaptive import NODE_MINUTES, Adaptive, Announced
from nodefleet.domain.policy.cluster import Burst, Messages, Policy, Resting, Trust
from nodefleet.domain.policy.demand import (
    ClearTime,
    CloudWatch,
    DemandRule,
    JobDemand,
    PerWorkerQueue,
    Prometheus,
    QueueAndLatency,
    Sqs,
    Threshold,
)
from nodefleet.domain.policy.pool import (
    Benefit,
    Budgets,
    Cooldown,
    Health,
    Limits,
    MarketMix,
    Pool,
    Predictive,
    Queries,
    Reactive,
    RemovalRules,
    Rotation,
    Steps,
    Targets,
    Utilisation,
    Window,
)
from nodefleet.domain.policy.settings import Readings, Score, Sustain

__all__ = [
    "NODE_MINUTES",
    "Adaptive",
    "Announced",
    "Benefit",
    "Budgets",
    "Burst",
    "ClearTime",
    "CloudWatch",
    "Cooldown",
    "DemandRule",
    "Health",
    "JobDemand",
    "Limits",
    "MarketMix",
    "Messages",
    "PerWorkerQueue",
    "Policy",
    "Pool",
    "Predictive",
    "Prometheus",
    "Queries",
    "QueueAndLatency",
    "Reactive",
    "Readings",
    "RemovalRules",
    "Resting",
    "Rotation",
    "Score",
    "Sqs",
    "Steps",
    "Sustain",
    "Targets",
    "Threshold",
    "Trust",
    "Utilisation",
    "Window",
]

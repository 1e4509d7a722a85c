"""Workloads and the budgets over them, drawn by seed: everything that the disruption controller looks at."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Any

from nodefleet.model.workload import PodPhase, UnhealthyPodPolicy

Limit = Mapping[str, int | str]
LabelSelector = Mapping[str, Any]
DAEMON_NODES = 3  # where a DaemonSet's pods are


class Kind(Enum):
    DEPLOYMENT = "Deployment"
    REPLICA_SET = "ReplicaSet"
    STATEFUL_SET = "StatefulSet"
    REPLICATION_CONTROLLER = "ReplicationController"
    DAEMON_SET = "DaemonSet"
    JOB = "Job"
    BARE = "Pod"  # pods that nobody controls


class Start(Enum):
    AT_ONCE = "at-once"
    NEVER = "never"  # on its node, still pulling its image
    NO_NODE = "no-node"


class Rollout(Enum):
    STUCK = "stuck"  # the new pods never start
    DONE = "done"


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Pods of one template. What happens to them happens to the first, the next and so on, each to one at most."""

    name: str
    kind: Kind
    replicas: int
    labels: Mapping[str, str]
    start: Start = Start.AT_ONCE
    unready: int = 0
    going: int = 0  # deleted, and still there
    finished: tuple[PodPhase, ...] = ()
    still_ready: bool = False  # the finished ones keep their Ready condition, as with an instance that was lost
    marked: int = 0  # of the last ones: labelled by hand
    scaled_to: int | None = None
    rollout: Rollout | None = None
    lingers: bool = True  # a pod that was told to go stays to be seen
    owned_by: str = ""  # kind of a custom resource that a ReplicaSet belongs to

    @property
    def pods(self) -> int:
        if self.kind is Kind.DAEMON_SET:
            return 0 if self.start is Start.NO_NODE else DAEMON_NODES
        return self.replicas


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A budget. `first` is what it said before somebody changed it."""

    name: str
    limit: Limit
    selector: LabelSelector | None
    policy: UnhealthyPodPolicy | None = None
    first: Limit | None = None


@dataclass(frozen=True, kw_only=True)
class Case:
    name: str
    workloads: Sequence[Workload]
    budgets: Sequence[Wanted]


MARK = {"canary": "yes"}
_WEB: Mapping[str, str] = {"app": "web", "tier": "front"}
_EVERYBODY: LabelSelector = {}
_OF_WEB: LabelSelector = {"matchLabels": {"app": "web"}}
_SELECTORS: Sequence[tuple[int, LabelSelector | None]] = (
    (10, _OF_WEB),
    (3, {"matchLabels": {"app": "web", "tier": "front"}}),
    (3, {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "api"]}]}),
    (2, {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["back"]}]}),
    (1, {"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
    (1, {"matchExpressions": [{"key": "canary", "operator": "DoesNotExist"}]}),
    (2, {"matchLabels": MARK}),
    (1, {"matchLabels": {"app": "nobody"}}),
    (3, _EVERYBODY),
    (1, None),
)
_KINDS = {
    Kind.DEPLOYMENT: 6,
    Kind.REPLICA_SET: 4,
    Kind.STATEFUL_SET: 4,
    Kind.REPLICATION_CONTROLLER: 2,
    Kind.BARE: 3,
    Kind.DAEMON_SET: 1,
    Kind.JOB: 1,
}
_SHARES = (0, 1, 10, 25, 28, 30, 33, 34, 50, 66, 67, 75, 90, 99, 100)
_FINISHING = (Kind.DEPLOYMENT, Kind.REPLICA_SET, Kind.REPLICATION_CONTROLLER, Kind.BARE)
_SCALING = (Kind.DEPLOYMENT, Kind.REPLICA_SET, Kind.STATEFUL_SET, Kind.REPLICATION_CONTROLLER)


def drawn(seed: int) -> Case:
    random = Random(seed)  # noqa: S311  # repeatable on purpose
    count = random.choices((0, 1, 2, 3), (1, 10, 7, 2))[0]
    workloads = [_workload(random, f"w{number}") for number in range(count)]
    pods = sum(each.pods for each in workloads)
    count = random.choices((1, 2), (5, 1))[0]
    budgets = [_budget(random, f"b{number}", pods) for number in range(count)]
    return Case(name=f"seed-{seed}", workloads=workloads, budgets=budgets)


def _workload(random: Random, name: str) -> Workload:
    kind = random.choices(list(_KINDS), list(_KINDS.values()))[0]
    replicas = random.choice((0, 1, 2, 3, 3, 4, 5, 7))
    labels = {"app": random.choice(("web", "web", "web", "api")), "tier": random.choice(("front", "back"))}
    start = random.choices(list(Start), (14, 1, 1))[0]
    what: dict[str, Any] = {"name": name, "kind": kind, "replicas": replicas, "labels": labels, "start": start}
    what["marked"] = random.choice((0, 0, 0, 1, 2))
    if start is not Start.AT_ONCE:
        return Workload(**what)
    what["unready"] = random.choice((0, 0, 0, 1, 1, 2))
    what["going"] = random.choice((0, 0, 0, 0, 1, 2))
    if kind in _FINISHING and random.random() < 0.25:
        what["finished"] = tuple(random.choices((PodPhase.FAILED, PodPhase.SUCCEEDED), k=random.choice((1, 2))))
        what["still_ready"] = random.random() < 0.5
    if kind in _SCALING and random.random() < 0.2:
        what["scaled_to"] = random.choice((0, 1, 2, 6))
    if kind is Kind.DEPLOYMENT and random.random() < 0.3:
        what["rollout"] = random.choice(list(Rollout))
    return Workload(**what)


def _budget(random: Random, name: str, pods: int) -> Wanted:
    selector = random.choices([each for _, each in _SELECTORS], [weight for weight, _ in _SELECTORS])[0]
    policy = random.choice((None, *UnhealthyPodPolicy))
    first = _limit(random, pods) if random.random() < 0.15 else None
    return Wanted(name=name, limit=_limit(random, pods), selector=selector, policy=policy, first=first)


def _limit(random: Random, pods: int) -> Limit:
    field = random.choice(("minAvailable", "maxUnavailable"))
    if random.random() < 0.5:
        share = random.choice((random.choice(_SHARES), random.randrange(101)))
        return {field: f"{share}%"}
    return {field: random.choice((0, 1, 1, 2, 3, pods // 2, pods))}


def _of_one(name: str, limit: Limit, selector: LabelSelector | None = _OF_WEB, **what: Any) -> Case:
    workload = Workload(**{"name": "w", "kind": Kind.DEPLOYMENT, "replicas": 4, "labels": _WEB, **what})
    return Case(name=name, workloads=[workload], budgets=[Wanted(name="b", limit=limit, selector=selector)])


# One of these is evicted later.
EVICTED = _of_one("evicted-a-moment-ago", {"maxUnavailable": 2})
NAMED = (
    EVICTED,
    _of_one("stuck-rollout-counts-once", {"maxUnavailable": "50%"}, rollout=Rollout.STUCK),
    _of_one("done-rollout", {"maxUnavailable": 1}, rollout=Rollout.DONE, finished=(PodPhase.FAILED,)),
    _of_one("old-pod-left", {"maxUnavailable": 1}, rollout=Rollout.DONE, finished=(PodPhase.FAILED,), lingers=False),
    _of_one("scaled-to-nought-one-going", {"maxUnavailable": 1}, going=1, scaled_to=0),
    _of_one("scaled-to-nought-of-a-count", {"minAvailable": 0}, going=1, scaled_to=0),
    _of_one("no-replicas-at-all", {"minAvailable": "50%"}, replicas=0),
    _of_one("no-limit", {}),
    _of_one("no-selector", {"maxUnavailable": 1}, None),
    _of_one("part-of-a-workload", {"maxUnavailable": 1}, {"matchLabels": MARK}, marked=2),
    _of_one("daemons-by-count", {"minAvailable": 1}, kind=Kind.DAEMON_SET),
    _of_one("daemons-by-share", {"minAvailable": "10%"}, kind=Kind.DAEMON_SET),
    _of_one("job-by-count", {"minAvailable": 1}, kind=Kind.JOB),
    _of_one("job-by-max", {"maxUnavailable": 1}, kind=Kind.JOB),
    _of_one("bare-by-count", {"minAvailable": 1}, kind=Kind.BARE),
    _of_one("bare-by-share", {"minAvailable": "10%"}, kind=Kind.BARE),
    _of_one("set-of-a-custom-resource", {"maxUnavailable": "50%"}, kind=Kind.REPLICA_SET, owned_by="Rollout"),
    _of_one("set-of-another-deployment", {"maxUnavailable": "50%"}, kind=Kind.REPLICA_SET, owned_by="Deployment"),
    _of_one("finished-but-still-ready", {"minAvailable": 2}, finished=(PodPhase.FAILED,), still_ready=True),
    _of_one("all-unready", {"maxUnavailable": 1}, unready=4),
    _of_one("share-rounds-up", {"maxUnavailable": "26%"}, kind=Kind.STATEFUL_SET),
    _of_one("share-with-noughts-in-front", {"minAvailable": "007%"}, kind=Kind.STATEFUL_SET),
)


def all_cases(seeds: int) -> list[Case]:
    return [*NAMED, *(drawn(seed) for seed in range(seeds))]

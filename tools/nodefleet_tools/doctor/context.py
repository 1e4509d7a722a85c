"""The parts that are looked at, and what several checks need to know of them.

Every part is made when a check first asks for it: one that cannot be had is found by its own check and spoils no other.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Lock
from typing import Any, Generic, Protocol, TypeVar

from nodefleet.adapters.kubernetes.resources import Permission
from nodefleet.adapters.prometheus import QueryResult
from nodefleet.errors import MisconfiguredError
from nodefleet.model.inventory import Instance, Node
from nodefleet.model.snapshot import ClusterView, Deployment, Missing, PoolReadings
from nodefleet.policy.cluster import Policy
from nodefleet.ports import Cloud, History, MetricSources, Policies, State, Store
from nodefleet.reconcile.observe import resolve_policy
from nodefleet_tools.doctor.findings import UnknownError

T = TypeVar("T")
Other = TypeVar("Other")

READ_WITHIN = timedelta(seconds=10)


class Aws(Protocol):
    """What is used of the AWS session."""

    def client(self, service: str) -> Any: ...

    def skew(self) -> timedelta | None: ...


class Kubernetes(Protocol):
    """What is used of the API server's adapter."""

    def view(self) -> ClusterView: ...

    def server_version(self) -> str: ...

    def server_time(self) -> datetime: ...

    def missing_permissions(self) -> tuple[tuple[Permission, str], ...]: ...


class Queries(Protocol):
    """What is used of Prometheus's client."""

    def ask(self, query: str, within: timedelta) -> QueryResult | Missing: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Where to look. Whatever has to be made for it is made by the call."""

    cluster: str
    table: str
    bucket: str = ""
    slack_secret: str = ""
    session: Aws
    store: Callable[[], Store]
    history: Callable[[], History]
    cloud: Callable[[], Cloud]
    kubernetes: Callable[[], Kubernetes]
    prometheus: Callable[[], Queries | None]
    gauges: Callable[[], MetricSources]
    slack: Callable[[str], object]  # reads the secret of this name, and says what is wrong with it
    policies: Policies
    now: Callable[[], datetime]


class Fact(Generic[T]):
    """Found out once, when it is first needed. Its own check gets the error; the others learn that it is not known."""

    def __init__(self, unknown: str, find: Callable[[], T]) -> None:
        self._unknown = unknown  # said by the check that needed it
        self._find = find
        self._finding = Lock()
        self._known: list[T] = []
        self._problem: Exception | None = None

    def found(self) -> T:
        with self._finding:
            if self._problem:
                raise self._problem
            if not self._known:
                try:
                    self._known.append(self._find())
                except Exception as problem:
                    self._problem = problem
                    raise
            return self._known[0]

    def needed(self) -> T:
        try:
            return self.found()
        except Exception as problem:
            raise UnknownError(self._unknown) from problem

    def or_else(self, other: Other) -> T | Other:
        try:
            return self.found()
        except Exception:  # noqa: BLE001  # its own check tells it
            return other


class DoctorContext:
    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.state: Fact[State] = Fact("the table cannot be read", lambda: parts.store().state())
        self.policy: Fact[Policy] = Fact("the policy cannot be read", self._policy)
        self.instances: Fact[tuple[Instance, ...]] = Fact("EC2 lists no instances", lambda: parts.cloud().instances())
        self.kubernetes: Fact[Kubernetes] = Fact("Kubernetes does not answer", self._kubernetes)
        self.view: Fact[ClusterView] = Fact("what Kubernetes holds cannot be read", self._view)
        self.readings: Fact[Mapping[str, PoolReadings]] = Fact("the readings cannot be had", self._readings)

    def _policy(self) -> Policy:
        parts = self.parts
        rules = resolve_policy(self.state.found(), parts.policies, parts.now())
        if rules.hold:
            raise MisconfiguredError(rules.news[-1].text)
        return rules.policy

    def _kubernetes(self) -> Kubernetes:
        made = self.parts.kubernetes()
        made.server_version()  # connects
        return made

    def _view(self) -> ClusterView:
        return self.kubernetes.needed().view()

    def _readings(self) -> Mapping[str, PoolReadings]:
        return self.parts.gauges().read(self.policy.needed(), self.parts.now(), READ_WITHIN)

    def workers(self) -> Mapping[str, Sequence[Node]]:
        """Ready workers by pool, as Kubernetes has them; nothing if it does not say."""
        policy, view = self.policy.needed(), self.view.or_else(None)
        if view is None:
            return {}
        ready = [node for node in view.nodes if node.ready and not node.control_plane]
        return {pool.name: [node for node in ready if node.pool == pool.name] for pool in policy.pools}

    def client(self, service: str) -> Any:
        return self.parts.session.client(service)

    def deployment(self) -> Deployment:
        found = self.state.needed().deployment
        if found is None:
            raise UnknownError("there is no deployment record")
        return found

"""What `nodefleet doctor` looks at, in memory: a healthy shop whose parts can be made ill one by one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

from botocore.exceptions import ClientError

from nodefleet.adapters.kubernetes.resources import Permission
from nodefleet.adapters.prometheus import QueryResult, Series
from nodefleet.errors import UnavailableError
from nodefleet.model.decision import DecisionRecord, PolicyVersion
from nodefleet.model.inventory import Instance, InstanceType, Node
from nodefleet.model.snapshot import ClusterView, Deployment, LaunchTarget, Missing, PoolReadings, Reading
from nodefleet.policy.loading import PolicyReader, digest_of
from nodefleet.ports import State
from nodefleet_tools.doctor.context import DoctorContext, Parts
from nodefleet_tools.doctor.findings import Finding
from support.builders import CATALOG, NOON, instance, node

AWAY = UnavailableError("DynamoDB", "timed out")
SERVER = Instance(id="i-server", pool="", zone="a", launched_at=NOON, worker=False)
MASTER = Node(name="server", pool=None, instance="i-server", control_plane=True)
TARGET = LaunchTarget(template="lt-1", template_version="3", subnets={"a": "subnet-a", "b": "subnet-b"})


def refusal(code: str, message: str = "no", operation: str = "Call") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, operation)


def raising(error: Exception) -> Callable[..., Any]:
    def call(*_: Any, **__: Any) -> Any:
        raise error

    return call


def version(data: Mapping[str, Any], number: int = 1) -> PolicyVersion:
    return PolicyVersion(number=number, source="stack", at=NOON, data=data, digest=digest_of(data))


def series(*labels: Mapping[str, str], value: float = 1.0) -> QueryResult:
    return QueryResult(evaluated=NOON, series=tuple(Series(labels=each, value=value) for each in labels))


@dataclass
class Shop:
    """All parts of a healthy cluster with three workers. A test changes what it is about."""

    state: State | Exception = field(
        default_factory=lambda: State(policy=version({}), deployment=Deployment(cluster="shop", targets=(TARGET,)))
    )
    decisions: tuple[DecisionRecord, ...] = ()
    instances: tuple[Instance, ...] | Exception = (*map(instance, range(3)), SERVER)
    catalog: tuple[InstanceType, ...] = CATALOG
    view: ClusterView | Exception = field(
        default_factory=lambda: ClusterView(nodes=(*map(node, range(3)), MASTER), pods=())
    )
    version: str | Exception = "v1.34.4+k3s1"
    server_time: datetime = NOON
    lacking: tuple[tuple[Permission, str], ...] = ()
    readings: Mapping[str, PoolReadings] = field(
        default_factory=lambda: {
            "default": PoolReadings(
                cpu=Reading(48.0, NOON), memory=Reading(60.0, NOON), nodes=Reading(3.0, NOON), idle={"w000": 50.0}
            )
        }
    )
    answers: Mapping[str, QueryResult | Missing] | None = field(
        default_factory=lambda: {"vector(1)": series({})}  # by query; none: there is no Prometheus
    )
    clients: dict[str, Any] = field(default_factory=dict)  # boto3's, by service
    skew: timedelta | None = timedelta(0)
    bucket: str = "bucket"
    slack_secret: str = ""
    slack: Callable[[str], object] = lambda _: None
    now: datetime = NOON

    @property
    def patient(self) -> DoctorContext:
        kubernetes = SimpleNamespace(
            view=lambda: _or_raise(self.view),
            server_version=lambda: _or_raise(self.version),
            server_time=lambda: self.server_time,
            missing_permissions=lambda: self.lacking,
        )
        prometheus = None
        if self.answers is not None:
            answers = self.answers
            prometheus = SimpleNamespace(ask=lambda query, _: answers.get(query, series()))
        return DoctorContext(
            Parts(
                cluster="shop",
                table="table",
                bucket=self.bucket,
                slack_secret=self.slack_secret,
                session=SimpleNamespace(client=lambda service: self.clients[service], skew=lambda: self.skew),
                store=lambda: SimpleNamespace(state=lambda: _or_raise(self.state)),
                history=lambda: SimpleNamespace(decisions=lambda limit, *_: self.decisions[:limit]),
                cloud=lambda: SimpleNamespace(
                    instances=lambda: _or_raise(self.instances), catalog=lambda _: self.catalog
                ),
                kubernetes=lambda: kubernetes,
                prometheus=lambda: prometheus,
                gauges=lambda: SimpleNamespace(read=lambda *_: self.readings),
                slack=self.slack,
                policies=PolicyReader(),
                now=lambda: self.now,
            )
        )

    def found(self, check: Callable[[DoctorContext], Any]) -> list[str]:
        """What a check says, each with its sign."""
        return told(check(self.patient))

    def with_policy(self, **data: Any) -> "Shop":
        self.state = replace(self.state, policy=version(data))
        return self


def told(findings: Any) -> list[str]:
    return [_line(finding) for finding in findings]


def _line(finding: Finding) -> str:
    return f"{finding.verdict.value} {finding.found}{f' → {finding.fix}' if finding.fix else ''}"


def signs(lines: list[str]) -> str:
    """✓✗! of some lines."""
    return "".join(line[0] for line in lines)


def _or_raise(value: Any) -> Any:
    if isinstance(value, Exception):
        raise value
    return value

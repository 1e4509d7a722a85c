"""The one place where adapters meet the loop. Every part can be replaced by another, such as the simulation's.

A warm function keeps what is expensive to make (clients, connections, the catalogue of types) from run to run.
Libraries are imported where they are needed: `notify` never loads the Kubernetes client.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from nodefleet.adapters.clock import LambdaTime, utc_now
from nodefleet.adapters.concurrency import Threads
from nodefleet.adapters.redaction import Redactor
from nodefleet.adapters.telemetry import LambdaTelemetry
from nodefleet.errors import MalformedError, MisconfiguredError, NodeFleetError, UnavailableError
from nodefleet.model.inventory import InstanceType
from nodefleet.model.names import Metric
from nodefleet.model.snapshot import Deployment
from nodefleet.policy.cluster import Policy
from nodefleet.ports import Archive, Cloud, History, MetricSources, RunResult, Runtime, Store, Telemetry, Time
from nodefleet.reconcile.policy_source import resolve_policy
from nodefleet.settings import BUCKET, SLACK, Settings, settings_in

if TYPE_CHECKING:
    from nodefleet.adapters.aws.secrets import Secrets
    from nodefleet.adapters.aws.session import Session
    from nodefleet.adapters.kubernetes.cluster import ReconnectingCluster
    from nodefleet.adapters.prometheus import PrometheusClient
    from nodefleet.adapters.slack.webhook import Notifier
    from nodefleet.policy.loading import PolicyReader

KEPT_FOR = timedelta(hours=1)  # then a changed deployment is noticed by a warm function too


@cache
def settings() -> Settings:
    return settings_in(os.environ)


def now() -> datetime:
    return utc_now()


def owner(context: Any) -> str:
    """Who holds the lease: this invocation."""
    return str(context.aws_request_id)


# ── what all clusters of a function share ────────────────────────────────────────────────────────────────────────


class CurrentRun:
    """The run that is under way: what a warm part needs to know of it."""

    def __init__(self) -> None:
        self.telemetry: Telemetry | None = None
        self.time: Time | None = None

    def warn(self, message: str) -> None:
        if self.telemetry:
            self.telemetry.warn(message)

    def remaining(self) -> timedelta:
        """No call takes longer than what is left of the run, and so of its lease."""
        return self.time.remaining() if self.time else timedelta.max


@dataclass(frozen=True, slots=True)
class SharedClients:
    session: "Session"
    secrets: "Secrets"
    policies: "PolicyReader"
    redact: Redactor
    present: CurrentRun


@cache
def shared_clients() -> SharedClients:
    from nodefleet.adapters.aws.secrets import Secrets  # noqa: PLC0415
    from nodefleet.adapters.aws.session import Session  # noqa: PLC0415
    from nodefleet.policy.loading import PolicyReader  # noqa: PLC0415

    session, redact = Session(utc_now), Redactor()
    secrets = Secrets(session.client, learn=redact.learn)
    return SharedClients(session, secrets, PolicyReader(), redact, CurrentRun())


# ── one cluster ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterClients:
    """What a warm function keeps of a cluster."""

    cloud: Cloud
    cluster: "ReconnectingCluster"
    gauges: MetricSources
    made: datetime


@dataclass(slots=True)
class _Warm:
    clusters: dict[str, ClusterClients] = field(default_factory=dict)


_WARM = _Warm()


def forget() -> None:
    """As after a cold start. For tests, and for a process whose environment changes."""
    _WARM.clusters.clear()
    settings.cache_clear()
    shared_clients.cache_clear()


def store_of(cluster: str) -> Store:
    from nodefleet.adapters.dynamodb.store import DynamoStore  # noqa: PLC0415

    return DynamoStore(
        shared_clients().session.client("dynamodb"), settings().table, cluster, shared_clients().present.warn
    )


def history_of(cluster: str) -> History:
    from nodefleet.adapters.dynamodb.store import DynamoHistory  # noqa: PLC0415

    return DynamoHistory(
        shared_clients().session.client("dynamodb"), settings().table, cluster, shared_clients().present.warn
    )


def archive() -> Archive:
    from nodefleet.adapters.aws.archive import S3Archive  # noqa: PLC0415

    bucket = settings().bucket
    return S3Archive(lambda: shared_clients().session.client("s3"), bucket) if bucket else NoArchive()


class NoArchive:
    """There is no bucket: looks are not kept, and a decision cannot be replayed."""

    def keep(self, key: str, content: bytes) -> None:
        raise UnavailableError("S3", f"no bucket for {key} ({len(content)} bytes): set {BUCKET}")

    def fetch(self, key: str) -> bytes:
        raise UnavailableError("S3", f"no bucket to fetch {key} from: set {BUCKET}")


def cluster_clients(cluster: str, store: Store) -> ClusterClients:
    known = _WARM.clusters.get(cluster)
    if known and utc_now() - known.made < KEPT_FOR:
        return known
    try:
        deployment = store.state().deployment
    except NodeFleetError as error:
        if known:
            shared_clients().present.warn(f"The deployment's record cannot be read, going by what it was: {error}")
            return known
        # An interrupted node is drained all the same: its cluster's login has a name that needs no record.
        shared_clients().present.warn(f"The deployment's record cannot be read, going by names: {error}")
        return connect(Deployment(cluster=cluster), store)
    fresh = connect(deployment or Deployment(cluster=cluster), store)
    if deployment:
        _WARM.clusters[cluster] = fresh
    return fresh


def connect(deployment: Deployment, store: Store) -> ClusterClients:
    from nodefleet.adapters.aws.ec2 import Ec2  # noqa: PLC0415

    common = shared_clients()
    return ClusterClients(
        cloud=Ec2(common.session, deployment.cluster, deployment.prices, utc_now, common.present.warn),
        cluster=_kubernetes(deployment, store),
        gauges=_gauges(deployment),
        made=utc_now(),
    )


def _kubernetes(deployment: Deployment, store: Store) -> "ReconnectingCluster":
    from nodefleet.adapters.credentials import ApiLogin  # noqa: PLC0415
    from nodefleet.adapters.kubernetes.cluster import Connected, ReconnectingCluster  # noqa: PLC0415

    secrets = shared_clients().secrets
    secret = deployment.api_secret or settings().api_secret(deployment.cluster)

    known = deployment
    connected_before = False

    def connect() -> Connected:
        """The first time by the record that was just read; again, by what it says now."""
        nonlocal known, connected_before
        from nodefleet.adapters.kubernetes.client import CallLimits  # noqa: PLC0415
        from nodefleet.adapters.kubernetes.cluster import KubernetesCluster  # noqa: PLC0415  # loads the client

        login = secrets.login(secret, ApiLogin)
        if connected_before:
            known = _record_now(store, known)
        connected_before = True
        server = known.api_server or login.server
        if not server:
            raise MisconfiguredError(f"The API server's address is not configured: put it into secret {secret}")
        return KubernetesCluster.at(server, login.token, login.ca, CallLimits(left=shared_clients().present.remaining))

    return ReconnectingCluster(connect, lambda: secrets.refresh(secret))


def _record_now(store: Store, known: Deployment) -> Deployment:
    try:
        return store.state().deployment or known
    except NodeFleetError as error:
        shared_clients().present.warn(f"The deployment's record cannot be read, going by what it was: {error}")
        return known


def _gauges(deployment: Deployment) -> MetricSources:
    from nodefleet.adapters.sources.port import SourceLogins  # noqa: PLC0415
    from nodefleet.adapters.sources.read import Sources, adapters  # noqa: PLC0415

    common = shared_clients()
    logins = SourceLogins(common.secrets, settings().source_secrets(deployment.cluster))
    return Sources(
        prometheus=_prometheus(deployment),
        adapters=adapters(common.session.client, logins, common.present.warn, may_change=True),
        warn=common.present.warn,
    )


def _prometheus(deployment: Deployment) -> "PrometheusClient | None":
    from nodefleet.adapters.prometheus import PrometheusClient  # noqa: PLC0415

    if not deployment.prometheus:
        return None
    api_secret = deployment.api_secret or settings().api_secret(deployment.cluster)
    login, refresh = shared_clients().secrets.metrics_login(deployment.prometheus_secret, api_secret)
    return PrometheusClient(deployment.prometheus, login, refresh)


# ── what the handlers ask for ────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def parts(cluster: str, context: Any) -> Iterator[Runtime]:
    """Everything one run needs. Its metrics are written when it is over, however it ended."""
    with speaking(cluster, context) as telemetry:
        store = store_of(cluster)
        warm = cluster_clients(cluster, store)
        telemetry.calls = _since_now(warm)
        yield Runtime(
            cluster_id=cluster,
            time=LambdaTime(context),
            store=store,
            history=history_of(cluster),
            cloud=warm.cloud,
            cluster=warm.cluster,
            gauges=warm.gauges,
            archive=archive(),
            policies=shared_clients().policies,
            telemetry=telemetry,
            together=Threads(),
        )


def _since_now(warm: ClusterClients) -> Callable[[], int]:
    def calls() -> int:
        return shared_clients().session.calls() + warm.cluster.calls

    before = calls()
    return lambda: calls() - before


@contextmanager
def speaking(cluster: str, context: Any) -> Iterator[LambdaTelemetry]:
    """The telemetry of one invocation, flushed at its end."""
    common = shared_clients()
    telemetry = LambdaTelemetry(
        cluster=cluster,
        run=owner(context),
        calls=common.session.calls,
        redact=common.redact,
        opt_in=settings().opt_in,
        only_those=settings().only_those,
    )
    common.present.telemetry, common.present.time = telemetry, LambdaTime(context)
    try:
        yield telemetry
    finally:
        common.present.telemetry = common.present.time = None
        telemetry.flush()


def all_of(runs: Mapping[str, Callable[[], RunResult]]) -> dict[str, Any]:
    """What Lambda is answered. One cluster's trouble does not keep the others from their runs: it is raised at the end,
    so that the alarm fires and the event comes again."""
    said, errors = each_of(runs)
    raise_all(errors.values())
    return {"runs": said}


def each_of(runs: Mapping[str, Callable[[], RunResult]]) -> tuple[list[dict[str, Any]], dict[str, Exception]]:
    """What came of each cluster's run, and the errors of those that failed."""
    said, errors = [], {}
    for cluster, go in runs.items():
        try:
            ran = go()
        except Exception as error:  # noqa: BLE001  # raised or reported by the caller
            errors[cluster] = error
            continue
        said.append({"cluster": cluster, "held": bool(ran.held), "looks": ran.iterations, "did": list(ran.did)})
    return said, errors


def raise_all(errors: Iterable[Exception]) -> None:
    all_errors = list(errors)
    if len(all_errors) > 1:
        raise ExceptionGroup("several clusters' runs failed", all_errors)
    if all_errors:
        raise all_errors[0]


def some_failed(clusters: Mapping[str, Exception], messages: int, context: Any) -> None:
    """A part of a batch comes again: Lambda itself counts no error then."""
    for cluster, error in clusters.items():
        with speaking(cluster, context) as telemetry:
            telemetry.metric(Metric.FAILURES, 1)
            telemetry.warn(f"{messages} messages of the batch come again: {error}")


def set_aside(event: Any, error: MalformedError, context: Any) -> dict[str, Any]:
    """What cannot be understood is acknowledged, so that it does not come again for ever, and said."""
    with speaking("", context) as telemetry:
        telemetry.metric(Metric.MALFORMED, 1)
        telemetry.warn(f"Set aside: {error}", event=str(event)[:500])
    return {"ignored": str(error)}


def owners_of(instances: Sequence[str]) -> Mapping[str, frozenset[str]]:
    """The clusters of this deployment that these instances belong to, each with its own. While EC2 does not say, all of
    them look at all."""
    from nodefleet.adapters.aws.ec2 import clusters_of  # noqa: PLC0415

    clusters = settings().clusters
    try:
        tagged = clusters_of(shared_clients().session, instances)
    except NodeFleetError:
        return dict.fromkeys(clusters, frozenset(instances))
    own = {cluster: frozenset(each for each in instances if tagged.get(each) == cluster) for cluster in clusters}
    return {cluster: members for cluster, members in own.items() if members}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reporter:
    """What the weekly report is made of."""

    store: Store
    history: History
    policy: Policy
    catalog: tuple[InstanceType, ...]
    own_usd: Mapping[str, float]  # a month, as the deployment says
    now: datetime
    telemetry: Telemetry


@contextmanager
def reporter(cluster: str, context: Any) -> Iterator[Reporter]:
    from nodefleet.adapters.aws.ec2 import Ec2  # noqa: PLC0415

    with speaking(cluster, context) as telemetry:
        store, history = store_of(cluster), history_of(cluster)
        state = store.state()
        policy = resolve_policy(state, shared_clients().policies, utc_now()).policy
        prices = state.deployment.prices if state.deployment else {}
        types = tuple(dict.fromkeys(name for pool in policy.pools for name in pool.market.types))
        yield Reporter(
            store=store,
            history=history,
            policy=policy,
            catalog=_catalog(
                Ec2(shared_clients().session, cluster, prices, utc_now, shared_clients().present.warn), types
            ),
            own_usd=state.deployment.own_usd if state.deployment else {},
            now=utc_now(),
            telemetry=telemetry,
        )


def _catalog(cloud: Cloud, types: Sequence[str]) -> tuple[InstanceType, ...]:
    try:
        return cloud.catalog(types)
    except NodeFleetError as error:
        shared_clients().present.warn(f"Without what types offer the report advises less: {error}")
        return ()


@contextmanager
def notifier(context: Any) -> Iterator["Notifier"]:
    from nodefleet.adapters.credentials import SlackHook  # noqa: PLC0415
    from nodefleet.adapters.dynamodb.delivery_log import DynamoDeliveryLog, DynamoThreads  # noqa: PLC0415
    from nodefleet.adapters.dynamodb.records import event_in  # noqa: PLC0415
    from nodefleet.adapters.slack import webhook as slack  # noqa: PLC0415
    from nodefleet.adapters.slack.message import Links  # noqa: PLC0415

    if not settings().slack_secret:
        raise MisconfiguredError(f"{SLACK} is not set: name the secret that holds Slack's webhook")
    common = shared_clients()
    with speaking("", context) as telemetry:
        yield slack.notifier(
            hook=common.secrets.login(settings().slack_secret, SlackHook),
            # A retry comes with the same request id, and must not take back the claim of one that still runs.
            sent=DynamoDeliveryLog(common.session, settings().table, f"{owner(context)}-{uuid4().hex}"),
            event_in=event_in,
            links=lambda cluster: Links.of(store_of(cluster).state().deployment),
            time=LambdaTime(context),
            telemetry=telemetry,
            threads=DynamoThreads(common.session, settings().table),
        )

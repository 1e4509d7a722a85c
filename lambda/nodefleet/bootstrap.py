"""The one place where adapters meet the loop. Every part can be replaced by another, such as the simulation's.

A warm function keeps what is expensive to make (clients, connections, the catalogue of types) from run to run: a
`WarmFunction`, which the handlers own. Libraries are imported where they are needed: `notify` never loads the
Kubernetes client. What only `report` needs is in its handler.
"""

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from nodefleet.adapters.clock import LambdaTime, utc_now
from nodefleet.adapters.concurrency import Threads
from nodefleet.adapters.credentials import Redactor
from nodefleet.adapters.telemetry import LambdaTelemetry
from nodefleet.errors import MalformedError, MisconfiguredError, NodeFleetError, UnavailableError
from nodefleet.model.names import Metric, pluralize
from nodefleet.model.snapshot import Deployment, KnownPrices
from nodefleet.ports import (
    Archive,
    Cloud,
    History,
    MetricSources,
    RequestBudget,
    RunResult,
    Runtime,
    Store,
    Telemetry,
    Time,
)
from nodefleet.settings import BUCKET, SLACK, Settings, settings_in

if TYPE_CHECKING:
    from nodefleet.adapters.aws.instance_types import Answers
    from nodefleet.adapters.aws.secrets import Secrets
    from nodefleet.adapters.aws.session import Session
    from nodefleet.adapters.dynamodb.table import DynamoRegistry
    from nodefleet.adapters.kubernetes.cluster import ReconnectingCluster
    from nodefleet.adapters.prometheus import PrometheusClient
    from nodefleet.adapters.slack.webhook import Notifier
    from nodefleet.notifications.approvals import Approver
    from nodefleet.policy.loading import PolicyReader

KEPT_FOR = timedelta(hours=1)  # then a changed deployment is noticed by a warm function too
KEPT_CLUSTERS = 20  # that a warm function keeps the clients of: about 5 MB each


def now() -> datetime:
    return utc_now()


def time_of(context: Any) -> Time:
    """The clock of this invocation, and how long it may take."""
    return LambdaTime(context)


def owner(context: Any) -> str:
    """Who holds the lease: this invocation."""
    return str(context.aws_request_id)


# ── what a warm function keeps ───────────────────────────────────────────────────────────────────────────────────────


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterClients:
    """What a warm function keeps of a cluster."""

    cloud: Cloud
    cluster: "ReconnectingCluster"
    gauges: MetricSources
    region: str = ""  # empty: the functions' own
    made: datetime


class NoArchive:
    """There is no bucket: observations are not kept, and a decision cannot be replayed."""

    def keep(self, _key: str, _content: bytes, /) -> None:
        raise UnavailableError("S3", f"there is no bucket to keep it in: set {BUCKET}")

    def fetch(self, _key: str, /) -> bytes:
        raise UnavailableError("S3", f"there is no bucket to fetch it from: set {BUCKET}")


class WarmFunction:
    """What a function keeps from one invocation to the next: its settings, clients of AWS, and clients by cluster."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._environment = environment
        self.clusters: dict[str, ClusterClients] = {}
        self._elsewhere: dict[str, Session] = {}  # by region
        self._answers: dict[str, Answers] = {}  # by region: what EC2 said of instance types

    def forget(self) -> None:
        """As after a cold start. For tests, and for a process whose environment changes."""
        self.forget_settings()
        self._elsewhere.clear()
        self._answers.clear()
        self.__dict__.pop("shared", None)

    def forget_settings(self) -> None:
        """The settings are read again and the clusters connected again. The clients of AWS stay."""
        self.clusters.clear()
        self.__dict__.pop("settings", None)

    @cached_property
    def settings(self) -> Settings:
        return settings_in(self._environment)

    @cached_property
    def shared(self) -> SharedClients:
        from nodefleet.adapters.aws.secrets import Secrets  # noqa: PLC0415
        from nodefleet.adapters.aws.session import Session  # noqa: PLC0415
        from nodefleet.policy.loading import PolicyReader  # noqa: PLC0415

        session, redact = Session(utc_now), Redactor()
        secrets = Secrets(session.client, learn=redact.learn)
        return SharedClients(session, secrets, PolicyReader(), redact, CurrentRun())

    def session_in(self, region: str) -> "Session":
        """Calls to a cluster's own region. Table, secrets, queue and archive are in the functions' own."""
        from nodefleet.adapters.aws.session import Session  # noqa: PLC0415

        if region in ("", *map(self._environment.get, ("AWS_REGION", "AWS_DEFAULT_REGION"))):
            return self.shared.session
        return self._elsewhere.setdefault(region, Session(utc_now, region))

    # ── many clusters ────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def served(self) -> Collection[str]:
        """The clusters of this deployment: those that the environment names, or those of the registry."""
        return self.registry() if self.settings.registry else self.settings.clusters

    def registry(self) -> "DynamoRegistry":
        from nodefleet.adapters.dynamodb.table import DynamoRegistry  # noqa: PLC0415

        return DynamoRegistry(self.shared.session.client("dynamodb"), self.settings.table, self.shared.present.warn)

    def is_paused(self, cluster: str) -> bool:
        """An operator took it out of service for a while. Only a registry knows that."""
        known = self.registry().find(cluster) if self.settings.registry else None
        return known is not None and known.paused

    def queue_run(self, cluster: str) -> str:
        """An urgent run, in its cluster's turn. A run that is at work learns of it by the wake counter, at once."""
        from nodefleet.adapters.aws.errors import calling  # noqa: PLC0415

        self.store_of(cluster).wake()
        with calling("SQS"):
            self.shared.session.client("sqs").send_message(
                QueueUrl=self.settings.queue,
                MessageGroupId=cluster,
                MessageDeduplicationId=uuid4().hex,
                MessageBody=json.dumps({"cluster": cluster, "urgent": True}),
            )
        return cluster

    def looked_since(self, cluster: str, at: datetime) -> bool:
        """An iteration has observed the cluster after this time: whatever was said before has been looked at."""
        from nodefleet.reconcile.observe import resolve_policy  # noqa: PLC0415

        try:
            state = self.store_of(cluster).state()
            skew = resolve_policy(state, self.shared.policies, utc_now()).policy.trust.clock_skew
        except NodeFleetError:
            return False  # the run itself will say what is wrong
        looked = state.journal.memory.looked_at
        return looked is not None and looked > at + skew

    # ── one cluster ──────────────────────────────────────────────────────────────────────────────────────────────────

    def store_of(self, cluster: str) -> Store:
        from nodefleet.adapters.dynamodb.store import DynamoStore  # noqa: PLC0415

        return DynamoStore(
            self.shared.session.client("dynamodb"), self.settings.table, cluster, self.shared.present.warn
        )

    def history_of(self, cluster: str) -> History:
        from nodefleet.adapters.dynamodb.store import DynamoHistory  # noqa: PLC0415

        return DynamoHistory(
            self.shared.session.client("dynamodb"), self.settings.table, cluster, self.shared.present.warn
        )

    def request_budget(self, region: str) -> RequestBudget:
        from nodefleet.adapters.dynamodb.store import DynamoRequestBudget  # noqa: PLC0415

        return DynamoRequestBudget(self.shared.session.client("dynamodb"), self.settings.table, region=region)

    def archive(self) -> Archive:
        from nodefleet.adapters.aws.archive import S3Archive  # noqa: PLC0415

        bucket = self.settings.bucket
        return S3Archive(lambda: self.shared.session.client("s3"), bucket) if bucket else NoArchive()

    def cluster_clients(self, cluster: str, store: Store) -> ClusterClients:
        known = self.clusters.pop(cluster, None)
        if known:
            self.clusters[cluster] = known  # the last to be forgotten
        if known and utc_now() - known.made < KEPT_FOR:
            return known
        try:
            state = store.state()
        except NodeFleetError as error:
            if known:
                self.shared.present.warn(f"The deployment's record cannot be read, going by what it was: {error}")
                return known
            # An interrupted node is drained all the same: its cluster's login has a name that needs no record.
            self.shared.present.warn(f"The deployment's record cannot be read, going by names: {error}")
            return self.connect(Deployment(cluster=cluster), store)
        fresh = self.connect(state.deployment or Deployment(cluster=cluster), store, state.prices)
        if state.deployment:
            self.clusters[cluster] = fresh
            while len(self.clusters) > KEPT_CLUSTERS:
                self.clusters.pop(next(iter(self.clusters)))
        return fresh

    def connect(self, deployment: Deployment, store: Store, known: KnownPrices | None = None) -> ClusterClients:
        from nodefleet.adapters.aws.ec2 import Ec2  # noqa: PLC0415

        common, session = self.shared, self.session_in(deployment.region)
        return ClusterClients(
            cloud=Ec2(
                session,
                deployment.cluster,
                deployment.prices,
                utc_now,
                common.present.warn,
                known,
                answers=self._answers.setdefault(deployment.region, {}),
            ),
            cluster=self._kubernetes(deployment, store),
            gauges=self._gauges(deployment),
            region="" if session is common.session else deployment.region,
            made=utc_now(),
        )

    def _kubernetes(self, deployment: Deployment, store: Store) -> "ReconnectingCluster":
        from nodefleet.adapters.credentials import ApiLogin  # noqa: PLC0415
        from nodefleet.adapters.kubernetes.cluster import Connected, ReconnectingCluster  # noqa: PLC0415

        secrets = self.shared.secrets
        secret = deployment.api_secret or self.settings.api_secret(deployment.cluster)

        known = deployment
        connected_before = False

        def connect() -> Connected:
            """The first time by the record that was just read; again, by what it says now."""
            nonlocal known, connected_before
            from nodefleet.adapters.kubernetes.client import CallLimits  # noqa: PLC0415
            from nodefleet.adapters.kubernetes.cluster import KubernetesCluster  # noqa: PLC0415  # loads the client

            login = secrets.login(secret, ApiLogin)
            if connected_before:
                known = self._record_now(store, known)
            connected_before = True
            server = known.api_server or login.server
            if not server:
                raise MisconfiguredError(f"The API server's address is not configured: put it into secret {secret}")
            return KubernetesCluster.at(server, login.token, login.ca, CallLimits(left=self.shared.present.remaining))

        return ReconnectingCluster(connect, lambda: secrets.refresh(secret))

    def _record_now(self, store: Store, known: Deployment) -> Deployment:
        try:
            return store.state().deployment or known
        except NodeFleetError as error:
            self.shared.present.warn(f"The deployment's record cannot be read, going by what it was: {error}")
            return known

    def _gauges(self, deployment: Deployment) -> MetricSources:
        from nodefleet.adapters.sources.port import SourceLogins  # noqa: PLC0415
        from nodefleet.adapters.sources.read import Sources, adapters  # noqa: PLC0415

        common = self.shared
        logins = SourceLogins(common.secrets, self.settings.source_secrets(deployment.cluster))
        return Sources(
            prometheus=self._prometheus(deployment),
            adapters=adapters(self.session_in(deployment.region).client, logins, common.present.warn, may_change=True),
            warn=common.present.warn,
        )

    def _prometheus(self, deployment: Deployment) -> "PrometheusClient | None":
        from nodefleet.adapters.prometheus import PrometheusClient  # noqa: PLC0415

        if not deployment.prometheus:
            return None
        api_secret = deployment.api_secret or self.settings.api_secret(deployment.cluster)
        login, refresh = self.shared.secrets.metrics_login(deployment.prometheus_secret, api_secret)
        return PrometheusClient(deployment.prometheus, login, refresh)

    # ── what the handlers ask for ────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def runtime(self, cluster: str, context: Any) -> Iterator[Runtime]:
        """Everything one run needs. Its metrics are written when it is over, however it ended."""
        with self.telemetry(cluster, context) as telemetry:
            store = self.store_of(cluster)
            warm = self.cluster_clients(cluster, store)
            telemetry.calls = self._since_now(warm)
            yield Runtime(
                cluster_id=cluster,
                time=time_of(context),
                store=store,
                history=self.history_of(cluster),
                cloud=warm.cloud,
                cluster=warm.cluster,
                gauges=warm.gauges,
                archive=self.archive(),
                policies=self.shared.policies,
                telemetry=telemetry,
                together=Threads(),
                requests=self.request_budget(warm.region),
            )

    def _since_now(self, warm: ClusterClients) -> Callable[[], int]:
        def calls() -> int:
            sessions = (self.shared.session, *self._elsewhere.values())
            return sum(session.calls() for session in sessions) + warm.cluster.calls

        before = calls()
        return lambda: calls() - before

    @contextmanager
    def telemetry(self, cluster: str, context: Any) -> Iterator[LambdaTelemetry]:
        """The telemetry of one invocation, flushed at its end."""
        common = self.shared
        telemetry = LambdaTelemetry(
            cluster=cluster,
            run=owner(context),
            calls=common.session.calls,
            redact=common.redact,
            opt_in=self.settings.opt_in,
            only_those=self.settings.only_those,
        )
        common.present.telemetry, common.present.time = telemetry, time_of(context)
        try:
            yield telemetry
        finally:
            common.present.telemetry = common.present.time = None
            telemetry.flush()

    def some_failed(self, clusters: Mapping[str, Exception], messages: int, context: Any) -> None:
        """A part of a batch comes again: Lambda itself counts no error then."""
        for cluster, error in clusters.items():
            with self.telemetry(cluster, context) as telemetry:
                telemetry.metric(Metric.FAILURES, 1)
                telemetry.warn(
                    f"{pluralize(messages, 'message of the batch comes', 'messages of the batch come')} again: {error}"
                )

    def set_aside(self, event: Any, error: MalformedError, context: Any) -> dict[str, Any]:
        """What cannot be understood is acknowledged, so that it does not come again for ever, and said."""
        with self.telemetry("", context) as telemetry:
            telemetry.metric(Metric.MALFORMED, 1)
            telemetry.warn(f"Set aside: {error}", event=str(event)[:500])
        return {"ignored": str(error)}

    def owners_of(self, instances: Sequence[str], region: str = "") -> Mapping[str, frozenset[str]]:
        """The clusters of this deployment that these instances belong to, each with its own. While EC2 does not say,
        all of them examine all events, unless a registry has too many for that: then the event comes again."""
        from nodefleet.adapters.aws.ec2 import clusters_of  # noqa: PLC0415

        try:
            tagged = clusters_of(self.session_in(region), instances)
        except NodeFleetError:
            if self.settings.registry:
                raise
            return dict.fromkeys(self.settings.clusters, frozenset(instances))
        served, named = self.served, dict.fromkeys(tagged.values())
        owners = [cluster for cluster in (named if self.settings.registry else served) if cluster in served]
        own = {cluster: frozenset(each for each in instances if tagged.get(each) == cluster) for cluster in owners}
        return {cluster: members for cluster, members in own.items() if members}

    @contextmanager
    def notifier(self, context: Any) -> Iterator["Notifier"]:
        from nodefleet.adapters.credentials import SlackHook  # noqa: PLC0415
        from nodefleet.adapters.dynamodb.delivery_log import DynamoApprovals, DynamoDeliveryLog, DynamoThreads  # noqa: PLC0415
        from nodefleet.adapters.dynamodb.records import event_in  # noqa: PLC0415
        from nodefleet.adapters.slack import webhook as slack  # noqa: PLC0415
        from nodefleet.adapters.slack.message import Links  # noqa: PLC0415

        if not self.settings.slack_secret:
            raise MisconfiguredError(f"{SLACK} is not set: name the secret that holds Slack's webhook")
        common = self.shared
        with self.telemetry("", context) as telemetry:
            yield slack.notifier(
                hook=common.secrets.login(self.settings.slack_secret, SlackHook),
                # A retry comes with the same request id, and must not take back the claim of one that still runs.
                sent=DynamoDeliveryLog(common.session, self.settings.table, f"{owner(context)}-{uuid4().hex}"),
                event_in=event_in,
                links=lambda cluster: Links.of(self.store_of(cluster).state().deployment),
                time=time_of(context),
                telemetry=telemetry,
                threads=DynamoThreads(common.session, self.settings.table),
                approvals=DynamoApprovals(common.session, self.settings.table) if self.settings.approvers else None,
            )

    @contextmanager
    def approver(self, context: Any) -> Iterator["Approver"]:
        from nodefleet.adapters.credentials import SlackHook  # noqa: PLC0415
        from nodefleet.adapters.dynamodb.delivery_log import DynamoApprovals  # noqa: PLC0415
        from nodefleet.adapters.slack.web_api import SlackReactions  # noqa: PLC0415
        from nodefleet.notifications.approvals import Approver  # noqa: PLC0415
        from nodefleet.notifications.incoming import DeliveryLimits  # noqa: PLC0415

        hook = self.shared.secrets.login(self.settings.slack_secret, SlackHook)
        if hook.url:
            raise MisconfiguredError(
                "Approvals need a bot token: put token and channel into Slack's secret, and no url"
            )
        limits = DeliveryLimits()
        with self.telemetry("", context) as telemetry:
            yield Approver(
                approvals=DynamoApprovals(self.shared.session, self.settings.table),
                reactions=SlackReactions(hook, time_of(context), limits),
                orders=self.store_of,
                approvers=self.settings.approvers,
                limits=limits,
                telemetry=telemetry,
            )


# ── answers to Lambda ────────────────────────────────────────────────────────────────────────────────────────────────


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
